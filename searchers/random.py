"""Random search: mappings drawn uniformly among the feasible ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from costmodel.space import Codes, Losses
from searchers.base import LARGEST_BATCH, Searcher
from searchers.options import Count, Options

if TYPE_CHECKING:
    from costmodel.space import Space


class RandomOptions(Options):
    """Hyperparameters of random search."""

    patience: Count | None = None
    """Exhausted after so many consecutive mappings that are no better than the best before them, as
    Timeloop's `victory-condition`; null: never."""


class Random(Searcher):
    """Independent uniform samples of the feasible mappings, in large batches."""

    OPTIONS = RandomOptions
    options: RandomOptions

    STATE: ClassVar[tuple[str, ...]] = ("_best_loss", "_stale")

    def __init__(self, space: Space, options: RandomOptions, *, seed: int) -> None:
        """Prepares the search; see `Searcher`."""
        super().__init__(space, options, seed=seed)
        self._best_loss = math.inf
        self._stale = 0

    def _ask(self, n: int) -> Codes:
        if self.options.patience is not None:
            n = min(n, self.options.patience - self._stale)
        return self.space.sample(self.rng, min(n, LARGEST_BATCH), feasible=True)

    def _tell(self, codes: Codes, losses: Losses) -> None:
        best = np.minimum.accumulate(np.append(self._best_loss, losses))
        improvements = np.flatnonzero(best[1:] < best[:-1])
        self._best_loss = float(best[-1])
        if improvements.size:
            self._stale = len(losses) - 1 - int(improvements[-1])
        else:
            self._stale += len(losses)
