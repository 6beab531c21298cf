"""Branch and bound over boxes of machines: which proofs are needed next, and what is settled.

The box whose bound promises most is looked at first. It is settled where its least area exceeds
the limit, or where a machine that was found is at least as good as the bound on its ideal (or as
near to it as the design's gap allows), and not larger. Else its ideal is proven, the heaviest
layers first, and then it is split; a box of one machine is that machine's proof.

So that there is a machine early on, one of the box of which least is known is proven whenever twice
as many proofs are there as at the time before; its box stays open.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from orchestrator.design.aims import ROUNDING, Aim
from orchestrator.design.bounds import Known
from orchestrator.design.config import Design
from orchestrator.design.limited import Limited
from orchestrator.design.machine_grid import (
    Box,
    Corner,
    MachineGrid,
    machines_in,
    narrowed,
    split,
    widths,
)
from orchestrator.design.reached import Reached
from orchestrator.design.wishes import Wish
from orchestrator.design.within_limits import allowed
from orchestrator.sweep.plan import Layer
from orchestrator.sweep.proofs import Proof

# Proofs before the first machine that is proven out of turn.
FIRST_DIVE = 64

Why = Literal["area", "limits", "power", "bound", "dominated", "infeasible", "proven", "open"]

# Parts of boxes along an axis before what they have brought says how much it brings.
FEWEST_PARTS = 4

# By how much proofs multiply from one machine that is proven out of turn to the next; less under
# limits, where one that keeps them is harder to find.
DIVES, LIMITED_DIVES = 2.0, 1.25


class Settled(NamedTuple):
    """A box that needs no more work, and why."""

    box: Box
    why: Why
    """`area`: too large, all of it; `limits`: no mappings of its ideal keep those of power, energy
    and time; `power`: each takes more than the limit; `bound`: none is better than one that was
    found; `dominated`: so is the same one with the best value of a key
    that takes no area; `infeasible`: a layer has no mapping on its ideal; `proven`: the machine
    itself was; `open`: one machine, of which a layer is not proven in its time, or what a limit of
    the call has left."""
    bound: float
    """What no machine of it undercuts that keeps the limits, pJ and ns of the whole workload."""
    area: float
    """The least area of it, in the unit that the design is drawn over."""


@dataclass(frozen=True)
class Found:
    """A machine of which every layer has a mapping."""

    places: tuple[int, ...]
    area: float
    """In the unit that the design is drawn over."""
    value: float
    """What is minimised, of the sums over the layers, in pJ and ns."""
    eligible: bool
    """Whether it is within the limits."""


class Sought(NamedTuple):
    """One of the aims of a design."""

    number: int
    """Which."""
    aims: Sequence[Aim]
    """All of them."""
    known: Sequence[Known]
    """Of each layer what is known; all of the design's aims add to it."""


