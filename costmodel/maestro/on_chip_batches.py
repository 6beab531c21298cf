"""The on-chip mappings of a level-3 tile in batches: what pruning leaves, and what bounds exclude.

Letters: T tilings (a pair of level-1 tile and parallel factor per dimension), H heads (a tiling
with a nesting of its clusters), B mappings (a head with an order of its loops). A tiling's key is
16 x the bit mask of its parallel dimensions + that of its dimensions with several trips; equal keys
have equal nestings and orders that can differ in cost.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from costmodel.maestro.mappings import (
    NONE,
    PARALLEL,
    TILED,
    TILED_COLUMNS,
    UNLIMITED,
    BoolArray,
    C,
    ClusterMappings,
    IntArray,
    K,
    P,
    Q,
)
from costmodel.maestro.on_chip import OnChipSpace
from costmodel.maestro.on_chip_tables import PERMUTATIONS, RANKS
from costmodel.maestro.pruning import Dataflow, Pruning

_TILINGS = 1 << 18  # per chunk
_BATCH = 1 << 15  # mappings per evaluation


@dataclass(frozen=True)
class Heads:
    """Tilings with a nesting of their clusters.

    Attributes:
        tile: `[H, 4]` level-1 tiles.
        factor: `[H, 4]` parallel factors.
        parallel: `[H]` bit masks of the parallel dimensions.
        block: `[H]` rows of the walk's table of nestings with their orders.
    """

    tile: IntArray
    factor: IntArray
    parallel: IntArray
    block: IntArray

    def __len__(self) -> int:
        return len(self.block)

    def rows(self, index: npt.NDArray[np.intp] | slice) -> Heads:
        """The heads at an index."""
        return Heads(self.tile[index], self.factor[index], self.parallel[index], self.block[index])


class Walk:
    """Everything that pruning leaves of a space, or of one reference dataflow in it.

    Args:
        space: the mappings.
        pruning: what to leave out.
        dataflow: the only one to walk through; None for all mappings.
        nestings: whether the order of clusters can matter.

    Attributes:
        total: tilings in all.
        tilings: tilings looked at so far.
        fitting: those of them that pass.
        mappings: their mappings that can differ in cost.
        symmetric: whether mappings with P inside Q are left out.
    """

    def __init__(
        self, space: OnChipSpace, pruning: Pruning, dataflow: Dataflow | None, nestings: bool
    ) -> None:
        self.space, self.pruning, self.flow = space, pruning, dataflow
        self.tilings = self.fitting = self.mappings = 0
        self.row_stationary = (
            dataflow is not None and dataflow.row_stationary and space.bounds[2] > 1
        )
        self._pairs = list(space.pairs)
        if dataflow is not None:
            for d, name in enumerate(TILED):
                tile, factor = self._pairs[d].T
                keep = (tile == 1) | (name not in dataflow.single)
                keep &= (factor == 1) | (name in dataflow.parallel)
                self._pairs[d] = self._pairs[d][keep]
        self._shape = tuple(len(pairs) for pairs in self._pairs)
        self.total = math.prod(self._shape)
        self._bounds = np.array(space.bounds)[list(TILED_COLUMNS)]
        self._make_blocks(nestings)

    def chunks(self) -> Iterator[Heads]:
        """All heads that pass."""
        for start in range(0, self.total, _TILINGS):
            numbers = np.arange(start, min(start + _TILINGS, self.total))
            chosen = np.unravel_index(numbers, self._shape)
            rows = [pairs[index] for pairs, index in zip(self._pairs, chosen, strict=True)]
            tile = np.stack([row[:, 0] for row in rows], axis=1)
            factor = np.stack([row[:, 1] for row in rows], axis=1)
            fits = self._fits(tile, factor)
            tile, factor = tile[fits], factor[fits]
            trips = -(-self._bounds // (tile * factor))
            parallel = _mask(factor > 1)
            key = parallel * 16 + _mask(trips > 1)
            row, within = _spread_out(self._heads[key])
            block = self._first_head[key[row]] + within
            self.tilings += len(numbers)
            self.fitting += len(tile)
            self.mappings += int(self._orders[block].sum())
            yield Heads(tile[row], factor[row], parallel[row], block)

    def first(self, heads: Heads) -> Iterator[tuple[slice, ClusterMappings]]:
        """Every head in one order, in batches, with their places among the heads."""
        for start in range(0, len(heads), _BATCH):
            part = slice(start, min(start + _BATCH, len(heads)))
            some = heads.rows(part)
            yield part, self._mappings(some, self._first_order[some.block])

    def others(self, heads: Heads) -> Iterator[tuple[IntArray, ClusterMappings]]:
        """Heads in all of their other orders, in batches, with masks of parallel dimensions."""
        more = self._orders[heads.block] - 1
        ends = np.cumsum(more)
        for start in range(0, int(more.sum()), _BATCH):
            number = np.arange(start, min(start + _BATCH, int(ends[-1])))
            row = np.searchsorted(ends, number, side="right")
            within = number - (ends - more)[row]
            some = heads.rows(row)
            yield some.parallel, self._mappings(some, self._first_order[some.block] + 1 + within)

    def least_reads(self, heads: Heads) -> tuple[IntArray, IntArray]:
        """`[H]` inputs and weights that L2 reads at least, whatever the order, by MAESTRO's count.

        Each of the n = n_C n_P n_Q array tiles of the input is loaded at least once; the first as a
        whole, any other but for the pixels that it shares with the one before along one axis, P or
        Q, that has several trips. Weights: each once.
        """
        space = self.space
        _, _, r, s, _, _ = space.bounds
        array_tile = heads.tile * heads.factor
        trips = -(-self._bounds // array_tile)
        step_x, step_y = min(space.layer.stride, s), min(space.layer.stride, r)
        new_x, new_y = array_tile[:, P] * step_x, array_tile[:, Q] * step_y
        x = new_x + max(s - space.layer.stride, 0)
        y = new_y + max(r - space.layer.stride, 0)
        along_x = np.where(trips[:, P] > 1, new_x * y, x * y)
        along_y = np.where(trips[:, Q] > 1, x * new_y, x * y)
        further = trips[:, C] * trips[:, P] * trips[:, Q] - 1
        inputs = array_tile[:, C] * (x * y + further * np.minimum(along_x, along_y))
        weights = np.full(len(heads), int(self._bounds[K] * self._bounds[C]) * r * s)
        return inputs, weights

    def _mappings(self, heads: Heads, combination: IntArray) -> ClusterMappings:
        order, nested = self._combinations[combination].T
        nesting = PERMUTATIONS[nested][:, :PARALLEL]
        factors = np.take_along_axis(heads.factor, nesting, axis=1)
        dims = np.where(factors > 1, nesting, NONE)
        if self.row_stationary:
            dims[:, 0] = Q
        mappings = self.space.cluster_mappings(
            order=PERMUTATIONS[order],
            tile=heads.tile,
            parallel_dims=dims,
            parallel_factors=factors,
            row_stationary=self.row_stationary,
        )
        if self.pruning.finite_l1:
            return mappings
        return dataclasses.replace(mappings, l1_capacity=np.full(len(heads), UNLIMITED))

    def _fits(self, tile: IntArray, factor: IntArray) -> BoolArray:
        platform, rows = self.space.platform, self.space.bounds[2]
        used = factor.prod(axis=1) * (rows if self.row_stationary else 1)
        fits: BoolArray = (factor > 1).sum(axis=1) <= PARALLEL
        fits &= used <= platform.processing_elements
        fits &= used >= self.pruning.utilisation_bound * platform.processing_elements
        if self.pruning.finite_l1:
            held = self.space.footprint(tile, 1 if self.row_stationary else rows)
            fits &= 2 * held <= platform.l1_capacity
        return fits

    def _make_blocks(self, nestings: bool) -> None:
        """The nestings of every key, and the orders of every nesting."""
        _, _, r, s, p, q = self.space.bounds
        self.symmetric = self.pruning.symmetry and self.flow is None and (p, r) == (q, s)
        heads, orders, combinations = [], [], []
        for key in range(256):
            blocks = (
                _classes(key // 16, key % 16, self.symmetric, nestings)
                if self.flow is None
                else [[_fixed(self.flow, key // 16)]]
            )
            heads.append(len(blocks))
            orders += [len(block) for block in blocks]
            combinations += [pair for block in blocks for pair in block]
        self._heads: IntArray = np.array(heads, np.int64)
        self._first_head: IntArray = np.cumsum(self._heads) - self._heads
        self._orders: IntArray = np.array(orders, np.int64)
        self._first_order: IntArray = np.cumsum(self._orders) - self._orders
        self._combinations: IntArray = np.array(combinations, np.int64)


def _mask(flags: BoolArray) -> IntArray:
    mask: IntArray = (flags * (1 << np.arange(4))).sum(axis=1)
    return mask


def _spread_out(counts: IntArray) -> tuple[IntArray, IntArray]:
    """For every one of so many copies of each row: the row, and the copy's number."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)


