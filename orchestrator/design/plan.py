"""What a design comes to: its grid and its layers, looked up before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costmodel.accelerators import Accelerator
from mapspace.errors import ConfigError
from orchestrator.design.branching import CYCLES_IN, Found
from orchestrator.design.config import Design
from orchestrator.design.machine_grid import MachineGrid
from orchestrator.sweep.plan import (
    Architecture,
    Layer,
    SweepPlan,
    layers_of,
    named_accelerator,
    require_areas,
    require_spaces,
)
from orchestrator.sweep.proofs import Proof
from orchestrator.sweep.results import SweepResults, collect

# Machines beyond which a grid is taken for a slip.
MOST_MACHINES = 10_000_000


@dataclass(frozen=True)
class DesignPlan:
    """A design whose names have all been looked up."""

    design: Design
    base: Accelerator
    layers: tuple[Layer, ...]
    grid: MachineGrid

    def architecture(self, places: tuple[int, ...]) -> Architecture:
        """A machine of the grid as a sweep has it."""
        machine = self.grid.machine(places)
        area = self.design.area.bits(machine)
        return Architecture(machine.name, machine, self.grid.parameters(places), area)

    def collected(self, machines: Mapping[tuple[int, ...], Sequence[Proof]]) -> SweepResults:
        """Machines and their layers' proofs as a sweep of them would have them."""
        architectures = tuple(self.architecture(places) for places in machines)
        plan = SweepPlan(self.design, architectures, self.layers)
        proofs = {proof.key: proof for found in machines.values() for proof in found}
        return collect(plan, proofs)

    def evaluate(self, places: tuple[int, ...], proofs: Sequence[Proof]) -> Found:
        """The totals of a machine."""
        objective = self.design.objective
        row = self.collected({places: proofs}).architectures.to_dict("records")[0]
        column = {"latency": "latency_cycles", "energy": "energy_pj"}.get(objective, objective)
        value = float(row[column]) / float(row["clock_ghz"]) ** CYCLES_IN[objective]
        eligible = bool(row["within_limits"]) and math.isfinite(value)
        return Found(places, float(row["area_bits"]), value, eligible)


def prepare_design(design: Design, where: str) -> DesignPlan:
    """Looks up every name of a design.

    Args:
        design: what was read.
        where: what messages start with, such as the file's name; files of accelerators and
            workloads are looked for beside that file first.

    Raises:
        ConfigError: an unknown name, a value that makes no accelerator, an accelerator without a
            map space; nothing is written.
    """
    layers = layers_of(design, where)
    plan = planned(design, named_accelerator(design.base, where), layers, where)
    least, most = min(map(plan.grid.area_bits, plan.grid.roots())), design.limits.area_bits
    if most is not None and least > most:
        raise ConfigError(
            f"{where}: limits: area_bits: expected at least {least:,.0f}, the smallest machine's "
            f"area, got {most:,.0f}."
        )
    require_spaces([plan.grid.ideal(plan.grid.corner(x)) for x in plan.grid.roots()], layers, where)
    return plan


def planned(design: Design, base: Accelerator, layers: Sequence[Layer], where: str) -> DesignPlan:
    """The plan of a design whose machine and layers are at hand.

    Raises:
        ConfigError: as `prepare_design` says.
    """
    values = (design.grid or {}).values()
    if (size := math.prod(map(len, values))) > MOST_MACHINES:
        raise ConfigError(
            f"{where}: grid: expected at most {MOST_MACHINES:,} machines, got {size:,}."
        )
    require_areas(design, base.level_names[1:], where)
    grid = MachineGrid(base, design.grid or {}, design.energy_scaling, design.area, where)
    return DesignPlan(design, base, tuple(layers), grid)
