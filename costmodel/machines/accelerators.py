"""Accelerators by name, from files or as they are: `machine` beside this says what they hold."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from costmodel.machines.constraint_entries import HasConstraints
from costmodel.machines.levels import CAPACITIES, Level
from costmodel.machines.machine import Machine
from costmodel.machines.machine_summary import tree
from costmodel.machines.machine_units import unusual_units
from costmodel.other_kinds import refuse_other_kind
from mapspace.arguments import wrong_type
from mapspace.errors import ConfigError
from mapspace.near_names import nearest
from mapspace.notices import notice
from mapspace.strict_yaml import load_yaml, shown, unknown_name, validate

__all__ = [
    "Accelerator",
    "AcceleratorSource",
    "Level",
    "accelerator",
    "accelerator_names",
    "constrained",
]

PRESETS = Path(__file__).parents[1] / "presets"
_PREFIX = "accelerator-"
_MOST_EXTENDED = 16


class Accelerator(Machine):
    """A memory hierarchy, its processing elements and what the mapper may decide on it."""

    @model_validator(mode="after")
    def _look_at_units(self) -> Self:
        for text in unusual_units(self):
            notice(self.name, text)
        return self

    def __str__(self) -> str:
        parts = []
        for level in self.levels:
            capacity = "" if level.capacity_words is None else f" {level.capacity_words} words"
            parts.append(level.name + capacity + (f" x{level.fanout}" if level.fanout > 1 else ""))
        return f"{self.name}: {' > '.join(parts)}, {self.processing_elements} PEs"

    def __repr__(self) -> str:
        """The machine as a tree of text, as `mapspace describe` prints it."""
        return tree(self)

    def _repr_html_(self) -> str:
        """What Jupyter shows."""
        return f"<pre>{html.escape(repr(self))}</pre>"


def accelerator_names() -> tuple[str, ...]:
    """The presets, sorted."""
    return tuple(sorted(path.stem[len(_PREFIX) :] for path in PRESETS.glob(f"{_PREFIX}*.yaml")))


AcceleratorSource = str | Path | Mapping[str, Any] | Accelerator
"""What names, describes or is an accelerator."""


def accelerator(source: AcceleratorSource) -> Accelerator:
    """Loads an accelerator.

    Args:
        source: a preset's name (in any case, `_` for `-`), the path of a YAML file, or the
            content of such a file. `extends: PRESET`, or the path of a file beside it, takes
            over a machine: keys replace its own, entries of `levels` change its level of that
            name. An accelerator is returned.

    Raises:
        ConfigError: one line that names the file, the key, what came and what is allowed.
    """
    if isinstance(source, Accelerator):
        return source
    if isinstance(source, Mapping):
        return _build(dict(source), where="accelerator", default_name="custom")
    if not isinstance(source, str | Path):
        raise wrong_type(
            "accelerator", "a name, a file, a file's content or an accelerator", source
        )
    if isinstance(source, str):
        name = source.strip().lower().replace("_", "-")
        if name in accelerator_names():
            return validate(Accelerator, _preset(name), f"preset {name}")
        if Path(source).suffix.lower() not in (".yaml", ".yml") and not os.path.isfile(source):
            refuse_other_kind("machine", source)
            raise unknown_name("accelerator", source, accelerator_names())
    return _build(load_yaml(source), where=str(source), default_name=Path(source).stem)


def constrained(machine: Accelerator, entries: Sequence[Any]) -> Accelerator:
    """A machine with constraints beside its own.

    Raises:
        ConfigError: an entry that cannot be read, by its place among those given.
    """
    if not entries:
        return machine
    found = validate(HasConstraints, {"constraints": tuple(entries)}, "").constraints
    return machine.model_copy(update={"constraints": (*machine.constraints, *found)})


def _build(data: dict[str, Any], *, where: str, default_name: str) -> Accelerator:
    refuse_other_kind("machine", where, data)
    machine = validate(Accelerator, _extended({"name": default_name, **data}, where), where)
    return _without_idle_levels(machine, where)


def _without_idle_levels(machine: Accelerator, where: str) -> Accelerator:
    """Takes levels out that may hold nothing and fan out to nothing.

    Timeloop counts the hops to such a level as if it held the word that has arrived; hardware has
    nothing there that could.
    """
    named = {entry.target for entry in machine.constraints}
    idle = [level.name for level in machine.levels[1:] if level.is_idle and level.name not in named]
    if not idle:
        return machine
    warnings.warn(
        f"{where}: {', '.join(idle)}: may hold no tensor and has one child: taken out.",
        stacklevel=2,
    )
    kept = tuple(level for level in machine.levels if level.name not in idle)
    return machine.model_copy(update={"levels": kept})


def _preset(name: str) -> dict[str, Any]:
    path = PRESETS / f"{_PREFIX}{name}.yaml"
    return _extended({"name": name, **load_yaml(path)}, str(path))


def _base(name: object, where: str, files: tuple[Path, ...]) -> dict[str, Any]:
    """The preset or the file that a machine extends; a file's name is of the folder of `where`."""
    known = accelerator_names()
    if isinstance(name, str) and name in known:
        return _preset(name)
    beside = Path(where).parent / str(name)
    if not isinstance(name, str) or beside.suffix not in (".yaml", ".yml") or not beside.is_file():
        close = nearest(str(name), known)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ConfigError(
            f"{where}: extends: expected one of {', '.join(known)}, or a machine's file (.yaml), "
            f"got {shown(name)}.{hint}"
        )
    if beside.resolve() in files or len(files) > _MOST_EXTENDED:
        raise ConfigError(f"{where}: extends: {name} extends itself, or too many files.")
    data = {"name": beside.stem, **load_yaml(beside)}
    found = _extended(data, str(beside), (*files, beside.resolve()))
    validate(Accelerator, found, str(beside))
    return found


def _extended(data: dict[str, Any], where: str, files: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Merges data into the preset or file that it extends, if it does."""
    if "extends" not in data:
        return data
    base_name = data.pop("extends")
    base = _base(base_name, where, files)
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
