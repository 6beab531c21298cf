"""ONNX files: shapes are inferred, weights are dropped, external files are never opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mapspace.errors import ConfigError
from orchestrator.imports.imported import ImportedNetwork, build_network
from orchestrator.imports.onnx_rules import SKIPPED, work_of
from orchestrator.imports.operators import Node, Shape, Unknown

LARGEST_MODEL = (2 << 30) - 1
"""Bytes; what a message of protocol buffers may have."""
# Shapes and axes are given by small tensors; what is larger is a weight.
_LARGEST_KEPT = 1024


def from_onnx(
    path: str | Path, *, batch: int | None = None, sequence: int | None = None
) -> ImportedNetwork:
    """Reads the layers of an ONNX model.

    Args:
        path: the model's file.
        batch: the size of the inputs' first axis where the model leaves it open.
        sequence: the size of their second axis where the model leaves it open.

    Raises:
        ConfigError: no ONNX model, dynamic shapes (which), or no layer.
        ModuleNotFoundError: the extra `onnx` is not installed.
    """
    file = Path(path)
    model = _load(file)
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    _fix_sizes(graph, weights, {0: batch, 1: sequence}, file)
    _drop_weights(graph)
    shapes = _inferred(model, file)
    return build_network(file.stem, _nodes(shapes.pop(""), shapes, str(file)), str(file))


def _load(path: Path) -> Any:
    import onnx
    import onnx.inliner
    from google.protobuf.message import DecodeError

    try:
        size = os.stat(path).st_size
        if size > LARGEST_MODEL:
            raise ConfigError(
                f"{path}: expected at most {LARGEST_MODEL:,} bytes, got {size:,}; keep the weights "
                "in external files, which are not read."
            )
        with path.open("rb") as stream:
            content = stream.read(LARGEST_MODEL + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ConfigError(f"{str(path)!r}: is no path: {error}.") from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise ConfigError(f"{path}: expected an ONNX model; this file is none.") from error
    if not model.graph.node or not model.opset_import:
        raise ConfigError(f"{path}: expected an ONNX model; this file has no graph.")
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    return model


def _fix_sizes(graph: Any, weights: set[str], wanted: Mapping[int, int | None], path: Path) -> None:
    """Gives open sizes of the inputs those that were asked for, equal names the same.

    Raises:
        ConfigError: a size stays open, or one was asked for that is not open.
    """
    inputs = [value for value in graph.input if value.name not in weights]
    named: dict[str, int] = {}
    used = set()
    for value in inputs:
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            asked = wanted.get(axis)
            if (size.HasField("dim_value") and size.dim_value > 0) or asked is None:
                continue
            used.add(axis)
            if size.dim_param:
                named[size.dim_param] = asked
            size.dim_value = asked
    for axis, option in ((0, "batch"), (1, "sequence")):
        if wanted.get(axis) is not None and axis not in used:
            raise ConfigError(f"{path}: --{option}: no input leaves the size of axis {axis} open.")
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            raise ConfigError(f"{path}: input {value.name}: expected a tensor.")
        if not value.type.tensor_type.HasField("shape"):
            raise ConfigError(f"{path}: dynamic shape: input {value.name} has no shape.")
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if size.dim_param in named:
                size.dim_value = named[size.dim_param]
            if size.dim_value < 1:
                raise ConfigError(
                    f"{path}: dynamic shape: axis {axis} of input {value.name} is "
                    f"{size.dim_param or 'open'}; give --batch N (axis 0) or --sequence N (axis 1) "
                    "or export it with fixed shapes."
                )
    # Sizes that the file gives for other tensors may be of the open ones.
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")


def _drop_weights(graph: Any) -> set[str]:
    """Makes inputs of all large constants, so that nothing copies their words; their names."""
    import onnx

    names = {tensor.name for tensor in graph.initializer}
    given = {value.name for value in graph.input}
    kept = []
    for tensor in graph.initializer:
        count = 1
        for size in tensor.dims:
            count *= size
        if count <= _LARGEST_KEPT and tensor.data_location != onnx.TensorProto.EXTERNAL:
            kept.append(tensor)
        elif tensor.name not in given:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    kept = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return names


def _inferred(model: Any, path: Path) -> dict[str, Any]:
    """Shapes by tensor, None for sizes that are not known; the graph under the empty name."""
    import onnx

    try:
        found = onnx.shape_inference.infer_shapes(model, data_prop=True, strict_mode=True).graph
    except Exception as error:  # its own errors, and those of its C++ code
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(f"{path}: its shapes cannot be inferred: {reason}") from error
    shapes: dict[str, Any] = {"": found}
    for value in (*found.input, *found.value_info, *found.output):
        kind = value.type.tensor_type
        if value.type.HasField("tensor_type") and kind.HasField("shape"):
            fixed = tuple(
                size.dim_value if size.HasField("dim_value") else None for size in kind.shape.dim
            )
            shapes[value.name] = fixed
    for tensor in found.initializer:
        shapes[tensor.name] = tuple(tensor.dims)
    return shapes


def _nodes(graph: Any, shapes: Mapping[str, Any], where: str) -> Iterator[Node]:
    import onnx

    for index, node in enumerate(graph.node):
        title = node.name or (node.output[0] if node.output else f"node {index}")
        own = node.domain in ("", "ai.onnx", "com.microsoft")
        if own and node.op_type in SKIPPED:
            continue
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}

        def shape(name: str, title: str = title, operator: str = node.op_type) -> Shape:
            sizes = shapes.get(name)
            if sizes is None or None in sizes:
                raise ConfigError(
                    f"{where}: dynamic shape: node {title} ({operator}): the shape of {name} is "
                    "not fixed; export it with fixed shapes."
                )
            return tuple(sizes)

        if not own:
            yield Node(title, f"{node.domain}.{node.op_type}", Unknown("no rule for this domain"))
            continue
        try:
            work = work_of(node, attributes, shape)
        except ConfigError:
            raise
        except (ValueError, IndexError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"{where}: node {title} ({node.op_type}): {error}.") from error
        yield Node(title, node.op_type, work)
