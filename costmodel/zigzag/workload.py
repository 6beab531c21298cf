"""ZigZag's workload YAML as a network: a list of layers, each an equation over named loops."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from costmodel.networks.network_files import ReadLayer, ReadNetwork
from mapspace.errors import ConfigError
from mapspace.strict_yaml import Name, Size, StrictModel, load_yaml_list, shown, validate

_OPERAND = r"\s*([A-Za-z]\w*)\s*((?:\[\s*\w*\s*\])+)\s*"
_EQUATION = re.compile(rf"{_OPERAND}(\+?)\s*={_OPERAND}([*+]){_OPERAND}")
_RELATION = re.compile(
    r"(\w+)\s*=\s*(?:(\d{1,9})\s*\*\s*)?(\w+)\s*\+\s*(?:(\d{1,9})\s*\*\s*)?(\w+)"
)
_MULTIPLYING = ("Conv", "Conv_downsample", "Gemm")
_OTHERS = ("Add", "Pooling", "Pool", "MaxPool", "AveragePool", "GlobalAveragePool", "Max")
_UNUSED = ("operand_precision", "operand_source", "pr_loop_dims", "pr_loop_sizes", "padding")
_MOST_LAYERS = 10_000
# Loops of a convolution by ZigZag's names and by ours, per operand.
_CONV = {"b": "N", "g": "G", "k": "K", "c": "C", "ox": "P", "oy": "Q", "fx": "R", "fy": "S"}
_CONV_OPERANDS = (frozenset("gkc") | {"fx", "fy"}, frozenset("bgc") | {"ix", "iy"})
_CONV_OUTPUT = frozenset("bgk") | {"ox", "oy"}


class _Layer(StrictModel):
    """One entry of the list."""

    id: int
    name: Name | None = None
    operator_type: Name
    equation: Name
    dimension_relations: tuple[str, ...] = ()
    loop_dims: tuple[Name, ...] = Field(min_length=1, max_length=32)
    loop_sizes: tuple[Size, ...]
    # What follows changes no count here.
    operand_precision: dict[str, int] | None = None
    operand_source: dict[str, int] | None = None
    pr_loop_dims: tuple[str, ...] | None = None
    pr_loop_sizes: tuple[int, ...] | None = None
    padding: tuple[tuple[int, ...], ...] | None = None


class _File(StrictModel):
    layers: tuple[_Layer, ...] = Field(max_length=_MOST_LAYERS)


class _Relation(NamedTuple):
    """An index that is a sum of two loops: `ix = 2*ox + 1*fx`."""

    terms: tuple[tuple[str, int], tuple[str, int]]


class _Operation(NamedTuple):
    """What a layer computes; all names in small letters but those of operands."""

    output: tuple[str, tuple[str, ...]]
    left: tuple[str, tuple[str, ...]]
    right: tuple[str, tuple[str, ...]]
    multiplies: bool
    sizes: Mapping[str, int]
    relations: Mapping[str, _Relation]

    def extent(self, index: str) -> int:
        if index in self.sizes:
            return self.sizes[index]
        return 1 + sum(f * (self.sizes[name] - 1) for name, f in self.relations[index].terms)

    def words(self, operand: tuple[str, tuple[str, ...]]) -> int:
        return math.prod(self.extent(index) for index in operand[1])


def read_zigzag_network(path: Path, *, lenient: bool = False) -> ReadNetwork:
    """Reads a workload file of ZigZag's.

    Operations that multiply nothing (additions, pooling) are listed with the words that they move;
    the weights of a pooling have no values, and count as none.

    Args:
        path: a YAML file that holds a list of layers.
        lenient: whether to leave out layers whose operator is not known.

    Raises:
        ConfigError: one line that names the file, the layer and the key.
    """
    data = load_yaml_list(path)
    file = validate(_File, {"layers": data}, str(path))
    layers, without, left_out = [], [], []
    for layer in file.layers:
        name = layer.name or f"layer{layer.id}"
        place = f"{path}: layers[{layer.name or layer.id}]"
        known = (*_MULTIPLYING, *_OTHERS)
        if layer.operator_type not in known:
            problem = f"{place}.operator_type: expected one of {', '.join(known)}, got "
            problem += f"{shown(layer.operator_type)}."
            if not lenient:
                raise ConfigError(problem)
            left_out.append(problem)
            continue
        operation = _operation(layer, place)
        if layer.operator_type in _MULTIPLYING and operation.multiplies:
            layers.append(ReadLayer(name, _content(operation, place), place))
        else:
            pooled = () if not operation.multiplies else _learnt(operation)
            operands = (operation.output, operation.left, operation.right)
            moved = sum(operation.words(one) for one in operands if one not in pooled)
            without.append(f"{name} ({layer.operator_type}) moves {moved:,} words")
    used = {key for layer in file.layers for key in _UNUSED if getattr(layer, key) is not None}
    return ReadNetwork(
        path.stem,
        tuple(layers),
        f"{path.name}: ZigZag's workload",
        tuple(without),
        tuple(f"{path}: {key}" for key in _UNUSED if key in used),
        tuple(left_out),
    )


def _learnt(operation: _Operation) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The operand of a pooling that stands for its window."""
    return tuple(one for one in (operation.left, operation.right) if one[0] == "W")


