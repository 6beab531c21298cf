"""Timeloop's version 0.4, a flat list of tagged nodes, as the tree of version 0.3.

As its front end does it: what a container says holds for everything after it, one with `spatial`
becomes a level that holds nothing, and parallel branches become levels after one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costmodel.timeloop.documents import Documents, Part
from costmodel.timeloop.keys import passed
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

_INHERITED_NOT = frozenset({"meshX", "meshY"})


_NODE = frozenset(
    {"!", "name", "class", "subclass", "attributes", "spatial", "constraints", "nodes", "enabled",
     "required_actions"}
)  # fmt: skip


def tree_of_nodes(part: Part, documents: Documents, idle: list[str]) -> tuple[Part, Documents]:
    """The architecture as a tree, and the documents with the constraints that stood in it.

    Args:
        part: the architecture.
        documents: all parts.
        idle: takes the keys that nothing reads.

    Raises:
        ConfigError: a node that is not understood.
    """
    nodes = part.value["nodes"]
    local: list[dict[str, Any]] = []
    targets: list[dict[str, Any]] = []
    idle += passed(part.value, {"version", "nodes"}, part.place)
    state: dict[str, Any] = {"attributes": {}, "meshX": 1, "meshY": 1, "idle": idle}
    for component, entries in _walk(nodes, f"{part.place}.nodes", state):
        local.append(component)
        targets += entries
    tree = {"version": 0.3, "subtree": [{"name": "system", "local": local}]}
    parts = dict(documents.parts)
    if targets:
        known = parts.get("architecture_constraints")
        if known is not None:
            raise ConfigError(f"{known.place}: constraints stand in the nodes as well.")
        parts["architecture_constraints"] = Part(part.place, {"targets": targets})
    return Part(part.place, tree), documents._replace(parts=parts)


def _walk(
    nodes: Any, place: str, state: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Components with their constraints, outermost first."""
    if not isinstance(nodes, Sequence) or isinstance(nodes, str):
        raise ConfigError(f"{place}: expected a list of nodes, got {shown(nodes)}.")
    for index, node in enumerate(nodes):
        kind = node.get("!") if isinstance(node, Mapping) else None
        here = f"{place}[{node.get('name', index) if isinstance(node, Mapping) else index}]"
        if kind == "Nothing":
            continue
        if kind in ("Parallel", "Hierarchical"):
            for component, entries in _walk(node.get("nodes"), here, state):
                alone = {"bypass": "others"} if kind == "Parallel" else {}
                yield (
                    component,
                    [alone | entry if entry["type"] == "bypass" else entry for entry in entries],
                )
            continue
        if kind not in ("Container", "Component"):
            raise ConfigError(
                f"{here}: expected !Container, !Component, !Parallel, !Hierarchical or !Nothing, "
                f"got {shown(kind)}."
            )
        state["idle"] += passed(node, _NODE, here)
        attributes = _table(node, "attributes", here)
        spatial = _table(node, "spatial", here)
        state["idle"] += passed(spatial, {"meshX", "meshY"}, f"{here}.spatial")
        if kind == "Container":
            if spatial:
                yield _column(node, here, state)
            _spread(state, spatial)
            kept = {key: value for key, value in attributes.items() if key not in _INHERITED_NOT}
            state["attributes"] = {**state["attributes"], **kept}
        else:
            _spread(state, spatial)
            component = {
                "name": node.get("name"),
                "class": node.get("class"),
                "attributes": {**state["attributes"], **attributes, **_mesh(state)},
            }
            yield component, _entries(node, str(node.get("name")), here)


def _spread(state: dict[str, Any], spatial: Mapping[str, Any]) -> None:
    for axis in ("meshX", "meshY"):
        state[axis] *= spatial.get(axis, 1)


def _mesh(state: Mapping[str, Any]) -> dict[str, int]:
    width, height = state["meshX"], state["meshY"]
    return {"instances": width * height, "meshX": width, "meshY": height}


def _column(
    node: Mapping[str, Any], place: str, state: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The level that stands for a container's fan-out: it holds nothing and does not repeat."""
    name = f"inter_{node.get('name')}_spatial"
    attributes = {"depth": 1, "width": 1, "datawidth": 1, **_mesh(state)}
    entries = [
        {"target": name, "type": "bypass", "bypass": "others"},
        {"target": name, "type": "temporal", "factors": "one"},
        *(entry for entry in _entries(node, name, place) if entry["type"] == "spatial"),
    ]
    return {"name": name, "class": "dummy_storage", "attributes": attributes}, entries


def _entries(node: Mapping[str, Any], target: str, place: str) -> list[dict[str, Any]]:
    entries = []
    for kind, given in _table(node, "constraints", place).items():
        if kind not in ("dataspace", "temporal", "spatial"):
            raise ConfigError(
                f"{place}.constraints: expected dataspace, temporal or spatial, got {shown(kind)}."
            )
        entries.append(
            {"target": target, "type": "bypass" if kind == "dataspace" else kind, **given}
        )
    return entries


def _table(node: Mapping[str, Any], key: str, place: str) -> Mapping[str, Any]:
    given = node.get(key) or {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place}.{key}: expected a mapping, got {shown(given)}.")
    return given
