"""AccelForge's mapping files: one nest per Einsum, as the line that its search prints.

Loops say the shape of a tile, of which as many are needed as the range of the rank variable holds.
Source: `accelforge/frontend/mapping/mapping.py` (commit 1c1929c2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from costmodel.accelforge.templates import filled
from costmodel.accelforge.workload import Operation
from mapspace.bounded_reading import read_text
from mapspace.errors import ConfigError
from mapspace.strict_yaml import Identifier, Size, StrictModel, load_yaml, shown, validate

_MOST_NODES = 200
_Nodes = Annotated[tuple[dict[str, Any], ...], Field(min_length=1, max_length=_MOST_NODES)]
_DIFFERENT_TILES = "initial_tile_shape"


class _Storage(StrictModel):
    kind: Literal["Storage"] = Field(alias="!")
    tensors: tuple[Identifier, ...] = Field(min_length=1)
    component: Identifier
    persistent: bool = False


class _Loop(StrictModel):
    kind: Literal["Temporal", "Spatial"] = Field(alias="!")
    rank_variable: Identifier
    tile_shape: Size
    name: Identifier | None = None
    component: Identifier | None = None


class _Compute(StrictModel):
    kind: Literal["Compute"] = Field(alias="!")
    einsum: Identifier
    component: Identifier


class _Split(StrictModel):
    kind: Literal["Sequential", "Nested"] = Field(alias="!")
    nodes: _Nodes


class _Nest(StrictModel):
    nodes: _Nodes


class _File(StrictModel):
    mapping: _Nest


_KINDS: Mapping[str, type[StrictModel]] = {
    "Storage": _Storage,
    "Temporal": _Loop,
    "Spatial": _Loop,
    "Compute": _Compute,
    "Sequential": _Split,
    "Nested": _Split,
}


def read_mapping_lines(
    path: Path, operations: Sequence[Operation], sizes: Mapping[str, int]
) -> list[tuple[Operation, str]]:
    """The Einsums of a mapping file with their nests.

    Args:
        path: YAML with `mapping` and `nodes`.
        operations: the Einsums of its workload.
        sizes: what its templates stand for.

    Returns:
        Each Einsum that it maps, with the line that AccelForge would print.

    Raises:
        ConfigError: `file: key: what`: a node that has no counterpart, or Einsums that share loops
            or memories on the chip.
    """
    data = load_yaml(path, tags=True, text=filled(read_text(path), path, sizes))
    nodes = validate(_File, data, str(path)).mapping.nodes
    known = {operation.name: operation for operation in operations}
    tensors = {tensor.name for operation in operations for tensor in operation.tensors}
    found = []
    for nest, place in _nests(nodes, f"{path}: mapping.nodes"):
        compute = nest[-1]
        assert isinstance(compute, _Compute)  # `_nests` ends with it
        if compute.einsum not in known:
            raise ConfigError(
                f"{place}: expected one of the Einsums {', '.join(known)}, got {compute.einsum}."
            )
        operation = known[compute.einsum]
        listed = [name for node in nest if isinstance(node, _Storage) for name in node.tensors]
        if unknown := set(listed) - tensors:
            raise ConfigError(
                f"{place}: expected tensors of the workload ({', '.join(sorted(tensors))}), got "
                f"{min(unknown)}."
            )
        found.append((operation, _line(nest[:-1], operation, place)))
    return found


def _nests(nodes: Sequence[dict[str, Any]], place: str) -> Iterator[tuple[list[Any], str]]:
    """The nodes of every Einsum, its computation last."""
    read = [_node(node, f"{place}[{number}]") for number, node in enumerate(nodes)]
    last = f"{place}[{len(read) - 1}]"
    for number, node in enumerate(read[:-1]):
        if isinstance(node, _Compute | _Split):
            raise ConfigError(f"{place}[{number}]: expected !{node.kind} as the last node.")
    if isinstance(read[-1], _Compute):
        yield read, last
        return
    if not isinstance(read[-1], _Split) or read[-1].kind != "Sequential":
        raise ConfigError(f"{last}: expected !Compute or !Sequential as the last node.")
    above = read[:-1]
    memories = {node.component for node in above if isinstance(node, _Storage)}
    if len(memories) > 1 or any(isinstance(node, _Loop) for node in above):
        raise ConfigError(
            f"{last}: Einsums that share loops or a memory on the chip are fused, which has no "
            "counterpart; map them one by one."
        )
    for number, part in enumerate(read[-1].nodes):
        inside = f"{last}.nodes[{number}]"
        nested = _node(part, inside)
        if not isinstance(nested, _Split) or nested.kind != "Nested":
            raise ConfigError(f"{inside}: expected !Nested.")
        for nest, where in _nests(nested.nodes, f"{inside}.nodes"):
            yield [*above, *nest], where


def _node(node: dict[str, Any], place: str) -> Any:
    kind = node.get("!")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigError(
            f"{place}: expected one of {', '.join(f'!{name}' for name in _KINDS)}, got "
            f"{shown(kind)}."
        )
    if _DIFFERENT_TILES in node:
        raise ConfigError(f"{place}.{_DIFFERENT_TILES}: tiles of one loop have one shape here.")
    return validate(_KINDS[kind], node, place)


def _line(nodes: Sequence[Any], operation: Operation, place: str) -> str:
    tensors = {tensor.name for tensor in operation.tensors}
    shapes = dict(operation.sizes)
    parts = []
    for node in nodes:
        if isinstance(node, _Storage):
            held = [name for name in node.tensors if name in tensors]
            if held:
                parts.append(f"[{','.join(held)} in {node.component}]")
            continue
        name = node.rank_variable
        if name not in shapes:
            raise ConfigError(
                f"{place}: {operation.name}: expected a rank variable of {', '.join(shapes)}, "
                f"got {name}."
            )
        if shapes[name] % node.tile_shape:
            raise ConfigError(
                f"{place}: {operation.name}: tile_shape of {name}: expected a divisor of "
                f"{shapes[name]}, got {node.tile_shape}."
            )
        if node.kind == "Spatial" and node.name is None:
            raise ConfigError(f"{place}: {operation.name}: a !Spatial of {name} without a name.")
        kind = "T" if node.kind == "Temporal" else f"S-{node.name}"
        parts.append(f"{kind}-{name} in [0..{shapes[name] // node.tile_shape})")
        shapes[name] = node.tile_shape
    left = {name: size for name, size in shapes.items() if size > 1}
    if left:
        name, size = next(iter(left.items()))
        raise ConfigError(
            f"{place}: {operation.name}: loops over {name} end with tiles of {size}; expected 1."
        )
    return " ".join(parts)
