"""A Timeloop mapping as the `mapping` of a record: directives become loops of levels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from costmodel.machines.constraint_entries import KINDS
from costmodel.timeloop.documents import Part
from costmodel.timeloop.keys import passed
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown, unknown_name

Record = dict[str, Any]
_WHERE = frozenset({"target", "name", "type"})
_READ = {
    "bypass": _WHERE | {"keep", "bypass"},
    "temporal": _WHERE | {"factors", "permutation"},
    "spatial": _WHERE | {"factors", "permutation", "split"},
    "parallelism": _WHERE,
}
_ALL = frozenset().union(*_READ.values())
Factors = dict[str, tuple[int, int]]
"""Iterations of a loop by dimension, and those of its last pass."""

_TERM = re.compile(r"\s*,?\s*([A-Za-z_]+)\s*=?\s*(\d{1,18})(?:,(\d{1,18}))?\s*,?")


def read_mapping(part: Part, problem: Record, arch: Record, idle: list[str]) -> list[Record]:
    """The loops of every level, outermost first.

    Args:
        part: the list of directives.
        problem: as a record has it.
        arch: likewise.
        idle: takes the keys that nothing reads.

    Raises:
        ConfigError: a directive that Timeloop would not take, by its place in the list.
    """
    if not isinstance(part.value, list):
        raise ConfigError(f"{part.place}: expected a list of directives, got {shown(part.value)}.")
    levels = [level["name"] for level in arch["levels"]]
    inner = [*arch["levels"][1:], arch["mac"]]
    fans = [
        below["instances"] > level["instances"]
        for level, below in zip(arch["levels"], inner, strict=True)
    ]
    tensors = [tensor["name"] for tensor in problem["tensors"]]
    nest: list[Record] = [
        {"level": name, "keep": list(tensors), "temporal": [], "spatial": []} for name in levels
    ]
    seen: set[tuple[int, str]] = set()
    for index, directive in enumerate(part.value):
        place = f"{part.place}[{index}]"
        if not isinstance(directive, Mapping):
            raise ConfigError(f"{place}: expected a mapping, got {shown(directive)}.")
        at = target(directive, levels, place)
        kind = kind_of(directive, place)
        idle += passed(directive, _READ[kind], place, _ALL)
        if (at, kind) in seen:
            raise ConfigError(f"{place}: {levels[at]} has a second {kind} directive.")
        seen.add((at, kind))
        if kind == "bypass":
            bypassed = set(names(directive, "bypass", tensors, place))
            names(directive, "keep", tensors, place)
            nest[at]["keep"] = [name for name in tensors if name not in bypassed]
            continue
        if kind == "parallelism":
            raise ConfigError(f"{place}.type: a mapping has none of utilization.")
        if kind == "spatial" and not fans[at]:
            raise ConfigError(
                f"{place}: {levels[at]} has no fan-out for a spatial directive: as many of it as "
                "of what is below."
            )
        loops = list(_loops(directive, problem["dims"], place))
        if kind == "temporal":
            nest[at]["temporal"] = [loop for loop in reversed(loops) if loop[1] > 1]
        else:
            split = directive.get("split", len(loops))
            if isinstance(split, bool) or not isinstance(split, int) or split < 0:
                raise ConfigError(f"{place}.split: expected a count, got {shown(split)}.")
            across = [
                [name, factor, "X" if order < split else "Y", *last]
                for order, (name, factor, *last) in enumerate(loops)
                if factor > 1
            ]
            nest[at]["spatial"] = across[::-1]
    _check_products(nest, problem["dims"], part.place)
    return nest


def kind_of(
    directive: Mapping[str, Any], place: str
) -> Literal["temporal", "spatial", "bypass", "parallelism"]:
    """What a directive speaks of.

    Raises:
        ConfigError: no such type.
    """
    given = str(directive.get("type"))
    known = {**KINDS, "dataspace": "bypass"}
    if given not in known:
        raise ConfigError(f"{place}.type: " + str(unknown_name("type", given, known)))
    return "bypass" if given == "dataspace" else KINDS[given]


def target(directive: Mapping[str, Any], levels: Sequence[str], place: str) -> int:
    """The level of a directive: its name, or its number counted from the innermost.

    Raises:
        ConfigError: there is none of that name or number.
    """
    given = directive.get("target", directive.get("name"))
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(levels):
        return len(levels) - 1 - given
    if given not in levels:
        raise ConfigError(f"{place}.target: " + str(unknown_name("level", str(given), levels)))
    return levels.index(given)


def names(directive: Mapping[str, Any], key: str, tensors: Sequence[str], place: str) -> list[str]:
    """The tensors under a key.

    Raises:
        ConfigError: one that the problem has not.
    """
    given = directive.get(key) or []
    if not isinstance(given, list):
        raise ConfigError(f"{place}.{key}: expected a list of tensors, got {shown(given)}.")
    for name in given:
        if name not in tensors:
            raise ConfigError(f"{place}.{key}: " + str(unknown_name("tensor", str(name), tensors)))
    return given


def text_of(value: Any, key: str, place: str) -> str:
    """Factors or a permutation, which may be a list.

    Raises:
        ConfigError: it is neither text nor a list.
    """
    if isinstance(value, list):
        return " ".join(str(entry) for entry in value)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{place}.{key}: expected text or a list, got {shown(value)}.")
    return value or ""


def _loops(
    directive: Mapping[str, Any], dims: Mapping[str, int], place: str
) -> Iterator[list[Any]]:
    """`[dimension, factor]` and perhaps the last pass of every dimension, innermost first."""
    factors = _factors(text_of(directive.get("factors"), "factors", place), dims, place)
    order = []
    for letter in _letters(directive.get("permutation"), dims, place):
        if letter in order:
            raise ConfigError(f"{place}.permutation: {letter} stands there twice.")
        order.append(letter)
    for name in (*order, *(name for name in dims if name not in order)):
        factor, last = factors.get(name, (1, 1))
        yield [name, factor] if last == factor else [name, factor, last]


def _letters(given: Any, dims: Mapping[str, int], place: str) -> list[str]:
    listed = given if isinstance(given, list) else None
    text = "".join(text_of(given, "permutation", place).split()).replace(",", "")
    found = [str(name) for name in listed] if listed is not None else list(text)
    for name in found:
        if name not in dims:
            raise ConfigError(f"{place}.permutation: " + str(unknown_name("dimension", name, dims)))
    return found


def _factors(text: str, dims: Mapping[str, int], place: str) -> Factors:
    """`K=4 C2 P = 3`; 0 is the whole dimension, and what follows `#` is not read."""
    text = text.partition("#")[0]
    found: Factors = {}
    end = 0
    while text[end:].strip():
        term = _TERM.match(text, end)
        if term is None:
            raise ConfigError(f"{place}.factors: expected such as K=4 C2, got {shown(text[end:])}.")
        end = term.end()
        name, factor = term[1], int(term[2])
        if name not in dims:
            raise ConfigError(f"{place}.factors: " + str(unknown_name("dimension", name, dims)))
        if name in found:
            raise ConfigError(f"{place}.factors: {name} stands there twice.")
        factor = factor or dims[name]
        found[name] = (factor, int(term[3]) if term[3] else factor)
    return found


def _check_products(nest: Sequence[Record], dims: Mapping[str, int], place: str) -> None:
    """Refuses perfect factors that do not multiply to the size; records check the imperfect."""
    for name, size in dims.items():
        loops = [
            loop
            for level in nest
            for loop in (*level["temporal"], *level["spatial"])
            if loop[0] == name
        ]
        if any(isinstance(loop[-1], int) and len(loop) > 2 for loop in loops):
            continue
        product = math.prod(loop[1] for loop in loops)
        if product != size:
            factors = " x ".join(str(loop[1]) for loop in loops) or "none"
            raise ConfigError(
                f"{place}: the factors of {name} multiply to {product} ({factors}), but its size "
                f"is {size}."
            )
