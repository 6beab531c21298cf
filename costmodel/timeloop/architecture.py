"""A Timeloop architecture, of any of its forms, as the `arch` of a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from costmodel.timeloop.attributes import (
    Attributes,
    block_and_cluster,
    number,
    read_attributes,
    size_words,
    whole,
)
from costmodel.timeloop.documents import Part, name_and_count
from costmodel.timeloop.energies import Table, buffer_pj, found_in, mac_pj
from costmodel.timeloop.keys import passed
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown

Record = dict[str, Any]

_BUFFERS = ("dram", "sram", "regfile", "smartbuffer", "storage")
_MACS = ("mac", "compute")
_NETWORKS = ("XY_NoC", "Legacy", "ReductionTree", "SimpleMulticast")
_NODE = frozenset({"version", "name", "attributes", "local", "subtree"})
_LOCAL = frozenset({"name", "class", "subclass", "attributes", "required_actions", "enabled"})


class Component(NamedTuple):
    """A buffer or the multiply-accumulate units."""

    name: str
    kind: str
    """`buffer` or `mac`."""
    is_dram: bool
    instances: int | None
    """Of the names around it; None where the attributes must say it."""
    attributes: Mapping[str, Any]
    place: str


class Architecture(NamedTuple):
    """What an architecture says."""

    arch: Record
    """As records have it, levels outermost first."""
    idle: tuple[str, ...]
    """Keys without effect on costs, each with its place."""


def read_architecture(
    part: Part, table: Mapping[str, Table], variables: Mapping[str, Any], left_out: list[str] | None
) -> Architecture:
    """The machine of a file.

    Args:
        part: of version 0.2 or 0.3 (a tree), flat, or what the front end writes of version 0.4.
        table: energies by component, in place of Timeloop's own.
        variables: what names in attributes stand for.
        left_out: where to list what is not modelled; None: refuse it.

    Raises:
        ConfigError: the file's name, the key's path, and what is wrong with it.
    """
    if not isinstance(part.value, Mapping):
        raise ConfigError(f"{part.place}: expected a mapping, got {shown(part.value)}.")
    idle: list[str] = []
    if "storage" in part.value or "arithmetic" in part.value:
        idle += passed(part.value, {"version", "storage", "arithmetic"}, part.place)
        components = list(_flat(part))
    else:
        components = list(_tree(part.value, part.place, 1, (idle, left_out)))
    buffers = [component for component in components if component.kind == "buffer"]
    macs = [component for component in components if component.kind == "mac"]
    if len(macs) != 1 or not buffers:
        names = ", ".join(component.name for component in components) or "none"
        raise ConfigError(
            f"{part.place}: expected buffers and one kind of multiply-accumulate unit, got {names}."
        )
    levels = []
    for component in buffers:
        found, unread = read_attributes(component.attributes, component.place, variables, left_out)
        levels.append(_level(component, found, table.get(component.name, {})))
        idle += unread
    found, unread = read_attributes(macs[0].attributes, macs[0].place, variables, left_out)
    mac = _macs(macs[0], found, table.get(macs[0].name, {}))
    name = _name(part)
    return Architecture({"name": name, "levels": levels, "mac": mac}, (*idle, *unread))


def _name(part: Part) -> str:
    """What the outermost node is called."""
    tree = part.value.get("subtree") if "storage" not in part.value else None
    if not tree:
        return "timeloop"
    return name_and_count(tree[0].get("name"), f"{part.place}.subtree[0]")[0].strip()


def _tree(
    node: Mapping[str, Any], place: str, times: int, lists: tuple[list[str], list[str] | None]
) -> Iterator[Component]:
    """Components of a node of `subtree`, outermost first; `lists` takes what is not read."""
    idle, left_out = lists
    idle += passed(node, _NODE, place)
    said = node.get("attributes") or {}
    if not isinstance(said, Mapping):
        raise ConfigError(f"{place}.attributes: expected a mapping, got {shown(said)}.")
    idle += [f"{place}.attributes.{key}" for key in said if key not in ("version", "technology")]
    for index, local in enumerate(_listed(node.get("local"), f"{place}.local")):
        here = f"{place}.local[{local.get('name', index)}]"
        name, count = name_and_count(local.get("name"), here)
        idle += passed(local, _LOCAL, here)
        kind = _kind(local.get("class"), here, left_out)
        if kind is None:
            idle.append(f"{here}.class: {local['class']}")
        else:
            attributes = local.get("attributes") or {}
            if not isinstance(attributes, Mapping):
                raise ConfigError(
                    f"{here}.attributes: expected a mapping, got {shown(attributes)}."
                )
            is_dram = "DRAM" in str(local["class"])
            yield Component(name, kind, is_dram, times * count, attributes, f"{here}.attributes")
    below = _listed(node.get("subtree"), f"{place}.subtree")
    if len(below) > 1:
        raise ConfigError(f"{place}.subtree: expected one node, got {len(below)}.")
    for inner in below:
        here = f"{place}.subtree[{inner.get('name', 0)}]"
        yield from _tree(inner, here, times * name_and_count(inner.get("name"), here)[1], lists)


def _flat(part: Part) -> Iterator[Component]:
    """Components of the form with `storage` (innermost first) and `arithmetic`."""
    storage = _listed(part.value.get("storage"), f"{part.place}.storage")
    for index, level in reversed(list(enumerate(storage))):
        here = f"{part.place}.storage[{level.get('name', index)}]"
        attributes = {key: value for key, value in level.items() if key != "name"}
        name, _ = name_and_count(level.get("name", str(index)), here)
        yield Component(name, "buffer", level.get("technology") == "DRAM", None, attributes, here)
    arithmetic = part.value.get("arithmetic")
    if not isinstance(arithmetic, Mapping):
        raise ConfigError(f"{part.place}.arithmetic: expected a mapping, got {shown(arithmetic)}.")
    attributes = {key: value for key, value in arithmetic.items() if key != "name"}
    place = f"{part.place}.arithmetic"
    name, _ = name_and_count(arithmetic.get("name", "MAC"), place)
    yield Component(name, "mac", False, None, attributes, place)


def _listed(value: Any, place: str) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise ConfigError(f"{place}: expected a list of mappings, got {shown(value)}.")
    return value


def _kind(given: Any, place: str, left_out: list[str] | None) -> str | None:
    """What a component's class is; None: nothing that costs anything."""
    if given is None:
        raise ConfigError(f"{place}.class: missing; what it is, such as DRAM, SRAM or intmac.")
    name = str(given)
    if any(word in name.lower() for word in _BUFFERS):
        return "buffer"
    if any(word in name.lower() for word in _MACS):
        return "mac"
    if name in _NETWORKS and left_out is None:
        raise ConfigError(
            f"{place}.class: networks of their own ({name}) are not modelled; lenient reading "
            "leaves it out."
        )
    if name in _NETWORKS and left_out is not None:
        left_out.append(place)
    return None


