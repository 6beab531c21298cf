"""The forms that a mapping record may have: what is left out of a short one, and the whole nest.

A record says the operation and the machine in full (`problem`, `arch`) or by name, file or content
(`workload`, `accelerator`), and its mapping by level, as an object or as a list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from costmodel.arrays.machine_tables import machine_tables
from costmodel.loop_nest.nest_records import is_nest_record
from costmodel.loop_nest.nest_writing import arch_of, nest_record, problem_record
from costmodel.loop_nest.records import (
    VERSION,
    arch_record,
    mapping_record,
    needs_nest,
    read_mapping,
    record_code,
)
from costmodel.loop_nest.records import problem_record as problem_by_kind
from costmodel.machines.accelerators import Accelerator, accelerator
from costmodel.machines.side_by_side import all_orders, free_groups, in_order
from costmodel.machines.tiles_apart import with_tiles_apart
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from mapspace.near_names import nearest
from mapspace.strict_yaml import shown

Record = dict[str, Any]

_FULL = {"workload": "problem", "accelerator": "arch"}
"""What says a part by name, and what says it in full."""

WITHOUT_EFFECT = {
    "densities": "sparse tensors are not modelled; leave it out.",
    "bitwidths": "expected as bits of the tensors of the workload.",
    "constraints": "expected in the machine, as constraints of arch or accelerator.",
}
"""What would change costs, and changes none beside the parts of a record."""


def is_record(source: object) -> bool:
    """Whether something is a mapping record, rather than a workload."""
    return isinstance(source, Mapping) and "mapping" in source


class _Named(NamedTuple):
    """What a record's names stand for."""

    work: Workload | None
    machine: Accelerator | None


def whole_records(records: Sequence[object]) -> list[Record]:
    """Records that say their problem and machine in full, and list every level.

    Args:
        records: of any form; what is whole already is returned as it is.

    Raises:
        ConfigError: a name, file or level that there is not, or a part said twice or not at all;
            the message starts with the record's index.
    """
    known: dict[str, _Named] = {}
    found = []
    for index, record in enumerate(records):
        try:
            found.append(_whole(record, known))
        except ConfigError as error:
            raise ConfigError(f"record {index}: {error}") from None
    return found


def as_nest(record: Mapping[str, Any]) -> Record:
    """A record of any form as that of a whole nest.

    Raises:
        ConfigError: it cannot be read, or says what the other form has no place for.
    """
    found = _whole(record, {})
    if is_nest_record(found):
        return found
    space, code = read_mapping(found)
    if space.accelerator.overflow != "invalid":
        raise ConfigError("arch.overflow: only invalid can be written as a whole nest.")
    space, code = space.in_order(code)
    return nest_record(space.workload, space.accelerator, space.describe(code))


