"""`mapspace search`: finds a mapping of one workload now, and explains it.

Nothing slow is imported here: no Ray, MLflow, pandas or plotting, and torch only for a learned
searcher.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from costmodel.costs import Objective
from costmodel.errors import MapspaceError

# A line of progress is printed at most this often, in seconds.
PROGRESS_SECONDS = 0.2
WARM_UP_ITERATIONS = 256
UNITS = {"edp": "pJ x cycles", "energy": "pJ", "latency": "cycles", "ed2p": "pJ x cycles^2"}


@dataclass(frozen=True)
class Request:
    """What `mapspace search` was asked.

    Attributes:
        workload: a preset's name, a YAML file or an inline workload.
        accelerator: a preset's name or a YAML file.
        searcher: a key of the table of searchers.
        seconds: budget of search time.
        iterations: budget of cost queries.
        objective: what to minimise.
        seed: decides the search under a budget of iterations.
        surrogate: a surrogate's folder for a learned searcher; None: the shipped one.
    """

    workload: str
    accelerator: str
    searcher: str
    seconds: float | None
    iterations: int | None
    objective: Objective
    seed: int
    surrogate: str | None = None


@dataclass(frozen=True)
class Answer:
    """The winner of a search.

    Attributes:
        summary: what `--json` prints.
        text: what a person reads.
    """

    summary: dict[str, Any]
    text: str


class _InterruptedSearchError(Exception):
    """Leaves a searcher's loop between two steps."""


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
    live = _Live(stream or sys.stderr)
    live.line(f"searching {found.name} on {device.name} with {request.searcher}")

    # Only now what takes longer to import.
    import searchers
    from costmodel.bounds import floor
    from costmodel.loopnest import LoopNestModel
    from costmodel.mapspace import MapSpace
    from orchestrator.experiment import predictor

    space = MapSpace(found, device)
    model = LoopNestModel()
    extra: dict[str, Any] = {}
    if "predictor" in searchers.hyperparameters(request.searcher):
        extra["predictor"] = predictor(space, request.surrogate)

    def make() -> searchers.Searcher:
        return searchers.make(request.searcher, space, seed=request.seed, **extra)

    searcher = make()
    bound = floor(space.workload, space.accelerator).objective(request.objective)

    def improved(evaluator: searchers.Evaluator) -> None:
        live.update(
            lambda: (
                f"{evaluator.elapsed:8.2f} s {evaluator.iterations_used:>13,} iterations   "
                f"best {request.objective} {evaluator.best_loss:.5g} {UNITS[request.objective]}"
                f"   {_percent(evaluator.best_loss / bound - 1)} above the floor"
            )
        )

    evaluator = searchers.Evaluator(
        model,
        space,
        objective=request.objective,
        iterations=request.iterations,
        seconds=request.seconds,
        on_improvement=improved,
    )
    with live.notice_after(1.0, "compiling; this is done once per installation"):
        throwaway = searchers.Evaluator(model, space, iterations=WARM_UP_ITERATIONS)
        make().run(throwaway)
    with _interruptible() as interrupted:

        def after_step(_: searchers.Searcher) -> None:
            if interrupted.is_set():
                raise _InterruptedSearchError

        try:
            searcher.run(evaluator, after_step)
        except _InterruptedSearchError:
            live.line("interrupted: the best so far")
    live.end()
    result = evaluator.result()
    if result.best_code is None:
        raise MapspaceError(
            f"No feasible mapping of {space.workload.name} on {space.accelerator.name} was found "
            f"in {result.iterations:,} iterations and {result.seconds:.3g} s."
        )
    return _explain(request, space, model, result)


