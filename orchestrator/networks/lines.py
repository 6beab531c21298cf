"""Lower bounds of a network's energy and cycles: supporting lines, and what they leave.

A line says that energy + weight x cycles of the whole network is at least so much. Together lines
bound a convex region that holds every choice of mappings. On each of its edges energy x cycles^k is
quasi-concave, so its least value in the region lies at a corner: the mappings on the lower convex
hull suffice for EDP and E x D^2, whose optima are such corners. Under a limit they do not: the best
choice may lie above the hull, and what the lines leave is a gap (`orchestrator.networks.limited`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

POWERS = {"energy": 0, "edp": 1, "ed2p": 2}
"""The power of cycles beside one of energy; with `latency` the energy is not looked at."""

NEAR = Fraction(1, 4 * 10**12)
"""Energies on deep hierarchies that differ by a smaller share are equal."""


class Cut(NamedTuple):
    """Energy + weight x cycles >= bound; without a weight: cycles >= bound. pJ and cycles."""

    weight: Fraction | None
    bound: Fraction


class Corner(NamedTuple):
    """A corner of the region, and the weights of the two lines that meet there (None: cycles)."""

    energy: Fraction
    cycles: Fraction
    flatter: Fraction | None
    steeper: Fraction | None


def value_of(objective: str, energy: Fraction, cycles: Fraction) -> Fraction:
    """A network's objective, pJ and cycles."""
    return cycles if objective == "latency" else energy * cycles ** POWERS[objective]


def corners(cuts: Iterable[Cut]) -> list[Corner]:
    """The corners of the region, from the least energy to the fewest cycles.

    Args:
        cuts: one of weight 0 and one without a weight among them.
    """
    fewest = max(cut.bound for cut in cuts if cut.weight is None)
    slopes: dict[Fraction, Fraction] = {}
    for weight, bound in cuts:
        if weight is not None:
            slopes[weight] = max(bound, slopes.get(weight, bound))
    # The upper envelope of lines energy = bound - weight x cycles, from many cycles to few.
    kept: list[tuple[Fraction, Fraction]] = []
    for weight, bound in sorted(slopes.items()):
        while len(kept) > 1 and _meet(kept[-2], (weight, bound)) >= _meet(kept[-2], kept[-1]):
            kept.pop()
        kept.append((weight, bound))
    found = []
    for (flat, above), (steep, bound) in itertools.pairwise(kept):
        cycles = _meet((flat, above), (steep, bound))
        if cycles <= fewest:
            found.append(Corner(above - flat * fewest, fewest, flat, None))
            return found
        found.append(Corner(above - flat * cycles, cycles, flat, steep))
    weight, bound = kept[-1]
    return [*found, Corner(bound - weight * fewest, fewest, weight, None)]


def _meet(flat: tuple[Fraction, Fraction], steep: tuple[Fraction, Fraction]) -> Fraction:
    """The cycles at which two lines have the same energy."""
    return (steep[1] - flat[1]) / (steep[0] - flat[0])


def lower_bound(objective: str, cuts: Sequence[Cut]) -> tuple[Fraction, Corner]:
    """What no choice of mappings is below, and the corner that says so."""
    found = corners(cuts)
    best = min(found, key=lambda corner: value_of(objective, corner.energy, corner.cycles))
    return value_of(objective, best.energy, best.cycles), best


class Limit(NamedTuple):
    """What a network's choice must be within: one of the two, in cycles or pJ."""

    cycles: int | None = None
    energy: Fraction | None = None

    @classmethod
    def of(cls, other: str, most: Fraction) -> Limit:
        """The limit on what the objective is not."""
        return cls(cycles=math.ceil(most)) if other == "energy" else cls(energy=most)

    @property
    def most(self) -> Fraction:
        """The limit as a number."""
        most = self.energy if self.cycles is None else Fraction(self.cycles)
        assert most is not None  # one of the two is given
        return most

    def admits(self, energy: Fraction, cycles: int) -> bool:
        """Whether so much is within it: energy that rounding alone takes beyond it is, too."""
        return cycles <= self.most if self.energy is None else energy <= self.most * (1 + NEAR)

    def __str__(self) -> str:
        if self.cycles is not None:
            return f"{self.cycles:,} cycles"
        return f"{float(self.most):.9g} pJ"


def under_limit(limit: Limit, cuts: Sequence[Cut]) -> tuple[Fraction, Cut]:
    """What no choice within a limit is below, and the line that says so.

    Args:
        limit: of cycles: the bound is of energy, pJ; of energy: of cycles.
        cuts: one of weight 0 and one without a weight among them.
    """
    found = []
    for cut in cuts:
        if limit.energy is None and cut.weight is not None:
            found.append((cut.bound - cut.weight * limit.most, cut))
        elif limit.energy is not None and cut.weight is None:
            found.append((cut.bound, cut))
        elif limit.energy is not None and cut.weight:
            found.append(((cut.bound - limit.most) / cut.weight, cut))
    return max(found, key=lambda one: one[0])
