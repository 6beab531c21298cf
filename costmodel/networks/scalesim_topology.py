"""SCALE-Sim's topology (CSV) as a network: a layer a line, sizes of the input with its padding."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from costmodel.networks.network_files import ReadLayer, ReadNetwork
from mapspace.bounded_reading import read_text
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

_CONV = ("IFMAP height", "IFMAP width", "filter height", "filter width", "channels",
         "filters", "stride")  # fmt: skip
_GEMM = ("M", "N", "K")
_MOST_LAYERS = 10_000
_SPARSITY = re.compile(r"[1-9]\d{0,3}:[1-9]\d{0,3}")


class TopologyLayer(NamedTuple):
    """A line of a topology, as sizes of a convolution; M x N x K is an M x K input of K channels.

    SCALE-Sim runs a layer whose name holds `DP` channel by channel, each with all filters.
    """

    name: str
    height: int
    """Of the input, padding included."""
    width: int
    filter_height: int
    filter_width: int
    channels: int
    """That are added up: 1 of a layer that is run channel by channel."""
    filters: int
    stride: int
    times: int
    """How often it is run: as often as it has channels, or once."""
    product: bool
    """Whether the line is a matrix product: M, N, K."""
    place: str
    """File and line, which messages start with."""

    @property
    def output(self) -> tuple[int, int]:
        """Height and width of the output: what a last window lacks counts as computed."""
        sizes = ((self.height, self.filter_height), (self.width, self.filter_width))
        rows, columns = (-(-(size - taps + self.stride) // self.stride) for size, taps in sizes)
        return rows, columns

    @property
    def pixels(self) -> int:
        """Of the output, of one filter."""
        rows, columns = self.output
        return rows * columns

    @property
    def window(self) -> int:
        """Products that one output is the sum of."""
        return self.filter_height * self.filter_width * self.channels

    @property
    def macs(self) -> int:
        """Of one run."""
        return self.pixels * self.window * self.filters

    @property
    def content(self) -> dict[str, Any]:
        """What a workload's file holds."""
        if self.product:
            return {"gemm": {"M": self.height, "N": self.filters, "K": self.width}}
        rows, columns = self.output
        sizes = {"N": 1, "K": self.filters, "C": self.channels, "P": columns, "Q": rows}
        sizes |= {"R": self.filter_width, "S": self.filter_height}
        more = {"stride": self.stride, "groups": self.times}
        return {"cnn": sizes | {key: size for key, size in more.items() if size > 1}}


class Topology(NamedTuple):
    """What a topology's file says."""

    name: str
    layers: tuple[TopologyLayer, ...]
    unused: tuple[str, ...]
    """Columns that change no cost, each with the file."""


def read_topology(path: Path) -> Topology:
    """The layers of a topology of convolutions, or of matrix products (columns M, N, K).

    Raises:
        ConfigError: one line that names the file, its line and the column.
    """
    rows = list(islice(csv.reader(io.StringIO(read_text(path))), _MOST_LAYERS + 2))
    heading = [cell.strip() for cell in rows[0]] if rows else []
    if len(rows) > _MOST_LAYERS + 1:
        raise ConfigError(f"{path}: expected at most {_MOST_LAYERS:,} layers.")
    if not heading or not heading[0].casefold().startswith("layer"):
        raise ConfigError(
            f"{path}: expected SCALE-Sim's topology: a heading that begins with Layer."
        )
    letters = [cell.casefold() for cell in heading[1:4]]
    if letters != ["m", "n", "k"] and sorted(letters) == ["k", "m", "n"]:
        got = ", ".join(heading[1:4])
        raise ConfigError(
            f"{path}: heading: expected the columns M, N, K in this order, got {got}."
        )
    names = _GEMM if letters == ["m", "n", "k"] else _CONV
    return Topology(
        path.stem,
        tuple(_layers(rows[1:], names, path)),
        tuple(f"{path}: {cell}" for cell in heading[len(names) + 1 :] if cell),
    )


def read_scalesim_network(path: Path) -> ReadNetwork:
    """The layers of a topology as a network.

    Raises:
        ConfigError: as `read_topology`.
    """
    topology = read_topology(path)
    return ReadNetwork(
        name=topology.name,
        layers=tuple(ReadLayer(one.name, one.content, one.place) for one in topology.layers),
        source=f"{path.name}: SCALE-Sim's topology",
        unused=topology.unused,
    )


def _layers(
    rows: Sequence[Sequence[str]], names: Sequence[str], path: Path
) -> Iterator[TopologyLayer]:
    for number, row in enumerate(rows, start=2):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        place = f"{path}, line {number}"
        sizes = [_size(cells, column, name, place) for column, name in enumerate(names, start=1)]
        _check_further(cells[len(names) + 1 :], place)
        name = cells[0] or f"layer{number - 1}"
        if names is _GEMM:
            m, n, k = sizes
            yield TopologyLayer(name, m, k, 1, k, 1, n, 1, 1, True, place)
            continue
        height, width, tall, wide, channels, filters, stride = sizes
        if tall > height or wide > width:
            raise ConfigError(f"{place}: a filter of {tall} x {wide} exceeds {height} x {width}.")
        times = channels if "DP" in name else 1
        channels //= times
        yield TopologyLayer(
            name, height, width, tall, wide, channels, filters, stride, times, False, place
        )


def _size(cells: Sequence[str], column: int, name: str, place: str) -> int:
    given = cells[column] if column < len(cells) else ""
    if not given.isdecimal() or len(given) > 10 or int(given) < 1:
        raise ConfigError(
            f"{place}: {name}: expected a whole number of at least 1, got {shown(given)}."
        )
    return int(given)


def _check_further(cells: Sequence[str], place: str) -> None:
    """Refuses what is no sparsity such as 2:4 behind the sizes."""
    given = [cell for cell in cells if cell]
    if len(given) > 1 or not all(map(_SPARSITY.fullmatch, given)):
        raise ConfigError(
            f"{place}: expected nothing behind the sizes but a sparsity such as 2:4, got "
            f"{shown(', '.join(given))}."
        )
