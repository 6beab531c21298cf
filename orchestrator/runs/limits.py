"""What a run may take: processors, hours and core-hours of one call.

A limit that is reached ends a run as Ctrl-C does: what is finished is kept, and the same command
goes on from there, with limits of its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from mapspace.errors import ConfigError, MapspaceError

T = TypeVar("T")

PATIENCE_SECONDS = 3.0
"""How far past a limit to look at what is asked may go on."""


class LimitReachedError(MapspaceError):
    """A limit that the user set has ended a run, which the same command continues."""


@dataclass(frozen=True)
class Limits:
    """Limits of one call; None: there is none.

    Attributes:
        cores: processors that are used at once.
        hours: of time, from the beginning of the call.
        core_hours: hours times the processors that are used, whether they have work or not.
    """

    cores: int | None = None
    hours: float | None = None
    core_hours: float | None = None
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Looks whether they are numbers above 0.

        Raises:
            ConfigError: one is not.
        """
        if self.cores is not None and self.cores < 1:
            raise ConfigError(f"--cores: expected at least 1, got {self.cores}.")
        for name, value in (("--hours", self.hours), ("--core-hours", self.core_hours)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"{name}: expected a number above 0, got {value}.")

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """What goes through items inside, by `looked_at`, ends when a limit is reached."""
        token = _PREPARING.set(self)
        try:
            yield
        finally:
            _PREPARING.reset(token)

    def seconds_left(self, processors: int) -> float:
        """Time until a limit is reached where so many processors are used; infinite without one."""
        most = min(
            math.inf if self.hours is None else self.hours,
            math.inf if self.core_hours is None else self.core_hours / processors,
        )
        return most * 3600 - (time.monotonic() - self._began)

    def of(self, processors: int) -> int:
        """How many of the processors that are there may be used."""
        return processors if self.cores is None else min(processors, self.cores)

    def reached(self, processors: int) -> str:
        """Which limit is reached where so many processors are used, in words; empty: none is."""
        hours = (time.monotonic() - self._began) / 3600
        if self.hours is not None and hours >= self.hours:
            return f"{self.hours:g} hours"
        if self.core_hours is not None and hours * processors >= self.core_hours:
            many = "1 processor" if processors == 1 else f"{processors:,} processors"
            return f"{self.core_hours:g} core-hours on {many}"
        return ""


_PREPARING: ContextVar[Limits | None] = ContextVar("_PREPARING", default=None)


def looked_at(items: Iterable[T], where: str, what: str) -> Iterator[T]:
    """Items that are looked at before a run begins, until a limit of the call is well past.

    What takes little goes on: the same call would get no further else.

    Args:
        items: such as the machines of a grid.
        where: what a message starts with.
        what: what they are, in the plural.

    Raises:
        LimitReachedError: it is past; nothing is written then.
    """
    limits = _PREPARING.get()
    for number, item in enumerate(items):
        if limits is not None and limits.seconds_left(1) < -PATIENCE_SECONDS:
            raise LimitReachedError(
                f"{where}: stopped after {limits.reached(1)}, when {number:,} {what} had been "
                "looked at and nothing was begun; expected more time or fewer of them."
            )
        yield item
