"""`mapspace tile`: finds a tiling of a matrix product for the processor that it runs on, now."""

from __future__ import annotations

import sys
import time
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np

from costmodel.costs import Objective
from costmodel.errors import ConfigError, MapspaceError
from orchestrator.explain import percent
from orchestrator.live import Live
from orchestrator.search import InterruptedSearchError, interruptible
from orchestrator.worlds import WORLDS

MODELS = ("tvm", "tiling")
OBJECTIVE: Objective = "latency"
DEFAULT_SEARCHER = "na2c"
"""The least above the best on average over the measured sizes (docs/results/gemm-tiling.md)."""
DEFAULT_SECONDS = {"tvm": 60.0, "tiling": 2.0}
# Products timed for NumPy's own time.
NUMPY_REPEATS = 10


@dataclass(frozen=True)
class TileRequest:
    """What `mapspace tile` was asked.

    Attributes:
        workload: a matrix product: a preset's name, a YAML file or inline.
        model: `tvm` measures, `tiling` models the caches of one core.
        searcher: a key of the table of searchers.
        seconds: budget of search time; with no budget a minute of measuring, or two seconds of
            modelling.
        iterations: budget of tilings.
        seed: decides the search under a budget of iterations.
        time_limit: seconds that one measurement may take; None: as in `Settings`.
    """

    workload: str
    model: str = "tvm"
    searcher: str = DEFAULT_SEARCHER
    seconds: float | None = None
    iterations: int | None = None
    seed: int = 0
    time_limit: float | None = None


@dataclass(frozen=True)
class TileAnswer:
    """The best tiling: `summary` for programs, `text` for people."""

    summary: dict[str, Any]
    text: str


def tile(request: TileRequest, stream: TextIO | None = None) -> TileAnswer:
    """Searches tilings until the budget is spent or Ctrl-C is pressed.

    Args:
        request: what to search and how.
        stream: takes the progress; standard error if None.

    Raises:
        ConfigError: no matrix product, an unknown name, TVM is missing, or the searcher needs
            another kind of space.
        MapspaceError: no tiling could be measured.
    """
    import searchers
    from costmodel.accelerator import accelerator
    from costmodel.workload import workload

    found = workload(request.workload)
    world = WORLDS[request.model]
    if request.time_limit is not None and not world.measured:
        raise ConfigError("--time-limit is for measurements, not for --model tiling.")
    options = {} if request.time_limit is None else {"time_limit": request.time_limit}
    device = accelerator(world.accelerator)
    space = world.space(found, device)
    model = world.model(device, options)
    searcher = searchers.make(request.searcher, space, seed=request.seed)
    live = Live(stream or sys.stderr)
    live.line(
        f"{'measuring' if world.measured else 'modelling'} tilings of {found.name} on one core, "
        f"{space.size():,} in all, proposed by {request.searcher}"
    )
    seconds = request.seconds
    if seconds is None and request.iterations is None:
        seconds = DEFAULT_SECONDS[request.model]
    unit = world.units[OBJECTIVE]

    def progress() -> str:
        new = f" ({model.measured:,} newly measured)" if world.measured else ""
        best = _quantity(evaluator.best_loss, unit) if evaluator.best_code is not None else "-"
        return f"{evaluator.elapsed:8.1f} s {evaluator.true_queries:>9,} tilings{new}   best {best}"

    with closing(model) if world.measured else nullcontext():
        evaluator = searchers.Evaluator(
            model,
            space,
            objective=OBJECTIVE,
            iterations=request.iterations,
            seconds=seconds,
            largest_batch=world.largest_batch,
            clock=getattr(model, "clock", time.perf_counter),
            on_improvement=lambda _: live.update(progress),
        )
        with interruptible() as ended:

            def watch(*_: Any) -> None:
                live.update(progress)
                if ended.is_set() and evaluator.best_code is not None:
                    raise InterruptedSearchError

            if world.measured:
                model.watch = watch  # within a batch, which takes seconds
            try:
                searcher.run(evaluator, watch)
            except InterruptedSearchError:
                live.line("interrupted: the best so far")
        live.end()
    result = evaluator.result()
    if result.best_code is None:
        raise MapspaceError(
            f"None of {result.true_queries:,} tilings of {found.name} could be measured."
        )
    return _answer(request, space, model, result, unit)


def _answer(request: TileRequest, space: Any, model: Any, result: Any, unit: str) -> TileAnswer:
    """Puts the best tiling beside what it is to be compared with."""
    world, best = WORLDS[request.model], space.describe(result.best_code)
    sizes = space.workload.dimensions
    summary: dict[str, Any] = {
        "workload": {"name": space.workload.name, "dims": dict(sizes)},
        "model": model.name,
        "model_version": model.version,
        "searcher": request.searcher,
        "seed": request.seed,
        "iterations": result.iterations,
        "seconds": result.seconds,
        "tilings": space.size(),
        "latency": result.best_loss,
        "unit": unit,
        "factors": best.to_record(),
    }
    lines = [
        f"{space.workload.name}: {_quantity(result.best_loss, unit)}, the best of "
        f"{result.true_queries:,} tilings in {result.seconds:.1f} s"
    ]
    if world.measured:
        operations = 2.0 * space.workload.macs
        numpy_seconds = _numpy_seconds(sizes["M"], sizes["K"], sizes["N"])
        ratio = numpy_seconds / result.best_loss
        summary["gflops"] = operations / result.best_loss / 1e9
        summary["numpy_seconds"] = numpy_seconds
        lines.append(
            f"  {summary['gflops']:.1f} GFLOP/s on one core; NumPy takes "
            f"{_quantity(numpy_seconds, unit)}, {ratio:.2f} times as long"
        )
    elif world.optimum is not None:
        optimum, proof = world.optimum(space, model, OBJECTIVE)
        summary["optimum"] = optimum
        above = percent(result.best_loss / optimum - 1)
        lines.append(f"  {above} above the optimum ({proof})")
    return TileAnswer(summary, "\n".join([*lines, "", str(best)]))


def _quantity(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:,.0f} {unit}"
    return f"{1e3 * value:.4g} ms" if value >= 1e-3 else f"{1e6 * value:.4g} us"


def _numpy_seconds(m: int, k: int, n: int) -> float:
    """Least processor time of NumPy's product in float32; the command line gives it one thread."""
    rng = np.random.default_rng(0)
    a = rng.random((m, k), dtype=np.float32)
    b = rng.random((k, n), dtype=np.float32)
    seconds = []
    for _ in range(NUMPY_REPEATS):
        started = time.process_time()
        a @ b
        seconds.append(time.process_time() - started)
    return min(seconds)
