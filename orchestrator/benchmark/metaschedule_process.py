"""MetaSchedule with our own measurement: the process of `orchestrator.benchmark.metaschedule`.

TVM's own runner starts two more processes, and new ones every round, each of which imports TVM for
half a minute. Here candidates are built and timed in this process, exactly as our tilings are.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import tvm

# Parses its intrinsics for many seconds, which are no time of the search.
import tvm.s_tir.tensor_intrin
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule

from costmodel.costs import STATUS_OK
from costmodel.tiling import build_and_time
from costmodel.tiling.measurement import STATUS_BUILD_FAILED, Measurement, Settings
from costmodel.tiling.tvm_schedule import product

Report = Callable[[dict[str, Any]], None]


@derived_object
class Keeper(meta_schedule.builder.PyBuilder):
    """Keeps the candidates of a round for `Bench`, which builds them one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: dict[str, tuple[Any, Any]] = {}

    def build(self, build_inputs: list[Any]) -> list[Any]:
        """A name per candidate, in place of the path of a library."""
        self.modules.clear()
        for place, given in enumerate(build_inputs):
            self.modules[str(place)] = (given.mod, given.target)
        return [meta_schedule.builder.BuilderResult(name, None) for name in self.modules]


@derived_object
class Done(meta_schedule.runner.PyRunnerFuture):
    """A measurement as MetaSchedule takes it."""

    def __init__(self, measurement: Measurement) -> None:
        super().__init__()
        self.measurement = measurement

    def done(self) -> bool:
        """True: it is."""
        return True

    def result(self) -> Any:
        """Times of the repeats, or what went wrong."""
        measured = self.measurement
        if measured.ok:
            return meta_schedule.runner.RunnerResult(list(measured.seconds), None)
        return meta_schedule.runner.RunnerResult(None, measured.explanation)


@derived_object
class Bench(meta_schedule.runner.PyRunner):
    """Builds, checks and times candidates with `costmodel.tiling.build_and_time`; reports them."""

    def __init__(
        self, keeper: Any, size: tuple[int, int, int], settings: Settings, report: Report
    ) -> None:
        super().__init__()
        self.report = report
        self.modules = keeper.modules
        self.size = size
        self.settings = settings
        self.trials = 0
        self.best = float("inf")
        self.started = time.perf_counter()

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        """Measures the candidates of a round, in order."""
        return [Done(self._measure(str(given.artifact_path))) for given in runner_inputs]

    def _measure(self, name: str) -> Measurement:
        module, target = self.modules[name]
        try:
            executable = tvm.compile(module, target).jit()
            measured = build_and_time.timed(executable, self.size, self.settings)
        except Exception as error:
            measured = Measurement(STATUS_BUILD_FAILED, explanation=build_and_time.line(error))
        latency = min(measured.seconds) if measured.status == STATUS_OK else float("inf")
        self.trials += 1
        self.best = min(self.best, latency)
        self.report(
            {
                "trial": self.trials,
                "seconds": time.perf_counter() - self.started,
                "latency": latency,
                "best": self.best,
                "explanation": measured.explanation,
            }
        )
        return measured


def search(tuning: dict[str, Any], report: Report) -> None:
    """Tunes one product and reports every trial.

    Args:
        tuning: fields of `orchestrator.benchmark.metaschedule.Tuning`, and the `core` to run on.
        report: takes the fields of an `orchestrator.benchmark.metaschedule.Trial`.
    """
    os.sched_setaffinity(0, {tuning["core"]})
    settings = Settings(**tuning["settings"])
    m, k, n = tuning["size"]
    callbacks = meta_schedule.measure_callback
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper()
        meta_schedule.tune_tir(
            product(m, k, n),
            build_and_time.target(settings.target),
            folder,
            tuning["trials"],
            num_trials_per_iter=min(tuning["per_round"], tuning["trials"]),
            builder=keeper,
            runner=Bench(keeper, (m, k, n), settings, report),
            cost_model=tuning["predictor"],
            measure_callbacks=[callbacks.AddToDatabase(), callbacks.UpdateCostModel()],
            num_tuning_cores=1,
            # TVM counts from 1.
            seed=tuning["seed"] + 1,
        )
