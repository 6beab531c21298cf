"""The tilings of a matrix product as a search space of integer codes.

Source: Zhang et al., "Compiler-Level Matrix Multiplication Optimization for Deep Learning", 2019,
sections 3.3 and 4.1: M, K and N are split over 4, 2 and 4 nested loops, and a state is the trip
counts `[s_m, s_k, s_n]`.

Letters: B tilings, D = 3 attributes, L loops (the sum of the splits), F = 3 + L features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.costs import STATUS_OK
from costmodel.problems.affine import Workload
from costmodel.problems.bits import check_words
from costmodel.problems.workloads import WorkloadSource
from costmodel.problems.workloads import workload as find_workload
from costmodel.space import Codes, check_cells, check_count
from costmodel.tiling.factor_tables import MOST_LOOPS, NONE, Factorisations
from costmodel.tiling.loop_nest import DIMENSIONS, SPLITS, loops, nest
from mapspace.arguments import checked, explained, wrong_type
from mapspace.errors import ConfigError, ContractError

NESTED = f"three whole numbers from 1 to {MOST_LOOPS}, the nested loops of M, K and N"


@dataclass(frozen=True)
class Tiling:
    """One tiling for people; `str()` prints its loop nest.

    Attributes:
        factors: trip counts by dimension (M, K, N), the outermost loop first.
    """

    factors: dict[str, tuple[int, ...]]

    def __str__(self) -> str:
        splits = tuple(len(self.factors[name]) for name in DIMENSIONS)
        lines: list[str] = []
        for loop in nest((splits[0], splits[1], splits[2])):
            trips = self.factors[DIMENSIONS[loop.dimension]][loop.depth]
            if trips > 1:
                lines.append(f"{'  ' * len(lines)}for {loop.name} in {trips}")
        return "\n".join([*lines, f"{'  ' * len(lines)}multiply-accumulate"])

    def to_record(self) -> dict[str, list[int]]:
        """Trip counts by dimension, as JSON has them."""
        return {name: list(trips) for name, trips in self.factors.items()}


@explained
class TilingSpace:
    """All tilings of a matrix product, its loops ordered as in `costmodel.tiling.loop_nest`.

    A code is `[3]`: for M, K and N the index of its ordered exact factorisation among all in
    lexicographic order. Every tiling is feasible: a cache that is too small only makes it slow.

    Attributes:
        workload: the product.
        splits: nested loops of M, K and N.
        loop_names: `[L]` m0 m1 .. k0 k1 .. n0 n1 ..
        start: `[D]` code of the paper's first state, `[[m, 1, 1, 1], [k, 1], [n, 1, 1, 1]]`.
        attribute_names: `[D]`.
        cardinality: `[D]` int64 factorisations per dimension.
        feature_names: `[F]`: `problem.M` .., then `factor.m0` ..
        edit_choices: `[D]` int64 edits per dimension: 0 keeps; then, per distinct prime, ascending,
            and per ordered pair of loops in lexicographic order, the prime moves from the first
            loop to the second.
    """

    attribute_names = tuple(f"tiling.{name}" for name in DIMENSIONS)

    @checked
    def __init__(
        self, workload: WorkloadSource, *, splits: Annotated[Sequence[int], NESTED] = SPLITS
    ) -> None:
        """Lays the space out.

        Args:
            workload: of the family `gemm`, or what `costmodel.workload` finds it by.
            splits: nested loops of M, K and N, 1 to 8 each.

        Raises:
            ConfigError: the workload is no matrix product, the splits are not three numbers from 1
                to 8, or a dimension has too many factorisations to list.
        """
        product = find_workload(workload)
        if product.family != "gemm":
            raise ConfigError(
                f"{product.name}: a tiling space needs a workload of the family gemm, such as "
                f"gemm:M=512,N=512,K=512; got the family {product.family}."
            )
        check_words(product, "a tiling")
        counts = tuple(splits)
        if len(counts) != len(DIMENSIONS) or not all(
            isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= MOST_LOOPS
            for count in counts
        ):
            raise wrong_type("splits", NESTED, splits)
        self.workload: Workload = product
        self.splits: tuple[int, int, int] = (counts[0], counts[1], counts[2])
        self.loop_names = tuple(loop.name for loop in loops(self.splits))
        self._sizes = [product.dimensions[name] for name in DIMENSIONS]
        self._tables = [
            Factorisations(size, parts)
            for size, parts in zip(self._sizes, self.splits, strict=True)
        ]
        self.cardinality: Array = np.array([len(table) for table in self._tables], np.int64)
        self.edit_choices: Array = np.array(
            [table.edits.shape[1] for table in self._tables], np.int64
        )
        self.feature_names = (
            *(f"problem.{name}" for name in DIMENSIONS),
            *(f"factor.{name}" for name in self.loop_names),
        )
        # The largest first factor comes last in lexicographic order.
        self.start: Codes = (self.cardinality - 1).astype(np.int32)

    def size(self) -> int:
        """Number of tilings."""
        return math.prod(int(count) for count in self.cardinality)

    def sample(self, rng: np.random.Generator, n: int, *, feasible: bool = False) -> Codes:
        """`[n, D]` tilings drawn uniformly; all are feasible."""
        check_count("n", n)
        return rng.integers(0, self.cardinality, (n, len(DIMENSIONS)), dtype=np.int32)

    def check(self, codes: npt.NDArray[Any]) -> None:
        """Refuses what is no batch of codes of this space.

        Raises:
            ContractError: wrong shape or type, or an index out of range; names the first bad cell.
        """
        check_cells(codes, self.cardinality, self.attribute_names, "codes")

    def status(self, codes: Codes) -> tuple[npt.NDArray[np.int32], Array]:
        """Status and excess of codes `[B, D]`, `[B]` each: 0, whatever the tiling."""
        self.check(codes)
        return np.full(len(codes), STATUS_OK, np.int32), np.zeros(len(codes), np.int64)

    def feasible(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """`[B]` True: every tiling can run."""
        self.check(codes)
        return np.ones(len(codes), np.bool_)

    def factors(self, codes: Codes) -> Array:
        """Trip counts of codes `[B, D]`: `[B, L]` int64, columns as `loop_names`."""
        self.check(codes)
        parts = [table.factors[codes[:, d]] for d, table in enumerate(self._tables)]
        return np.concatenate(parts, axis=1)

    def codes(self, factors: npt.NDArray[Any]) -> Codes:
        """Codes `[B, D]` of trip counts `[B, L]`: the inverse of `factors`.

        Raises:
            ContractError: wrong shape or type, or factors of a dimension that do not multiply to
                its size; names the first bad row.
        """
        width = len(self.loop_names)
        if factors.ndim != 2 or factors.shape[1] != width:
            raise ContractError(
                f"Expected factors of shape [B, {width}], got {list(factors.shape)}."
            )
        if not np.issubdtype(factors.dtype, np.integer):
            raise ContractError(f"Expected integer factors, got {factors.dtype}.")
        codes = np.empty((len(factors), len(DIMENSIONS)), np.int32)
        for d, (name, size, table) in enumerate(
            zip(DIMENSIONS, self._sizes, self._tables, strict=True)
        ):
            own = factors[:, self._columns(d)].astype(np.int64)
            # Divisors one by one: a product of large numbers could come out right by overflow.
            rest = np.full(len(own), size, np.int64)
            wrong = np.zeros(len(own), np.bool_)
            for column in own.T:
                wrong |= (column < 1) | (rest % np.maximum(column, 1) != 0)
                rest //= np.maximum(column, 1)
            wrong |= rest != 1
            if wrong.any():
                row = int(wrong.argmax())
                raise ContractError(
                    f"factors [{row}]: expected positive factors of {name} that multiply to "
                    f"{size}, got {own[row].tolist()}."
                )
            codes[:, d] = table.find(own)
        return codes

    def mutate(self, rng: np.random.Generator, codes: Codes, *, steps: int = 1) -> Codes:
        """`[B, D]` each row after `steps` moves, every one uniform over the row's neighbours.

        In a space of one tiling nothing moves.
        """
        self.check(codes)
        check_count("steps", steps)
        moved = codes.astype(np.int32)
        for _ in range(steps):
            degrees = np.stack([t.degree[moved[:, d]] for d, t in enumerate(self._tables)], axis=1)
            picked = rng.integers(0, np.maximum(degrees.sum(axis=1), 1))
            for d, table in enumerate(self._tables):
                rows = np.flatnonzero((picked >= 0) & (picked < degrees[:, d]))
                moved[rows, d] = table.moves[moved[rows, d], picked[rows]]
                picked -= degrees[:, d]
        return moved

    def resample(
        self, rng: np.random.Generator, codes: Codes, mask: npt.NDArray[np.bool_]
    ) -> Codes:
        """`[B, D]` with the attributes under `mask` `[B, D]` drawn anew, uniformly."""
        self.check(codes)
        if mask.shape != codes.shape:
            raise ContractError(f"Expected a mask of shape {codes.shape}, got {mask.shape}.")
        fresh: Codes = np.where(mask, self.sample(rng, len(codes)), codes)
        return fresh

    def neighbours(self, code: Codes) -> Codes:
        """`[M, D]` every tiling one move from a code `[D]`, without repeats.

        A move takes one prime factor from one loop to another of the same dimension: for powers of
        two, it doubles one factor and halves another, the paper's action set.
        """
        self.check(code[None])
        found = []
        for d, table in enumerate(self._tables):
            reached = table.moves[code[d], : table.degree[code[d]]]
            rows = np.repeat(code[None].astype(np.int32), len(reached), axis=0)
            rows[:, d] = reached
            found.append(rows)
        return np.concatenate(found)

    def edit(self, codes: Codes, edits: npt.NDArray[Any]) -> Codes:
        """`[B, D]` after the edits `[B, D]`, numbered as `edit_choices` says; nothing is random.

        An edit of a loop that lacks the prime is skipped.

        Raises:
            ContractError: wrong shape or type, or a number out of range; names the first bad cell.
        """
        self.check(codes)
        check_cells(edits, self.edit_choices, self.attribute_names, "edits")
        if edits.shape != codes.shape:
            raise ContractError(f"Expected edits of shape {codes.shape}, got {edits.shape}.")
        edited = codes.astype(np.int32)
        for d, table in enumerate(self._tables):
            reached = table.edits[codes[:, d], edits[:, d]]
            edited[:, d] = np.where(reached == NONE, codes[:, d], reached)
        return edited

    def encode(self, codes: Codes) -> npt.NDArray[np.float32]:
        """`[B, F]` base-2 logarithms of the sizes M, K, N and of the trip counts."""
        self.check(codes)
        parts = [np.broadcast_to(np.log2(self._sizes), (len(codes), len(DIMENSIONS)))]
        parts += [table.log2[codes[:, d]] for d, table in enumerate(self._tables)]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def project(self, points: npt.NDArray[np.floating[Any]]) -> Codes:
        """`[B, D]` codes nearest to real points `[B, F]`; the sizes are not read.

        Raises:
            ContractError: wrong shape, or a value that is not finite.
        """
        width = len(self.feature_names)
        if points.ndim != 2 or points.shape[1] != width or not np.isfinite(points).all():
            raise ContractError(f"Expected finite points of shape [B, {width}].")
        wanted = points[:, len(DIMENSIONS) :].astype(np.float64)
        nearest = [t.nearest(wanted[:, self._columns(d)]) for d, t in enumerate(self._tables)]
        return np.stack(nearest, axis=1).astype(np.int32)

    def describe(self, code: Codes) -> Tiling:
        """The tiling of a code `[D]` for people."""
        row = self.factors(code[None])[0].tolist()
        return Tiling({name: tuple(row[self._columns(d)]) for d, name in enumerate(DIMENSIONS)})

    def _columns(self, dimension: int) -> slice:
        """The columns of a dimension's loops among all loops."""
        start = sum(self.splits[:dimension])
        return slice(start, start + self.splits[dimension])
