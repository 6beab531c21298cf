"""From a tiling to mappings: its loop orders, what a code needs besides, and exact costs.

Letters: B mappings, D attributes of a code, L levels, n dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from costmodel.arrays.machine_tables import NETWORK_OF_CLASSES
from costmodel.arrays.projections import PART_OF_INPUT
from costmodel.arrays.tables import Array
from costmodel.compiled import lean
from costmodel.compiled.laid_out import laid_out
from costmodel.exact_any.handing import MACS
from costmodel.exact_any.known import Target
from costmodel.exact_any.order_codes import write_orders
from costmodel.exact_any.orders import Tiling, Wanted, make_places, search_orders
from costmodel.map_space import moves
from costmodel.map_space.constrained_tables import axes_code
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from costmodel.tile_chains.links import handed_on, has_links
from costmodel.tile_chains.places import MOST_TOGETHER, Places, group
from costmodel.tile_chains.ports import port_weights, ports
from costmodel.tile_chains.rules import Place, Rules
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import Weights, meshes, weights

# Orders that are costed at a time where the model alone can say what they cost.
BATCH = 512


class Assignment(NamedTuple):
    """Kept tensors (bits) and spatial factors `[L, n]` of all levels.

    computing: the cycles that the MACs take; leakage: pJ per cycle.
    """

    keeps: tuple[int, ...]
    spatial: Array
    computing: int
    leakage: float


class _Way(NamedTuple):
    """Some ways to lay spatial factors on the meshes, by level.

    hops: `[1, T]` twice those of a delivery, where all these places share them.
    """

    hops: dict[int, Array]
    places: dict[int, Sequence[Place]]


def is_linear(space: MapSpace) -> bool:
    """Whether energy is linear in the words that enter tiles, and cycles follow from the MACs."""
    machine = space.tables.machine
    rounded = bool((machine.block > 1).any())
    return not (rounded or machine.limited or machine.network.any() or has_links(space))


def _with_points(tiles: Array) -> Array:
    """`[L + 1, n]` tiles of all levels and of a MAC."""
    return np.concatenate([tiles, np.ones((1, tiles.shape[1]), np.int64)])


@lean
def fill_tiling(
    shape: Shape,
    tiles: Array,
    spatial: Array,
    weight: FloatArray,
    paid: bool,
    found: Tiling,
) -> None:
    """Fills a tiling as the search of its orders needs it.

    Args:
        shape: the operation.
        tiles: `[L, n]` extents of every level's tile.
        spatial: `[L, n]` factors below every level.
        weight: `[L + 1, T]` what a word that enters a tile costs.
        paid: whether words matter where they cost, which is to be filled.
        found: filled.
    """
    levels, n = tiles.shape
    for d in range(n):
        beyond = 1.0
        for level in range(levels):
            child = tiles[level + 1, d] if level + 1 < levels else 1
            found.tile[level, d] = tiles[level, d]
            found.step[level, d] = spatial[level, d] * child
            found.trips[level, d] = tiles[level, d] // found.step[level, d]
            found.beyond[level, d] = beyond
            beyond *= found.trips[level, d]
    for t in range(shape.sliding.size):
        for level in range(levels):
            words = 1.0
            for axis in range(shape.axis_start[t], shape.axis_start[t + 1]):
                places = 1
                for k in range(shape.term_start[axis], shape.term_start[axis + 1]):
                    inside = tiles[level, shape.term_dimension[k]] - 1
                    places += shape.term_coefficient[k] * inside
                words *= places
            found.words[level, t] = words
            found.weight[level, t] = weight[level, t]
            if paid:
                found.matters[level, t] = weight[level, t] > 0
        found.weight[levels, t] = weight[levels, t]


class Leaves:
    """Finds the best mappings of tilings."""

    def __init__(
        self, space: MapSpace, shape: Shape, rules: Rules, real: MapSpace | None = None
    ) -> None:
        """Makes scratch for a map space, of which rules may leave a part.

        Args:
            space: the map space.
            shape: its operation.
            rules: what is left of it.
            real: the one that codes are of, where MACs are a level of their own; None: the same.
        """
        self._real = space if real is None else real
        self._rules, self._ranks = rules, rules.ranks()
        self._space, self._shape = space, shape
        levels, tensors = space.tables.capacity.size, shape.sliding.size
        self._limited = ports(space)
        self._places = make_places(levels, tensors, len(self._limited))
        self._linear = is_linear(space)
        loops = levels * shape.sizes.size
        self._found = np.zeros((1 if self._linear else BATCH, max(1, loops)), np.int64)
        self._costs = np.zeros(len(self._found))
        self._assignment: Assignment | None = None
        self._depends: list[tuple[int, Array]] = []
        self._weights: dict[tuple[bytes, bytes], tuple[Weights, FloatArray]] = {}
        self._groups: dict[tuple[int, bytes], Places] = {}
        self._listed: dict[int, list[Place]] = {}
        self._cycles = np.zeros((0, levels, tensors)), np.zeros(0)
        columns = space.tables.spatial_axis_column, space.tables.spatial_order_column
        self._meshes = np.flatnonzero(np.maximum(*columns) >= 0).tolist()
        self._charged = meshes(space)

    def _weigh(
        self, assignment: Assignment, tiles: Array, hops: Mapping[int, Array]
    ) -> tuple[Weights, FloatArray]:
        """The weights of a tiling `[L, n]`; most tilings of an assignment share them.

        And `[L, T]` what a word costs more where neighbours hand on nothing of a tensor.
        """
        matter = b"".join(
            tiles[level, dims].tobytes() for level, dims in self._depends if level < len(tiles)
        )
        key = matter, b"".join(twice.tobytes() for twice in hops.values())
        if key not in self._weights:
            extents = _with_points(tiles)
            given = self._space, assignment.keeps, assignment.spatial[None], extents[None], hops
            found, more = weights(*given), np.zeros(self._tiling.more.shape)
            if self._tiling.links.any():
                all_of_it = weights(*given, links=False).weight[0]
                more = np.where(self._alone(assignment), (all_of_it - found.weight[0])[:-1], 0)
            self._weights[key] = found, np.maximum(0, more)
        return self._weights[key]

    def _alone(self, assignment: Assignment) -> Array:
        """`[L, T]` tiles that words may be handed on to across no other fan-out on their way."""
        links = self._tiling.links > 0
        found = links.copy()
        for level, t in np.argwhere(links).tolist():
            for outside in range(level - 1, 0, -1):
                if assignment.keeps[outside] >> t & 1:
                    break
                found[level, t] &= not links[outside, t]
        return np.asarray(found)

    def _links(self, assignment: Assignment) -> Array:
        """`[L, T]` where neighbours may hand on what enters tiles, as `Tiling` has it."""
        levels, tensors = len(assignment.keeps), self._shape.sliding.size
        links = np.zeros((levels, tensors), np.int64)
        handed = handed_on(self._space, assignment.spatial[None])
        if handed is not None:
            links[1:] = handed.may[0, :-1]
            if self._real is not self._space:
                links[-1] *= MACS
        return links

    def _take_up(self, assignment: Assignment) -> None:
        """Forgets what is known of another assignment."""
        if assignment is not self._assignment:
            self._assignment, self._weights, self._groups = assignment, {}, {}
            self._listed = {}
            self._depends = self._steps_that_matter(assignment.spatial)
            self._cycles = self._cycles_of(assignment)
            self._tiling = self._room(assignment)

    def _room(self, assignment: Assignment) -> Tiling:
        """Room for a tiling, and what all those of an assignment have."""
        levels, tensors = len(assignment.keeps), self._shape.sliding.size
        size = levels, self._shape.sizes.size
        tile, step, trips = np.zeros((3, *size), np.int64)
        matters = (
            np.zeros((levels, tensors), np.int64) if self._linear else self._matters(assignment)
        )
        said = Tiling(
            tile, step, trips, np.zeros(size), np.zeros((levels, tensors)),
            np.zeros((levels + 1, tensors)), matters, self._ranks, self._rough(assignment),
            self._links(assignment), np.zeros((levels, tensors)),
        )  # fmt: skip
        return laid_out(said)

    def _cycles_of(self, assignment: Assignment) -> tuple[FloatArray, FloatArray]:
        """Cycles of limited ports per word that enters a tile `[P, L, T]`, and `[P]` the others."""
        found = weights(self._space, assignment.keeps, assignment.spatial[None])
        cycles = port_weights(self._space, self._limited, assignment.keeps, found)
        return cycles.weight[:, 0, :-1].copy(), cycles.own[:, 0].sum(axis=1)

    def _steps_that_matter(self, spatial: Array) -> list[tuple[int, Array]]:
        """Levels and dimensions whose extents decide how many children share a word.

        Where several dimensions of one axis run across children, their steps may coincide.
        """
        shape, found = self._shape, []
        for level, factors in enumerate(spatial):
            for axis in range(shape.term_start.size - 1):
                terms = slice(shape.term_start[axis], shape.term_start[axis + 1])
                moving = shape.term_dimension[terms]
                if (factors[moving] > 1).sum() > 1:
                    found.append((level + 1, moving))
        return found

    def tiling(
        self, assignment: Assignment, tiles: Array, hops: Mapping[int, Array]
    ) -> tuple[Tiling, float]:
        """A tiling as the search of its orders needs it, and the energy that does not depend on it.

        It is written over by the next one.

        Args:
            assignment: what is kept and spread.
            tiles: `[L, n]` extents of every level's tile.
            hops: by level `[1, T]` twice the hops of a delivery, where they are known.
        """
        found, more = self._weigh(assignment, tiles, hops)
        self._tiling.more[:] = more
        fill_tiling(
            self._shape, tiles, assignment.spatial, found.weight[0], self._linear, self._tiling
        )
        return self._tiling, float(found.fixed[0])

    def _matters(self, assignment: Assignment) -> Array:
        """`[L, T]` 1 where the words that enter tiles matter: those kept, or carried some way."""
        tables, machine = self._space.tables, self._space.tables.machine
        tensors = np.arange(tables.sliding.size)
        kept: Array = np.array(assignment.keeps, np.int64)[:, None] >> tensors & 1
        # What passes a level by is delivered over the network outside as well.
        far = (assignment.spatial[:-1] > 1).any(axis=1) & (tables.hop_energy[:-1] > 0)
        carried = (machine.network[:-1] == NETWORK_OF_CLASSES) & (far | (machine.router[:-1] > 0))
        kept[1:] |= carried[:, None]
        return kept

    def _rough(self, assignment: Assignment) -> int:
        """Tensors, as bits, of which fewer words can cost more, as routers round (lemma 6b).

        They pass the children of a router by, or are written to memory outside the chip, which
        counts them but for what is new.
        """
        tables, machine = self._space.tables, self._space.tables.machine
        keeps, found = assignment.keeps, 0
        for level in np.flatnonzero(machine.router).tolist():
            spread = bool((assignment.spatial[level] > 1).any())
            for t in range(tables.sliding.size):
                passes = level + 1 < len(keeps) and not (keeps[level + 1] >> t) & 1
                again = spread and machine.dram[level] and tables.part_kind[t] != PART_OF_INPUT
                crosses = any((kept >> t) & 1 for kept in keeps[: level + 1])
                found |= int(crosses and (passes or bool(again))) << t
        return found

    def codes(
        self, assignment: Assignment, tiles: Array, target: Target, cycles: int
    ) -> list[Codes]:
        """Batches of mappings `[B, D]` of a tiling, the best of those below a target among them.

        Args:
            assignment: what is kept and spread.
            tiles: `[L, n]` extents of every level's tile.
            target: at these cycles; the model says what a mapping really costs.
            cycles: that every mapping takes at least.
        """
        self._take_up(assignment)
        return [
            codes
            for way in self._ways(assignment, tiles)
            for codes in self._placed(assignment, tiles, way, target, cycles)
        ]

    def _placed(
        self, assignment: Assignment, tiles: Array, way: _Way, target: Target, cycles: int
    ) -> Iterator[Codes]:
        """As `codes`, in some of the places on the meshes."""
        tiling, fixed = self.tiling(assignment, tiles, way.hops)
        wanted = Wanted(
            target.energy, float(cycles), target.power, target.most, fixed,
            float(assignment.computing), float(assignment.leakage),
            float(self._space.tables.machine.waiting), *self._cycles,
        )  # fmt: skip
        skip = 0
        while True:
            count = search_orders(
                self._shape, tiling, self._places, wanted, self._linear, skip,
                self._found, self._costs,
            )  # fmt: skip
            if count:
                yield self._codes(assignment, tiling, way, self._found[:count])
            if self._linear or count < BATCH:
                return
            skip += count

    def _ways(self, assignment: Assignment, tiles: Array) -> list[_Way]:
        """The ways to lay a tiling's spatial factors on the meshes: those that hops tell apart."""
        tables, ways = self._space.tables, [_Way({}, {})]
        for level in self._meshes:
            listed = self._arranged(level, assignment.spatial[level])
            # Where routers round, deliveries of as many hops may cost apart, and neighbours differ.
            most = None if tables.machine.router[level] > 0 or has_links(self._space) else 1
            if level not in self._charged:
                ways = [_Way(way.hops, way.places | {level: listed[:most]}) for way in ways]
                continue
            inside = _with_points(tiles)[level + 1]
            found = self._grouped(level, assignment.spatial[level], listed, inside)
            if len(found.members) * len(ways) > MOST_TOGETHER:
                ways = [_Way(way.hops, way.places | {level: listed}) for way in ways]
                continue
            ways = [
                _Way(way.hops | {level: twice[None]}, way.places | {level: members[:most]})
                for way in ways
                for twice, members in zip(found.twice, found.members, strict=True)
            ]
        return ways

    def _arranged(self, level: int, factors: Array) -> list[Place]:
        """All places on a mesh, the same for all tilings of an assignment."""
        if level not in self._listed:
            self._listed[level] = self._rules.arrangements(level, factors)
        return self._listed[level]

    def _grouped(self, level: int, factors: Array, listed: list[Place], inside: Array) -> Places:
        """Places on a mesh by their hops; most tilings of an assignment share them."""
        matter = [inside[dims].tobytes() for outside, dims in self._depends if outside == level + 1]
        key = level, b"".join(matter)
        if key not in self._groups:
            self._groups[key] = group(self._space, level, factors, listed, inside)
        return self._groups[key]

    def _codes(self, assignment: Assignment, tiling: Tiling, way: _Way, sequences: Array) -> Codes:
        """Codes of orders `[B, K]`, each in the places of a way on the meshes."""
        space, tables = self._real, self._real.tables
        levels, n = tables.capacity.size, tiling.tile.shape[1]
        code = np.zeros(space.cardinality.size, np.int32)
        factors = np.ones((n, tables.slot_level.size), np.int64)
        for level in range(levels):
            factors[:, tables.temporal_slot[level]] = tiling.trips[level]
            if tables.spatial_slot[level] >= 0:
                factors[:, tables.spatial_slot[level]] = assignment.spatial[level]
            if tables.keep_column[level] >= 0:
                code[tables.keep_column[level]] = assignment.keeps[level]
            if tables.banks_column[level] >= 0:
                code[tables.banks_column[level]] = self._banks(assignment, tiling, level)
        for d in range(n):
            code[d] = moves.find_row(tables, d, factors[d]) - tables.row_start[d]
        # Inside all others in any order that may be: it makes no difference.
        moving = tiling.trips > 1
        ranked = np.argsort(self._ranks[levels - 1], kind="stable")
        last = moving[levels - 1]
        inside = [*ranked[last[ranked]][::-1], *np.flatnonzero(~last)]
        code[tables.order_column[-1]] = moves.order_index(np.array(inside, np.int64))
        codes = np.repeat(code[None], len(sequences), axis=0)
        write_orders(sequences, moving, tables.order_column, codes, np.empty(n, np.int64))
        return self._on_meshes(assignment, way, codes)

    def _banks(self, assignment: Assignment, tiling: Tiling, level: int) -> int:
        """The bank allocation that holds a level's tiles; spare banks go to the last tensor."""
        tables = self._real.tables
        size = float(tables.bank_words[level])
        kept = assignment.keeps[level]
        banks = [
            int(-(-words // size)) if (kept >> t) & 1 else 1
            for t, words in enumerate(tiling.words[level] * tables.machine.room[level])
        ]
        banks[-1] += int(self._space.accelerator.levels[level].banks or 0) - sum(banks)
        return int(moves.allocation_row(tables, level, np.array(banks)))

    def _on_meshes(self, assignment: Assignment, way: _Way, codes: Codes) -> Codes:
        """Codes with axes and orders of spatial loops, in all places of a way."""
        tables = self._real.tables
        for level, places in way.places.items():
            factors = assignment.spatial[level]
            columns = tables.spatial_axis_column[level], tables.spatial_order_column[level]
            still = np.flatnonzero(factors == 1).tolist()
            choices = np.array(
                [
                    (
                        axes_code(tables, level, height, factors),
                        int(moves.order_index(np.array([*order, *still], np.int64))),
                    )
                    for height, order in places
                ]
            )
            repeated = np.repeat(codes, len(choices), axis=0)
            for column, chosen in zip(columns, choices.T, strict=True):
                if column >= 0:
                    repeated[:, column] = np.tile(chosen, len(codes))
            codes = repeated
        return codes
