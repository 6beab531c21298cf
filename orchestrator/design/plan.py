"""What a design comes to: its grid and its layers, looked up before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError, together
from orchestrator.design.aims import Aim, proof_aims, with_rates
from orchestrator.design.branching import Found
from orchestrator.design.config import Design
from orchestrator.design.machine_grid import MachineGrid
from orchestrator.design.wishes import Wish
from orchestrator.runs.limits import looked_at
from orchestrator.sweep.fitting import require_limits, why_nowhere
from orchestrator.sweep.plan import (
    Architecture,
    Layer,
    SweepPlan,
    architecture_of,
    base_of,
    layers_of,
    require_areas,
    require_grid,
    require_mm2,
    require_spaces,
)
from orchestrator.sweep.proofs import Problem, Proof
from orchestrator.sweep.results import SweepResults, collect, problems_of

# Machines beyond which a grid is taken for a slip.
MOST_MACHINES = 10_000_000
MOST_APART = 10_000
"""Combinations of values without an order, times layers: nothing but proofs tells them apart."""


@dataclass(frozen=True)
class DesignPlan:
    """A design whose names have all been looked up."""

    design: Design
    base: Accelerator
    layers: tuple[Layer, ...]
    grid: MachineGrid

    def architecture(self, places: tuple[int, ...]) -> Architecture:
        """A machine of the grid as a sweep has it."""
        return architecture_of(self.design, self.grid.machine(places), self.grid.parameters(places))

    def problem(self, wish: Wish) -> Problem:
        """What a wish asks to be proven."""
        machine, aim = self.grid.ideal(wish.corner), proof_aims(self.design)[wish.aim]
        layer = self.layers[wish.layer].workload
        return Problem(layer, machine, aim.objective, aim.weight(machine.clock_ghz))

    def collected(self, machines: Mapping[tuple[int, ...], Sequence[Proof]]) -> SweepResults:
        """Machines and their layers' proofs as a sweep of them would have them."""
        architectures = tuple(self.architecture(places) for places in machines)
        plan = SweepPlan(self.design, architectures, self.layers)
        proofs = (proof for found in machines.values() for proof in found)
        # Proofs of sums stand where the sweep looks for those of its objective.
        problems = (problem.key for problem in problems_of(plan))
        return collect(plan, dict(zip(problems, proofs, strict=True)))

    def evaluate(self, places: tuple[int, ...], proofs: Sequence[Proof], aim: Aim) -> Found:
        """The totals of a machine whose layers are mapped for an aim."""
        row = self.collected({places: proofs}).architectures.to_dict("records")[0]
        totals = (float(row[column]) for column in ("energy_pj", "latency_cycles", "clock_ghz"))
        value = aim.value(*totals)
        eligible = bool(row["within_limits"]) and math.isfinite(value)
        return Found(places, float(row[self.design.area_column]), value, eligible)


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
    layers, base = together(lambda: layers_of(design, where), lambda: base_of(design, where))
    plan = planned(design, base, layers, where)
    roots = list(plan.grid.roots())
    for box in looked_at(roots, where, "machines"):
        require_mm2(design, plan.grid.machine(tuple(first for first, _ in box)), where)
    for key, area_of in (("area_bits", plan.grid.area_bits), ("area_mm2", plan.grid.area_mm2)):
        most = getattr(design.limits, key)
        if (
            most is not None
            and (least := min(map(area_of, looked_at(roots, where, "machines")))) > most
        ):
            raise ConfigError(
                f"{where}: limits: {key}: expected at least {least:,.10g}, the smallest machine's "
                f"area, got {most:,.10g}."
            )
    ideals = [plan.grid.ideal(plan.grid.corner(box)) for box in looked_at(roots, where, "machines")]
    require_spaces(ideals, layers, where)
    require_limits(design.limits, layers, ideals, where)
    for layer in layers:
        if all(
            _holds_nothing(layer.workload, ideal) for ideal in looked_at(ideals, where, "machines")
        ):
            raise ConfigError(f"{where}: grid: {why_nowhere(layer.workload, ideals)}.")
    return plan


def _holds_nothing(work: Workload, machine: Accelerator) -> bool:
    """Whether it is plain without a proof that a machine has no mapping."""
    from costmodel.exact.infeasible import why_infeasible
    from costmodel.map_space.map_space import MapSpace

    try:
        return why_infeasible(MapSpace(work, machine)) is not None
    except ConfigError:
        return True


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
    require_grid(design, base, where)
    grid = MachineGrid(base, design, where)
    apart = [axis for axis in grid.axes if not axis.ordered]
    if (points := math.prod(len(axis.values) for axis in apart) * len(layers)) > MOST_APART:
        raise ConfigError(
            f"{where}: grid: expected at most {MOST_APART:,} points, machines times layers, along "
            f"keys without an order of their values ({', '.join(axis.key for axis in apart)}), "
            f"each of which takes a proof, got {points:,}."
        )
    design = with_rates(design, base, layers, where)
    return DesignPlan(design, base, tuple(layers), grid)
