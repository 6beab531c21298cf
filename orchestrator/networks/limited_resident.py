"""What stays on the chip and all mappings under a limit of the whole network.

The lines are those of `Resident`, the rest is as in `Limited`: along the network's order the excess
of a way and a mapping over what a line says is known, so all choices that can be better than the
best known are looked at. Steps between which a tensor can lie on the chip are a *segment*; its
occurrences run one after another and each may run differently.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.exact_any.weighted import Line, Point
from costmodel.networks.chains import Step
from costmodel.networks.moves import Moved
from orchestrator.networks.cascade_lines import CascadeLines
from orchestrator.networks.jointly import Choice, Optimum
from orchestrator.networks.layer_lines import FixedLines, Weight
from orchestrator.networks.limited import (
    MOST_COMBINATIONS,
    Chosen,
    Limited,
    TooManyError,
    undominated,
)
from orchestrator.networks.lines import Limit
from orchestrator.networks.resident import NO_MOVES, Resident, State, Way, Ways

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ChosenWays(Chosen):
    """Mappings of a network whose segments may be there several times, each run in its own way.

    Attributes:
        steps: in their order, of every segment as often as it runs differently.
        path: how each runs.
    """

    steps: tuple[Step, ...]
    path: tuple[Way, ...]


class _Option(NamedTuple):
    """A way to run a step: its mappings' energies, cycles and excesses, `[P]` each."""

    way: Way
    energy: Floats
    cycles: Floats
    excess: Floats


class _Reached(NamedTuple):
    """Choices that reach a state, `[S]` each, and where they come from."""

    energy: Floats
    cycles: Floats
    excess: Floats
    option: Ints
    point: Ints
    before: Ints


