"""The entries of the two models of tilings in the table of cost models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.cost_model_entry import CostModelEntry, RecordScorer
from mapspace.errors import ConfigError
from mapspace.strict_yaml import unknown_name

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.workloads import Workload
    from costmodel.space import Codes, CostModel
    from costmodel.tiling.records import TilingRecords
    from costmodel.tiling.space import TilingSpace

# Tilings that an enumeration costs in one go.
ROWS = 1 << 16
FIGURES = {"tilings": "orchestrator.comparison.tiling_figures:draw_tilings"}


def tiling_space(workload: Workload, accelerator: Accelerator) -> TilingSpace:
    """The tilings of a workload, which are those of any core."""
    from costmodel.tiling.space import TilingSpace

    return TilingSpace(workload)


def tiling_optimum(space: TilingSpace, model: CostModel, objective: Objective) -> tuple[float, str]:
    """The least value of all tilings, one after another."""
    least, total = float("inf"), space.size()
    for start in range(0, total, ROWS):
        numbers = np.arange(start, min(start + ROWS, total))
        codes = np.stack(np.unravel_index(numbers, space.cardinality), axis=1).astype(np.int32)
        least = min(least, float(model.evaluate(space, codes).objective(objective).min()))
    return least, f"all {total:,} tilings costed"


def _analytical(accelerator: Accelerator, measurement: Mapping[str, Any]) -> CostModel:
    from costmodel.tiling.analytical_model import AnalyticalTiling

    return AnalyticalTiling(accelerator)


def _measured(accelerator: Accelerator, measurement: Mapping[str, Any]) -> CostModel:
    from costmodel.tiling.measured_model import STATISTICS, MeasuredTiling
    from costmodel.tiling.measurement import Settings

    known = {"statistic", *(option.name for option in fields(Settings))}
    unknown = sorted(set(measurement) - known)
    if unknown:
        raise ConfigError(f"measurement: {unknown_name('key', unknown[0], known)}")
    options = dict(measurement)
    statistic = options.pop("statistic", STATISTICS[0])
    return MeasuredTiling(Settings(**options), statistic=statistic)


def _model_for_records() -> TilingRecords:
    from costmodel.tiling.records import TilingRecords

    return TilingRecords()


def _score(records: Sequence[dict[str, Any]], model: TilingRecords) -> list[dict[str, Any]]:
    return model.score(records)


def _record(space: TilingSpace, code: Codes, accelerator: Accelerator) -> dict[str, Any]:
    from costmodel.tiling.records import tiling_record

    return tiling_record(space, code, accelerator)


def _measured_record(space: TilingSpace, code: Codes, _: Accelerator) -> dict[str, Any]:
    from costmodel.tiling.records import tiling_record

    # What was measured was this processor, which no file describes.
    return tiling_record(space, code)


TILING = CostModelEntry(
    description="Energy and cycles of the tilings of a matrix product on one core.",
    accelerator="cpu-avx512",
    space=tiling_space,
    model=_analytical,
    optimum=tiling_optimum,
    records=RecordScorer(_model_for_records, _score),
    record=_record,
    figures=FIGURES,
)
TVM = CostModelEntry(
    description="Times tilings of a matrix product in float32, on one thread.",
    accelerator="cpu-avx512",
    space=tiling_space,
    model=_measured,
    measured=True,
    largest_batch=16,
    objectives=("latency",),
    units={"latency": "s"},
    record=_measured_record,
    figures=FIGURES,
)
