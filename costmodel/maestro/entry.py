"""MAESTRO's entries in the table of cost models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.cost_model_entry import CostModelEntry, RecordScorer
from mapspace.errors import ConfigError

if TYPE_CHECKING:
    from costmodel.costs import Objective
    from costmodel.machines.accelerators import Accelerator
    from costmodel.maestro.model import MaestroModel
    from costmodel.maestro.on_chip import OnChipSpace
    from costmodel.problems.workloads import Workload
    from costmodel.space import Codes


def _space(workload: Workload, accelerator: Accelerator) -> OnChipSpace:
    from costmodel.maestro.distinct_blocks import layer_of
    from costmodel.maestro.off_chip import search
    from costmodel.maestro.on_chip import OnChipSpace

    layer = layer_of(workload)
    shared = accelerator.levels[-2]
    if shared.capacity_words is None:
        raise ConfigError(f"{accelerator.name}: {shared.name}: expected a capacity.")
    element_bytes = accelerator.word_bits // 8
    found = search(layer, shared.capacity_words * element_bytes, element_bytes=element_bytes)
    return OnChipSpace(layer, found.tile, accelerator)


def _model(accelerator: Accelerator, measurement: Mapping[str, Any]) -> MaestroModel:
    from costmodel.maestro.on_chip_search import model_of

    return model_of(accelerator)


def _optimum(space: OnChipSpace, model: MaestroModel, objective: Objective) -> tuple[float, str]:
    from costmodel.maestro import on_chip_search

    name = "runtime" if objective == "latency" else objective
    found = on_chip_search(
        space.layer, space.bounds, space.accelerator, model=model, objectives=(name,)
    )
    return found.best[name].value, f"all {found.mappings:,} mappings bounded or costed"


def _as_released(*_: Any) -> MaestroModel:
    from costmodel.maestro.model import MaestroModel

    return MaestroModel()


def _corrected(*_: Any) -> MaestroModel:
    from costmodel.maestro.model import corrected_model

    return corrected_model()


def _score(records: Sequence[dict[str, Any]], model: MaestroModel) -> list[dict[str, Any]]:
    from costmodel.maestro.records import score_records

    return score_records(records, model)


def _record(space: OnChipSpace, code: Codes, accelerator: Accelerator) -> dict[str, Any]:
    from costmodel.maestro.records import records_from_mappings

    return records_from_mappings(space.mappings(code[None]))[0]


MAESTRO = CostModelEntry(
    description="Energy and cycles of cluster mappings by MAESTRO's counting, in closed form.",
    accelerator="eyeriss-168",
    space=_space,
    model=_model,
    optimum=_optimum,
    objectives=("edp", "energy", "latency"),
    units={"edp": "MACs x cycles", "energy": "MACs", "latency": "cycles"},
    records=RecordScorer(_as_released, _score),
    record=_record,
)
CORRECTED = CostModelEntry(
    description="Cluster mappings by true counts: every fetch, remainders, strides, enforced "
    "capacities.",
    accelerator=MAESTRO.accelerator,
    model=_corrected,
    objectives=MAESTRO.objectives,
    units=MAESTRO.units,
    records=RecordScorer(_corrected, _score),
)
