"""Fixed targets: what it takes a method to come within so many per cent of the optimum.

Of a problem and a target the expected running time (ERT) is what all runs spent until they were
there, and those that never arrived in all, over how many arrived: what independent restarts would
need on average (COCO: Hansen et al., arXiv:1603.08785, section 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from orchestrator.comparison.results import ROUNDING, FloatArray, Results, Run

TARGETS = (0.1, 0.01, 0.001, 0.0)
"""Shares above the reference within which a search has arrived, the easiest first."""


@dataclass(frozen=True)
class Arrivals:
    """When the runs of one method arrived at every target.

    Attributes:
        spent: `[R]` queries, or seconds, that a run spent in all.
        arrived: `[R, T]` those until it was within a target; inf if it never was.
        problem: `[R]` the place of its workload.
    """

    spent: FloatArray
    arrived: FloatArray
    problem: FloatArray

    @cached_property
    def reached(self) -> FloatArray:
        """`[T]` how many runs arrived."""
        return np.asarray(np.isfinite(self.arrived).sum(axis=0), dtype=float)

    @cached_property
    def expected(self) -> FloatArray:
        """`[T]` ERT over all problems together; inf where no run arrived."""
        until = np.minimum(self.arrived, self.spent[:, None]).sum(axis=0)
        expected = until / np.maximum(self.reached, 1)
        return np.asarray(np.where(self.reached > 0, expected, math.inf))

    def share(self, points: FloatArray) -> FloatArray:
        """`[G]` share of (run, target) pairs that had arrived by then, problems counted alike."""
        shares = [
            (self.arrived[self.problem == place][..., None] <= points).mean(axis=(0, 1))
            for place in np.unique(self.problem)
        ]
        return np.asarray(np.mean(shares, axis=0))


def known_workloads(results: Results) -> list[str]:
    """Those whose optimum is known: proven, or of measurements the best of the run."""
    bounds = results.bounds
    return [name for name in results.workloads if bounds[name].proven or bounds[name].measured]


def arrivals(results: Results, label: str, targets: Sequence[float] = TARGETS) -> Arrivals:
    """When a method's runs on workloads with a known optimum arrived, by the budget's axis."""
    by_time = results.primary_axis == "seconds"
    spent: list[float] = []
    arrived: list[list[float]] = []
    problem: list[int] = []
    for place, name in enumerate(known_workloads(results)):
        limits = [results.bounds[name].reference * (1 + one + ROUNDING) for one in targets]
        for run in results.of(label, name):
            spent.append(run.seconds if by_time else run.iterations)
            arrived.append([_first(run, limit, by_time) for limit in limits])
            problem.append(place)
    shape = (len(spent), len(targets))
    return Arrivals(np.array(spent, float), np.reshape(arrived, shape), np.array(problem, float))


def _first(run: Run, limit: float, by_time: bool) -> float:
    moments = run.time if by_time else run.evaluation
    there = np.flatnonzero(run.loss <= limit)
    return float(moments[there[0]]) if len(there) else math.inf
