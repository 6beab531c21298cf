"""What is left to search on chip once the off-chip half of a mapping is fixed (Marvel).

A subspace is a product of *tilings*, one choice per dimension, and of loop orders that can differ
in cost. Two map spaces can be cut into subspaces: `MapSpace`, where the tile of the shared buffer
and the order of the loops above it are the off-chip half, and `OnChipSpace`, whose level-3 tile is
fixed already.

Source: Chatarasi et al., "Marvel", 2020, section 3.

Letters: n dimensions, N_d choices of dimension d, O orders, T tiles, B rows, D attributes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.maestro.mappings import TILED, P, Q
from costmodel.maestro.on_chip import CLUSTERS, ORDER, OnChipSpace
from costmodel.maestro.on_chip_tables import PERMUTATIONS
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from costmodel.problems.bits import check_words
from costmodel.problems.workload_families import cnn
from costmodel.tile_chains.lattice import divisors_of
from mapspace.errors import ConfigError

Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

SHARED = 1  # the level that the off-chip half fills
_TILES = 1 << 18  # looked at in one go


@dataclass(frozen=True)
class Pruning:
    """Marvel's strategies, as far as a map space leaves them open.

    Attributes:
        unroll_filter: R and S are not tiled. May lose the optimum.
        symmetry: where P and Q, R and S are alike, P runs outside Q. Keeps the optimum.
        utilisation_bound: least share of the processing elements in use.
    """

    unroll_filter: bool
    symmetry: bool
    utilisation_bound: float


@dataclass(frozen=True)
class Orders:
    """The orders that one attribute of a code may hold.

    Attributes:
        column: of the attribute.
        values: `[O]` what the attribute holds, most promising first.
        loops: `[O, n]` the dimensions, outermost first.
        matters: per dimension `[N_d]` whether its place can matter under a choice.
    """

    column: int
    values: Array
    loops: Array
    matters: tuple[npt.NDArray[np.bool_], ...]

    def distinct(self) -> npt.NDArray[np.bool_]:
        """`[2^n, O]` per set of dimensions that matter: no earlier order has them alike."""
        n = self.loops.shape[1]
        table = np.zeros((1 << n, len(self.loops)), bool)
        for mask in range(1 << n):
            seen = set()
            for row, loops in enumerate(self.loops.tolist()):
                alike = tuple(d for d in loops if mask >> d & 1)
                table[mask, row] = alike not in seen
                seen.add(alike)
        return table


@dataclass(frozen=True)
class Subspace:
    """The on-chip half of a map space.

    Attributes:
        workload: whose tensors `held` is a tile of.
        dimensions: `[n]` places of the dimensions in the workload; its others are not tiled.
        base: `[D]` the code whose other attributes all mappings share.
        choices: per dimension `[N_d]` values of its attribute; columns 0 to n - 1 hold them.
        spread: per dimension `[N_d]` how many ways a choice is spread over the array.
        held: per dimension `[N_d]` the extent that one processing element holds.
        orders: the attributes that hold orders; all combinations are searched.
        elements: processing elements.
        least_elements: how many of them have to work.
    """

    workload: Workload
    dimensions: tuple[int, ...]
    base: npt.NDArray[np.int32]
    choices: tuple[Array, ...]
    spread: tuple[Array, ...]
    held: tuple[Array, ...]
    orders: tuple[Orders, ...]
    elements: int
    least_elements: int

    def spreads(self) -> list[tuple[int, Array]]:
        """Ways to spread the dimensions over the array.

        Returns:
            (processing elements at work, `[V, n]` ways per dimension), descending.
        """
        vectors, products = np.ones((1, 0), np.int64), np.ones(1, np.int64)
        for spread in self.spread:
            ways = np.unique(spread)
            row, column = np.nonzero(products[:, None] * ways <= self.elements)
            vectors = np.column_stack([vectors[row], ways[column]])
            products = products[row] * ways[column]
        return [
            (int(used), vectors[products == used])
            for used in np.unique(products)[::-1]
            if used >= self.least_elements
        ]

    def tilings(self, vectors: Array) -> Array:
        """`[B, n]` rows of `choices`: all that are spread in one of the ways `[V, n]`."""
        parts = []
        for vector in vectors:
            rows = [
                np.flatnonzero(spread == ways)
                for spread, ways in zip(self.spread, vector, strict=True)
            ]
            parts.append(np.stack(np.meshgrid(*rows, indexing="ij"), axis=-1))
        return np.concatenate([part.reshape(-1, len(self.choices)) for part in parts])

    def combinations(self) -> Iterator[tuple[int, ...]]:
        """Rows of each of `orders`, most promising first."""
        return itertools.product(*(range(len(orders.values)) for orders in self.orders))

    def codes(self, tilings: Array, combination: Sequence[int]) -> npt.NDArray[np.int32]:
        """`[B, D]` the mappings of tilings `[B, n]` in one combination of orders."""
        codes = np.tile(self.base, (len(tilings), 1))
        for d, values in enumerate(self.choices):
            codes[:, d] = values[tilings[:, d]]
        for orders, row in zip(self.orders, combination, strict=True):
            codes[:, orders.column] = orders.values[row]
        return codes

    def that_matter(self, tilings: Array) -> Array:
        """`[m, B]` per attribute of `orders` the bit mask of the dimensions that matter."""
        return np.stack(
            [
                sum(
                    (matters[tilings[:, d]].astype(np.int64) << d)
                    for d, matters in enumerate(orders.matters)
                )
                for orders in self.orders
            ]
        )

    def traffic(self, tilings: Array, output_weight: float) -> FloatArray:
        """`[B]` weighted words per operation that an element's tile moves, whatever the order."""
        extents = np.tile(self.workload.sizes, (len(tilings), 1))
        for d, held in enumerate(self.held):
            extents[:, self.dimensions[d]] = held[tilings[:, d]]
        return movement(self.workload, extents, output_weight)


