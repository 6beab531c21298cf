"""ONNX files: shapes are inferred, weights are dropped, external files are never opened."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mapspace.arguments import checked
from mapspace.bounded_reading import read_bytes
from mapspace.errors import ConfigError
from orchestrator.imports.imported import ImportedNetwork, build_network, refuse_unknown
from orchestrator.imports.onnx_contrib import as_standard
from orchestrator.imports.onnx_functions import inlined
from orchestrator.imports.onnx_rules import SKIPPED, work_of
from orchestrator.imports.onnx_shapes import LARGEST_KEPT, Shapes
from orchestrator.imports.onnx_sizes import fix_sizes
from orchestrator.imports.operators import Node, Shape, Unknown


class _UnfixedError(Exception):
    """A shape is not known."""


LARGEST_MODEL = (2 << 30) - 1
"""Bytes; what a message of protocol buffers may have."""


@checked
def from_onnx(
    path: str | Path,
    *,
    batch: int | None = None,
    sequence: int | None = None,
    sizes: Mapping[str, int] | None = None,
    skip_unknown: bool = False,
) -> ImportedNetwork:
    """Reads the layers of an ONNX model.

    Args:
        path: the model's file.
        batch: the size of the inputs' first axis where the model leaves it open.
        sequence: the size of their second axis where the model leaves it open.
        sizes: of any open axis, by the name that the model has for it (`height`) or its place
            (`images.2`); also the value of an input that is one whole number (`sr`).
        skip_unknown: leave out operators that no rule knows, which `unknown` then lists.

    Raises:
        ConfigError: no ONNX model, dynamic shapes (which), unknown operators, or no layer.
        ModuleNotFoundError: the extra `onnx` is not installed.
    """
    file = Path(path)
    model = _load(file)
    values = fix_sizes(model.graph, {0: batch, 1: sequence}, dict(sizes or {}), str(file))
    shapes = Shapes(model, values, str(file))
    found = build_network(file.stem, _nodes(model.graph, shapes, str(file)), str(file))
    if not skip_unknown:
        refuse_unknown(found, "skip_unknown=True")
    return found


def _load(path: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        size = os.stat(path).st_size
        if size > LARGEST_MODEL:
            raise ConfigError(
                f"{path}: expected at most {LARGEST_MODEL:,} bytes, got {size:,}; keep the weights "
                "in external files, which are not read."
            )
        content = read_bytes(path, LARGEST_MODEL, ConfigError)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{str(path)!r}: is no path: {error}.") from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise ConfigError(f"{path}: expected an ONNX model; this file is none.") from error
    if not model.graph.node or not model.opset_import:
        raise ConfigError(f"{path}: expected an ONNX model; this file has no graph.")
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) > LARGEST_KEPT:
            tensor.ClearField("raw_data")  # nobody looks at it, and functions make copies of all
    return inlined(model, str(path))


def _nodes(graph: Any, shapes: Shapes, where: str) -> Iterator[Node]:
    import onnx

    for index, node in enumerate(shapes.walk(graph)):
        title = node.name or (node.output[0] if node.output else f"node {index}")
        own = node.domain in ("", "ai.onnx", "com.microsoft")
        if own and node.op_type in SKIPPED:
            continue
        standard = as_standard(node, shapes.shape)
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in standard.attribute}

        def shape(name: str) -> Shape:
            sizes = shapes.shape(name)
            if sizes is None or None in sizes:
                raise _UnfixedError(name)
            return tuple(size for size in sizes if size is not None)

        if not own:
            yield Node(title, f"{node.domain}.{node.op_type}", Unknown("no rule for this domain"))
            continue
        try:
            work = work_of(standard, attributes, shape)
            if node.op_type == "If":
                origins = ", ".join(shapes.origins(node.input[0])) or "what it computes"
                work = Unknown(
                    f"which branch runs depends on {origins}; give the value of an input that is "
                    "one number as a size, such as --size sr=16000"
                )
        except _UnfixedError as error:
            why = f"the shape of {error} depends on data, or on what is not known"
            work = Unknown(why, follows=True)
        except (ValueError, IndexError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"{where}: node {title} ({node.op_type}): {error}.") from error
        yield Node(title, node.op_type, work)
