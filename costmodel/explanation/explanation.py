"""Why an optimum is what it is: what holds it up, and which decisions it could not do without.

Every answer is the proof of a neighbour: of the same problem with more of one resource, a
constraint less, or one decision the other way. A proof that its time did not suffice for says its
bounds.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from costmodel.costs import Objective
from costmodel.exact.face import AnyProof
from costmodel.exact.restriction import Restriction
from costmodel.exact_any.choice import make_prover, why_not_proven
from costmodel.exact_any.problem import why_not_any
from costmodel.exact_any.prover import AnyProver
from costmodel.explanation.explained import (
    EQUAL,
    ConstraintAnswer,
    DecisionAnswer,
    Explanation,
    Neighbour,
    ResourceAnswer,
)
from costmodel.explanation.neighbours import (
    Resource,
    amounts,
    decisions,
    enough,
    needed,
    otherwise,
    resources,
)
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.constraint_entries import Constraint
from costmodel.machines.packing import pack
from costmodel.map_space.impossible import conflict_text
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import Mapping
from costmodel.tile_chains.rules import Decision
from mapspace.errors import ConfigError

# The search for the smallest step that matters proves several neighbours.
_STEPS = 4.0
# Of the time that is left for that search the next neighbour may take one part in so many.
_PROBES = 4.0

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Optimum(NamedTuple):
    """What is explained: a proven best mapping.

    space its map space; mapping; objective; keep: the restriction that it is proven under, if any.
    """

    space: MapSpace
    mapping: Mapping
    objective: Objective
    keep: Restriction | None


class _EnoughError(Exception):
    """Leaves a proof that has found what was asked."""


def explain(
    optimum: Optimum,
    *,
    seconds: float,
    stop: threading.Event | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Explanation:
    """Proves the neighbours of an optimum, each with a share of the time.

    What one leaves of its share is the others'.

    Args:
        optimum: a proven best mapping.
        seconds: the most that it may take.
        stop: ends it, with what is answered so far, when it is set.
        say: called with what is looked at next.
    """
    return _Explainer(optimum, seconds, stop or threading.Event(), say).explain()


class _Explainer:
    """Looks at one neighbour after another."""

    def __init__(
        self,
        optimum: Optimum,
        seconds: float,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        space, mapping, objective, _ = self._optimum = optimum
        self._stop, self._say = stop, say
        self._started, self._seconds = time.monotonic(), seconds
        self._machine, self._work = space.accelerator, space.workload
        costs = LoopNestModel().evaluate(space, space.code(mapping)[None])
        self._value = float(costs.objective(objective)[0])
        # Shares of the time that are still to be given.
        self._parts = 0.0
        # By resource: the best mapping with as much of it as could be used.
        self._best: dict[str, Mapping] = {}

    def explain(self) -> Explanation:
        """All answers."""
        space, mapping, objective, keep = self._optimum
        every, rules = resources(self._machine), self._machine.constraints
        decided = decisions(space, mapping, keep)
        self._parts = len(every) * (1 + _STEPS) + len(rules) + len(decided)
        most = self._each(every, self._with_enough)
        left_out = self._each(rules, self._without_rule)
        other = self._each([decision for _, decision in decided], self._otherwise)
        pairs = list(zip(every, most, strict=False))
        answers = self._each(pairs, lambda pair: self._step(*pair))
        return Explanation(
            objective=objective,
            value=self._value,
            resources=tuple(answers),
            constraints=tuple(
                ConstraintAnswer(conflict_text([rule]), one)
                for rule, one in zip(rules, left_out, strict=False)
            ),
            decisions=tuple(
                DecisionAnswer(what, one) for (what, _), one in zip(decided, other, strict=False)
            ),
            seconds=time.monotonic() - self._started,
            interrupted=self._stop.is_set(),
        )

    def _each(self, asked: Sequence[Asked], answer: Callable[[Asked], Answer]) -> list[Answer]:
        """Answers until it is stopped."""
        found: list[Answer] = []
        for one in asked:
            if self._stop.is_set():
                break
            found.append(answer(one))
        return found

    def _share(self, parts: float = 1.0) -> float:
        """Seconds for so many parts of the work that is left, which is less by them then."""
        left = max(0.0, self._started + self._seconds - time.monotonic())
        share = left * min(1.0, parts / self._parts) if self._parts > 0 else 0.0
        self._parts = max(0.0, self._parts - parts)
        return share

    def _with_enough(self, resource: Resource) -> Neighbour:
        seconds = self._share()
        amount = enough(resource, self._machine, self._work)
        if amount <= resource.amount:
            # There is more already than any mapping can use.
            return Neighbour(resource.amount, self._value, self._value, True, 0.0, 0.0)
        return self._with(resource, amount, seconds)

    def _with(self, resource: Resource, amount: float, seconds: float, *also: Mapping) -> Neighbour:
        """The optimum with another amount of a resource.

        Args:
            resource: the resource.
            amount: how much of it there is.
            seconds: the most that it may take.
            also: mappings that are known to be good there.
        """
        try:
            space = MapSpace(self._work, resource.grown(self._machine, amount))
        except ConfigError as error:
            return self._answer(str(error), amount)
        self._say(f"{resource.name}: {resource.text_of(amount)}")
        proof = self._prove(space, seconds, also=also)
        if not isinstance(proof, str) and proof.best_outcome is not None:
            self._best[resource.name] = space.describe(proof.codes(1)[0])
        return self._answer(proof, amount)

    def _without_rule(self, rule: Constraint) -> Neighbour:
        self._say(f"without {conflict_text([rule])}")
        rules = tuple(other for other in self._machine.constraints if other is not rule)
        machine = self._machine.model_copy(update={"constraints": rules})
        return self._answer(self._prove(MapSpace(self._work, machine), self._share()))

    def _otherwise(self, decision: Decision) -> Neighbour:
        self._say(f"the other way at {decision.name}")
        proof = self._prove(self._optimum.space, self._share(), without=decision)
        return self._answer(proof)

    def _prove(
        self,
        space: MapSpace,
        seconds: float,
        *,
        without: Decision | None = None,
        until_better: bool = False,
        also: Iterable[Mapping] = (),
    ) -> AnyProof | str:
        """Proves a neighbour's optimum, from the explained mapping on.

        Args:
            space: the neighbour's map space.
            seconds: the most that it may take.
            without: what its mappings must not decide.
            until_better: whether any better mapping than the explained one suffices.
            also: further mappings to begin with.

        Returns:
            How far the proof came, or why there is none.
        """
        _, mapping, objective, keep = self._optimum
        why = why_not_proven(space) if without is None else why_not_any(space)
        if why is not None:
            return why
        prover: AnyProof
        if without is None:
            prover = make_prover(space, objective=objective, keep=keep, build=False)
        else:
            prover = AnyProver(space, objective=objective, keep=keep, build=False, without=without)
            mapping = otherwise(mapping, without, self._work.tensor_names)
        for one in (mapping, *also):
            # The space may not have it: the other decision takes more than was exchanged.
            with contextlib.suppress(ConfigError):
                prover.offer(space.code(one)[None])

        def after_step(proof: AnyProof) -> None:
            best = proof.best_outcome
            found = until_better and best is not None and self._is_better(proof, best)
            if found or self._stop.is_set():
                raise _EnoughError

        with contextlib.suppress(_EnoughError):
            prover.run(seconds, after_step=after_step)
        return prover

    def _is_better(self, prover: AnyProof, outcome: tuple[int, int]) -> bool:
        return value_of(prover, outcome) < self._value * (1 - EQUAL)

    def _answer(self, proof: AnyProof | str, amount: float | None = None) -> Neighbour:
        return neighbour_of(proof, self._value, amount)

    def _step(self, resource: Resource, most: Neighbour) -> ResourceAnswer:
        """What a little more of a resource gains."""
        seconds = self._share(_STEPS)
        if most.better is False and resource.only_helps:
            nothing_to = most.amount or 0.0 if resource.kind == "elements" else math.inf
            return ResourceAnswer(resource, most, None, nothing_to, False)
        if resource.kind == "bandwidth":
            one_more = resource.amount + resource.step
            step = self._with(resource, one_more, seconds)
            nothing_to = one_more if step.better is False else resource.amount
            return ResourceAnswer(resource, most, step, nothing_to, False)
        grid = amounts(resource, self._work, int(most.amount or 0))
        if not grid:
            return ResourceAnswer(resource, most, None, most.amount or 0.0, False)
        if resource.only_helps and most.better:
            return self._search(resource, most, grid, seconds)
        near = self._with(resource, grid[0], seconds)
        nothing_to = grid[0] if near.better is False and resource.only_helps else resource.amount
        return ResourceAnswer(resource, most, near, nothing_to, bool(near.better))

    def _search(
        self, resource: Resource, most: Neighbour, grid: Sequence[int], seconds: float
    ) -> ResourceAnswer:
        """Narrows the range between an amount that gains nothing and one that gains something."""
        ends = time.monotonic() + seconds
        low, known = -1, [self._best[resource.name]]
        high = self._index(resource, known[0], grid, len(grid) - 1)
        while high - low > 1 and not self._stop.is_set():
            # What a little more gains is what is asked: the middle of the growths' logarithms.
            middle = math.isqrt(max(1, low + 1) * (high + 1)) - 1
            middle = min(max(middle, low + 1), high - 1)
            space = MapSpace(self._work, resource.grown(self._machine, grid[middle]))
            self._say(f"{resource.name}: {resource.text_of(grid[middle])}")
            left = max(0.0, ends - time.monotonic())
            proof = self._prove(space, left / _PROBES, until_better=True)
            found = self._answer(proof, grid[middle])
            if found.better and not isinstance(proof, str):
                known.append(space.describe(proof.codes(1)[0]))
                high = self._index(resource, known[-1], grid, middle)
            elif found.better is False:
                low = middle
            else:
                break
        step = self._with(resource, grid[high], max(0.0, ends - time.monotonic()), *known)
        least = high - low == 1
        nothing_to = grid[high] - resource.step if least else resource.amount
        if low >= 0:
            nothing_to = max(nothing_to, grid[low])
        return ResourceAnswer(resource, most, step, nothing_to, least)

    def _index(self, resource: Resource, mapping: Mapping, grid: Sequence[int], most: int) -> int:
        """The least place in a grid of amounts that takes a mapping which fits the `most`-th."""
        if resource.kind != "capacity":
            return most
        space = MapSpace(self._work, resource.grown(self._machine, grid[most]))
        costs = LoopNestModel().evaluate(space, space.code(mapping)[None], detail=True)
        assert costs.detail is not None  # it was asked for
        packing = pack(self._machine, self._work.bits_by_tensor)
        room = slice(*space.tables.machine.sharing[resource.level].tolist())
        held = math.ceil(packing.words(costs.detail.tile[0])[room].sum())
        return grid.index(needed(resource, self._machine, held, grid[most]))


def value_of(prover: AnyProof, outcome: tuple[int, int]) -> float:
    """The objective of a proof's whole numbers, in pJ and cycles."""
    unit = 1 if prover.objective == "latency" else prover.unit_pj
    return float(prover.value_of(outcome) * unit)


def neighbour_of(proof: AnyProof | str, value: float, amount: float | None = None) -> Neighbour:
    """How far a proof of a neighbour came.

    Args:
        proof: the proof, or why there is none.
        value: the optimum that is explained, in pJ and cycles.
        amount: how much of a resource the neighbour has.
    """

    def change(other: float) -> float:
        if value > 0:
            return other / value - 1
        return math.inf if other > 0 else 0.0

    if isinstance(proof, str):
        return Neighbour(amount, None, 0.0, False, None, -1.0, proof)
    best = proof.best_outcome
    found = None if best is None else value_of(proof, best)
    if proof.finished:
        bound = math.inf if found is None else found
    else:
        bound = value_of(proof, proof.lower_outcome)
    return Neighbour(
        amount,
        found,
        bound,
        proof.finished,
        None if found is None else change(found),
        change(bound),
    )
