"""What limits a mapping: its multiply-accumulate units, each level's bandwidth and capacity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from costmodel.arrays.machine_tables import usable_words
from costmodel.costs import Detail
from costmodel.loop_nest.passes import passes_of, transfers_of
from costmodel.machines.levels import Level
from costmodel.machines.packing import pack
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from orchestrator.report.units import percent
from orchestrator.schemas.costs import LimitAnswer

COMPUTE = "compute"
LATENCY = "network latency"

Kind = Literal["compute", "array", "startup", "waiting", "bandwidth", "latency", "capacity"]


@dataclass(frozen=True)
class Limit:
    """One bound of the machine, and how near a mapping comes to it.

    Attributes:
        name: `compute`, a level and what crosses it such as `DRAM reads`, or a level.
        amount: multiply-accumulate units at work, words per cycle and instance, or words held; of
            an array cycles in which it is loaded, filled or drained, of start-ups theirs, of
            waiting those in which work waits for tiles.
        most: units that there are, the bandwidth, or the words that a level takes (all copies of
            its tiles counted once); of what is counted in cycles, the mapping's cycles.
        kind: which of these.
        cycles: what the mapping would take if nothing else held it up; 0 of a capacity. Those of
            computing and of arrays come one after another; waiting is added to all.
    """

    name: str
    amount: float
    most: float
    kind: Kind = "bandwidth"
    cycles: float = 0.0

    @property
    def share(self) -> float:
        """How much of the bound is used; 1 where it binds."""
        return self.amount / self.most if self.most else 0.0

    def to_dict(self) -> LimitAnswer:
        """For JSON."""
        return {
            "name": self.name,
            "amount": self.amount,
            "most": self.most,
            "kind": self.kind,
            "cycles": self.cycles,
            "share": self.share,
        }

    def __str__(self) -> str:
        if self.name == COMPUTE:
            return f"compute: {self.amount:,.0f} of {self.most:,.0f} elements at work"
        if self.kind == "capacity":
            return f"{self.name}: {self.amount:,.0f} of {self.most:,.0f} words"
        if self.kind in ("latency", "array", "startup", "waiting"):
            return f"{self.name}: {self.amount:,.0f} of {self.most:,.0f} cycles"
        return f"{self.name}: {self.amount:.4g} of {self.most:g} words per cycle"


def limits_of(space: MapSpace, code: Codes, detail: Detail, cycles: float) -> tuple[Limit, ...]:
    """Every bound that the machine has, with the mapping's use of it.

    Args:
        space: the map space.
        code: `[D]` a feasible mapping.
        detail: its evaluation, `[1]`.
        cycles: its latency.

    Returns:
        The units first, then per level outermost first what crosses it and what it holds; what a
        level does not limit is left out.
    """
    machine, tables = space.accelerator, space.tables.machine
    packing = pack(machine, space.workload.bits_by_tensor)
    levels = space.describe(code).levels
    busy = math.prod(factor for level in levels for factor in level.spatial.values())
    steps = space.workload.macs * machine.cycles_per_mac / busy
    found = [Limit(COMPUTE, busy, machine.processing_elements, "compute", steps)]
    for one in passes_of(space, code):
        for what, took in (
            ("loading", one.loading),
            ("filling", one.filling),
            ("draining", one.draining),
        ):
            if took:
                found.append(Limit(f"{one.level} {what}", took, cycles, "array", took))
    for asked in transfers_of(space, code, detail.fills[0]):
        begun, waited = asked.startups, asked.waited
        if begun:
            found.append(Limit(f"{asked.level} startup", begun, cycles, "startup", begun))
        if waited:
            found.append(Limit(f"{asked.level} waiting", waited, cycles, "waiting", waited))
    waiting = sum(level.fill_latency + level.drain_latency for level in machine.levels)
    if waiting:
        found.append(Limit(LATENCY, waiting, cycles, "latency", waiting))
    writes, held = detail.fills[0] + detail.updates[0], packing.words(detail.tile[0])
    # Levels that share a room are one memory, with one set of ports.
    for first, stop in np.unique(tables.sharing, axis=0).tolist():
        level, its = machine.levels[first], slice(first, stop)
        name = level.name if stop == first + 1 else str(level.shares)
        read = float((detail.reads[0, its] * tables.words[its]).sum())
        written = float((writes[its] * tables.words[its]).sum())
        found += _bandwidths(level, name, read, written, cycles)
        if level.capacity_words:
            words = float(held[its].sum())
            found.append(Limit(name, words, usable_words(level), "capacity"))
    return tuple(found)


def _bandwidths(
    level: Level, memory: str, read: float, written: float, cycles: float
) -> Iterator[Limit]:
    for what, words, most in (
        ("reads", read, level.read_bandwidth),
        ("writes", written, level.write_bandwidth),
        ("accesses", read + written, level.bandwidth),
    ):
        if most is not None:
            name = f"{memory} {what}"
            yield Limit(name, words / cycles, most, "bandwidth", words / most)


def _memory(limit: Limit) -> str:
    """The memory that a limit is of, without what crosses it."""
    return limit.name.rpartition(" ")[0]


def slowest(limits: tuple[Limit, ...]) -> Limit:
    """What a mapping waits for.

    Returns:
        The transfer that takes longest, where the multiply-accumulate units wait for it; else the
        units themselves, or what an array does most of beside computing, if that is more. Latencies
        are added to either.
    """
    units = [limit for limit in limits if limit.kind in ("compute", "array")]
    asked = {_memory(limit): limit.cycles for limit in limits if limit.kind == "startup"}
    ports = [limit for limit in limits if limit.kind in ("bandwidth", "startup")]

    def taken(limit: Limit) -> float:
        """With the start-ups of what comes through a port."""
        return limit.cycles + (asked.get(_memory(limit), 0) if limit.kind == "bandwidth" else 0)

    slow = max(ports, key=taken, default=None)
    if slow is not None and taken(slow) > sum(limit.cycles for limit in units):
        return slow
    return max(units, key=lambda limit: limit.cycles)


def limits_text(limits: tuple[Limit, ...]) -> Iterator[tuple[str, str]]:
    """Lines of a report: cycles by cause, then what is used of bandwidths and of capacities."""
    timed = [limit for limit in limits if limit.cycles]
    if len(timed) > 1:
        longest = sorted(timed, key=lambda limit: -limit.cycles)
        yield "cycles by cause", ", ".join(f"{x.name} {x.cycles:,.0f}" for x in longest)
    for label, kind in (("bandwidth used", "bandwidth"), ("capacity used", "capacity")):
        used = [f"{x.name} {percent(x.share)}" for x in limits if x.kind == kind]
        if used:
            yield label, ", ".join(used)
