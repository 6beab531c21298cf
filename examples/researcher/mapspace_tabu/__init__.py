"""Tabu search (F. Glover, "Tabu Search - Part I", 1989) for mapspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from searchers import Options, Searcher
from searchers.options import Count, Presets

if TYPE_CHECKING:
    from costmodel.space import Codes, Losses, Space


class TabuOptions(Options):
    """Hyperparameters of tabu search."""

    PRESETS: ClassVar[Presets] = {"short": {"tenure": 10}}

    moves: Count = 32
    """Moves that are looked at before the best of them is made."""
    tenure: Count = 100
    """Mappings for which one that was visited is tabu."""


class Tabu(Searcher):
    """Makes the best of some moves, even a worse one, but never back to where it was."""

    OPTIONS = TabuOptions
    options: TabuOptions
    STATE: ClassVar[tuple[str, ...]] = ("_here", "_moves", "_losses", "_visited")

    def __init__(self, space: Space, options: TabuOptions, *, seed: int) -> None:
        """Draws where to begin."""
        super().__init__(space, options, seed=seed)
        self._here: Codes = space.sample(self.rng, 1, feasible=True)[0]
        self._moves: Codes = self._here[None]
        self._losses: Losses = np.empty(0)
        self._visited: list[list[int]] = []

    def _ask(self, n: int) -> Codes:
        told = len(self._losses)
        return self._moves[told : told + n]

    def _tell(self, codes: Codes, losses: Losses) -> None:
        self._losses = np.append(self._losses, losses)
        if len(self._losses) < len(self._moves):
            return
        self._here = self._moves[int(np.argmin(self._losses))]
        self._visited = [*self._visited, self._here.tolist()][-self.options.tenure :]
        starts = np.repeat(self._here[None], 4 * self.options.moves, axis=0)
        moved = np.unique(self.space.mutate(self.rng, starts), axis=0)
        allowed = self.space.feasible(moved)
        allowed &= np.array([code.tolist() not in self._visited for code in moved])
        moved = moved[allowed][self.rng.permutation(int(allowed.sum()))][: self.options.moves]
        if not len(moved):  # surrounded: begin elsewhere
            moved = self.space.sample(self.rng, 1, feasible=True)
        self._moves, self._losses = moved, np.empty(0)