def _mesh(component: Component, found: Attributes) -> Record:
    instances = whole(found, "instances", component.place) or component.instances
    if instances is None:
        raise ConfigError(f"{component.place}: missing instances.")
    width, height = whole(found, "meshX", component.place), whole(found, "meshY", component.place)
    if width is None and height is None:
        width, height = instances, 1
    width = width or instances // height
    height = height or instances // width
    if width * height != instances:
        raise ConfigError(
            f"{component.place}.meshX: expected a divisor of {instances} instances, got {width}."
        )
    return {"instances": instances, "meshX": width, "meshY": height}


def _level(component: Component, found: Attributes, table: Table) -> Record:
    place = component.place
    bits = whole(found, "word_bits", place, 16)
    block, cluster = block_and_cluster(found, bits, place)
    size = size_words(found, bits, block, place)
    own = buffer_pj(component.is_dram, bits, block, cluster, size)
    fixed = number(found, "vector_access_pj", place)
    energies = {}
    for action in ("read", "fill", "update"):
        told = None if fixed is not None else found_in(table, action)
        energies[action] = float(fixed if fixed is not None else own if told is None else told)
    level: Record = {
        "name": component.name,
        "class": "DRAM" if component.is_dram else "SRAM",
        "size_words": size,
        "word_bits": bits,
        "energy_pj": energies,
        "block_size": block,
        "cluster_size": cluster,
        **_mesh(component, found),
    }
    if level["instances"] % cluster:
        raise ConfigError(
            f"{place}.width: so wide a memory is of {cluster} instances (width / word bits / block "
            f"size), which do not divide its {level['instances']}: Timeloop refuses it, too; "
            "give the cluster size, or the width of one instance."
        )
    both = number(found, "bandwidth", place)
    for key in ("read_bandwidth", "write_bandwidth", "shared_bandwidth"):
        half = both / 2 if both is not None and key != "shared_bandwidth" else None
        value = number(found, key, place, half)
        if value:
            level[key] = float(value)
    for key, usual in (("multiple_buffering", 1.0), ("min_utilization", 0.0)):
        level[key] = float(number(found, key, place, usual))
    for key in ("network_fill_latency", "network_drain_latency"):
        level[key] = whole(found, key, place, 0)
    if "addr_gen_pj" in found:
        level["addr_gen_pj"] = float(number(found, "addr_gen_pj", place))
    network = {
        key: float(number(found, key, place, 0.0))
        for key in ("energy_per_hop_pj", "router_pj", "ingress_pj")
    }
    if table.get("leak"):
        level["leakage_pj"] = table["leak"]
    return {**level, "network": network} if any(network.values()) else level


def _macs(component: Component, found: Attributes, table: Table) -> Record:
    bits = whole(found, "word_bits", component.place, 16)
    told = found_in(table, "compute")
    own = number(found, "energy", component.place, mac_pj(bits))
    return {
        "name": component.name,
        "energy_pj": float(own if told is None else told),
        **_mesh(component, found),
    }