def _operation(layer: _Layer, place: str) -> _Operation:
    if len(layer.loop_dims) != len(layer.loop_sizes):
        raise ConfigError(
            f"{place}.loop_sizes: expected {len(layer.loop_dims)} as in loop_dims, "
            f"got {len(layer.loop_sizes)}."
        )
    sizes = dict(zip((d.lower() for d in layer.loop_dims), layer.loop_sizes, strict=True))
    if len(sizes) < len(layer.loop_dims):
        raise ConfigError(f"{place}.loop_dims: a loop is given twice.")
    match = _EQUATION.fullmatch(layer.equation) if len(layer.equation) < 1000 else None
    if match is None or match[1] != "O":
        raise ConfigError(
            f"{place}.equation: expected such as O[a][b]+=I[a][c]*W[c][b], "
            f"got {shown(layer.equation)}."
        )
    relations = {}
    for text in layer.dimension_relations:
        found = _RELATION.fullmatch(text.strip()) if len(text) < 200 else None
        if found is None or not {found[3].lower(), found[5].lower()} <= sizes.keys():
            raise ConfigError(
                f"{place}.dimension_relations: expected such as ix=2*ox+1*fx over loop_dims, "
                f"got {shown(text)}."
            )
        first, second = (
            (found[3].lower(), int(found[2] or 1)),
            (found[5].lower(), int(found[4] or 1)),
        )
        relations[found[1].lower()] = _Relation((first, second))
    operands = []
    for name, axes in ((match[1], match[2]), (match[4], match[5]), (match[7], match[8])):
        indices = tuple(re.findall(r"\w+", axes.lower()))
        for index in indices:
            if index not in sizes and index not in relations:
                raise ConfigError(
                    f"{place}.equation: {name} has the index {index!r}, which is neither in "
                    "loop_dims nor in dimension_relations."
                )
        operands.append((name, indices))
    output, left, right = operands
    return _Operation(output, left, right, match[6] == "*", sizes, relations)


def _content(operation: _Operation, place: str) -> dict[str, Any]:
    """A workload's file: a family where it is one, else the whole nest."""
    return _conv(operation) or _gemm(operation) or _nest(operation, place)


def _weights_first(operation: _Operation) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Indices of the weights and of the input; None if neither operand is called W."""
    operands = dict((operation.left, operation.right))
    if set(operands) != {"W", "I"}:
        return None
    return operands["W"], operands["I"]


def _conv(operation: _Operation) -> dict[str, Any] | None:
    operands = _weights_first(operation)
    sizes = operation.sizes
    if operands is None or not sizes.keys() <= _CONV.keys() or not {"ox", "oy"} <= sizes.keys():
        return None
    steps = []
    for pixels, output, filters in (("ix", "ox", "fx"), ("iy", "oy", "fy")):
        terms = dict(operation.relations[pixels].terms) if pixels in operation.relations else {}
        if terms.keys() != {output, filters}:
            return None
        steps.append((terms[output], terms[filters]))
    there = {*sizes, "ix", "iy"}
    indexed = zip((*operands, operation.output[1]), (*_CONV_OPERANDS, _CONV_OUTPUT), strict=True)
    if steps[0] != steps[1] or any(set(mine) != wanted & there for mine, wanted in indexed):
        return None
    content = {ours: sizes.get(theirs, 1) for theirs, ours in _CONV.items() if ours != "G"}
    extra = {"stride": steps[0][0], "dilation": steps[0][1], "groups": sizes.get("g", 1)}
    return {"cnn": content | {key: value for key, value in extra.items() if value > 1}}


def _gemm(operation: _Operation) -> dict[str, Any] | None:
    operands = _weights_first(operation)
    if operands is None or operation.relations or len(operation.sizes) != 3:
        return None
    (weights, inputs), output = operands, operation.output[1]
    if (len(weights), len(inputs), len(output)) != (2, 2, 2):
        return None
    common = set(weights) & set(inputs)
    if len(common) != 1 or set(output) != (set(weights) | set(inputs)) - common:
        return None
    (inner,) = common
    (row,), (column,) = set(inputs) - common, set(weights) - common
    sizes = operation.sizes
    return {"gemm": {"M": sizes[row], "N": sizes[column], "K": sizes[inner]}}


def _nest(operation: _Operation, place: str) -> dict[str, Any]:
    if operation.left[0] == operation.right[0] or "O" in (operation.left[0], operation.right[0]):
        raise ConfigError(f"{place}.equation: expected two inputs of different names.")
    tensors = {}
    for name, indices in (operation.left, operation.right, operation.output):
        axes = []
        for index in indices:
            terms = ((index, 1),)
            if index in operation.relations:
                terms = operation.relations[index].terms  # type: ignore[assignment]
            axes.append(" + ".join(f"{factor}*{loop.upper()}" for loop, factor in terms))
        tensors[name] = axes
    return {
        "dimensions": {loop.upper(): size for loop, size in operation.sizes.items()},
        "tensors": tensors,
        "output": "O",
        **({"roles": {"W": "weight"}} if "W" in tensors else {}),
    }
