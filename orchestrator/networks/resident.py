"""Which tensors of a network stay on the chip, chosen together with all mappings.

A tensor that stays is in the shared buffer from when it is written until it is last read. What a
layer costs depends on which of its tensors stay and on the words that lie there: a machine of its
own (`costmodel.machines.resident`). Along the order of the network the least weighted sum over all
ways to choose is a shortest path whose states are the tensors that lie there; the rest is as in
`Jointly`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from costmodel.cascades.cascade import MOST_OPERATORS, Cascade
from costmodel.costs import Objective
from costmodel.exact.infeasible import why_infeasible
from costmodel.exact_any.choice import why_not_proven
from costmodel.exact_any.known import SLACK
from costmodel.exact_any.weighted import Line, Point
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.resident import resident_machine
from costmodel.map_space.map_space import MapSpace
from costmodel.networks.chains import Step
from costmodel.networks.links import changed_words
from costmodel.networks.moves import Moved, Words, changed_off_chip, changed_on_chip
from mapspace.errors import ConfigError
from orchestrator.networks.cascade_lines import CascadeLines
from orchestrator.networks.jointly import Choice, Jointly
from orchestrator.networks.layer_lines import NO_CODE, FixedLines, LayerLines, Weight
from orchestrator.networks.time_left import TimeLeft

LEAST_PART = Fraction(1, 2**400)
MOST_STATES = 64
"""Sets of tensors that lie on the chip at a time, beyond which ways are not listed."""

State = frozenset[int]

NO_MOVES = Moved(Fraction(0), 0)


class Way(NamedTuple):
    """How a step runs: what lies on the chip before and after, and its lines there."""

    before: State
    after: State
    stays: bool
    lines: LayerLines
    moves: Moved = NO_MOVES
    """What an operator without multiply-accumulates costs on what the step reads."""

    @property
    def kind(self) -> tuple[int, int]:
        """Whatever has the same costs the same, while both are there."""
        return id(self.lines), id(self.moves)

    def at(self, point: Point) -> Point:
        """What the step takes with a mapping, the operator included."""
        energy, cycles = self.moves
        return Point(point.energy + energy, point.cycles + cycles, point.code)

    def bound(self, weight: Weight) -> Fraction:
        """What the step's weighted sum is at least, of what was proven for the weight."""
        line = Line(weight, Fraction(0), None, False)
        return self.lines.bound_at(weight) + line.sum_of(Point(*self.moves, NO_CODE))


class _Stage(NamedTuple):
    """The ways of a step, for a shortest path.

    times: how often the step occurs; states: behind it; edges: of every way which state is before
    it, which behind it, and which of the costs it has.
    """

    times: int
    states: int
    edges: list[tuple[int, int, int]]


