"""The network's own optimum: mappings of all layers chosen together, and a bound at any time.

A network's energy and cycles are sums over its layers, so the least energy + weight x cycles of the
network is the sum of the layers' least: one proof per layer and weight, and a line that bounds the
network (`orchestrator.networks.lines`). New lines cut the corner of the region that is the least.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from costmodel.costs import Objective
from costmodel.exact_any.weighted import Line, Point, least_sum, point_of, step_of
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import DataError
from orchestrator.networks.lines import Corner, Cut, Limit, lower_bound, value_of

ROUNDING = Fraction(1, 10**12)
"""Bounds on deep hierarchies hold to within this share: what is so close counts as equal."""

FIRST_DRAWS = 1024

GLANCE = 0.1
"""Seconds for a bound of a layer's least energy or fewest cycles where it is a product's end."""

PATIENCE = 4
"""A layer's proof may take this many equal shares of the time that is left."""

Choice = tuple[Point, ...]
Weight = Fraction | None


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
        return min(
            self.points,
            key=lambda point: (line.sum_of(point), point.energy, point.cycles),
            default=None,
        )

    def prove(self, weight: Weight, seconds: float | None) -> Line:
        """What is certain of a weighted sum; read off two lines through one mapping if it can."""
        done = self.lines.get(weight)
        if done is not None and done.proven:
            return done
        line = self._between(weight) or self._look(weight, seconds)
        if line.point is not None:
            self._add(line.point)
        if done is None or line.proven or line.bound > done.bound:
            self.lines[weight] = line
        return self.lines[weight]

    def _look(self, weight: Weight, seconds: float | None) -> Line:
        """Proves the least weighted sum, or gets as far as the time allows."""
        return least_sum(self.space, weight, known=self.points, seconds=seconds)

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


@dataclass(frozen=True)
class Optimum:
    """Mappings of all layers, and what no choice of mappings is below.

    Attributes:
        objective: what the network minimises.
        layers: what is proven of each.
        choice: a mapping per layer.
        cuts: what bounds the network.
        energy: of the network, pJ.
        cycles: of the network.
        bound: no choice of mappings has less of the objective, pJ and cycles.
        seconds: how long it took.
        limit: what the choice had to be within, None without one.
        fronts: whether the bound is from the layers' fronts rather than from the lines.
    """

    objective: Objective
    layers: tuple[LayerLines, ...]
    choice: Choice
    cuts: tuple[Cut, ...]
    energy: Fraction
    cycles: int
    bound: Fraction
    seconds: float
    limit: Limit | None = None
    fronts: bool = False

    @property
    def value(self) -> Fraction:
        """The network's objective, pJ and cycles."""
        return value_of(self.objective, self.energy, Fraction(self.cycles))

    @property
    def gap(self) -> float:
        """How far the value can be above the optimum, as a share; 0 where it is proven."""
        if self.value <= self.bound * (1 + ROUNDING):
            return 0.0
        return float(self.value / self.bound - 1) if self.bound > 0 else float("inf")


