"""The searches that are left of a benchmark, where they are so few that they are made right here.

Ray takes longer to start than searches of a few seconds take. They are the same trials, with the
same files for how they stand, one after another in this process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mapspace.storage import Place
from orchestrator.benchmark.live_curves import LiveBenchmark

if TYPE_CHECKING:
    from orchestrator.benchmark.config import Plan
    from orchestrator.benchmark.stored_runs import Search
    from orchestrator.comparison.results import Run

# What searches may take that are made here, s: about what Ray and its workers take to start.
FEW_SECONDS = 10.0


class _StoppedError(Exception):
    """A limit is reached in the middle of a trial, whose state is written."""


def are_few(plan: Plan, known: Sequence[Run], left: Sequence[Search]) -> bool:
    """Whether the searches that are left take less time here than Ray takes to start.

    They take what the known ones of the same method on the same workload took. Where time is the
    budget or is measured, or a method has processes of its own, nothing is done here.

    Args:
        plan: the benchmark.
        known: runs that are read.
        left: the others.
    """
    benchmark = plan.benchmark
    if benchmark.host != "trials" or benchmark.seconds is not None or plan.cost_model.measured:
        return False
    if any(entry.parameters.get("runners", 0) for entry in benchmark.searchers):
        return False
    took: dict[tuple[str, str], list[float]] = {}
    for run in known:
        took.setdefault((run.searcher, run.workload), []).append(run.seconds)
    if any((label, workload) not in took for label, workload, _ in left):
        return False
    means = {pair: float(np.mean(seconds)) for pair, seconds in took.items()}
    # More than it takes where seconds are virtual.
    return sum(means[label, workload] for label, workload, _ in left) <= FEW_SECONDS


def run_here(
    plan: Plan,
    tasks: Sequence[Mapping[str, Any]],
    states: Place,
    checkpoint_seconds: float,
    live: LiveBenchmark,
) -> None:
    """Makes the searches of trials in this process, until a limit is reached.

    Args:
        plan: the benchmark.
        tasks: of the trials that are not finished.
        states: where their files are.
        checkpoint_seconds: the least time between two writes of the same state.
        live: is told how they stand.
    """
    from orchestrator.benchmark.search_trial import run_trial

    for task in tasks:
        key = str(task["file"])

        def report(told: Mapping[str, Any], key: str = key) -> None:
            live.reach(key, told)
            if live.reached():
                raise _StoppedError

        if live.reached():
            return
        live.begin_task(key, task)
        try:
            told = run_trial({"task": task}, plan, states, checkpoint_seconds, report)
        except _StoppedError:
            return
        live.end_task(key, task, told)
