"""MAESTRO's dataflows as records of cluster mappings, and back.

A dataflow that a record can say has one map a level that is spatial, and inside a cluster no loop
of its own: every level below the first takes the tile above it in one step. R and S are never cut.
The row-stationary style adds clusters of R elements that take one filter row each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from costmodel.maestro.dataflow_layers import WindowAxis, window_axis
from costmodel.maestro.dataflow_text import (
    Cluster,
    Directive,
    Layer,
    Map,
    network_lines,
    read_network_file,
)
from costmodel.maestro.mappings import PARALLEL, TILED
from costmodel.maestro.records import mappings_from_records, records_from_mappings
from mapspace.bounded_reading import read_text
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

Record = dict[str, Any]

_AXES = {"P": ("X", "S"), "Q": ("Y", "R")}
_NAMES = {"K": "K", "C": "C", "X": "P", "Y": "Q", "X'": "P", "Y'": "Q"}
_OF_PRODUCT = {"N": "K", "K": "C", "M": "Y"}
"""Dimensions of a matrix product by those of the 1 x 1 convolution that it is."""
_HARDWARE = {
    "num_pes": "num_pes",
    "noc_bw_cstr": "noc_bw",
    "l1_size_cstr": "l1",
    "l2_size_cstr": "l2",
    "offchip_bw_cstr": None,
}
"""Keys of a hardware file, and of a record's platform; off-chip bandwidth is not modelled."""


def read_hardware(path: Path) -> dict[str, int]:
    """MAESTRO's hardware file: lines such as `num_pes: 256`.

    Returns:
        A record's `platform`: `num_pes`, `noc_bw`, and `l1` and `l2` where the file has them.

    Raises:
        ConfigError: `path:line: what`.
    """
    platform: dict[str, int] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        text = line.partition("//")[0].strip()
        if not text:
            continue
        match = re.fullmatch(r"(\w+)\s*:\s*([0-9]{1,10})", text)
        if match is None or match[1] not in _HARDWARE or not int(match[2]):
            raise ConfigError(
                f"{path}:{number}: expected KEY: NUMBER with one of {', '.join(_HARDWARE)}, "
                f"got {shown(text)}."
            )
        key = _HARDWARE[match[1]]
        if key in platform:
            raise ConfigError(f"{path}:{number}: {match[1]} is given twice.")
        if key is not None:
            platform[key] = int(match[2])
    for name, key in _HARDWARE.items():
        if key in ("num_pes", "noc_bw") and key not in platform:
            raise ConfigError(f"{path}: {name} is missing.")
    return platform


def read_mappings(
    path: Path, hardware: Path, *, lenient: bool = False
) -> tuple[list[Record], list[str]]:
    """A record for every layer of a mapping file, and what was left out.

    Args:
        path: a network in which every layer has a dataflow.
        hardware: the file of the machine, as `read_hardware` reads it.
        lenient: whether to leave out layers whose dataflow has no counterpart.

    Raises:
        ConfigError: one line that names file, layer and directive.
    """
    platform = read_hardware(hardware)
    records, left_out = [], []
    for layer in read_network_file(path).layers:
        try:
            records.append(record_of(layer, platform))
        except ConfigError as error:
            if not lenient:
                raise
            left_out.append(str(error))
    if not records:
        raise ConfigError(f"{path}: no layer has a dataflow that can be read.")
    return records, left_out


def record_of(layer: Layer, platform: Mapping[str, int]) -> Record:
    """The cluster mapping that a layer's dataflow is.

    Args:
        layer: a convolution, depthwise convolution or matrix product with a dataflow.
        platform: `num_pes`, which the dataflow's clusters share, and `noc_bw`.

    Raises:
        ConfigError: the dataflow has no counterpart, and which directive.
    """
    return _Reading(_as_convolution(layer)).record(platform)


def _as_convolution(layer: Layer) -> Layer:
    """A matrix product as the 1 x 1 convolution for which MAESTRO counts the same.

    Its tensors there are indexed by M and K, K and N, M and N, as those of such a convolution by
    Y and C, C and K, Y and K (`ConfigConvTensors`); the real MAESTRO counts both alike.

    Raises:
        ConfigError: dimensions are missing, or a dataflow speaks of others.
    """
    if layer.kind != "GEMM":
        return layer
    for name in _OF_PRODUCT:
        if name not in layer.dimensions:
            raise ConfigError(f"{layer.place}: Dimensions.{name} is missing.")
    sizes = {ours: layer.dimensions[name] for name, ours in _OF_PRODUCT.items()}
    dataflow: list[Directive] = []
    for directive in layer.dataflow:
        if isinstance(directive, Map):
            if directive.dimension not in _OF_PRODUCT:
                raise ConfigError(
                    f"{layer.place}: Dataflow: {directive}: a GEMM's dataflow has M, N and K."
                )
            directive = directive._replace(dimension=_OF_PRODUCT[directive.dimension])
        dataflow.append(directive)
    return replace(
        layer,
        kind="CONV",
        dimensions={**sizes, "R": 1, "S": 1, "X": 1},
        dataflow=tuple(dataflow),
        place=f"{layer.place} (M, N and K as Y, K and C)",
    )


