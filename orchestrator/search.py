"""`mapspace search`: finds a mapping of one workload now, and explains it.

Nothing slow is imported here: no Ray, MLflow, pandas or plotting, and torch only for a learned
searcher.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from costmodel.errors import ConfigError, MapspaceError
from orchestrator.explain import UNITS, Answer, Request, explain, percent
from orchestrator.live import Live

if TYPE_CHECKING:
    import searchers
    from costmodel.accelerator import Accelerator
    from costmodel.affine import Workload
    from costmodel.exact.prover import Prover
    from costmodel.mapspace import MapSpace

WARM_UP_ITERATIONS = 256
# A proof that takes longer ends with the gap that it has reached; other searchers end sooner.
PROOF_SECONDS = 60.0
SEARCH_SECONDS = 2.0
# How long the result of another searcher is bounded for, after the search.
BOUND_SECONDS = 2.0


class InterruptedSearchError(Exception):
    """Leaves a searcher's loop between two steps: the user pressed Ctrl-C."""


def search(request: Request, stream: TextIO | None = None) -> Answer:
    """Searches, with live progress, until the budget is spent or Ctrl-C is pressed.

    Args:
        request: what to search and how.
        stream: takes the progress; standard error if None.

    Raises:
        ConfigError: an unknown name or a value that is not allowed.
        MapspaceError: no feasible mapping was found.
    """
    from costmodel.accelerator import accelerator
    from costmodel.workload import workload

    found, device = workload(request.workload), accelerator(request.accelerator)
    live = Live(stream or sys.stderr)
    how = f" with {request.searcher}" if request.searcher is not None else ""
    live.line(f"searching {found.name} on {device.name}{how}")
    return search_workload(request, found, device, live)


def search_workload(
    request: Request,
    found: Workload,
    device: Accelerator,
    live: Live,
    interrupted: threading.Event | None = None,
) -> Answer:
    """Searches one workload until the budget is spent or an interruption.

    Args:
        request: how to search; its workload and accelerator are names that were looked up already.
        found: the workload.
        device: the accelerator.
        live: takes the progress.
        interrupted: ends the search, with the best so far, when it is set; None: Ctrl-C does.

    Raises:
        ConfigError: a value that is not allowed, or no mapping can be feasible.
        MapspaceError: no feasible mapping was found.
    """
    # Only now what takes longer to import.
    import searchers
    from costmodel.bounds import floor
    from costmodel.exact.feasible import why_infeasible
    from costmodel.loopnest import LoopNestModel
    from costmodel.mapspace import MapSpace

    space = MapSpace(found, device)
    problem = why_infeasible(space, request.keep)
    if problem is not None:
        raise ConfigError(problem)
    name, obstacle = method(request, space)
    if request.searcher is None and obstacle is not None:
        live.line(f"no proof is possible, so {name} searches: {obstacle}")
    model = LoopNestModel()
    searcher = prepare(request, name, space, live)
    bound = floor(space.workload, space.accelerator).objective(request.objective)
    seconds = request.seconds
    if seconds is None and request.iterations is None:
        seconds = PROOF_SECONDS if name == "exact" else SEARCH_SECONDS

    def progress() -> str:
        certain = searcher.lower_bound
        standing = (
            f"{percent(evaluator.best_loss / bound - 1)} above the floor"
            if certain is None
            else f"certainly within {percent(evaluator.best_loss / certain - 1)} of the optimum"
        )
        return (
            f"{evaluator.elapsed:8.2f} s {evaluator.iterations_used:>13,} iterations   "
            f"best {request.objective} {evaluator.best_loss:.5g} {UNITS[request.objective]}"
            f"   {standing}"
        )

    evaluator = searchers.Evaluator(
        model,
        space,
        objective=request.objective,
        iterations=request.iterations,
        seconds=seconds,
        on_improvement=lambda _: live.update(progress),
    )
    with nullcontext(interrupted) if interrupted else interruptible() as ended:

        def after_step(_: searchers.Searcher) -> None:
            if ended.is_set():
                raise InterruptedSearchError
            if searcher.lower_bound is not None:
                live.update(progress)

        try:
            searcher.run(evaluator, after_step)
        except InterruptedSearchError:
            live.line("interrupted: the best so far")
    live.end()
    result = evaluator.result()
    if result.best_code is None:
        raise MapspaceError(
            f"No feasible mapping of {space.workload.name} on {space.accelerator.name} was found "
            f"in {result.iterations:,} iterations and {result.seconds:.3g} s."
            + (f" {searcher.failure}" if searcher.failure else "")
        )
    prover = searcher.prover if isinstance(searcher, _exact()) else None
    if prover is None and obstacle is None and request.keep is None:
        prover = _bound(request, space, result.best_code)
    answer = explain(request, name, space, model, result, prover, conclusion=searcher.conclusion)
    return replace(answer, failure=searcher.failure)


