"""Tensors of one memory at loops of their own: a level as one part per tensor that it may keep.

A level has one place in the nest for all of its tensors. Cut into parts that lie side by side and
share one room and its ports, every tensor has its own; what leaks, waits or has an area is counted
of one part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.constraint_entries import Constraint
from costmodel.machines.levels import NETWORK_KEYS, Level
from costmodel.machines.machine import MOST_LEVELS
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError

_ONCE = ("leakage_pj", "area_mm2", "component", "sources")
"""What is said of a memory as a whole; energies and sizes were found by then."""


def with_tiles_apart(
    machine: Accelerator, workload: Workload, given: Sequence[Constraint] = ()
) -> tuple[Accelerator, tuple[Constraint, ...]]:
    """A machine whose levels with `tiles: apart` are parts, for an operation.

    Args:
        machine: the machine.
        workload: the operation, of whose tensors each has a part.
        given: constraints beside the machine's own.

    Returns:
        The machine, itself where no such level keeps several tensors, and the constraints given,
        both with constraints on what a level keeps as those of its parts.

    Raises:
        ConfigError: what cannot be said of tiles apart, or too many levels.
    """
    parts = {
        level.name: tuple(_parts(level, machine, workload))
        for level in machine.levels
        if machine.has_tiles_apart(level)
    }
    parts = {name: levels for name, levels in parts.items() if len(levels) > 1}
    if not parts:
        return machine, tuple(given)
    levels = [part for level in machine.levels for part in parts.get(level.name, (level,))]
    _check(machine, levels, parts)
    changed = {
        "levels": tuple(level.model_copy(update={"tiles": None}) for level in levels),
        "tiles": "together",
        "constraints": tuple(_constraints(machine.constraints, parts, workload)),
    }
    return machine.model_copy(update=changed), tuple(_constraints(given, parts, workload))


def _parts(level: Level, machine: Accelerator, workload: Workload) -> Iterator[Level]:
    """The parts of a level, in the workload's order of tensors; the last one fans out."""

    def says(names: Sequence[str], tensor: str) -> bool:
        return tensor in names or workload.roles[tensor] in names

    tensors = [name for name in workload.tensor_names if not says(level.bypass, name)]
    fields = Level.model_fields
    for place, tensor in enumerate(tensors):
        kept = says(level.keep, tensor) or machine.bypass == "none"
        changed: dict[str, Any] = {
            "name": f"{level.name}-{tensor}",
            "keep": (tensor,) if kept else (),
            "bypass": tuple(name for name in workload.tensor_names if name != tensor),
            "beside": level.beside or level.name,
            "shares": level.name,
        }
        if place > 0:
            changed |= {key: fields[key].default for key in _ONCE}
            changed["area_mm2"] = None if level.area_mm2 is None else 0.0
        if place + 1 < len(tensors):
            changed |= {key: fields[key].default for key in NETWORK_KEYS}
        yield level.model_copy(update=changed)


def _check(
    machine: Accelerator, levels: Sequence[Level], parts: dict[str, tuple[Level, ...]]
) -> None:
    """Refuses what tiles apart cannot be with, in a line."""
    name = next(iter(parts))
    where = f"accelerator.levels[{name}].tiles: apart"
    if machine.factors == "imperfect":
        raise ConfigError(f"{where} needs factors: perfect, got imperfect; give tiles: together.")
    if machine.overflow == "bypass":
        raise ConfigError(
            f"{where} needs overflow: invalid, got bypass: which tensor would go is not said."
        )
    for level in machine.levels:
        if level.name in parts and level.banks is not None:
            raise ConfigError(
                f"accelerator.levels[{level.name}].tiles: apart has no banks yet, got "
                f"{level.banks}; give tiles: together there, or take the banks out."
            )
        if level.name in parts and level.shares is not None:
            raise ConfigError(
                f"accelerator.levels[{level.name}].tiles: it shares a room with others already; "
                "take shares out, or give tiles: together."
            )
    if len(levels) > MOST_LEVELS:
        raise ConfigError(
            f"{where} makes {len(levels)} levels of {len(machine.levels)}, a part for each tensor; "
            f"expected at most {MOST_LEVELS}: say it of fewer levels."
        )
    names = [level.name for level in levels]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"accelerator.levels[{twice}].name: a part of a level with tiles: apart is called so "
            "as well; call it something else."
        )


def _constraints(
    given: Sequence[Constraint], parts: dict[str, tuple[Level, ...]], workload: Workload
) -> Iterator[Constraint]:
    """Constraints on what a level keeps as those of its parts; others must speak of others."""
    for position, entry in enumerate(given):
        if entry.target not in parts:
            yield entry
            continue
        if entry.kind != "bypass":
            raise ConfigError(
                f"constraints[{position}].target: {entry.target} has tiles: apart, so that loops "
                "stand between its tensors' tiles and none are its own; expected constraints on "
                "what it keeps, or tiles: together there."
            )
        for part in parts[entry.target]:
            (tensor,) = set(workload.tensor_names) - set(part.bypass)
            said = {
                key: tuple(name for name in names if name in (tensor, workload.roles[tensor]))
                for key, names in (("keep", entry.keep), ("bypass", entry.bypass))
            }
            if any(said.values()):
                named = {"target": part.name, "type": "bypass"}
                yield Constraint.model_validate(named | {k: v for k, v in said.items() if v})
