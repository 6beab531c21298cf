"""A proof whose mappings are scored by the cost model: what it knows, and what is certain."""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from costmodel.costs import STATUS_OK
from costmodel.exact.objective import INFINITE, Outcome
from costmodel.exact.progress import MOST_TOP
from costmodel.exact.proof_run import ProofRun
from costmodel.exact_any.known import SLACK, Known
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes


class ScoredRun(ProofRun):
    """A proof on any hierarchy, or a bound, that another thread may halt.

    Attributes:
        space: the map space.
        unit_pj: the unit of energy, pJ.
        ties: whether a finished proof also says which of equal mappings is the better one.
    """

    ties = False
    tolerance = Fraction(SLACK)
    space: MapSpace
    unit_pj: Fraction

    def __init__(self, known: Known, counts: dict[str, int], certain: Outcome) -> None:
        """Begins.

        Args:
            known: where mappings are kept.
            counts: of what is done, by name; counted on.
            certain: what no mapping undercuts, known without any work.
        """
        self.finished = False
        self._known, self._counts, self._certain = known, counts, certain
        self._halted = threading.Event()
        self._steps = 0

    def halt(self) -> None:
        """Ends the step that another thread is in as soon as it can."""
        self._halted.set()

    def go_on(self) -> None:
        """Lets steps take their time again."""
        self._halted.clear()

    def offer(self, codes: Codes) -> None:
        """Takes mappings `[B, D]` found elsewhere; what is infeasible or not allowed is passed."""
        allowed = codes[[self.allows(code) for code in codes]] if self._is_narrow() else codes
        if len(allowed):
            self._known.take(allowed)

    @abstractmethod
    def allows(self, code: Codes) -> bool:
        """Whether a mapping `[D]` is one of those that the proof speaks of."""

    @abstractmethod
    def _is_narrow(self) -> bool:
        """Whether it speaks of some mappings of the space alone."""

    def _kept_by(self, code: Codes) -> tuple[int, ...]:
        """The tensors, as bits, that a mapping keeps at every level."""
        names = self.space.workload.tensor_names
        return tuple(
            sum(1 << names.index(name) for name in level.keep)
            for level in self.space.describe(code).levels
        )

    def _order_of(self, code: Codes) -> int:
        """The number of a mapping's order of buffers side by side."""
        return 0 if self.space.orders is None else int(self.space.orders.which(code[None])[0])

    def _outcome(self, energy: float, cycles: float) -> Outcome:
        return min(INFINITE, round(Fraction(energy) / self.unit_pj)), int(cycles)

    @property
    def best_outcome(self) -> Outcome | None:
        """Energy in units and cycles of the best mapping known; None before the first."""
        best = self._known.best
        return None if best is None else self._outcome(*best)

    def _lower(self, energy: float, cycles: float) -> Outcome:
        """What no mapping's objective undercuts, to within SLACK, with a bound of pJ and cycles."""
        found = math.floor(Fraction(energy * (1 - SLACK)) / self.unit_pj), int(cycles)
        # What was certain stays so: equal products of other factors are rounded apart.
        self._certain = max(self._certain, found, key=self.rank_of)
        best = self.best_outcome
        return self._certain if best is None else min(self._certain, best, key=self.rank_of)

    @property
    def counts(self) -> dict[str, int]:
        """What was done so far, by name."""
        return dict(self._counts)

    @property
    def bounds_computed(self) -> int:
        """How many sets of mappings were bounded so far, orders tried included."""
        return sum(self._counts.values())

    def codes(self, most: int = MOST_TOP) -> Codes:
        """`[m, D]` the best mappings known, best first, at most so many."""
        return self._known.codes(most)

    def outcomes(self, codes: Codes) -> list[Outcome | None]:
        """Energy in units and cycles of mappings `[B, D]` by the cost model; None: infeasible."""
        costs = LoopNestModel().evaluate(self.space, codes)
        return [
            self._outcome(float(energy), float(cycles)) if status == STATUS_OK else None
            for energy, cycles, status in zip(
                costs.energy_pj, costs.latency_cycles, costs.status, strict=True
            )
        ]

    def state_dict(self) -> dict[str, Any]:
        """The steps taken, and the best mapping."""
        codes = self.codes(1)
        return {"steps": self._steps, "best": codes[0] if len(codes) else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from `state_dict()`: takes as many steps again, from the best mapping on."""
        if state["best"] is not None:
            self.offer(np.array(state["best"], np.int32)[None])
        while self._steps < int(state["steps"]) and not self.finished:
            self.step(parts=1)
