"""Greedy best-first search over the neighbours of mappings.

A queue holds the measured mappings by cost. The cheapest is taken out, and some of its neighbours
that were never visited, drawn at random, are measured and queued.

Source: Zhang et al., "Compiler-Level Matrix Multiplication Optimization for Deep Learning", 2019,
section 4.2, Algorithm 1.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes, Losses
from searchers.options import Count, Flag, Options, Presets, Sources, Whole
from searchers.shared.batches import BatchSearcher

if TYPE_CHECKING:
    from costmodel.space import Space


class GBFSOptions(Options):
    """Hyperparameters of greedy best-first search."""

    PRESETS: ClassVar[Presets] = {"paper": {"rho": 5, "starts": 1, "reopen": False, "patience": 0}}
    SOURCES: ClassVar[Sources] = {
        "paper": "Zhang et al. (2019), Algorithm 1 and section 5",
    }

    rho: Count = 10
    """Neighbours measured per expansion."""
    starts: Count = 50
    """Mappings measured before an expansion; those beside the space's own start are drawn at
    random."""
    reopen: Flag = True
    """Put an expanded mapping back while it has neighbours left."""
    patience: Whole = 200
    """Mappings without an improvement after which the search starts again; 0: only when the queue
    is empty."""


class GBFS(BatchSearcher):
    """Expands the cheapest mapping known, by `rho` random neighbours at a time.

    The neighbours that count are the feasible ones that were not visited. The paper ends when the
    queue is empty; here the search then starts again, from random mappings. The default starts
    again as well when `patience` mappings brought nothing better than the best of this start.
    """

    OPTIONS = GBFSOptions
    options: GBFSOptions
    STATE: ClassVar[tuple[str, ...]] = (
        *BatchSearcher.STATE,
        "_queue_losses",
        "_queue_numbers",
        "_best_loss",
        "_idle",
    )

    def __init__(self, space: Space, options: GBFSOptions, *, seed: int) -> None:
        """Prepares the queue; it starts at the space's attribute `start` if there is one."""
        super().__init__(space, options, seed=seed)
        # Heap of (loss, number in the table of visited mappings).
        self._queue: list[tuple[float, int]] = []
        # Of this start: the best loss, and the mappings measured since it was found.
        self._best_loss = math.inf
        self._idle = 0

    @property
    def _queue_losses(self) -> Losses:
        return np.array([loss for loss, _ in sorted(self._queue)], dtype=np.float64)

    @_queue_losses.setter
    def _queue_losses(self, losses: Losses) -> None:
        # Its numbers follow: STATE names them after the losses.
        self._queue = [(float(loss), -1) for loss in losses]

    @property
    def _queue_numbers(self) -> npt.NDArray[np.int64]:
        return np.array([number for _, number in sorted(self._queue)], dtype=np.int64)

    @_queue_numbers.setter
    def _queue_numbers(self, numbers: npt.NDArray[np.int64]) -> None:
        pairs = zip(self._queue, numbers, strict=True)
        self._queue = [(loss, int(number)) for (loss, _), number in pairs]

    def _propose(self) -> Codes:
        if not len(self._visited):
            return np.concatenate([self._start(), self._draw(self.options.starts - 1)])
        if self.options.patience and self._idle >= self.options.patience:
            self._queue = []
        while self._queue:
            loss, number = heapq.heappop(self._queue)
            neighbours = self.space.neighbours(self._visited.code(number))
            fresh = neighbours[self._visited.fresh(neighbours)]
            fresh = fresh[self.space.feasible(fresh)]
            if not len(fresh):
                continue
            if self.options.reopen and len(fresh) > self.options.rho:
                heapq.heappush(self._queue, (loss, number))
            chosen = self.rng.choice(len(fresh), min(self.options.rho, len(fresh)), replace=False)
            return fresh[chosen]
        self._best_loss, self._idle = math.inf, 0
        return self._draw(self.options.starts)

    def _learn(self, codes: Codes, losses: Losses) -> None:
        self._idle += len(losses)
        if losses.min() < self._best_loss:
            self._best_loss, self._idle = float(losses.min()), 0
        numbers = self._visited.add(codes)
        for loss, number in zip(losses.tolist(), numbers, strict=True):
            if math.isfinite(loss):
                heapq.heappush(self._queue, (loss, number))