def _explain(request: Request, space: Any, model: Any, result: Any) -> Answer:
    from costmodel.bounds import algorithmic_minimum, floor, known_optimum
    from costmodel.records import mapping_record

    costs = model.evaluate(space, result.best_code[None], detail=True)
    energy = float(costs.energy_pj[0])
    cycles = float(costs.latency_cycles[0])
    minimum = algorithmic_minimum(space.workload, space.accelerator)
    lower = floor(space.workload, space.accelerator)
    optimum = known_optimum(space.workload, space.accelerator)
    bound = lower.objective(request.objective)
    edp = energy * cycles
    gap = result.best_loss / bound - 1
    summary = {
        # The floor is a true lower bound, so a mapping on it is optimal.
        "proven": result.best_loss <= bound * (1 + 1e-9),
        "lower_bound": bound,
        "workload": space.workload.name,
        "accelerator": space.accelerator.name,
        "model": model.name,
        "model_version": model.version,
        "searcher": request.searcher,
        "objective": request.objective,
        "seed": request.seed,
        "iterations": result.iterations,
        "true_queries": result.true_queries,
        "surrogate_queries": result.surrogate_queries,
        "seconds": result.seconds,
        "energy_pj": energy,
        "latency_cycles": cycles,
        "edp": edp,
        "utilisation": float(costs.detail.utilisation[0]),
        "normalised_edp": edp / minimum.edp,
        "gap_to_floor": gap,
        "gap_to_optimum": None if optimum is None else edp / optimum - 1,
        "record": mapping_record(space, result.best_code),
    }
    lines = [
        f"{space.workload}",
        "",
        str(space.describe(result.best_code)),
        "",
        *_energy_table(space, costs.detail, energy),
        "",
        f"cycles          {cycles:,.0f}",
        f"utilisation     {_percent(summary['utilisation'])}",
        f"EDP             {edp:.6g} pJ x cycles ({_joule_seconds(space, edp)})",
        f"normalised EDP  {summary['normalised_edp']:.4f} x the algorithmic minimum",
        f"floor           {bound:.6g} {UNITS[request.objective]}, "
        f"gap {_percent(gap)} ({request.objective})",
    ]
    if summary["proven"]:
        lines.append("optimal         the floor is reached")
    if optimum is not None:
        # Published optima are rounded, so a found one can be below by the rounding.
        above = max(summary["gap_to_optimum"], 0.0)
        lines.append(f"known optimum   {optimum:.6g} pJ x cycles, gap {_percent(above)} (EDP)")
    lines.append(
        f"search          {result.iterations:,} iterations in {result.seconds:.2f} s "
        f"with {request.searcher}, seed {request.seed}"
    )
    return Answer(summary, "\n".join(lines))


def _energy_table(space: Any, detail: Any, total: float) -> Iterator[str]:
    """Energy by level (rows) and tensor (columns), in a unit that suits the total."""
    scale, unit = next(
        (scale, unit)
        for scale, unit in ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ"))
        if total >= scale or scale == 1.0
    )
    names = space.workload.tensor_names
    width = max(10, *(len(name) + 2 for name in names))
    first = max(14, *(len(level.name) + 2 for level in space.accelerator.levels))
    head = f"energy, {unit}"
    yield f"{head:<{first}}" + "".join(f"{name:>{width}}" for name in (*names, "total", "share"))

    def row(label: str, parts: list[float | None], whole: float) -> str:
        cells = [" " * width if part is None else f"{part / scale:>{width}.4f}" for part in parts]
        share = f"{100 * whole / total:.1f} %"
        return f"{label:<{first}}{''.join(cells)}{whole / scale:>{width}.4f}{share:>{width}}"

    for index, level in enumerate(space.accelerator.levels):
        parts = detail.energy_pj[0, index].tolist()
        yield row(level.name, parts, sum(parts))
    if detail.network_energy_pj.any():
        parts = detail.network_energy_pj[0].tolist()
        yield row("network", parts, sum(parts))
    blank: list[float | None] = [None] * len(names)
    yield row("MAC", blank, detail.mac_energy_pj)
    columns = (detail.energy_pj[0].sum(axis=0) + detail.network_energy_pj[0]).tolist()
    yield row("total", columns, total)


def _joule_seconds(space: Any, edp: float) -> str:
    """EDP in joule seconds: 1 pJ = 1e-12 J, a cycle is 1 / clock."""
    return f"{edp * 1e-12 / (space.accelerator.clock_ghz * 1e9):.4g} J s"


def _percent(share: float) -> str:
    value = 100 * share
    return f"{value:.2f} %" if abs(value) < 1000 else f"{value:.3g} %"


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
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


class _Live:
    """Progress on a stream: one line that changes on a terminal, plain lines elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.terminal = stream.isatty()
        self._printed_at = -PROGRESS_SECONDS
        self._open = False
        self._late: Callable[[], str] | None = None

    def line(self, text: str) -> None:
        """Prints a line that stays."""
        self.end()
        print(text, file=self.stream, flush=True)

    def update(self, text: Callable[[], str]) -> None:
        """Prints the state of affairs, if the last one is not too recent."""
        now = time.monotonic()
        if now - self._printed_at < PROGRESS_SECONDS:
            self._late = text
            return
        self._printed_at = now
        self._late = None
        self._print(text())

    def end(self) -> None:
        """Prints the last update that was held back, and ends the changing line."""
        if self._late is not None:
            late, self._late = self._late, None
            self._print(late())
        if self._open:
            print(file=self.stream, flush=True)
            self._open = False

    def _print(self, text: str) -> None:
        if self.terminal:
            print(f"\r{text}\x1b[K", end="", file=self.stream, flush=True)
            self._open = True
        else:
            print(text, file=self.stream, flush=True)

    @contextmanager
    def notice_after(self, seconds: float, text: str) -> Iterator[None]:
        """Prints a line if the block takes longer than so many seconds."""
        timer = threading.Timer(seconds, self.line, (text,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
