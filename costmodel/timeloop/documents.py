"""Timeloop's input files: YAML of any version and libconfig, as one table of top keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import libconf

from mapspace.bounded_reading import read_text
from mapspace.errors import ConfigError
from mapspace.strict_yaml import load_yaml, shown

PARTS: Mapping[str, str] = {
    "architecture": "architecture",
    "arch": "architecture",
    "problem": "problem",
    "mapping": "mapping",
    "ERT": "ERT",
    "ART": "ART",
    "architecture_constraints": "architecture_constraints",
    "arch_constraints": "architecture_constraints",
    "arch.constraints": "architecture_constraints",
    "mapspace": "mapspace",
    "mapspace_constraints": "mapspace",
    "mapper": "mapper",
    "variables": "variables",
}
"""What a top key is, by the names it goes under."""

WITHOUT_EFFECT = frozenset(
    {"ART", "components", "globals", "compound_components", "dumped_by_timeloop_front_end"}
)
"""Top keys that no cost depends on."""
_FRONT_END = "dumped_by_timeloop_front_end"
_MOST_FILES = 64
_JINJA = re.compile(r"^[^#\n]*?(\{\{[^\n]{0,40}|\{%[^\n]{0,40})", re.MULTILINE)


class Part(NamedTuple):
    """What stands under one top key."""

    place: str
    """`file: key`, which messages start with."""
    value: Any


class Documents(NamedTuple):
    """All files together."""

    parts: dict[str, Part]
    """By the names that `PARTS` gives them."""
    left_out: tuple[str, ...]
    """What was read and has no effect, each with its place."""

    def needed(self, name: str, what: str) -> Part:
        """A part that must be there.

        Raises:
            ConfigError: it is not.
        """
        if name not in self.parts:
            names = " or ".join(key for key, part in PARTS.items() if part == name)
            raise ConfigError(f"no file has {names} at its top level: {what}.")
        return self.parts[name]


def read_documents(files: Sequence[Path], *, lenient: bool = False) -> Documents:
    """Reads files in any order; a part may stand in several only if they say the same.

    A file that Timeloop's front end wrote goes before those that it was made of.

    Args:
        files: YAML, or libconfig where the name ends in `.cfg`.
        lenient: whether to leave out what is not modelled.

    Raises:
        ConfigError: `file: what`: a file that cannot be read, a part that is not modelled or not
            known, or that two files give differently.
    """
    if not files or len(files) > _MOST_FILES:
        raise ConfigError(f"expected 1 to {_MOST_FILES} files, got {len(files)}.")
    read = [(path, _read(path)) for path in files]
    read.sort(key=lambda entry: not entry[1].get(_FRONT_END, False))
    parts: dict[str, Part] = {}
    left_out: list[str] = []
    for path, content in read:
        for key, value in content.items():
            place = f"{path}: {key}"
            if key in WITHOUT_EFFECT:
                left_out.append(place)
                continue
            name = PARTS.get(key)
            if name is None:
                if not lenient:
                    raise ConfigError(f"{place}: not modelled; lenient reading leaves it out.")
                left_out.append(place)
            elif name not in parts or not parts[name].value:
                parts[name] = Part(place, value)
            elif value and parts[name].value != value:
                if not _of_front_end(read[0], parts[name].place):
                    raise ConfigError(f"{place}: {parts[name].place} says something else.")
                left_out.append(place)
    return Documents(parts, tuple(left_out))


def _of_front_end(first: tuple[Path, Mapping[str, Any]], place: str) -> bool:
    """Whether the part at a place is of the file that Timeloop's front end wrote."""
    path, content = first
    return bool(content.get(_FRONT_END, False)) and place.startswith(f"{path}: ")


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    if path.suffix != ".cfg":
        try:
            return load_yaml(path, tags=True, text=text)
        except ConfigError:
            found = _JINJA.search(text)
            if found is None:
                raise
            line = text.count("\n", 0, found.start()) + 1
            raise ConfigError(
                f"{path}, line {line}: a template ({found[1].strip()}): Timeloop's front end "
                "(timeloopfe) writes it out as parsed-processed-input.yaml, which is read here."
            ) from None
    if "@include" in text:
        raise ConfigError(f"{path}: @include is not followed; give the file as well.")
    try:
        content = libconf.loads(text)
    except (libconf.ConfigParseError, RecursionError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}.") from None
    return {str(key): _plain(value) for key, value in content.items()}


def _plain(value: Any) -> Any:
    """Mappings, lists and scalars of Python in place of the library's."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def name_and_count(text: object, place: str) -> tuple[str, int]:
    """A component's name and how many of it there are: `PE[0..15]` is 16 of `PE`.

    Raises:
        ConfigError: no such name, or a range that runs backwards.
    """
    found = re.fullmatch(r"([^\[\]]+?)(?:\[(\d{1,9})\.\.(\d{1,9})\])?", str(text))
    if found is None or not isinstance(text, str):
        raise ConfigError(f"{place}.name: expected a name such as PE[0..15], got {shown(text)}.")
    first, last = int(found[2] or 0), int(found[3] or 0)
    if last < first:
        raise ConfigError(f"{place}.name: the range of {text!r} runs backwards.")
    return found[1], last - first + 1
