"""The seconds of a whole network, and what of them a layer may take."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mapspace.errors import DataError

LEAST_SHARE = 0.5
"""What a layer is given at least, s: about what a proof takes; those that then get none are named,
in place of one mapping of little worth for each."""

LEAST_SECONDS = 0.05
"""What a search is given that has begun, s."""

PATIENCE_SECONDS = 3.0
"""How much longer than its time what every layer has to have may take: a map space, a mapping."""

AFTER_SECONDS = 1.0
"""How long answers are waited for that were under way when the time was over."""


class TimeLeft:
    """The time of a network, which the layers that are left share alike."""

    def __init__(self, seconds: float | None) -> None:
        """Begins now.

        Args:
            seconds: how many there are; None: as many as it takes.
        """
        self.seconds = seconds
        self._patience = PATIENCE_SECONDS
        self._ends = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, less than 0 when it is over."""
        return self._ends - time.monotonic()

    @property
    def over(self) -> bool:
        """Whether nothing more is to begin."""
        return self.left <= 0

    @property
    def is_long_over(self) -> bool:
        """Whether nothing more is to be waited for."""
        return self.left <= -AFTER_SECONDS

    def share(self, layers: int, at_once: int = 1) -> float | None:
        """What the next of so many layers may take, s; None: as long as it takes.

        Args:
            layers: how many are left.
            at_once: how many are searched at a time.
        """
        if self.seconds is None:
            return None
        even = self.left * at_once / layers
        return max(LEAST_SECONDS, min(max(even, LEAST_SHARE), self.left))

    def require(self, done: int, layers: int, what: str = "distinct layers") -> None:
        """Ends what no part of the layers is an answer to, once it takes much longer than its time.

        Args:
            done: how many layers are done.
            layers: of how many.
            what: what they are, for the message.

        Raises:
            DataError: the time is over.
        """
        if self.left < -self._patience:
            raise DataError(
                f"In {self.seconds:g} s {done:,} of {layers:,} {what} were begun, and no part of "
                "them is an answer; expected more seconds, or each layer by itself."
            )

    def part(self, seconds: float, *, patient: bool = True) -> TimeLeft:
        """A part of it that begins now, with patience of its own; what it says is of the whole.

        Args:
            seconds: how many.
            patient: whether what it is for may take longer, there being no answer without it.
        """
        found = TimeLeft(self.seconds)
        found._ends = time.monotonic() + max(LEAST_SECONDS, seconds)
        found._patience = PATIENCE_SECONDS if patient else 0.0
        return found

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What takes none of the time, such as to compile."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._ends += time.monotonic() - began