class LimitedResident(Limited, Resident):
    """Finds mappings, and tensors that stay, of the least energy or cycles within a limit."""

    _own: ChosenWays | None

    def __init__(self, ways: Ways, limit: Limit, fixed: Moved = NO_MOVES, **options: Any) -> None:
        """Begins nothing yet.

        Args:
            ways: how the network can run.
            limit: as of `Limited`.
            fixed: what the network costs beside, however it runs.
            options: as of `Jointly`.
        """
        self._begin(limit)
        self._options: list[list[_Option]] = []
        self._whole: set[int] = set()
        Resident.__init__(self, ways, self._objective_of(limit), fixed, **options)

    def result(self) -> Optimum:
        """What is known now; `steps` and `path` say how it runs.

        Raises:
            DataError: no choice within the limit.
        """
        found = super().result()
        assert self._own is not None  # else there is no result
        self.steps, self.path = self._own.steps, list(self._own.path)
        return found

    def _consider(self, weight: Weight) -> Choice:
        path, choice = self._shortest(weight)
        steps = self._ways.steps
        self._take(ChosenWays(self.layers, choice, *self.sums(choice), steps, tuple(path)))
        return choice

    def _add_fronts(self, weight: Weight) -> None:
        """Of each way that a choice better than the best known may have."""
        most = None if self._own is None else self._slack(weight, self._value(self._own))
        everything = self._excesses(weight)
        for number, (way, least) in enumerate(everything):
            lines = way.lines
            if isinstance(lines, FixedLines) or (most is not None and float(least) > most):
                continue
            if isinstance(lines, CascadeLines):
                slack = None if most is None else Fraction(most) - least
                lines.add_fronts(weight, slack, self._pause, self._ends)
            elif id(lines) not in self._whole:
                lines.add_front(self._pause)
                self._whole.add(id(lines))
            self._say(f"fronts: {number + 1} of {len(everything)} ways")

    def _segments(self) -> Iterator[range]:
        """Places of steps between which tensors can lie on the chip."""
        steps, first, last = self._ways.steps, 0, 0
        for place, step in enumerate(steps):
            last = max(last, step.until)
            if last == place:
                yield range(first, place + 1)
                first = place + 1

    def _reduced(self, weight: Weight) -> list[list[tuple[Way, Fraction]]]:
        """Per step its ways, each with what taking it adds to the least of the segment's rest."""
        found: list[list[tuple[Way, Fraction]]] = [[] for _ in self._ways.steps]
        for places in self._segments():
            rest = {frozenset[int](): Fraction(0)}
            for place in reversed(places):
                ways = [way for way in self._ways.ways[place] if way.after in rest]
                sums = [way.bound(weight) + rest[way.after] for way in ways]
                rest = {}
                for way, least in zip(ways, sums, strict=True):
                    rest[way.before] = min(least, rest.get(way.before, least))
                pairs = zip(ways, sums, strict=True)
                found[place] = [(way, least - rest[way.before]) for way, least in pairs]
        return found

    def _excesses(self, weight: Weight) -> list[tuple[Way, Fraction]]:
        """Every way with what a choice with it has above the line at least."""
        found, reduced = [], self._reduced(weight)
        for places in self._segments():
            so_far = {frozenset[int](): Fraction(0)}
            for place in places:
                further: dict[State, Fraction] = {}
                for way, more in reduced[place]:
                    if way.before in so_far:
                        least = so_far[way.before] + more
                        further[way.after] = min(least, further.get(way.after, least))
                        found.append((way, least))
                so_far = further
        return found

    def _combine(self, weight: Weight) -> None:
        line = Line(weight, Fraction(0), None, False)
        self._options = []
        for ways in self._reduced(weight):
            options = []
            for way, least in ways:
                base = way.bound(weight)
                points = [way.at(point) for point in way.lines.points]
                over = [float(least + line.sum_of(point) - base) for point in points]
                options.append(
                    _Option(
                        way,
                        np.array([float(point.energy) for point in points]),
                        np.array([float(point.cycles) for point in points]),
                        np.array(over),
                    )
                )
            self._options.append(options)
        super()._combine(weight)

    def _within(self, weight: Weight, slack: float) -> Chosen | None:
        start = np.array([float(self._fixed.energy)]), np.array([float(self._fixed.cycles)])
        none = np.zeros(1, np.int64)
        lists = {frozenset[int](): _Reached(*start, np.zeros(1), none, none, none)}
        stages: list[tuple[int, dict[State, _Reached]]] = []
        for places in self._segments():
            for _ in range(self._ways.steps[places[0]].count):
                for place in places:
                    lists = self._further(place, lists, slack)
                    stages.append((place, lists))
        end = lists.get(frozenset())
        if end is None:
            return None
        # Fewer cycles take more energy: the last that fits has the least energy, and the other way.
        indices = range(end.energy.size)
        for index in reversed(indices) if self.objective == "energy" else indices:
            found = self._gathered(stages, index)
            if self.limit.admits(found.energy, found.cycles):
                return found
        return None

    def _further(
        self, place: int, lists: dict[State, _Reached], slack: float
    ) -> dict[State, _Reached]:
        """The states behind a step, and what reaches each within a slack that nothing beats."""
        several: dict[State, list[_Reached]] = {}
        for number, option in enumerate(self._options[place]):
            before = lists.get(option.way.before)
            if before is None:
                continue
            if before.energy.size * option.energy.size > MOST_COMBINATIONS:
                raise TooManyError
            excess = (before.excess[:, None] + option.excess).ravel()
            kept = np.flatnonzero(excess <= slack * (1 + 1e-9))
            index, point = np.divmod(kept, option.energy.size)
            several.setdefault(option.way.after, []).append(
                _Reached(
                    before.energy[index] + option.energy[point],
                    before.cycles[index] + option.cycles[point],
                    excess[kept],
                    np.full(kept.size, number),
                    point,
                    index,
                )
            )
        found = {}
        for state, reached in several.items():
            columns: list[npt.NDArray[Any]] = [
                np.concatenate(column) for column in zip(*reached, strict=True)
            ]
            best = undominated(columns[0], columns[1])
            if best.size:
                found[state] = _Reached(*(column[best] for column in columns))
        return found

    def _gathered(self, stages: list[tuple[int, dict[State, _Reached]]], index: int) -> ChosenWays:
        """The choice that ends at an index of the last stage; equal occurrences are one."""
        taken: list[tuple[int, int, int]] = []
        state: State = frozenset()
        for place, lists in reversed(stages):
            reached = lists[state]
            option, point = int(reached.option[index]), int(reached.point[index])
            taken.append((place, option, point))
            index, state = int(reached.before[index]), self._options[place][option].way.before
        taken.reverse()
        steps: list[Step] = []
        path: list[Way] = []
        choice: list[Point] = []
        rest = iter(taken)
        for places in self._segments():
            count = self._ways.steps[places[0]].count
            runs = Counter(tuple(itertools.islice(rest, len(places))) for _ in range(count))
            for run, times in sorted(runs.items()):
                shift = len(steps) - places[0]
                for place, option, point in run:
                    way = self._options[place][option].way
                    steps.append(_moved_on(self._ways.steps[place], shift, times))
                    path.append(_shifted(way, shift))
                    choice.append(way.at(way.lines.points[point]))
        pairs = list(zip(steps, choice, strict=True))
        energy = sum((step.count * point.energy for step, point in pairs), self._fixed.energy)
        cycles = self._fixed.cycles + sum(step.count * point.cycles for step, point in pairs)
        return ChosenWays(self.layers, tuple(choice), energy, cycles, tuple(steps), tuple(path))


def _moved_on(step: Step, shift: int, count: int) -> Step:
    """A step so many places further on."""
    source = None if step.source is None else step.source + shift
    return replace(step, count=count, source=source, until=step.until + shift)


def _shifted(way: Way, shift: int) -> Way:
    """A way so many places further on; the last step of a cascade is a negative place."""
    before, after = (
        frozenset(one + shift if one >= 0 else one - shift for one in state)
        for state in (way.before, way.after)
    )
    return way._replace(before=before, after=after)
