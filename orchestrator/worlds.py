"""What a benchmark can be run on: cost models, each with its space and with what bounds it.

* `loopnest`: all mappings of a loop nest on any accelerator; the least value is proven by branch
  and bound (`orchestrator.proofs`).
* `maestro`: the on-chip mappings of the tile that Marvel's off-chip search finds; enumerated.
* `tiling`: the tilings of a matrix product on a core with caches; enumerated.
* `tvm`: the same tilings, compiled and timed on this machine; held against the best of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from costmodel.errors import ConfigError
from costmodel.loading import unknown_name
from orchestrator.explain import UNITS
from searchers.evaluator import UNLIMITED

if TYPE_CHECKING:
    from costmodel.accelerator import Accelerator
    from costmodel.costs import Objective
    from costmodel.workload import Workload

# Tilings that an enumeration costs in one go.
ROWS = 1 << 16


@dataclass(frozen=True)
class World:
    """A cost model with its spaces.

    Attributes:
        accelerator: the preset that an experiment without one runs on.
        space: makes the space of a workload.
        model: makes the cost model, from the accelerator and an experiment's `measurement`.
        optimum: finds the least value of an objective by enumeration, with the words for how it
            was found; None where that is not how it is bounded.
        measured: whether a query is a measurement, which no warm-up shall make.
        largest_batch: queries at once under a budget of time.
        objectives: those that the model has; None: all.
        units: of objectives, where they are not those of the other models.
    """

    accelerator: str
    space: Callable[[Workload, Accelerator], Any]
    model: Callable[[Accelerator, Mapping[str, Any]], Any]
    optimum: Callable[[Any, Any, Objective], tuple[float, str]] | None = None
    measured: bool = False
    largest_batch: int = UNLIMITED
    objectives: tuple[str, ...] | None = None
    units: Mapping[str, str] = field(default_factory=lambda: UNITS)


def unit_of(experiment: Mapping[str, Any]) -> str:
    """The unit of a benchmark's objective; an experiment that names no model is of loop nests."""
    return WORLDS[experiment.get("model", "loopnest")].units[experiment["objective"]]


def _loopnest_space(workload: Workload, accelerator: Accelerator) -> Any:
    from costmodel.mapspace import MapSpace

    return MapSpace(workload, accelerator)


def _loopnest_model(accelerator: Accelerator, measurement: Mapping[str, Any]) -> Any:
    from costmodel.loopnest import LoopNestModel

    return LoopNestModel()


def _maestro_space(workload: Workload, accelerator: Accelerator) -> Any:
    from costmodel.maestro import OnChipSpace
    from costmodel.maestro.distinct_blocks import layer_of
    from costmodel.maestro.off_chip import search

    layer = layer_of(workload)
    shared = accelerator.levels[-2]
    if shared.capacity_words is None:
        raise ConfigError(f"{accelerator.name}: {shared.name}: expected a capacity.")
    element_bytes = accelerator.word_bits // 8
    found = search(layer, shared.capacity_words * element_bytes, element_bytes=element_bytes)
    return OnChipSpace(layer, found.tile, accelerator)


def _maestro_model(accelerator: Accelerator, measurement: Mapping[str, Any]) -> Any:
    from costmodel.maestro.enumerate import model_of

    return model_of(accelerator)


def _maestro_optimum(space: Any, model: Any, objective: Objective) -> tuple[float, str]:
    from costmodel.maestro import on_chip_search

    name = "runtime" if objective == "latency" else objective
    found = on_chip_search(
        space.layer, space.bounds, space.accelerator, model=model, objectives=(name,)
    )
    return found.best[name].value, f"all {found.mappings:,} mappings bounded or costed"


def _tiling_space(workload: Workload, accelerator: Accelerator) -> Any:
    from costmodel.tiling import TilingSpace

    return TilingSpace(workload)


def _tiling_model(accelerator: Accelerator, measurement: Mapping[str, Any]) -> Any:
    from costmodel.tiling import AnalyticalTiling

    return AnalyticalTiling(accelerator)


def _tiling_optimum(space: Any, model: Any, objective: Objective) -> tuple[float, str]:
    import numpy as np

    least, total = float("inf"), space.size()
    for start in range(0, total, ROWS):
        numbers = np.arange(start, min(start + ROWS, total))
        codes = np.stack(np.unravel_index(numbers, space.cardinality), axis=1).astype(np.int32)
        least = min(least, float(model.evaluate(space, codes).objective(objective).min()))
    return least, f"all {total:,} tilings costed"


def _tvm_model(accelerator: Accelerator, measurement: Mapping[str, Any]) -> Any:
    from costmodel.tiling.measure import STATISTICS, MeasuredTiling
    from costmodel.tiling.measurement import Settings

    known = {"statistic", *(option.name for option in fields(Settings))}
    unknown = sorted(set(measurement) - known)
    if unknown:
        raise ConfigError(f"measurement: {unknown_name('key', unknown[0], known)}")
    options = dict(measurement)
    statistic = options.pop("statistic", STATISTICS[0])
    return MeasuredTiling(Settings(**options), statistic=statistic)


WORLDS = {
    "loopnest": World("mm256", _loopnest_space, _loopnest_model),
    "maestro": World(
        "eyeriss-168",
        _maestro_space,
        _maestro_model,
        _maestro_optimum,
        objectives=("edp", "energy", "latency"),
        units={"edp": "MACs x cycles", "energy": "MACs", "latency": "cycles"},
    ),
    "tiling": World("cpu-avx512", _tiling_space, _tiling_model, _tiling_optimum),
    "tvm": World(
        "cpu-avx512",
        _tiling_space,
        _tvm_model,
        measured=True,
        largest_batch=16,
        objectives=("latency",),
        units={"latency": "s"},
    ),
}
