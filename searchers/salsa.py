"""SALSA: simulated annealing over the order of prime-factor loops, as ZigZag schedules.

A state is an order of all prime factors of the loops in time; levels take loops from the innermost
as they fit, and a move swaps two of them. What is spread over the elements is given.

Source: V. J. B. Jung, A. Symons, L. Mei, M. Verhelst and L. Benini, "SALSA: Simulated Annealing
based Loop-Ordering Scheduler for DNN Accelerators", AICAS 2023, sections III and IV; temperatures,
acceptance and length are those of ZigZag's released engine. Left open here: ZigZag's tensors of a
level have loops of their own, ours share them; what is spread is the best of some draws, and a
cooling that is over begins again from another one.
"""

from __future__ import annotations

import math
from typing import ClassVar

from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes, Losses
from searchers.base import MOVE_ATTEMPTS, Searcher
from searchers.options import Count, Options, Positive, Presets, Sources
from searchers.shared.nest_edits import Loop, allocated, best_spread, temporal_loops
from searchers.shared.perfect_only import refuse_remainders

# What the temperature comes to at the end, per step of a cooling.
COOLING = 0.999


class SalsaOptions(Options):
    """Hyperparameters of SALSA; the defaults are those of ZigZag's engine."""

    PRESETS: ClassVar[Presets] = {"paper": {"horizon": 1500, "temperature": 0.05}}
    SOURCES: ClassVar[Sources] = {"paper": "SALSA (AICAS 2023), ZigZag's released settings"}

    horizon: Count = 1500
    """Queries of one cooling (iteration_number)."""
    temperature: Positive = 0.05
    """Of the first step (start_temperature); a share by which a state may be worse."""
    draws: Count = 1000
    """Mappings at random of which that gives the spread that uses most elements."""


class Salsa(Searcher):
    """A chain of orders, one query at a time."""

    OPTIONS = SalsaOptions
    SPACES = (MapSpace,)
    BLACK_BOX = False
    options: SalsaOptions
    space: MapSpace
    STATE: ClassVar[tuple[str, ...]] = ("_spread", "_order", "_next", "_loss", "_step")

    def __init__(self, space: MapSpace, options: SalsaOptions, *, seed: int) -> None:
        """Begins a cooling; see `Searcher`."""
        super().__init__(space, options, seed=seed)
        refuse_remainders(space, type(self).__name__)
        self._begin()

    def _begin(self) -> None:
        """Draws what is spread, and an order."""
        self._spread: Codes = best_spread(self.space, self.rng, self.options.draws)
        self._order = self.rng.permutation(len(self._loops()))
        self._next = self._order
        self._loss, self._step = math.inf, 0

    def _loops(self) -> list[Loop]:
        return temporal_loops(self.space.describe(self._spread))

    def _ask(self, n: int) -> Codes:
        if self._step >= self.options.horizon:
            self._begin()
        mapping, loops = self.space.describe(self._spread), self._loops()
        for _ in range(MOVE_ATTEMPTS):
            order = self._order.copy()
            if self._step and len(order):
                first, second = self.rng.integers(len(order), size=2)
                order[[first, second]] = order[[second, first]]
            code = allocated(self.space, mapping, [loops[place] for place in order])
            if code is not None:
                self._next = order
                return code[None]
            if not self._step:
                self._order = self.rng.permutation(len(loops))
        # Nothing fits beside what is spread: as it was drawn.
        self._next = self._order
        return self._spread[None]

    def _tell(self, codes: Codes, losses: Losses) -> None:
        loss, warm = float(losses[0]), self.options.temperature
        horizon = self.options.horizon
        end = warm * COOLING**horizon
        temperature = warm + (end - warm) * self._step / max(1, horizon - 1)
        gain = self._loss / loss - 1 if loss > 0 and math.isfinite(self._loss) else 0.0
        if gain >= 0 or self.rng.random() < math.exp(gain / temperature):
            self._order, self._loss = self._next, loss
        self._step += 1
