"""Evaluations by models that take their time, such as a simulator's: read, or made and kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from costmodel.space import CostModel
from mapspace.errors import ConfigError, DataError
from orchestrator.store.answers import keep_answers
from orchestrator.store.evaluations import (
    INFEASIBLE,
    Record,
    evaluation_question,
    evaluation_row,
    whose_answers,
)
from orchestrator.store.folder import Store

Score = Callable[[list[Record]], list[Record]]


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
