"""Finds a mapping of one workload now.

Nothing slow is imported here: no Ray, MLflow, pandas or plotting, and torch only for a learned
searcher.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from mapspace.errors import ArgumentError, ConfigError, MapspaceError, NoMappingError, together
from mapspace.extras import require
from orchestrator.answers.request import HEURISTIC, Request
from orchestrator.report.units import percent, value_text
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live
from orchestrator.search.continuing import go_on

if TYPE_CHECKING:
    import searchers
    from costmodel.exact.face import AnyProof
    from costmodel.machines.accelerators import Accelerator
    from costmodel.map_space.map_space import MapSpace
    from costmodel.problems.affine import Workload
    from costmodel.space import CostModel
    from orchestrator.answers.results import SearchResult
    from orchestrator.search.stored import Asked
    from orchestrator.store.winners import Winner
    from searchers import TrialResult

WARM_UP_ITERATIONS = 256
# A proof that takes longer ends with the gap that it has reached; other searchers end sooner.
PROOF_SECONDS = 60.0
SEARCH_SECONDS = 2.0
# How long the result of another searcher is bounded for, after the search: with and without a
# budget of time, which is kept within half a second.
BOUND_IN_TIME_SECONDS, BOUND_SECONDS = 0.25, 2.0


class InterruptedSearchError(Exception):
    """Leaves a searcher's loop between two steps: the user pressed Ctrl-C."""


def search(request: Request, stream: TextIO | None = None) -> SearchResult:
    """Searches, with live progress, until the budget is spent or Ctrl-C is pressed.

    Args:
        request: what to search and how.
        stream: takes the progress; standard error if None.

    Raises:
        ConfigError: an unknown name or a value that is not allowed.
        MapspaceError: no feasible mapping was found.
    """
    from costmodel.exact_any.choice import load_compiled
    from orchestrator.search.padding_advice import advice
    from orchestrator.search.padding_trials import pad, padded

    original, device = together(lambda: request.operation, lambda: request.device)
    asked = asked_of(request, original, device)  # what is wrong is said before all else
    live = Live(stream or sys.stderr)
    padding = None
    if request.pad:
        live.line(f"trying larger sizes of {original.name} on {device.name}")
        with live.preparing("loading compiled code"):
            load_compiled()
        started = time.monotonic()
        with interruptible() as interrupted:
            padding = pad(request, original, device, interrupted)
        if request.seconds is not None:
            spent = time.monotonic() - started
            request = replace(request, seconds=max(request.seconds - spent, request.seconds / 2))
        asked = asked_of(request, padded(original, padding.sizes), device)
    how = f" with {request.searcher}" if request.searcher is not None else ""
    live.line(f"searching {asked.space.workload.name} on {device.name}{how}")
    result = search_asked(asked, live)
    if padding is not None:
        result = replace(result, original=original, padding=padding)
    elif not result.interrupted:
        with interruptible() as interrupted:
            result = replace(result, padding=advice(request, result, interrupted))
    return with_explanation(request, result, live.stream) if request.explain else result


def with_explanation(request: Request, result: SearchResult, stream: TextIO) -> SearchResult:
    """A result with what explains it, or with why nothing does.

    The explanation may take as long again as the search, or a minute.
    """
    from orchestrator.search.explaining import explain_result

    if result.interrupted:
        return replace(result, unexplained="the search was interrupted")
    started = time.monotonic()
    try:
        found = explain_result(result, seconds=request.seconds or PROOF_SECONDS, stream=stream)
    except ConfigError as error:
        return replace(result, unexplained=str(error))
    wall = result.wall_seconds + time.monotonic() - started
    cut = found.explanation.interrupted
    return replace(result, explained=found, wall_seconds=wall, interrupted=cut)


def search_workload(
    request: Request,
    found: Workload,
    device: Accelerator,
    live: Live,
    interrupted: threading.Event | None = None,
) -> SearchResult:
    """Checks what is asked, and searches one workload as `search_asked` does.

    Args:
        request: how to search; its workload and accelerator are names that were looked up already.
        found: the workload.
        device: the accelerator.
        live: takes the progress.
        interrupted: ends the search, with the best so far, when it is set; None: Ctrl-C does.

    Raises:
        ConfigError: a value that is not allowed; what `search_asked` raises.
    """
    return search_asked(asked_of(request, found, device), live, interrupted)


