"""The cost of a tiling by measurement: TVM builds it, and the machine runs it.

The paper (Zhang et al., 2019, section 5) measures the same way and takes the mean of 10 runs.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import platformdirs

from costmodel.costs import Costs, FloatArray, IntArray
from costmodel.space import Codes
from costmodel.tiling.loop_nest import nest
from costmodel.tiling.measurement import Measurement, Request, Settings
from costmodel.tiling.measurement_runner import Execute, LocalRunners, hardware_name, tvm_version
from costmodel.tiling.measurement_store import MeasurementCache, Measurements
from costmodel.tiling.space import TilingSpace
from mapspace.errors import ConfigError, ContractError

Statistic = Literal["min", "mean"]
STATISTICS: tuple[Statistic, ...] = ("min", "mean")
SCHEDULE_VERSION = "2"
"""Of `costmodel.tiling.tvm_schedule`: a new one makes kept measurements worthless."""


class MeasuredCosts(Costs):
    """Measured times of B tilings: only the objective `latency` exists, in seconds.

    Attributes:
        seconds: `[B]` time of one product, inf where the status is not OK.
        status: `[B]` int32: 0 OK, else as in `costmodel.tiling.measurement`.
        excess: `[B]` 0.
        explanations: `[B]` one line where the status is not OK.
        detail: None.
    """

    seconds: FloatArray
    explanations: tuple[str, ...]

    def __init__(self, measurements: list[Measurement], statistic: Statistic = "min") -> None:
        reduce = min if statistic == "min" else np.mean
        seconds = [float(reduce(m.seconds)) if m.ok else np.inf for m in measurements]
        status: npt.NDArray[np.int32] = np.array([m.status for m in measurements], np.int32)
        excess: IntArray = np.zeros(len(measurements), np.int64)
        values = {
            "seconds": np.array(seconds),
            "status": status,
            "excess": excess,
            "detail": None,
            "explanations": tuple(m.explanation for m in measurements),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def energy_pj(self) -> NoReturn:
        """Not measured.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "A measured tiling has a time and no energy: use the objective latency (seconds)."
        )

    @property
    def latency_cycles(self) -> NoReturn:
        """Not measured: seconds are.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("A measured tiling has seconds, not cycles: use `seconds`.")

    def objective(self, name: str) -> FloatArray:
        """`[B]` seconds for `latency`, inf where the status is not OK.

        Raises:
            ConfigError: another objective.
        """
        return self.seconds if name == "latency" else super().objective(name)

    def tie_breaker(self, name: str) -> FloatArray:
        """`[B]` the objective itself: seconds are all that is measured."""
        return self.objective(name)

    def __repr__(self) -> str:
        return f"MeasuredCosts(seconds={self.seconds}, status={self.status})"


class MeasuredTiling:
    """Times tilings of a matrix product in float32, on one thread.

    Every request runs in a process that can be killed, pinned to a core; what was measured once is
    kept on disk. `latency` is the least of the repeats: what disturbs a run only makes it longer.

    Args:
        settings: how to measure.
        statistic: `min` of the repeats, or their `mean` as in the paper.
        workers: tilings measured at once, each on a core of its own.
        cache: file of kept measurements; None: `measurements.sqlite` in the user's cache folder.
        execute: what measures, instead of processes of this machine.

    Attributes:
        name: `measured`.
        version: changes with the schedule and with TVM.
        kept: where measurements are kept and looked for: that file, unless another one is set.
        cached: answers that were there so far.
        measured: answers that were measured so far.
        watch: called after every measurement; what it raises ends the batch, and what was measured
            until then is kept.

    Raises:
        ConfigError: TVM is not installed, or an argument is out of range.
    """

    name = "measured"

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        statistic: Statistic = "min",
        workers: int = 1,
        cache: Path | None = None,
        execute: Execute | None = None,
    ) -> None:
        if statistic not in STATISTICS:
            raise ConfigError(f"Unknown statistic {statistic!r}; known: {', '.join(STATISTICS)}.")
        self.settings = settings or Settings()
        self.statistic: Statistic = statistic
        self.version = f"{SCHEDULE_VERSION}+tvm{tvm_version()}"
        self.cached = 0
        self.measured = 0
        self.watch: Callable[[], None] = lambda: None
        self._saved = 0.0
        self.kept: Measurements = MeasurementCache(
            cache or platformdirs.user_cache_path("mapspace") / "measurements.sqlite"
        )
        self._runners = LocalRunners(workers)
        self._execute: Execute = execute or self._runners

    def evaluate(self, space: Any, codes: Codes, *, detail: bool = False) -> MeasuredCosts:
        """Measured times of codes; rows that repeat are measured once.

        Args:
            space: a `TilingSpace`.
            codes: `[B, D]`.
            detail: changes nothing.

        Returns:
            Seconds, inf where a tiling could not be built or run, or took too long.

        Raises:
            ContractError: another kind of space, or no codes of it.
            ConfigError: the target's hardware is not here.
            DataError: the cache cannot be used.
        """
        if not isinstance(space, TilingSpace):
            raise ContractError(f"MeasuredTiling needs a TilingSpace, got {type(space).__name__}.")
        started = time.perf_counter()
        requests = [
            Request(tuple(row), space.splits, self.settings)
            for row in space.factors(codes).tolist()
        ]
        unique = list(dict.fromkeys(requests))
        keys = [self._key(request) for request in unique]
        known = dict(zip(unique, self.kept.find(keys), strict=True))
        missing = [row for row, request in enumerate(unique) if known[request] is None]
        counted = 0.0
        for place, measurement in self._execute([unique[row] for row in missing]):
            row = missing[place]
            self.kept.keep(keys[row], measurement)
            known[unique[row]] = measurement
            self.measured += 1
            # Before somebody looks, who would see the clock go back at the end of the batch.
            counted += measurement.spent
            started = self._count(measurement.spent, started)
            self.watch()
        self.cached += len(requests) - len(missing)
        found = [kept for request in requests if (kept := known[request]) is not None]
        self._count(sum(measurement.spent for measurement in found) - counted, started)
        return MeasuredCosts(found, self.statistic)

    def clock(self) -> float:
        """Seconds, in which an answer takes as long as its measurement did, kept or not.

        For a search by time: without it, whoever measures last would find most of it done.
        """
        return time.perf_counter() + self._saved

    def _count(self, spent: float, started: float) -> float:
        """Lets the clock count seconds in place of those since a moment; the moment that is now."""
        now = time.perf_counter()
        self._saved += spent - (now - started)
        return now

    def close(self) -> None:
        """Ends the worker processes; they also end with this process."""
        self._runners.close()

    def _key(self, request: Request) -> str:
        """All that a measurement depends on, as text."""
        order = " ".join(loop.name for loop in nest(request.splits))
        return json.dumps(
            {
                "version": self.version,
                "hardware": hardware_name(request.settings.target),
                "order": order,
                "factors": request.factors,
                "settings": dataclasses.asdict(request.settings),
            },
            sort_keys=True,
        )
