"""Floors of assignments, level by level: what enters the tiles of each level at least by itself.

Which tensors are kept may be searched, and then there are hundreds of sets of them. What enters a
level's tiles depends on what this level keeps and on the next level outwards that keeps it, and
these are few: so the least of every level is found once for all sets, and a set's floor is the sum
(lemma 11 of docs/inside/proof-any-levels.md).

Letters: L levels, n dimensions, T tensors, G sets of kept tensors, C rows of weights of a level, M
sets of tensors that a level keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.exact_any.assignments import Paths
from costmodel.exact_any.layout import OneOrder
from costmodel.tile_chains.chain import fill_jumps, fill_left
from costmodel.tile_chains.chain_arrays import Scratch, make_scratch
from costmodel.tile_chains.entering import (
    Around,
    Crossing,
    charge_moving,
    least_resting,
    open_dims,
)
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tables import products_inside
from costmodel.tile_chains.tiles import FloatArray, Tiles
from costmodel.tile_chains.weights import Weights, weights

BLOCK = 256
"""Assignments that are weighed at a time."""

MOST_BLOCKS = 64
"""So many of these are kept: half a megabyte each for three tensors and four levels."""


class Rows(NamedTuple):
    """What words that enter a level's tiles may cost, of the tensors that it keeps, and scratch.

    weight `[C, T]` pJ per word; kept those tensors, as bits; cells `[cells]` tiles with room for
    them that have one point in all dimensions that move none of them; largest what is added to
    such a cell for the largest extents in these; idle 1 where a loop over one of these may run
    outside some tile; words `[T]` and scratch are scratch.
    """

    weight: FloatArray
    kept: int
    cells: Array
    largest: int
    idle: int
    words: FloatArray
    scratch: Scratch


class KeptRows(NamedTuple):
    """The rows of a level for one set of tensors that it keeps: kept, as bits.

    which `[g]` the sets of kept tensors of all levels, row `[g]` the row of each; paths `[C, T]`
    whose weights make a row; cells as `Rows` have them; still `[n]` the dimensions that move none.
    """

    kept: int
    which: Array
    row: Array
    paths: Array
    cells: Array
    still: npt.NDArray[np.bool_]


@lean
def least_of_level(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    level: int,
    rows: Rows,
    least: FloatArray,
) -> None:
    """The least that words entering a level's tiles cost, by row, over all of its tiles.

    Args:
        shape: the operation.
        tiles: all cells, at every level.
        around: the spatial factors; its weights are not read.
        level: an inner one.
        rows: the weights.
        least: `[C]` filled; inf where no tile fits.
    """
    for c in range(least.size):
        least[c] = np.inf
    n, scratch = shape.sizes.size, rows.scratch
    fill_left(shape, around, level, scratch.left)
    fill_jumps(shape, around.spatial[level - 1], scratch.jump)
    for cell in rows.cells:
        i, j, d, all_trips = cell + rows.largest, 0, 0, 1.0
        while d < n:
            row = shape.divisor_start[d] + tiles.place[i, d]
            trips = scratch.left[row]
            if trips == 0:
                break
            scratch.trips[d] = trips
            all_trips *= trips
            j += scratch.jump[row]
            d += 1
        if d < n:
            continue
        crossing = Crossing(level, i, j, scratch.trips, all_trips)
        if all_trips == 1:
            for t in range(shape.sliding.size):
                rows.words[t] = tiles.words[i, t]
            _lower(rows, least)
            continue
        if rows.idle:
            _fill_entering(shape, tiles, around, crossing, -1, rows)
            _lower(rows, least)
        for kind in range(shape.class_rest.size):
            if open_dims(shape, kind, scratch.trips, 0):
                _fill_entering(shape, tiles, around, crossing, kind, rows)
                _lower(rows, least)


@part
def _fill_entering(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    crossing: Crossing,
    kind: int,
    rows: Rows,
) -> None:
    """The words that enter a tile at least where a loop of a class runs innermost outside.

    Class -1: a loop that moves nothing that is kept.
    """
    credit = around.credit[crossing.level - 1]
    for t in range(shape.sliding.size):
        if not (rows.kept >> t) & 1:
            continue
        if kind < 0 or (shape.class_rest[kind] >> t) & 1:
            place = tiles.place[crossing.outer]
            passes = least_resting(shape, t, place, crossing.trips, credit)
            rows.words[t] = tiles.words[crossing.inner, t] * passes
        else:
            slide = shape.class_slide[kind]
            rows.words[t] = charge_moving(shape, tiles, around, crossing, t, slide)


@part
def _lower(
    rows: Rows,
    least: FloatArray,
) -> None:
    """Lowers every row's least to what it charges for words."""
    for c in range(least.size):
        cost = 0.0
        for t in range(rows.words.size):
            if (rows.kept >> t) & 1:
                cost += rows.weight[c, t] * rows.words[t]
        least[c] = min(least[c], cost)


