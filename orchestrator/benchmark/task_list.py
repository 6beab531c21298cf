"""In which order Tune's trials are given out: what takes longest first, as far as it is known."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from ray.tune.search import Searcher

Pair = tuple[str, str]
"""Label of the searcher, name of the workload."""


class TaskList(Searcher):
    """Tasks, each once; of a grid Tune copies all values for every trial.

    A task that begins last and takes long leaves all processors but one without work. Nobody knows
    how long one takes before another of its method has ended: tasks of methods of which nothing is
    known come first, in turn, then what takes longest by the seconds of those that have ended.
    """

    def __init__(self, tasks: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(metric="best_loss", mode="min")
        self._left: dict[Pair, deque[Mapping[str, Any]]] = {}
        for task in tasks:
            self._left.setdefault(_pair(task), deque()).append(task)
        self._begun = Counter[str]()
        self._out: dict[str, Mapping[str, Any]] = {}
        # Seconds and searches of what has ended, by pair and by searcher.
        self._ended: dict[Pair | str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next task, or `FINISHED`."""
        if not self._left:
            return str(Searcher.FINISHED)
        pair = max(self._left, key=self._urgency)
        task = self._left[pair].popleft()
        if not self._left[pair]:
            del self._left[pair]
        self._begun[pair[0]] += 1
        self._out[trial_id] = task
        return {"task": task}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Notes how long it took."""
        task = self._out.pop(trial_id, None)
        took = (result or {}).get("time_total_s")
        if task is None or error or took is None:
            return
        for key in (_pair(task), task["searcher"]):
            seconds, searches = self._ended[key]
            self._ended[key] = seconds + float(took), searches + len(task["seeds"])

    def _urgency(self, pair: Pair) -> tuple[float, int]:
        """By how much a pair's next task comes before others; the first of equals comes first."""
        for key in (pair, pair[0]):
            if key in self._ended:
                seconds, searches = self._ended[key]
                return seconds / searches * len(self._left[pair][0]["seeds"]), 0
        return math.inf, -self._begun[pair[0]]


def _pair(task: Mapping[str, Any]) -> Pair:
    return task["searcher"], task["workload"]
