"""Tilings as records: written by `tile` and by benchmarks, scored by `mapspace evaluate`.

A record has `workload`, the matrix product as `mapspace tile` takes it, `tiling`, the trip counts
of M, K and N, outermost loop first, and `accelerator`, the core of the model (default:
`cpu-avx512`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from costmodel.machines.accelerators import Accelerator, accelerator
from costmodel.problems.workloads import workload
from costmodel.space import Codes
from costmodel.tiling.analytical_model import DEFAULT_ACCELERATOR, AnalyticalTiling
from costmodel.tiling.factor_tables import MOST_LOOPS
from costmodel.tiling.loop_nest import DIMENSIONS
from costmodel.tiling.space import TilingSpace
from mapspace.errors import ConfigError, ContractError
from mapspace.strict_yaml import Size, StrictModel, validate

Trips = Annotated[tuple[Size, ...], Field(min_length=1, max_length=MOST_LOOPS)]


class _Factors(StrictModel):
    """Trip counts, outermost loop first."""

    M: Trips
    K: Trips
    N: Trips


class _Record(BaseModel):
    """What is read of a record; other keys belong to whoever wrote them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    workload: str | dict[str, Any]
    accelerator: str | dict[str, Any] = DEFAULT_ACCELERATOR
    tiling: _Factors


def tiling_record(
    space: TilingSpace, code: Codes, machine: Accelerator | None = None
) -> dict[str, Any]:
    """A tiling `[D]` as a record.

    Args:
        space: its space.
        code: the tiling.
        machine: the core that it was modelled on; None: it was measured, on none that a file says.
    """
    sizes = ",".join(f"{name}={space.workload.dimensions[name]}" for name in DIMENSIONS)
    record: dict[str, Any] = {
        "workload": f"gemm:{sizes}",
        "tiling": space.describe(code).to_record(),
    }
    if machine is not None:
        record["accelerator"] = machine.model_dump(mode="json", exclude_defaults=True)
    return record


class TilingRecords:
    """`AnalyticalTiling` for records, each of which says its core.

    Attributes:
        name: that of the model.
        version: of its formulas.
    """

    name = AnalyticalTiling.name
    version = "1"

    def __init__(self) -> None:
        self._models: dict[str, AnalyticalTiling] = {}
        self._spaces: dict[str, TilingSpace] = {}

    def score(self, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The records in order, each with `result`: `energy_pj`, `cycles` and `edp`.

        Raises:
            ConfigError: a record cannot be read; the message starts with its index, from 0.
        """
        scored = []
        for index, record in enumerate(records):
            try:
                scored.append({**record, "result": self._score(record)})
            except ConfigError as error:
                raise ConfigError(f"record {index}: {error}") from None
        return scored

    def _score(self, record: Mapping[str, Any]) -> dict[str, float]:
        read = validate(_Record, record, "")
        splits = [len(trips) for trips in (read.tiling.M, read.tiling.K, read.tiling.N)]
        key = json.dumps([read.workload, splits], sort_keys=True, default=repr)
        if key not in self._spaces:
            self._spaces[key] = TilingSpace(workload(read.workload), splits=splits)
        core = json.dumps(read.accelerator, sort_keys=True, default=repr)
        if core not in self._models:
            self._models[core] = AnalyticalTiling(accelerator(read.accelerator))
        space = self._spaces[key]
        try:
            row = np.array([[*read.tiling.M, *read.tiling.K, *read.tiling.N]], np.int64)
            costs = self._models[core].evaluate(space, space.codes(row))
        except ContractError as error:
            why = str(error).removeprefix("factors [0]: ")
            raise ConfigError(f"tiling: {why}") from None
        energy, cycles = float(costs.energy_pj[0]), float(costs.latency_cycles[0])
        return {"energy_pj": energy, "cycles": cycles, "edp": energy * cycles}
