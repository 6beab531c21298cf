"""What limits of power, energy and time say of boxes of machines, and where to look under them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from orchestrator.design.aims import ROUNDING, Aim
from orchestrator.design.bounds import Known
from orchestrator.design.machine_grid import Box, Corner, MachineGrid
from orchestrator.design.reached import Reached
from orchestrator.design.wishes import Wish
from orchestrator.design.within_limits import Allowed, Least, least_within

Places = tuple[int, ...]

# A bound that is less than this share of another is left as it is.
NEAR = 0.7
# Bounds on the least of a layer that are apart by less are near enough for boxes.
CLOSE = 1e-3
# Powers of the share by which a machine exceeds limits, one after the other.
PRICES = 2.0, 10.0, 1e3


class Limited:
    """What is known of boxes under limits.

    Attributes:
        limits: what a machine may take.
        energy: the number of the aim of least energy; None: it is not proven.
        time: likewise of the least time.
        reached: mappings that are known.
    """

    def __init__(
        self,
        grid: MachineGrid,
        aims: Sequence[Aim],
        known: Sequence[Known],
        counts: Sequence[int],
        limits: Allowed,
        reached: Reached,
    ) -> None:
        """Nothing is known yet.

        Args:
            grid: of machines.
            aims: what is proven; the first is what is sought.
            known: of each layer.
            counts: how often each layer occurs.
            limits: of a machine, all layers together.
            reached: the mappings that are known of the layers.
        """
        self._grid, self._aims, self._known, self._counts = grid, aims, known, counts
        self.limits, self.reached = limits, reached
        numbers = {aim.objective: number for number, aim in enumerate(aims) if not aim.rate}
        self.energy, self.time = numbers.get("energy"), numbers.get("latency")

    def bound(self, corner: Corner) -> float:
        """What no machine that a corner is an ideal of undercuts within the limits."""
        return least_within(self._aims[0], self._least(corner), self._counts, self.limits)

    def ratio(self, box: Box) -> float:
        """The least mean power of the machines of a box by the limit, at least.

        A layer's best mapping takes the least energy of the box's ideal at least, and so no
        longer than what the worst machine is known to reach of the aim, by that energy.
        """
        aim = self._aims[0]
        if self.energy is None or aim.objective == "energy" or self.limits.power == math.inf:
            return 0.0
        least = self._least(self._grid.corner(box))
        if not (least.energies > 0).all() or not np.isfinite(least.energies).all():
            return 0.0
        often = np.array(self._counts, np.float64)
        energy = float(often @ least.energies) * (1 - ROUNDING)

        def share(values: Sequence[float]) -> float:
            pairs = zip(self._counts, least.energies.tolist(), values, strict=True)
            longest = sum(count * aim.longest(value, e) for count, e, value in pairs)
            return energy / (self.limits.power * longest) if longest else 0.0

        # By the least values it is more; where not even that is above the limit, it is not.
        if share(least.values.tolist()) <= 1:
            return 0.0
        machine = self._grid.worst(box)
        return share([self.reached.least(i, machine).value for i in range(len(self._counts))])

    def asked(self, box: Box, own: float) -> list[tuple[int, Corner]]:
        """What to prove of a box: of which aim, and of which machine.

        Where the power seems to be above its limit it is the worst machine that tells, for how
        long that takes at the most.

        Args:
            box: of several machines.
            own: what no machine of it undercuts without limits.
        """
        corner = self._grid.corner(box)
        others = [(aim, corner) for aim in (self.energy, self.time) if aim]
        if self.limits.power == math.inf or not self.energy:
            return [(0, corner), *others]
        energy = Aim("energy").least_total(self._least(corner).energies.tolist(), self._counts)
        slow = self._aims[0].value(energy, energy / self.limits.power, 1.0)
        machine = self._grid.ideal(corner)
        known = [self.reached.least(i, machine).value for i in range(len(self._counts))]
        # It is no more than this, which soon is little above it.
        most = self._aims[0].least_total(known, self._counts)
        asked = [(0, corner)] if most >= NEAR * slow else []
        if slow >= NEAR * own or self.limits.energy < math.inf:
            asked.append((self.energy, corner))
        if most < slow:
            asked.append((0, self._grid.corner(tuple((first, first + 1) for first, _ in box))))
        return [*asked, (self.time, corner)] if self.time else asked

    def near(self, wish: Wish, lower: float, upper: float) -> bool:
        """Whether the least of a layer is known well enough for a box."""
        if lower == 0 or lower == math.inf:
            return lower == upper
        found = self.reached.least(wish.layer, self._grid.ideal(wish.corner), wish.aim).value
        return min(upper, found) <= lower * (1 + CLOSE)

    def climbed(self, places: Places, fits: Callable[[Places], bool]) -> Places:
        """A machine from which no other value of any one key is better, as far as mappings tell.

        Limits may be exceeded at first, at a price that rises: from one machine that keeps them
        to a better one several keys may have to change.

        Args:
            places: where to begin.
            fits: whether a machine's area is within its limits.
        """
        for price in PRICES:
            improved = True
            best = self._judged(places, price)
            while improved:
                improved = False
                for axis, values in enumerate(self._grid.axes):
                    for place in range(len(values.values)):
                        other = (*places[:axis], place, *places[axis + 1 :])
                        if place == places[axis] or not fits(other):
                            continue
                        if (found := self._judged(other, price)) < best:
                            best, places, improved = found, other, True
        return places

    def _judged(self, places: Places, price: float) -> float:
        """The objective's logarithm by known mappings, with the price of exceeded limits."""
        machine = self._grid.machine(places)
        points = [self.reached.least(layer, machine) for layer in range(len(self._counts))]
        pairs = list(zip(self._counts, points, strict=True))
        energy = sum(count * point.energy for count, point in pairs)
        time = sum(count * point.time for count, point in pairs)
        if math.inf in (energy, time) or not time:
            return math.inf
        limits = self.limits
        shares = energy / time / limits.power, energy / limits.energy, time / limits.time
        value = self._aims[0].value(energy, time, 1.0)
        return math.log(value) + price * math.log(max(1.0, *shares))

    def _least(self, corner: Corner) -> Least:
        ranks, clock = self._grid.ranks(corner), self._grid.ideal(corner).clock_ghz

        def told(aim: int | None) -> list[float]:
            if aim is None:
                return [0.0] * len(self._known)
            return [known.between(ranks, aim, clock)[0] for known in self._known]

        return Least(*(np.array(told(aim)) for aim in (0, self.energy, self.time)))
