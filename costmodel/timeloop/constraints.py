"""Timeloop's constraint lists as entries of `costmodel.machines.constraint_entries`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from costmodel.loop_nest.nest_problems import read_problem
from costmodel.machines.constraint_entries import Constraint
from costmodel.map_space.constraint_reading import named_order, read_constraints
from costmodel.timeloop.documents import Part
from costmodel.timeloop.keys import passed
from costmodel.timeloop.mapping import kind_of, target, text_of
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

Record = dict[str, Any]

_UPPER = re.compile(r"[A-Za-z_]+\s*(?:<=|=)?\s*\d+")
"""Fixed factors and upper bounds: `K>=2` is not found."""
_LISTS = ("targets", "constraints")
_PASSED = frozenset({"template", "version"})


def read_entries(
    part: Part | None, problem: Record, arch: Record, left_out: list[str] | None
) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """The constraints of one part of the files, and where each stands.

    Args:
        part: `architecture_constraints` or `mapspace`; None where there is none.
        problem: as a record has it.
        arch: likewise.
        left_out: where to list what is not modelled; None: refuse it.

    Raises:
        ConfigError: the file's name, the entry's place, and what is wrong with it.
    """
    if part is None:
        return (), ()
    levels = [level["name"] for level in arch["levels"]]
    dims, tensors = list(problem["dims"]), [tensor["name"] for tensor in problem["tensors"]]
    found = [
        (_entry(given, place, (levels, dims, tensors), left_out), place)
        for given, place in _listed(part, left_out)
    ]
    return tuple(entry for entry, _ in found), tuple(place for _, place in found)


def check_mapping(entries: Sequence[Record], record: Record) -> None:
    """Refuses a mapping that breaks what the architecture says of factors, orders and splits.

    As Timeloop's model does: it looks neither at lower bounds nor at what is kept.

    Raises:
        ConfigError: the level and its loops.
    """
    looked_at = [
        entry | {"factors": " ".join(_UPPER.findall(entry["factors"]))}
        if "factors" in entry
        else entry
        for entry in entries
        if entry["type"] in ("temporal", "spatial")
    ]
    work, machine = read_problem({**record, "constraints": ()})
    rules = read_constraints(looked_at, work.dimensions, work.tensor_names, machine)
    names = work.dimension_names
    orders = {
        (entry["target"], entry["type"]): named_order(entry["permutation"], names, "permutation")
        for entry in looked_at
        if "permutation" in entry
    }
    for index, level in enumerate(record["mapping"]):
        for kind, loose in (("temporal", rules.temporal[index]), ("spatial", rules.spatial[index])):
            loops = level[kind]
            if loose is None or any(len(loop) > 2 + (kind == "spatial") for loop in loops):
                continue
            # What is not said is free here, also where a mapper takes one order for all.
            inner, outer = orders.get((level["level"], kind), ((), ()))
            allowed = replace(loose, inner=inner, outer=outer)
            sizes = {loop[0]: loop[1] for loop in loops}
            height = sum(1 << names.index(loop[0]) for loop in loops if loop[2:3] == ["Y"])
            if not allowed.allows(
                [sizes.get(name, 1) for name in names],
                [names.index(loop[0]) for loop in loops],
                height if kind == "spatial" else None,
            ):
                listed = " ".join(f"{name}={size}" for name, size in sizes.items()) or "no loops"
                raise ConfigError(
                    f"mapping: {level['level']}, {kind}: {listed} (outermost first) breaks the "
                    "architecture's constraints."
                )


def _listed(part: Part, left_out: list[str] | None) -> Iterator[tuple[Mapping[str, Any], str]]:
    content = part.value
    if content is None:
        return
    if isinstance(content, Mapping):
        named = [key for key in content if key.startswith("constraints_")]
        for key in content:
            if key in _LISTS or key in _PASSED or key in named:
                continue
            if left_out is None:
                raise ConfigError(
                    f"{part.place}.{key}: not modelled; lenient reading leaves it out."
                )
            left_out.append(f"{part.place}.{key}")
        template = content.get("template", "uber")
        if template != "uber" and left_out is None:
            more = " (its remainders: --factors imperfect)" if template == "ruby" else ""
            raise ConfigError(
                f"{part.place}.template: only uber is modelled, got {shown(template)}{more}; "
                "lenient reading takes it for uber."
            )
        if template != "uber" and left_out is not None:
            left_out.append(f"{part.place}.template: {template}")
        content = next((content[key] for key in _LISTS if key in content), None) or []
        if isinstance(content, str):
            content = part.value.get(f"constraints_{content}")
    if not isinstance(content, list):
        raise ConfigError(f"{part.place}: expected a list of entries, got {shown(content)}.")
    for index, entry in enumerate(content):
        place = f"{part.place}[{index}]"
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{place}: expected a mapping, got {shown(entry)}.")
        inner = entry.get("constraints")
        if not isinstance(inner, list):
            yield entry, place
            continue
        whose = {key: entry[key] for key in ("target", "name") if key in entry}
        for number, one in enumerate(inner):
            if not isinstance(one, Mapping):
                raise ConfigError(f"{place}.constraints[{number}]: expected a mapping.")
            yield {**whose, **one}, f"{place}.constraints[{number}]"


def _entry(
    given: Mapping[str, Any],
    place: str,
    names: tuple[Sequence[str], Sequence[str], Sequence[str]],
    left_out: list[str] | None,
) -> Record:
    """An entry with its level by name, and lists as text where ours are."""
    levels, dims, tensors = names
    kind = kind_of(given, place)
    content = {key: value for key, value in given.items() if key not in ("name", "target", "type")}
    inside = content.pop("attributes", None) or {}
    if not isinstance(inside, Mapping):
        raise ConfigError(f"{place}.attributes: expected a mapping, got {shown(inside)}.")
    if "split" in inside:
        raise ConfigError(
            f"{place}.attributes.split: Timeloop does not read it there; write it beside type."
        )
    content = {**inside, **content}
    if content.get("factors") == "one":
        content["factors"] = [f"{name}=1" for name in dims]
    if content.get("bypass") == "others":
        content["bypass"] = [name for name in tensors if name not in (content.get("keep") or ())]
    if content.get("permutation") is not None:
        content["permutation"] = text_of(content["permutation"], "permutation", place)
    if content.get("factors") is not None:
        content["factors"] = text_of(content["factors"], "factors", place)
    if isinstance(content.get("split"), int):
        content["split"] = min(content["split"], len(dims))
    content = {key: value for key, value in content.items() if value is not None}
    for key in passed(content, Constraint.model_fields, place):
        if left_out is None:
            raise ConfigError(f"{key}: not modelled; lenient reading leaves it out.")
        left_out.append(key)
        del content[key.rpartition(".")[2]]
    return {"target": levels[target(given, levels, place)], "type": kind, **content}