def _places(parts: Sequence[KeptRows], sets: int) -> Array:
    """`[2, G]` which rows of a level are those of a set of kept tensors, and which one of these."""
    found = np.zeros((2, sets), np.int64)
    for place, of in enumerate(parts):
        found[0, of.which], found[1, of.which] = place, of.row
    return found


class Apart:
    """The levels of an order of buffers, each by itself, for all sets of kept tensors."""

    def __init__(self, one: OneOrder, keeps: Sequence[tuple[int, ...]], choice: Array) -> None:
        """Finds out which sets of kept tensors are the same for a level.

        Args:
            one: the order.
            keeps: `[G]` kept tensors of every level, as bits.
            choice: `[A, L]` the vectors of assignments.
        """
        self._one, self._choice = one, choice
        shape, lattice = one.shape, one.lattice
        levels, tensors = len(keeps[0]), shape.sliding.size
        cells = shape.cells
        self._tiles = Tiles(
            start=np.zeros(levels + 1, np.int64),
            cell=np.arange(cells, dtype=np.int32),
            extent=lattice.extent,
            place=lattice.place,
            words=np.ascontiguousarray(lattice.words.T.astype(np.float64)),
            full=np.ones(cells, np.int8),
            at=np.tile(np.arange(cells, dtype=np.int32), (levels, 1)),
        )
        self._scratch = make_scratch(shape, 0)
        self._paths = Paths(keeps, tensors)
        self._rows = [self._rows_of(level) for level in range(1, levels)]
        self._places = np.array([_places(parts, len(keeps)) for parts in self._rows])
        self._least: dict[bytes, FloatArray] = {}
        # Of every assignment the rows' leasts, level by level and by what the level keeps; None
        # where no set of kept tensors that does so was looked at.
        self._leasts: dict[int, list[list[FloatArray | None]]] = {}
        self._blocks: dict[int, list[Weights]] = {}

    def _rows_of(self, level: int) -> list[KeptRows]:
        """The rows of an inner level, by what it keeps."""
        shape, lattice, paths = self._one.shape, self._one.lattice, self._paths
        kept = paths.bits[:, level]
        outside = paths.levels & ((1 << level) - 1)
        nearest = np.frexp(outside.astype(np.float64))[1]
        masks = (kept << np.arange(kept.shape[1])).sum(axis=1)
        found = []
        for mask in np.unique(masks).tolist():
            which = np.flatnonzero(masks == mask)
            of = np.where(kept[which] > 0, nearest[which], 0)
            _, first, row = np.unique(of, axis=0, return_index=True, return_inverse=True)
            still = ~(shape.relevant[kept[which[0]] > 0] > 0).any(axis=0)
            one_point = (lattice.place[:, still] == 0).all(axis=1)
            cells = np.flatnonzero(lattice.fits(level, mask) & one_point)
            row = row.reshape(-1)
            found.append(KeptRows(mask, which, row, paths.place[which[first]], cells, still))
        return found

    def _weights(self, a: int) -> tuple[FloatArray, Array]:
        """Weights `[paths, L + 1, T]` of an assignment, and `[L + 1, n]` its factors outside."""
        block, row = divmod(a, BLOCK)
        if block not in self._blocks:
            if len(self._blocks) == MOST_BLOCKS:
                self._blocks.clear()
            spatial = self._one.spreads.spatial(self._choice[block * BLOCK :][:BLOCK])
            space = self._one.space
            self._blocks[block] = [weights(space, keeps, spatial) for keeps in self._paths.keeps]
        found = self._blocks[block]
        return np.stack([each.weight[row] for each in found]), found[0].outer[row]

    def floors(
        self, a: int, wanted: npt.NDArray[np.bool_] | None = None
    ) -> Iterator[FloatArray | None]:
        """`[G]` pJ that words entering tiles cost at least, by set of kept tensors: at the end.

        Args:
            a: the assignment whose spatial factors these are.
            wanted: `[G]` the sets of kept tensors whose floors matter, others may have less; None:
                all do.

        Yields:
            None after every piece of work, at last the floors, without what no tile decides.
        """
        shape = self._one.shape
        spatial = self._one.spreads.spatial(self._choice[a : a + 1])[0]
        weight, outer = self._weights(a)
        # Outside all fan-outs the least serves every assignment.
        inner = np.where((outer[:-1] == 1).all(axis=1)[:, None], 1, products_inside(spatial))
        levels, tensors = len(inner), shape.sliding.size
        known = self._one.credits
        around = Around(
            np.ascontiguousarray(spatial), np.ascontiguousarray(outer), weight[0].copy(),
            *known.outwards(outer), known.ended_start, np.ascontiguousarray(inner),
            np.zeros((levels, tensors), np.int64), np.zeros(levels, np.int64),
            np.full(levels, np.inf),
        )  # fmt: skip
        total = np.zeros(len(self._paths.bits))
        leasts: list[list[FloatArray | None]] = []
        for level, parts in enumerate(self._rows, 1):
            leasts.append([])
            factors = np.concatenate([[level], outer[level - 1], outer[level], inner[level]])
            for of in parts:
                if wanted is not None and not wanted[of.which].any():
                    leasts[-1].append(None)
                    continue
                charged = np.ascontiguousarray(weight[of.paths, level, np.arange(tensors)])
                # What it hashes takes much more room than the least.
                hashed = factors.tobytes() + bytes([of.kept]) + charged.tobytes()
                key = blake2b(hashed, digest_size=24).digest()
                if key not in self._least:
                    rows = self._kept_rows(of, charged, outer[level], inner[level])
                    least = np.empty(len(charged))
                    least_of_level(shape, self._tiles, around, level, rows, least)
                    self._least[key] = least
                    yield None
                found = self._least[key]
                leasts[-1].append(found)
                total[of.which] += found[of.row]
        self._leasts[a] = leasts
        yield total

    def by_level(self, a: int, g: int) -> FloatArray:
        """`[L]` pJ that words entering each level's tiles cost at least, of what has floors.

        Args:
            a: the assignment whose spatial factors these are.
            g: the set of kept tensors.
        """
        found = np.zeros(len(self._rows) + 1)
        places = self._places[:, :, g].tolist()
        for level, (leasts, (place, row)) in enumerate(
            zip(self._leasts[a], places, strict=True), 1
        ):
            least = leasts[place]
            if least is not None:
                found[level] = least[row]
        return found

    def _kept_rows(self, of: KeptRows, charged: FloatArray, outer: Array, inner: Array) -> Rows:
        """The rows of one set of kept tensors under spatial factors outside and inside."""
        shape, largest, idle = self._one.shape, 0, False
        for d in np.flatnonzero(of.still).tolist():
            own = shape.divisors[shape.divisor_start[d] : shape.divisor_start[d + 1]]
            extent = int(shape.sizes[d] // outer[d])
            largest += int(np.searchsorted(own, extent) * shape.stride[d])
            idle = idle or extent > inner[d]
        words = np.zeros(len(charged[0]))
        return Rows(charged, of.kept, of.cells, largest, int(idle), words, self._scratch)
