"""The explanation of a proven mapping: what holds it up, and what it could not do without."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.report.shown import Fact, Shown
from orchestrator.report.units import signed_percent
from orchestrator.schemas.explained import ExplanationAnswer

if TYPE_CHECKING:
    from costmodel.explanation.explained import (
        ConstraintAnswer,
        DecisionAnswer,
        Explanation,
        Neighbour,
        ResourceAnswer,
    )


@dataclass(frozen=True, repr=False)
class ExplainedOptimum(Shown):
    """The explanation of a result.

    Attributes:
        problem: workload and machine, in words.
        explanation: the answers.
    """

    problem: str
    explanation: Explanation

    def to_dict(self) -> ExplanationAnswer:
        """What `search --explain --json` prints under `explain`."""
        return self.explanation.to_dict()

    def heading(self) -> str:
        """What is explained."""
        cut = ", interrupted" if self.explanation.interrupted else ""
        spent = f"{self.explanation.seconds:.2f} s{cut}"
        return f"what holds {self.problem} up, by proofs of its neighbours ({spent})"

    def facts(self) -> Iterator[Fact]:
        """One line per resource, constraint and decision."""
        objective = self.explanation.objective
        for resource in self.explanation.resources:
            yield resource.resource.name, _resource_text(resource, objective)
        for number, entry in enumerate(self.explanation.constraints, start=1):
            yield f"constraint {number}", _constraint_text(entry, objective)
        for decided in self.explanation.decisions:
            yield "decision", _decision_text(decided, objective)

    def rows(self) -> Sequence[dict[str, Any]]:
        """One row per neighbour that was proven or bounded."""
        found = [
            (f"{one.resource.name} {neighbour.amount:g}", neighbour)
            for one in self.explanation.resources
            for neighbour in (one.step, one.enough)
            if neighbour is not None
        ]
        found += [(f"without {one.entry}", one.without) for one in self.explanation.constraints]
        found += [(f"not: {one.decision}", one.otherwise) for one in self.explanation.decisions]
        return [{"neighbour": what, **neighbour.to_dict()} for what, neighbour in found]


def explained_text(explained: ExplainedOptimum) -> str:
    """An explanation for people."""
    facts = list(explained.facts())
    width = max((len(label) for label, _ in facts), default=0) + 2
    lines = [f"  {label:<{width}}{text}" for label, text in facts]
    return "\n".join([explained.heading(), *lines])


def _resource_text(answer: ResourceAnswer, objective: str) -> str:
    resource, step, enough = answer.resource, answer.step, answer.enough
    has = f"{resource.amount:,g} {resource.unit}: "
    far = "without limit" if resource.kind == "bandwidth" else f"with {_amount(enough.amount)}"
    if resource.kind == "capacity":
        far = "with room for everything"
    if answer.active is False:
        most = "however much" if math.isinf(answer.nothing_to) else f"up to {far}"
        return f"{has}more would gain nothing, {most} (proven)"
    parts = []
    if step is not None:
        parts.append(f"with {_amount(step.amount)} {_change(step, objective)}")
    if answer.nothing_to > resource.amount and not (step and answer.nothing_to == step.amount):
        below = "below" if answer.least else f"up to {_amount(answer.nothing_to)}"
        parts.append(f"nothing {below} (proven)")
    if step is None or step.amount != enough.amount:
        parts.append(f"{far} {_change(enough, objective)}")
    if not resource.only_helps:
        parts.append("other amounts were not looked at")
    return has + "; ".join(parts)


def _amount(amount: float | None) -> str:
    return f"{amount:,.10g}"


def _constraint_text(answer: ConstraintAnswer, objective: str) -> str:
    without = answer.without
    if without.better is False:
        return f"{answer.entry}: not active, without it nothing is gained (proven)"
    active = "active, " if without.better else ""
    return f"{answer.entry}: {active}without it {_change(without, objective)}"


def _decision_text(answer: DecisionAnswer, objective: str) -> str:
    other = answer.otherwise
    if other.proven and other.value is None:
        return f"{answer.decision}: forced, no mapping that decides otherwise is feasible"
    if answer.forced is False:
        return f"{answer.decision}: not forced, as good otherwise"
    forced = "forced, " if answer.forced else ""
    return f"{answer.decision}: {forced}otherwise {_change(other, objective)}"


def _change(neighbour: Neighbour, objective: str) -> str:
    """What the objective changes by: proven, or within which bounds."""
    if neighbour.why is not None:
        return f"not proven: {neighbour.why.rstrip('.')}"
    if neighbour.proven and neighbour.change is not None:
        if abs(neighbour.change) <= 5e-7:
            return "nothing (proven)" if neighbour.better is False else "less than 0.0001 %"
        return f"{objective} {signed_percent(neighbour.change)} (proven)"
    if neighbour.proven:
        return "no mapping is feasible (proven)"
    least = signed_percent(neighbour.change_at_least)
    if neighbour.change is None:
        return f"{objective} {least} at least, none was found (not proven)"
    return f"{objective} {least} to {signed_percent(neighbour.change)} (not proven)"
