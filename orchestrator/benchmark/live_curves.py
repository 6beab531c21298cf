"""What a benchmark tells while it runs: curves and a table of the searches that are finished.

The driver adds up what trials send (`orchestrator.benchmark.curve_sums`).
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from orchestrator.benchmark.config import Plan
from orchestrator.benchmark.curve_sums import SHARES, Sum, sum_of
from orchestrator.comparison.results import ROUNDING, Bounds, FloatArray, Run
from orchestrator.report.palette import method_styles
from orchestrator.runs.limits import LimitReachedError, Limits
from orchestrator.runs.progress_file import MOST_CELLS, MOST_CURVES, MOST_ROWS, Chart, Curve, Grid
from orchestrator.runs.progress_writer import ProgressWriter, curve
from orchestrator.runs.run_folder import Say

# Of what is missing, in a message.
MOST_NAMED = 6

Pair = tuple[str, str]
"""Label of the searcher, name of the workload."""


class LiveBenchmark:
    """Takes what the searches of a benchmark come to, and tells it.

    Attributes:
        say: takes lines for a person.
        bounds: what results are compared with, by workload, as far as it is known.
        limits: what the searches may take.
        processors: what the searches may use.
        stopped: the limit that was reached, in words; empty: none was.
        total: how many searches there are.
        taken: how many of them were known at the beginning.
    """

    def __init__(
        self,
        plan: Plan,
        progress: ProgressWriter,
        say: Say,
        bounds: Mapping[str, Bounds],
        limits: Limits,
    ) -> None:
        self.plan = plan
        self.progress = progress
        self.say = say
        self.bounds = bounds
        self.limits = limits
        self.stopped = ""
        self.total = self.taken = 0
        self.processors = 1
        # Another thread draws.
        self._lock = threading.Lock()
        self._sums: dict[Pair, Sum] = {}
        self._under_way: dict[str, tuple[str, float, float]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune pickles its callbacks, and reads them never again."""
        return {}

    def begin(self, total: int, known: Sequence[Run]) -> None:
        """Searching begins; some searches are known already."""
        self.total, self.taken = total, len(known)
        self.progress.stage("searching", unit="searches", total=total)
        self.add(known)

    def add(self, runs: Iterable[Run], *, before: bool = True) -> None:
        """Takes finished searches, of before this call or of now."""
        # One trial after another, as there may be many.
        for pair, own in groupby(runs, key=lambda run: (run.searcher, run.workload)):
            found = sum_of(self.plan, list(own))
            self._add(pair, found.count, found.logs)
            self.progress.advance(found.count, before=before)
        self.progress.show(self.looks, now=True)

    def begin_task(self, key: str, task: Mapping[str, Any]) -> None:
        """A trial has begun."""
        seeds = task["seeds"]
        many = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
        name = f"{task['searcher']} on {task['workload']}, {many}"
        self.progress.begin_task(key, name)
        with self._lock:
            self._under_way[key] = (name, 0.0, math.inf)
        self._count()

    def reach(self, key: str, result: Mapping[str, Any]) -> None:
        """A trial says how far it is."""
        if key in self._under_way:
            name = self._under_way[key][0]
            far = (name, float(result["share"]), float(result["best_loss"]))
            with self._lock:
                self._under_way[key] = far
            self.progress.show(self.looks)

    def end_task(self, key: str, task: Mapping[str, Any], result: Mapping[str, Any] | None) -> None:
        """A trial has ended; without a result it has failed, and may be tried again."""
        self.progress.end_task(key)
        with self._lock:
            self._under_way.pop(key, None)
        self._count()
        if result is None:
            self.progress.fail(f"{task['searcher']} on {task['workload']}: a trial failed", key)
            return
        self.progress.mend(key)
        count = len(task["seeds"])
        pair = (task["searcher"], task["workload"])
        self._add(pair, count, result["logs"])
        self.progress.advance(count)
        self.progress.show(self.looks)

    def reached(self) -> bool:
        """Whether a limit is reached, which is noted."""
        self.stopped = self.stopped or self.limits.reached(self.processors)
        return bool(self.stopped)

    def check(self, missing: Iterable[Mapping[str, Any]]) -> None:
        """Ends the benchmark where a limit has ended its searches.

        Args:
            missing: searcher, workload and seeds of what is not finished.

        Raises:
            LimitReachedError: it says what is missing.
        """
        counts = [
            (f"{task['searcher']} on {task['workload']}", len(task["seeds"])) for task in missing
        ]
        if not self.stopped or not counts:
            return
        by_pair = Counter[str]()
        for pair, count in counts:
            by_pair[pair] += count
        named = [f"{pair} ({count:,})" for pair, count in by_pair.items()][:MOST_NAMED]
        more = len(by_pair) - len(named)
        shown = ", ".join(named) + (f" and {more:,} more" if more else "")
        raise LimitReachedError(
            f"{self.plan.benchmark.name}: stopped after {self.stopped}; "
            f"{by_pair.total():,} searches are missing: {shown}; the same command goes on."
        )

    def looks(self) -> tuple[Sequence[Chart], Sequence[Grid]]:
        """Curves per method over the workloads that it has finished, and where it stands."""
        with self._lock:
            means = {pair: found.means() for pair, found in self._sums.items() if found.count}
            under_way = list(self._under_way.values())[:MOST_ROWS]
        # More become known meanwhile, in the driver's own thread.
        bounds = {name: self.bounds[name] for name in self.plan.workloads if name in self.bounds}
        bests = _references(means, bounds)
        shares = {pair: _percent(found / bests[pair[1]] - 1) for pair, found in means.items()}
        title = self._title(bounds)
        tables = [*self._running_table(under_way), self._table(title, shares)]
        return [self._chart(title, shares)], tables

    def _add(self, pair: Pair, count: int, logs: Sequence[float] | FloatArray) -> None:
        with self._lock:
            self._sums.setdefault(pair, Sum()).add(count, logs)

    def _title(self, known: Mapping[str, Bounds]) -> str:
        """What results are compared with."""
        if not known:
            return "% above the best found so far"
        if len(known) < len(self.plan.workloads):
            return "% above the optimum where it is known, else the best found so far"
        proven = all(bounds.proven for bounds in known.values())
        return "% above the proven optimum" if proven else "at most % above the optimum"

    def _count(self) -> None:
        """Tells how many processors have a search; one with runners has more than one."""
        self.progress.workers(min(len(self._under_way), self.processors), self.processors)

    def _chart(self, title: str, shares: Mapping[Pair, FloatArray]) -> Chart:
        benchmark, curves = self.plan.benchmark, list[Curve]()
        across = "share of the budget, %"
        if benchmark.seconds is not None:
            across = "seconds of search"
        elif benchmark.iterations is not None:
            across = "evaluations"
        looks = method_styles((entry.label, entry.name) for entry in benchmark.searchers)
        for entry in benchmark.searchers[:MOST_CURVES]:
            own = [values for (searcher, _), values in shares.items() if searcher == entry.label]
            if own:
                scale = entry.iterations or benchmark.iterations or benchmark.seconds or 100.0
                means = 100 * (np.exp(np.mean(np.log1p(np.array(own) / 100), axis=0)) - 1)
                points = zip(scale * SHARES, means, strict=True)
                look = looks[entry.label]
                curves.append(curve(entry.label, points, colour=look.colour, dashed=look.dashed))
        title = f"{title}, mean of finished searches"
        return Chart(title=title, across=across, up="%", logarithmic=True, curves=tuple(curves))

    def _table(self, title: str, shares: Mapping[Pair, FloatArray]) -> Grid:
        labels = [entry.label for entry in self.plan.benchmark.searchers][: MOST_CELLS - 1]
        workloads = list(self.plan.workloads)[:MOST_ROWS]

        def cell(searcher: str, workload: str) -> float | None:
            values = shares.get((searcher, workload))
            if values is None or not math.isfinite(values[-1]):
                return None
            return round(max(0.0, float(values[-1])), 6)

        rows = [(name, *(cell(label, name) for label in labels)) for name in workloads]
        return Grid(title=title, header=("workload", *labels), rows=tuple(rows))

    def _running_table(self, under_way: Sequence[tuple[str, float, float]]) -> Iterable[Grid]:
        rows = [
            (name, round(100 * share, 1), self.plan.shown(best) if math.isfinite(best) else None)
            for name, share, best in under_way
        ]
        if rows:
            header = ("search", "% of its budget", "best so far")
            yield Grid(title="Under way", header=header, rows=tuple(rows))


def _percent(shares: FloatArray) -> FloatArray:
    """In per cent; what is rounding alone is 0, as in the results."""
    return np.where(np.abs(shares) < ROUNDING, 0.0, 100 * shares)


def _references(means: Mapping[Pair, FloatArray], known: Mapping[str, Bounds]) -> dict[str, float]:
    """What each workload's results are held against."""
    found: dict[str, float] = {}
    for (_, workload), mean in means.items():
        found[workload] = min(float(mean[-1]), found.get(workload, math.inf))
    return found | {name: bounds.reference for name, bounds in known.items()}