@dataclass(frozen=True)
class OffChip:
    """The tiles of the shared buffer that move least data, the best first.

    Attributes:
        tiles: `[T, n]`.
        movement: `[T]` weighted words per operation, if every tile moves all of its data.
        total: tiles that were looked at.
        fitting: how many of them fit.
    """

    tiles: Array
    movement: FloatArray
    total: int
    fitting: int


def movement(workload: Workload, tiles: npt.NDArray[Any], output_weight: float) -> FloatArray:
    """Words that a tile moves per operation: Marvel's measure, for blocks of one word.

    Args:
        workload: whose tensors.
        tiles: `[B, n]` extents.
        output_weight: what a word of outputs counts; Marvel's is 2.

    Returns:
        `[B]` weighted words per multiply-accumulate.
    """
    words = _words(workload, tiles)
    words[-1] *= output_weight
    moved: FloatArray = words.sum(axis=0) / tiles.prod(axis=1, dtype=np.float64)
    return moved


def off_chip(
    space: MapSpace, pruning: Pruning, *, buffering: int, output_weight: float, tiles: int
) -> OffChip:
    """The best tiles of the shared buffer among all that divide the workload: exhaustive.

    Args:
        space: the map space.
        pruning: whether R and S may be tiled.
        buffering: how often the buffer holds a tile; 2 while the next one is loaded.
        output_weight: what a word of outputs counts against one of inputs.
        tiles: how many to find. Equal ones: the first in ascending order of sizes wins.

    Raises:
        ConfigError: no tile fits; names the buffer, the smallest tile and what it lacks.
    """
    workload, level = space.workload, space.accelerator.levels[SHARED]
    check_words(workload, "the decoupled search")
    sizes = workload.sizes.tolist()
    whole = filter_dimensions(workload) if pruning.unroll_filter else set()
    options = [
        np.array([size] if d in whole else divisors_of(size), np.int64)
        for d, size in enumerate(sizes)
    ]
    shape = tuple(len(values) for values in options)
    total, fitting = math.prod(shape), 0
    kept, moved = np.empty((0, len(sizes)), np.int64), np.empty(0)
    least: tuple[int, Array] | None = None
    for start in range(0, total, _TILES):
        chosen = np.unravel_index(np.arange(start, min(start + _TILES, total)), shape)
        block = np.stack([v[i] for v, i in zip(options, chosen, strict=True)], axis=1)
        needed = buffering * _words(workload, block).sum(axis=0)
        if least is None or needed.min() < least[0]:
            least = int(needed.min()), block[int(needed.argmin())]
        block = block[needed <= (level.capacity_words or math.inf)]
        fitting += len(block)
        kept = np.concatenate([kept, block])
        moved = np.concatenate([moved, movement(workload, block, output_weight)])
        best = np.argsort(moved, kind="stable")[:tiles]
        kept, moved = kept[best], moved[best]
    if not fitting and least is not None:
        smallest = ", ".join(
            f"{name}={size}" for name, size in zip(workload.dimension_names, least[1], strict=True)
        )
        raise ConfigError(
            f"{workload.name} fits nowhere in {level.name} of {space.accelerator.name}: its "
            f"smallest tile ({smallest}) needs {least[0]:,} words, which is "
            f"{least[0] - (level.capacity_words or 0):,} more than its {level.capacity_words:,}."
        )
    return OffChip(kept, moved, total, fitting)


