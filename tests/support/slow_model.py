"""A clock that advances only when told to, and a model that takes its time on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mapspace.testing.toy_space import ToyModel


class Clock:
    """Advances only when told to, by amounts that binary numbers hold."""

    def __init__(self) -> None:
        self.now = 100.0  # not where a run begins

    def __call__(self) -> float:
        return self.now


class SlowModel(ToyModel):
    """Takes so many seconds of the clock per mapping."""

    def __init__(self, clock: Clock, seconds: float = 1.0) -> None:
        self.clock, self.seconds = clock, seconds

    def evaluate(self, space: Any, codes: np.ndarray, *, detail: bool = False) -> Any:
        self.clock.now += self.seconds * len(codes)
        return super().evaluate(space, codes, detail=detail)
