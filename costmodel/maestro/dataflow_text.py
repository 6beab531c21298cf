"""MAESTRO's mapping files (`.m`) as text: networks of layers with dataflow directives.

What MAESTRO's own parser reads: blanks, commas, colons, brackets and semicolons only separate
words, `//` starts a comment, a constant stands for a number, `Sz(R)` for the size of R, and a layer
without a dataflow has the one before it. Source: `DFSL_parser.hpp` of MAESTRO (commit 4eb08d1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from mapspace.bounded_reading import read_text
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

TYPES = ("CONV", "DSCONV", "NGCONV", "TRCONV", "GEMM")
DIMENSIONS = ("N", "G", "K", "C", "R", "S", "Y", "X", "Y'", "X'", "M")
_LARGEST = 2**31 - 1
"""MAESTRO's sizes have 32 bits."""
_MOST_LAYERS = 10_000
_MOST_DIRECTIVES = 100
_WORD = re.compile(r"[{}]|[^\s,:;(){}<>]+")
_MAPS: Mapping[str, Literal["temporal", "spatial"]] = {
    "TemporalMap": "temporal",
    "SpatialMap": "spatial",
}


class Map(NamedTuple):
    """`TemporalMap(size,offset) D` or `SpatialMap(size,offset) D`."""

    kind: Literal["temporal", "spatial"]
    size: int
    offset: int
    dimension: str

    def __str__(self) -> str:
        return f"{self.kind.capitalize()}Map({self.size},{self.offset}) {self.dimension}"


class Cluster(NamedTuple):
    """`Cluster(size,P)`: what follows happens inside clusters of so many."""

    size: int

    def __str__(self) -> str:
        return f"Cluster({self.size},P)"


Directive = Map | Cluster


@dataclass(frozen=True)
class Layer:
    """One layer of a network."""

    name: str
    kind: str
    """One of `TYPES`."""
    dimensions: Mapping[str, int]
    """Sizes by the names of `DIMENSIONS`; Y and X are the input's, Y' and X' the output's."""
    strides: Mapping[str, int] = field(default_factory=dict)
    """By the names of window axes, 1 where there is none."""
    dataflow: tuple[Directive, ...] = ()
    """Outermost first; none in a file that says the network alone."""
    place: str = "layer"
    """`file: name`, which messages start with."""


class NetworkFile(NamedTuple):
    """What a file says."""

    name: str
    layers: tuple[Layer, ...]


def read_network_file(path: Path) -> NetworkFile:
    """Reads a file with one `Network`.

    Raises:
        ConfigError: `path:line: what`: it cannot be read, or is no such file.
    """
    return parse_network(read_text(path), str(path))


def parse_network(text: str, where: str) -> NetworkFile:
    """Reads the text of such a file.

    Args:
        text: what it holds.
        where: what messages start with.

    Raises:
        ConfigError: as `read_network_file`.
    """
    return _Parser(text, where).file()


def network_lines(name: str, layers: tuple[Layer, ...]) -> str:
    """A network as MAESTRO reads it; `parse_network` reads the same again."""
    lines = [f"Network {name} {{"]
    for layer in layers:
        lines += [f" Layer {layer.name} {{", f"  Type: {layer.kind}"]
        if layer.strides:
            strides = ", ".join(f"{axis}: {size}" for axis, size in layer.strides.items())
            lines.append(f"  Stride {{ {strides} }}")
        sizes = ", ".join(f"{axis}: {size}" for axis, size in layer.dimensions.items())
        lines.append(f"  Dimensions {{ {sizes} }}")
        if layer.dataflow:
            directives = [f"   {directive};" for directive in layer.dataflow]
            lines += ["  Dataflow {", *directives, "  }"]
        lines.append(" }")
    return "\n".join([*lines, "}", ""])


