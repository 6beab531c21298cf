"""Reads a mapper's constraints in Timeloop's words, by the rules of Timeloop's mapper (v3.0.3)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from costmodel.arrays.machine_tables import ROLES
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.constraint_entries import Constraint, HasConstraints
from costmodel.map_space.constraints import Constraints, LoopRules
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown, validate

REST = "_"
"""Where in a permutation the dimensions stand that it does not name."""


class _Said:
    """What entries said, each thing once: factors by operator, the rest by key."""

    def __init__(self) -> None:
        self.things: dict[tuple[int, str, str, int], Any] = {}

    def say(self, where: str, thing: tuple[int, str, str, int], value: Any) -> None:
        if thing in self.things:
            raise ConfigError(f"{where}: an entry before says the same of this level; say it once.")
        self.things[thing] = value

    def get(self, level: int, kind: str, key: str, d: int = -1) -> Any:
        return self.things.get((level, kind, key, d))


def read_constraints(
    entries: object,
    dimensions: Mapping[str, int],
    tensors: Sequence[str] | Mapping[str, str],
    machine: Accelerator,
    *,
    every_row: bool = False,
) -> Constraints:
    """What entries in Timeloop's words leave of a map space.

    Args:
        entries: as a file has them; None or an empty list leaves everything.
        dimensions: the problem's sizes.
        tensors: its tensors; with their roles, where entries may name these.
        machine: the machine; what it says itself of its levels is not looked at.
        every_row: loops across a row of children stand in every order where nothing is said of it,
            as they do without entries; Timeloop's mapper takes the problem's order alone.

    Raises:
        ConfigError: an entry that cannot be read or names what there is not, a thing said twice, or
            fixed factors that do not divide a size.
    """
    found = validate(HasConstraints, {"constraints": entries or ()}, "").constraints
    said = _Said()
    for number, entry in enumerate(found):
        _say(said, entry, f"constraints[{number}]", dimensions, tensors, machine)
    levels = range(len(machine.levels))
    everything = (1 << len(tensors)) - 1
    told = {level: said.get(level, "bypass", "names") or (0, 0) for level in levels}
    # The outermost level keeps what it is not told to bypass.
    told[0] = (everything & ~told[0][1], told[0][1])
    fans = [level.fanout > 1 for level in machine.levels]
    result = Constraints(
        sizes=tuple(dimensions.values()),
        temporal=tuple(
            _rules(said, level, "temporal", dimensions, free=level < levels[-1] or fans[-1])
            for level in levels
        ),
        spatial=tuple(
            _across(said, level, dimensions, machine, every_row=every_row) if fans[level] else None
            for level in levels
        ),
        keep=tuple(told[level][0] for level in levels),
        bypass=tuple(told[level][1] for level in levels),
        tensors=len(tensors),
        parallelism=said.get(levels[-1], "parallelism", "min") or 0.0,
        units=machine.processing_elements,
        wide=(0,) * len(levels),
        tall=(0,) * len(levels),
    )
    _check_fixed(said, result, list(dimensions))
    return result


def _across(
    said: _Said, level: int, dimensions: Mapping[str, int], machine: Accelerator, *, every_row: bool
) -> LoopRules:
    """What was said of the loops across the children of a level."""
    width, height = machine.levels[level].width_height
    plane = min(width, height) > 1
    rules = _rules(said, level, "spatial", dimensions, free=plane)
    if plane or not every_row or said.get(level, "spatial", "permutation") is not None:
        return rules
    # A split of the problem's order leaves those dimensions alone that it puts along the row.
    split = rules.split
    most = tuple(
        top if split is None or (d < split) == (height == 1) else 1
        for d, top in enumerate(rules.most)
    )
    return replace(rules, most=most, inner=(), split=None)


def _say(
    said: _Said,
    entry: Constraint,
    where: str,
    dimensions: Mapping[str, int],
    tensors: Sequence[str] | Mapping[str, str],
    machine: Accelerator,
) -> None:
    if entry.target not in machine.level_names:
        raise ConfigError(
            f"{where}.target: expected one of {', '.join(machine.level_names)}, got "
            f"{shown(entry.target)}."
        )
    level, kind, names = machine.level_names.index(entry.target), entry.kind, list(dimensions)
    if kind == "spatial" and machine.levels[level].fanout == 1:
        raise ConfigError(f"{where}.type: {entry.target} has one child, so nothing is spatial.")
    if entry.factors is not None:
        for d, operator, number in _factors(entry.factors, names, f"{where}.factors"):
            said.say(f"{where}.factors: {names[d]}", (level, kind, operator, d), number)
    if entry.permutation is not None:
        order = named_order(entry.permutation, names, f"{where}.permutation")
        said.say(f"{where}.permutation", (level, kind, "permutation", -1), order)
    for key in ("split", "default_min_factor", "default_max_factor"):
        if getattr(entry, key) is not None:
            said.say(f"{where}.{key}", (level, kind, key, -1), getattr(entry, key))
    if kind == "bypass":
        listed = [tensors_named(entry, key, tensors, where) for key in ("keep", "bypass")]
        masks = [sum(1 << t for t, name in enumerate(tensors) if name in names) for names in listed]
        said.say(where, (level, "bypass", "names", -1), tuple(masks))
    if kind == "parallelism":
        if level != len(machine.levels) - 1:
            raise ConfigError(
                f"{where}.target: expected the innermost level, {machine.level_names[-1]}, got "
                f"{entry.target}."
            )
        said.say(where, (level, "parallelism", "min", -1), entry.min or 0.0)


def tensors_named(
    entry: Constraint, key: str, tensors: Sequence[str] | Mapping[str, str], where: str
) -> list[str]:
    """The tensors that an entry names under a key, by name or role, in the operation's order.

    Raises:
        ConfigError: a name that is neither, or a role to be kept that no tensor has.
    """
    roles = tensors if isinstance(tensors, Mapping) else {}
    meant = set()
    for name in getattr(entry, key):
        found = [tensor for tensor in tensors if name in (tensor, roles.get(tensor))]
        found = [name] if name in tensors else found
        if not found and not (key == "bypass" and roles and name in ROLES):
            known = ", ".join(
                [*tensors, *(f"{role} (a role)" for role in dict.fromkeys(roles.values()))]
            )
            raise ConfigError(f"{where}.{key}: expected one of {known}, got {shown(name)}.")
        meant.update(found)
    return [tensor for tensor in tensors if tensor in meant]


def _names_pattern(names: Sequence[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


def _factors(
    text: str | tuple[str, ...], names: Sequence[str], where: str
) -> list[tuple[int, str, int]]:
    """Dimension, operator and number of every factor that a text names."""
    joined = text if isinstance(text, str) else " ".join(text)
    one = re.compile(rf"\s*({_names_pattern(names)})\s*(<=|>=|=|)\s*(\d{{1,18}})\s*,?")
    found, at = [], 0
    while joined[at:].strip():
        match = one.match(joined, at)
        if match is None:
            raise ConfigError(
                f"{where}: expected factors such as {names[0]}=4, {names[0]}<=4 or {names[0]}>=2 "
                f"of {', '.join(names)}, got {shown(joined[at:].strip())}{_others(joined, names)}."
            )
        found.append((names.index(match[1]), match[2] or "=", int(match[3])))
        at = match.end()
    return found


def _others(text: str, names: Sequence[str]) -> str:
    """Which names of a text the operation lacks."""
    letters = all(len(name) == 1 for name in names)  # which may stand in a row
    words = dict.fromkeys(re.findall(r"[A-Za-z]" if letters else r"[A-Za-z]\w*", text))
    others = ", ".join(word for word in words if word not in names)
    return f"; the operation has no {others}" if others else ""


def single_factors(
    text: str | tuple[str, ...], names: Sequence[str], where: str = "factors"
) -> list[str]:
    """What a text says of factors, one by one."""
    read = _factors(text, names, where)
    return [f"{names[d]}{operator}{number}" for d, operator, number in read]


def named_order(
    text: str, names: Sequence[str], where: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The innermost dimensions and the outermost ones that a text names, innermost first.

    Args:
        text: a permutation; `_` stands where the dimensions stand that it does not name.
        names: the dimensions.
        where: what messages start with.

    Raises:
        ConfigError: a name that is none, or that stands there twice.
    """
    one = re.compile(rf"[\s,]*({_names_pattern(names)}|{REST})[\s,]*")
    parts: list[list[int]] = [[], []]
    seen: set[str] = set()
    at = side = 0
    while at < len(text):
        match = one.match(text, at)
        if match is None or match[1] in seen:
            raise ConfigError(
                f"{where}: expected each of {', '.join(names)} at most once, and {REST} where the "
                f"others stand, got {shown(text)}{_others(text, names)}."
            )
        seen.add(match[1])
        at = match.end()
        if match[1] == REST:
            side = 1
        else:
            parts[side].append(names.index(match[1]))
    return tuple(parts[0]), tuple(parts[1])


