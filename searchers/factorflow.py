"""FactorFlow: fan-outs used as far as they go, then one prime factor at a time to another level.

Of a loop order per level all loops in time begin outside of all buffers; of all moves of one prime
factor to another level the best is made until none is better. Then come other orders.

Source: M. Ronzani and C. Silvano, "FactorFlow: Mapping GEMMs on Spatial Architectures through
Adaptive Programming and Greedy Optimization", ASP-DAC 2025, and the released code. There every
order of a GEMM's three loops is gone through; a convolution's are too many, so orders are drawn.
Left open here: the fan-outs' factors are the best of some draws, orders of a dimension without loop
do not count, and the objective is what is asked for in place of utilisation over EDP.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes, Losses
from searchers.base import Searcher
from searchers.options import Count, Options
from searchers.shared.nest_edits import (
    best_spread,
    code_of,
    factor_moves,
    placed,
    temporal_loops,
)
from searchers.shared.perfect_only import refuse_remainders


class FactorFlowOptions(Options):
    """Hyperparameters of FactorFlow."""

    draws: Count = 1000
    """Mappings at random of which that gives the spread that uses most elements."""


class FactorFlow(Searcher):
    """Steepest descent by moves of one factor, begun anew for one loop order after another."""

    OPTIONS = FactorFlowOptions
    SPACES = (MapSpace,)
    BLACK_BOX = False
    options: FactorFlowOptions
    space: MapSpace
    STATE: ClassVar[tuple[str, ...]] = ("_here", "_loss", "_moves", "_losses")

    def __init__(self, space: MapSpace, options: FactorFlowOptions, *, seed: int) -> None:
        """Begins at the first order; see `Searcher`."""
        super().__init__(space, options, seed=seed)
        refuse_remainders(space, type(self).__name__)
        self._begin()

    def _begin(self) -> None:
        drawn = best_spread(self.space, self.rng, self.options.draws)
        mapping = self.space.describe(drawn)
        inside: list[list[tuple[str, int]]] = [[] for _ in mapping.levels[1:]]
        outside = code_of(self.space, placed(mapping, [temporal_loops(mapping), *inside]))
        # A level that must hold something may not fit with nothing: then as it was drawn.
        self._here: Codes = drawn if outside is None else self._with_orders(outside, drawn)
        self._loss = math.inf
        self._moves: Codes = self._here[None]
        self._losses: Losses = np.empty(0)

    def _with_orders(self, code: Codes, other: Codes) -> Codes:
        """A code with the loop orders of another, where it can have them."""
        orders = np.array(self.space.attribute_kinds) == "order"
        mixed = np.where(orders, other, code).astype(np.int32)
        return mixed if self.space.feasible(mixed[None])[0] else code

    def _ask(self, n: int) -> Codes:
        told = len(self._losses)
        return self._moves[told : told + n]

    def _tell(self, codes: Codes, losses: Losses) -> None:
        self._losses = np.append(self._losses, losses)
        if len(self._losses) < len(self._moves):
            return
        best = int(np.argmin(self._losses))
        if not self._losses[best] < self._loss:
            self._begin()
            return
        self._here, self._loss = self._moves[best], float(self._losses[best])
        moves = (code_of(self.space, m) for m in factor_moves(self.space.describe(self._here)))
        feasible = [code for code in moves if code is not None]
        if not feasible:
            self._begin()
            return
        self._moves, self._losses = np.unique(np.stack(feasible), axis=0), np.empty(0)