def method(request: Request, space: MapSpace) -> tuple[str, str | None]:
    """The searcher that a request comes to, and why there can be no proof (None: there can)."""
    from costmodel.exact.tables import why_not

    obstacle = why_not(space)
    return request.searcher or ("exact" if obstacle is None else "structured"), obstacle


def prepare(request: Request, name: str, space: MapSpace, live: Live) -> searchers.Searcher:
    """Makes a searcher, and loads compiled code, so that no search time goes into that.

    Raises:
        ConfigError: an unknown searcher, or a value that is not allowed.
    """
    import searchers
    from costmodel.loopnest import LoopNestModel

    def make() -> searchers.Searcher:
        return searchers.make(name, space, seed=request.seed, **_parameters(request, name, space))

    with live.notice_after(1.0, searchers.searcher_class(name).preparation):
        searcher = make()
        if not isinstance(searcher, _exact()):  # that one has loaded its code in being made
            warm_up = searchers.Evaluator(LoopNestModel(), space, iterations=WARM_UP_ITERATIONS)
            make().run(warm_up)
    return searcher


def _exact() -> type[Any]:
    from searchers.exact import Exact

    return Exact


def _parameters(request: Request, name: str, space: MapSpace) -> dict[str, Any]:
    """The hyperparameters that a request decides, for a searcher that has them.

    Raises:
        ConfigError: the request asks for what only a proof or a learned searcher can give.
    """
    import searchers

    known = searchers.hyperparameters(name)
    asked: dict[str, Any] = {"gap": request.gap, "top": request.top, "keep": request.keep}
    defaults = {"gap": 0.0, "top": 1, "keep": None}
    chosen: dict[str, Any] = {}
    for key, value in asked.items():
        if value == defaults[key]:
            continue
        if key not in known:
            raise ConfigError(f"--{key} is for the exact searcher; {name} has no such parameter.")
        chosen[key] = value
    if request.surrogate is not None and "predictor" not in known:
        raise ConfigError(
            f"--surrogate is for a learned searcher such as gradient; {name} has no such parameter."
        )
    if "threads" in known:
        chosen["threads"] = request.threads
    if "objective" in known:
        chosen["objective"] = request.objective
    if "predictor" in known:
        from orchestrator.experiment import predictor

        chosen["predictor"] = predictor(space, request.surrogate)
    return chosen


def _bound(request: Request, space: MapSpace, best: Any) -> Prover:
    """Bounds what another searcher found, from its result on."""
    from costmodel.exact.prover import Prover

    started = time.monotonic()
    prover = Prover(space, objective=request.objective, threads=request.threads)
    prover.offer(best[None])
    while not prover.finished and time.monotonic() - started < BOUND_SECONDS:
        prover.step()
    return prover


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Turns the first Ctrl-C into an event; the second one interrupts as usual."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.getsignal(signal.SIGINT)

    def on_interrupt(*_: Any) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
