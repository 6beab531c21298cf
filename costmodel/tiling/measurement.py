"""What is measured, how, and what comes back: plain data that travels to workers and caches."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from costmodel.costs import STATUS_OK
from mapspace.errors import ConfigError

TARGETS = ("llvm", "cuda")
"""The processor of this machine with all its instructions, and its first NVIDIA GPU."""

STATUS_BUILD_FAILED = -1
STATUS_RUN_FAILED = -2  # it raised, or the process died
STATUS_TIMED_OUT = -3
STATUS_WRONG_RESULT = -4


@dataclass(frozen=True)
class Settings:
    """How a tiling is measured.

    On a processor a time is the processor time of the one thread that runs, so that others who use
    the machine hardly change it; where nobody does, it is the time on the wall. On a GPU it is the
    time on the wall.

    Attributes:
        target: one of `TARGETS`.
        repeats: most timed repeats after the warm-up. A repeat runs the product as often as fills
            `min_repeat_seconds` and counts the mean.
        time_limit: seconds for building, checking, warming up and all repeats together.
        min_repeat_seconds: shortest repeat.
        repeat_seconds: no more repeats than the warm-up lets expect to fit; a warm-up that takes
            this long is itself the one timed run.
        check: compare the result with NumPy's.

    Raises:
        ConfigError: an unknown target, or a number out of range.
    """

    target: str = "llvm"
    repeats: int = 10
    time_limit: float = 10.0
    min_repeat_seconds: float = 0.003
    repeat_seconds: float = 0.5
    check: bool = True

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise ConfigError(f"Unknown target {self.target!r}; known: {', '.join(TARGETS)}.")
        if self.repeats < 1:
            raise ConfigError(f"repeats must be at least 1, got {self.repeats}.")
        for name in ("time_limit", "min_repeat_seconds", "repeat_seconds"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0 seconds, got {getattr(self, name)}.")


@dataclass(frozen=True)
class Request:
    """One tiling to measure.

    Attributes:
        factors: trip counts m0 m1 .. k0 k1 .. n0 n1 ..
        splits: nested loops of M, K and N.
        settings: how.
    """

    factors: tuple[int, ...]
    splits: tuple[int, int, int]
    settings: Settings

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Request:
        """The inverse of `to_json`."""
        m, k, n = fields["splits"]
        return cls(tuple(fields["factors"]), (m, k, n), Settings(**fields["settings"]))


@dataclass(frozen=True)
class Measurement:
    """What came of a request.

    Attributes:
        status: 0 OK, -1 it could not be built, -2 it failed while running, -3 the time limit,
            -4 another result than NumPy's.
        seconds: one entry per repeat, empty unless OK.
        explanation: one line where the status is not OK.
        spent: seconds that it all took, building included; no part of what was found.
    """

    status: int
    seconds: tuple[float, ...] = ()
    explanation: str = ""
    spent: float = field(default=0.0, compare=False)

    @property
    def ok(self) -> bool:
        """Whether there are times."""
        return self.status == STATUS_OK

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Measurement:
        """The inverse of `to_json`."""
        return cls(
            fields["status"], tuple(fields["seconds"]), fields["explanation"], fields["spent"]
        )