def search_asked(
    asked: Asked, live: Live, interrupted: threading.Event | None = None
) -> SearchResult:
    """Searches what was found to be searchable until the budget is spent or an interruption.

    Where constraints leave no feasible mapping, the error names those that together do.

    Args:
        asked: what.
        live: takes the progress.
        interrupted: as `search_workload` takes it.

    Raises:
        ConfigError: no mapping can be feasible.
        MapspaceError: no feasible mapping was found.
        KeyboardInterrupt: an interruption came before the first one.
    """
    from orchestrator.search.stored import read_or_search

    if asked.request.store is None:
        return _search_or_why_not(asked, live, interrupted)
    result = read_or_search(asked, lambda: _search_or_why_not(asked, live, interrupted), live.line)
    return replace(result, begins=asked.begins)


def asked_of(request: Request, found: Workload, device: Accelerator) -> Asked:
    """What a search of a workload asks of the store, once the request is one that can be searched.

    What is refused does not depend on what a store knows.

    Raises:
        ConfigError: a value that is not allowed, or options that do not go together on this machine
            with this workload.
    """
    import searchers
    from costmodel.map_space.map_space import MapSpace
    from orchestrator.search.stored import Asked

    def check_options() -> MapSpace:
        space = MapSpace(found, device)
        name = method(request, space)[0]
        preset, parameters = request.told(name)
        together(
            lambda: searchers.check(name, space, seed=request.seed, preset=preset, **parameters),
            lambda: _check_surrogate(request, name, space),
            lambda: _check_workers(request, name, space),
        )
        return space

    space, _ = together(
        check_options, lambda: searchers.check_budget(request.iterations, request.seconds)
    )
    name = method(request, space)[0]
    seconds = budget_seconds(request, name)
    begins = _begins(request, name, space) if request.warm_start else None
    return Asked(request, space, name, None if seconds == math.inf else seconds, begins)


def _check_surrogate(request: Request, name: str, space: MapSpace) -> None:
    import searchers
    from orchestrator.runs.search_context import context_for

    if request.surrogate is not None:
        context_for(name, space, searchers.Context(objective=request.objective), request.surrogate)


def _check_workers(request: Request, name: str, space: MapSpace) -> None:
    """Refuses workers without anything to share out, or without Ray."""
    if request.workers is None:
        return
    if request.islands is None:
        from orchestrator.search.shared_proof import check_shared

        check_shared(request, name, space)
    if request.workers > 1:
        require(("ray",))


def _begins(request: Request, name: str, space: MapSpace) -> tuple[Winner, ...]:
    """What a warm start begins from.

    Raises:
        ArgumentError: the searcher cannot begin from anything.
    """
    import searchers
    from orchestrator.store.winners import winners

    if not searchers.searcher_class(name).TAKES_MIGRANTS:
        raise ArgumentError(
            "warm_start",
            " is for searchers that can begin from mappings, such as annealing, genetic and "
            f"model-guided; {name} cannot.",
        )
    assert request.store is not None  # the request has looked
    return winners(space, request.objective, request.store)


def budget_seconds(request: Request, name: str) -> float | None:
    """The budget of time of a search with a method, s; None: none."""
    if request.seconds is not None or request.iterations is not None:
        return request.seconds
    return PROOF_SECONDS if name == "exact" else SEARCH_SECONDS


def _search_or_why_not(
    asked: Asked, live: Live, interrupted: threading.Event | None
) -> SearchResult:
    try:
        return _search_now(asked, live, interrupted)
    except NoMappingError as error:
        from orchestrator.search.nothing_left import admitting_text, excluded_text, why_nothing

        live.end()
        live.line("no mapping is feasible: looking for what leaves none, and what would admit one")
        space, why = asked.space, str(error)
        if space.accelerator.constraints:
            where = f"{space.workload.name} on {space.accelerator.name}"
            why = f"No mapping of {where} is feasible: {why_nothing(space)}."
            why += excluded_text(space)
        raise NoMappingError(why + admitting_text(space)) from error


