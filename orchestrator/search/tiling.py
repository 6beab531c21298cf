"""Finds a tiling of a matrix product for the processor that it runs on, now."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from costmodel.costs import Objective
from costmodel.models import cost_model_entry
from costmodel.tiling.space import TilingSpace
from mapspace.errors import ArgumentError, MapspaceError, together
from orchestrator.report.shown import Fact, Shown
from orchestrator.report.units import percent
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live
from orchestrator.schemas.search import TileAnswer
from orchestrator.search.one_workload import InterruptedSearchError
from orchestrator.store.measurements import StoredMeasurements

if TYPE_CHECKING:
    from costmodel.cost_model_entry import CostModelEntry
    from costmodel.problems.affine import Workload
    from costmodel.tiling.space import Tiling
    from orchestrator.store.folder import Store
    from searchers import Searcher, TrialResult

OBJECTIVE: Objective = "latency"
MEASURING_SEARCHER, MODELLING_SEARCHER = "multi-fidelity", "na2c"
"""For products that are measured, and for modelled ones (docs/results/gemm-tiling.md), where the
model itself is no teacher."""
MEASURING_SECONDS, MODELLING_SECONDS = 60.0, 2.0
# Products timed for NumPy's own time.
NUMPY_REPEATS = 10


@dataclass(frozen=True)
class TileRequest:
    """What to tile, and how.

    Attributes:
        workload: a matrix product: a preset's name, a YAML file or inline.
        model: `tvm` measures, `tiling` models the caches of one core.
        searcher: a key of the table of searchers; None: `MEASURING_SEARCHER` or
            `MODELLING_SEARCHER`.
        preset: a named set of the searcher's hyperparameters; None: its defaults.
        parameters: hyperparameters of the searcher, beside those of the preset; None: none.
        seconds: budget of search time; with no budget a minute of measuring, or two seconds of
            modelling.
        iterations: budget of tilings.
        seed: decides the search under a budget of iterations.
        time_limit: seconds that one measurement may take; None: as in `Settings`.
    """

    workload: str
    model: str = "tvm"
    searcher: str | None = None
    preset: str | None = None
    parameters: Mapping[str, Any] | None = None
    seconds: float | None = None
    iterations: int | None = None
    seed: int = 0
    time_limit: float | None = None


@dataclass(frozen=True, repr=False)
class TileResult(Shown):
    """The best tiling that was found.

    Attributes:
        workload: the matrix product.
        model: the cost model's name.
        model_version: its version.
        searcher: the method.
        seed: its seed.
        tilings: how many there are.
        tiling: the best one; `str()` prints its loops.
        trial: what the search found and spent.
        unit: of the latency: s, or cycles of the model.
        interrupted: whether an interruption ended the search.
        record: the best tiling as a record that `mapspace evaluate --model tiling` reads.
        numpy_seconds: what NumPy takes on one core, s; None where nothing was measured.
        optimum: the least latency, and how it is known; None where it is not.
        from_store: whether every tiling that was asked for had been measured before, and was read
            from the store.
    """

    workload: Workload
    model: str
    model_version: str
    searcher: str
    seed: int
    tilings: int
    tiling: Tiling
    trial: TrialResult
    unit: str
    interrupted: bool
    record: dict[str, Any]
    numpy_seconds: float | None = None
    optimum: tuple[float, str] | None = None
    from_store: bool = False

    @property
    def latency(self) -> float:
        """What the tiling takes, in `unit`."""
        return self.trial.best_loss

    @property
    def gflops(self) -> float | None:
        """Billions of operations a second; None where nothing was measured."""
        return 2.0 * self.workload.macs / self.latency / 1e9 if self.numpy_seconds else None

    def to_dict(self) -> TileAnswer:
        """What `mapspace tile` prints as JSON."""
        found: TileAnswer = {
            "workload": {"name": self.workload.name, "dims": dict(self.workload.dimensions)},
            "model": self.model,
            "model_version": self.model_version,
            "searcher": self.searcher,
            "seed": self.seed,
            "iterations": self.trial.iterations,
            "seconds": self.trial.seconds,
            "interrupted": self.interrupted,
            "from_store": self.from_store,
            "tilings": self.tilings,
            "latency": self.latency,
            "unit": self.unit,
            "factors": self.tiling.to_record(),
            "record": self.record,
        }
        if self.numpy_seconds is not None:
            found["gflops"] = self.gflops
            found["numpy_seconds"] = self.numpy_seconds
        if self.optimum is not None:
            found["optimum"] = self.optimum[0]
        return found

    def heading(self) -> str:
        """The product, and what the tiling takes."""
        trial = self.trial
        return (
            f"{self.workload.name}: {_quantity(self.latency, self.unit)}, the best of "
            f"{trial.true_queries:,} tilings in {trial.seconds:.1f} s"
        )

    def facts(self) -> Iterable[Fact]:
        """What it is to be compared with."""
        if self.numpy_seconds is not None:
            ratio = f"{self.numpy_seconds / self.latency:.2f} times as long"
            took = _quantity(self.numpy_seconds, self.unit)
            yield "", f"{self.gflops:.1f} GFLOP/s on one core; NumPy takes {took}, {ratio}"
        elif self.optimum is not None:
            optimum, proof = self.optimum
            yield "", f"{percent(self.latency / optimum - 1)} above the optimum ({proof})"

    def picture(self) -> str:
        """The loops."""
        return str(self.tiling)


def tile_text(result: TileResult) -> str:
    """The best tiling for people."""
    facts = [f"  {text}" for _, text in result.facts()]
    return "\n".join([result.heading(), *facts, "", result.picture()])


def tile(
    request: TileRequest, stream: TextIO | None = None, *, store: Store | None = None
) -> TileResult:
    """Searches tilings until the budget is spent or Ctrl-C is pressed.

    Args:
        request: what to search and how.
        stream: takes the progress; standard error if None.
        store: where measurements are read, and new ones kept; None: this machine's own file alone.

    Raises:
        ConfigError: no matrix product, an unknown name, TVM is missing, or the searcher needs
            another kind of space.
        MapspaceError: no tiling could be measured.
    """
    import searchers
    from costmodel.machines.accelerators import accelerator
    from costmodel.problems.workloads import workload

    found, entry, *_ = together(
        lambda: workload(request.workload),
        lambda: cost_model_entry(request.model),
        lambda: searchers.check_budget(request.iterations, request.seconds),
        lambda: searchers.searcher_class(request.searcher or MODELLING_SEARCHER),
    )
    space, model = _problem(request, found, entry)
    assert entry.record is not None  # models of tilings have records
    name = request.searcher or (MEASURING_SEARCHER if entry.measured else MODELLING_SEARCHER)
    searcher = searchers.make(
        name,
        space,
        seed=request.seed,
        preset=request.preset,
        context=searchers.Context(OBJECTIVE, request.iterations, request.seconds),
        **(request.parameters or {}),
    )
    live = Live(stream or sys.stderr)
    does = "measuring" if entry.measured else "modelling"
    live.line(f"{does} tilings of {found.name} on one core")
    live.line(f"  {space.size():,} in all, proposed by {name}")
    stored = None
    if entry.measured and store is not None:
        stored = StoredMeasurements(store, model.kept, found.name, model.version)
        model.kept = stored
    with (
        closing(model) if entry.measured else nullcontext(),
        closing(stored) if stored is not None else nullcontext(),
    ):
        result, interrupted = _searched(request, searcher, model, live)
    if result.best_code is None:
        raise MapspaceError(
            f"None of {result.true_queries:,} tilings of {found.name} could be measured."
        )
    numpy_seconds = optimum = None
    if entry.measured:
        sizes = found.dimensions
        numpy_seconds = _numpy_seconds(sizes["M"], sizes["K"], sizes["N"])
    elif entry.optimum is not None:
        optimum = entry.optimum(space, model, OBJECTIVE)
    return TileResult(
        workload=found,
        model=model.name,
        model_version=model.version,
        searcher=name,
        seed=request.seed,
        tilings=space.size(),
        tiling=space.describe(result.best_code),
        trial=result,
        unit=entry.units[OBJECTIVE],
        interrupted=interrupted,
        record=entry.record(space, result.best_code, accelerator(entry.accelerator)),
        numpy_seconds=numpy_seconds,
        optimum=optimum,
        from_store=stored is not None and stored.found > 0 and not model.measured,
    )


def _searched(
    request: TileRequest, searcher: Searcher, model: Any, live: Live
) -> tuple[TrialResult, bool]:
    """The search, shown live, and whether somebody ended it."""
    import searchers

    entry = cost_model_entry(request.model)
    seconds = request.seconds
    if seconds is None and request.iterations is None:
        seconds = MEASURING_SECONDS if entry.measured else MODELLING_SECONDS
    evaluator = searchers.Evaluator(
        model,
        searcher.space,
        objective=OBJECTIVE,
        iterations=request.iterations,
        seconds=seconds,
        largest_batch=entry.largest_batch,
        clock=getattr(model, "clock", time.perf_counter),
        on_improvement=lambda _: live.update(progress),
    )

    def progress() -> str:
        new = f" ({model.measured:,} newly measured)" if entry.measured else ""
        best = "-"
        if evaluator.best_code is not None:
            best = _quantity(evaluator.best_loss, entry.units[OBJECTIVE])
        return f"{evaluator.elapsed:8.1f} s {evaluator.true_queries:>9,} tilings{new}   best {best}"

    with interruptible() as ended:

        def watch(*_: Any) -> None:
            live.update(progress)
            if ended.is_set() and evaluator.best_code is not None:
                raise InterruptedSearchError

        if entry.measured:
            model.watch = watch  # within a batch, which takes seconds
        try:
            searcher.run(evaluator, watch)
        except InterruptedSearchError:
            live.line("interrupted: the best so far")
    live.end()
    # What it took, which the last query may have drawn out beyond the budget.
    return replace(evaluator.result(), seconds=evaluator.elapsed), ended.is_set()


def _problem(
    request: TileRequest, found: Workload, entry: CostModelEntry
) -> tuple[TilingSpace, Any]:
    """The tilings of a product and the model that is asked for.

    Raises:
        ConfigError: it is no model of tilings, or one that a request does not fit.
    """
    from costmodel.machines.accelerators import accelerator

    if request.time_limit is not None and not entry.measured:
        raise ArgumentError(
            "time_limit", f" is for measurements, not for the model {request.model}."
        )
    device = accelerator(entry.accelerator)
    space = None if entry.space is None else entry.space(found, device)
    if not isinstance(space, TilingSpace):
        raise ArgumentError(
            "model", f": expected a model of tilings such as tvm or tiling, got {request.model}."
        )
    options = {} if request.time_limit is None else {"time_limit": request.time_limit}
    return space, entry.model(device, options)


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
