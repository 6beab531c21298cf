"""What a machine that keeps limits of power, energy and time has of the objective at least.

Of each layer's best mapping it is known that its value, its energy and its time are not less than
what was proven: `E * D**k >= V`, `E >= A`, `D >= B`. What energies and times a whole network may
have is then a convex set whose lower edge is known point by point, and the least of the objective
under a limit is where that edge meets the limit (docs/inside/proof-any-levels.md, lemma 20).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from costmodel.costs import FloatArray
from orchestrator.design.aims import ROUNDING, Aim
from orchestrator.design.config import Design

# Halvings after which a point of the edge is as near as bounds need; any of them is safe.
HALVINGS = 40


class Allowed(NamedTuple):
    """The most that a machine may take; infinite: whatever it takes."""

    power: float
    """Mean power, pJ / ns."""
    energy: float
    """pJ of the whole workload."""
    time: float
    """ns of the whole workload."""

    @property
    def anything(self) -> bool:
        """Whether nothing is limited."""
        return min(self) == math.inf


class Least(NamedTuple):
    """What mappings of each layer have at least, `[layers]` each."""

    values: FloatArray
    """Of the aim, pJ and ns."""
    energies: FloatArray
    """pJ."""
    times: FloatArray
    """ns."""


def allowed(design: Design) -> Allowed:
    """The limits of a design; a chip's power is never less than what mappings take."""
    limits = design.limits
    power = min(limits.power_w or math.inf, limits.chip_power_w or math.inf)
    # A milliwatt is a picojoule per nanosecond.
    return Allowed(
        1e3 * power, 1e9 * (limits.energy_mj or math.inf), 1e6 * (limits.latency_ms or math.inf)
    )


def least_within(aim: Aim, least: Least, counts: Sequence[int], limits: Allowed) -> float:
    """What no choice of mappings undercuts that keeps the limits; infinite: none keeps them.

    Args:
        aim: what is minimised.
        least: what is known of each layer.
        counts: how often each occurs.
        limits: of the sums.
    """
    often = np.array(counts, np.float64)
    total = aim.least_total(least.values.tolist(), counts)
    energy, time = (float(often @ one) for one in (least.energies, least.times))
    if math.isnan(energy + time) or energy > limits.energy * (1 + ROUNDING):
        return math.inf
    if math.inf in (total, energy, time) or time > limits.time * (1 + ROUNDING):
        return math.inf
    if aim.objective == "energy":
        return total
    slowest = energy / limits.power
    if aim.objective == "latency":
        return max(total, slowest * (1 - ROUNDING))
    found = [total, aim.value(energy, slowest, 1.0)]
    if (least.values > 0).all():
        edge = _Edge(aim.power, least, often)
        if (least.energies > 0).all():
            found += [edge.least_power(limits.power), edge.least_energy(limits.energy)]
        if (least.times > 0).all():
            found.append(edge.least_time(limits.time))
    return max(found) * (1 - ROUNDING)


class _Edge:
    """The least `E + w * D` of all layers together, for every rate `w`."""

    def __init__(self, power: int, least: Least, often: FloatArray) -> None:
        """Takes what is known.

        Args:
            power: that of the time in the objective, `k`.
            least: of each layer, all of them above 0.
            often: how often each occurs.
        """
        self._power, self._least, self._often = power, least, often
        roots = least.values ** (1 / (power + 1))
        self._scale = float(often @ roots)

    def least_power(self, limit: float) -> float:
        """The objective where energy by time comes down to a limit, by the least energies."""
        if limit == math.inf:
            return 0.0
        return self._meets(
            self._by_energy, self._power * limit, self._all_least_energy(),
            lambda energy, time: energy >= limit * time,
        )  # fmt: skip

    def least_energy(self, limit: float) -> float:
        """The objective where the energy comes down to a limit, by the least energies."""
        if limit == math.inf:
            return 0.0
        power = self._power
        rate = power * (limit / self._scale) ** ((power + 1) / power)
        return self._meets(
            self._by_energy, rate, self._all_least_energy(), lambda energy, _: energy >= limit
        )

    def least_time(self, limit: float) -> float:
        """The objective where the time comes down to a limit, by the least times."""
        if limit == math.inf:
            return 0.0
        power = self._power
        rate = power * (self._scale / limit) ** (power + 1)
        end = float((power * self._least.values / self._least.times ** (power + 1)).max())
        return self._meets(self._by_time, rate, end, lambda _, time: time >= limit)

    def _all_least_energy(self) -> float:
        """A rate at which every layer takes its least energy."""
        ratio = self._least.energies / self._least.values
        slopes = self._power * self._least.values * ratio ** ((self._power + 1) / self._power)
        return float(slopes.min())

    def _by_energy(self, rate: float) -> tuple[float, float]:
        """Energy and time of all layers at a rate, none below its least energy."""
        power, (values, energies, _) = self._power, self._least
        times = (power * values / rate) ** (1 / (power + 1))
        chosen = np.maximum(values / times**power, energies)
        return float(self._often @ chosen), float(self._often @ (values / chosen) ** (1 / power))

    def _by_time(self, rate: float) -> tuple[float, float]:
        """Energy and time of all layers at a rate, none below its least time."""
        power, (values, _, least) = self._power, self._least
        times = np.maximum((power * values / rate) ** (1 / (power + 1)), least)
        return float(self._often @ (values / times**power)), float(self._often @ times)

    def _meets(
        self,
        point: Callable[[float], tuple[float, float]],
        rate: float,
        end: float,
        beyond: Callable[[float, float], bool],
    ) -> float:
        """The objective at the last point that is still beyond a limit.

        The objective does not fall on the way from `rate` to `end`, so that any point before the
        limit is a bound.
        """
        if not beyond(*point(rate)):
            return 0.0
        before, after = math.log(rate), math.log(end)
        if beyond(*point(end)):
            before = after
        for _ in range(HALVINGS if before != after else 0):
            middle = (before + after) / 2
            if beyond(*point(math.exp(middle))):
                before = middle
            else:
                after = middle
        energy, time = point(math.exp(before))
        return energy * time**self._power
