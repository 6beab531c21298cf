"""A search with a user's own simulator, on a pool of evaluators: `search --simulator --workers`."""

from __future__ import annotations

import contextlib
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mapspace.errors import ArgumentError, MapspaceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from costmodel.space import Codes
    from orchestrator.answers.request import Request
    from orchestrator.pool.event_log import EventLog, Kept
    from orchestrator.pool.making import ModelMaker
    from orchestrator.pool.scheduler import PoolSearch
    from orchestrator.pool.stored_answers import StoredAnswers
    from orchestrator.search.stored_simulations import SimulatedSearch
    from searchers import Searcher

# Where neither iterations nor seconds are given.
ITERATIONS = 1000
SEARCHER = "model-guided"


@dataclass(frozen=True)
class OwnSearch:
    """How a search with a simulator runs.

    Attributes:
        simulator: what `--simulator` takes.
        workers: evaluators side by side.
        events: the event log; what it holds of the same search is continued. None: none is kept.
        query_seconds: the most that a query may take on an evaluator; None: no limit.
    """

    simulator: str
    workers: int = 1
    events: Path | None = None
    query_seconds: float | None = None


@dataclass(frozen=True)
class OwnResult:
    """What was found.

    Attributes:
        record: the mapping, with its result by the simulator.
        value: of the objective.
        summary: what was asked and spent.
        from_store: whether nothing was simulated now.
    """

    record: dict[str, Any]
    value: float
    summary: dict[str, Any]
    from_store: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "record": self.record,
            "value": self.value,
            **self.summary,
            "from_store": self.from_store,
        }

    def text(self) -> str:
        """For people."""
        from costmodel.loop_nest.nest_loops import nest_of
        from costmodel.loop_nest.nest_texts import pseudo_text
        from costmodel.loop_nest.record_forms import as_nest

        said = self.summary
        workers = "1 worker" if said["workers"] == 1 else f"{said['workers']:,} workers"
        lines = []
        # What another kind of model maps is no loop nest.
        with contextlib.suppress(MapspaceError):
            lines += [pseudo_text(nest_of(as_nest(self.record)))]
        lines += [
            f"{said['objective']} {self.value:g} by {said['model']}",
            f"{said['searcher']}: {said['iterations']:,} simulations in {said['seconds']:.1f} s on "
            f"{workers}",
        ]
        if self.from_store:
            lines.append("from the store, nothing was simulated now")
        if said["failures"]:
            lines.append(
                f"{said['failures']:,} failed and count as unable to run; the last: "
                f"{said['last_failure']}"
            )
        return "\n".join(lines)


def search(request: Request, own: OwnSearch) -> OwnResult:
    """Searches until the budget is spent, on Ray actors; what the store knows is not simulated.

    Args:
        request: workload, accelerator, searcher, objective, seed and budget.
        own: the simulator and its workers.

    Raises:
        ConfigError: a name or a setting that is not allowed, or an event log of another search.
        MapspaceError: no mapping ran.
    """
    import searchers
    from costmodel.command.entry import named_simulator
    from costmodel.models import cost_model_entry
    from orchestrator.pool.making import ModelMaker
    from orchestrator.runs.search_context import context_for
    from orchestrator.search.stored_simulations import SimulatedSearch

    if own.workers < 1:
        raise ArgumentError("workers", f": expected at least 1, got {own.workers}.")
    searchers.check_budget(request.iterations, request.seconds)
    name, settings = named_simulator(own.simulator)
    entry = cost_model_entry(name)
    assert entry.settings is not None
    settings = entry.settings(settings, request.objective)
    found, device = request.operation, request.device
    assert entry.space is not None
    space = entry.space(found, device)
    method = request.searcher or SEARCHER
    iterations = request.iterations
    if iterations is None and request.seconds is None:
        iterations = ITERATIONS
    run = searchers.Context(request.objective, iterations, request.seconds)
    searcher = searchers.make(
        method,
        space,
        seed=request.seed,
        preset=request.preset,
        context=context_for(method, space, run, request.surrogate),
        **(request.parameters or {}),
    )
    asked = SimulatedSearch(
        request,
        method,
        found,
        device,
        entry.model(device, settings),
        name,
        (own.workers, own.query_seconds),
        {"iterations": iterations, "seconds": request.seconds},
    )
    # Who wants a log of events wants the search.
    known = None if request.store is None or own.events else asked.read(request.store)
    if known is not None:
        print(f"answered from the store: {known.pop('stored')}", file=sys.stderr, flush=True)
        return OwnResult(**known, from_store=True)
    write = entry.record
    assert write is not None
    make = ModelMaker(name, found, device, settings)
    return _search_now(asked, own, searcher, make, lambda code: write(space, code, device))


