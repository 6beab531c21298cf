"""Evaluations by models that take their time, such as a simulator's: read, or made and kept."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from costmodel.loop_nest.record_forms import as_nest
from costmodel.models import COST_MODELS
from costmodel.space import CostModel
from mapspace.errors import ConfigError, DataError, MapspaceError
from mapspace.version import __version__
from orchestrator.store.address import Question
from orchestrator.store.answers import keep_answers
from orchestrator.store.folder import Store
from orchestrator.store.rows import Row, finite

Record = dict[str, Any]
Score = Callable[[list[Record]], list[Record]]
# What a result says of a mapping that cannot run; any other reason is a failure of this time.
INFEASIBLE = "infeasible"


def read_or_score(score: Score, name: str, model: CostModel, store: Store) -> Score:
    """What scores records that the store has no result of, and says `from_store` of every one.

    Args:
        score: adds `result` to records.
        name: the model's key in the table of cost models.
        model: the model; its version stands for its settings, too.
        store: where results are read and kept.
    """
    whose = whose_answers(name, model)

    def scores(records: list[Record]) -> list[Record]:
        questions = [evaluation_question(record, whose) for record in records]
        rows = {row.question: row for row in store.rows({q.question for q in questions})}
        found: dict[int, Any] = {}
        for place, question in enumerate(questions):
            if question.question in rows:
                try:
                    found[place] = rows[question.question].content()["result"] | {
                        "from_store": True
                    }
                except (DataError, KeyError, TypeError) as error:
                    store.tell(f"{error} It is evaluated anew.")
        left = [place for place in range(len(records)) if place not in found]
        # Where nothing is left, nothing is to be started.
        results = _scored(score, records, left) if left else []
        new = []
        for place, record in zip(left, results, strict=True):
            if record["result"].get("why", INFEASIBLE) == INFEASIBLE:
                row = evaluation_row(questions[place], records[place], record["result"], model)
                new.append(row)
            found[place] = record["result"] | {"from_store": False}
        if new:
            keep_answers(store, new)
        return [record | {"result": found[place]} for place, record in enumerate(records)]

    return scores


def _scored(score: Score, records: list[Record], left: list[int]) -> list[Record]:
    """Some of the records with their results.

    Raises:
        ConfigError: one cannot be read, by its index among all.
    """
    try:
        return score([records[place] for place in left])
    except ConfigError as error:
        match = re.fullmatch(r"record (\d+): (.*)", str(error), flags=re.DOTALL)
        if match is None:
            raise
        raise ConfigError(f"record {left[int(match[1])]}: {match[2]}") from None


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
