"""How good a surrogate is on problems that it never saw: error of ln EDP, and rank correlations.

Letters: `B` mappings of all problems, `n` dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mapspace.errors import ContractError
from mapspace.strict_yaml import StrictModel

FloatArray = npt.NDArray[np.floating[Any]]

BEST_SHARE = 0.1


class Figures(StrictModel):
    """What is reported of a surrogate, on problems never trained on."""

    problems: int
    """Problems that were judged."""
    rows: int
    """Their mappings."""
    rmse: float
    """Root of the mean squared error of ln EDP over all rows."""
    spearman: float
    """Rank correlation of EDP within a problem, mean over problems."""
    spearman_worst: float
    """The least of them."""
    worst_problem: tuple[int, ...]
    """Sizes of the problem that has it."""
    spearman_best_tenth: float
    """Rank correlation among the truly best 10 % of a problem's mappings, mean over problems."""


def figures(problems: FloatArray, truth: FloatArray, predicted: FloatArray) -> Figures:
    """Compares predictions with the truth, problem by problem.

    A problem whose mappings all cost the same has no ranking and only counts for the error.

    Args:
        problems: [B, n] sizes of each row's problem.
        truth: [B] ln EDP, up to a constant per problem that `predicted` shares.
        predicted: [B] predicted ln EDP.

    Raises:
        ContractError: If there is no row, or the shapes do not match.
    """
    rows = len(truth)
    if rows == 0 or problems.shape[0] != rows or predicted.shape != truth.shape:
        raise ContractError(
            f"Expected problems [B, n], truth [B] and predicted [B] with B > 0, got "
            f"{problems.shape}, {truth.shape} and {predicted.shape}."
        )
    sizes, group = np.unique(problems, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(sizes) + 1))
    all_rows, best_rows = np.full(len(sizes), np.nan), np.full(len(sizes), np.nan)
    for p in range(len(sizes)):
        members = order[starts[p] : starts[p + 1]]
        all_rows[p] = spearman(truth[members], predicted[members])
        best = members[np.argsort(truth[members], kind="stable")]
        best = best[: int(np.ceil(BEST_SHARE * len(best)))]
        best_rows[p] = spearman(truth[best], predicted[best])
    ranked = np.flatnonzero(np.isfinite(all_rows))
    if ranked.size == 0:
        raise ContractError("No problem has two mappings of different cost: nothing to rank.")
    worst = int(ranked[np.argmin(all_rows[ranked])])
    errors = predicted.astype(np.float64) - truth.astype(np.float64)
    return Figures(
        problems=len(sizes),
        rows=rows,
        rmse=float(np.sqrt(np.mean(errors**2))),
        spearman=float(np.mean(all_rows[ranked])),
        spearman_worst=float(all_rows[worst]),
        worst_problem=tuple(int(size) for size in sizes[worst]),
        spearman_best_tenth=float(np.nanmean(best_rows)) if np.isfinite(best_rows).any() else 0.0,
    )


def spearman(a: FloatArray, b: FloatArray) -> float:
    """Spearman's rank correlation, ties given their mean rank; nan where `a` is constant.

    A constant `b` carries no order and correlates by 0.
    """
    ranks_a, ranks_b = ranks(a), ranks(b)
    spread_a, spread_b = np.std(ranks_a), np.std(ranks_b)
    if spread_a == 0:
        return float("nan")
    if spread_b == 0:
        return 0.0
    product = np.mean((ranks_a - ranks_a.mean()) * (ranks_b - ranks_b.mean()))
    return float(product / (spread_a * spread_b))


def ranks(values: FloatArray) -> npt.NDArray[np.float64]:
    """`[B]` the ranks of values `[B]`, from 1, ties given their mean; nan where one is nan.

    As `scipy.stats.rankdata`, whose import is a tenth of what a training worker imports.
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    found: npt.NDArray[np.float64] = (np.cumsum(count) - (count - 1) / 2)[place.reshape(-1)]
    return np.full(len(values), np.nan) if np.isnan(values).any() else found