def _rules(
    said: _Said,
    level: int,
    kind: str,
    dimensions: Mapping[str, int],
    *,
    free: bool,
) -> LoopRules:
    """What was said of the loops of a level.

    Args:
        said: everything that was said.
        level: which level.
        kind: temporal or spatial.
        dimensions: the problem's sizes.
        free: whether loops that nothing is said of stand in every order, or in the problem's.
    """
    least, most = [], []
    for d, size in enumerate(dimensions.values()):
        fixed = _fixed(said, level, kind, d, size)
        low, high = (said.get(level, kind, operator, d) for operator in (">=", "<="))
        if low is None:
            low = said.get(level, kind, "default_min_factor") or 1
        if high is None:
            high = said.get(level, kind, "default_max_factor") or size
        # Bounds hold of fixed factors too: where they exclude one nothing is left.
        least.append(max(low, fixed or 1))
        most.append(min(high, fixed or size))
    inner, outer = said.get(level, kind, "permutation") or ((), ())
    unsaid = said.get(level, kind, "permutation") is None
    # Of the innermost loops, below which nothing is kept, no order changes a figure.
    if not free and (unsaid or kind == "temporal"):
        inner, outer = tuple(range(len(least))), ()
    split = said.get(level, kind, "split")
    return LoopRules(
        tuple(least),
        tuple(most),
        inner,
        outer,
        None if split is None else min(split, len(least)),
    )


def _fixed(said: _Said, level: int, kind: str, d: int, size: int) -> int | None:
    """A fixed factor; one larger than the dimension says nothing, as with Timeloop."""
    number = said.get(level, kind, "=", d)
    if number is None or number > size:
        return None
    return int(number) or size


def _check_fixed(said: _Said, rules: Constraints, names: Sequence[str]) -> None:
    """Refuses fixed factors that no factorisation has."""
    kinds = [("temporal", rules.temporal), ("spatial", rules.spatial)]
    for d, size in enumerate(rules.sizes):
        fixed = [
            _fixed(said, level, kind, d, size)
            for kind, listed in kinds
            for level, loops in enumerate(listed)
            if loops is not None
        ]
        product = math.prod(factor or 1 for factor in fixed)
        if None not in fixed and product != size:
            raise ConfigError(
                f"constraints: the factors of {names[d]} are all fixed and multiply to {product}, "
                f"expected {size}."
            )
        if size % product:
            raise ConfigError(
                f"constraints: the fixed factors of {names[d]} multiply to {product}, which does "
                f"not divide {size}."
            )
