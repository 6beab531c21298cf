"""Energies of mappings as whole numbers of units, from the model's counts: nothing is rounded.

A machine file says 1.12 pJ and means the decimal number; all energies of a machine are multiples of
one unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from costmodel.costs import STATUS_OK
from costmodel.exact.objective import Outcome
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes


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


def energy_units(accelerator: Accelerator) -> EnergyUnits:
    """Finds the unit of a machine's energies."""
    mac = _decimal(accelerator.mac_energy_pj)
    levels = [_decimal(level.word_energy_pj) for level in accelerator.levels]
    half_hops = [_decimal(level.hop_energy_pj) / 2 for level in accelerator.levels]
    unit = Fraction(
        1, math.lcm(*(energy.denominator for energy in (mac, *levels, *half_hops))) or 1
    )
    return EnergyUnits(
        unit,
        int(mac / unit),
        tuple(int(energy / unit) for energy in levels),
        tuple(int(energy / unit) for energy in half_hops),
    )


def exact_outcomes(space: MapSpace, units: EnergyUnits, codes: Codes) -> list[Outcome | None]:
    """Energy in units and cycles of mappings `[B, D]` by the cost model; None where infeasible.

    The model's counts are integers; only its sum of energies is rounded, so it is done again here.
    """
    costs = LoopNestModel().evaluate(space, codes, detail=True)
    detail = costs.detail
    assert detail is not None  # it was asked for
    counts = detail.reads + detail.fills + detail.updates
    levels = (counts * detail.instances[:, :, None]).sum(axis=2)
    outcomes: list[Outcome | None] = []
    for b in range(len(codes)):
        if costs.status[b] != STATUS_OK:
            outcomes.append(None)
            continue
        energy = space.workload.macs * units.mac
        for words, per_word in zip(levels[b].tolist(), units.levels, strict=True):
            energy += words * per_word
        for hops in detail.network_energy_pj[b].tolist():
            energy += round(Fraction(hops) / units.unit_pj)
        outcomes.append((energy, int(costs.latency_cycles[b])))
    return outcomes


def _decimal(energy: float) -> Fraction:
    """The decimal number that a float was written as."""
    return Fraction(repr(float(energy)))
