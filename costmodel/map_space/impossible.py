"""All constraints of a map space, and which of them together leave nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.constraint_entries import Constraint, HasConstraints
from costmodel.map_space.constraint_reading import (
    read_constraints,
    single_factors,
    tensors_named,
)
from costmodel.map_space.constraints import Constraints, machine_constraints
from costmodel.map_space.meant_entries import meant
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate

Possible = Callable[[Sequence[Constraint]], bool]


def single_entries(entries: Sequence[Constraint], names: Sequence[str]) -> list[Constraint]:
    """The same constraints, one thing an entry: a factor, an order, a split, what is kept."""
    found = []
    for entry in entries:
        said = {key: getattr(entry, key) for key in entry.model_fields_set - {"target", "type"}}
        factors = said.pop("factors", None)
        parts = [{"factors": one} for one in single_factors(factors or "", names)]
        if entry.kind == "bypass":
            parts.append(said)
        else:
            parts += [{key: value} for key, value in said.items()]
        head = {"target": entry.target, "type": entry.type}
        found += [Constraint.model_validate({**head, **part}) for part in parts]
    return found


def smallest_conflict(entries: Sequence[Constraint], possible: Possible) -> list[Constraint]:
    """A part of impossible entries that is impossible, and of which nothing can be left out."""
    kept = list(entries)
    for entry in entries:
        without = [other for other in kept if other is not entry]
        if not possible(without):
            kept = without
    return kept


def conflict_text(entries: Sequence[Constraint]) -> str:
    """Entries in one line, such as `L1 temporal factors M>=3; L2 temporal factors M=2`."""
    texts = []
    for entry in entries:
        said = entry.model_dump(exclude={"target", "type"})
        what = ", ".join(
            f"{key} {' '.join(value) if isinstance(value, tuple) else value}"
            for key, value in said.items()
        )
        texts.append(f"{entry.target} {entry.type} {what}")
    return "; ".join(texts) or "the machine's own rules"


def all_constraints(
    workload: Workload,
    machine: Accelerator,
    given: Constraints | Sequence[Mapping[str, Any]] | None,
) -> Constraints | None:
    """What a machine, its constraints and those given beside them leave; None without any.

    Args:
        workload: the operation.
        machine: the machine.
        given: entries beside the machine's, or what has been read in their place.

    Raises:
        ConfigError: entries that cannot be read, or leave a dimension no factorisation.
    """
    if not isinstance(given, Constraints):
        if not given and not machine.constraints:
            return None
        entries = [*machine.constraints, *(given or ())]
        said = validate(HasConstraints, {"constraints": entries}, "").constraints
        listed = meant(said, workload)
        check_factors(listed, workload, machine)
        given = _with_outermost(
            read_constraints(listed, workload.dimensions, workload.roles, machine, every_row=True),
            listed,
            workload,
            machine,
        )
        _check_keeps(listed, given, workload, machine)
    return machine_constraints(workload, machine, outermost=False).and_also(given)


def _with_outermost(
    given: Constraints, entries: Sequence[Constraint], workload: Workload, machine: Accelerator
) -> Constraints:
    """The outermost level keeps what neither the entries nor the machine make it bypass."""
    own = machine_constraints(workload, machine, outermost=False)
    asked = {
        name
        for entry in entries
        if entry.target == machine.level_names[0] and entry.kind == "bypass"
        for name in tensors_named(entry, "keep", workload.roles, entry.target)
    }
    said = sum(1 << t for t, name in enumerate(workload.tensor_names) if name in asked)
    first = (given.keep[0] & ~own.bypass[0]) | said
    return replace(given, keep=(first, *given.keep[1:]))


def _check_keeps(
    entries: Sequence[Constraint], given: Constraints, workload: Workload, machine: Accelerator
) -> None:
    """Refuses entries that keep what the machine bypasses, or the other way.

    Raises:
        ConfigError: it names the entry, the level and the tensor.
    """
    own = machine_constraints(workload, machine, outermost=False)
    for index, level in enumerate(machine.levels):
        for ours, theirs, verb in (
            (own.bypass[index], given.keep[index], "bypasses"),
            (own.keep[index], given.bypass[index], "keeps"),
        ):
            said = [e for e in entries if e.target == level.name and e.kind == "bypass"]
            if not ours & theirs or not said:
                continue
            tensor = workload.tensor_names[(ours & theirs).bit_length() - 1]
            raise ConfigError(
                f"constraints: {conflict_text(said)}: {machine.name} itself {verb} {tensor} there."
            )


def check_factors(entries: Sequence[Constraint], workload: Workload, machine: Accelerator) -> None:
    """Refuses constraints that leave a dimension no factorisation.

    Raises:
        ConfigError: it names those that together leave none.
    """
    own = machine_constraints(workload, machine, outermost=False)
    # Says what cannot be read, and which fixed factors do not divide.
    read_constraints(entries, workload.dimensions, workload.roles, machine)

    def left(some: Sequence[Constraint], d: int) -> bool:
        try:
            rules = read_constraints(some, workload.dimensions, workload.roles, machine)
        except ConfigError:
            return False  # fixed factors that do not divide
        return len(own.and_also(rules).rows(d)) > 0

    for d, (name, size) in enumerate(workload.dimensions.items()):
        if left(entries, d):
            continue
        singles = single_entries(entries, workload.dimension_names)
        conflict = smallest_conflict(singles, lambda some, d=d: left(some, d))  # type: ignore[misc]
        raise ConfigError(
            f"constraints: together they leave no factorisation of {name} = {size}: "
            f"{conflict_text(conflict)}."
        )
