"""The on-chip mapping subspace of one level-3 tile (Marvel) as a search space of integer codes.

A mapping of a level-3 tile gives every dimension of `TILED` a level-1 tile and a parallel factor,
the loops between level-1 tiles an order, and the parallel dimensions an order of nesting. The
filter is not tiled and the batch is 1. Source: Chatarasi et al., "Marvel", 2020, section 3.2.

Letters: B mappings, D = 6 attributes, F features, N_d pairs of dimension d.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.costs import STATUS_CAPACITY, STATUS_FANOUT, STATUS_OK
from costmodel.machines.accelerators import Accelerator
from costmodel.maestro.distinct_blocks import DIMENSIONS, Layer
from costmodel.maestro.mappings import NONE, PARALLEL, TILED, BoolArray, ClusterMappings, IntArray
from costmodel.maestro.on_chip_tables import (
    PERMUTATIONS,
    RANKS,
    OnChipMapping,
    describe_row,
    move_tables,
)
from costmodel.maestro.platform import PlacedTile
from costmodel.space import Codes, check_cells, resampled
from mapspace.errors import ConfigError, ContractError

STATUS_PARALLEL = -2  # more parallel dimensions than clusters can nest
ORDER, CLUSTERS = 4, 5  # columns of a code, behind the four pairs
LEVEL_L1 = STATUS_CAPACITY + 1  # as in `MaestroCosts.status`


class OnChipSpace(PlacedTile):
    """All on-chip mappings of a level-3 tile on a platform.

    A code is `[D]`: per dimension of `TILED` the row of its table of (level-1 tile, parallel
    factor), then the lexicographic numbers of two permutations of `TILED`: the loop order,
    outermost first, and the nesting of parallel dimensions, outermost first. Of the nesting only
    the order among factors above 1 matters, so several codes may be one mapping.

    Feasible are mappings with at most three parallel dimensions, enough processing elements, and
    level-1 tiles that L1 holds twice. That the level-3 tile fits L2 is up to who chooses it.

    Arguments and further attributes are those of `PlacedTile`. With `remainders` only fidelity
    `corrected` can cost all mappings.

    Attributes:
        attribute_names: `[D]`.
        cardinality: `[D]` int64 values per attribute.
        feature_names: `[F]`.
        edit_choices: `[D]` int64 edits per attribute: 0 keeps; of a pair 1 to 4 take the next
            smaller or larger tile at the same factor, then factor at the same tile, and 5 and 6
            move elements from the tile to the factor and back; of a permutation 1 to 6 swap two
            dimensions.

    Raises:
        ConfigError: the tile does not divide the layer, or nothing fits, not even single elements.
    """

    attribute_names = (*(f"tile.{name}" for name in TILED), "order", "clusters")
    feature_names = (
        *(f"problem.{name}" for name in DIMENSIONS),
        *(f"{kind}.{n}" for kind in ("tile", "parallel", "rank", "cluster-rank") for n in TILED),
    )

    def __init__(
        self,
        layer: Layer,
        tile: Sequence[int],
        accelerator: Accelerator,
        *,
        remainders: bool = False,
    ) -> None:
        super().__init__(layer, tile, accelerator, remainders=remainders)
        self._moves = move_tables(self.pairs)
        self.cardinality: npt.NDArray[np.int64] = np.array([len(t) for t in self._moves], np.int64)
        self.edit_choices: npt.NDArray[np.int64] = np.array(
            [table.shape[1] for table in self._moves], np.int64
        )
        smallest = np.zeros((1, self.cardinality.size), np.int32)
        if not self.feasible(smallest)[0]:
            sizes = zip(DIMENSIONS, (1, 1, *self.bounds[2:4], 1, 1), strict=True)
            needed = 2 * int(self.l1_elements(smallest)[0])
            capacity = self.platform.l1_capacity
            raise ConfigError(
                f"{layer.name} fits nowhere: its smallest level-1 tile "
                f"({', '.join(f'{n}={v}' for n, v in sizes)}) needs {needed} words of the "
                f"{accelerator.levels[-1].name} buffer of {accelerator.name}, held twice, which is "
                f"{needed - capacity} more than its {capacity}."
            )

    def size(self) -> int:
        """Number of codes, infeasible ones included."""
        return math.prod(int(count) for count in self.cardinality)

    def sample(self, rng: np.random.Generator, n: int, *, feasible: bool = False) -> Codes:
        """`[n, D]` codes drawn uniformly, or uniformly among the feasible ones by rejection."""
        width = self.cardinality.size
        codes = rng.integers(0, self.cardinality, (n, width), dtype=np.int32)
        if not feasible:
            return codes
        found = codes[self.feasible(codes)]
        drawn = n
        while len(found) < n:
            share = max(len(found) / drawn, 1e-4)
            batch = min(int((n - len(found)) / share * 1.1) + 64, 1 << 18)
            codes = rng.integers(0, self.cardinality, (batch, width), dtype=np.int32)
            found = np.concatenate([found, codes[self.feasible(codes)]])
            drawn += batch
        return found[:n]

    def check(self, codes: npt.NDArray[Any]) -> None:
        """Refuses what is no batch of codes of this space.

        Raises:
            ContractError: wrong shape or type, or an index out of range; names the first bad cell.
        """
        check_cells(codes, self.cardinality, self.attribute_names, "codes")

    def status(self, codes: Codes) -> tuple[npt.NDArray[np.int32], IntArray]:
        """Status and excess of codes `[B, D]`, `[B]` each, without costs.

        The first that holds: -2 too many parallel dimensions, 1 too few processing elements, 3 the
        L1 buffer is too small (elements over).
        """
        self.check(codes)
        factors = self._pair_values(codes, 1)
        needs = (
            (STATUS_PARALLEL, (factors > 1).sum(axis=1), PARALLEL),
            (STATUS_FANOUT, factors.prod(axis=1), self.platform.processing_elements),
            (LEVEL_L1, 2 * self.l1_elements(codes), self.platform.l1_capacity),
        )
        status = np.zeros(len(codes), np.int32)
        excess = np.zeros(len(codes), np.int64)
        for code, needed, available in needs:
            over = (needed > available) & (status == STATUS_OK)
            status[over] = code
            excess[over] = needed[over] - available
        return status, excess

    def feasible(self, codes: Codes) -> BoolArray:
        """`[B]` whether the mappings of codes `[B, D]` can run."""
        good: BoolArray = self.status(codes)[0] == STATUS_OK
        return good

    def l1_elements(self, codes: Codes) -> IntArray:
        """`[B]` elements that a processing element's tile touches, each tensor once."""
        return self.footprint(self._pair_values(codes, 0), self.bounds[2])

    def mappings(self, codes: Codes) -> ClusterMappings:
        """The cluster mappings of codes `[B, D]`; dimensions of factor 1 make no cluster.

        Raises:
            ContractError: no codes of this space, or one with four parallel dimensions.
        """
        self.check(codes)
        nesting = PERMUTATIONS[codes[:, CLUSTERS]]
        factors = np.take_along_axis(self._pair_values(codes, 1), nesting, axis=1)
        used = np.argsort(factors == 1, axis=1, kind="stable")
        nesting = np.take_along_axis(nesting, used, axis=1)
        factors = np.take_along_axis(factors, used, axis=1)
        if (factors[:, PARALLEL:] > 1).any():
            row = int(np.flatnonzero(factors[:, PARALLEL] > 1)[0])
            raise ContractError(f"Row {row}: expected at most {PARALLEL} parallel dimensions.")
        factors = factors[:, :PARALLEL]
        return self.cluster_mappings(
            order=PERMUTATIONS[codes[:, ORDER]],
            tile=self._pair_values(codes, 0),
            parallel_dims=np.where(factors > 1, nesting[:, :PARALLEL], NONE),
            parallel_factors=factors,
        )

    def describe(self, code: Codes) -> OnChipMapping:
        """The mapping of a feasible code `[D]` for people."""
        return describe_row(self.mappings(code[None]), 0)

    def mutate(self, rng: np.random.Generator, codes: Codes, *, steps: int = 1) -> Codes:
        """`[B, D]` each row after `steps` random edits; now and then one changes nothing."""
        self.check(codes)
        moved = codes.astype(np.int32)
        choices = self.edit_choices - 1
        edits = [(d, edit) for d, count in enumerate(choices) for edit in range(1, count + 1)]
        kinds = np.array([edit for edit in edits if self.cardinality[edit[0]] > 1])
        for _ in range(steps):
            picked = kinds[rng.integers(0, len(kinds), len(moved))]
            for d, table in enumerate(self._moves):
                rows = np.flatnonzero(picked[:, 0] == d)
                reached = table[moved[rows, d], picked[rows, 1]]
                moved[rows, d] = np.where(reached < 0, moved[rows, d], reached)
        return moved

    def resample(
        self, rng: np.random.Generator, codes: Codes, mask: npt.NDArray[np.bool_]
    ) -> Codes:
        """`[B, D]` with the attributes under `mask` `[B, D]` drawn anew, uniformly."""
        return resampled(self, rng, codes, mask)

    def neighbours(self, code: Codes) -> Codes:
        """`[M, D]` every code one edit away from a code `[D]`, feasible or not, no repeats."""
        self.check(code[None])
        rows = [
            np.where(np.arange(len(code)) == d, value, code)
            for d, table in enumerate(self._moves)
            for value in np.unique(table[code[d], 1:])
            if value >= 0
        ]
        return np.array(rows, np.int32)

    def edit(self, codes: Codes, edits: npt.NDArray[Any]) -> Codes:
        """`[B, D]` each row after its edits, by ascending column; `edit_choices` numbers them.

        One that finds nothing to move, or would make a feasible mapping infeasible, is skipped;
        what was refused for infeasibility is tried once more at the end.

        Raises:
            ContractError: wrong shape or type, or a number out of range; names the first bad cell.
        """
        self.check(codes)
        check_cells(edits, self.edit_choices, self.attribute_names, "edits")
        if edits.shape != codes.shape:
            raise ContractError(f"Expected edits of shape {codes.shape}, got {edits.shape}.")
        edited, pending = codes.astype(np.int32), np.array(edits, np.int64)
        guarded = self.feasible(codes)
        for _ in range(2):
            for d, table in enumerate(self._moves):
                reached = table[edited[:, d], pending[:, d]]
                possible = reached >= 0
                moved = edited.copy()
                moved[possible, d] = reached[possible]
                made = possible & (self.feasible(moved) | ~guarded)
                edited[made] = moved[made]
                pending[made | ~possible, d] = 0
        return edited

    def encode(self, codes: Codes) -> npt.NDArray[np.float32]:
        """`[B, F]` the level-3 tile, level-1 tiles, factors, loop ranks and nesting ranks."""
        self.check(codes)
        parts = [
            np.broadcast_to(np.array(self.bounds), (len(codes), 6)),
            self._pair_values(codes, 0),
            self._pair_values(codes, 1),
            RANKS[codes[:, ORDER]],
            RANKS[codes[:, CLUSTERS]],
        ]
        return np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")

    def project(self, points: npt.NDArray[np.floating[Any]]) -> Codes:
        """`[B, D]` the feasible codes nearest to real points `[B, F]`; sizes are not read.

        Ranks are sorted, pairs the nearest per dimension; then, until it fits, the dimension gives
        way whose next pair that is nowhere larger is nearest.

        Raises:
            ContractError: wrong shape, or a value that is not finite.
        """
        width = len(self.feature_names)
        if points.ndim != 2 or points.shape[1] != width or not np.isfinite(points).all():
            raise ContractError(f"Expected finite points of shape [B, {width}].")
        codes = np.zeros((len(points), self.cardinality.size), np.int32)
        distances = []
        for d, pairs in enumerate(self.pairs):
            wanted = points[:, [6 + d, 10 + d]].astype(np.float64)
            distances.append(((wanted[:, None, :] - pairs) ** 2).sum(axis=2))
            codes[:, d] = distances[d].argmin(axis=1)
        for column, start in ((ORDER, 14), (CLUSTERS, 18)):
            order = np.argsort(points[:, start : start + 4], axis=1, kind="stable")
            codes[:, column] = (order[:, None, :] == PERMUTATIONS).all(axis=2).argmax(axis=1)
        rows = np.flatnonzero(~self.feasible(codes))
        while rows.size:
            cost = np.empty((len(rows), 4))
            target = np.empty((len(rows), 4), np.int32)
            for d, pairs in enumerate(self.pairs):
                now = codes[rows, d]
                smaller = (pairs <= pairs[now][:, None, :]).all(axis=2)
                smaller[np.arange(len(rows)), now] = False
                far = np.where(smaller, distances[d][rows], np.inf)
                target[:, d] = far.argmin(axis=1)
                cost[:, d] = far.min(axis=1) - distances[d][rows, now]
            d = cost.argmin(axis=1)
            codes[rows, d] = target[np.arange(len(rows)), d]
            rows = rows[~self.feasible(codes[rows])]
        return codes

    def _pair_values(self, codes: Codes, column: int) -> IntArray:
        """`[B, 4]` level-1 tiles (column 0) or factors (column 1)."""
        return np.stack(
            [pairs[:, column][codes[:, d]] for d, pairs in enumerate(self.pairs)], axis=1
        )
