"""Energy, area and leakage of memories and arithmetic, from the tables that are shipped.

`presets/components.md` says what made the tables and under which licences. Between two sizes of a
memory figures follow the logarithm of the size; everything else must be in the table.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "presets"
MEMORY_SOURCE = "table of hwcomponents-cacti 1.0.40"
"""What the figures of memories come from, as results name it."""
LOGIC_SOURCE = "table of hwcomponents-library 1.0.58"
"""Likewise those of registers and arithmetic."""
# Energies, areas and leakages of a model have no more digits that mean anything.
DIGITS = 4


class NotInTableError(ValueError):
    """A component that the table does not have, in one line with the nearest that it has."""


class Figures(NamedTuple):
    """What a component costs.

    Attributes:
        read_pj, write_pj: energy of one access of its width, pJ; of arithmetic: of one operation.
        area_mm2: its area, mm2; None: it is not on the chip.
        leakage_w: what it takes whether or not it is used, W.
        source: what says so.
        cycle_ns: from one access to the next, ns; None: nothing says it.
    """

    read_pj: float
    write_pj: float
    area_mm2: float | None
    leakage_w: float
    source: str
    cycle_ns: float | None = None

    def rounded(self) -> Figures:
        """With as many digits as mean something."""
        area = None if self.area_mm2 is None else significant(self.area_mm2)
        numbers = significant(self.read_pj), significant(self.write_pj)
        cycle = None if self.cycle_ns is None else significant(self.cycle_ns)
        return Figures(*numbers, area, significant(self.leakage_w), self.source, cycle)


def significant(value: float) -> float:
    """A number with `DIGITS` significant digits; the order of numbers stays."""
    return float(f"{value:.{DIGITS}g}")


def sram(node_nm: float, width_bits: int, ports: int, banks: int, bits: int) -> Figures:
    """A memory of CACTI, per access of its width.

    Args:
        node_nm: technology node, nm.
        width_bits: bits of one access.
        ports: ports that read or write.
        banks: banks.
        bits: size of all banks together.

    Raises:
        NotInTableError: there is none.
    """
    kept = _srams()
    wanted = {"node_nm": node_nm, "width_bits": width_bits, "ports": ports, "banks": banks}
    for place, (name, value) in enumerate(wanted.items()):
        _require(f"sram: {name}", value, (key[place] for key in kept))
    sizes = kept.get((node_nm, width_bits, ports, banks), {})
    listed = sorted(sizes)
    if not listed or not listed[0] <= bits <= listed[-1]:
        named = ", ".join(f"{name} {value:g}" for name, value in wanted.items())
        between = f"{listed[0]:,} to {listed[-1]:,}" if listed else "none at all"
        raise NotInTableError(
            f"sram: bits: the table has {between} for {named}, not {bits:,}; nearest: "
            f"{min(listed, key=lambda size: abs(math.log(size / bits))):,}."
            if listed
            else f"sram: the table has no memory with {named}."
        )
    above = listed[bisect_left(listed, bits)]
    if above == bits:
        return _figures(sizes[bits], MEMORY_SOURCE)
    below = listed[bisect_left(listed, bits) - 1]
    share = math.log(bits / below) / math.log(above / below)
    between_both = [
        math.exp((1 - share) * math.log(low) + share * math.log(high))
        for low, high in zip(sizes[below], sizes[above], strict=True)
    ]
    return _figures(between_both, f"{MEMORY_SOURCE}, between {below:,} and {above:,} bits")


def registers(node_nm: float, width_bits: int, bits: int) -> Figures:
    """Registers, per access of some bits; nothing is counted for choosing among them.

    Raises:
        NotInTableError: the table does not have the node.
    """
    rows = _rows("registers")
    _require("registers: node_nm", node_nm, (row["node_nm"] for row in rows))
    one = next(row for row in rows if row["node_nm"] == node_nm)
    return Figures(
        one["read_pj"] * width_bits,
        one["write_pj"] * width_bits,
        one["area_mm2"] * bits,
        one["leakage_w"] * bits,
        LOGIC_SOURCE,
    ).rounded()


def dram(kind: str, width_bits: int) -> Figures:
    """A memory outside the chip, per access of some bits: a constant per bit, the interface's too.

    Args:
        kind: one of `DRAM_KINDS`.
        width_bits: bits of one access.
    """
    read, write = _drams()[kind]
    return Figures(read * width_bits, write * width_bits, None, 0.0, MEMORY_SOURCE).rounded()


def int_mac(node_nm: float, multiplier_bits: int, adder_bits: int) -> Figures:
    """A unit that multiplies two integers and adds.

    Raises:
        NotInTableError: there is none.
    """
    rows = _rows("mac")
    wanted = {"node_nm": node_nm, "multiplier_bits": multiplier_bits, "adder_bits": adder_bits}
    for name, value in wanted.items():
        _require(f"int-mac: {name}", value, (row[name] for row in rows))
        rows = [row for row in rows if row[name] == value]
    energy = rows[0]["energy_pj"]
    found = Figures(energy, energy, rows[0]["area_mm2"], rows[0]["leakage_w"], LOGIC_SOURCE)
    return found.rounded()


def _require(name: str, value: float, known: Iterable[float]) -> None:
    there = sorted(set(known))
    if value not in there:
        nearest = min(there, key=lambda one: abs(math.log(one / value)))
        listed = ", ".join(f"{one:g}" for one in there)
        raise NotInTableError(
            f"{name}: the table has {listed}, not {value:g}; nearest: {nearest:g}."
        )


def _figures(row: Iterable[float], source: str) -> Figures:
    read, write, area, leakage, cycle = row
    return Figures(read, write, area, leakage, source, cycle).rounded()


def _lines(table: str) -> list[dict[str, str]]:
    with (FOLDER / f"components-{table}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


@cache
def _rows(table: str) -> list[dict[str, float]]:
    return [{key: float(value) for key, value in row.items()} for row in _lines(table)]


@cache
def _drams() -> Mapping[str, tuple[float, float]]:
    return {row["kind"]: (float(row["read_pj"]), float(row["write_pj"])) for row in _lines("dram")}


@cache
def _srams() -> Mapping[tuple[float, int, int, int], Mapping[int, tuple[float, ...]]]:
    """By node, width, ports and banks, then by size: energies, area, leakage and cycle."""
    found: dict[tuple[float, int, int, int], dict[int, tuple[float, ...]]] = {}
    for row in _lines("sram"):
        key = float(row["node_nm"]), int(row["width_bits"]), int(row["ports"]), int(row["banks"])
        numbers = ("read_pj", "write_pj", "area_mm2", "leakage_w", "cycle_ns")
        found.setdefault(key, {})[int(row["bits"])] = tuple(float(row[name]) for name in numbers)
    return found
