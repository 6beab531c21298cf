"""A machine in real units: area in mm2, leakage in W, and where each number comes from.

Areas are those of memories and multiply-accumulate units. Wires, networks, control and pads are
not in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.machines.component_entries import FROM_FILE
from costmodel.machines.component_tables import NotInTableError, sram
from costmodel.machines.components import in_watts
from costmodel.machines.levels import Level
from costmodel.machines.machine import Machine

MACS = "MAC"


@dataclass(frozen=True)
class Part:
    """A level or the units, one instance of it and how many there are.

    Attributes:
        name: the level's, or `MAC`.
        what: its component in words; empty where it has none.
        count: instances.
        energies_pj: read, fill and update of an access, pJ; of an operation all the same.
        area_mm2: of one instance, mm2; None: not known, or outside the chip.
        leakage_w: of one instance, W.
        sources: of energy, leakage and area; None where the number is not known.
    """

    name: str
    what: str
    count: int
    energies_pj: tuple[float, float, float]
    area_mm2: float | None
    leakage_w: float
    sources: tuple[str, str, str | None]


def has_real_units(machine: Machine) -> bool:
    """Whether a machine's file speaks of components or areas."""
    return machine.mac_component is not None or any(
        level.component is not None or level.area_mm2 is not None for level in machine.levels
    )


def without_area(machine: Machine) -> tuple[str, ...]:
    """The levels on the chip, and the units, of which no area is known."""
    levels = (level.name for level in machine.levels if needs_area(level))
    return (*levels, *([] if machine.mac_area_mm2 is not None else [MACS]))


def needs_area(level: Level) -> bool:
    """Whether a level lies on the chip, holds something and says no area."""
    return not level.is_dram and level.capacity_words != 0 and level.area_mm2 is None


def area_mm2(machine: Machine) -> float | None:
    """Area of all memories and units on the chip, mm2; None where one of them is not known."""
    if without_area(machine):
        return None
    areas = [0.0 if level.is_dram else level.area_mm2 or 0.0 for level in machine.levels]
    return summed_area(areas, [level.fanout for level in machine.levels], machine.mac_area_mm2)


def summed_area(
    areas: Sequence[float], fanouts: Sequence[int], mac_area_mm2: float | None
) -> float:
    """Area of all instances, mm2: never less where one of the numbers is more.

    Args:
        areas: of an instance of each level, outermost first, mm2.
        fanouts: children of an instance of each.
        mac_area_mm2: of a unit, mm2.
    """
    count, total = 1, 0.0
    for area, fanout in zip(areas, fanouts, strict=True):
        total += count * area
        count *= fanout
    return total + count * (mac_area_mm2 or 0.0)


def leakage_w(machine: Machine) -> float:
    """Leakage with every level and unit on, W."""
    count, total = 1, 0.0
    for level in machine.levels:
        total += count * in_watts(level.leakage_pj, machine.clock_ghz)
        count *= level.fanout
    return total + count * in_watts(machine.mac_leakage_pj, machine.clock_ghz)


def idle_leakage_w(machine: Machine, record: Mapping[str, Any]) -> float:
    """What leaks of the instances that a mapping leaves idle, W; its energy has that of the others.

    Args:
        machine: the machine.
        record: the mapping as a mapping record.
    """
    whole = leakage_w(machine)
    if whole == 0:
        return 0.0
    said, leaks = record["mapping"], {level.name: level.leakage_pj for level in machine.levels}
    if isinstance(said, Mapping):
        # Three levels have a form of their own, in which what is kept has an entry, too.
        entries = [(name, said[name]) for name in leaks]
    else:
        entries = [(entry["level"], entry) for entry in said]
        # Parts of a level whose tiles stand apart are levels of the record alone.
        parts = record.get("arch", {}).get("levels", ())
        leaks |= {part["name"]: part.get("leakage_pj", 0.0) for part in parts}
    used, in_use = 1, 0.0
    for name, entry in entries:
        in_use += used * in_watts(leaks[name], machine.clock_ghz)
        spread = entry.get("spatial", {})
        factors = spread.values() if isinstance(spread, Mapping) else (loop[1] for loop in spread)
        used *= math.prod(map(int, factors))
    in_use += used * in_watts(machine.mac_leakage_pj, machine.clock_ghz)
    return max(0.0, whole - in_use)


def mean_idle_w(
    machine: Machine, runs: Iterable[tuple[float, Mapping[str, Any]]], cycles: float
) -> float:
    """What leaks on average of instances that mappings which run in turn leave idle, W.

    Args:
        machine: the machine.
        runs: the cycles that each takes in all, and its mapping record.
        cycles: of everything; in those of no run words move at the outermost level alone.
    """
    moving, summed = cycles, 0.0
    for its, record in runs:
        moving -= its
        summed += its * idle_leakage_w(machine, record)
    outside = in_watts(machine.levels[0].leakage_pj, machine.clock_ghz)
    return (summed + max(0.0, moving) * (leakage_w(machine) - outside)) / cycles


def slow_memories(machine: Machine) -> Iterator[tuple[str, float]]:
    """The memories of which an access takes longer than a cycle of the clock, by CACTI's tables.

    Of a memory that is not in the tables nothing is known.

    Yields:
        The level's name, and ns from one access to the next.
    """
    for level in machine.levels:
        made, node = level.component, machine.node_nm
        if made is None or made.kind != "sram" or node is None or not level.capacity_words:
            continue
        word = level.word_bits or machine.word_bits
        try:
            found = sram(
                node,
                word * level.block_words,
                made.ports,
                made.banks,
                word * level.capacity_words,
            )
        except NotInTableError:
            continue
        if found.cycle_ns is not None and found.cycle_ns * machine.clock_ghz > 1:
            yield level.name, found.cycle_ns


