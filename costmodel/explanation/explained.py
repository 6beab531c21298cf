"""What explains an optimum: neighbours with their optima, and what follows from each."""

from __future__ import annotations

import math
from dataclasses import dataclass

from costmodel.costs import Objective
from costmodel.explanation.explanation_json import (
    ExplainedConstraint,
    ExplainedDecision,
    ExplainedResource,
    ExplanationAnswer,
    NeighbourAnswer,
)
from costmodel.explanation.neighbours import Resource

EQUAL = 1e-11
"""Optima closer than this share count as equal: energies are sums in floating point."""


@dataclass(frozen=True)
class Neighbour:
    """The optimum of a neighbour.

    Attributes:
        amount: how much of the resource it has; None where it is not about an amount.
        value: the least objective of a mapping that is known, in pJ and cycles; None: none is.
        lower_bound: what none of its mappings undercuts.
        proven: whether `value` is its optimum, or that it has no mapping at all.
        change: `value` over the explained optimum, less 1; None without a value.
        change_at_least: likewise of the bound.
        why: why nothing could be proven; None where it could.
    """

    amount: float | None
    value: float | None
    lower_bound: float
    proven: bool
    change: float | None
    change_at_least: float
    why: str | None = None

    @property
    def better(self) -> bool | None:
        """Whether it is better than what is explained; None: open."""
        if self.change is not None and self.change < -EQUAL:
            return True
        return False if self.change_at_least >= -EQUAL else None

    @property
    def worse(self) -> bool | None:
        """Whether it is worse than what is explained, or impossible; None: open."""
        if self.change_at_least > EQUAL or (self.proven and self.value is None):
            return True
        return False if self.change is not None and self.change <= EQUAL else None

    def to_dict(self) -> NeighbourAnswer:
        """For JSON, which has no infinite numbers."""
        return {
            "amount": _finite(self.amount),
            "value": _finite(self.value),
            "lower_bound": _finite(self.lower_bound),
            "proven": self.proven,
            "change": _finite(self.change),
            "change_at_least": _finite(self.change_at_least),
            "why": self.why,
        }


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


@dataclass(frozen=True)
class ResourceAnswer:
    """What more of a resource would gain.

    Attributes:
        resource: the resource.
        enough: with more than any mapping could use; of instances with twice as many.
        step: with the least more that is known to gain something; of a bandwidth with one word per
            cycle more; None where nothing is gained.
        nothing_to: the largest amount that is proven to gain nothing; inf: any.
        least: whether `step` is proven to be the least that gains anything.
    """

    resource: Resource
    enough: Neighbour
    step: Neighbour | None
    nothing_to: float
    least: bool

    @property
    def active(self) -> bool | None:
        """Whether it holds the optimum up; None: open."""
        if any(one is not None and one.better for one in (self.enough, self.step)):
            return True
        settled = self.resource.only_helps and self.nothing_to >= (self.enough.amount or math.inf)
        return False if settled else None

    @property
    def one_more(self) -> bool | None:
        """Whether one more word, instance or word per cycle gains anything; None: open."""
        wanted = self.resource.amount + self.resource.step
        step = self.step
        if step is not None and step.amount == wanted and step.better:
            return True
        return False if self.nothing_to >= wanted else None

    def to_dict(self) -> ExplainedResource:
        """For JSON."""
        resource = self.resource
        return {
            "name": resource.name,
            "kind": resource.kind,
            "amount": resource.amount,
            "unit": resource.unit,
            "only_helps": resource.only_helps,
            "active": self.active,
            "one_more_gains": self.one_more,
            "nothing_to": self.nothing_to if math.isfinite(self.nothing_to) else None,
            "step": None if self.step is None else self.step.to_dict(),
            "step_is_least": self.least,
            "enough": self.enough.to_dict(),
        }


@dataclass(frozen=True)
class ConstraintAnswer:
    """What an entry of the constraints costs.

    Attributes:
        entry: the entry, in words.
        without: the optimum without it.
    """

    entry: str
    without: Neighbour

    def to_dict(self) -> ExplainedConstraint:
        """For JSON."""
        without = self.without.to_dict()
        return {"entry": self.entry, "active": self.without.better, "without": without}


@dataclass(frozen=True)
class DecisionAnswer:
    """What the mapping decided, and the best mapping that decides otherwise.

    Attributes:
        decision: in words.
        otherwise: the optimum of the mappings that decide otherwise.
    """

    decision: str
    otherwise: Neighbour

    @property
    def forced(self) -> bool | None:
        """Whether every mapping that decides otherwise is worse; None: open."""
        return self.otherwise.worse

    def to_dict(self) -> ExplainedDecision:
        """For JSON."""
        otherwise = self.otherwise.to_dict()
        return {"decision": self.decision, "forced": self.forced, "otherwise": otherwise}


@dataclass(frozen=True)
class Explanation:
    """What holds an optimum up, and what it could not do without.

    Attributes:
        objective: what is minimised.
        value: the optimum that is explained, in pJ and cycles.
        resources: what more of every resource would gain.
        constraints: what every entry of the constraints costs.
        decisions: what it decided, and what deciding otherwise costs.
        seconds: how long it took.
        interrupted: whether it was ended before everything was answered.
    """

    objective: Objective
    value: float
    resources: tuple[ResourceAnswer, ...]
    constraints: tuple[ConstraintAnswer, ...]
    decisions: tuple[DecisionAnswer, ...]
    seconds: float
    interrupted: bool = False

    def to_dict(self) -> ExplanationAnswer:
        """For JSON."""
        return {
            "objective": self.objective,
            "value": self.value,
            "resources": [one.to_dict() for one in self.resources],
            "constraints": [one.to_dict() for one in self.constraints],
            "decisions": [one.to_dict() for one in self.decisions],
            "seconds": self.seconds,
            "interrupted": self.interrupted,
        }
