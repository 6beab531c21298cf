"""Random search: mappings drawn uniformly among the feasible ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from searchers.base import LARGEST_BATCH, Codes, Losses, Searcher, require

if TYPE_CHECKING:
    from costmodel.space import Space


class Random(Searcher):
    """Independent uniform samples of the feasible mappings, in large batches."""

    STATE: ClassVar[tuple[str, ...]] = ("_best_loss", "_stale")

    def __init__(self, space: Space, *, seed: int, patience: int | None = None) -> None:
        """Prepares the search.

        Args:
            space: where to search.
            seed: decides the whole run.
            patience: exhausted after so many consecutive mappings that are no better than the
                best before them, as Timeloop's `victory-condition`; None: never.
        """
        super().__init__(space, seed=seed)
        require(patience is None or patience >= 1, "patience", patience, "at least 1, or None")
        self.patience = patience
        self._best_loss = math.inf
        self._stale = 0

    def _ask(self, n: int) -> Codes:
        if self.patience is not None:
            n = min(n, self.patience - self._stale)
        return self.space.sample(self.rng, min(n, LARGEST_BATCH), feasible=True)

    def _tell(self, codes: Codes, losses: Losses) -> None:
        best = np.minimum.accumulate(np.append(self._best_loss, losses))
        improvements = np.flatnonzero(best[1:] < best[:-1])
        self._best_loss = float(best[-1])
        if improvements.size:
            self._stale = len(losses) - 1 - int(improvements[-1])
        else:
            self._stale += len(losses)
