"""Which tensors of a network stay on the chip, chosen together with all mappings.

A tensor that stays is in the shared buffer from when it is written until it is last read. What a
layer costs depends on which of its tensors stay and on the words that lie there: a machine of its
own (`costmodel.resident`). Along the order of the network the least weighted sum over all ways to
choose is a shortest path whose states are the tensors that lie there; the rest is as in `Jointly`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from costmodel.accelerators import Accelerator
from costmodel.chains import Step
from costmodel.costs import Objective
from costmodel.exact.infeasible import why_infeasible
from costmodel.exact_any.choice import load_prover, why_not_proven
from costmodel.exact_any.weighted import Line
from costmodel.map_space.map_space import MapSpace
from costmodel.resident import resident_machine
from mapspace.errors import ConfigError
from orchestrator.networks.jointly import Choice, Jointly, LayerLines, Weight
from orchestrator.networks.lines import value_of

LEAST_SECONDS = 0.05
MOST_STATES = 64
"""Sets of tensors that lie on the chip at a time, beyond which ways are not listed."""

State = frozenset[int]


class Way(NamedTuple):
    """How a step runs: what lies on the chip before and after, and its lines there."""

    before: State
    after: State
    stays: bool
    lines: LayerLines


class Ways:
    """Every way in which the steps of a network can run."""

    def __init__(
        self, steps: Sequence[Step], machine: Accelerator, known: Ways | None = None
    ) -> None:
        """Lists them.

        Args:
            steps: the layers in their order.
            machine: the whole machine.
            known: other ways on it; what is proven of their layers serves these, too.

        Raises:
            ConfigError: a layer fits nowhere, admits no proof, or there are too many ways.
        """
        self.steps, self._machine = tuple(steps), machine
        self._lines: dict[tuple[str, tuple[str, ...], int], LayerLines | None] = (
            {} if known is None else known._lines
        )
        self.ways: list[list[Way]] = []
        states: set[State] = {frozenset()}
        for place in range(len(steps)):
            ways = [way for state in states for way in self._of(place, state)]
            self.ways.append(ways)
            states = {way.after for way in ways}
            if len(states) > MOST_STATES:
                raise ConfigError(
                    f"{steps[place].workload.name}: more than {MOST_STATES} sets of tensors could "
                    "stay on the chip."
                )

    @property
    def layers(self) -> tuple[LayerLines, ...]:
        """What is proven of each distinct layer with each that can lie on the chip."""
        found = {id(way.lines): way.lines for ways in self.ways for way in ways}
        return tuple(found.values())

    def _of(self, place: int, before: State) -> Iterator[Way]:
        step = self.steps[place]
        used = step.until > place and any(one.source == place for one in self.steps)
        for stays in (False, True) if used else (False,):
            lying = before | {place} if stays else before
            roles = ("input",) if step.source in before else ()
            roles = (*roles, "output") if stays else roles
            words = sum(self.steps[one].words for one in lying)
            lines = self._with(place, roles, words)
            if lines is not None:
                after = frozenset(one for one in lying if self.steps[one].until > place)
                yield Way(before, after, stays, lines)

    def _with(self, place: int, roles: tuple[str, ...], words: int) -> LayerLines | None:
        work = self.steps[place].workload
        key = (work.hash, roles, words)
        if key not in self._lines:
            machine = resident_machine(self._machine, roles, words)
            space = None if machine is None else MapSpace(work, machine)
            why = None if space is None else why_infeasible(space) or why_not_proven(space)
            if why is not None and not words:
                raise ConfigError(f"{work.name}: {why}")
            fits = space is not None and why is None
            self._lines[key] = LayerLines(space, 1) if fits and space is not None else None
        return self._lines[key]

    def shortest(self, cost: Callable[[LayerLines], Fraction]) -> tuple[Fraction, list[Way]]:
        """The least sum of counts x costs of lines, and the ways that have it."""
        best: dict[State, tuple[Fraction, list[Way]]] = {frozenset(): (Fraction(0), [])}
        for step, ways in zip(self.steps, self.ways, strict=True):
            further: dict[State, tuple[Fraction, list[Way]]] = {}
            for way in ways:
                if way.before not in best:
                    continue
                so_far, path = best[way.before]
                total = so_far + step.count * cost(way.lines)
                if way.after not in further or total < further[way.after][0]:
                    further[way.after] = total, [*path, way]
            best = further
        return min(best.values(), key=lambda one: one[0])


class Resident(Jointly):
    """Finds mappings, and tensors that stay, of the least objective, and proves that."""

    def __init__(self, ways: Ways, objective: Objective, **options: Any) -> None:
        """As `Jointly`, of every layer with each that can lie on the chip."""
        self._ways = ways
        self.path: list[Way] = []
        super().__init__(ways.layers, objective, **options)

    def sums(self, choice: Choice) -> tuple[Fraction, int]:
        """Energy (pJ) and cycles of a mapping per step."""
        pairs = list(zip(self._ways.steps, choice, strict=True))
        energy = sum((step.count * point.energy for step, point in pairs), Fraction(0))
        return energy, sum(step.count * point.cycles for step, point in pairs)

    def _consider(self, weight: Weight) -> Choice:
        line = Line(weight, Fraction(0), None, False)

        def least(lines: LayerLines) -> Fraction:
            point = lines.least(weight)
            assert point is not None  # every layer begins with one
            return line.sum_of(point)

        _, path = self._ways.shortest(least)
        points = [way.lines.least(weight) for way in path]
        choice = tuple(point for point in points if point is not None)
        energy, cycles = self.sums(choice)
        value = value_of(self.objective, energy, Fraction(cycles))
        if self._best is None or value < self._best[0]:
            self._best, self.path = (value, choice), path
        return choice

    def _least_of(self, weight: Weight) -> Fraction:
        return self._ways.shortest(lambda lines: lines.lines[weight].bound)[0]


def begin(ways: Ways, seconds: float) -> None:
    """Finds a first mapping of every layer with each that can lie on the chip.

    Raises:
        DataError: there was none in the time.
    """
    ends = time.monotonic() + seconds
    for lines in ways.layers:
        if not lines.points:
            load_prover(lines.space)
            lines.begin(max(LEAST_SECONDS, ends - time.monotonic()))
