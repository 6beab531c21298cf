"""SCALE-Sim's topology (CSV) as a network: a layer a line, sizes of the input with its padding."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from costmodel.networks.network_files import ReadLayer, ReadNetwork
from mapspace.bounded_reading import read_text
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

_CONV = ("IFMAP height", "IFMAP width", "filter height", "filter width", "channels",
         "filters", "stride")  # fmt: skip
_GEMM = ("M", "N", "K")
_MOST_LAYERS = 10_000


def read_scalesim_network(path: Path) -> ReadNetwork:
    """The layers of a topology of convolutions, or of matrix products (columns M, N, K).

    Raises:
        ConfigError: one line that names the file, its line and the column.
    """
    rows = list(csv.reader(io.StringIO(read_text(path))))
    heading = [cell.strip() for cell in rows[0]] if rows else []
    if len(rows) > _MOST_LAYERS or not heading or not heading[0].casefold().startswith("layer"):
        raise ConfigError(
            f"{path}: expected SCALE-Sim's topology: a heading that begins with Layer."
        )
    names = _GEMM if [cell.casefold() for cell in heading[1:4]] == ["m", "n", "k"] else _CONV
    return ReadNetwork(
        name=path.stem,
        layers=tuple(_layers(rows[1:], names, path)),
        source=f"{path.name}: SCALE-Sim's topology",
        unused=tuple(f"{path}: {cell}" for cell in heading[len(names) + 2 :] if cell),
    )


def _layers(rows: Sequence[Sequence[str]], names: Sequence[str], path: Path) -> Iterator[ReadLayer]:
    for number, row in enumerate(rows, start=2):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        place = f"{path}, line {number}"
        sizes = [_size(cells, column, name, place) for column, name in enumerate(names, start=1)]
        content: dict[str, Any]
        if names is _GEMM:
            content = {"gemm": dict(zip(_GEMM, sizes, strict=True))}
        else:
            content = {"cnn": _convolution(sizes, place)}
        yield ReadLayer(cells[0] or f"layer{number - 1}", content, place)


def _size(cells: Sequence[str], column: int, name: str, place: str) -> int:
    given = cells[column] if column < len(cells) else ""
    if not given.isdecimal() or len(given) > 10 or int(given) < 1:
        raise ConfigError(
            f"{place}: {name}: expected a whole number of at least 1, got {shown(given)}."
        )
    return int(given)


def _convolution(sizes: Sequence[int], place: str) -> dict[str, int]:
    height, width, tall, wide, channels, filters, stride = sizes
    if tall > height or wide > width:
        raise ConfigError(f"{place}: a filter of {tall} x {wide} exceeds {height} x {width}.")
    # SCALE-Sim rounds up: what its last window lacks counts as computed.
    rows, columns = (
        -(-(size - taps + stride) // stride) for size, taps in ((height, tall), (width, wide))
    )
    whole = {"N": 1, "K": filters, "C": channels, "P": columns, "Q": rows, "R": wide, "S": tall}
    return whole | ({"stride": stride} if stride > 1 else {})
