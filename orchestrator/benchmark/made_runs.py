"""The runs that a benchmark has come to, of which many are read as they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mapspace.errors import MapspaceError
from mapspace.storage import Place
from orchestrator.comparison.many_runs import Pair
from orchestrator.comparison.results import Run


class MadeRuns:
    """Runs by searcher and workload: at hand, or in the files of trials that are finished."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._runs: dict[Pair, list[Run]] = {}
        self._trials: dict[Pair, list[tuple[Place, Mapping[str, Any]]]] = {}
        self._count = 0
        self.add(runs)

    def __len__(self) -> int:
        return self._count

    def add(self, runs: Iterable[Run]) -> None:
        """Adds runs that are at hand."""
        for run in runs:
            self._runs.setdefault((run.searcher, run.workload), []).append(run)
            self._count += 1

    def add_trial(self, file: Place, task: Mapping[str, Any]) -> None:
        """Adds the runs of a finished trial, which its file holds."""
        pair = task["searcher"], task["workload"]
        self._trials.setdefault(pair, []).append((file, task))
        self._count += len(task["seeds"])

    @property
    def pairs(self) -> list[Pair]:
        """Searchers and workloads that have runs."""
        return [*dict.fromkeys([*self._runs, *self._trials])]

    def of(self, pair: Pair) -> list[Run]:
        """The runs of a pair, by their seeds.

        Raises:
            DataError: a file is damaged.
            MapspaceError: a trial is not finished after all.
        """
        from orchestrator.benchmark.search_trial import finished_runs

        found = [*self._runs.get(pair, ())]
        for file, task in self._trials.get(pair, ()):
            runs = finished_runs(file, task)
            if runs is None:
                raise MapspaceError(f"{file}: the result of a finished trial is not here any more.")
            found += runs
        return sorted(found, key=lambda run: run.seed)

    def batches(self, least: int) -> Iterator[list[Run]]:
        """All runs, whole pairs at a time, of which as few as make so many runs or more."""
        batch: list[Run] = []
        for pair in self.pairs:
            batch += self.of(pair)
            if len(batch) >= least:
                yield batch
                batch = []
        if batch:
            yield batch