def loop_order(workload: Workload, tile: Array, output_weight: float) -> list[int]:
    """Dimensions by the slope of `movement` along the tile's sizes, the most negative innermost.

    Marvel, section 3.1: that is the loop whose longer tile would save most.
    """
    extents = tile.astype(np.float64)
    points = np.stack(
        [extents * (1 + 1e-6 * (d == np.arange(len(tile)))) for d in range(len(tile))]
    )
    here = movement(workload, extents[None], output_weight)[0]
    slopes = (movement(workload, points, output_weight) - here) / (1e-6 * extents)
    return sorted(range(len(tile)), key=lambda d: -float(slopes[d]))


def loop_nest_subspace(
    space: MapSpace, tile: Array, pruning: Pruning, *, output_weight: float
) -> Subspace:
    """The mappings of a map space whose shared buffer holds a tile.

    The loops above it run in `loop_order`; those of the innermost level in no particular order,
    which costs nothing. Every tensor is kept at every level.

    Args:
        space: a map space without banks or places of spatial loops to choose.
        tile: `[n]` extents that divide the workload.
        pruning: what to leave out.
        output_weight: as in `off_chip`.
    """
    t, n = space.tables, tile.size
    shared, inner = int(t.temporal_slot[SHARED]), int(t.temporal_slot[-1])
    spatial = [int(slot) for slot in t.spatial_slot if slot >= 0]
    between = range(SHARED, len(space.accelerator.levels) - 1)
    whole = filter_dimensions(space.workload) if pruning.unroll_filter else set()
    choices, factors, held = [], [], []
    for d in range(n):
        rows = slice(int(t.row_start[d]), int(t.row_start[d + 1]))
        fits = t.within[rows, shared] == tile[d]
        if d in whole:
            fits &= t.within[rows, inner] == tile[d]
        choices.append(np.flatnonzero(fits))
        factors.append(t.factors[rows][fits])
        held.append(t.within[rows, inner][fits])
    base = np.zeros(space.cardinality.size, np.int32)
    outer = loop_order(space.workload, tile, output_weight)
    base[t.order_column[:SHARED]] = _order_index(outer, t.orders)
    base[t.keep_column[t.keep_column >= 0]] = 2**t.sliding.size - 1
    loops = np.array(_reuse_orders(space.workload, outer, pruning.symmetry))
    values = np.array([_order_index(order, t.orders) for order in loops.tolist()])
    orders = tuple(
        Orders(
            int(t.order_column[level]),
            values,
            loops,
            tuple(factor[:, t.temporal_slot[level]] > 1 for factor in factors),
        )
        for level in between
    )
    elements = space.accelerator.processing_elements
    return Subspace(
        workload=space.workload,
        dimensions=tuple(range(n)),
        base=base,
        choices=tuple(choices),
        spread=tuple(factor[:, spatial].prod(axis=1) for factor in factors),
        held=tuple(held),
        orders=orders,
        elements=elements,
        least_elements=math.ceil(pruning.utilisation_bound * elements),
    )


