"""The loop-nest model's entry in the table of cost models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from costmodel.cost_model_entry import CostModelEntry, RecordScorer

if TYPE_CHECKING:
    from costmodel.loop_nest.model import LoopNestModel
    from costmodel.machines.accelerators import Accelerator
    from costmodel.map_space.map_space import MapSpace
    from costmodel.problems.workloads import Workload
    from costmodel.space import Codes


def _space(workload: Workload, accelerator: Accelerator) -> MapSpace:
    from costmodel.map_space.map_space import MapSpace

    return MapSpace(workload, accelerator)


def _model(*_: Any) -> LoopNestModel:
    from costmodel.loop_nest.model import LoopNestModel

    return LoopNestModel()


def _score(records: Sequence[dict[str, Any]], model: LoopNestModel) -> list[dict[str, Any]]:
    from costmodel.loop_nest.record_forms import whole_records
    from costmodel.loop_nest.records import score

    return score(whole_records(records), model)


def _record(space: MapSpace, code: Codes, accelerator: Accelerator) -> dict[str, Any]:
    from costmodel.loop_nest.records import mapping_record

    return mapping_record(space, code)


def _model_for_records(**options: Any) -> LoopNestModel:
    from costmodel.loop_nest.model import LoopNestModel

    return LoopNestModel(**options)


LOOP_NEST = CostModelEntry(
    description="Energy and cycles of mappings by Timeloop's counting, in closed form.",
    accelerator="mm256",
    space=_space,
    model=_model,
    branch_and_bound=True,
    records=RecordScorer(_model_for_records, _score, ("link_transfers", "counting")),
    record=_record,
)
