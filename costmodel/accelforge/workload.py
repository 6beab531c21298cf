"""AccelForge's workload files as networks: Einsums over rank variables.

An Einsum names its tensors with the expressions that index their ranks. A rank variable's range is
said by `iteration_space_shape`, or is that of a rank which it indexes alone (`rank_sizes`). Source:
`accelforge/frontend/workload.py` and `renames.py` (commit 1c1929c2).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from costmodel.accelforge.einsums import Entry, File, Rename, entry_content
from costmodel.accelforge.expressions import tensor_set
from costmodel.accelforge.families import Terms, family_of
from costmodel.accelforge.templates import filled
from costmodel.networks.network_files import ReadLayer, ReadNetwork
from mapspace.bounded_reading import read_text
from mapspace.errors import ConfigError
from mapspace.strict_yaml import load_yaml, shown, validate

_TERM = re.compile(r"(?:(\d{1,9})\s*\*\s*)?([a-z]\w*)(?:\s*\*\s*(\d{1,9}))?")
_RANGE = re.compile(r"0\s*<=\s*([a-z]\w*)\s*<\s*(\d{1,12})")
_ROLES = ("input", "weight")


class _Tensor(NamedTuple):
    """A tensor of an Einsum: axes by rank, each a sum of rank variables."""

    name: str
    axes: Mapping[str, Terms]
    output: bool

    def words(self, sizes: Mapping[str, int]) -> int:
        return math.prod(extent(axis, sizes) for axis in self.axes.values())


class Operation(NamedTuple):
    """An Einsum with its ranges."""

    name: str
    tensors: tuple[_Tensor, ...]
    """Inputs, then outputs, as listed."""
    sizes: Mapping[str, int]
    """By rank variable."""
    weights: frozenset[str]
    """Tensors that are called weight."""
    times: int
    place: str
    copies: bool

    @property
    def multiplies(self) -> bool:
        """Whether it has two inputs or more."""
        return not self.copies and sum(not tensor.output for tensor in self.tensors) > 1

    def nest(self) -> dict[str, Any]:
        """The content of a workload's file, with the rank variables in capitals."""
        roles = {name: "weight" for name in self.weights if not self._is_output(name)}
        return {
            "name": self.name,
            "dimensions": {name.upper(): size for name, size in self.sizes.items()},
            "tensors": {tensor.name: _formulas(tensor) for tensor in self.tensors},
            "output": next(tensor.name for tensor in self.tensors if tensor.output),
            **({"roles": roles} if roles else {}),
        }

    def content(self) -> dict[str, Any]:
        """A family where it is one, else the whole nest."""
        inputs = [tensor for tensor in self.tensors if not tensor.output]
        if len(inputs) == 2:
            first, second = inputs if inputs[1].name in self.weights else reversed(inputs)
            axes = (tuple(one.axes.values()) for one in (first, second, self.tensors[-1]))
            if second.name in self.weights and (found := family_of(self.sizes, *axes)):
                return found
        return {key: value for key, value in self.nest().items() if key != "name"}

    def _is_output(self, name: str) -> bool:
        return any(tensor.output and tensor.name == name for tensor in self.tensors)


def extent(axis: Terms, sizes: Mapping[str, int]) -> int:
    """How many values a sum of rank variables reaches over."""
    return 1 + sum(factor * (sizes[name] - 1) for name, factor in axis)


def read_accelforge_network(path: Path, sizes: Mapping[str, int]) -> ReadNetwork:
    """Reads a workload; Einsums of one input are listed with the words that they move.

    Args:
        path: YAML with `workload`, in which templates have nothing but sizes.
        sizes: what they stand for, such as `BATCH_SIZE`.

    Raises:
        ConfigError: one line that names the file, the Einsum and the key.
    """
    operations, unused = read_operations(path, sizes)
    moving = [one for one in operations if not one.multiplies]
    return ReadNetwork(
        path.stem,
        tuple(
            ReadLayer(one.name, one.content(), one.place, one.times)
            for one in operations
            if one.multiplies
        ),
        f"{path.name}: AccelForge's workload",
        tuple(f"{one.name} moves {_moved(one):,} words" for one in moving),
        unused,
    )


def read_operations(
    path: Path, sizes: Mapping[str, int]
) -> tuple[tuple[Operation, ...], tuple[str, ...]]:
    """The Einsums of a workload, and what of it has no effect.

    Raises:
        ConfigError: as `read_accelforge_network`.
    """
    data = load_yaml(path, text=filled(read_text(path), path, sizes))
    source = data.get("workload")
    if isinstance(source, dict) and isinstance(source.get("einsums"), list):
        listed = [
            entry_content(entry, f"{path}: workload.einsums[{number}]")
            for number, entry in enumerate(source["einsums"])
        ]
        data = {**data, "workload": {**source, "einsums": listed}}
    file = validate(File, data, str(path))
    entries = [
        validate(Entry, entry, f"{path}: workload.einsums[{number}]")
        for number, entry in enumerate(file.workload.einsums)
    ]
    reading = _Reading(path, file, entries)
    return tuple(reading.operation(entry) for entry in entries), tuple(reading.unused)


