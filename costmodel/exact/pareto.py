"""The proven energy-latency front of a machine without bandwidth limits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from costmodel.exact.objective import INFINITE
from costmodel.exact.prover import Prover
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ConfigError


@dataclass(frozen=True)
class FrontPoint:
    """A mapping that no other beats in energy and latency at once.

    Attributes:
        elements: processing elements in use.
        latency_cycles: cycles.
        energy_pj: energy, pJ.
        code: `[D]` the mapping.
    """

    elements: int
    latency_cycles: int
    energy_pj: float
    code: Codes


def pareto_front(
    space: MapSpace,
    *,
    keep: Mapping[str, Sequence[str]] | None = None,
    after_point: Callable[[int, int], None] | None = None,
    ends: float = math.inf,
) -> tuple[list[FrontPoint], bool]:
    """All points of the front, fastest first, and whether they are all.

    Without bandwidth limits the cycles are the MACs of one element, so the least energy for each
    number of elements gives the front; of those, one that needs no less energy than a faster one
    is off it, and is only searched for below that energy.

    Args:
        space: a map space that can be proven, without bandwidth limits.
        keep: the tensors that a level keeps, for levels where that is not searched.
        after_point: called with (element counts done, all of them) after each.
        ends: when to stop, by the monotonic clock; the points found then are on the front.

    Raises:
        ConfigError: the space cannot be proven, has bandwidth limits, or has no feasible mapping.
    """
    for level in space.accelerator.levels:
        if level.read_bandwidth is not None or level.write_bandwidth is not None:
            raise ConfigError(
                f"The front is proven for machines without bandwidth limits; "
                f"{space.accelerator.name} has one at {level.name}."
            )
    prover = Prover(space, objective="energy", keep=keep, build=False)
    points: list[FrontPoint] = []
    while not prover.built:
        if time.monotonic() >= ends:
            return points, False
        prover.build_on()
    least = INFINITE
    counts = prover.element_counts[::-1]
    for done, elements in enumerate(counts, start=1):
        try:
            found = prover.search_vectors(elements, (least, 0), ends)
        except TimeoutError:
            return points, False
        if found is not None:
            (energy, cycles), code = found
            least = energy
            points.append(FrontPoint(elements, cycles, float(energy * prover.unit_pj), code))
        if after_point is not None:
            after_point(done, len(counts))
    return points, True
