"""Branch and bound over boxes of machines: which proofs are needed next, and what is settled.

The box whose bound promises most is looked at first. It is settled where its least area exceeds
the limit, or where a machine that was found is at least as good as the bound on its ideal, and not
larger. Else its ideal is proven, the heaviest layers first, and then it is split; a box of one
machine is that machine's proof.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from costmodel.costs import Objective
from orchestrator.design.bounds import Known, bounds_of, least_total
from orchestrator.design.config import Design
from orchestrator.design.machine_grid import Box, Corner, MachineGrid, machines_in, split
from orchestrator.sweep.plan import Layer
from orchestrator.sweep.proofs import Proof

CYCLES_IN: Mapping[Objective, int] = {"energy": 0, "latency": 1, "edp": 1, "ed2p": 2}
"""The power of the cycles in an objective."""

Why = Literal["area", "bound", "infeasible", "proven", "open"]


class Wish(NamedTuple):
    """A proof that is needed."""

    layer: int
    """Which layer."""
    corner: Corner
    """Of which machine: the ideal of a box."""


class Settled(NamedTuple):
    """A box that needs no more work, and why."""

    box: Box
    why: Why
    """`area`: too large, all of it; `bound`: no machine of it is better than one that was found;
    `infeasible`: a layer has no mapping on its ideal; `proven`: the machine itself was; `open`: one
    machine, of which a layer is not proven in its time."""
    bound: float
    """What no machine of it undercuts, in pJ and cycles of the whole workload."""
    area: float
    """The least area of it, in the unit that the design is drawn over."""


@dataclass(frozen=True)
class Found:
    """A machine of which every layer has a mapping."""

    places: tuple[int, ...]
    area: float
    """In the unit that the design is drawn over."""
    value: float
    """Its objective, of the sums over the layers, in pJ and cycles at a clock of 1 GHz."""
    eligible: bool
    """Whether it is within the limits."""


class Branching:
    """The work that is left.

    Attributes:
        settled: what needs no more work.
        found: machines that were proven.
    """

    def __init__(
        self,
        design: Design,
        grid: MachineGrid,
        layers: Sequence[Layer],
        evaluate: Callable[[tuple[int, ...], Sequence[Proof]], Found],
        *,
        begin: bool = True,
    ) -> None:
        """Opens the whole grid.

        Args:
            design: what is sought.
            grid: among which machines.
            layers: of what.
            evaluate: totals of a machine, by its place and its layers' proofs.
            begin: whether the whole grid is open; else nothing is.
        """
        self._design, self._grid, self._evaluate = design, grid, evaluate
        self._counts = [layer.count for layer in layers]
        self._known = [Known(design.objective) for _ in layers]
        self._proofs: dict[Wish, Proof] = {}
        self._order = itertools.count()
        self._open: list[tuple[float, int, Box]] = []
        self._edge: list[Found] = []
        self.settled: list[Settled] = []
        self.found: list[Found] = []
        for root in grid.roots() if begin else ():
            self._push(root, 0.0)

    @property
    def machines_settled(self) -> int:
        """Machines of the grid that need no more work."""
        return sum(machines_in(settled.box) for settled in self.settled)

    @property
    def bound(self) -> float:
        """What no machine that is not settled undercuts; infinite where all are."""
        return min((bound for bound, _, _ in self._open), default=math.inf)

    def wishes(self, most: int) -> list[Wish]:
        """The proofs that are needed next, so many at the most and one at least; empty: finished.

        The same wishes follow on the same proofs, whoever makes them and in whatever order.
        """
        wanted: dict[Wish, None] = {}
        waiting: list[tuple[float, Box]] = []
        while self._open and len(wanted) < most:
            _, _, box = heapq.heappop(self._open)
            corner = self._grid.corner(box)
            between = self._between(corner)
            bound = self._total([lower for lower, _ in between], corner)
            if self.settle(box):
                continue
            if self._open and bound > self._open[0][0]:
                # Another one promises more by now.
                self._push(box, bound)
                continue
            alone = machines_in(box) == 1
            missing = [
                Wish(layer, corner)
                for layer, (lower, upper) in enumerate(between)
                if Wish(layer, corner) not in self._proofs and (alone or lower < upper)
            ]
            if missing:
                shares = [self._counts[wish.layer] * between[wish.layer][0] for wish in missing]
                heaviest = np.argsort(shares, kind="stable")[::-1][: -(-len(missing) // 2)]
                wanted |= dict.fromkeys(missing[place] for place in heaviest)
                waiting.append((bound, box))
            elif alone:
                self.take(box)
            else:
                for part in split(self._grid, box):
                    self._push(part, bound)
        for bound, box in waiting:
            self._push(box, bound)
        return list(wanted)

    def tell(self, proofs: Mapping[Wish, Proof]) -> None:
        """Takes proofs, of wishes in the order in which they were asked for."""
        for wish, proof in proofs.items():
            self._proofs[wish] = proof
            self._known[wish.layer].add(self._grid.ranks(wish.corner), proof)

    @property
    def front(self) -> list[Found]:
        """The eligible machines by rising area of which none has less in both; or only the best."""
        return sorted(self._edge, key=lambda found: found.area)

    def _push(self, box: Box, bound: float) -> None:
        heapq.heappush(self._open, (bound, next(self._order), box))

    def _total(self, bounds: Sequence[float], corner: Corner) -> float:
        """Of all layers together, at a clock of 1 GHz."""
        if any(bound == math.inf for bound in bounds):
            return math.inf
        objective, clock = self._design.objective, self._grid.ideal(corner).clock_ghz
        return least_total(bounds, self._counts, objective) / clock ** CYCLES_IN[objective]

    def _between(self, corner: Corner) -> list[tuple[float, float]]:
        ranks = self._grid.ranks(corner)
        return [known.between(ranks) for known in self._known]

    def settle(self, box: Box) -> bool:
        """Settles a box without looking at its machines, if that can be done by now."""
        corner = self._grid.corner(box)
        bound = self._total([lower for lower, _ in self._between(corner)], corner)
        area = self._grid.area(box)
        why: Why | None = None
        if self._grid.too_large(box, self._design.limits):
            why = "area"
        elif bound == math.inf:
            why = "infeasible"
        elif any(self._beats(found, bound, area) for found in self._edge):
            why = "bound"
        if why is not None:
            self.settled.append(Settled(box, why, bound, area))
        return why is not None

    def _beats(self, found: Found, value: float, area: float) -> bool:
        """Whether a machine is at least as good as what has this value and this area at least."""
        return found.value <= value and (self._design.find == "best" or found.area <= area)

    def take(self, box: Box) -> bool:
        """Settles a box of one machine by its proofs, if they are all there."""
        corner = self._grid.corner(box)
        wishes = [Wish(layer, corner) for layer in range(len(self._counts))]
        if not all(wish in self._proofs for wish in wishes):
            return False
        proofs = [self._proofs[wish] for wish in wishes]
        bounds = [bounds_of(proof, self._design.objective)[0] for proof in proofs]
        found = self._evaluate(tuple(first for first, _ in box), proofs)
        self.found.append(found)
        if found.eligible and not any(
            self._beats(other, found.value, found.area) for other in self._edge
        ):
            self._edge = [
                other for other in self._edge if not self._beats(found, other.value, other.area)
            ]
            self._edge.append(found)
        exact = math.inf in bounds or all(proof.status == "proven" for proof in proofs)
        why: Why = "proven" if exact else "open"
        self.settled.append(Settled(box, why, self._total(bounds, corner), found.area))
        return True
