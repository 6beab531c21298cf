"""Accelerators: a hierarchy of memories above an array of multiply-accumulate units.

Levels are listed outermost first; what a level may say stands in `costmodel.levels`.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from costmodel.constraint_entries import Entries
from costmodel.levels import CAPACITIES, Level
from mapspace.errors import ConfigError
from mapspace.strict_yaml import (
    Name,
    NonNegativeNumber,
    PositiveNumber,
    Size,
    StrictModel,
    load_yaml,
    shown,
    unknown_name,
    validate,
)

__all__ = ["Accelerator", "AcceleratorSource", "Level", "accelerator", "accelerator_names"]

PRESETS = Path(__file__).parent / "presets"
_PREFIX = "accelerator-"

# Keys that the first machine files had not.
_WRITTEN_IF_SAID = ("cycles_per_mac", "output_fills", "factors", "constraints")


class Accelerator(StrictModel):
    """A memory hierarchy, its processing elements and what the mapper may decide on it."""

    name: Name
    """How reports call it."""
    levels: tuple[Level, ...] = Field(min_length=1)
    """Outermost (DRAM) first."""
    mac_energy_pj: NonNegativeNumber
    """Energy of one multiply-accumulate, pJ."""
    cycles_per_mac: Size = 1
    """Cycles that a unit needs for one multiply-accumulate."""
    output_fills: Literal["elided", "charged"] = "elided"
    """Whether words of an output that nobody has produced yet are filled into a level as well."""
    word_bits: Size = 16
    """Width of a word, bits."""
    clock_ghz: PositiveNumber = 1.0
    """Cycles per nanosecond."""
    overflow: Literal["invalid", "bypass"] = "invalid"
    """A tile that exceeds its level: the mapping is infeasible, or the tensor skips the level."""
    bypass: Literal["none", "searched"] = "none"
    """Whether the map space decides which tensors skip which level."""
    constraints: Entries = ()
    """What mappings must obey, in the words of Timeloop's mapper."""
    factors: Literal["perfect", "imperfect"] = "perfect"
    """Whether factors multiply to a size, or loops may have a shorter last pass."""

    @model_validator(mode="before")
    @classmethod
    def _hand_down_word_bits(cls, value: object) -> object:
        """A level's capacity in bits or bytes is of its own words, or else of the machine's."""
        if not isinstance(value, Mapping) or not isinstance(value.get("levels"), list | tuple):
            return value
        bits = value.get("word_bits", cls.model_fields["word_bits"].default)
        levels = [
            {**level, "word_bits": bits}
            if isinstance(level, Mapping)
            and level.get("word_bits") is None
            and (level.get("capacity_bits") or level.get("capacity_bytes"))
            else level
            for level in value["levels"]
        ]
        return {**value, "levels": levels}

    @field_validator("levels")
    @classmethod
    def _check_levels(cls, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        names = [level.name for level in levels]
        for position, level in enumerate(levels):
            if names.index(level.name) != position:
                raise ValueError(f"the name {level.name!r} is given to two levels.")
            if position and level.capacity_words is None and level.technology is None:
                raise ValueError(
                    f"{level.name}: capacity_words may be null at the outermost level "
                    f"({names[0]}) only."
                )
        return levels

    @model_validator(mode="after")
    def _check_together(self) -> Accelerator:
        problem = _problem(self.levels)
        if problem:
            raise ValueError(problem)
        return self

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out what says nothing: machines keep the hash that they were filed under."""
        written: dict[str, Any] = handler(self)
        for key in _WRITTEN_IF_SAID:
            if getattr(self, key) == type(self).model_fields[key].default:
                written.pop(key, None)
        return written

    def __str__(self) -> str:
        parts = []
        for level in self.levels:
            capacity = "" if level.capacity_words is None else f" {level.capacity_words} words"
            parts.append(level.name + capacity + (f" x{level.fanout}" if level.fanout > 1 else ""))
        return f"{self.name}: {' > '.join(parts)}, {self.processing_elements} PEs"

    def __repr__(self) -> str:
        """The machine as a tree of text, as `mapspace describe` prints it."""
        from costmodel.machine_summary import tree

        return tree(self)

    def _repr_html_(self) -> str:
        """What Jupyter shows."""
        return f"<pre>{html.escape(repr(self))}</pre>"

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels' names, outermost first."""
        return tuple(level.name for level in self.levels)

    @property
    def processing_elements(self) -> int:
        """Multiply-accumulate units: the product of all fan-outs."""
        return math.prod(level.fanout for level in self.levels)

    @property
    def further_key(self) -> str | None:
        """The first key beyond those of the first machine files that changes a figure."""
        for position, level in enumerate(self.levels):
            key = level.further_key
            if key:
                return f"levels[{position}].{key}"
        fields = type(self).model_fields
        keys = (key for key in _WRITTEN_IF_SAID if key != "constraints")
        return next((key for key in keys if getattr(self, key) != fields[key].default), None)

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of the SHA-256 of everything but the name."""
        content = self.model_dump(exclude={"name"})
        for level in content["levels"]:
            level["mesh"] = level["mesh"] or (level["fanout"], 1)
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _problem(levels: tuple[Level, ...]) -> str | None:
    """What is wrong with levels beside each other, in one line, or None."""
    instances = 1
    for position, level in enumerate(levels):
        if instances % level.cluster_size:
            return (
                f"levels[{position}].cluster_size: expected a divisor of the {instances} instances "
                f"of {level.name}, got {level.cluster_size}."
            )
        instances *= level.fanout
    for name in sorted({name for level in levels for name in level.bypass}):
        if all(name in level.bypass for level in levels):
            first = levels[0].name
            return (
                f"levels[{first}].bypass: every level bypasses {name!r}; one at least must hold "
                "it: take it out of one of them."
            )
    groups = [level.beside for level in levels]
    for position, level in enumerate(levels):
        following = groups[position + 1 :]
        if level.beside is None or level.beside not in following:
            continue
        if following[0] != level.beside:
            return (
                f"levels[{position}].beside: {level.beside!r} stands at levels that are not "
                "consecutive; list them one after another."
            )
        if level.fanout > 1:
            return (
                f"levels[{position}].fanout: {level.name} lies beside the level below it; only "
                f"the last level of {level.beside!r} fans out."
            )
    return None


def accelerator_names() -> tuple[str, ...]:
    """The presets, sorted."""
    return tuple(sorted(path.stem[len(_PREFIX) :] for path in PRESETS.glob(f"{_PREFIX}*.yaml")))


AcceleratorSource = str | Path | Mapping[str, Any] | Accelerator
"""What names, describes or is an accelerator."""


def accelerator(source: AcceleratorSource) -> Accelerator:
    """Loads an accelerator.

    Args:
        source: a preset's name (in any case, `_` for `-`), the path of a YAML file, or the
            content of such a file. `extends: PRESET` takes over a preset: keys replace the
            preset's, entries of `levels` change the preset's level of that name. An accelerator
            is returned.

    Raises:
        ConfigError: one line that names the file, the key, what came and what is allowed.
    """
    if isinstance(source, Accelerator):
        return source
    if isinstance(source, Mapping):
        return _build(dict(source), where="accelerator", default_name="custom")
    if isinstance(source, str):
        name = source.strip().lower().replace("_", "-")
        if name in accelerator_names():
            return validate(Accelerator, _preset(name), f"preset {name}")
        if Path(source).suffix.lower() not in (".yaml", ".yml") and not os.path.isfile(source):
            raise unknown_name("accelerator", source, accelerator_names())
    return _build(load_yaml(source), where=str(source), default_name=Path(source).stem)


def _build(data: dict[str, Any], *, where: str, default_name: str) -> Accelerator:
    return validate(Accelerator, _extended({"name": default_name, **data}, where), where)


def _preset(name: str) -> dict[str, Any]:
    path = PRESETS / f"{_PREFIX}{name}.yaml"
    return _extended({"name": name, **load_yaml(path)}, str(path))


def _extended(data: dict[str, Any], where: str) -> dict[str, Any]:
    """Merges data into the preset that it extends, if it does."""
    if "extends" not in data:
        return data
    base_name = data.pop("extends")
    if base_name not in accelerator_names():
        raise ConfigError(
            f"{where}: extends: expected one of {', '.join(accelerator_names())}, "
            f"got {shown(base_name)}."
        )
    base = _preset(base_name)
    changes = data.pop("levels", [])
    if not isinstance(changes, list):
        raise ConfigError(f"{where}: levels: expected a list, got {shown(changes)}.")
    levels = {level["name"]: level for level in base["levels"]}
    changed: set[str] = set()
    for position, change in enumerate(changes):
        name = change.get("name") if isinstance(change, Mapping) else None
        if not isinstance(name, str) or name not in levels:
            raise ConfigError(
                f"{where}: levels[{position}].name: expected one of {base_name}'s levels "
                f"({', '.join(levels)}), got {shown(change if name is None else name)}."
            )
        if name in changed:
            raise ConfigError(f"{where}: levels: the name {name!r} is given to two levels.")
        changed.add(name)
        kept = levels[name]
        if CAPACITIES & change.keys():
            # A capacity in another unit takes the place of the preset's.
            kept = {key: value for key, value in kept.items() if key not in CAPACITIES}
        levels[name] = {**kept, **change}
    return {**base, **data, "levels": list(levels.values())}
