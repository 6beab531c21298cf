"""Workers that take virtual time: a discrete-event simulation for the real scheduler."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from orchestrator.pool.event_log import Outcome
from searchers.queries import Query


class SimulatedWorkers:
    """Scores by a fast model, and says that it took log-normal seconds.

    Attributes:
        last_given: when the last query was given out.
        spent: queries given out when the last answer came.
    """

    def __init__(
        self, model: Any, space: Any, count: int, *, sigma: float = 1.0, seed: int = 0
    ) -> None:
        """Takes queries of one space; a median query takes a second."""
        self._model, self._space, self._count = model, space, count
        self._sigma = sigma
        self._rng = np.random.default_rng(seed)
        self._running: list[tuple[float, int, float, np.ndarray]] = []
        self.seconds = 0.0
        self.last_given = 0.0
        self.spent = 0
        self.given: list[tuple[float, float]] = []
        self.on_wait: Callable[[], None] = lambda: None

    @property
    def idle(self) -> int:
        return self._count - len(self._running)

    def submit(self, query: Query) -> None:
        took = float(self._rng.lognormal(0.0, self._sigma))
        heapq.heappush(self._running, (self.seconds + took, query.ticket, took, query.code))
        self.last_given = self.seconds
        self.given.append((self.seconds, self.seconds + took))

    def wait(self, until: float = math.inf) -> Sequence[Outcome]:
        if self._running[0][0] > until:
            self.seconds = until
            return []
        self.on_wait()
        self.spent = len(self.given)
        end, ticket, _, code = heapq.heappop(self._running)
        self.seconds = end
        costs = self._model.evaluate(self._space, code[None])
        return [
            Outcome(
                ticket,
                float(costs.energy_pj[0]),
                float(costs.latency_cycles[0]),
                int(costs.status[0]),
                int(costs.excess[0]),
            )
        ]

    def busy(self, until: float) -> float:
        """The share of all workers' time before a moment that went into queries."""
        spent = sum(min(end, until) - start for start, end in self.given if start < until)
        return spent / (self._count * until)
