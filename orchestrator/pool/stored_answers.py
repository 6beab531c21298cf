"""What a simulator has answered on one workload and machine: read once, kept as it comes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from costmodel.command.own_model import Answer
from costmodel.command.settings import COSTS, Cost
from costmodel.costs import STATUS_OK, STATUS_OUTSIDE
from costmodel.space import Codes, CostModel, Space
from mapspace.errors import DataError
from orchestrator.pool.remembered import Scored
from orchestrator.store.answers import keep_answers
from orchestrator.store.evaluations import (
    INFEASIBLE,
    evaluation_question,
    evaluation_row,
    whose_answers,
)
from orchestrator.store.folder import Store
from orchestrator.store.rows import Row

# Answers are written so often: whoever is killed loses no more.
WRITE_SECONDS = 2.0
# As a record's result calls costs.
RESULT_KEYS: dict[Cost, str] = {"energy_pj": "energy_pj", "latency_cycles": "cycles"}


class StoredAnswers:
    """A memory of a pool (`orchestrator.pool.remembered.Memory`), in a store.

    Of a simulator, too (`costmodel.command.own_model.Memory`). `mapspace evaluate --simulator`
    reads the same rows, and writes them.

    Attributes:
        found: answers that were read from the store.
        made: answers that were kept.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        model: CostModel,
        space: Space,
        record: Callable[[Codes], dict[str, Any]],
        *,
        reads: bool = True,
    ) -> None:
        """Reads what is there.

        Args:
            store: where answers are.
            name: the model's key in the table of cost models.
            model: the simulator.
            space: where mappings are of.
            record: a mapping `[D]` as a record of a whole nest.
            reads: whether what is there answers; else new answers are kept alone.
        """
        self.found = self.made = 0
        self._store, self._model, self._space, self._record = store, model, space, record
        self._whose = whose_answers(name, model)
        self._reads = getattr(model, "reads", COSTS)
        self._rows: dict[str, Row] = {}
        if reads:
            rows = store.rows_with(kind="evaluation", model=model.name, model_version=model.version)
            self._rows = {row.question: row for row in rows}
        self._new: list[Row] = []
        self._written = time.monotonic()

    def find(self, code: Codes) -> Scored | None:
        """The answer of a mapping `[D]`; None where the store has none."""
        found = self.answer_of(self._record(code)) if self._rows else None
        if found is None:
            return None
        if found.values is None:
            return (math.inf, math.inf, STATUS_OUTSIDE, 0, "")
        return (*found.values, STATUS_OK, 0, "")

    def keep(self, code: Codes, answer: Scored) -> None:
        """Keeps what the simulator has said, unless it failed: another time it may not."""
        energy, cycles, status, _, why = answer
        if status == STATUS_OK:
            self.keep_answer(self._record(code), Answer((energy, cycles)))
        elif self._space.feasible(code[None])[0]:
            self.keep_answer(self._record(code), Answer(None, why))

    def answer_of(self, record: dict[str, Any]) -> Answer | None:
        """The answer of a mapping, given as a record of a whole nest; None where there is none."""
        if not self._rows:
            return None
        row = self._rows.get(evaluation_question(record, self._whose).question)
        if row is None:
            return None
        try:
            answer = self._answer(row.content()["result"])
        except (DataError, KeyError, TypeError, ValueError) as error:
            self._store.tell(f"row {row.name}: {error} It is evaluated anew.")
            return None
        self.found += 1
        return answer

    def keep_answer(self, record: dict[str, Any], answer: Answer) -> None:
        """Keeps what the simulator has said, unless it failed: another time it may not."""
        if answer.why:
            return
        result: dict[str, Any] = {"valid": False, "why": INFEASIBLE}
        if answer.values is not None:
            costs = dict(zip(COSTS, answer.values, strict=True))
            result = {RESULT_KEYS[cost]: costs[cost] for cost in self._reads}
        result |= {"model": self._model.name, "model_version": self._model.version}
        question = evaluation_question(record, self._whose)
        self._new.append(evaluation_row(question, record, result, self._model))
        self.made += 1
        if time.monotonic() - self._written > WRITE_SECONDS:
            self.write()

    def write(self) -> None:
        """Writes what is new."""
        rows, self._new = self._new, []
        self._written = time.monotonic()
        if rows:
            keep_answers(self._store, rows)

    def _answer(self, result: dict[str, Any]) -> Answer:
        if result.get("valid") is False:
            return Answer(None)
        energy, cycles = (
            float(result[RESULT_KEYS[cost]]) if cost in self._reads else 0.0 for cost in COSTS
        )
        return Answer((energy, cycles))
