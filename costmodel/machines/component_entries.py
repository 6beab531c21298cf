"""What levels and units are made of, in the words of machine files, and where numbers are from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from mapspace.strict_yaml import Name, Size, StrictModel

FROM_FILE = "file"
"""The source of a number that a file gives."""

DRAMS = ("lpddr", "lpddr4", "ddr3", "hbm2", "hbm3", "hbm4")
LEVEL_FIGURES = ("energy_pj", "leakage_pj", "area_mm2")
"""The numbers that a level's component stands for."""
UNIT_FIGURES = ("mac_energy_pj", "mac_leakage_pj", "mac_area_mm2")
"""Likewise a unit's, in the same order."""
MACHINE_BITS = 16


class Memory(StrictModel):
    """What a level is made of."""

    kind: Literal["sram", "registers", "lpddr", "lpddr4", "ddr3", "hbm2", "hbm3", "hbm4"]
    """A memory of CACTI, registers, or a memory outside the chip."""
    ports: Size = 1
    """Ports of an sram that read or write."""
    banks: Size = 1
    """Banks of an sram; which tensor lies where does not depend on them."""


class Unit(StrictModel):
    """What a multiply-accumulate unit is made of."""

    kind: Literal["int-mac"]
    """Integers are multiplied and added."""
    multiplier_bits: Size | None = None
    """Width of both factors; null: the machine's words."""
    adder_bits: Size | None = None
    """Width of the sum; null: twice that."""


def named(value: object) -> object:
    """A kind alone stands for the component with its defaults."""
    return {"kind": value} if isinstance(value, str) else value


Component = Annotated[Memory, BeforeValidator(named)]
MacComponent = Annotated[Unit, BeforeValidator(named)]


class LevelSources(StrictModel):
    """Where a level's numbers come from, of those that its file does not give."""

    energy_pj: Name | None = None
    """Of the energies."""
    leakage_pj: Name | None = None
    """Of the leakage."""
    area_mm2: Name | None = None
    """Of the area."""


class MachineSources(StrictModel):
    """Where the numbers of the multiply-accumulate units come from."""

    mac_energy_pj: Name | None = None
    """Of the energy."""
    mac_leakage_pj: Name | None = None
    """Of the leakage."""
    mac_area_mm2: Name | None = None
    """Of the area."""