def _words(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _WORD.finditer(line.partition("//")[0]):
            yield number, match[0]


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self.where = where
        self.words = _words(text)
        self.line = 1
        self.constants: dict[str, int] = {}

    def error(self, message: str) -> ConfigError:
        return ConfigError(f"{self.where}:{self.line}: {message}")

    def word(self, expected: str, *, end: bool = False) -> str:
        """The next word; empty at the end of the file, where that may be."""
        self.line, word = next(self.words, (self.line, ""))
        if word or end:
            return word
        raise self.error(f"the file ends; expected {expected}.")

    def must(self, *expected: str) -> str:
        word = self.word(" or ".join(expected))
        if word not in expected:
            raise self.error(f"expected {' or '.join(expected)}, got {shown(word)}.")
        return word

    def named(self, what: str) -> str:
        """A name and the brace behind it."""
        word = self.word(what)
        if word == "{":
            return ""
        if word == "}":
            raise self.error(f"expected {what}, got '}}'.")
        self.must("{")
        return word

    def number(self, what: str, sizes: Mapping[str, int]) -> int:
        word = self.word(what)
        if word == "Sz":
            name = self.word("a dimension")
            if name not in sizes:
                known = ", ".join(sizes) or "none yet"
                raise self.error(f"Sz({name}): expected one of the layer's dimensions, {known}.")
            return sizes[name]
        if word in self.constants:
            return self.constants[word]
        if not re.fullmatch(r"[0-9]{1,10}", word) or not 1 <= int(word) <= _LARGEST:
            raise self.error(
                f"{what}: expected a whole number from 1 to 2**31 - 1 or a Constant, "
                f"got {shown(word)}."
            )
        return int(word)

    def file(self) -> NetworkFile:
        found: NetworkFile | None = None
        while word := self.word("Network", end=True):
            if word == "Constant":
                name = self.word("a name")
                self.constants[name] = self.number(f"Constant {name}", {})
            elif word == "Network" and found is None:
                found = NetworkFile(self.named("a name"), tuple(self.layers()))
            elif word == "Network":
                raise self.error("a second Network; give a file for each.")
            elif word == "Accelerator":
                raise self.error("Accelerator: not read here; give its sizes in a hardware file.")
            else:
                raise self.error(f"expected Network or Constant, got {shown(word)}.")
        if found is None:
            raise self.error("no Network; is it one of MAESTRO's mapping files?")
        return found

    def layers(self) -> Iterator[Layer]:
        before: tuple[Directive, ...] = ()
        for count in range(_MOST_LAYERS + 1):
            if self.must("Layer", "}") == "}":
                return
            if count == _MOST_LAYERS:
                break
            layer = self.layer(before)
            before = layer.dataflow
            yield layer
        raise self.error(f"expected at most {_MOST_LAYERS:,} layers.")

    def layer(self, before: tuple[Directive, ...]) -> Layer:
        name = self.named("a name") or "Layer"
        place = f"{self.where}: {name}"
        kind = ""
        strides: dict[str, int] = {}
        sizes: dict[str, int] = {}
        dataflow: tuple[Directive, ...] = ()
        while (part := self.must("Type", "Stride", "Dimensions", "Dataflow", "}")) != "}":
            if part == "Type":
                kind = self.must(*TYPES)
            elif part == "Stride":
                if sizes:
                    raise self.error("Stride: MAESTRO wants it before Dimensions.")
                strides = self.table("Stride", ("X", "Y", "X'", "Y'"))
            elif part == "Dimensions":
                sizes = self.table("Dimensions", DIMENSIONS)
            else:
                dataflow = tuple(self.directives(sizes))
        if not kind or not sizes:
            raise self.error(f"{name}: expected Type and Dimensions.")
        return Layer(name, kind, sizes, strides, dataflow or before, place)

    def table(self, what: str, known: tuple[str, ...]) -> dict[str, int]:
        self.must("{")
        table: dict[str, int] = {}
        while (axis := self.must(*known, "}")) != "}":
            if axis in table:
                raise self.error(f"{what}: {axis} is given twice.")
            table[axis] = self.number(f"{what}.{axis}", {})
        return table

    def directives(self, sizes: Mapping[str, int]) -> Iterator[Directive]:
        self.must("{")
        for _ in range(_MOST_DIRECTIVES + 1):
            word = self.must(*_MAPS, "Cluster", "}")
            if word == "}":
                return
            if word == "Cluster":
                yield Cluster(self.number("Cluster", sizes))
                self.must("P", "L")
            else:
                size, offset = self.number(f"{word}'s size", sizes), self.number(word, sizes)
                yield Map(_MAPS[word], size, offset, self.must(*DIMENSIONS))
        raise self.error(f"Dataflow: expected at most {_MOST_DIRECTIVES} directives.")
