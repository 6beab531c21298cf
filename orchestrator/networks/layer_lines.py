"""What is proven of one layer: the least energy + weight x cycles, for several weights.

Proofs go on where they were stopped, and lines of other weights bound a weight between them: the
least weighted sum is a concave function of the weight, and rises by the fewest cycles at least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from costmodel.exact_any.choice import load_prover
from costmodel.exact_any.front import prove_front
from costmodel.exact_any.known import SLACK
from costmodel.exact_any.weighted import LeastSum, Line, Point, point_of
from costmodel.machines.bounds import floor
from costmodel.map_space.map_space import MapSpace
from costmodel.networks.moves import Moved
from costmodel.space import Codes
from mapspace.errors import DataError
from orchestrator.networks.lines import NEAR
from orchestrator.networks.time_left import LEAST_SECONDS, TimeLeft

FIRST_DRAWS = 1024

OPEN_PROOFS = 3
"""Proofs of a layer, for as many weights, that can go on; of others what they found stays."""

SIGNIFICANT = 100
"""Binary digits of a bound that has too many: what it loses is far below rounding."""

SLICE = 0.25
"""Seconds that a proof goes on for at least, before another one is more of use."""

HARDLY = Fraction(1, 10**9)
"""Share of the least energy that all cycles together are weighed with to break ties."""

Weight = Fraction | None

NO_CODE = np.zeros(0, np.int32)


@dataclass
class LayerLines:
    """What is proven of one layer.

    Attributes:
        space: its map space.
        count: how often the network has it.
        lines: what was proven, by weight.
        points: mappings known.
    """

    space: MapSpace
    count: int
    lines: dict[Weight, Line] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    _proofs: dict[Weight, LeastSum] = field(default_factory=dict)
    _spent: dict[Weight, float] = field(default_factory=dict)
    _settled: set[Weight] = field(default_factory=set)

    @cached_property
    def floor(self) -> Moved:
        """What every mapping takes, before anything is proven."""
        least = floor(self.space.workload, self.space.accelerator)
        return Moved(Fraction(least.energy_pj * (1 - SLACK)), int(least.latency_cycles))

    def begin(self, seconds: float | None = None) -> None:
        """Looks for a first mapping: among random ones, else by a proof.

        Raises:
            ConfigError: the layer has no feasible mapping.
            DataError: none was found in time.
        """
        draws = self.space.sample(np.random.default_rng(0), FIRST_DRAWS)
        fitting = np.flatnonzero(self.space.feasible(draws))
        if fitting.size:
            self.offer(draws[fitting[0]])
            return
        line = self.prove(Fraction(0), seconds)
        if line.point is None:
            name = f"{self.space.workload.name} on {self.space.accelerator.name}"
            raise DataError(f"No mapping of {name} was found in {seconds:g} s.")

    def offer(self, code: Codes) -> None:
        """Takes a feasible mapping `[D]` found elsewhere."""
        self._add(point_of(self.space, code))

    def _add(self, point: Point) -> None:
        if all((one.energy, one.cycles) != (point.energy, point.cycles) for one in self.points):
            self.points.append(point)

    def least(self, weight: Weight) -> Point | None:
        """The mapping known of the least weighted sum."""
        line = Line(weight, Fraction(0), None, False)
        best = min(
            self.points,
            key=lambda point: (line.sum_of(point), point.energy, point.cycles),
            default=None,
        )
        if weight != 0 or best is None:
            return best
        near = [point for point in self.points if point.energy <= best.energy * (1 + NEAR)]
        return min(near, key=lambda point: (point.cycles, point.energy))

    def is_settled(self, weight: Weight) -> bool:
        """Whether the mapping known of the least sum is the best of equal ones, too."""
        return weight in self._settled

    def settle(self, weight: Weight, seconds: float) -> None:
        """Proves the least energy, or the fewest cycles, to the end, where ties are broken.

        Proofs break those of cycles; of energy a weight that is hardly any does.

        Args:
            weight: 0 or none.
            seconds: the most that it may take.
        """
        line = self.go_on(weight, seconds)
        if not line.proven:
            return
        self._settled.add(weight)
        if weight is not None and line.point is not None:
            hardly = line.bound * HARDLY / line.point.cycles
            self.prove(round(hardly * 2**80) / Fraction(2**80), min(seconds, SLICE))

    def is_proven(self, weight: Weight) -> bool:
        """Whether the least weighted sum is known."""
        return weight in self.lines and self.lines[weight].proven

    @property
    def is_one_point(self) -> bool:
        """Whether one mapping known has the fewest cycles and the least energy, both proven."""
        if not (self.is_proven(None) and self.is_proven(Fraction(0))):
            return False
        cycles, energy = (self.lines[weight].bound for weight in (None, Fraction(0)))
        return any(one.cycles <= cycles and one.energy <= energy for one in self.points)

    def looseness(self, weight: Weight) -> Fraction:
        """How far the best mapping known, if any, is above what is certain of a weighted sum."""
        point = self.least(weight)
        if point is None:
            return Fraction(0)
        found = Line(weight, Fraction(0), None, False).sum_of(point) - self.bound_at(weight)
        return max(Fraction(0), found)

    def go_on(self, weight: Weight, most: float = math.inf) -> Line:
        """Proves for a while, the longer the more it has taken so far.

        Args:
            weight: of the sum.
            most: seconds that it may take at most.
        """
        seconds = min(most, max(SLICE, self._spent.get(weight, 0.0) / 2))
        self._spent[weight] = self._spent.get(weight, 0.0) + seconds
        return self.prove(weight, seconds)

    def prove(self, weight: Weight, seconds: float | None) -> Line:
        """What is certain of a weighted sum; read off two lines through one mapping if it can."""
        done = self.lines.get(weight)
        if done is not None and done.proven:
            return done
        line = self._between(weight) or self._look(weight, seconds)
        if line.point is not None:
            self._add(line.point)
        if not line.proven:
            line = line._replace(bound=max(line.bound, self.bound_at(weight)))
        self.lines[weight] = line
        return line

    def add_front(self, say: Callable[[str], None]) -> None:
        """Takes all mappings that no other beats in energy and cycles at once.

        Args:
            say: called now and then; it may raise to end this.
        """
        if self.is_one_point:
            return
        for point in prove_front(self.space, known=[one.code for one in self.points], say=say):
            self.offer(point.code)

    def _look(self, weight: Weight, seconds: float | None) -> Line:
        """Proves the least weighted sum, or gets as far as the time allows."""
        proof = self._proofs.pop(weight, None) or LeastSum(self.space, weight, self.points)
        line = proof.run(seconds)
        if not line.proven:
            self._proofs[weight] = proof
            while len(self._proofs) > OPEN_PROOFS:
                self.stop(next(iter(self._proofs)))
        return line

    def stop(self, weight: Weight) -> None:
        """Lets go of a proof; what it found stays."""
        self._proofs.pop(weight, None)

    def _between(self, weight: Weight) -> Line | None:
        """A mapping that is the best for a lesser and for a greater weight is so in between."""
        if weight is None:
            return None
        shared = None
        for point in self.points:
            weights = [
                other
                for other, line in self.lines.items()
                if other is not None and line.proven and line.bound == line.sum_of(point)
            ]
            if any(w < weight for w in weights) and any(w > weight for w in weights):
                shared = point
        if shared is None:
            return None
        return Line(weight, shared.energy + weight * shared.cycles, shared, True)

    def bound_at(self, weight: Weight, fewest: Fraction = Fraction(0)) -> Fraction:
        """What is certain of a weighted sum, by its own line, those of other weights or the floor.

        Args:
            weight: of the sum.
            fewest: cycles that all mappings take at least, where that is known from elsewhere.
        """
        own = self.lines.get(weight)
        if own is not None and own.proven:
            return own.bound
        energy, cycles = self.floor
        fewest = max(fewest, Fraction(cycles))
        if None in self.lines:
            fewest = max(fewest, self.lines[None].bound)
        found = fewest if weight is None else energy + weight * fewest
        if own is not None:
            found = max(found, own.bound)
        if weight is None:
            return found
        known = [(other, line.bound) for other, line in self.lines.items() if other is not None]
        below = [one for one in known if one[0] < weight] or [(Fraction(0), Fraction(0))]
        between = max(bound + (weight - low) * fewest for low, bound in below)
        above = [one for one in known if one[0] > weight]
        if above:
            low, bound = max(below)
            high, other = min(above)
            share = (weight - low) / (high - low)
            between = max(between, bound + (other - bound) * share)
        return max(found, rounded_down(between))


def begin_all(layers: Sequence[LayerLines], clock: TimeLeft, *, needed: bool = True) -> None:
    """Finds a first mapping of every layer that has none.

    Args:
        layers: those.
        clock: what it may take.
        needed: whether there is no answer without all of them; else those that the time does not
            suffice for go without.

    Raises:
        ConfigError: a layer has no feasible mapping.
        DataError: there was none in the time.
    """
    for place, lines in enumerate(layers):
        if not needed and clock.over:
            return
        clock.require(place, len(layers))
        if not lines.points:
            load_prover(lines.space)
            try:
                lines.begin(max(LEAST_SECONDS, clock.left))
            except DataError:
                if needed:
                    raise


class FixedLines(LayerLines):
    """What costs the same whatever is chosen: there is one point, and it is proven."""

    def __init__(self, space: MapSpace, moved: Moved) -> None:
        """A cost.

        Args:
            space: of a layer that it belongs to; nothing is looked for in it.
            moved: what it costs.
        """
        super().__init__(space, 1)
        self.points = [Point(moved.energy, moved.cycles, NO_CODE)]

    def prove(self, weight: Weight, seconds: float | None) -> Line:
        """The sum of its point."""
        line = Line(weight, Fraction(0), self.points[0], True)
        self.lines[weight] = line._replace(bound=line.sum_of(self.points[0]))
        return self.lines[weight]

    def is_proven(self, weight: Weight) -> bool:
        """Always."""
        return True

    is_settled = is_proven

    def bound_at(self, weight: Weight, fewest: Fraction = Fraction(0)) -> Fraction:
        """The sum of its point."""
        return self.prove(weight, None).bound


def rounded_down(bound: Fraction) -> Fraction:
    """A bound with few enough digits for a certificate: by less than a share of 2^-100."""
    if max(bound.numerator, bound.denominator) < 10**40:
        return bound
    scale = Fraction(2) ** (SIGNIFICANT - math.frexp(float(bound))[1])
    return math.floor(bound * scale) / scale
