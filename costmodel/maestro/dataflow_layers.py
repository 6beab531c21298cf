"""Layers of MAESTRO's files as workloads, and workloads as layers of its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from costmodel.maestro.dataflow_text import Layer, read_network_file
from costmodel.networks.network_files import ReadLayer, ReadNetwork
from costmodel.problems.affine import Workload
from costmodel.problems.bits import check_words
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError

_OTHER_MEANING = {
    "NGCONV": "MAESTRO indexes its output by C as well, so that it is no grouped convolution",
    "TRCONV": "MAESTRO counts it as a convolution of an input stretched by 2",
}


class WindowAxis(NamedTuple):
    """One axis of a convolution in MAESTRO's words."""

    output: int
    filter: int
    stride: int

    @property
    def input(self) -> int:
        """Pixels that MAESTRO is told: all that the windows touch, at least a stride per output."""
        return max((self.output - 1) * self.stride + self.filter, self.output * self.stride)


def window_axis(layer: Layer, pixels: str, filters: str) -> WindowAxis:
    """The axis Y with R or X with S of a convolution.

    Raises:
        ConfigError: a size is missing or given twice, or the filter exceeds the input.
    """
    sizes = layer.dimensions
    where = f"{layer.place}: Dimensions"
    stride = layer.strides.get(pixels, layer.strides.get(f"{pixels}'", 1))
    if filters not in sizes:
        raise ConfigError(f"{where}.{filters} is missing.")
    if (pixels in sizes) == (f"{pixels}'" in sizes):
        raise ConfigError(f"{where}: expected either {pixels} or {pixels}'.")
    if f"{pixels}'" in sizes:
        return WindowAxis(sizes[f"{pixels}'"], sizes[filters], stride)
    if sizes[pixels] < sizes[filters]:
        raise ConfigError(
            f"{where}.{pixels}: expected at least {filters} = {sizes[filters]}, "
            f"got {sizes[pixels]}; MAESTRO's files have no padding."
        )
    return WindowAxis((sizes[pixels] - sizes[filters]) // stride + 1, sizes[filters], stride)


def workload_content(layer: Layer) -> dict[str, Any]:
    """What a workload's file says of a layer.

    Raises:
        ConfigError: its type is not modelled, or a dimension is missing or has no place.
    """
    if layer.kind in _OTHER_MEANING:
        raise ConfigError(
            f"{layer.place}: Type: {layer.kind} is not read: {_OTHER_MEANING[layer.kind]}."
        )
    sizes = layer.dimensions
    if layer.kind == "GEMM":
        _only(layer, {"M", "N", "K"})
        return {"gemm": {name: sizes[name] for name in ("M", "N", "K")}}
    _only(layer, {"K", "C", "R", "S"}, {"N", "X", "Y", "X'", "Y'"})
    rows, columns = window_axis(layer, "Y", "R"), window_axis(layer, "X", "S")
    across = {"P": columns.output, "Q": rows.output, "R": columns.filter, "S": rows.filter}
    depthwise = layer.kind == "DSCONV"
    if depthwise and sizes["K"] != 1:
        raise ConfigError(
            f"{layer.place}: Dimensions.K: expected 1 of a DSCONV, got {sizes['K']}: MAESTRO "
            "indexes none of its tensors by it."
        )
    channels = {"K": 1, "C": 1} if depthwise else {"K": sizes["K"], "C": sizes["C"]}
    content = {"N": sizes.get("N", 1), **channels, **across}
    groups = {"groups": sizes["C"]} if depthwise and sizes["C"] > 1 else {}
    if rows.stride == columns.stride:
        stride = {"stride": rows.stride} if rows.stride > 1 else {}
        return {"cnn": {**content, **stride, **groups}}
    return _two_strides(content, groups, rows.stride, columns.stride)


def _only(layer: Layer, needed: set[str], further: frozenset[str] | set[str] = frozenset()) -> None:
    where = f"{layer.place}: Dimensions"
    for name in sorted(needed - layer.dimensions.keys()):
        raise ConfigError(f"{where}.{name} is missing.")
    for name in sorted(layer.dimensions.keys() - needed - further):
        raise ConfigError(f"{where}.{name}: a {layer.kind} has none.")


def _two_strides(
    sizes: Mapping[str, int], groups: Mapping[str, int], down: int, across: int
) -> dict[str, Any]:
    """A convolution with a stride of its own for each axis, which the family `cnn` has not."""
    group = ["G"] if groups else []
    dimensions = {name: sizes[name] for name in ("N", "K", "C", "P", "Q", "R", "S")}
    return {
        "dimensions": {**dimensions, **({"G": groups["groups"]} if groups else {})},
        "tensors": {
            "Weights": [*group, "K", "C", "R", "S"],
            "Inputs": ["N", *group, "C", f"{across}*P + R", f"{down}*Q + S"],
            "Outputs": ["N", *group, "K", "P", "Q"],
        },
        "output": "Outputs",
        "roles": {"Weights": "weight"},
    }


def read_maestro_network(path: Path, *, lenient: bool = False) -> ReadNetwork:
    """The layers of a MAESTRO file; dataflows have no effect on what is computed.

    Args:
        path: a `.m` file.
        lenient: whether to leave out layers that are not modelled.

    Raises:
        ConfigError: one line that names file and layer.
    """
    file = read_network_file(path)
    layers, left_out = [], []
    for layer in file.layers:
        try:
            layers.append(ReadLayer(layer.name, workload_content(layer), layer.place))
        except ConfigError as error:
            if not lenient:
                raise
            left_out.append(str(error))
    mapped = any(layer.dataflow for layer in file.layers)
    return ReadNetwork(
        file.name or path.stem,
        tuple(layers),
        f"{path.name}: MAESTRO's network",
        unused=(f"{path}: Dataflow",) if mapped else (),
        left_out=tuple(left_out),
    )


def layer_of_workload(source: Workload) -> Layer:
    """A convolution or a matrix product as a layer without a dataflow.

    Raises:
        ConfigError: MAESTRO has no such layer, and why.
    """
    check_words(source, "MAESTRO")
    name = re.sub(r"[^A-Za-z0-9_]+", "_", source.name).strip("_") or "Layer"
    sizes = source.dimensions
    if source.family == "gemm":
        return Layer(name, "GEMM", {axis: sizes[axis] for axis in ("K", "M", "N")})
    if source.family != "cnn":
        raise ConfigError(
            f"{source.name}: MAESTRO has convolutions and matrix products alone; "
            f"this is of family {source.family}."
        )
    inputs = source.tensors[1]
    stride = next(factor for axis in inputs.axes for name, factor in axis.terms if name == "P")
    dilation = next(factor for axis in inputs.axes for name, factor in axis.terms if name == "R")
    if dilation != 1:
        raise ConfigError(f"{source.name}: MAESTRO has no dilation; got {dilation}.")
    groups = sizes.get("G", 1)
    if groups > 1 and (sizes["K"], sizes["C"]) != (1, 1):
        raise ConfigError(
            f"{source.name}: MAESTRO has no groups of several channels; got groups={groups} of "
            f"K={sizes['K']}, C={sizes['C']}."
        )
    down = WindowAxis(sizes["Q"], sizes["S"], stride).input
    across = WindowAxis(sizes["P"], sizes["R"], stride).input
    batch = {"N": sizes["N"]} if sizes["N"] > 1 else {}
    channels = {"K": sizes["K"], "C": groups if groups > 1 else sizes["C"]}
    window = {"R": sizes["S"], "S": sizes["R"], "Y": down, "X": across}
    dimensions = {**batch, **channels, **window}
    kind = "DSCONV" if groups > 1 else "CONV"
    written = Layer(name, kind, dimensions, {"X": stride, "Y": stride})
    if workload(workload_content(written)).hash != source.hash:
        raise ConfigError(f"{source.name}: MAESTRO's files have no place for it.")
    return written
