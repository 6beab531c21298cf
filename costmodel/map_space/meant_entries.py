"""Constraints that serve several operations, as they are meant for one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from costmodel.arrays.machine_tables import ROLES
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.constraint_entries import Constraint
from costmodel.map_space.constraint_reading import REST, named_order, single_factors
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown


def meant(entries: Iterable[Constraint], workload: Workload) -> tuple[Constraint, ...]:
    """The entries in the words of one operation, without what it lacks and others have.

    Args:
        entries: as a machine has them.
        workload: the operation.

    Raises:
        ConfigError: factors or an order that cannot be read.
    """
    return tuple(_meant(entry, workload, number) for number, entry in enumerate(entries))


def serving(machine: Accelerator, layers: Iterable[Workload]) -> Accelerator:
    """A machine whose constraints name what layers have between them: each takes what it has."""
    if not machine.constraints:
        return machine
    every = list(layers)
    names = {name for layer in every for name in (*layer.dimensions, *layer.tensor_names)} | {
        *ROLES
    }
    if all(names == {*one.dimensions, *one.tensor_names} | {*ROLES} for one in every):
        return machine
    entries = tuple(
        entry.model_copy(update={"others": tuple(sorted({*entry.others, *names}))})
        if entry.kind != "parallelism"
        else entry
        for entry in machine.constraints
    )
    return machine.model_copy(update={"constraints": entries})


def _meant(entry: Constraint, workload: Workload, number: int) -> Constraint:
    if not entry.others and entry.stationary is None:
        return entry
    said = entry.model_dump(exclude={"others", "stationary"})
    where, dimensions = f"constraints[{number}]", workload.dimension_names
    every = (*dimensions, *(name for name in entry.others if name not in dimensions))
    if entry.factors is not None:
        kept = single_factors(entry.factors, every, f"{where}.factors")
        said["factors"] = tuple(one for one in kept if re.split("[<>=]", one)[0] in dimensions)
    if entry.permutation is not None:
        sides = named_order(entry.permutation, every, f"{where}.permutation")
        inner, outer = (_present([every[d] for d in side], dimensions) for side in sides)
        said["permutation"] = " ".join([*inner, REST, *outer])
    if entry.stationary is not None:
        said |= _stationary(entry, workload, where)
    present = {*workload.tensor_names, *workload.roles.values()}
    for key in ("keep", "bypass"):
        if key in said:
            said[key] = [one for one in said[key] if one in present or one not in entry.others]
    return Constraint.model_validate(said)


def _present(names: Sequence[str], dimensions: Sequence[str]) -> list[str]:
    return [name for name in names if name in dimensions]


def _stationary(entry: Constraint, workload: Workload, where: str) -> dict[str, str]:
    """The loops inside that do not index a tensor, in the order of the alphabet."""
    named, known = entry.stationary, [*ROLES, *workload.tensor_names]
    if named not in known and named not in entry.others:
        raise ConfigError(
            f"{where}.stationary: expected one of {', '.join(known)}, got {shown(named)}."
        )
    for tensor in workload.tensors:
        if named in (tensor.name, workload.roles.get(tensor.name)):
            inside = sorted(set(workload.dimension_names) - set(tensor.dimensions))
            return {"permutation": " ".join([*inside, REST])} if inside else {}
    return {}
