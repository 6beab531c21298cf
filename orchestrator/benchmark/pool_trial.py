"""Host three: a Tune trial is whole searches, on evaluators of its own that answer out of order.

For simulators that take seconds. What is asked and answered stands in the log of the search, in
`events/` of the run folder: a trial that is tried again goes on from it, and a folder that has lost
all but its logs comes to the same curves, bit for bit, without a single query.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from costmodel.space import UNLIMITED
from mapspace.errors import DataError
from mapspace.storage import Place, make_folder, write_atomically
from orchestrator.benchmark.config import Plan, make_searcher
from orchestrator.benchmark.search_trial import Searches, make_evaluator
from orchestrator.pool.delivered import DeliveredCosts
from orchestrator.pool.event_log import EventLog, Kept, differing, open_events
from orchestrator.pool.making import ModelMaker
from orchestrator.pool.scheduler import Clock, PoolSearch, run
from searchers import Evaluator, Searcher, searcher_class
from searchers.shared.asynchronous import Asynchronous

EVENTS_FOLDER = "events"


class PooledSearches(Searches):
    """The searches of one trial, one after another on the same evaluators.

    Evaluators come when the first query needs them, off the clock, and remember nothing of the
    search before.
    """

    # It is in its log.
    _is_saved = False

    def __init__(self, plan: Plan, task: Mapping[str, Any], logs: Place) -> None:
        """Begins with none.

        Args:
            plan: the benchmark.
            task: of the trial.
            logs: what the names of their logs begin with, in a folder that is there.
        """
        super().__init__(plan, task["searcher"], task["workload"], list(task["seeds"]))
        self._logs = logs
        self._evaluators: Any = None

    def _reads_store(self) -> bool:
        """Only where a batch is told as a whole: else what is back at once would be told sooner."""
        searcher = searcher_class(self.entry.name)
        return not issubclass(searcher, Asynchronous)

    def warm_up(self) -> None:
        """Nothing: evaluators load what they need before their first query."""

    def search(self, after_step: Callable[[Searcher], None], seconds: float) -> bool:
        """Makes the search of the next seed, or goes on with it; False where none is left.

        Args:
            after_step: called after every answer.
            seconds: the least time between two writes of a log that lies at a URI.

        Raises:
            ConfigError: what the cost model refuses.
            DataError: a log is damaged, or that of another search.
            MapspaceError: no evaluator has come.
        """
        if self.done:
            return False
        seed = self.seeds[len(self.finished)]
        at = self._logs.with_name(f"{self._logs.name}-{seed}.jsonl")
        with kept_log(at, seconds) as (file, there, keep):
            self.searcher = make_searcher(self.plan, self.entry, self.space, seed=seed)
            pool = PoolSearch(self.searcher, self._evaluator, EventLog(file))
            self.evaluator = pool.evaluator
            self._under_way = True
            go_on(pool, self._what(seed), there, file, str(at))
            keep(False)
            if not pool.finished:

                def after() -> None:
                    keep(False)
                    after_step(self.searcher)

                run(pool, self._gathered(), after)
            keep(True)
        self.finish()
        return True

    def close(self) -> None:
        """Ends the evaluators."""
        super().close()
        if self._evaluators is not None:
            self._evaluators.close()

    def _evaluator(self, model: DeliveredCosts, clock: Clock) -> Evaluator:
        # As many as there are evaluators at least; who is told every answer asks for few.
        batch = max(self.plan.cost_model.largest_batch, self.plan.benchmark.workers or 1)
        if isinstance(self.searcher, Asynchronous):
            batch = UNLIMITED
        return make_evaluator(
            self.plan, model, self.space, self.entry, clock=clock, largest_batch=batch
        )

    def _gathered(self) -> Any:
        """The evaluators, all there, which know nothing of the search before."""
        from orchestrator.pool.actors import Evaluators

        benchmark = self.plan.benchmark
        if self._evaluators is None:
            make = ModelMaker(
                benchmark.model,
                self.plan.workloads[self.workload],
                self.plan.accelerator,
                benchmark.measurement,
            )
            self._evaluators = Evaluators(
                make,
                benchmark.workers or 1,
                cpus=make.cpus,
                gpus=make.gpus,
                query_seconds=benchmark.query_seconds,
                memory=self.memory,
            )
        else:
            self._evaluators.forget()
        self._evaluators.gather()
        return self._evaluators

    def _what(self, seed: int) -> dict[str, Any]:
        """What search a log is of."""
        benchmark, model = self.plan.benchmark, self.model
        return {
            "benchmark": benchmark.name,
            "searcher": self.entry.label,
            "method": self.entry.name,
            "parameters": self.entry.model_dump(mode="json")["parameters"],
            "seed": seed,
            "objective": benchmark.objective,
            "workload": self.plan.workloads[self.workload].hash,
            "accelerator": self.plan.accelerator.hash,
            "model": f"{model.name} {model.version}",
            "budget": [benchmark.iterations_in(self.space, self.entry), benchmark.seconds],
            "workers": benchmark.workers,
        }


def go_on(
    pool: PoolSearch, what: dict[str, Any], there: Kept | None, file: IO[str], where: str
) -> None:
    """Lets a search go on from its log, or begins the log.

    Raises:
        DataError: the log is that of another search.
    """
    if there is None:
        EventLog(file).head(what)
        return
    head, events = there
    other = differing(head, what)
    if other:
        raise DataError(f"{where}: holds another search: {other} differ.")
    pool.replay(events, where)


@contextlib.contextmanager
def kept_log(
    at: Place, seconds: float
) -> Iterator[tuple[IO[str], Kept | None, Callable[[bool], None]]]:
    """A log in a file or at a URI, opened to be gone on with.

    Args:
        at: where it lies.
        seconds: the least time between two uploads.

    Yields:
        The open file, what it holds, and what uploads it where that is due, or at once.
    """
    if isinstance(at, Path):
        with open_events(at) as (file, there):
            yield file, there, lambda now: None
        return
    last = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / at.name
        if at.exists():
            here.write_bytes(at.read_bytes())
        with open_events(here) as (file, there):

            def keep(now: bool) -> None:
                nonlocal last
                if now or time.monotonic() - last >= seconds:
                    write_atomically(at, here.read_bytes())
                    last = time.monotonic()

            yield file, there, keep


def pooled_searches(plan: Plan, task: Mapping[str, Any], folder: Place) -> Searches:
    """The searches of a trial.

    Args:
        plan: the benchmark.
        task: of the trial.
        folder: where its file lies, in the run folder.
    """
    events = folder.parent / EVENTS_FOLDER
    make_folder(events)
    logs = events / str(task["file"]).removesuffix(".npz")
    return PooledSearches(plan, task, logs)
