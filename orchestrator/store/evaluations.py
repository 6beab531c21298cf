"""Evaluations of single mappings in the store: what was asked of a simulator, and its rows."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from costmodel.loop_nest.record_forms import as_nest
from costmodel.models import COST_MODELS
from costmodel.space import CostModel
from mapspace.errors import MapspaceError
from mapspace.version import __version__
from orchestrator.store.address import Question
from orchestrator.store.rows import Row, finite

Record = dict[str, Any]

# What a result says of a mapping that cannot run; any other reason is a failure of this time.
INFEASIBLE = "infeasible"


def whose_answers(name: str, model: CostModel) -> list[str]:
    """A cost model by its key in their table, with its version and its package's."""
    package = COST_MODELS.package(name) or f"mapspace {__version__}"
    return [model.name, model.version, package]


def evaluation_question(record: Mapping[str, Any], whose: list[str]) -> Question:
    """The question of a record: its mapping, whichever form it is written in, names included."""
    asked = {key: value for key, value in record.items() if key != "result"}
    # What is none, or is no loop nest, is refused by whoever scores it.
    with suppress(MapspaceError):
        asked = as_nest(asked)
    return Question({"kind": "evaluation", "model": whose, "record": asked}, {})


def evaluation_row(question: Question, record: Record, result: Record, model: CostModel) -> Row:
    """A row of one evaluated mapping."""
    energy, cycles = (result.get(key) for key in ("energy_pj", "cycles"))
    machine = record.get("arch_name") or record.get("arch")
    workload = record.get("problem")
    return Row(
        kind="evaluation",
        question=question.question,
        address=question.address,
        workload=_name(workload),
        workload_hash="",
        problem="",
        accelerator=_name(machine),
        accelerator_hash="",
        objective="",
        model=model.name,
        model_version=model.version,
        method="",
        energy_pj=None if energy is None else finite(float(energy)),
        latency_cycles=None if cycles is None else finite(float(cycles)),
        iterations=1,
        stored=time.time(),
        mapspace=__version__,
        payload=json.dumps({"result": result}),
    )


def _name(part: Any) -> str:
    """The name of a workload or a machine in a record, in whichever form it is written."""
    found = part.get("name", "") if isinstance(part, Mapping) else part
    return found if isinstance(found, str) else ""
