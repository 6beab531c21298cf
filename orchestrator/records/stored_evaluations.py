"""Evaluations by models that take their time, such as a simulator's: read, or made and kept."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from costmodel.models import COST_MODELS
from costmodel.space import CostModel
from mapspace.errors import ConfigError, DataError
from mapspace.version import __version__
from orchestrator.store.address import Question
from orchestrator.store.compaction import tidy
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
    package = COST_MODELS.package(name) or f"mapspace {__version__}"
    whose = [model.name, model.version, package]

    def scores(records: list[Record]) -> list[Record]:
        questions = [_question(record, whose) for record in records]
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
                new.append(_row(questions[place], records[place], record["result"], model))
            found[place] = record["result"] | {"from_store": False}
        if new and store.add(new):
            tidy(store)
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


def _question(record: Mapping[str, Any], whose: list[str]) -> Question:
    """The question of a record: everything in it but a result that it may have already."""
    asked = {key: value for key, value in record.items() if key != "result"}
    return Question({"kind": "evaluation", "model": whose, "record": asked}, {})


def _row(question: Question, record: Record, result: Record, model: CostModel) -> Row:
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