def on_chip_subspace(space: OnChipSpace, pruning: Pruning) -> Subspace:
    """The mappings of a level-3 tile that pruning leaves; R and S are never tiled there.

    Args:
        space: the tile on its platform.
        pruning: what to leave out.
    """
    k, c, r, s, p, q = space.bounds
    symmetric = pruning.symmetry and (p, r) == (q, s)
    ranks = np.argsort(PERMUTATIONS, axis=1)
    loops = np.flatnonzero((not symmetric) | (ranks[:, P] < ranks[:, Q]))
    several = [
        bound > pairs.prod(axis=1) for bound, pairs in zip((k, c, p, q), space.pairs, strict=True)
    ]
    parallel = [pairs[:, 1] > 1 for pairs in space.pairs]
    # Where P or Q is parallel its place decides which halos the neighbours share.
    shared = [parallel[d] & (d in (P, Q)) for d in range(4)]
    elements = space.platform.processing_elements
    # Only guides the order of the enumeration: a depthwise tile counts its outputs once.
    tile = cnn(name="tile", N=1, K=k, C=c, P=p, Q=q, R=s, S=r, stride=space.layer.stride)
    return Subspace(
        workload=tile,
        dimensions=tuple(tile.dimension_names.index(name) for name in TILED),
        base=np.zeros(space.cardinality.size, np.int32),
        choices=tuple(np.arange(len(pairs)) for pairs in space.pairs),
        spread=tuple(pairs[:, 1] for pairs in space.pairs),
        held=tuple(pairs[:, 0] for pairs in space.pairs),
        orders=(
            Orders(
                ORDER,
                loops,
                PERMUTATIONS[loops],
                tuple(trips | halo for trips, halo in zip(several, shared, strict=True)),
            ),
            Orders(CLUSTERS, np.arange(len(PERMUTATIONS)), PERMUTATIONS, tuple(parallel)),
        ),
        elements=elements,
        least_elements=math.ceil(pruning.utilisation_bound * elements),
    )


def filter_dimensions(workload: Workload) -> set[int]:
    """Dimensions that slide a window over an input without moving the output: R and S."""
    output = set(workload.tensors[-1].dimensions)
    sliding = {
        name
        for tensor in workload.tensors[:-1]
        for axis in tensor.axes
        if len(axis.terms) > 1
        for name, _ in axis.terms
    }
    return {d for d, name in enumerate(workload.dimension_names) if name in sliding - output}


def _words(workload: Workload, tiles: npt.NDArray[Any]) -> FloatArray:
    """`[tensors, B]` words of each tensor that tiles `[B, n]` touch."""
    place = {name: d for d, name in enumerate(workload.dimension_names)}
    words = np.ones((len(workload.tensors), len(tiles)))
    for tensor, row in zip(workload.tensors, words, strict=True):
        for axis in tensor.axes:
            row *= 1 + sum(step * (tiles[:, place[name]] - 1) for name, step in axis.terms)
    return words


def _order_index(order: Sequence[int], orders: npt.NDArray[np.int8]) -> int:
    return int(np.flatnonzero((orders == np.array(order)).all(axis=1))[0])


def _reuse_orders(workload: Workload, outer: Sequence[int], symmetry: bool) -> list[list[int]]:
    """Orders that can differ in what they move, those like `outer` first.

    Dimensions that index the same tensors stand together, since apart they only move more; of
    those that slide a window any may be innermost, where overlaps save fetches.
    """
    names = workload.dimension_names
    indexed = [
        frozenset(t for t, tensor in enumerate(workload.tensors) if name in tensor.dimensions)
        for name in names
    ]
    sliding = {
        name
        for tensor in workload.tensors
        for axis in tensor.axes
        if len(axis.terms) > 1
        for name, _ in axis.terms
    }
    groups = list(dict.fromkeys(indexed[d] for d in outer))
    within = {group: [d for d in outer if indexed[d] == group] for group in groups}
    variants = {
        group: list(
            dict.fromkeys(
                (*(e for e in members if e != last), last)
                for last in (members[-1], *(d for d in members if names[d] in sliding))
            )
        )
        for group, members in within.items()
    }
    if symmetry:
        variants = {group: _halved(workload, options) for group, options in variants.items()}
    orders = [
        [d for part in parts for d in part]
        for chosen in itertools.permutations(groups)
        for parts in itertools.product(*(variants[group] for group in chosen))
    ]
    rank = {d: place for place, d in enumerate(outer)}
    # Inversions against `outer`: its own order first.
    return sorted(
        orders,
        key=lambda order: sum(rank[a] > rank[b] for a, b in itertools.combinations(order, 2)),
    )


def _halved(workload: Workload, options: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Without the orders with P innermost where those with Q innermost mirror them."""
    sizes, names = workload.dimensions, workload.dimension_names
    alike = workload.family == "cnn" and (sizes["P"], sizes["R"]) == (sizes["Q"], sizes["S"])
    kept = [option for option in options if not (alike and names[option[-1]] == "P")]
    return kept or options