def _search_now(asked: Asked, live: Live, interrupted: threading.Event | None) -> SearchResult:
    started = time.monotonic()
    # Only now what takes longer to import.
    import searchers
    from costmodel.exact.infeasible import why_infeasible
    from costmodel.loop_nest.model import LoopNestModel
    from costmodel.machines.bounds import floor
    from orchestrator.search.assess import assess
    from orchestrator.search.nothing_left import closest_text

    request, space = asked.request, asked.space
    problem = why_infeasible(space, request.keep)
    if problem is not None:
        raise ConfigError(problem + (closest_text(space) if request.keep is None else ""))
    name, obstacle = method(request, space)
    if request.searcher is None and request.islands is None and obstacle is not None:
        live.line(f"no proof is possible, so {name} searches: {obstacle}")
    model = LoopNestModel()
    searcher = prepare(request, name, space, live)
    if request.continued is not None:
        assert isinstance(searcher, _exact())  # `continuing` asks for it
        go_on(searcher.prover, request.continued, live)
    bound = floor(space.workload, space.accelerator).objective(request.objective)
    clock_ghz = space.accelerator.clock_ghz
    seconds = budget_seconds(request, name)

    def progress() -> str:
        best = value_text(request.objective, evaluator.best_loss, clock_ghz, 5)
        # Cycles without their milliseconds: a line has 80 characters.
        named = best.split(" (")[0] if " (" in best else f"{request.objective} {best}"
        return (
            f"{evaluator.elapsed:6.2f} s {evaluator.iterations_used:>9,} iterations  {named}  "
            f"{_so_far(searcher, evaluator.best_loss, bound)}"
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
            if searcher.lower_bound is not None and evaluator.best_loss < math.inf:
                live.update(progress)

        try:
            _begin(searcher, evaluator, asked.begins or ())
            _run(request, searcher, evaluator, ended, after_step)
        except InterruptedSearchError:
            live.line("interrupted: the best so far")
    # What it took, which the last query may have drawn out beyond the budget.
    result = replace(evaluator.result(), seconds=evaluator.elapsed)
    live.end()
    if result.best_code is None:
        raise KeyboardInterrupt if ended.is_set() else _nothing_found(space, searcher, result)
    prover = None
    if isinstance(searcher, _exact()):
        prover = searcher.prover
        result = _of_the_proof(result, prover, model, request)
    elif _is_bounded(request, obstacle) and not ended.is_set():
        prover = _bound(request, space, result.best_code, in_time=seconds is not None)
    if prover is not None and not prover.built:
        prover = None  # there was no time for its tables, so nothing is certain
    found_so_far = assess(request, name, searcher, space, result, prover)
    wall = time.monotonic() - started
    return replace(found_so_far, wall_seconds=wall, interrupted=ended.is_set())


def _begin(
    searcher: searchers.Searcher, evaluator: searchers.Evaluator, begins: tuple[Winner, ...]
) -> None:
    """Lets a search begin from winners of other problems."""
    from searchers.shared.warm_start import begin_from

    for winner in begins:
        begin_from(searcher, evaluator, winner.codes)


def _run(
    request: Request,
    searcher: searchers.Searcher,
    evaluator: searchers.Evaluator,
    ended: threading.Event,
    after_step: Callable[[searchers.Searcher], None],
) -> None:
    """Searches, on islands side by side where workers are asked for.

    Islands see an interruption before a round ends.
    """
    if request.islands is None or (request.workers or 1) == 1:
        searcher.run(evaluator, after_step)
        return
    from orchestrator.search.islands import run_on_ray
    from searchers.islands import Islands

    assert isinstance(searcher, Islands)  # `method` asks for it
    run_on_ray(searcher, evaluator, request.workers or 1, ended.is_set, after_step)


def _nothing_found(
    space: MapSpace, searcher: searchers.Searcher, result: TrialResult
) -> MapspaceError:
    where = f"{space.workload.name} on {space.accelerator.name}"
    if isinstance(searcher, _exact()) and searcher.prover.finished:
        return NoMappingError(
            f"No mapping of {where} is feasible: the proof went through all of them."
        )
    return MapspaceError(
        f"No feasible mapping of {where} was found in {result.iterations:,} iterations and "
        f"{result.seconds:.3g} s." + (f" {searcher.failure}" if searcher.failure else "")
    )


def _so_far(searcher: searchers.Searcher, loss: float, floor: float) -> str:
    """What is certain of the best so far, in words."""
    certain = searcher.lower_bound
    if not certain:  # a bound is 0 until the first one is made
        return f"{percent(loss / floor - 1)} above the bound" if floor else "nothing certain"
    proven, restricted = False, False
    if isinstance(searcher, _exact()):
        # In whole numbers: losses are rounded.
        proven = searcher.gap_left == 0
        restricted = searcher.prover.keep is not None
    if proven:
        return "as kept: proven optimal" if restricted else "proven optimal"
    gap = percent(max(0.0, loss / certain - 1), up=True)
    return f"as kept: within {gap}" if restricted else f"certainly within {gap}"


def _of_the_proof(result: TrialResult, prover: AnyProof, model: CostModel, request: Request) -> Any:
    """The result, with the best mapping of the proof if that is better in whole numbers.

    Losses in floating point may tell equal ones apart, and hide which of them is the better one.
    """
    best, code = prover.best_outcome, result.best_code
    reached = None if code is None else prover.outcomes(code[None])[0]
    if best is None or reached is None:
        return result
    ours, its = prover.rank_of(reached), prover.rank_of(best)
    # The first of several best tilings is the one to speak of, not another of the same costs.
    if its > ours or (its == ours and request.top == 1):
        return result
    code = prover.codes()[0]
    loss = float(model.evaluate(prover.space, code[None]).objective(request.objective)[0])
    return replace(result, best_code=code, best_loss=loss)


def method(request: Request, space: MapSpace) -> tuple[str, str | None]:
    """The searcher that a request comes to, and why there can be no proof (None: there can)."""
    from costmodel.exact_any.choice import why_not

    obstacle = why_not(space)
    if request.islands is not None:
        return "islands", obstacle
    if request.searcher is not None:
        return request.searcher, obstacle
    return "exact" if obstacle is None else HEURISTIC, obstacle


def prepare(request: Request, name: str, space: MapSpace, live: Live) -> searchers.Searcher:
    """Makes a searcher, and loads compiled code, so that no search time goes into that.

    Raises:
        ConfigError: an unknown searcher, or a value that is not allowed.
    """
    import searchers
    from costmodel.exact_any.choice import FUNCTIONS
    from costmodel.loop_nest.model import LoopNestModel
    from orchestrator.runs.search_context import context_for
    from searchers.first_use import FirstUse

    def make() -> searchers.Searcher:
        if request.workers is None or request.islands is not None:
            return searchers.make(
                name, space, seed=request.seed, preset=preset, context=context, **parameters
            )
        from orchestrator.search.shared_proof import shared_exact

        return shared_exact(request, space, name, parameters)

    preset, parameters = request.told(name)
    known = searchers.Context(
        objective=request.objective,
        iterations=request.iterations,
        seconds=budget_seconds(request, name),
        threads=request.threads,
    )
    context = context_for(name, space, known, request.surrogate)
    kind = searchers.searcher_class(name)
    is_exact = issubclass(kind, _exact())
    # What bounds the result is compiled with the rest, not behind the search without a word.
    is_bounded = not is_exact and _is_bounded(request, method(request, space)[1])
    functions = FUNCTIONS if is_exact else kind.functions
    if is_bounded and functions is not None:
        functions += FUNCTIONS
    with live.preparing(kind.preparation, functions=functions):
        if is_bounded:
            FirstUse()
        searcher = make()
        if isinstance(searcher, _exact()):  # it has loaded its code in being made, but for its walk
            if request.seconds is not None and searcher.waits_for_walk:
                live.line("waiting for what another process compiles")
                searcher.await_walk()
        else:
            warm_up = searchers.Evaluator(LoopNestModel(), space, iterations=WARM_UP_ITERATIONS)
            make().run(warm_up)
    return searcher


def _is_bounded(request: Request, obstacle: str | None) -> bool:
    """Whether a proof bounds what another searcher finds."""
    return obstacle is None and request.keep is None


def _exact() -> type[Any]:
    from searchers.exact import Exact

    return Exact


def _bound(request: Request, space: MapSpace, best: Any, *, in_time: bool) -> AnyProof:
    """Bounds what another searcher found, from its result on, for a while."""
    from costmodel.exact_any.choice import make_prover

    prover = make_prover(space, objective=request.objective, build=False)
    prover.offer(best[None])
    prover.run(BOUND_IN_TIME_SECONDS if in_time else BOUND_SECONDS)
    return prover
