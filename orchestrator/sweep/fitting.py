"""What a sweep or a design asks for that no machine can do: layers that do not fit, and limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice

from costmodel.explanation.admitting import what_would_admit
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.bounds import floor
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from orchestrator.report.units import millijoules, physical
from orchestrator.sweep.config import Limits
from orchestrator.sweep.plan import Layer
from orchestrator.sweep.results import SweepResults

# Machines that the smallest change is looked for on.
_MOST_MACHINES = 4


def why_nowhere(work: Workload, machines: Iterable[Accelerator]) -> str:
    """A line that names a layer without a mapping, and the smallest change that admits one.

    Args:
        work: of which none of the machines has a mapping.
        machines: the ones to change, the most promising first; of many the first ones are.
    """
    best, said = math.inf, ""
    for machine in islice(machines, _MOST_MACHINES):
        try:
            changes, single = what_would_admit(MapSpace(work, machine))
        except ConfigError as error:
            said = said or f": {error}"
            continue
        if not changes:
            continue
        chosen = changes[:1] if single else changes
        size = sum(abs(math.log(change.needed / change.now)) for change in chosen)
        if size < best:
            needs = " and ".join(map(str, chosen))
            best, said = size, f"; the smallest change that admits one: {needs}"
    return f"{work.name} has no mapping on any machine{said}"


def lines_of_misfits(results: SweepResults) -> list[str]:
    """A line for every layer without a mapping on some accelerators; on all: what would admit one.

    Args:
        results: of which layers without a mapping are data.
    """
    lines = []
    machines = {one.name: one.accelerator for one in results.plan.architectures}
    by_size = results.architectures.sort_values("area_bits", ascending=False, kind="stable")
    largest = [machines[name] for name in by_size["architecture"]]
    for layer in results.plan.layers:
        points = results.points[results.points["workload"] == layer.workload.name]
        without = int((points["status"] == "infeasible").sum())
        if without == len(points):
            lines.append(f"{why_nowhere(layer.workload, largest)}.")
        elif without:
            lines.append(
                f"{layer.workload.name} has no mapping on {without:,} of {len(points):,} "
                "accelerators."
            )
    return lines


def require_limits(
    limits: Limits, layers: Sequence[Layer], machines: Iterable[Accelerator], where: str
) -> None:
    """Refuses limits that no mapping on any of some machines keeps, by floors alone.

    Args:
        limits: of energy and time, and of power by both.
        layers: how often each layer is run.
        machines: that stand for all; none of these is better than all of them.
        where: what messages start with.

    Raises:
        ConfigError: a limit, or what two say together, is below what every machine takes.
    """
    told = limits.model_dump(exclude_none=True, include={"energy_mj", "latency_ms", "power_w"})
    if not told:
        return
    energy = time = math.inf
    for machine in machines:
        floors = [(floor(layer.workload, machine), layer.count) for layer in layers]
        least = sum(bound.energy_pj * count for bound, count in floors)
        cycles = sum(bound.latency_cycles * count for bound, count in floors)
        energy = min(energy, millijoules(least))
        time = min(time, 1e3 * physical(least, cycles, machine.clock_ghz)["latency_s"])
    both = told.get("power_w", math.inf) * told.get("latency_ms", math.inf)
    for keys, least, most in (
        ("energy_mj", energy, told.get("energy_mj", math.inf)),
        ("latency_ms", time, told.get("latency_ms", math.inf)),
        ("power_w x latency_ms", energy, both),
    ):
        if least > most:
            unit = "ms" if keys == "latency_ms" else "mJ"
            raise ConfigError(
                f"{where}: limits: {keys}: expected at least {least:.4g} {unit}, which every "
                f"mapping on every machine takes, got {most:.4g} {unit}."
            )
