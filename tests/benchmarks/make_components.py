"""Makes the tables of components that are shipped, with hwcomponents and its CACTI.

Needs Python 3.12 and an environment of its own:

    pip install hwcomponents==1.0.114 hwcomponents-cacti==1.0.40 hwcomponents-library==1.0.58 \
        hwcomponents-adc==1.0.21 hwcomponents-neurosim==1.0.43
    python tests/benchmarks/make_components.py costmodel/presets tests/golden/components/sram.csv

The program that hwcomponents-cacti brings needs glibc 2.38. On older systems it is built from the
sources beside it: `make NTHREADS=1 opt` in `hwcomponents_cacti/cacti`. A run that was ended goes
on where it was; an hour on one core.
"""

from __future__ import annotations

import csv
import itertools
import math
import statistics
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hwcomponents_cacti import DDR3, HBM2, HBM3, HBM4, LPDDR, LPDDR4, SRAM
from hwcomponents_library.library.aladdin import AladdinIntMAC, AladdinRegister

NODES_NM = (45, 22, 65, 32, 90)
WIDTHS = (32, 64, 128, 256, 512, 16, 8)
PORTS = (1, 2)
BANKS = (1, 2, 4, 8)
# 128 bytes to 32 MiB.
SIZES = tuple(2**exponent for exponent in range(10, 29))
MULTIPLIERS = (4, 8, 16, 32)
ADDERS = (8, 16, 24, 32, 48, 64)
# Bits of the bus, the least that the library takes.
DRAMS = {
    "lpddr": (LPDDR, 64),
    "lpddr4": (LPDDR4, 64),
    "ddr3": (DDR3, 64),
    "hbm2": (HBM2, 1024),
    "hbm3": (HBM3, 1024),
    "hbm4": (HBM4, 2048),
}


# Memories for the tests, of the library itself: between the table's sizes, and outside of it.
GOLDEN = [
    *itertools.product((45,), (64,), (1,), (1,), (3 << 12, 3 << 16, 3 << 20, 5 << 22)),
    *itertools.product((22,), (16, 256), (2,), (4,), (1 << 17, 3 << 17)),
    *itertools.product((28, 14), (32,), (1,), (2,), (1 << 16,)),
    (65, 24, 1, 1, 24 << 10),
    (90, 128, 1, 8, 1 << 22),
]


def digits(value: float) -> str:
    """Six significant ones."""
    return f"{value:.6g}"


def sram(node: int, width: int, ports: int, banks: int, bits: int) -> dict[str, Any]:
    """One memory as CACTI has it, pJ, mm2, W and ns."""
    found = SRAM(tech_node=node * 1e-9, size=bits, width=width, n_rw_ports=ports, n_banks=banks)
    return {
        "node_nm": node,
        "width_bits": width,
        "ports": ports,
        "banks": banks,
        "bits": bits,
        "read_pj": digits(found.read_energy * 1e12),
        "write_pj": digits(found.write_energy * 1e12),
        "area_mm2": digits(found.area * 1e6),
        "leakage_w": digits(found.leak_power),
        "cycle_ns": digits(found.cycle_period * 1e9),
    }


def write_srams(path: Path) -> None:
    """Every memory that CACTI finds a layout for; those in the file are not asked for again."""
    rows: dict[tuple[int, ...], Mapping[str, Any]] = {}
    if path.exists():
        with path.open(newline="") as lines:
            rows = {_place(row): row for row in csv.DictReader(lines)}
    for node, ports, banks in itertools.product(NODES_NM, PORTS, BANKS):
        # Sizes outside: narrow memories are scaled from wider ones, which the library remembers.
        for bits, width in itertools.product(SIZES, WIDTHS):
            if (node, width, ports, banks, bits) in rows or bits < width:
                continue
            try:
                row = sram(node, width, ports, banks, bits)
            except Exception as error:
                print(node, width, ports, banks, bits, error, file=sys.stderr, flush=True)
                continue
            rows[_place(row)] = row
        write(path, [rows[place] for place in sorted(rows)])


def _place(row: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(row[key]) for key in ("node_nm", "width_bits", "ports", "banks", "bits"))


def macs() -> Iterable[dict[str, Any]]:
    """Integer multiply-accumulate units."""
    for node, multiplier, adder in itertools.product(sorted(NODES_NM), MULTIPLIERS, ADDERS):
        if adder < multiplier:
            continue
        found = AladdinIntMAC(node * 1e-9, adder, multiplier)
        yield {
            "node_nm": node,
            "multiplier_bits": multiplier,
            "adder_bits": adder,
            "energy_pj": digits(found.mac().energy * 1e12),
            "area_mm2": digits(found.area * 1e6),
            "leakage_w": digits(found.leak_power),
        }


def registers() -> Iterable[dict[str, Any]]:
    """Registers, of one bit."""
    for node in sorted(NODES_NM):
        found = AladdinRegister(node * 1e-9, size=1)
        yield {
            "node_nm": node,
            "read_pj": digits(found.read(bits_per_action=1).energy * 1e12),
            "write_pj": digits(found.write(bits_per_action=1).energy * 1e12),
            "area_mm2": digits(found.area * 1e6),
            "leakage_w": digits(found.leak_power),
        }


def drams() -> Iterable[dict[str, Any]]:
    """Memories outside the chip, of one bit."""
    for name, (model, width) in DRAMS.items():
        found = model(width=width)
        yield {
            "kind": name,
            "read_pj": digits(found.read(bits_per_action=1).energy * 1e12),
            "write_pj": digits(found.write(bits_per_action=1).energy * 1e12),
        }


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """A table, whole or not at all."""
    listed = list(rows)
    part = path.with_suffix(".part")
    with part.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, list(listed[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(listed)
    part.replace(path)


def print_held_out(path: Path) -> None:
    """How far CACTI is from the curve between two of the table's sizes, shares."""
    keys = ("read_pj", "write_pj", "area_mm2", "leakage_w")
    with path.open(newline="") as lines:
        table = {_place(row): row for row in csv.DictReader(lines)}
    apart: dict[str, list[float]] = {key: [] for key in keys}
    for width, exponent in itertools.product((32, 64, 128), range(11, 26)):
        found = sram(45, width, 1, 1, 3 << exponent)
        low, high = (table[45, width, 1, 1, size << exponent] for size in (2, 4))
        share = math.log2(1.5)
        for key in keys:
            between = float(low[key]) ** (1 - share) * float(high[key]) ** share
            apart[key].append(abs(between / float(found[key]) - 1))
    for key, shares in apart.items():
        print(f"{key}: median {statistics.median(shares):.1%}, at most {max(shares):.1%}")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if "--held-out" in sys.argv:
        print_held_out(folder / "components-sram.csv")
        sys.exit()
    write(folder / "components-mac.csv", macs())
    write(folder / "components-registers.csv", registers())
    write(folder / "components-dram.csv", drams())
    if len(sys.argv) > 2:
        write(Path(sys.argv[2]), [sram(*place) for place in GOLDEN])
    write_srams(folder / "components-sram.csv")
