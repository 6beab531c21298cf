"""What a simulator has answered on one workload and machine: read once, kept as it comes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from costmodel.command.settings import COSTS
from costmodel.costs import STATUS_OK, STATUS_OUTSIDE
from costmodel.space import Codes, CostModel, Space
from mapspace.errors import DataError
from orchestrator.pool.remembered import Scored
from orchestrator.records.stored_evaluations import (
    INFEASIBLE,
    evaluation_question,
    evaluation_row,
    whose_answers,
)
from orchestrator.store.answers import keep_answers
from orchestrator.store.folder import Store
from orchestrator.store.rows import Row

# Answers are written so often: whoever is killed loses no more.
WRITE_SECONDS = 2.0


class StoredAnswers:
    """A memory of a pool (`orchestrator.pool.remembered.Memory`), in a store.

    `mapspace evaluate --simulator` reads the same rows, and writes them.

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
    ) -> None:
        """Reads what is there.

        Args:
            store: where answers are.
            name: the model's key in the table of cost models.
            model: the simulator.
            space: where mappings are of.
            record: a mapping `[D]` as a record of a whole nest.
        """
        self.found = self.made = 0
        self._store, self._model, self._space, self._record = store, model, space, record
        self._whose = whose_answers(name, model)
        self._reads = getattr(model, "reads", COSTS)
        rows = store.rows_with(kind="evaluation", model=model.name, model_version=model.version)
        self._rows = {row.question: row for row in rows}
        self._new: list[Row] = []
        self._written = time.monotonic()

    def find(self, code: Codes) -> Scored | None:
        """The answer of a mapping `[D]`; None where the store has none."""
        if not self._rows:
            return None
        row = self._rows.get(evaluation_question(self._record(code), self._whose).question)
        if row is None:
            return None
        try:
            answer = self._answer(row.content()["result"])
        except (DataError, KeyError, TypeError, ValueError) as error:
            self._store.tell(f"row {row.name}: {error} It is evaluated anew.")
            return None
        self.found += 1
        return answer

    def keep(self, code: Codes, answer: Scored) -> None:
        """Keeps what the simulator has said, unless it failed: another time it may not."""
        energy, cycles, status, _, why = answer
        if why or (status != STATUS_OK and not self._space.feasible(code[None])[0]):
            return
        result: dict[str, Any] = {}
        if "energy_pj" in self._reads:
            result["energy_pj"] = energy
        if "latency_cycles" in self._reads:
            result["cycles"] = cycles
        if status != STATUS_OK:
            result = {"valid": False, "why": INFEASIBLE}
        result |= {"model": self._model.name, "model_version": self._model.version}
        record = self._record(code)
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

    def _answer(self, result: dict[str, Any]) -> Scored:
        if result.get("valid") is False:
            return (math.inf, math.inf, STATUS_OUTSIDE, 0, "")
        energy = float(result["energy_pj"]) if "energy_pj" in self._reads else 0.0
        cycles = float(result["cycles"]) if "latency_cycles" in self._reads else 0.0
        return (energy, cycles, STATUS_OK, 0, "")
