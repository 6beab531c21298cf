"""Answers of before a search: of a store, or of any other memory, without an evaluator."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Protocol

from costmodel.space import Codes
from orchestrator.pool.event_log import Outcome
from orchestrator.pool.scheduler import PoolSearch, run
from searchers.queries import Query

Scored = tuple[float, float, int, int, str]
"""What an evaluator says of a mapping: an `Outcome` without its ticket."""


class Memory(Protocol):
    """Knows answers of before, and keeps new ones."""

    def find(self, code: Codes) -> Scored | None:
        """The answer of a mapping `[D]`; None where it is not known."""
        ...

    def keep(self, code: Codes, answer: Scored) -> None:
        """Keeps what an evaluator has said of a mapping `[D]`."""
        ...


class _UnknownError(Exception):
    """Nothing that is out is known."""


class Remembered:
    """Workers of a pool that know what a memory knows, and can score nothing."""

    def __init__(self, memory: Memory, count: int) -> None:
        self.idle = count
        self._memory = memory
        self._back: list[Outcome] = []

    @property
    def seconds(self) -> float:
        """From any origin."""
        return time.monotonic()

    def submit(self, query: Query) -> None:
        """Answers it, or leaves it."""
        known = self._memory.find(query.code)
        if known is None:
            self.idle -= 1
        else:
            self._back.append(Outcome(query.ticket, *known))

    def wait(self, until: float = math.inf) -> Sequence[Outcome]:
        """What is back.

        Raises:
            _UnknownError: nothing ever will be.
        """
        if not self._back:
            raise _UnknownError
        found, self._back = self._back, []
        return found


def run_as_remembered(search: PoolSearch, memory: Memory, count: int) -> None:
    """Searches as far as a memory knows the answers; what it does not know stays out."""
    try:
        run(search, Remembered(memory, count))
    except _UnknownError:
        return
