"""The shape of an explanation as JSON."""

from __future__ import annotations

from typing_extensions import TypedDict

from costmodel.costs import Objective
from costmodel.explanation.neighbours import Kind


class NeighbourAnswer(TypedDict):
    """The optimum of a neighbour of the problem.

    Attributes:
        amount: how much of the resource it has; null: without limit, or not about an amount.
        value: the least objective that is known, in pJ and cycles; null: there is no mapping.
        lower_bound: what none of its mappings undercuts; null: none is feasible.
        proven: whether `value` is its optimum, or that it has no mapping.
        change: `value` over the explained optimum, less 1.
        change_at_least: likewise of the bound.
        why: why nothing could be proven; null where it could.
    """

    amount: float | None
    value: float | None
    lower_bound: float | None
    proven: bool
    change: float | None
    change_at_least: float | None
    why: str | None


class ExplainedResource(TypedDict):
    """What more of a resource would gain.

    Attributes:
        amount: what the machine has.
        only_helps: whether no mapping gets worse by more of it.
        active: whether it holds the optimum up; null: open.
        one_more_gains: whether a word, instance or word per cycle more gains anything; null: open.
        nothing_to: the largest amount that is proven to gain nothing; null: any.
        step: with the least more that is known to gain something; null where nothing is gained.
        step_is_least: whether `step` is proven to be the least.
        enough: with more than any mapping could use; of instances with twice as many.
    """

    name: str
    kind: Kind
    amount: float
    unit: str
    only_helps: bool
    active: bool | None
    one_more_gains: bool | None
    nothing_to: float | None
    step: NeighbourAnswer | None
    step_is_least: bool
    enough: NeighbourAnswer


class ExplainedConstraint(TypedDict):
    """What an entry of the constraints costs.

    Attributes:
        entry: the entry, in words.
        active: whether the optimum without it is better; null: open.
        without: the optimum without it.
    """

    entry: str
    active: bool | None
    without: NeighbourAnswer


class ExplainedDecision(TypedDict):
    """What the mapping decided, and the best mapping that decides otherwise.

    Attributes:
        forced: whether every mapping that decides otherwise is worse; null: open.
    """

    decision: str
    forced: bool | None
    otherwise: NeighbourAnswer


class ExplanationAnswer(TypedDict):
    """What holds an optimum up, and what it could not do without.

    Attributes:
        value: the optimum that is explained, in pJ and cycles.
    """

    objective: Objective
    value: float
    resources: list[ExplainedResource]
    constraints: list[ExplainedConstraint]
    decisions: list[ExplainedDecision]
    seconds: float
    interrupted: bool
