"""The least energy of a network within so many cycles, and the fewest cycles within an energy.

Lines bound a choice under a limit, too, but not tightly: the best may lie above the lower convex
hull of what a network can have. What the lines leave open is closed along the layers' proven
fronts. What a mapping costs above the least of a line is its excess; the sum of excesses of a
choice that is better than the best known is below a slack, so few combinations are looked at.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.costs import Objective
from costmodel.exact_any.weighted import Line
from mapspace.errors import ConfigError, DataError
from orchestrator.networks.jointly import ROUNDING, Choice, Jointly, Optimum
from orchestrator.networks.layer_lines import FixedLines, LayerLines, Weight
from orchestrator.networks.lines import Limit, under_limit

MOST_COMBINATIONS = 4_000_000
"""Of choices looked at together; where there are more, what the lines leave stays open."""

FIRST_SLACK = 1e-6
"""Share of the objective by which excesses may first sum up; it grows until it suffices."""

Floats = npt.NDArray[np.float64]


class _TimeIsOutError(Exception):
    """Ends the proof of a front."""


class TooManyError(Exception):
    """More combinations than are looked at."""


class _Stage(NamedTuple):
    """One occurrence of a layer: the choices that reach it, `[S]` each, and where from."""

    layer: int
    energy: Floats
    cycles: Floats
    before: npt.NDArray[np.int64]
    point: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chosen:
    """Mappings of a whole network.

    Attributes:
        layers: what they are of; equal ones may be there with several.
        choice: a mapping per layer.
        energy: of the network, pJ.
        cycles: likewise.
    """

    layers: tuple[LayerLines, ...]
    choice: Choice
    energy: Fraction
    cycles: int


class Limited(Jointly):
    """Finds the mappings of the least energy, or the fewest cycles, within a network's limit."""

    def __init__(self, layers: Sequence[LayerLines], limit: Limit, **options: Any) -> None:
        """Begins nothing yet.

        Args:
            layers: as of `Jointly`.
            limit: of cycles, for the least energy, or of energy, for the fewest cycles.
            options: as of `Jointly`.
        """
        self._begin(limit)
        super().__init__(layers, self._objective_of(limit), **options)

    def _begin(self, limit: Limit) -> None:
        self.limit = limit
        self._own: Chosen | None = None
        self._least: Fraction | None = None

    @staticmethod
    def _objective_of(limit: Limit) -> Objective:
        return "latency" if limit.cycles is None else "energy"

    def _consider(self, weight: Weight) -> Choice:
        choice = self.choose(weight)
        self._take(Chosen(self.layers, choice, *self.sums(choice)))
        return choice

    def _take(self, chosen: Chosen) -> None:
        """Keeps the best that is within the limit."""
        if not self.limit.admits(chosen.energy, chosen.cycles):
            return
        own = self._own
        if own is None or self._beats((chosen.energy, chosen.cycles), (own.energy, own.cycles)):
            self._own = chosen

    def _value(self, chosen: Chosen) -> Fraction:
        return chosen.energy if self.objective == "energy" else Fraction(chosen.cycles)

    def run(self) -> Optimum:
        """Lines as far as they help, then fronts.

        Raises:
            ConfigError: no mappings are within the limit.
            DataError: none were found in the time.
        """
        for weight in (Fraction(0), None):
            self._cut(weight, self._gap, self._shared(4))
        self._refuse()
        while not self._ended:
            further = self._straddling()
            if further is None:
                break
            self._cut(further, self._gap, self._shared(2))
        while self._open() and not self._ended:
            tight = under_limit(self.limit, tuple(self._cuts.values()))[1].weight
            if not self.is_open(tight):
                break
            self._cut(tight, self._gap, self._shared(2))
        if self._open() and not self._ended:
            self._along_fronts()
        least = self._cuts[self._alone].bound
        if self._own is not None and self._value(self._own) <= least * (1 + ROUNDING):
            # The limit binds nothing; else no other choice is equal, or fronts had it.
            self._break_ties()
        return self.result()

    def result(self) -> Optimum:
        """What is known now.

        Raises:
            DataError: no choice within the limit.
        """
        if self._own is None:
            raise DataError(f"no mappings within {self.limit} were found; expected more seconds.")
        own, bound = self._own, self._bound()
        value, least = self._value(own), self._least is not None
        return Optimum(
            self.objective,
            own.layers,
            own.choice,
            tuple(self._cuts.values()),
            own.energy,
            own.cycles,
            value if least else min(value, bound),
            time.monotonic() - self._started,
            self.limit,
            fronts=least and value > bound,
        )

    def _bound(self) -> Fraction:
        return under_limit(self.limit, tuple(self._cuts.values()))[0]

    def _open(self) -> bool:
        most = self._bound() * (1 + Fraction(self._gap))
        return self._own is None or self._value(self._own) > most

    def _refuse(self) -> None:
        """Says where no mappings are within the limit, and what would be."""
        wanted: Weight = None if self.objective == "energy" else Fraction(0)
        least = self._cuts[wanted].bound
        if self._own is None and least > self.limit.most * (1 + ROUNDING):
            raise ConfigError(
                f"{self.limit}: no mappings of the network take less than "
                f"{Limit.of(self.objective, least)}."
            )

    def _straddling(self) -> Weight:
        """The weight of the line through the two known corners beside the limit; None at the end.

        Its line is either new, or says that there is no corner between the two.
        """
        if not self._open():
            return None
        within, beyond = None, None
        for weight in self._cuts:
            energy, cycles = self.sums(self.choose(weight))
            at = (cycles, energy)
            if self.limit.admits(energy, cycles):
                if within is None or (at > within) == (self.objective == "energy"):
                    within = at
            elif beyond is None or (at < beyond) == (self.objective == "energy"):
                beyond = at
        if within is None or beyond is None or within[0] == beyond[0]:
            return None
        weight = self._rounded((within[1] - beyond[1]) / (beyond[0] - within[0]))
        return None if weight <= 0 or weight in self._cuts else weight

    def _along_fronts(self) -> None:
        """Closes what lines leave by every combination that can be better; as time allows."""
        cut = under_limit(self.limit, tuple(self._cuts.values()))[1]
        weight = cut.weight
        try:
            self._combine(weight)  # of the mappings known: this alone proves nothing
            if self._open():
                self._add_fronts(weight)
                self._combine(weight)
                self._least = None if self._own is None else self._value(self._own)
        except (_TimeIsOutError, TooManyError):
            return

    def _add_fronts(self, weight: Weight) -> None:
        """Of each layer that a choice better than the best known may have: all."""
        for number, layer in enumerate(self.layers):
            if not isinstance(layer, FixedLines):
                layer.add_front(self._pause)
            self._say(f"fronts: {number + 1} of {len(self.layers)} layers")

    def _pause(self, text: str) -> None:
        """Ends the proof of a front where the time is out."""
        if self._ended:
            raise _TimeIsOutError

    def _combine(self, weight: Weight) -> None:
        """The best choice within the limit, by slacks that grow until one suffices."""
        base = float(self._cuts[weight].bound)
        slack = FIRST_SLACK * max(base, 1.0)
        while True:
            if self._ended:
                raise _TimeIsOutError
            found = self._within(weight, slack)
            if found is not None:
                self._take(found)
            if self._own is not None and self._slack(weight, self._value(self._own)) <= slack:
                return
            if self._own is None and math.isinf(slack):
                return
            slack = slack * 8 if slack < 1e3 * max(base, 1.0) else math.inf

    def _slack(self, weight: Weight, value: Fraction) -> float:
        """What excesses sum up to at most in a choice that is better than a value."""
        bound = self._cuts[weight].bound
        if weight is None:
            return float(value - bound)
        if self.objective == "energy":
            return float(value + weight * self.limit.most - bound)
        return float(self.limit.most + weight * value - bound)

    def _within(self, weight: Weight, slack: float) -> Chosen | None:
        """The best choice whose excesses sum up to no more than a slack; None without any."""
        stages: list[_Stage] = []
        energy, cycles, excess = np.zeros(1), np.zeros(1), np.zeros(1)
        for number, layer in enumerate(self.layers):
            line, bound = Line(weight, Fraction(0), None, False), layer.bound_at(weight)
            points = layer.points
            over = np.array([float(line.sum_of(p) - bound) for p in points])
            e = np.array([float(p.energy) for p in points])
            c = np.array([float(p.cycles) for p in points])
            for _ in range(layer.count):
                if energy.size * e.size > MOST_COMBINATIONS:
                    raise TooManyError
                sums = (excess[:, None] + over).ravel()
                kept = np.flatnonzero(sums <= slack * (1 + 1e-9))
                energies = (energy[:, None] + e).ravel()[kept]
                spent = (cycles[:, None] + c).ravel()[kept]
                order = undominated(energies, spent)
                energy, cycles, excess = energies[order], spent[order], sums[kept][order]
                before, point = np.divmod(kept[order], e.size)
                stages.append(_Stage(number, energy, cycles, before, point))
        # Fewer cycles take more energy: the last that fits has the least energy, and the other way.
        places = range(energy.size)
        for place in reversed(places) if self.objective == "energy" else places:
            layers, choice = self._choice_of(stages, place)
            found = Chosen(layers, choice, *self.totals(layers, choice))
            if self.limit.admits(found.energy, found.cycles):
                return found
        return None

    def _choice_of(self, stages: list[_Stage], place: int) -> tuple[tuple[LayerLines, ...], Choice]:
        """The choice that ends at a place of the last stage; equal occurrences are one layer."""
        used: list[Counter[int]] = [Counter() for _ in self.layers]
        for stage in reversed(stages):
            used[stage.layer][int(stage.point[place])] += 1
            place = int(stage.before[place])
        layers, choice = [], []
        for layer, counts in zip(self.layers, used, strict=True):
            for index, count in sorted(counts.items()):
                again = copy(layer)  # shares what is proven
                again.count = count
                layers.append(again)
                choice.append(layer.points[index])
        return tuple(layers), tuple(choice)


def undominated(energies: Floats, cycles: Floats) -> npt.NDArray[np.intp]:
    """Places of the choices that no other beats in energy and cycles, by their cycles."""
    order = np.lexsort((energies, cycles))
    least = np.minimum.accumulate(energies[order])
    first = np.ones(order.size, bool)
    first[1:] = least[1:] < least[:-1]
    return order[first]
