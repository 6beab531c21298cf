"""A search with a user's own simulator, on a pool of evaluators: `search --simulator --workers`."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mapspace.errors import ArgumentError, MapspaceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.accelerators import Accelerator
    from costmodel.affine import Workload
    from orchestrator.answers.request import Request
    from orchestrator.pool.event_log import Event
    from orchestrator.pool.scheduler import PoolSearch

    _Kept = tuple[dict[str, Any], Iterator[Event]]

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
    """

    record: dict[str, Any]
    value: float
    summary: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {"record": self.record, "value": self.value, **self.summary, "from_store": False}

    def text(self) -> str:
        """For people."""
        said = self.summary
        lines = [
            f"{said['objective']} {self.value:g} by {said['model']}",
            f"{said['searcher']}: {said['iterations']:,} simulations in {said['seconds']:.1f} s on "
            f"{said['workers']} workers",
        ]
        if said["failures"]:
            lines.append(
                f"{said['failures']:,} failed and count as unable to run; the last: "
                f"{said['last_failure']}"
            )
        return "\n".join(lines)


def search(request: Request, own: OwnSearch) -> OwnResult:
    """Searches until the budget is spent, on Ray actors.

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
    from costmodel.workloads import workload
    from orchestrator.pool.event_log import EventLog
    from orchestrator.pool.scheduler import PoolSearch

    if own.workers < 1:
        raise ArgumentError("workers", f": expected at least 1, got {own.workers}.")
    searchers.check_budget(request.iterations, request.seconds)
    name, settings = named_simulator(own.simulator)
    entry = cost_model_entry(name)
    assert entry.settings is not None
    settings = entry.settings(settings, request.objective)
    found, device = workload(request.workload), request.device
    assert entry.space is not None
    space = entry.space(found, device)
    method = request.searcher or SEARCHER
    searcher = searchers.make(method, space, seed=request.seed)
    iterations = request.iterations
    if iterations is None and request.seconds is None:
        iterations = ITERATIONS
    model = entry.model(device, settings)
    what = {
        "searcher": method,
        "seed": request.seed,
        "objective": request.objective,
        "workload": found.hash,
        "accelerator": device.hash,
        "model": f"{model.name} {model.version}",
        "budget": [iterations, request.seconds],
    }
    with _events(own.events) as (file, there):
        pool = PoolSearch(
            searcher,
            lambda costs, clock: searchers.Evaluator(
                costs,
                space,
                objective=request.objective,
                iterations=iterations,
                seconds=request.seconds,
                clock=clock,
            ),
            log := EventLog(file),
        )
        if there is None:
            log.head(what)
        else:
            _replayed(pool, what, there, own.events)
        if not (pool.queries.open == 0 and pool.evaluator.remaining <= 0):
            _run_on_ray(pool, own, _Maker(name, found, device, settings))
    trial = pool.result()
    if trial.best_code is None:
        why = f"; the last failure: {pool.last_failure}" if pool.failures else ""
        raise MapspaceError(f"No mapping ran in {trial.iterations:,} simulations{why}")
    summary = {
        **what,
        "iterations": trial.iterations,
        "seconds": trial.seconds,
        "workers": own.workers,
        "failures": pool.failures,
        "last_failure": pool.last_failure,
    }
    assert entry.record is not None
    record = entry.record(space, trial.best_code, device)
    record["result"] = {request.objective: trial.best_loss}
    return OwnResult(record, trial.best_loss, summary)


def _run_on_ray(pool: PoolSearch, own: OwnSearch, make: _Maker) -> None:
    """Lets evaluators on Ray score what a search asks."""
    from mapspace.ray_start import start_ray
    from orchestrator.pool.actors import Evaluators
    from orchestrator.pool.scheduler import run

    cpus = float(make.settings.get("cpus", 1.0))
    start_ray(needed=max(1, math.ceil(cpus * own.workers)))
    evaluators = Evaluators(
        make,
        own.workers,
        cpus=cpus,
        gpus=float(make.settings.get("gpus", 0.0)),
        query_seconds=own.query_seconds,
    )
    try:
        # Ray tells of a lost process on standard output, where the answer goes.
        with contextlib.redirect_stdout(sys.stderr):
            run(pool, evaluators)
    finally:
        evaluators.close()


@dataclass(frozen=True)
class _Maker:
    """Makes model and space on an evaluator."""

    name: str
    workload: Workload
    accelerator: Accelerator
    settings: Mapping[str, Any]

    def __call__(self) -> tuple[Any, Any]:
        from costmodel.models import cost_model_entry

        entry = cost_model_entry(self.name)
        assert entry.space is not None
        space = entry.space(self.workload, self.accelerator)
        return entry.model(self.accelerator, self.settings), space


@contextlib.contextmanager
def _events(path: Path | None) -> Iterator[tuple[IO[str] | None, _Kept | None]]:
    """An event log, opened to be gone on with, and what it holds."""
    from orchestrator.pool.event_log import read_events

    if path is None:
        yield None, None
        return
    try:
        there, size = None, 0
        if path.is_file() and path.stat().st_size:
            head, events, size = read_events(path)
            there = (head, events)
        file = path.open("r+" if there else "w")
    except OSError as error:
        raise ArgumentError("events", f": {path}: {error.strerror}.") from error
    with file:
        # What a last line was cut off of goes.
        file.truncate(size)
        file.seek(size)
        yield file, there


def _replayed(pool: PoolSearch, what: dict[str, Any], there: _Kept, path: Path | None) -> None:
    head, events = there
    if head != json.loads(json.dumps(what)):
        other = sorted(key for key in {*head, *what} if head.get(key) != what.get(key))
        raise ArgumentError("events", f": {path} holds another search: {', '.join(other)} differ.")
    pool.replay(events, str(path))
