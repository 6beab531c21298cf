"""What a few seeds on a few problems say of methods, whatever the shape of their results.

Interquartile means and stratified bootstrap after Agarwal et al., "Deep reinforcement learning at
the edge of the statistical precipice" (NeurIPS 2021, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from orchestrator.comparison.results import CONFIDENCE, ROUNDING, FloatArray, Results

RESAMPLES = 2000
FEW_SEEDS = 5
"""Fewer seeds than these are named wherever a method is judged."""


class Spread(NamedTuple):
    """An estimate with the interval that resampling seeds within every problem gives it."""

    value: float
    low: float
    high: float


def shares(results: Results, label: str) -> list[FloatArray]:
    """Per workload `[S]`: where its searches end as shares above the reference; inf: nowhere."""
    found = []
    for name in results.workloads:
        above = results.column("best_loss", label, name) / results.bounds[name].reference - 1
        found.append(np.where(np.abs(above) < ROUNDING, 0.0, above))
    return found


def interquartile(strata: Sequence[FloatArray]) -> Spread:
    """The geometric mean of the middle half of all searches, as a share above the reference.

    Args:
        strata: per workload `[S]`, as `shares` has them.
    """
    from scipy.stats import trim_mean

    # The same resamples whoever asks, so that a report is the same twice.
    drawn = np.random.default_rng(0)
    samples = np.concatenate(
        [drawn.choice(own, (RESAMPLES, len(own))) if len(own) else own for own in strata], axis=1
    )
    tails = (1 - CONFIDENCE) / 2
    with np.errstate(invalid="ignore"):
        value = np.expm1(trim_mean(np.log1p(np.concatenate(strata)), 0.25))
        means = np.expm1(trim_mean(np.log1p(samples), 0.25, axis=1))
        # Of what is infinite there is no distance between two ranks.
        low, high = np.quantile(means, (tails, 1 - tails), method="nearest")
    return Spread(float(value), float(low), float(high))


def improves(first: Sequence[FloatArray], second: Sequence[FloatArray]) -> float:
    """The probability that a search of the first method ends lower than one of the second.

    Ties count half; workloads count alike (the probability of improvement, section 4.3).
    """
    pairs = zip(first, second, strict=True)
    wins = [np.sign(theirs[None, :] - mine[:, None]) for mine, theirs in _without_infinite(pairs)]
    return float(np.mean([(1 + won.mean()) / 2 for won in wins]))


def _without_infinite(
    pairs: zip[tuple[FloatArray, FloatArray]],
) -> list[tuple[FloatArray, FloatArray]]:
    """The same with a largest number for what found nothing, which is no lower than itself."""
    largest = np.finfo(float).max
    return [(np.minimum(mine, largest), np.minimum(theirs, largest)) for mine, theirs in pairs]


def profile(strata: Sequence[FloatArray], limits: FloatArray) -> FloatArray:
    """`[G]` the share of searches that end within so much of the reference, workloads alike."""
    return np.asarray(np.mean([(own[:, None] <= limits).mean(axis=0) for own in strata], axis=0))


def few_seeds(results: Results) -> dict[str, int]:
    """The methods that have fewer than `FEW_SEEDS` seeds, and how many."""
    counts = {label: len(np.unique(results.column("seed", label))) for label in results.searchers}
    return {label: count for label, count in counts.items() if count < FEW_SEEDS}
