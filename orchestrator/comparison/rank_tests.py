"""Ranks of methods over problems: who is told apart.

J. Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7 (2006): the test
of Friedman, then Holm's procedure on the differences of average ranks from the best one's (section
3.2.2), and Nemenyi's critical difference for all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.comparison.results import FloatArray, Results

LEVEL = 0.05
"""Of all tests here: a chance of one in twenty to tell apart what is level."""
FEWEST_PROBLEMS = 5


@dataclass(frozen=True)
class Ranks:
    """Average ranks over problems, 1 the lowest loss, ties shared, and what tests say of them.

    Attributes:
        labels: the methods, the best rank first.
        average: `[M]` their ranks.
        problems: over how many.
        friedman: p-value that all are level.
        holm: `[M]` p-values that a method is level with the first, adjusted; 1 of itself.
        difference: ranks apart by less than this are not told apart (Nemenyi).
    """

    labels: tuple[str, ...]
    average: FloatArray
    problems: int
    friedman: float
    holm: FloatArray
    difference: float

    @property
    def level(self) -> tuple[str, ...]:
        """Who cannot be told apart from the first, itself left out."""
        if self.friedman >= LEVEL:
            return self.labels[1:]
        return tuple(
            label for label, p in zip(self.labels[1:], self.holm[1:], strict=True) if p >= LEVEL
        )

    def cliques(self) -> list[tuple[int, int]]:
        """First and last place of methods whose ranks lie within the critical difference."""
        ends = [
            (i, int(np.searchsorted(self.average, one + self.difference, side="left")) - 1)
            for i, one in enumerate(self.average)
        ]
        return [
            (i, j) for i, j in ends if j > i and not any(k < i and j <= other for k, other in ends)
        ]


def ranks(results: Results) -> Ranks | None:
    """The ranks of a benchmark's methods by where they end, geometric means over the seeds.

    Returns:
        None where there is nothing to test: fewer than three methods, or `FEWEST_PROBLEMS`.
    """
    from scipy.stats import friedmanchisquare, norm, rankdata, studentized_range

    labels, problems = results.searchers, len(results.workloads)
    count = len(labels)
    if count < 3 or problems < FEWEST_PROBLEMS:
        return None
    ends = np.array(
        [[float(results.final(label, name).mean) for label in labels] for name in results.workloads]
    )
    # Who found nothing is behind all others; equal to nine digits is equal.
    ends = np.where(np.isfinite(ends), ends, np.finfo(float).max)
    ends = np.array([[float(f"{one:.9g}") for one in row] for row in ends])
    average = rankdata(ends, axis=1).mean(axis=0)
    told = np.ptp(ends, axis=1).any()
    friedman = float(friedmanchisquare(*ends.T).pvalue) if told else 1.0
    order = np.argsort(average, kind="stable")
    average = average[order]
    error = math.sqrt(count * (count + 1) / (6 * problems))
    apart = 2 * norm.sf((average[1:] - average[0]) / error)
    quantile = float(studentized_range.ppf(1 - LEVEL, count, math.inf)) / math.sqrt(2)
    return Ranks(
        tuple(labels[place] for place in order),
        average,
        problems,
        friedman,
        np.array([1.0, *holm(apart)]),
        quantile * error,
    )


def holm(p_values: Sequence[float] | FloatArray) -> FloatArray:
    """`[N]` p-values adjusted for being several (Holm 1979)."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def paired_p(first: FloatArray, second: FloatArray) -> float:
    """Wilcoxon's signed-rank test of paired logarithms `[N]`: p-value that they are level.

    Equal pairs are left out; without others, and of what is infinite on both sides, it is 1.
    """
    from scipy.stats import wilcoxon

    largest = math.log(np.finfo(float).max)
    apart = np.minimum(first, largest) - np.minimum(second, largest)
    apart = apart[np.abs(apart) > 1e-9]
    return float(wilcoxon(apart).pvalue) if len(apart) else 1.0


def by_seed(results: Results, label: str, workload: str) -> Mapping[int, float]:
    """Where a method's searches on a workload end, by their seeds."""
    seeds = results.column("seed", label, workload)
    losses = results.column("best_loss", label, workload)
    return {int(seed): float(loss) for seed, loss in zip(seeds, losses, strict=True)}


def per_problem(results: Results, label: str, other: str) -> list[tuple[str, float, float]]:
    """Per workload: its name, the ratio of two methods' losses, and the adjusted p-value of it.

    Seeds that both have are paired, and the tests of all workloads are several (Holm).
    """
    told = []
    for name in results.workloads:
        mine, theirs = by_seed(results, label, name), by_seed(results, other, name)
        shared = sorted(mine.keys() & theirs.keys())
        logs = [np.log([own[seed] for seed in shared]) for own in (mine, theirs)]
        with np.errstate(invalid="ignore"):
            ratio = float(np.exp(np.mean(logs[0] - logs[1]))) if shared else math.nan
        told.append((name, ratio, paired_p(*logs) if shared else 1.0))
    adjusted = holm([p for _, _, p in told])
    return [(name, ratio, float(p)) for (name, ratio, _), p in zip(told, adjusted, strict=True)]


def p_text(p: float) -> str:
    """A p-value as people write it."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
