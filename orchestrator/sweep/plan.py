"""What a sweep comes to: its accelerators and layers, built and looked up before anything runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from costmodel.machines.accelerators import Accelerator, Level, accelerator
from costmodel.machines.components import without_looked_up
from costmodel.machines.levels import CAPACITIES, ActionEnergies
from costmodel.machines.machine_units import area_mm2, without_area
from costmodel.networks.network import load_network
from costmodel.problems.affine import Workload
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError, noted, refuse, together
from mapspace.strict_yaml import unknown_name, validate
from orchestrator.runs.experiments import beside, require_unique
from orchestrator.runs.limits import looked_at
from orchestrator.sweep.config import Source, Sweep, WeighedNetwork

# Points beyond which a grid is taken for a slip: hours of proofs on a large machine.
MOST_POINTS = 100_000

LEAST_ENERGY_PJ = 0.01


@dataclass(frozen=True)
class Architecture:
    """One accelerator of a sweep.

    Attributes:
        name: what results call it; unique.
        accelerator: the machine.
        parameters: its values on the grid's axes; empty where there is no grid.
        area_bits: its area proxy, bits.
        area_mm2: its memories' and units' area, mm2; None: not known.
    """

    name: str
    accelerator: Accelerator
    parameters: Mapping[str, Any]
    area_bits: float
    area_mm2: float | None


@dataclass(frozen=True)
class Layer:
    """One workload of a sweep, and how often it occurs in the totals."""

    workload: Workload
    count: int


@dataclass(frozen=True)
class SweepPlan:
    """A sweep whose names have all been looked up."""

    sweep: Sweep
    architectures: tuple[Architecture, ...]
    layers: tuple[Layer, ...]


def prepare_sweep(sweep: Sweep, where: str) -> SweepPlan:
    """Looks up every name of a sweep and builds its accelerators.

    Args:
        sweep: what was read.
        where: what messages start with, such as the file's name; files of accelerators and
            workloads are looked for beside that file first.

    Raises:
        ConfigError: an unknown name, a value that makes no accelerator, an accelerator without a
            map space; nothing is written.
    """
    layers, base, named = together(
        lambda: layers_of(sweep, where),
        lambda: base_of(sweep, where),
        lambda: together(
            *(partial(named_accelerator, source, where) for source in sweep.accelerators or ())
        ),
    )
    machines: list[tuple[Accelerator, dict[str, Any]]] = [(machine, {}) for machine in named]
    if base is not None:
        machines = _on_grid(sweep, base, where, len(layers))
    require_unique("accelerators", [machine.name for machine, _ in machines], where)
    level_names = {name for machine, _ in machines for name in machine.level_names[1:]}
    require_areas(sweep, level_names, where)
    for machine, _ in looked_at(machines, where, "machines"):
        require_mm2(sweep, machine, where)
    require_spaces([machine for machine, _ in machines], layers, where)
    architectures = tuple(
        architecture_of(sweep, machine, parameters)
        for machine, parameters in looked_at(machines, where, "machines")
    )
    return SweepPlan(sweep, architectures, layers)


def layers_of(sweep: Sweep, where: str) -> tuple[Layer, ...]:
    """The workloads that a sweep names; what several networks have in common is one layer.

    Raises:
        ConfigError: an unknown one, or two of one name.
    """
    found: dict[str, Layer] = {}
    try:
        named = together(*(partial(_named_layers, source, where) for source in sweep.workloads))
        for place, source in enumerate(sweep.workloads):
            for layer, count in named[place]:
                key = layer.hash if _is_network(source) else f"workloads[{place}]"
                before = found.get(key, Layer(layer, 0))
                found[key] = replace(before, count=before.count + count)
    except ConfigError as error:
        raise ConfigError(f"{where}: workloads: {error}") from error
    layers = tuple(found.values())
    require_unique("workloads", [layer.workload.name for layer in layers], where)
    return layers


def _is_network(source: Source) -> bool:
    return isinstance(source, dict) and "network" in source


def _named_layers(source: Source, where: str) -> list[tuple[Workload, int]]:
    """The layers of one entry of `workloads`, and how often each is run."""
    if not _is_network(source):
        return [(workload(beside(source, where)), 1)]
    named = validate(WeighedNetwork, source, "")
    _, layers = load_network(str(beside(named.network, where)))
    return [(layer, count * named.weight) for layer, count in layers]


def require_areas(sweep: Sweep, level_names: Collection[str], where: str) -> None:
    """Refuses areas of levels that no machine has.

    Raises:
        ConfigError: there is no level of a name.
    """
    for name in sweep.proxy.levels:
        if name not in level_names:
            raise ConfigError(f"{where}: area: levels: {unknown_name('level', name, level_names)}")


def require_mm2(sweep: Sweep, machine: Accelerator, where: str) -> None:
    """Refuses a machine without an area in mm2 where that is asked for.

    Raises:
        ConfigError: a part's area is not known.
    """
    missing = without_area(machine) if sweep.needs_mm2 else ()
    if missing:
        key = "area: mm2" if sweep.area_column == "area_mm2" else "limits: area_mm2"
        raise ConfigError(
            f"{where}: {key}: expected a machine whose parts all have an area, got "
            f"{machine.name} without that of {', '.join(missing)}; give area_mm2 or component "
            "(of MACs mac_area_mm2 or mac_component)."
        )


def require_scaling(sweep: Sweep, base: Accelerator, where: str) -> None:
    """Refuses to scale energies that follow the size of a component already.

    Raises:
        ConfigError: there are such.
    """
    for level in base.levels:
        if sweep.energy_scaling != "none" and level.component is not None:
            raise ConfigError(
                f"{where}: energy_scaling: expected none, got {sweep.energy_scaling}: the energies "
                f"of {base.name}'s {level.name} are those of a component of its size."
            )


def architecture_of(
    sweep: Sweep, machine: Accelerator, parameters: Mapping[str, Any]
) -> Architecture:
    """A machine with its areas."""
    bits = sweep.proxy.bits(machine)
    return Architecture(machine.name, machine, parameters, bits, area_mm2(machine))


def base_of(sweep: Sweep, where: str) -> Accelerator | None:
    """The accelerator that the grid changes, which has all its keys; None: there is no grid.

    Raises:
        ConfigError: there is none of that name, or as `require_grid` says.
    """
    if sweep.grid is None:
        return None
    base = named_accelerator(sweep.base, where)
    require_grid(sweep, base, where)
    return base


def require_grid(sweep: Sweep, base: Accelerator, where: str) -> None:
    """Refuses a grid with keys that its base does not have.

    Raises:
        ConfigError: it has such, all of which are named, or energies are scaled twice.
    """
    axes = (partial(_require_axis, key, base, where) for key in sweep.grid or {})
    together(lambda: require_scaling(sweep, base, where), *axes)


@contextmanager
def values_named(sweep: Sweep, base: Accelerator, where: str) -> Iterator[None]:
    """Where a machine of the grid is refused, names all values that no machine can have, instead.

    Raises:
        ConfigError: there are such; else of what values come to with each other.
    """
    try:
        yield
    except ConfigError:
        grid = sweep.grid or {}

        def wrong(values: Mapping[str, Any]) -> list[ConfigError]:
            found: list[ConfigError] = []
            noted(found, lambda: changed(base, values, sweep.energy_scaling, where), None)
            return found

        # A mesh may fit none but a fan-out of the grid.
        fit = {
            key: next((value for value in values if not wrong({key: value})), values[0])
            for key, values in grid.items()
        }
        refuse(
            [
                error
                for key, values in grid.items()
                for value in looked_at(values, where, f"values of {key}")
                if wrong({**fit, key: value})
                for error in wrong({key: value})
            ]
        )
        raise


def _on_grid(
    sweep: Sweep, base: Accelerator, where: str, layers: int
) -> list[tuple[Accelerator, dict[str, Any]]]:
    """The accelerators of the grid, the last axis changing fastest."""
    assert sweep.grid is not None  # `base_of` has looked
    points = math.prod(len(values) for values in sweep.grid.values()) * layers
    if points > MOST_POINTS:
        raise ConfigError(f"{where}: grid: expected at most {MOST_POINTS:,} points, got {points:,}")
    machines = []
    every = itertools.product(*sweep.grid.values())
    with values_named(sweep, base, where):
        for values in looked_at(every, where, "machines"):
            parameters = dict(zip(sweep.grid, values, strict=True))
            machines.append((changed(base, parameters, sweep.energy_scaling, where), parameters))
    return machines


def _require_axis(key: str, base: Accelerator, where: str) -> None:
    """Refuses a key of the grid that the base accelerator does not have."""
    level, _, field = key.rpartition(".")
    if level and level not in base.level_names:
        raise ConfigError(f"{where}: grid: {key}: {unknown_name('level', level, base.level_names)}")
    known = set(Level.model_fields if level else Accelerator.model_fields) - {"name", "levels"}
    if field not in known:
        raise ConfigError(f"{where}: grid: {key}: {unknown_name('key', field, known)}")


def changed(
    base: Accelerator, parameters: Mapping[str, Any], scaling: str, where: str
) -> Accelerator:
    """The base accelerator with a point's values; what its components cost is looked up anew."""
    data = without_looked_up(base.model_dump())
    name = " ".join(f"{key}={value}" for key, value in parameters.items()) or base.name
    levels = {level["name"]: level for level in data["levels"]}
    for key, value in parameters.items():
        level, _, field = key.rpartition(".")
        target = levels[level] if level else data
        if field in CAPACITIES:
            # A capacity in another unit takes the place of the base's.
            for unit in CAPACITIES:
                target.pop(unit, None)
        target[field] = value
    machine = validate(Accelerator, {**data, "name": name}, f"{where}: grid: {name}")
    if scaling == "none":
        return machine
    scaled = [
        level.model_copy(update={"energy_pj": _scaled_energy(before, level)})
        for before, level in zip(base.levels, machine.levels, strict=True)
    ]
    return machine.model_copy(update={"levels": tuple(scaled)})