@lru_cache(maxsize=1024)
def _classes(
    parallel: int, several: int, symmetric: bool, nestings: bool
) -> list[list[tuple[int, int]]]:
    """Per nesting one (order, nesting) per class of orders of equal cost.

    Args:
        parallel: bit mask of the parallel dimensions.
        several: bit mask of the dimensions with several trips.
        symmetric: only orders with P outside Q, where both matter.
        nestings: whether the order of clusters can matter.
    """
    blocks = []
    clusters = [d for d in range(4) if parallel >> d & 1]
    for nesting, dims in enumerate(PERMUTATIONS.tolist()):
        # The parallel dimensions come first, so that `PARALLEL` columns hold them.
        if sorted(dims[: len(clusters)]) != clusters or dims[len(clusters) :] != sorted(
            dims[len(clusters) :]
        ):
            continue
        outermost = 1 << dims[0] if clusters and dims[0] in (P, Q) else 0
        matters = [d for d in range(4) if (several | outermost) >> d & 1]
        block: dict[tuple[int, ...], tuple[int, int]] = {}
        for order, loops in enumerate(PERMUTATIONS.tolist()):
            behind = RANKS[order, P] > RANKS[order, Q]
            if symmetric and P in matters and Q in matters and behind:
                continue
            block.setdefault(tuple(d for d in loops if d in matters), (order, nesting))
        blocks.append(list(block.values()))
        if not nestings:
            break
    return blocks


def _fixed(flow: Dataflow, parallel: int) -> tuple[int, int]:
    """The (order, nesting) of a reference dataflow; dimensions of factor 1 innermost."""
    used = [name for name in flow.parallel if parallel >> TILED.index(name) & 1]
    rest = [name for name in TILED if name not in used]
    return _permutation(flow.order), _permutation([*used, *rest])


def _permutation(names: Sequence[str]) -> int:
    wanted = [TILED.index(name) for name in names]
    number: int = PERMUTATIONS.tolist().index(wanted)
    return number
