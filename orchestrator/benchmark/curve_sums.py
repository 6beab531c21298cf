"""What a trial of a benchmark tells its driver: sums of curves, and why it has ended.

A trial sends sums of logarithms at the points of a grid, whatever its number of seeds, and the
driver adds them up: no curve is kept, and none is read from a file. Every worker imports this file,
and nothing of what only the driver needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from orchestrator.benchmark.config import Plan
from orchestrator.comparison.results import Axis, FloatArray, Run

# Of what a trial tells: why it has ended, where to try it again would not help.
HOPELESS = "hopeless"
# Shares of a search's budget at which curves are drawn.
SHARES: FloatArray = np.logspace(-3, 0, 40)


@dataclass
class Sum:
    """Of finished searches of a method on a workload."""

    count: int = 0
    logs: FloatArray = field(default_factory=lambda: np.zeros(len(SHARES)))
    """`[G]` sums of the logarithm of the best so far; inf where one had found nothing."""

    def add(self, count: int, logs: Sequence[float] | FloatArray) -> None:
        """Adds others."""
        self.count += count
        self.logs = self.logs + np.asarray(logs)

    def means(self) -> FloatArray:
        """`[G]` geometric means."""
        return np.exp(self.logs / self.count)


def sum_of(plan: Plan, runs: Sequence[Run]) -> Sum:
    """The sums of finished searches of one method on one workload."""
    total = Sum()
    if not runs:
        return total
    entry, workload = plan.entry(runs[0].searcher), runs[0].workload
    axis: Axis = "evaluation" if plan.benchmark.seconds is None else "seconds"
    budget = plan.benchmark.seconds or entry.iterations or plan.benchmark.iterations
    if budget is None:
        budget = plan.benchmark.iterations_in(plan.space(workload))
    assert budget is not None  # a benchmark has one of the three
    for run in runs:
        found = run.at(SHARES * budget, axis)
        # The last point is the end, where a search may have stopped short of its budget.
        found[-1] = run.best_loss
        total.add(1, np.log(found))
    return total