def _scaled_energy(base: Level, level: Level) -> float | ActionEnergies:
    """Energies per access x sqrt(capacity / base capacity), in whole hundredths of a picojoule.

    A proof works in whole units of the energies' last digit, so they must have few digits.
    """
    if base.capacity_words is None or level.capacity_words in (None, base.capacity_words):
        return base.energy_pj
    factor = math.sqrt(level.capacity_words / base.capacity_words)

    def scaled(energy: float) -> float:
        return max(LEAST_ENERGY_PJ, round(energy * factor, 2)) if energy else 0.0

    if isinstance(base.energy_pj, ActionEnergies):
        read, fill, update = (scaled(energy) for energy in base.energies)
        return ActionEnergies(read=read, fill=fill, update=update)
    return scaled(base.energy_pj)


def require_spaces(machines: Iterable[Accelerator], layers: tuple[Layer, ...], where: str) -> None:
    """Refuses accelerators that have no map space of the smallest workload.

    What no proof can treat, machines and workloads, is data of its points.
    """
    from costmodel.map_space.map_space import MapSpace

    smallest = min((layer.workload for layer in layers), key=lambda found: found.macs)
    for machine in looked_at(machines, where, "machines"):
        try:
            MapSpace(smallest, machine)
        except ConfigError as error:
            raise ConfigError(f"{where}: {machine.name}: {error}") from error


def named_accelerator(source: Source, where: str) -> Accelerator:
    """What a sweep names or describes.

    Raises:
        ConfigError: there is none of that name, or it is none.
    """
    try:
        return accelerator(beside(source, where))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
