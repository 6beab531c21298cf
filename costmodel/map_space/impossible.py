"""All constraints of a map space, and which of them together leave nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costmodel.accelerators import Accelerator
from costmodel.affine import Workload
from costmodel.constraint_entries import Constraint, HasConstraints
from costmodel.map_space.constraint_reading import read_constraints, single_factors
from costmodel.map_space.constraints import Constraints, machine_constraints
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
        what = ", ".join(f"{key} {value}" for key, value in said.items())
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
        listed = validate(HasConstraints, {"constraints": entries}, "").constraints
        check_factors(listed, workload, machine)
        given = read_constraints(listed, workload.dimensions, workload.tensor_names, machine)
    return machine_constraints(workload, machine, outermost=False).and_also(given)


def check_factors(entries: Sequence[Constraint], workload: Workload, machine: Accelerator) -> None:
    """Refuses constraints that leave a dimension no factorisation.

    Raises:
        ConfigError: it names those that together leave none.
    """
    own = machine_constraints(workload, machine, outermost=False)
    # Says what cannot be read, and which fixed factors do not divide.
    read_constraints(entries, workload.dimensions, workload.tensor_names, machine)

    def left(some: Sequence[Constraint], d: int) -> bool:
        try:
            rules = read_constraints(some, workload.dimensions, workload.tensor_names, machine)
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
