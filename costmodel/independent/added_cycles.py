"""Cycles beside multiply-accumulates and ports, in plain Python: passes, start-ups, waiting."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.transfers import value_of
from costmodel.problems.affine import Workload

Orders = tuple[tuple[int, ...], ...]


class Tiling(Protocol):
    """What is read of a tiling: the tensors that every level keeps."""

    @property
    def keep(self) -> Sequence[frozenset[int]]:
        """By level."""


class Counted(Protocol):
    """What counts words."""

    workload: Workload
    accelerator: Accelerator
    axes: list[list[list[tuple[int, int]]]]
    shares: list[list[tuple[int, int]]]

    def entering(
        self, tiling: Any, orders: Orders, t: int, level: int, known: dict[object, int]
    ) -> int:
        """Words that enter a tensor's tile at one instance of a level."""

    def first_words(self, tiling: Any, level: int) -> int:
        """Words of the output that an instance is the first to see."""

    def loops(self, tiling: Any, orders: Orders, level: int) -> Iterator[tuple[int, int, int]]:
        """The temporal loops above a level's tile, innermost first."""


def turning(
    counter: Counted, tiling: Tiling, orders: Orders, steps: int, known: dict[object, int]
) -> int:
    """Cycles in which arrays are loaded, filled and drained, a pass after the other."""
    cycles = 0
    for position, level in enumerate(counter.accelerator.levels):
        if level.array is None:
            continue
        width, height = level.mesh or (level.fanout, 1)
        for t, (name, role) in enumerate(counter.workload.roles.items()):
            if not {name, role} & set(level.array.stationary):
                continue
            inside = range(position + 1, len(tiling.keep))
            elements = [index for index in inside if t in tiling.keep[index]]
            passes = counter.entering(tiling, orders, t, elements[0], known) if elements else steps
            cycles += passes * sum(level.array.parts(height, width))
    return cycles


def transfers(
    counter: Counted,
    tiling: Tiling,
    orders: Orders,
    moved: tuple[int, list[float], list[float]],
    known: dict[object, int],
) -> tuple[int, int]:
    """Cycles of ports with start-ups of tiles, and those that work waits for tiles.

    Takes out of what levels take in beside work what work waits for.
    """
    steps, read, written = moved
    slowest, waited = 0, 0.0
    for index, level in enumerate(counter.accelerator.levels):
        startups = 0
        shared = math.inf if level.bandwidth is None else level.bandwidth
        reading = math.inf if level.read_bandwidth is None else level.read_bandwidth
        writing = math.inf if level.write_bandwidth is None else level.write_bandwidth
        for t, (name, role) in enumerate(counter.workload.roles.items()):
            outside = any(t in tiling.keep[outer] for outer in range(index))
            if t not in tiling.keep[index] or not outside:
                continue
            asked = value_of(level.startup, name, role, 0)
            asked *= tiles_arriving(counter, tiling, orders, t, index)
            if value_of(level.buffering, name, role, "double") == "double":
                startups += asked
                continue
            accesses, values = counter.shares[t][index]
            width = accesses * level.block_words / values
            words = counter.entering(tiling, orders, t, index, known)
            output = t == len(counter.axes) - 1
            elided = output and counter.accelerator.output_fills != "charged"
            fills = width * (words - (counter.first_words(tiling, index) if elided else 0))
            waited += asked + fills / min(writing, shared)
            waited += width * words / min(reading, shared) if output else 0.0
            if min(reading, writing, shared) < math.inf:
                written[index] -= fills / steps
        if startups:
            into = written[index] * steps
            both = read[index] * steps + into
            slowest = max(slowest, math.ceil(startups + max(into / writing, both / shared)))
    return slowest, math.ceil(waited)


def tiles_arriving(counter: Counted, tiling: Tiling, orders: Orders, t: int, level: int) -> int:
    """How often another tile of a tensor comes to an instance of a level."""
    count = 1
    for d, trips, _ in counter.loops(tiling, orders, level):
        moves = any(e == d for terms in counter.axes[t] for e, _ in terms)
        if trips > 1 and (moves or count > 1):
            count *= trips
    return count