class _Reading:
    """One layer's dataflow while it is read."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.place = f"{layer.place}: Dataflow"
        sizes = layer.dimensions
        if layer.kind not in ("CONV", "DSCONV"):
            raise ConfigError(
                f"{layer.place}: Type: expected CONV, DSCONV or GEMM to score a dataflow, got "
                f"{layer.kind}."
            )
        if not layer.dataflow:
            raise ConfigError(f"{layer.place}: no Dataflow, neither here nor before.")
        for name in ("K", "C", "R", "S"):
            if name not in sizes:
                raise ConfigError(f"{layer.place}: Dimensions.{name} is missing.")
        if sizes.get("N", 1) != 1:
            raise ConfigError(
                f"{layer.place}: Dimensions.N: expected 1, got {sizes['N']}: a batch is not "
                "modelled in dataflows."
            )
        self.windows = {d: window_axis(layer, *names) for d, names in _AXES.items()}
        self.strides = {window.stride for window in self.windows.values()}
        if len(self.strides) > 1:
            raise ConfigError(f"{layer.place}: Stride: expected one for X and Y.")
        outputs = {d: window.output for d, window in self.windows.items()}
        self.bounds = {"K": sizes["K"], "C": sizes["C"], **outputs}

    def error(self, directive: Directive, expected: str) -> ConfigError:
        return ConfigError(f"{self.place}: {directive}: {expected}.")

    def levels(self) -> tuple[list[list[Map]], list[int]]:
        """Maps by level, outermost first, and the sizes of the clusters between them."""
        levels: list[list[Map]] = [[]]
        clusters = []
        for directive in self.layer.dataflow:
            if isinstance(directive, Cluster):
                clusters.append(directive.size)
                levels.append([])
            else:
                levels[-1].append(directive)
        return levels, clusters

    def record(self, platform: Mapping[str, int]) -> Record:
        levels, clusters = self.levels()
        row_stationary = len(levels) == 2 and self.is_filter_row(levels[1], clusters[0])
        if row_stationary:
            levels = levels[:1]
        top, *inner = [self.tiles(level) for level in levels]
        order = [d for d in TILED if d not in top[0]] + list(top[0])
        tile = {d: top[0].get(d, self.bounds[d]) for d in TILED}
        elements = math.prod(clusters)
        first = platform["num_pes"] // elements
        if first < 1:
            raise ConfigError(
                f"{self.place}: clusters of {elements} elements, but num_pes is "
                f"{platform['num_pes']}."
            )
        parallel = [(top[1], first)]
        for (sizes, spatial), factor in zip(inner, clusters, strict=False):
            parallel.append((spatial, factor))
            for d in TILED:
                inside = sizes.get(d, tile[d] if d != spatial else 0)
                if inside * (factor if d == spatial else 1) != tile[d]:
                    raise ConfigError(
                        f"{self.place}: inside clusters of {factor}, {inside} of {d}: expected "
                        f"the tile of {tile[d]} above in one step."
                    )
                tile[d] = inside
        if len(parallel) > PARALLEL:
            raise ConfigError(f"{self.place}: expected at most {PARALLEL} levels.")
        depthwise = self.layer.kind == "DSCONV"
        named = [d for d in TILED if not (depthwise and d == "K")]
        whole = self.layer.dimensions
        return {
            "layer": self.layer.name,
            "maestro_type": self.layer.kind,
            "l3_tile": {
                **{name: whole[name] for name in ("K", "C", "R", "S")},
                **{d: self.bounds[d] for d in ("P", "Q")},
            },
            "stride": next(iter(self.strides)),
            "platform": dict(platform),
            "style": "qr" if row_stationary else "generic",
            "order": [d for d in order if d in named],
            "t1": {d: tile[d] for d in named},
            "par": [[d, factor] for d, factor in parallel],
            "hop_latency": 1,
        }

    def is_filter_row(self, level: Sequence[Map], cluster: int) -> bool:
        """Whether a level hands the rows of the filter to its elements, one each."""
        rows = self.layer.dimensions["R"]
        spatial = {(m.size, m.offset, m.dimension) for m in level if m.kind == "spatial"}
        others = [m for m in level if m.kind == "temporal" and m.dimension not in "RS"]
        return spatial == {(1, 1, "Y"), (1, 1, "R")} and cluster == rows and not others

    def tiles(self, level: Sequence[Map]) -> tuple[dict[str, int], str]:
        """Tiles by dimension in the order of the loops, and the spatial one of a level."""
        tiles: dict[str, int] = {}
        spatial = []
        for directive in level:
            if directive.dimension in ("R", "S"):
                self.check_filter(directive)
                continue
            if directive.dimension not in _NAMES:
                raise self.error(directive, "a convolution's dataflow has K, C, R, S, X and Y")
            name = _NAMES[directive.dimension]
            if name in tiles:
                raise self.error(directive, f"{name} stands twice in a level")
            tiles[name] = self.tile(directive, name)
            if directive.kind == "spatial":
                spatial.append(name)
        if len(spatial) != 1:
            raise ConfigError(
                f"{self.place}: expected one SpatialMap of K, C, X or Y a level, "
                f"got {len(spatial)}."
            )
        return tiles, spatial[0]

    def check_filter(self, directive: Map) -> None:
        whole = self.layer.dimensions[directive.dimension]
        if directive.kind == "spatial" or (directive.size, directive.offset) != (whole, whole):
            raise self.error(
                directive, f"expected TemporalMap({whole},{whole}): filters are not cut"
            )

    def tile(self, directive: Map, name: str) -> int:
        """How many channels or outputs a map takes at a time."""
        size, offset, dimension = directive.size, directive.offset, directive.dimension
        if name not in self.windows or dimension.endswith("'"):
            count = size
            wanted = size
        else:
            window = self.windows[name]
            count = (size - window.filter) // window.stride + 1
            size, wanted = (count - 1) * window.stride + window.filter, count * window.stride
            if count < 1 or size != directive.size:
                raise self.error(
                    directive,
                    f"expected a size of whole outputs, filter {window.filter} and stride "
                    f"{window.stride}",
                )
        if offset != wanted:
            raise self.error(directive, f"expected an offset of {wanted}: no overlap, no gap")
        return count


def layer_of(record: Record) -> tuple[Layer, int]:
    """A record of a cluster mapping as a layer with its dataflow, and the elements it takes.

    Raises:
        ConfigError: it cannot be read.
    """
    # Through the model, so that what is written is what is scored.
    (plain,) = records_from_mappings(mappings_from_records([record]))
    bounds, stride = plain["l3_tile"], plain["stride"]
    windows = {d: WindowAxis(bounds[d], bounds[names[1]], stride) for d, names in _AXES.items()}
    pixels = {"Y": windows["Q"].input, "X": windows["P"].input}
    name = str(record.get("layer") or "Layer")
    name = re.sub(r"[^A-Za-z0-9_]+", "_", name)[:100]
    dimensions = {**{d: bounds[d] for d in ("K", "C", "R", "S")}, **pixels}
    strides = {"X": stride, "Y": stride}
    parallel = [(d, factor) for d, factor in plain["par"]] or [(plain["order"][0], 1)]
    rows = bounds["R"] if plain["style"] == "qr" else 1
    elements = rows * math.prod(factor for _, factor in parallel)
    if plain["style"] == "qr":
        dataflow = _row_stationary(plain, windows)
    else:
        dataflow = _generic(plain, parallel, windows)
    layer = Layer(name, plain["maestro_type"], dimensions, strides, tuple(dataflow))
    return layer, elements


def mapping_text(record: Record) -> str:
    """A record as a mapping file of MAESTRO's, with the `num_pes` that it is for.

    Raises:
        ConfigError: it cannot be read.
    """
    layer, elements = layer_of(record)
    return f"// num_pes: {elements}\n{network_lines('N', (layer,))}"


def _map(spatial: bool, name: str, count: int, windows: Mapping[str, WindowAxis]) -> Map:
    kind: Literal["temporal", "spatial"] = "spatial" if spatial else "temporal"
    if name not in windows:
        return Map(kind, count, count, name)
    window = windows[name]
    size = (count - 1) * window.stride + window.filter
    return Map(kind, size, count * window.stride, _AXES[name][0])


def _generic(
    record: Record, parallel: Sequence[tuple[str, int]], windows: Mapping[str, WindowAxis]
) -> list[Directive]:
    rows, columns = record["l3_tile"]["R"], record["l3_tile"]["S"]
    filters = [Map("temporal", rows, rows, "R"), Map("temporal", columns, columns, "S")]
    directives: list[Directive] = []
    for level, (spatial, factor) in enumerate(parallel):
        if level:
            directives.append(Cluster(factor))
        for name in record["order"]:
            inside = math.prod(f for d, f in parallel[level + 1 :] if d == name)
            count = record["t1"][name] * inside
            directives.append(_map(name == spatial, name, count, windows))
        directives += filters
    return directives


def _row_stationary(record: Record, windows: Mapping[str, WindowAxis]) -> list[Directive]:
    """As MAESTRO's own row-stationary files: a cluster of R elements takes one output row."""
    rows, columns = record["l3_tile"]["R"], record["l3_tile"]["S"]
    directives: list[Directive] = []
    for name in record["order"]:
        if name == "Q":
            directives.append(Map("temporal", rows, rows, "R"))
        directives.append(_map(name == "Q", name, record["t1"][name], windows))
    return [
        *directives,
        Cluster(rows),
        Map("spatial", 1, 1, "Y"),
        Map("spatial", 1, 1, "R"),
        Map("temporal", columns, columns, "S"),
    ]
