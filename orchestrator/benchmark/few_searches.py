"""The searches that are left of a benchmark, where they are so few that they are made right here.

Ray takes longer to start than searches of a few seconds take. They are the same trials, with the
same files for how they stand, made in this process or in forks of it on all of its processors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mapspace.forks import MOST_PROCESSES, fork_map, processors
from mapspace.storage import Place
from orchestrator.benchmark.live_curves import LiveBenchmark

if TYPE_CHECKING:
    from orchestrator.benchmark.config import Plan
    from orchestrator.benchmark.stored_runs import Search
    from orchestrator.comparison.results import Run

# What searches may take that are made here, s of every fork: about what Ray takes to start.
FEW_SECONDS = 10.0
# Trials of a method that a process makes at least, where others make the rest of them.
FEWEST_TRIALS = 2


class _StoppedError(Exception):
    """A limit is reached in the middle of a trial, whose state is written."""


def are_few(plan: Plan, known: Sequence[Run], left: Sequence[Search], forks: int = 1) -> bool:
    """Whether the searches that are left take less time here than Ray takes to start.

    They take what the known ones of the same method on the same workload took, shared out to forks
    of this process. Where time is the budget or is measured, or a method has processes of its own,
    nothing is done here.

    Args:
        plan: the benchmark.
        known: runs that are read.
        left: the others.
        forks: how many processors they may use.
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
    seconds = sum(means[label, workload] for label, workload, _ in left)
    return seconds <= FEW_SECONDS * max(1, min(forks, MOST_PROCESSES, len(left)))


def run_here(
    plan: Plan,
    tasks: Sequence[Mapping[str, Any]],
    states: Place,
    checkpoint_seconds: float,
    live: LiveBenchmark,
) -> None:
    """Makes the searches of trials in this process and forks of it, until a limit is reached.

    Args:
        plan: the benchmark.
        tasks: of the trials that are not finished.
        states: where their files are.
        checkpoint_seconds: the least time between two writes of the same state.
        live: is told how they stand.
    """
    from orchestrator.benchmark.search_trial import run_trial, whole_searches

    def make(task: Mapping[str, Any]) -> dict[str, Any] | None:
        """Makes the searches of a trial; None where a limit is reached before they are finished."""
        key = str(task["file"])

        def report(told: Mapping[str, Any]) -> None:
            live.reach(key, told)
            if live.reached():
                raise _StoppedError

        if live.reached():
            return None
        live.begin_task(key, task)
        try:
            return run_trial({"task": task}, plan, states, checkpoint_seconds, report)
        except _StoppedError:
            return None

    # Else every fork would load their code.
    for task in {task["searcher"]: task for task in tasks}.values():
        searches = whole_searches(plan, task, states)
        searches.warm_up()
        searches.close()
    live.processors = live.limits.of(processors())
    groups = _groups(tasks, live.processors)
    made = fork_map(lambda group: [make(task) for task in group], groups, most=live.processors)
    for group, answers in zip(groups, made, strict=True):
        for task, told in zip(group, answers, strict=True):
            if told is None:
                # What reached it was a fork perhaps, which has noted it for itself.
                live.reached()
                return
            live.end_task(str(task["file"]), task, told)


def _groups(
    tasks: Sequence[Mapping[str, Any]], processors: int
) -> Sequence[Sequence[Mapping[str, Any]]]:
    """The trials that a process makes one after another.

    Those of a method are together where there are enough methods: what is compiled for one is then
    loaded once, which takes as long as dozens of searches. Where a method has many trials, every
    process gets its part of them, so that none waits for the slowest method's.
    """
    own: dict[str, list[Mapping[str, Any]]] = {}
    for task in tasks:
        own.setdefault(task["searcher"], []).append(task)
    if len(own) <= processors:
        return [[task] for task in tasks]
    groups = []
    for trials in own.values():
        parts = min(processors, max(1, len(trials) // FEWEST_TRIALS))
        groups += [trials[part::parts] for part in range(parts)]
    return groups
