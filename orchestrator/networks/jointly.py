"""The network's own optimum: mappings of all layers chosen together, and a bound at any time.

A network's energy and cycles are sums over its layers, so the least energy + weight x cycles of the
network is the sum of the layers' least: one proof per layer and weight, and a line that bounds the
network (`orchestrator.networks.lines`). New lines cut the corner of the region that is the least.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from costmodel.costs import Objective
from costmodel.exact_any.weighted import STEP, Point
from orchestrator.networks.layer_lines import LayerLines, Weight
from orchestrator.networks.lines import NEAR, Corner, Cut, Limit, lower_bound, value_of

ROUNDING = Fraction(1, 10**12)
"""Bounds on deep hierarchies hold to within this share: what is so close counts as equal."""

GLANCE = 0.1
"""Seconds per layer for a bound of the least energy or fewest cycles of a product's end."""

ROUGH = 0.05
"""Share to which a first line is proven; further ones to a part of the gap that is left."""

PART = Fraction(1, 4)
"""Of the gap that is left, what a further line may leave."""

LEAST_SLICE = 0.01
"""Seconds of a proof where the time is out."""

Choice = tuple[Point, ...]


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
        self._take_best(choice)
        return choice

    def _take_best(self, choice: Choice) -> bool:
        """Keeps a choice if it is the best for the objective; whether it is."""
        sums = self.sums(choice)
        if self._best is not None and not self._beats(sums, self.sums(self._best[1])):
            return False
        self._best = value_of(self.objective, sums[0], Fraction(sums[1])), choice
        return True

    def _beats(self, one: tuple[Fraction, int], other: tuple[Fraction, int]) -> bool:
        """Whether energy (pJ) and cycles of a network are better than others.

        Less energy breaks ties, of equal energy fewer cycles.
        """
        value, its = (value_of(self.objective, energy, Fraction(t)) for energy, t in (one, other))
        if self.objective != "energy":
            return (value, one[0]) < (its, other[0])
        near = abs(value - its) <= NEAR * its
        return one[1] < other[1] if near and one[1] != other[1] else value < its

    def refine(
        self,
        weight: Weight,
        *,
        share: float | Fraction = 0.0,
        seconds: float = math.inf,
        suffices: Fraction | None = None,
    ) -> None:
        """Goes on with the proofs that a line of the network waits for.

        Args:
            weight: of the line.
            share: end where the best choice known is within this of the line.
            seconds: the most that it may take.
            suffices: end where the line is certain to be no lower.
        """
        ends = min(self._ends, time.monotonic() + seconds)
        while True:
            bound = self._least_of(weight)
            if suffices is not None and bound >= suffices:
                return
            if suffices is None and self._reach(weight) <= bound * (1 + Fraction(share)):
                return
            layer = self._loosest(weight)
            if layer is None:
                return
            layer.go_on(weight, max(LEAST_SLICE, ends - time.monotonic()))
            if self._stop() or time.monotonic() >= ends:
                return  # at once: of ten thousand layers a word on the way takes a second
            self._say(f"weight {_shown(weight)}: {self._looseness(weight):.2%} open")

    def certain(self, weight: Weight, suffices: Fraction) -> Fraction:
        """What a weighted sum of the network is at least, proven until that is as much as asked."""
        self.refine(weight, suffices=suffices)
        return self._least_of(weight)

    def _cut(
        self, weight: Weight, share: float | Fraction = 0.0, seconds: float = math.inf
    ) -> None:
        """Proves a line of the network, as far as `refine` is told to."""
        self.refine(weight, share=share, seconds=seconds)
        self._cuts[weight] = Cut(weight, self._least_of(weight))
        self._consider(weight)

    def _reach(self, weight: Weight) -> Fraction:
        """The least weighted sum of the network that is known."""
        energy, cycles = self.sums(self.choose(weight))
        return Fraction(cycles) if weight is None else energy + weight * cycles

    def _looseness(self, weight: Weight) -> float:
        """By which share the best choice known is above a line."""
        bound = self._least_of(weight)
        return float(self._reach(weight) / bound - 1) if bound else math.inf

    def _least_of(self, weight: Weight) -> Fraction:
        """What a network's weighted sum is at least, of its layers' lines."""
        bounds = (layer.count * layer.bound_at(weight) for layer in self.layers)
        return sum(bounds, Fraction(0))

    def _loosest(self, weight: Weight) -> LayerLines | None:
        """The layer that leaves most of a line open; None where all are proven."""
        left = [layer for layer in self.layers if not layer.is_proven(weight)]
        return max(left, key=lambda one: one.count * one.looseness(weight), default=None)

    def run(self) -> Optimum:
        """Cuts corners until none is below the best choice, or the time ends."""
        if self.objective in ("energy", "latency"):
            self._cut(self._alone, self._gap)
            self._break_ties()
            return self.result()
        self._cut(self._own_weight(), max(ROUGH, self._gap), self._shared(3))
        for weight in (Fraction(0), None):
            # The two ends of the front need no more than a rough bound.
            self._cut(weight, seconds=GLANCE * len(self.layers))
        tried: set[Weight] = set()
        while not self._ended and (gap := self.result().gap) > self._gap:
            share = PART * Fraction(max(gap, self._gap)) if gap < math.inf else Fraction(ROUGH)
            _, corner = lower_bound(self.objective, tuple(self._cuts.values()))
            beside = [w for w in (corner.flatter, corner.steeper) if self.is_open(w)]
            for weight in beside:  # what was proven of other weights may bound these, too
                self._cuts[weight] = Cut(weight, self._least_of(weight))
            # Lines between cut a corner beside the fewest cycles sooner than that line's own proof.
            loose = [
                w for w in beside
                if w is not None and w not in tried and self._looseness(w) > share
            ]  # fmt: skip
            further = None if loose else self._weight_at(corner)
            seconds = self._shared(4)
            if loose:
                loosest = max(loose, key=self._looseness)
                self._cut(loosest, share, seconds)
                tried.add(loosest)
            elif further is not None:
                tried.clear()
                self._cut(further, share, seconds)
            elif beside:
                self._cut(beside[0], seconds=seconds)
            else:
                break
        return self.result()

    @property
    def _alone(self) -> Weight:
        """The weight of the line that the objective is, of energy or of cycles alone."""
        return Fraction(0) if self.objective == "energy" else None

    def _break_ties(self) -> None:
        """Goes on with proofs that ended when a choice reached the line: another may be equal."""
        while not self._gap and not self._ended and (layer := self._untied()) is not None:
            layer.settle(self._alone, self._ends - time.monotonic())
        self._consider(self._alone)

    def _untied(self) -> LayerLines | None:
        """A layer that may have a mapping equal to that of the best choice, and a better one."""
        return next((one for one in self.layers if not one.is_settled(self._alone)), None)

    def _shared(self, parts: int) -> float:
        """Seconds of a part of the time that is left."""
        return math.inf if self._left is None else max(0.0, self._left) / parts

    def is_open(self, weight: Weight) -> bool:
        """Whether a proof that the line of a weight waits for was cut short."""
        return self._looseness(weight) > 0 and self._loosest(weight) is not None

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
        return round(weight / STEP) * STEP

    def _weight_at(self, corner: Corner) -> Fraction | None:
        """A weight between the two lines of a corner; None where there is none."""
        own = self._own_weight()
        low = corner.flatter
        assert low is not None  # the line of the fewest cycles is the steepest
        high = corner.steeper
        fast = self._consider(high)
        slow = self._consider(low)
        (e0, t0), (e1, t1) = self.sums(slow), self.sums(fast)
        candidates = [own]
        power = 2 if self.objective == "ed2p" else 1
        # Where the objective falls off most at the corner; else what the two choices there share.
        if corner.cycles:  # a proof that has only begun knows of none
            candidates.append(self._rounded(power * corner.energy / corner.cycles))
        if t1 < t0 and e1 > e0:
            candidates.append(self._rounded((e1 - e0) / (t0 - t1)))
        candidates += [self._rounded((low + high) / 2) if high is not None else max(STEP, 2 * low)]
        for weight in candidates:
            if weight > low and (high is None or weight < high) and weight not in self._cuts:
                return weight
        return None


def _shown(weight: Weight) -> str:
    return "of cycles alone" if weight is None else f"{float(weight):.4g} pJ per cycle"
