"""How every proof runs and what it says of outcomes."""

from __future__ import annotations

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Self

from costmodel.exact.objective import Outcome, rank, value


class ProofRun(ABC):
    """A proof that goes on step by step.

    Attributes:
        finished: whether the optimum is proven.
        tolerance: objectives that are as close as this share are equal.
    """

    tolerance: Fraction = Fraction(0)
    finished: bool
    _kind: int

    @abstractmethod
    def step(self, *, parts: int | None = None) -> None:
        """Works for a while, or for so many parts of its work, however long they take."""

    def close(self) -> None:  # noqa: B027 - for proofs that would hold themselves
        """Lets go of what steps work with: none can be taken any more."""

    @property
    @abstractmethod
    def best_outcome(self) -> Outcome | None:
        """Energy and cycles of the best mapping found; None before the first."""

    @property
    @abstractmethod
    def lower_outcome(self) -> Outcome:
        """What no mapping undercuts."""

    def value_of(self, outcome: Outcome) -> int:
        """The objective of an outcome, in units of energy and cycles."""
        return value(self._kind, *outcome)

    def rank_of(self, outcome: Outcome) -> tuple[int, int, int]:
        """Where an outcome stands: its objective, then what decides between equal ones."""
        return rank(self._kind, *outcome)

    @property
    def gap(self) -> float:
        """How far the best mapping can be above the optimum, as a share; inf before the first."""
        best = self.best_outcome
        return float("inf") if best is None else self.gap_of(best)

    def gap_of(self, outcome: Outcome) -> float:
        """How far an outcome can be above the optimum, as a share: 0.0 where it is proven."""
        reached, certain = self.value_of(outcome), self.value_of(self.lower_outcome)
        if reached <= certain * (1 + self.tolerance):
            return 0.0
        return float(Fraction(reached, max(1, certain)) - 1)

    def run(
        self,
        seconds: float | None = None,
        *,
        gap: float = 0.0,
        after_step: Callable[[Self], None] | None = None,
    ) -> None:
        """Works until the proof is finished or so many seconds have passed.

        Args:
            seconds: None: however long it takes.
            gap: end when the best mapping is certainly within this share of the optimum.
            after_step: called after every step.
        """
        with self._until(seconds) as ends:
            while not self.finished and not 0 < gap >= self.gap and time.monotonic() < ends:
                self.step()
                if after_step is not None:
                    after_step(self)

    @contextlib.contextmanager
    def _until(self, seconds: float | None) -> Iterator[float]:
        """When so many seconds have passed, by the monotonic clock."""
        yield math.inf if seconds is None else time.monotonic() + seconds
