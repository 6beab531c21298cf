"""A design's aims together: one branch and bound each, and what they know of layers in common."""

from __future__ import annotations

import math
from collections.abc import Mapping

from orchestrator.design.aims import aims_of, proof_aims
from orchestrator.design.bounds import Known
from orchestrator.design.branching import Branching, Sought
from orchestrator.design.plan import DesignPlan
from orchestrator.design.wishes import Wish
from orchestrator.sweep.fitting import why_nowhere
from orchestrator.sweep.proofs import Proof


class AimedBranching:
    """The work that is left for all aims.

    Attributes:
        parts: of each aim.
    """

    def __init__(self, plan: DesignPlan, *, begin: bool = True) -> None:
        """Opens the whole grid for each aim.

        Args:
            plan: the design.
            begin: whether the whole grid is open; else nothing is.
        """
        self._plan = plan
        aims = proof_aims(plan.design)
        known = [Known(aims) for _ in plan.layers]
        self.parts = tuple(
            Branching(
                plan.design,
                plan.grid,
                plan.layers,
                plan.evaluate,
                Sought(number, aims, known),
                begin=begin,
            )
            for number in range(len(aims_of(plan.design)))
        )
        self._next = 0

    @property
    def machines_settled(self) -> int:
        """Machines of the grid that need no more work, on the average of the aims."""
        return sum(part.machines_settled for part in self.parts) // len(self.parts)

    @property
    def gap(self) -> float:
        """How far what was found is above the best at most, of any aim."""
        return max(part.gap for part in self.parts)

    @property
    def found(self) -> int:
        """How many points are on the fronts."""
        return sum(len(part.front) for part in self.parts)

    def why_none(self) -> str:
        """Why no machine was found: the layers that fit nowhere, or the limits."""
        grid, design = self._plan.grid, self._plan.design
        ideals = [grid.ideal(grid.corner(root)) for root in grid.roots()]
        missing = [self._plan.layers[layer] for layer in self.parts[0].nowhere()]
        if missing:
            return f"grid: {'; '.join(why_nowhere(one.workload, ideals) for one in missing)}."
        proven = (found for part in self.parts for found in part.found.values())
        settled = {box.why for part in self.parts for box in part.settled}
        mapped = any(math.isfinite(found.value) for found in proven)
        mapped = mapped or not settled.isdisjoint(("limits", "power"))
        within = f" within the limits ({design.limits})" if mapped else ""
        return (
            f"grid: expected a machine that has a mapping for every workload{within}; "
            "there is none."
        )

    def wishes(self, most: int) -> list[Wish]:
        """The proofs that are needed next, of the aims in turn; empty: all are finished."""
        for turn in range(len(self.parts)):
            number = (self._next + turn) % len(self.parts)
            wanted = self.parts[number].wishes(most)
            if wanted:
                self._next = number + 1
                return wanted
        return []

    def tell(self, proofs: Mapping[Wish, Proof]) -> None:
        """Takes proofs, of wishes in the order in which they were asked for."""
        for wish, proof in proofs.items():
            # Least energies are the only aim's.
            self.parts[min(wish.aim, len(self.parts) - 1)].tell({wish: proof})

    def stop(self) -> None:
        """Leaves everything open that is not settled."""
        for part in self.parts:
            part.stop()