def _whole(record: object, known: dict[str, _Named]) -> Record:
    if not isinstance(record, Mapping):
        raise ConfigError(f"expected an object, got {shown(record)}.")
    version = record.get("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise ConfigError(f"version: expected {VERSION}, got {shown(version)}.")
    named = {key: record[key] for key in _FULL if key in record}
    for part, full in (*_FULL.items(), ("mapping", "mapping")):
        close = [] if {part, full} & record.keys() else nearest(part, record)
        if close:
            raise ConfigError(f"{close[0]}: unknown key; did you mean {part}?")
    for key in WITHOUT_EFFECT.keys() & record.keys():
        raise ConfigError(f"{key}: {WITHOUT_EFFECT[key]}")
    for key in named:
        if _FULL[key] in record:
            raise ConfigError(f"{key}: {_FULL[key]} says it as well; give one of them.")
        if not isinstance(named[key], str | Mapping):
            raise ConfigError(
                f"{key}: expected a name, a file or its content, got {shown(named[key])}."
            )
    nest = is_nest_record(record)
    if not named and not (nest and _is_short(record)):
        return dict(record)
    if not isinstance(record.get("mapping"), list | Mapping):
        raise ConfigError(
            f"mapping: expected levels with their loops, got {shown(record.get('mapping'))}."
        )
    key = json.dumps([named, nest], sort_keys=True, default=repr)
    if key not in known:
        known[key] = _Named(
            workload(named["workload"]) if "workload" in named else None,
            accelerator(named["accelerator"]) if "accelerator" in named else None,
        )
    work, machine = known[key]
    if machine is not None and nest:
        machine = _as_listed(machine, work, record["mapping"])
    if work is not None and machine is not None and not nest and needs_nest(machine, work):
        space = MapSpace(work, machine)
        rest = {key: value for key, value in record.items() if key not in (*_FULL, "mapping")}
        return rest | mapping_record(space, record_code(space, dict(record)))
    whole = {key: value for key, value in record.items() if key not in _FULL}
    if work is not None:
        whole["problem"] = problem_record(work) if nest else problem_by_kind(work)
    if nest and machine is not None and machine.overflow != "invalid":
        raise ConfigError(
            f"mapping: {machine.name} has overflow: {machine.overflow}; write an object by level."
        )
    if machine is not None:
        whole["arch_name"] = machine.name
        whole["arch"] = arch_of(machine, work) if nest else arch_record(machine)
    if nest:
        whole["mapping"] = _levels(whole, work, machine)
    return whole


def _as_listed(machine: Accelerator, work: Workload | None, mapping: Any) -> Accelerator:
    """A machine with tiles apart as parts, and buffers side by side in the order of a mapping.

    Raises:
        ConfigError: there is no workload beside, after whose tensors parts are called.
    """
    if any(map(machine.has_tiles_apart, machine.levels)):
        if work is None:
            raise ConfigError(
                f"workload: expected one beside {machine.name}, whose levels with tiles: apart are "
                "a part for each tensor."
            )
        machine, _ = with_tiles_apart(machine, work)
    names = [entry.get("level") for entry in mapping if isinstance(entry, Mapping)]
    for order in all_orders(machine, free_groups(machine)):
        listed = [machine.level_names[place] for place in order]
        if [name for name in listed if name in names] == names:
            return in_order(machine, order)
    return machine


def _is_short(record: Mapping[str, Any]) -> bool:
    """Whether a list of levels leaves something out."""
    levels, arch = record["mapping"], record.get("arch")
    listed = arch.get("levels") if isinstance(arch, Mapping) else None
    return (isinstance(listed, list) and len(levels) < len(listed)) or any(
        isinstance(loops, Mapping)
        and ("keep" not in loops or any(len(loop) == 2 for loop in _spatial(loops)))
        for loops in levels
    )


def _spatial(loops: Mapping[str, Any]) -> list[list[Any]]:
    given = loops.get("spatial")
    return [loop for loop in given if isinstance(loop, list)] if isinstance(given, list) else []


def _levels(whole: Record, work: Workload | None, machine: Accelerator | None) -> list[Any]:
    """Every level, with what it keeps; a spatial loop without an axis runs along the width."""
    arch, problem = whole.get("arch"), whole.get("problem")
    listed = arch.get("levels") if isinstance(arch, Mapping) else None
    tensors = problem.get("tensors") if isinstance(problem, Mapping) else None
    if not isinstance(listed, list) or not isinstance(tensors, list):
        return list(whole["mapping"])  # what reads them says what is wrong
    names = [level.get("name") for level in listed if isinstance(level, Mapping)]
    everything = [tensor.get("name") for tensor in tensors if isinstance(tensor, Mapping)]
    kept: dict[str, list[Any]] = {str(name): everything for name in names}
    if work is not None and machine is not None:
        kept |= _held(work, machine)
    given: dict[Any, Record] = {}
    for entry in whole["mapping"]:
        level = entry.get("level") if isinstance(entry, Mapping) else None
        if not isinstance(level, str) or level not in names:
            raise ConfigError(
                f"mapping: expected entries with level: one of {', '.join(map(str, names))}; got "
                f"{shown(entry if level is None else level)}."
            )
        if level in given:
            raise ConfigError(f"mapping: the level {level!r} has two entries; join them.")
        given[level] = {"keep": kept[level], "temporal": [], "spatial": [], **entry}
        if isinstance(entry.get("spatial"), list):
            given[level]["spatial"] = [
                [*loop, "X"] if isinstance(loop, list) and len(loop) == 2 else loop
                for loop in entry["spatial"]
            ]
    order = [names.index(level) for level in given]
    if order != sorted(order):
        raise ConfigError(
            f"mapping: expected levels in the machine's order ({', '.join(map(str, names))}), got "
            f"{', '.join(given)}."
        )
    usual: Record = {"temporal": [], "spatial": []}
    return [given.get(name, {"level": name, "keep": kept[str(name)], **usual}) for name in names]


def _held(work: Workload, machine: Accelerator) -> dict[str, list[str]]:
    """Tensors that levels hold where nothing else is said: all that the machine lets them."""
    never = machine_tables(machine, work.roles, work.dimension_names).never_kept.tolist()
    return {
        level.name: [name for t, name in enumerate(work.tensor_names) if not (mask >> t) & 1]
        for level, mask in zip(machine.levels, never, strict=True)
    }