class Jointly:
    """Finds the mappings of the least objective of a network and proves that none have less."""

    def __init__(
        self,
        layers: Sequence[LayerLines],
        objective: Objective,
        *,
        seconds: float | None = None,
        gap: float = 0.0,
        say: Callable[[str], None] = lambda text: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Begins nothing yet.

        Args:
            layers: of the network, each with a mapping that is known.
            objective: `energy`, `latency`, `edp` or `ed2p` of the network.
            seconds: the most that it may take; None: however long.
            gap: end when the choice is certainly within this share of the optimum.
            say: called now and then with how far it is.
            stop: whether to end with what is known.
        """
        self.layers, self.objective = tuple(layers), objective
        self._seconds, self._gap, self._say, self._stop = seconds, gap, say, stop
        self._started = time.monotonic()
        self._cuts: dict[Weight, Cut] = {}
        self._step = max(step_of(layer.space) for layer in self.layers)
        self._best: tuple[Fraction, Choice] | None = None
        self._consider(None)
        self._consider(Fraction(0))

    @property
    def _left(self) -> float | None:
        if self._seconds is None:
            return None
        return self._seconds - (time.monotonic() - self._started)

    @property
    def _ends(self) -> float:
        """When the time is out, by the monotonic clock."""
        return math.inf if self._seconds is None else self._started + self._seconds

    @property
    def _ended(self) -> bool:
        return self._stop() or (self._left is not None and self._left <= 0)

    def sums(self, choice: Choice) -> tuple[Fraction, int]:
        """Energy (pJ) and cycles of the network."""
        return self.totals(self.layers, choice)

    @staticmethod
    def totals(layers: Sequence[LayerLines], choice: Choice) -> tuple[Fraction, int]:
        """Energy (pJ) and cycles of layers with a mapping each."""
        pairs = list(zip(layers, choice, strict=True))
        energy = sum((layer.count * point.energy for layer, point in pairs), Fraction(0))
        return energy, sum(layer.count * point.cycles for layer, point in pairs)

    def choose(self, weight: Weight) -> Choice:
        """The best choice known for a weight."""
        choice = []
        for layer in self.layers:
            point = layer.least(weight)
            assert point is not None  # every layer begins with one
            choice.append(point)
        return tuple(choice)

    def _consider(self, weight: Weight) -> Choice:
        """The best choice known for a weight, kept if it is the best for the objective."""
        choice = self.choose(weight)
        energy, cycles = self.sums(choice)
        value = value_of(self.objective, energy, Fraction(cycles))
        if self._best is None or value < self._best[0]:
            self._best = value, choice
        return choice

    def _cut(self, weight: Weight, most: float = math.inf) -> None:
        """Proves a line of the network, of a layer in so many seconds at most."""
        for number, layer in enumerate(self.layers):
            left, seconds = self._left, None
            if left is not None:
                seconds = max(0.05, PATIENCE * left / (len(self.layers) - number))
                seconds = min(seconds, max(0.05, left))
            if most < math.inf:
                seconds = most if seconds is None else min(most, seconds)
            layer.prove(weight, seconds)
            self._say(f"weight {_shown(weight)}: {number + 1} of {len(self.layers)} layers")
        self._cuts[weight] = Cut(weight, self._least_of(weight))
        self._consider(weight)

    def _least_of(self, weight: Weight) -> Fraction:
        """What a network's weighted sum is at least, of its layers' lines."""
        bounds = (layer.count * layer.lines[weight].bound for layer in self.layers)
        return sum(bounds, Fraction(0))

    def run(self) -> Optimum:
        """Cuts corners until none is below the best choice, or the time ends."""
        assert self._best is not None  # made at the beginning
        firsts: list[Weight] = [Fraction(0), None]
        if self.objective == "energy":
            firsts = [Fraction(0)]
        elif self.objective == "latency":
            firsts = [None]
        else:
            self._cut(self._own_weight())
        for weight in firsts:
            # Beside a product the two ends of the front need no more than a rough bound.
            self._cut(weight, GLANCE if len(firsts) > 1 else math.inf)
        while self.objective not in ("energy", "latency") and not self._ended:
            result = self.result()
            if result.gap <= self._gap:
                break
            _, corner = lower_bound(self.objective, tuple(self._cuts.values()))
            further = self._weight_at(corner)
            if further is not None:
                self._cut(further)
                continue
            left = [w for w in (corner.flatter, corner.steeper) if self._is_open(w)]
            if not left:
                break
            self._cut(left[0])
        return self.result()

    def _is_open(self, weight: Weight) -> bool:
        """Whether a layer's proof for a weight was cut short."""
        return any(not layer.lines[weight].proven for layer in self.layers)

    def result(self) -> Optimum:
        """What is known now."""
        assert self._best is not None  # made at the beginning
        energy, cycles = self.sums(self._best[1])
        if self.objective in ("energy", "latency"):
            bound = next(iter(self._cuts.values())).bound
        else:
            bound, _ = lower_bound(self.objective, tuple(self._cuts.values()))
        return Optimum(
            self.objective,
            self.layers,
            self._best[1],
            tuple(self._cuts.values()),
            energy,
            cycles,
            min(bound, self._best[0]),
            time.monotonic() - self._started,
        )

    def _own_weight(self) -> Fraction:
        """The weight of the tangent at the best choice: an optimum is the best for its own."""
        assert self._best is not None  # made at the beginning
        energy, cycles = self.sums(self._best[1])
        power = 2 if self.objective == "ed2p" else 1
        return self._rounded(power * energy / cycles)

    def _rounded(self, weight: Fraction) -> Fraction:
        return round(weight / self._step) * self._step

    def _weight_at(self, corner: Corner) -> Fraction | None:
        """A weight between the two lines of a corner; None where there is none."""
        own = self._own_weight()
        low = corner.flatter
        assert low is not None  # the line of the fewest cycles is the steepest
        high = corner.steeper
        fast = self._consider(high)
        slow = self._consider(low)
        (e0, t0), (e1, t1) = self.sums(slow), self.sums(fast)
        candidates = []
        candidates.append(own)
        power = 2 if self.objective == "ed2p" else 1
        # Where the objective falls off most at the corner; else what the two choices there share.
        candidates.append(self._rounded(power * corner.energy / corner.cycles))
        if t1 < t0 and e1 > e0:
            candidates.append(self._rounded((e1 - e0) / (t0 - t1)))
        candidates += [
            self._rounded((low + high) / 2) if high is not None else max(self._step, 2 * low)
        ]
        for weight in candidates:
            if weight > low and (high is None or weight < high) and weight not in self._cuts:
                return weight
        return None


def _shown(weight: Weight) -> str:
    return "of cycles alone" if weight is None else f"{float(weight):.4g} pJ per cycle"