class Ways:
    """Every way in which the steps of a network can run.

    The first step of a cascade has the costs of all of it; the others then have none, and the state
    between them is the place of the last, made negative.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        machine: Accelerator,
        known: Ways | None = None,
        *,
        fused: bool = False,
        moves: bool = False,
        clock: TimeLeft | None = None,
    ) -> None:
        """Lists them.

        Args:
            steps: the layers in their order.
            machine: the whole machine.
            known: other ways on it; what is proven of their layers serves these, too.
            fused: whether steps in a row may be a cascade; beside them nothing stays.
            moves: whether operators between a step and its source are counted.
            clock: what the list is to be made in; None: however long it takes.

        Raises:
            ConfigError: a layer fits nowhere, admits no proof, or there are too many ways.
            DataError: there was no time for it.
        """
        self.steps, self._machine = tuple(steps), machine
        self._sources = {one.source for one in steps}
        self._fused, self._moves = fused, moves
        self._lines: dict[tuple[str, tuple[str, ...], int], LayerLines | None] = (
            {} if known is None else known._lines
        )
        self._cascades: dict[tuple[object, ...], CascadeLines | None] = (
            {} if known is None else known._cascades
        )
        # Of ten thousand steps a hash takes half a second, and each is asked for several times.
        self._hashes: list[str] = (
            [step.workload.hash for step in steps] if known is None else known._hashes
        )
        self._words: list[int] = [step.words for step in steps] if known is None else known._words
        self.ways: list[list[Way]] = []
        # One of all that cost the same, and the ways as numbers.
        self._costly: list[Way] = []
        self._stages: list[_Stage] = []
        kinds: dict[tuple[int, int], int] = {}
        # Equal moves are one: to compare fractions takes as long as all else.
        self._moved: dict[tuple[Words, bool], Moved] = {}
        self._free: dict[int, LayerLines] = {}
        states: dict[State, int] = {frozenset(): 0}
        for place, step in enumerate(steps):
            if clock is not None:
                clock.require(place, len(steps), "layers")
            ways = [way for state in states for way in self._of(place, state)]
            self.ways.append(ways)
            before, states, edges = states, {}, list[tuple[int, int, int]]()
            for way in ways:
                kind = kinds.setdefault(way.kind, len(kinds))
                if kind == len(self._costly):
                    self._costly.append(way)
                after = states.setdefault(way.after, len(states))
                edges.append((before[way.before], after, kind))
            self._stages.append(_Stage(step.count, len(states), edges))
            if len(states) > MOST_STATES:
                raise ConfigError(
                    f"{steps[place].workload.name}: more than {MOST_STATES} sets of tensors could "
                    "stay on the chip."
                )

    @property
    def layers(self) -> tuple[LayerLines, ...]:
        """What is proven of each distinct layer with each that can lie on the chip."""
        found = {id(way.lines): way.lines for way in self._costly}
        return tuple(found.values())

    def _of(self, place: int, before: State) -> Iterator[Way]:
        step = self.steps[place]
        if is_within(before):
            after = frozenset[int]() if -place in before else before
            yield Way(before, after, False, self._counted(place))
            return
        used = step.until > place and place in self._sources
        for stays in (False, True) if used else (False,):
            lying = before | {place} if stays else before
            roles = ("input",) if step.source in before else ()
            roles = (*roles, "output") if stays else roles
            words = sum(self._words[one] for one in lying)
            lines = self._with(place, roles, words)
            if lines is not None:
                after = frozenset(one for one in lying if self.steps[one].until > place)
                yield Way(before, after, stays, lines, self._between(place, "input" in roles))
        # Last, so that of equal costs those are taken where tensors stay whole.
        if self._fused and not before:
            for last, fused in self._cascades_at(place):
                yield Way(before, frozenset({-last}), False, fused)

    def _counted(self, place: int) -> LayerLines:
        """Of a step whose costs are counted at the first of its cascade."""
        if place not in self._free:
            space = MapSpace(self.steps[place].workload, self._machine)
            self._free[place] = FixedLines(space, NO_MOVES)
        return self._free[place]

    def _between(self, place: int, on_chip: bool) -> Moved:
        """What the operator between a step and its source costs."""
        step = self.steps[place]
        if not self._moves or step.operator is None or step.source is None:
            return NO_MOVES
        source = self.steps[step.source].workload
        words = changed_words(step.operator, source, step.workload)
        if (words, on_chip) not in self._moved:
            change = changed_on_chip if on_chip else changed_off_chip
            self._moved[words, on_chip] = change(self._machine, *words)
        return self._moved[words, on_chip]

    def _cascades_at(self, place: int) -> Iterator[tuple[int, CascadeLines]]:
        """Cascades that begin at a step, each with its last one: each alone reads the one before.

        Of steps that share no axis nothing is said: what lies between stays whole, as elsewhere.
        """
        for last in range(place + 1, min(place + MOST_OPERATORS, len(self.steps))):
            if self.steps[last - 1].until != last or self.steps[last].source != last - 1:
                return
            steps = self.steps[place : last + 1]
            between = tuple(step.operator for step in steps[1:])
            key = (tuple(self._hashes[place : last + 1]), between, self._moves)
            if key not in self._cascades:
                operators = tuple(step.workload for step in steps)
                cascade = Cascade(operators, between, self._moves)
                lines = None
                if len(operators) == 2 or cascade.shared:
                    lines = CascadeLines(cascade, self._machine)
                self._cascades[key] = lines if lines is not None and lines.runs else None
            found = self._cascades[key]
            if found is not None:
                yield last, found

    def _with(self, place: int, roles: tuple[str, ...], words: int) -> LayerLines | None:
        work = self.steps[place].workload
        key = (self._hashes[place], roles, words)
        if key not in self._lines:
            machine = resident_machine(self._machine, roles, words)
            space = None if machine is None else MapSpace(work, machine)
            why = None if space is None else why_infeasible(space) or why_not_proven(space)
            if why is not None and not words:
                raise ConfigError(f"{work.name}: {why}")
            fits = space is not None and why is None
            self._lines[key] = LayerLines(space, 1) if fits and space is not None else None
        return self._lines[key]

    def work(self) -> Moved:
        """What the steps take in whatever way: their multiply-accumulates, pJ and cycles."""
        elements = self._machine.processing_elements
        macs = [(step.count, step.workload.macs) for step in self.steps]
        energy = sum(count * one for count, one in macs) * self._machine.mac_energy_pj * (1 - SLACK)
        return Moved(Fraction(energy), sum(count * (one // elements) for count, one in macs))

    def shortest(self, cost: Callable[[Way], Fraction | None]) -> tuple[Fraction, list[Way]]:
        """The least sum of counts x costs, and the ways that have it.

        Args:
            cost: of a way; None: it is not to be taken. There is a path without such ways.
        """
        costs = [cost(way) for way in self._costly]
        # Whole numbers of one unit add up ten times as fast as fractions.
        unit = math.lcm(*(one.denominator for one in costs if one is not None))
        whole = [None if c is None else c.numerator * (unit // c.denominator) for c in costs]
        best: list[int | None] = [0]
        # Of each step and what lies on the chip after it, the best way there.
        came: list[list[int]] = []
        for times, states, edges in self._stages:
            further: list[int | None] = [None] * states
            by = [0] * states
            for number, (before, after, kind) in enumerate(edges):
                so_far, more, least = best[before], whole[kind], further[after]
                if so_far is None or more is None:
                    continue
                total = so_far + times * more
                if least is None or total < least:
                    further[after], by[after] = total, number
            best = further
            came.append(by)
        # Behind the last step nothing lies on the chip.
        (total_of_all,), state = best, 0
        assert total_of_all is not None  # there is a path
        found, path = Fraction(total_of_all, unit), []
        for stage, by, ways in zip(
            reversed(self._stages), reversed(came), reversed(self.ways), strict=True
        ):
            path.append(ways[by[state]])
            state = stage.edges[by[state]][0]
        return found, path[::-1]

    def least_of(self, weight: Weight) -> Fraction:
        """What the weighted sum of the steps is at least, of what was proven for the weight."""
        return self.shortest(lambda way: way.bound(weight))[0]


def is_within(state: State) -> bool:
    """Whether the step behind a state belongs to a cascade that began before."""
    return any(one < 0 for one in state)


class Resident(Jointly):
    """Finds mappings, and tensors that stay, of the least objective, and proves that."""

    def __init__(
        self, ways: Ways, objective: Objective, fixed: Moved = NO_MOVES, **options: Any
    ) -> None:
        """As `Jointly`, of every layer with each that can lie on the chip.

        Args:
            ways: how the network can run.
            objective: as of `Jointly`.
            fixed: what the network costs beside, however it runs.
            options: as of `Jointly`.
        """
        self._ways, self._fixed = ways, fixed
        self.path: list[Way] = []
        self.steps: tuple[Step, ...] = ways.steps
        super().__init__(ways.layers, objective, **options)

    def sums(self, choice: Choice) -> tuple[Fraction, int]:
        """Energy (pJ) and cycles of a mapping per step."""
        # Equal steps have one point, and fractions add up slowly.
        points = {id(point): point for point in choice}
        times = Counter[int]()
        for step, point in zip(self._ways.steps, choice, strict=True):
            times[id(point)] += step.count
        taken = [(count, points[one]) for one, count in times.items()]
        energy = sum((count * point.energy for count, point in taken), self._fixed.energy)
        return energy, self._fixed.cycles + sum(count * point.cycles for count, point in taken)

    def _shortest(self, weight: Weight) -> tuple[list[Way], Choice]:
        """The best ways and mappings known for a weight."""
        line = Line(weight, Fraction(0), None, False)

        known: dict[tuple[int, int], Point] = {}

        def cost(way: Way) -> Fraction | None:
            point = way.lines.least(weight)
            if point is None:  # the time did not suffice to begin with it
                return None
            known[way.kind] = point = way.at(point)
            tie = _tie(weight, point) if self.objective in ("energy", "latency") else 0
            return line.sum_of(point) + tie

        _, path = self._ways.shortest(cost)
        return path, tuple(known[way.kind] for way in path)

    def choose(self, weight: Weight) -> Choice:
        """The best point known for a weight, per step."""
        return self._shortest(weight)[1]

    def _consider(self, weight: Weight) -> Choice:
        path, choice = self._shortest(weight)
        if self._take_best(choice):
            self.path = path
        return choice

    def _untied(self) -> LayerLines | None:
        weight = self._alone
        line = Line(weight, Fraction(0), None, False)

        def cost(way: Way) -> Fraction:
            """At least: what is not settled may be equal and take none of the other."""
            point = way.lines.least(weight)
            if point is None or not way.lines.is_settled(weight):
                return way.bound(weight)
            return line.sum_of(way.at(point)) + _tie(weight, way.at(point))

        _, path = self._ways.shortest(cost)
        return next((way.lines for way in path if not way.lines.is_settled(weight)), None)

    def _loosest(self, weight: Weight) -> LayerLines | None:
        _, path = self._ways.shortest(lambda way: way.bound(weight))
        # Of equal layers the one that occurs most often at a time leaves most.
        most: dict[int, tuple[int, LayerLines]] = {}
        for step, way in zip(self._ways.steps, path, strict=True):
            if step.count > most.get(id(way.lines), (0, None))[0]:
                most[id(way.lines)] = step.count, way.lines
        left = [
            (count * lines.looseness(weight), lines)
            for count, lines in most.values()
            if not lines.is_proven(weight)
        ]
        return max(left, key=lambda one: one[0])[1] if left else None

    def _least_of(self, weight: Weight) -> Fraction:
        line = Line(weight, Fraction(0), None, False)
        return self._ways.least_of(weight) + line.sum_of(Point(*self._fixed, NO_CODE))


def _tie(weight: Weight, point: Point) -> Fraction:
    """What decides between equal sums: so small a part of it that no other sum is exceeded."""
    if weight is None:
        return point.energy * LEAST_PART
    return point.cycles * LEAST_PART if weight == 0 else Fraction(0)
