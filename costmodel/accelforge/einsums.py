"""What a workload file of AccelForge's may say, typed, and its Einsums written as one line."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field

from mapspace.errors import ConfigError
from mapspace.strict_yaml import Identifier, Size, StrictModel, shown

MOST_EINSUMS = 10_000
_LONGEST = 2_000
_TENSOR = re.compile(r"([A-Za-z_]\w*)\[([^\[\]]*)\]")
_LINE = re.compile(r"[A-Za-z_]\w*\[[^\[\]]*\]=[^=]+")

Ranges = Annotated[tuple[str, ...], Field(max_length=64)]
Bits = dict[str, int | str]


class Access(StrictModel):
    """A tensor with the expressions that index its ranks."""

    name: Identifier
    projection: Annotated[tuple[str, ...] | dict[str, str], Field(max_length=32)]
    output: bool = False
    persistent: bool = False
    backing_storage_size_scale: float = 1.0
    bits_per_value: int | str | None = None

    @property
    def ranks(self) -> dict[str, str]:
        """Expressions by rank; of a list the ranks are the variables in capitals."""
        if isinstance(self.projection, dict):
            return self.projection
        return {text.strip().upper(): text for text in self.projection}


class Rename(StrictModel):
    """A name for a set of tensors."""

    name: Identifier
    source: str
    expected_count: int | str | None = None


Renames = dict[str, str] | tuple[Rename, ...]


class Entry(StrictModel):
    """One Einsum."""

    name: Identifier
    tensor_accesses: Annotated[tuple[Access, ...], Field(min_length=2, max_length=16)]
    iteration_space_shape: Ranges = ()
    rank_sizes: dict[str, Size] = Field(default_factory=dict)
    is_copy_operation: bool = False
    renames: Renames = ()
    n_instances: Size = 1


class _DefaultRenames(StrictModel):
    name: str
    tensor_accesses: tuple[Rename, ...] = ()
    rank_variables: tuple[Rename, ...] = ()


class AllRenames(StrictModel):
    """Names for the tensors of every Einsum."""

    einsums: tuple[_DefaultRenames, ...] = ()


class Source(StrictModel):
    """What `workload` holds; Einsums are read one by one."""

    version: str | float | None = None
    rank_sizes: dict[str, Size] = Field(default_factory=dict)
    iteration_space_shape: dict[str, str] = Field(default_factory=dict)
    bits_per_value: Bits = Field(default_factory=dict)
    persistent_tensors: str | None = None
    n_instances: Size = 1
    einsums: Annotated[tuple[Any, ...], Field(min_length=1, max_length=MOST_EINSUMS)]


class File(StrictModel):
    """A file with a workload and nothing but names beside it."""

    workload: Source
    renames: AllRenames = AllRenames()


def entry_content(entry: object, place: str) -> object:
    """An Einsum's keys; one written as a line is taken apart.

    Args:
        entry: text such as `Z[m, n] = A[m, k] * B[k, n]`, or keys, with such a text under `einsum`.
        place: where it stands.

    Raises:
        ConfigError: a line of another form, or a key that the line has said.
    """
    if isinstance(entry, str):
        return _taken_apart(entry, place)
    if not isinstance(entry, dict) or "einsum" not in entry:
        return entry
    rest = {key: value for key, value in entry.items() if key != "einsum"}
    for key in ("name", "tensor_accesses"):
        if key in rest:
            raise ConfigError(f"{place}.{key}: the line under einsum says it.")
    return {**_taken_apart(entry["einsum"], f"{place}.einsum"), **rest}


def _taken_apart(line: object, place: str) -> dict[str, Any]:
    text = re.sub(r"\s+", "", line) if isinstance(line, str) and len(line) <= _LONGEST else ""
    if not _LINE.fullmatch(text):
        raise ConfigError(
            f"{place}: expected such as Z[m, n] = A[m, k] * B[k, n], got {shown(line)}."
        )
    accesses = []
    output, *inputs = _TENSOR.findall(text)
    for name, indices in (*inputs, output):
        ranks: dict[str, str] = {}
        for part in indices.split(","):
            rank, colon, expression = part.partition(":")
            key = rank if colon else part.upper()
            if key in ranks:
                raise ConfigError(f"{place}: {name}: the rank {shown(key)} is given twice.")
            ranks[key] = expression if colon else part
        accesses.append({"name": name, "projection": ranks, "output": (name, indices) == output})
    return {"name": output[0], "tensor_accesses": accesses}