class _Reading:
    def __init__(self, path: Path, file: File, entries: Iterable[Entry]) -> None:
        self.path, self.file = path, file
        accesses = [(one.name, one.output) for entry in entries for one in entry.tensor_accesses]
        self.intermediates = {name for name, output in accesses if output} & {
            name for name, output in accesses if not output
        }
        defaults = [one for one in file.renames.einsums if one.name == "default"]
        self.defaults = defaults[0].tensor_accesses if defaults else ()
        self.unused = [
            f"{path}: workload.{key}"
            for key in ("bits_per_value", "persistent_tensors")
            if getattr(file.workload, key)
        ]

    def operation(self, entry: Entry) -> Operation:
        place = f"{self.path}: workload.einsums[{entry.name}]"
        tensors = []
        for access in entry.tensor_accesses:
            axes = {
                rank: _axis(text, f"{place}.{access.name}[{rank}]")
                for rank, text in access.ranks.items()
            }
            tensors.append(_Tensor(access.name, axes, access.output))
        inputs = [tensor for tensor in tensors if not tensor.output]
        outputs = [tensor for tensor in tensors if tensor.output]
        if len(outputs) != 1 or not inputs:
            raise ConfigError(
                f"{place}.tensor_accesses: expected inputs and one output, got {len(inputs)} and "
                f"{len(outputs)}."
            )
        return Operation(
            entry.name,
            (*inputs, *outputs),
            self.sizes(entry, tensors, place),
            self.weights(entry, inputs, outputs, place),
            self.file.workload.n_instances * entry.n_instances,
            place,
            entry.is_copy_operation,
        )

    def sizes(self, entry: Entry, tensors: Iterable[_Tensor], place: str) -> dict[str, int]:
        """The least range that is said of every rank variable, in the order of the tensors."""
        ranges = [*self.file.workload.iteration_space_shape.values(), *entry.iteration_space_shape]
        said = [_range(text, f"{place}.iteration_space_shape") for text in ranges]
        ranks = {**self.file.workload.rank_sizes, **entry.rank_sizes}
        indexed = [item for tensor in tensors for item in tensor.axes.items()]
        said += [
            (axis[0][0], ranks[rank])
            for rank, axis in indexed
            if rank in ranks and len(axis) == 1 and axis[0][1] == 1
        ]
        found = {}
        for name in dict.fromkeys(name for _, axis in indexed for name, _ in axis):
            sizes = [size for its, size in said if its == name]
            if not sizes:
                raise ConfigError(
                    f"{place}: the rank variable {name} has no range; expected 0 <= {name} < SIZE "
                    f"in iteration_space_shape, or {name.upper()} in rank_sizes."
                )
            found[name] = min(sizes)
        if len({name.upper() for name in found}) < len(found):
            raise ConfigError(f"{place}: rank variables differ in small and capital letters alone.")
        for rank, axis in indexed:
            if rank in ranks and extent(axis, found) != ranks[rank]:
                self.unused.append(
                    f"{place}: rank_sizes.{rank}: {ranks[rank]}, over which its index reaches "
                    f"to {extent(axis, found)}; here all of that is data"
                )
        return found

    def weights(
        self, entry: Entry, inputs: list[_Tensor], outputs: list[_Tensor], place: str
    ) -> frozenset[str]:
        """The tensors that the Einsum, or else the file, calls weight."""
        renames = entry.renames
        if isinstance(renames, Mapping):
            renames = tuple(Rename(name=name, source=text) for name, text in renames.items())
        own = {rename.name for rename in renames}
        names = [frozenset(one.name for one in some) for some in (inputs, outputs)]
        everything = names[0] | names[1]
        known = {
            "All": everything,
            "Tensors": everything,
            "Nothing": frozenset(),
            "Inputs": names[0],
            "Outputs": names[1],
            "Intermediates": everything & self.intermediates,
            **{name: frozenset({name}) for name in everything},
        }
        for rename in (*renames, *(one for one in self.defaults if one.name not in own)):
            where = f"{place}.renames[{rename.name}]"
            known[rename.name] = tensor_set(rename.source, where, known, everything)
        return known.get("weight", frozenset())


def _axis(text: str, place: str) -> Terms:
    """A sum such as `p0 * 2 + r0`."""
    terms = []
    for part in text.split("+"):
        match = _TERM.fullmatch(part.strip()) if len(text) < 200 else None
        if match is None or (match[1] and match[3]):
            raise ConfigError(
                f"{place}: expected a sum of rank variables such as p * 2 + r, got {shown(text)}."
            )
        terms.append((match[2], int(match[1] or match[3] or 1)))
    return tuple(terms)


def _range(text: str, place: str) -> tuple[str, int]:
    match = _RANGE.fullmatch(text.strip()) if len(text) < 200 else None
    if match is None or int(match[2]) < 1:
        raise ConfigError(f"{place}: expected such as 0 <= m < 128, got {shown(text)}.")
    return match[1], int(match[2])


def _formulas(tensor: _Tensor) -> list[str]:
    return [
        " + ".join(f"{factor}*{name.upper()}" for name, factor in axis)
        for axis in tensor.axes.values()
    ]


def _moved(operation: Operation) -> int:
    return sum(tensor.words(operation.sizes) for tensor in operation.tensors)
