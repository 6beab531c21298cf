"""Greedy best-first search over the neighbours of mappings.

A queue holds the measured mappings by cost. The cheapest is taken out, and some of its neighbours
that were never visited, drawn at random, are measured and queued.

Source: Zhang et al., "Compiler-Level Matrix Multiplication Optimization for Deep Learning", 2019,
section 4.2, Algorithm 1.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from searchers.base import Codes, Losses, require
from searchers.batches import BatchSearcher

if TYPE_CHECKING:
    from costmodel.space import Space


class GBFS(BatchSearcher):
    """Expands the cheapest mapping known, by `rho` random neighbours at a time.

    The neighbours that count are the feasible ones that were not visited. The paper ends when the
    queue is empty; here the search then starts again, from random mappings. The default starts
    again as well when `patience` mappings brought nothing better than the best of this start.
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
        {"paper": MappingProxyType({"rho": 5, "starts": 1, "reopen": False, "patience": 0})}
    )
    STATE: ClassVar[tuple[str, ...]] = (
        *BatchSearcher.STATE,
        "_queue_losses",
        "_queue_numbers",
        "_best_loss",
        "_idle",
    )

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        rho: int = 10,
        starts: int = 50,
        reopen: bool = True,
        patience: int = 200,
    ) -> None:
        """Prepares the queue.

        Args:
            space: where to search; it starts at its attribute `start` if it has one.
            seed: decides the whole run.
            rho: neighbours measured per expansion.
            starts: mappings measured before an expansion; those beside the space's own start are
                drawn at random.
            reopen: put an expanded mapping back while it has neighbours left.
            patience: mappings without an improvement after which the search starts again; 0:
                only when the queue is empty.
        """
        super().__init__(space, seed=seed)
        require(rho >= 1, "rho", rho, "at least 1")
        require(starts >= 1, "starts", starts, "at least 1")
        require(patience >= 0, "patience", patience, "0 or more")
        self.rho = rho
        self.starts = starts
        self.reopen = reopen
        self.patience = patience
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
            return np.concatenate([self._start(), self._draw(self.starts - 1)])
        if self.patience and self._idle >= self.patience:
            self._queue = []
        while self._queue:
            loss, number = heapq.heappop(self._queue)
            neighbours = self.space.neighbours(self._visited.code(number))
            fresh = neighbours[self._visited.fresh(neighbours)]
            fresh = fresh[self.space.feasible(fresh)]
            if not len(fresh):
                continue
            if self.reopen and len(fresh) > self.rho:
                heapq.heappush(self._queue, (loss, number))
            chosen = self.rng.choice(len(fresh), min(self.rho, len(fresh)), replace=False)
            return fresh[chosen]
        self._best_loss, self._idle = math.inf, 0
        return self._draw(self.starts)

    def _learn(self, codes: Codes, losses: Losses) -> None:
        self._idle += len(losses)
        if losses.min() < self._best_loss:
            self._best_loss, self._idle = float(losses.min()), 0
        numbers = self._visited.add(codes)
        for loss, number in zip(losses.tolist(), numbers, strict=True):
            if math.isfinite(loss):
                heapq.heappush(self._queue, (loss, number))
