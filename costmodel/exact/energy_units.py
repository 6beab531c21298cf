"""Energies as whole numbers, so that bounds and comparisons are exact.

A machine file says 1.12 pJ and means the decimal number. All energies of a machine are multiples of
one unit (0.01 pJ for the papers' machines), so the energy of a mapping is a whole number of units:
counts are integers, and so is their product with whole energies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import LARGEST_COUNT, Workload
from mapspace.errors import ConfigError


@dataclass(frozen=True)
class EnergyUnits:
    """The energies of a machine in whole units.

    Attributes:
        unit_pj: one unit, pJ.
        mac: energy of a multiply-accumulate.
        levels: energy of one word read, filled or updated, per level.
        half_hops: energy of one word over half a hop below each level; the mesh counts halves.
    """

    unit_pj: Fraction
    mac: int
    levels: tuple[int, ...]
    half_hops: tuple[int, ...]


def energy_units(workload: Workload, accelerator: Accelerator) -> EnergyUnits:
    """Finds the unit of a machine's energies and checks that 64-bit integers hold every cost.

    Raises:
        ConfigError: energies are given in so many digits, or bandwidths are so low, for a problem
            so large, that they do not.
    """
    mac = _decimal(accelerator.mac_energy_pj)
    levels = [_decimal(level.word_energy_pj) for level in accelerator.levels]
    half_hops = [_decimal(level.hop_energy_pj) / 2 for level in accelerator.levels]
    unit = Fraction(
        1, math.lcm(*(energy.denominator for energy in (mac, *levels, *half_hops))) or 1
    )
    units = EnergyUnits(
        unit,
        int(mac / unit),
        tuple(int(energy / unit) for energy in levels),
        tuple(int(energy / unit) for energy in half_hops),
    )
    accesses = _most_accesses(workload)
    # A trip over the whole mesh there and back.
    pairs = zip(accelerator.levels, units.half_hops, strict=True)
    hops = sum(4 * level.fanout * half_hop for level, half_hop in pairs)
    largest = accesses * (3 * sum(units.levels) + hops)
    if largest + workload.macs * units.mac >= LARGEST_COUNT:
        raise ConfigError(
            f"Energies of {accelerator.name} are multiples of {float(unit):g} pJ; for "
            f"{workload.name} with {workload.macs:.3g} multiply-accumulates their sums do not fit "
            "64-bit integers. Round the energies to fewer digits for an exact search."
        )
    problem = why_too_slow(workload, accelerator)
    if problem is not None:
        raise ConfigError(problem)
    return units


def _most_accesses(workload: Workload) -> int:
    """What each kind of access (reads, fills, updates) at a level cannot exceed, in words.

    Per multiply-accumulate and tensor there is at most one, times the overlap of its axes.
    """
    widths = math.prod(
        sum(factor for _, factor in axis.terms)
        for tensor in workload.tensors[:-1]
        for axis in tensor.axes
    )
    return workload.macs * widths * len(workload.tensors)


def why_too_slow(workload: Workload, accelerator: Accelerator) -> str | None:
    """Why cycles may take more than 62 bits, in one line; None if they do not.

    That is where a level's bandwidth is so low that all words that could pass it take longer, or
    passes through an array are so long.
    """
    words = 3 * _most_accesses(workload)
    turns = sum(
        sum(level.array.parts(*level.width_height[::-1]))
        for level in accelerator.levels
        if level.array
    )
    if turns and words * turns >= LARGEST_COUNT:
        return (
            f"An array of {accelerator.name} takes {turns:,} cycles a pass; for {workload.name} "
            f"with {workload.macs:.3g} multiply-accumulates the cycles may not fit 64-bit integers."
        )
    for level in accelerator.levels:
        for key in ("read_bandwidth", "write_bandwidth", "bandwidth"):
            bandwidth = getattr(level, key)
            if bandwidth is not None and words >= LARGEST_COUNT * Fraction(bandwidth):
                return (
                    f"{level.name} of {accelerator.name} has a {key} of {bandwidth:g} words per "
                    f"cycle; for {workload.name} with {workload.macs:.3g} multiply-accumulates "
                    f"the cycles may not fit 64-bit integers. From {words / LARGEST_COUNT:.3g} "
                    "words per cycle on they do."
                )
    return None


def _decimal(energy: float) -> Fraction:
    """The decimal number that a float was written as."""
    return Fraction(repr(float(energy)))