def parts(machine: Machine) -> Iterator[Part]:
    """The levels, outermost first, and the units."""
    count = 1
    for level in machine.levels:
        made = level.component
        what: str = "" if made is None else made.kind
        if made is not None and made.kind == "sram":
            what += f" of {_plural(made.ports, 'port')}, {_plural(made.banks, 'bank')}"
        said = level.sources
        yield Part(
            level.name,
            what,
            count,
            level.energies,
            level.area_mm2,
            in_watts(level.leakage_pj, machine.clock_ghz),
            (
                said.energy_pj or FROM_FILE,
                said.leakage_pj or FROM_FILE,
                None if level.area_mm2 is None else said.area_mm2 or FROM_FILE,
            ),
        )
        count *= level.fanout
    energy, origin = machine.mac_energy_pj, machine.sources
    yield Part(
        MACS,
        "" if machine.mac_component is None else machine.mac_component.kind,
        count,
        (energy, energy, energy),
        machine.mac_area_mm2,
        in_watts(machine.mac_leakage_pj, machine.clock_ghz),
        (
            origin.mac_energy_pj or FROM_FILE,
            origin.mac_leakage_pj or FROM_FILE,
            None if machine.mac_area_mm2 is None else origin.mac_area_mm2 or FROM_FILE,
        ),
    )


def unit_lines(machine: Machine) -> Iterator[str]:
    """A line per level and unit, and one of the chip; nothing where the file has no real units."""
    if not has_real_units(machine):
        return
    node = "" if machine.node_nm is None else f" at {machine.node_nm:g} nm"
    yield f"energy per access, area and leakage{node}, of an instance"
    for part in parts(machine):
        yield f"  {_line(part)}"
    yield f"chip: {chip_text(machine)}"


def chip_text(machine: Machine) -> str:
    """Area and leakage of the whole chip, in words."""
    area, missing = area_mm2(machine), without_area(machine)
    size = f"not known (of {', '.join(missing)})" if area is None else f"{area:.4g} mm2"
    told = (
        f"area {size}, without wires, networks and control; "
        f"leakage {leakage_w(machine):.4g} W with everything on"
    )
    if slow := dict(slow_memories(machine)):
        listed = ", ".join(f"{name} ({cycle:g} ns)" for name, cycle in slow.items())
        told += f"; slower than a cycle of {1 / machine.clock_ghz:.4g} ns, not counted: {listed}"
    return told


def idle_text(watts: float) -> str:
    """Mean power where idle instances leak as well, W, in words."""
    return f"{watts:.4g} W with all that is idle leaking, too"


def _line(part: Part) -> str:
    read, fill, update = part.energies_pj
    each = f"{read:g} pJ" if read == fill == update else f"read {read:g}, write {fill:g} pJ"
    if fill != update:
        each = f"read {read:g}, fill {fill:g}, update {update:g} pJ"
    numbers = [each, f"{part.leakage_w:.4g} W"]
    sources = [*part.sources[:2]]
    if part.area_mm2 is not None and part.sources[2] is not None:
        numbers.append(f"{part.area_mm2:g} mm2")
        sources.append(part.sources[2])
    if len(set(sources)) == 1:
        told = f"{', '.join(numbers)} ({sources[0]})"
    else:
        told = ", ".join(f"{n} ({s})" for n, s in zip(numbers, sources, strict=True))
    count = f" x {part.count:,}" if part.count > 1 else ""
    what = f", {part.what}" if part.what else ""
    return f"{part.name}{count}{what}: {told}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# What machines have that people describe, from analogue arrays to memories outside the chip. Beyond
# these a unit is likely to be mistaken for another: MHz for GHz, nJ for pJ, bytes for kB.
USUAL = {
    "clock_ghz": (0.005, 10.0),
    "word_bits": (1, 1024),
    "mac_energy_pj": (1e-3, 300.0),
    "outermost_energy_pj": (0.5, 1e5),
    "energy_pj": (1e-3, 1e3),
    "hop_energy_pj": (1e-4, 300.0),
    "leakage_pj": (0, 1e5),
    "capacity_words": (0, 2e8),
}
_MEANT = {
    "clock_ghz": "GHz",
    "word_bits": "bits",
    "mac_energy_pj": "pJ",
    "outermost_energy_pj": "pJ per word of an outermost memory",
    "energy_pj": "pJ per word",
    "hop_energy_pj": "pJ per word and hop",
    "leakage_pj": "pJ per cycle",
    "capacity_words": "words",
}


def unusual_units(machine: Machine) -> list[str]:
    """Quantities that no machine has, most likely of another unit, a line each."""
    said: list[tuple[str, str, float]] = [
        (key, key, getattr(machine, key)) for key in ("clock_ghz", "word_bits", "mac_energy_pj")
    ]
    for index, level in enumerate(machine.levels):
        place = f"levels[{level.name}]"
        kind = "energy_pj" if index or level.capacity_words else "outermost_energy_pj"
        said += [
            (kind, f"{place}.energy_pj", level.word_energy_pj),
            ("capacity_words", f"{place}.capacity_words", level.capacity_words or 0),
            ("hop_energy_pj", f"{place}.hop_energy_pj", level.hop_energy_pj),
            ("leakage_pj", f"{place}.leakage_pj", level.leakage_pj),
            ("word_bits", f"{place}.word_bits", level.word_bits or 0),
        ]
    found = []
    for kind, where, value in said:
        least, most = USUAL[kind]
        if value and not least <= value <= most:
            found.append(f"{where}: {value:g} {_MEANT[kind]} is unusual; is it another unit?")
    return found