class Branching:
    """The work that is left for one aim.

    Attributes:
        settled: what needs no more work.
        found: machines that were proven, by their places.
    """

    def __init__(
        self,
        design: Design,
        grid: MachineGrid,
        layers: Sequence[Layer],
        evaluate: Callable[[tuple[int, ...], Sequence[Proof], Aim], Found],
        sought: Sought,
        *,
        begin: bool = True,
    ) -> None:
        """Opens the whole grid.

        Args:
            design: what is sought.
            grid: among which machines.
            layers: of what.
            evaluate: totals of a machine, by its place and its layers' proofs.
            sought: which of the design's aims this is, and what is known of each layer.
            begin: whether the whole grid is open; else nothing is.
        """
        self._design, self._grid, self._evaluate = design, grid, evaluate
        self._counts = [layer.count for layer in layers]
        self._number, self._known = sought.number, sought.known
        self._aim = sought.aims[sought.number]
        limits, reached = allowed(design), Reached(layers, sought.aims)
        self._limited = (
            None
            if limits.anything
            else Limited(grid, sought.aims, self._known, self._counts, limits, reached)
        )
        self._proofs: dict[Wish, Proof] = {}
        self._order = itertools.count()
        self._open: list[tuple[float, int, Box]] = []
        self._edge: list[Found] = []
        self.settled: list[Settled] = []
        self.found: dict[tuple[int, ...], Found] = {}
        self._dive: Box | None = None
        self._next_dive = float(FIRST_DIVE)
        # Of boxes that were split: along which axis, how wide it was, their bound, and their least
        # power by its limit.
        self._parents: dict[Box, tuple[int, float, float, float]] = {}
        self._gains: list[list[float]] = [[] for _ in grid.axes]
        for root in grid.roots() if begin else ():
            self._open_root(root)

    @property
    def machines_settled(self) -> int:
        """Machines of the grid that need no more work."""
        return sum(machines_in(settled.box) for settled in self.settled)

    @property
    def bound(self) -> float:
        """What no machine that is not settled undercuts; infinite where all are."""
        return min((bound for bound, _, _ in self._open), default=math.inf)

    @property
    def gap(self) -> float:
        """How far what was found is above the best at most, as a share.

        Of a front: above the best of what is no larger, at any area. Infinite where there may be a
        machine that is smaller than all that were found, or nothing was found.
        """
        left = [(bound, self._grid.area(box)) for bound, _, box in self._open]
        left += [(one.bound, one.area) for one in self.settled if one.why in ("bound", "open")]
        return max((self._above(*one) for one in left), default=0.0)

    def nowhere(self) -> list[int]:
        """The layers that are proven to have no mapping on any machine of the grid."""
        roots = [self._between(self._grid.corner(root)) for root in self._grid.roots()]
        return [
            layer
            for layer in range(len(self._counts))
            if all(between[layer][0] == math.inf for between in roots)
        ]

    def stop(self) -> None:
        """Leaves everything open that is not settled."""
        for _, _, box in sorted(self._open):
            if not self.settle(box):
                self.leave(box)
        self._open.clear()

    def leave(self, box: Box) -> None:
        """Leaves a box open, but for a machine of which every proof is there."""
        if machines_in(box) == 1 and self.take(box):
            return
        self.settled.append(Settled(box, "open", self._bound(box), self._grid.area(box)))

    def wishes(self, most: int) -> list[Wish]:
        """The proofs that are needed next, so many at the most and one at least; empty: finished.

        The same wishes follow on the same proofs, whoever makes them and in whatever order.
        """
        if self._open and len(self._proofs) >= self._next_dive:
            self._dive = self._dive or self._promising()
            missing = [wish for wish in self._wishes_of(self._dive) if wish not in self._proofs]
            if missing:
                return missing[:most]
            self.judge(self._dive)
            growth = DIVES if self._limited is None else LIMITED_DIVES
            self._dive, self._next_dive = None, growth * len(self._proofs)
        wanted: dict[Wish, None] = {}
        waiting: list[tuple[float, Box]] = []
        while self._open and len(wanted) < most:
            _, _, box = heapq.heappop(self._open)
            bound = self._bound(box)
            if self.settle(box):
                self._learn(box, bound)
                continue
            if self._open and bound > self._open[0][0]:
                # Another one promises more by now.
                self._push(box, bound)
                continue
            alone = machines_in(box) == 1
            if missing := self._missing(box, alone=alone):
                wanted |= dict.fromkeys(missing)
                waiting.append((bound, box))
                continue
            self._learn(box, bound)
            if alone:
                self.take(box)
            else:
                self._split(box, bound)
        for bound, box in waiting:
            self._push(box, bound)
        return list(wanted)

    def tell(self, proofs: Mapping[Wish, Proof]) -> None:
        """Takes proofs, of wishes in the order in which they were asked for."""
        for wish, proof in proofs.items():
            self._proofs[wish] = proof
            machine, ranks = self._grid.ideal(wish.corner), self._grid.ranks(wish.corner)
            self._known[wish.layer].add(ranks, wish.aim, proof, machine.clock_ghz)
            if self._limited is not None:
                self._limited.reached.add(wish.layer, machine, proof.record)

    @property
    def front(self) -> list[Found]:
        """The eligible machines by rising area of which none has less in both; or only the best."""
        return sorted(self._edge, key=lambda found: found.area)

    def _open_root(self, box: Box) -> None:
        """Opens a box, but for machines that the best value of a free axis makes needless."""
        for axis, (first, stop) in enumerate(box):
            if first + 1 < stop and self._dominates(axis):
                self._settle_as(narrowed(box, axis, (first, stop - 1)), "dominated")
                box = narrowed(box, axis, (stop - 1, stop))
        self._push(self._trimmed(box), 0.0)

    def _dominates(self, axis: int) -> bool:
        """Whether machines are at least as good with the best value of an axis, in every way.

        Limits of power, energy and time may exclude the better one.
        """
        limits = self._design.limits.model_dump(exclude_none=True)
        return self._grid.is_free(axis) and not set(limits) - {"area_bits", "area_mm2"}

    def _settle_as(self, box: Box, why: Why) -> None:
        self.settled.append(Settled(box, why, self._bound(box), self._grid.area(box)))

    def _split(self, box: Box, bound: float) -> None:
        """Opens the two halves of a box, along the axis that has brought most so far."""
        brought = widths(self._grid, box)
        usual = [float(np.mean(gains)) for gains in self._gains if len(gains) >= FEWEST_PARTS]
        for axis, gains in enumerate(self._gains):
            known = len(gains) >= FEWEST_PARTS
            if brought[axis] > 0:
                brought[axis] *= float(np.mean(gains)) if known else max(usual, default=1.0)
        axis = int(np.argmax(brought))
        width = widths(self._grid, box)[axis]
        for part in map(self._trimmed, split(self._grid, box, axis)):
            self._parents[part] = axis, width, bound, self._ratio(box)
            self._push(part, bound)

    def _learn(self, box: Box, bound: float) -> None:
        """Notes by how much a half is nearer to being settled than the whole was."""
        axis, width, before, power = self._parents.pop(box, (0, 0.0, 0.0, 0.0))
        if before <= 0 or width <= 0 or bound == math.inf:
            return
        gains = [0.0, math.log(bound / before)]
        if power > 0 and (ratio := self._ratio(box)) > 0:
            gains.append(math.log(ratio / power))
        self._gains[axis].append(max(gains) / width)

    def _trimmed(self, box: Box) -> Box:
        """A box without the values that are too large beside the smallest of all others."""
        limits = self._design.limits
        if self._grid.too_large(box, limits):
            return box
        box, cut = self._grid.within(box, limits)
        for part in cut:
            self._settle_as(part, "area")
        return box

    def _push(self, box: Box, bound: float) -> None:
        heapq.heappush(self._open, (bound, next(self._order), box))

    def _between(self, corner: Corner, aim: int | None = None) -> list[tuple[float, float]]:
        """Of each layer the bounds on a corner's least."""
        ranks, clock = self._grid.ranks(corner), self._grid.ideal(corner).clock_ghz
        aim = self._number if aim is None else aim
        return [known.between(ranks, aim, clock) for known in self._known]

    def _ratio(self, box: Box) -> float:
        """The least mean power of a box's machines by its limit, at least; 0: it is not known."""
        return 0.0 if self._limited is None else self._limited.ratio(box)

    def _missing(self, box: Box, *, alone: bool) -> list[Wish]:
        """The heaviest half of the proofs that are missing of what a box is to be known by."""
        corner, limited = self._grid.corner(box), None if alone else self._limited
        asked = [(self._number, corner)]
        if limited is not None:
            asked = limited.asked(box, self._own(box))
        chosen = []
        for aim, at in asked:
            missing, shares = [], []
            for layer, (lower, upper) in enumerate(self._between(at, aim)):
                wish = Wish(layer, at, aim)
                if wish in self._proofs or not (alone or lower < upper):
                    continue
                if limited is None or not limited.near(wish, lower, upper):
                    missing.append(wish)
                    shares.append(self._counts[layer] * lower)
            heaviest = np.argsort(shares, kind="stable")[::-1][: -(-len(missing) // 2)]
            chosen += [missing[place] for place in heaviest]
        return chosen

    def _total(self, bounds: Sequence[float]) -> float:
        """Of all layers together."""
        return self._aim.least_total(bounds, self._counts)

    def settle(self, box: Box) -> bool:
        """Settles a box without looking at its machines, if that can be done by now."""
        bound, area = self._bound(box), self._grid.area(box)
        near = bound * (1 + self._design.gap)
        why: Why | None = None
        if self._grid.too_large(box, self._design.limits):
            why = "area"
        elif any(
            stop < len(self._grid.axes[axis].values) and self._dominates(axis)
            for axis, (_, stop) in enumerate(box)
        ):
            why = "dominated"
        elif bound == math.inf:
            why = "infeasible" if self._own(box) == math.inf else "limits"
        elif self._ratio(box) > 1 + ROUNDING:
            why = "power"
        elif any(self._beats(found, near, area) for found in self._edge):
            why = "bound"
        if why is not None:
            self.settled.append(Settled(box, why, bound, area))
        return why is not None

    def _beats(self, found: Found, value: float, area: float) -> bool:
        """Whether a machine is at least as good as what has this value and this area at least."""
        return found.value <= value and (self._design.find == "best" or found.area <= area)

    def take(self, box: Box) -> bool:
        """Settles a box of one machine by its proofs, if they are all there."""
        found = self.judge(box)
        if found is None:
            return False
        proofs = [self._proofs[wish] for wish in self._wishes_of(box)]
        clock = self._grid.ideal(self._grid.corner(box)).clock_ghz
        bounds = [self._aim.bounds(proof, clock)[0] for proof in proofs]
        exact = math.inf in bounds or all(proof.status == "proven" for proof in proofs)
        why: Why = "proven" if exact else "open"
        self.settled.append(Settled(box, why, self._total(bounds), found.area))
        return True

    def judge(self, box: Box) -> Found | None:
        """What comes of a machine, a box of one, by its proofs; None: they are not all there."""
        places = tuple(first for first, _ in box)
        if places in self.found:
            return self.found[places]
        wishes = self._wishes_of(box)
        if not all(wish in self._proofs for wish in wishes):
            return None
        found = self._evaluate(places, [self._proofs[wish] for wish in wishes], self._aim)
        self.found[places] = found
        if found.eligible and not any(
            self._beats(other, found.value, found.area) for other in self._edge
        ):
            self._edge = [
                other for other in self._edge if not self._beats(found, other.value, other.area)
            ]
            self._edge.append(found)
        return found

    def _promising(self) -> Box:
        """A machine of the box of which least is known, down the parts of which that holds.

        Under limits the best one is sought from there by the mappings that are known.
        """
        box = min((box for _, _, box in self._open), key=self._promise)
        while machines_in(box) > 1:
            parts = split(self._grid, box)
            fit = [part for part in parts if not self._grid.too_large(part, self._design.limits)]
            # Where nothing tells them apart, the better half.
            box = min(reversed(fit or parts), key=self._promise)
        if self._limited is None or self._design.find != "best":
            return box
        starts = [tuple(first for first, _ in box), *(found.places for found in self.front)]
        for places in starts:
            climbed = self._limited.climbed(places, self._fits)
            if climbed not in self.found:
                return tuple((place, place + 1) for place in climbed)
        return box

    def _fits(self, places: tuple[int, ...]) -> bool:
        """Whether a machine's area is within the limits."""
        box = tuple((place, place + 1) for place in places)
        return not self._grid.too_large(box, self._design.limits)

    def _promise(self, box: Box) -> tuple[float, float]:
        """The less, the further what was found may be above a machine of the box."""
        bound, area = self._bound(box), self._grid.area(box)
        return -self._above(bound, area), bound if self._design.find == "best" else area

    def _wishes_of(self, box: Box) -> list[Wish]:
        """The proofs of a box's ideal."""
        corner = self._grid.corner(box)
        return [Wish(layer, corner, self._number) for layer in range(len(self._counts))]

    def _own(self, box: Box) -> float:
        """What no machine of a box undercuts, within limits or not."""
        return self._total([lower for lower, _ in self._between(self._grid.corner(box))])

    def _bound(self, box: Box) -> float:
        """What no machine of a box undercuts that keeps the limits, by what is proven."""
        if self._limited is None:
            return self._own(box)
        return self._limited.bound(self._grid.corner(box))

    def _above(self, bound: float, area: float) -> float:
        """How far the best machine that is no larger is above a bound, as a share."""
        best = self._design.find == "best"
        values = [found.value for found in self._edge if best or found.area <= area]
        if not values:
            return math.inf
        return max(0.0, min(values) / bound - 1) if bound else math.inf
