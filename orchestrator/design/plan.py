"""What a design comes to: its grid and its layers, looked up before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from mapspace.errors import ConfigError
from mapspace.strict_yaml import unknown_name
from orchestrator.design.config import Design
from orchestrator.design.machine_grid import MachineGrid
from orchestrator.sweep.plan import (
    Architecture,
    Layer,
    layers_of,
    named_accelerator,
    require_spaces,
)

# Machines beyond which a grid is taken for a slip.
MOST_MACHINES = 10_000_000


@dataclass(frozen=True)
class DesignPlan:
    """A design whose names have all been looked up."""

    design: Design
    layers: tuple[Layer, ...]
    grid: MachineGrid

    def architecture(self, places: tuple[int, ...]) -> Architecture:
        """A machine of the grid as a sweep has it."""
        machine = self.grid.machine(places)
        area = self.design.area.bits(machine)
        return Architecture(machine.name, machine, self.grid.parameters(places), area)


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
    base = named_accelerator(design.base, where)
    grid = MachineGrid(base, design.grid or {}, design.energy_scaling, design.area, where)
    if grid.size > MOST_MACHINES:
        raise ConfigError(
            f"{where}: grid: expected at most {MOST_MACHINES:,} machines, got {grid.size:,}."
        )
    for name in design.area.levels:
        if name not in base.level_names[1:]:
            raise ConfigError(
                f"{where}: area: levels: {unknown_name('level', name, base.level_names[1:])}"
            )
    least, most = min(map(grid.area_bits, grid.roots())), design.limits.area_bits
    if most is not None and least > most:
        raise ConfigError(
            f"{where}: limits: area_bits: expected at least {least:,.0f}, the smallest machine's "
            f"area, got {most:,.0f}."
        )
    require_spaces([grid.ideal(grid.corner(root)) for root in grid.roots()], layers, where)
    return DesignPlan(design, layers, grid)