def _search_now(
    asked: SimulatedSearch,
    own: OwnSearch,
    searcher: Searcher,
    make: ModelMaker,
    record_of: Callable[[Codes], dict[str, Any]],
) -> OwnResult:
    """Searches, as far as the store knows the answers without an evaluator; keeps what is new.

    Args:
        asked: the search.
        own: how it runs.
        searcher: proposes; it has not been asked.
        make: makes the simulator where an evaluator is.
        record_of: a mapping `[D]` as a record of a whole nest.
    """
    from orchestrator.pool.event_log import EventLog
    from orchestrator.pool.remembered import run_as_remembered
    from orchestrator.pool.stored_answers import StoredAnswers

    store, memory = asked.request.store, None
    if store is not None:
        memory = StoredAnswers(store, asked.name, asked.model, searcher.space, record_of)
    with _events(own.events) as (file, there):
        pool = _pool(asked, searcher, log := EventLog(file))
        if there is None:
            log.head(asked.told)
        else:
            _replayed(pool, asked.told, there, own.events)
        is_over = pool.finished
        if memory is not None and not is_over:
            run_as_remembered(pool, memory, own.workers)
        if not pool.finished:
            try:
                _run_on_ray(pool, own, make, memory)
            finally:
                if memory is not None:
                    memory.write()
    trial = pool.result()
    if trial.best_code is None:
        why = f"; the last failure: {pool.last_failure}" if pool.failures else ""
        raise MapspaceError(f"No mapping ran in {trial.iterations:,} simulations{why}")
    summary = {
        **asked.told,
        "iterations": trial.iterations,
        "seconds": trial.seconds,
        "workers": own.workers,
        "failures": pool.failures,
        "last_failure": pool.last_failure,
    }
    record = record_of(trial.best_code)
    record["result"] = {asked.request.objective: trial.best_loss}
    if store is not None and not pool.failures and not is_over:
        asked.keep(store, {"record": record, "value": trial.best_loss, "summary": summary})
    nothing_new = memory is not None and memory.found > 0 and not memory.made
    return OwnResult(record, trial.best_loss, summary, nothing_new and not pool.failures)


def _pool(asked: SimulatedSearch, searcher: Searcher, log: EventLog) -> PoolSearch:
    """The search of a pool, with its budget."""
    from orchestrator.pool.scheduler import PoolSearch
    from searchers import Evaluator

    return PoolSearch(
        searcher,
        lambda costs, clock: Evaluator(
            costs,
            searcher.space,
            objective=asked.request.objective,
            iterations=asked.limits["iterations"],
            seconds=asked.limits["seconds"],
            clock=clock,
        ),
        log,
    )


def _run_on_ray(
    pool: PoolSearch, own: OwnSearch, make: ModelMaker, memory: StoredAnswers | None
) -> None:
    """Lets evaluators on Ray score what a search asks."""
    from mapspace.ray_start import start_ray
    from orchestrator.pool.actors import Evaluators
    from orchestrator.pool.scheduler import run

    start_ray(needed=max(1, math.ceil(make.cpus * own.workers)))
    evaluators = Evaluators(
        make,
        own.workers,
        cpus=make.cpus,
        gpus=make.gpus,
        query_seconds=own.query_seconds,
        memory=memory,
    )
    try:
        # Ray tells of a lost process on standard output, where the answer goes.
        with contextlib.redirect_stdout(sys.stderr):
            run(pool, evaluators)
    finally:
        evaluators.close()


@contextlib.contextmanager
def _events(path: Path | None) -> Iterator[tuple[IO[str] | None, Kept | None]]:
    """An event log, opened to be gone on with, and what it holds."""
    from orchestrator.pool.event_log import open_events

    if path is None:
        yield None, None
        return
    with contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(open_events(path))
        except OSError as error:
            raise ArgumentError("events", f": {path}: {error.strerror}.") from error
        yield opened


def _replayed(pool: PoolSearch, what: dict[str, Any], there: Kept, path: Path | None) -> None:
    from orchestrator.pool.event_log import differing

    head, events = there
    other = differing(head, what)
    if other:
        raise ArgumentError("events", f": {path} holds another search: {other} differ.")
    pool.replay(events, str(path))
