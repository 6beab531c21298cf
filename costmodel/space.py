"""What every search space offers a searcher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from costmodel.costs import Costs
from mapspace.errors import ContractError
from mapspace.strict_yaml import shown

Codes = npt.NDArray[np.int32]
Losses = npt.NDArray[np.float64]


class Space(Protocol):
    """A space of candidates, each an integer code `[D]`; B is the batch, F the features.

    `MapSpace` is the loop-nest one. All randomness comes from the generator that is passed in.
    """

    @property
    def cardinality(self) -> npt.NDArray[np.int64]:
        """`[D]` number of values of each attribute."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """`[F]` names of what `encode` returns."""
        ...

    @property
    def edit_choices(self) -> npt.NDArray[np.int64]:
        """`[D]` number of edits of each attribute; edit 0 keeps it."""
        ...

    def size(self) -> int:
        """Number of codes."""
        ...

    def sample(self, rng: np.random.Generator, n: int, *, feasible: bool = False) -> Codes:
        """`[n, D]` uniform over the space, or over its feasible part."""
        ...

    def check(self, codes: npt.NDArray[Any]) -> None:
        """Raises `ContractError` naming the first bad cell of codes `[B, D]`."""
        ...

    def feasible(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """`[B]` whether a candidate can run at all; costs no query."""
        ...

    def mutate(self, rng: np.random.Generator, codes: Codes, *, steps: int = 1) -> Codes:
        """`[B, D]` each row after `steps` random domain moves."""
        ...

    def resample(
        self, rng: np.random.Generator, codes: Codes, mask: npt.NDArray[np.bool_]
    ) -> Codes:
        """`[B, D]` with the attributes under mask `[B, D]` drawn anew."""
        ...

    def neighbours(self, code: Codes) -> Codes:
        """`[M, D]` every single move of one candidate `[D]`."""
        ...

    def edit(self, codes: Codes, edits: npt.NDArray[Any]) -> Codes:
        """`[B, D]` each row after the edits `[B, D]` of its attributes, one after another.

        An edit that cannot be made, or that would make a feasible candidate infeasible, is
        skipped. Nothing is random.
        """
        ...

    def encode(self, codes: Codes) -> npt.NDArray[np.float32]:
        """`[B, F]` for networks."""
        ...

    def project(self, points: npt.NDArray[np.floating[Any]]) -> Codes:
        """`[B, D]` feasible codes of real points `[B, F]`: the nearest, or ones close to them."""
        ...


def check_cells(
    cells: npt.NDArray[Any], counts: npt.NDArray[np.int64], names: Sequence[str], what: str
) -> None:
    """Refuses what is no batch of indices, such as codes or edits of a space.

    Args:
        cells: `[B, D]` indices.
        counts: `[D]` how many there are of each.
        names: `[D]` what the columns are called.
        what: what the cells are called.

    Raises:
        ContractError: wrong shape or type, or an index out of range; names the first bad cell.
    """
    width = counts.size
    if not isinstance(cells, np.ndarray):
        raise ContractError(f"{what}: expected an array [B, {width}], got {shown(cells)}.")
    if cells.ndim != 2 or cells.shape[1] != width:
        raise ContractError(f"Expected {what} of shape [B, {width}], got {list(cells.shape)}.")
    if not np.issubdtype(cells.dtype, np.integer):
        raise ContractError(f"Expected integer {what}, got {cells.dtype}.")
    if cells.size and (cells.min() < 0 or (cells.max(axis=0) >= counts).any()):
        row, column = np.argwhere((cells < 0) | (cells >= counts))[0]
        raise ContractError(
            f"{what} [{row}, {column}] ({names[column]}) must lie in "
            f"0..{counts[column] - 1}, got {cells[row, column]}."
        )


def check_count(name: str, value: int) -> None:
    """Refuses a number of things to make that is below 0 or far beyond what there is time for.

    Raises:
        ContractError: what was expected.
    """
    if not 0 <= value < 1 << 31:
        raise ContractError(f"{name}: expected 0 to {(1 << 31) - 1:,}, got {shown(value)}.")


def resampled(
    space: Space, rng: np.random.Generator, codes: Codes, mask: npt.NDArray[np.bool_]
) -> Codes:
    """`Space.resample` of a space that draws every attribute by itself.

    Args:
        space: the space.
        rng: where the draws come from.
        codes: `[B, D]`.
        mask: `[B, D]` what is drawn anew.

    Raises:
        ContractError: no codes of the space, or a mask of another shape.
    """
    space.check(codes)
    if mask.shape != codes.shape:
        raise ContractError(f"Expected a mask of shape {codes.shape}, got {mask.shape}.")
    fresh: Codes = np.where(mask, space.sample(rng, len(codes)), codes)
    return fresh


class CostModel(Protocol):
    """Scores candidates of a space in batches."""

    @property
    def name(self) -> str:
        """How commands and results call it."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever a figure could change."""
        ...

    def evaluate(self, space: Any, codes: Codes, *, detail: bool = False) -> Costs:
        """Costs of codes `[B, D]`."""
        ...


# What `remaining` says while only the time is limited.
UNLIMITED = 2**31 - 1
