"""Measures tilings on Ray: one task per core, the same measurement as on one machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from costmodel.tiling.measurement import STATUS_RUN_FAILED, Measurement, Request
from costmodel.tiling.measurement_runner import Runner, hardware_name
from mapspace.errors import ConfigError
from orchestrator.runs.ray_runtime import completed

WORKERS_DIED = Measurement(STATUS_RUN_FAILED, explanation="Ray workers kept dying on it")


def measure_on_ray(requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
    """Measures requests `[B]` on Ray tasks; for `MeasuredTiling(execute=measure_on_ray)`.

    A task takes one core of the cluster and locks one of its machine while it measures.

    Yields:
        (row, measurement), as they are done.

    Raises:
        ConfigError: TVM is missing on a machine, or machines have different hardware, whose times
            cannot be compared.
    """
    for (row, request), answer in completed(_measure, list(enumerate(requests))):
        if answer is None:
            yield row, WORKERS_DIED
            continue
        measurement, hardware = answer
        here = hardware_name(request.settings.target)
        if hardware != here:
            raise ConfigError(
                f"Times of different hardware cannot be compared: {here} here, {hardware} on "
                "another machine of the cluster."
            )
        yield row, measurement


def _measure(item: tuple[int, Request]) -> tuple[Measurement, str]:
    _, request = item
    return _runner().measure(request), hardware_name(request.settings.target)


@lru_cache(maxsize=1)
def _runner() -> Runner:
    """The one of this Ray worker, which serves task after task."""
    return Runner()
