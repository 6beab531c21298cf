"""Whole searches with a simulator of one's own in the store: what was asked, what came of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mapspace.errors import DataError
from orchestrator.search.stored import method_of
from orchestrator.store.address import Question
from orchestrator.store.answers import keep_answers, read_answer
from orchestrator.store.evaluations import whose_answers
from orchestrator.store.rows import finite, row_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.machines.accelerators import Accelerator
    from costmodel.problems.affine import Workload
    from costmodel.space import CostModel
    from orchestrator.answers.request import Request
    from orchestrator.store.folder import Store
    from orchestrator.store.rows import Row


@dataclass(frozen=True)
class SimulatedSearch:
    """One search, as the store knows it.

    Attributes:
        request: what is asked.
        method: the searcher that it comes to.
        workload: the operation; a simulator may be told its names, so that they count.
        machine: the machine, likewise.
        model: the simulator.
        name: its key in the table of cost models.
        pool: what else decides the order of answers: workers and their limit of time.
        limits: the budget.
    """

    request: Request
    method: str
    workload: Workload
    machine: Accelerator
    model: CostModel
    name: str
    pool: tuple[int, float | None]
    limits: Mapping[str, Any]

    @property
    def question(self) -> Question:
        """Everything that decides what is found."""
        content = {
            "kind": "simulated",
            "workload": [self.workload.name, self.workload.hash],
            "machine": [self.machine.name, self.machine.hash],
            "objective": self.request.objective,
            "model": whose_answers(self.name, self.model),
            "method": method_of(self.request, self.method, self.workload),
            "seed": self.request.seed,
            "pool": list(self.pool),
        }
        return Question(content, self.limits)

    @property
    def told(self) -> dict[str, Any]:
        """What search it is, for an answer and an event log."""
        return {
            "searcher": self.method,
            "seed": self.request.seed,
            "objective": self.request.objective,
            "workload": self.workload.hash,
            "accelerator": self.machine.hash,
            "model": f"{self.model.name} {self.model.version}",
            "budget": [self.limits["iterations"], self.limits["seconds"]],
        }

    def read(self, store: Store) -> dict[str, Any] | None:
        """What `keep` was given; None where the store has nothing."""
        question = self.question

        def answer(row: Row) -> dict[str, Any]:
            found = row.content().get("answer")
            if not isinstance(found, dict) or not {"record", "value", "summary"} <= found.keys():
                raise DataError("it holds no search.")
            return {**found, "stored": store.where(row)}

        return read_answer(store, question, lambda row: row.address == question.address, answer)

    def keep(self, store: Store, answer: Mapping[str, Any]) -> None:
        """Keeps `record`, `value` and `summary` of an answer."""
        question, summary = self.question, answer["summary"]
        row = row_of(
            "search",
            question,
            self.workload,
            self.machine,
            self.model,
            objective=self.request.objective,
            method=self.method,
            parameters=json.dumps(question.content["method"]["parameters"], sort_keys=True),
            seed=self.request.seed,
            budget_seconds=self.limits["seconds"],
            budget_iterations=self.limits["iterations"],
            value=finite(answer["value"]),
            iterations=summary["iterations"],
            seconds=summary["seconds"],
            payload=json.dumps({"answer": dict(answer)}),
        )
        keep_answers(store, [row])
