"""Accelerators: a hierarchy of memories above an array of multiply-accumulate units.

Levels are listed outermost first. A level's energy is that of one word read, filled or updated.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

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

PRESETS = Path(__file__).parent / "presets"
_PREFIX = "accelerator-"


class Level(StrictModel):
    """One memory level; an instance of it serves `fanout` instances of the next level inwards."""

    name: Name
    """How mappings and reports call the level."""
    capacity_words: Size | None = None
    """Words that one instance holds; null means without limit, for the outermost level only."""
    energy_pj: NonNegativeNumber
    """Energy of one word read, filled or updated, pJ."""
    read_bandwidth: PositiveNumber | None = None
    """Words per cycle that one instance can read; null means without limit."""
    write_bandwidth: PositiveNumber | None = None
    """Words per cycle that one instance can take in (fills and updates); null: without limit."""
    banks: Size | None = None
    """Equal banks, each given to one tensor as a part of the mapping; null: one shared buffer."""
    fanout: Size = 1
    """Children below one instance: instances of the next level, or MACs below the innermost."""
    mesh: tuple[Size, Size] | None = None
    """The children's width and height, with width x height = fanout; null: fanout x 1."""
    hop_energy_pj: NonNegativeNumber = 0.0
    """Energy of one word over one hop of the network to the children, pJ."""

    @model_validator(mode="after")
    def _check(self) -> Level:
        if self.banks is not None:
            if self.capacity_words is None:
                raise ValueError(f"banks: {self.banks} banks need capacity_words, which is null.")
            if self.capacity_words % self.banks:
                raise ValueError(
                    f"banks: expected a divisor of capacity_words = {self.capacity_words}, "
                    f"got {self.banks}."
                )
        if self.mesh is not None and math.prod(self.mesh) != self.fanout:
            raise ValueError(
                f"mesh: expected width x height = fanout = {self.fanout}, "
                f"got {self.mesh[0]} x {self.mesh[1]}."
            )
        return self


class Accelerator(StrictModel):
    """A memory hierarchy, its processing elements and what the mapper may decide on it."""

    name: Name
    """How reports call it."""
    levels: tuple[Level, ...] = Field(min_length=1)
    """Outermost (DRAM) first."""
    mac_energy_pj: NonNegativeNumber
    """Energy of one multiply-accumulate, pJ."""
    word_bits: Size = 16
    """Width of a word, bits."""
    clock_ghz: PositiveNumber = 1.0
    """Cycles per nanosecond."""
    overflow: Literal["invalid", "bypass"] = "invalid"
    """A tile that exceeds its level: the mapping is infeasible, or the tensor skips the level."""
    bypass: Literal["none", "searched"] = "none"
    """Whether the map space decides which tensors skip which level."""

    @field_validator("levels")
    @classmethod
    def _check_levels(cls, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        names = [level.name for level in levels]
        for position, level in enumerate(levels):
            if names.index(level.name) != position:
                raise ValueError(f"the name {level.name!r} is given to two levels.")
            if position and level.capacity_words is None:
                raise ValueError(
                    f"{level.name}: capacity_words may be null at the outermost level "
                    f"({names[0]}) only."
                )
        return levels

    def __str__(self) -> str:
        parts = []
        for level in self.levels:
            capacity = "" if level.capacity_words is None else f" {level.capacity_words} words"
            parts.append(level.name + capacity + (f" x{level.fanout}" if level.fanout > 1 else ""))
        return f"{self.name}: {' > '.join(parts)}, {self.processing_elements} PEs"

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels' names, outermost first."""
        return tuple(level.name for level in self.levels)

    @property
    def processing_elements(self) -> int:
        """Multiply-accumulate units: the product of all fan-outs."""
        return math.prod(level.fanout for level in self.levels)

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of the SHA-256 of everything but the name."""
        content = self.model_dump(exclude={"name"})
        for level in content["levels"]:
            level["mesh"] = level["mesh"] or (level["fanout"], 1)
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


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
        levels[name] = {**levels[name], **change}
    return {**base, **data, "levels": list(levels.values())}
