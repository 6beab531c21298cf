"""Records as Timeloop's input files: what the real `timeloop-model` takes."""

from __future__ import annotations

from typing import Any

import yaml

from mapspace.errors import ConfigError

Record = dict[str, Any]


def mapping_text(record: Record) -> str:
    """The mapping of a record of a whole nest as Timeloop's YAML."""
    return _text({"mapping": _directives(record)})


def files_text(record: Record) -> str:
    """Architecture, energies, problem and mapping of such a record, as one file of Timeloop's.

    Raises:
        ConfigError: dimensions of several letters, which Timeloop has no place for, or what its
            model does not know: leakage, cycles of a multiply-accumulate, children that share
            nothing.
    """
    content: Record = {
        "architecture": _architecture(record["arch"]),
        "ERT": _energies(record["arch"]),
        "problem": _problem(record["problem"]),
    }
    if "mapping" in record:
        content["mapping"] = _directives(record)
    return _text(content)


def _text(content: Record) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=100)
    return text


def _directives(record: Record) -> list[Record]:
    dims = list(record["problem"]["dims"])
    _check_letters(dims)
    tensors = [tensor["name"] for tensor in record["problem"]["tensors"]]
    inner = [*record["arch"]["levels"][1:], record["arch"]["mac"]]
    listed = []
    for level, here, below in zip(record["mapping"], record["arch"]["levels"], inner, strict=True):
        name = level["level"]
        bypassed = [tensor for tensor in tensors if tensor not in level["keep"]]
        kept = {"keep": list(level["keep"]), "bypass": bypassed}
        listed.append({"target": name, "type": "datatype", **kept})
        listed.append({"target": name, "type": "temporal", **_loops(level["temporal"], dims)})
        if below["instances"] > here["instances"]:
            across = [loop[0] for loop in level["spatial"] if loop[2] == "X"]
            loops = [[name, factor, *last] for name, factor, _, *last in level["spatial"]]
            split = {"split": len(across)} if len(across) < len(loops) else {}
            listed.append({"target": name, "type": "spatial", **_loops(loops, dims), **split})
    return listed


def _loops(loops: list[list[Any]], dims: list[str]) -> Record:
    """Factors of all dimensions; the permutation starts with the innermost loop."""
    factors = {loop[0]: ",".join(str(count) for count in loop[1:]) for loop in loops}
    order = [loop[0] for loop in reversed(loops)]
    order += [name for name in dims if name not in order]
    return {
        "factors": " ".join(f"{name}={factors.get(name, 1)}" for name in dims),
        "permutation": "".join(order),
    }


def _architecture(arch: Record) -> Record:
    for key in ("output_fills",):
        if arch.get(key, "elided") != "elided":
            raise ConfigError(f"{arch['name']}.{key}: Timeloop's files have no place for it.")
    local = []
    for level in arch["levels"]:
        for key in ("leakage_pj", "multicast", "spatial_reduction"):
            if level.get(key) not in (None, 0, 0.0, True):
                raise ConfigError(f"{level['name']}.{key}: Timeloop's files have no place for it.")
        local.append({"name": level["name"], **_component(level)})
    mac = arch["mac"]
    if mac.get("cycles_per_mac", 1) != 1:
        raise ConfigError("cycles_per_mac: Timeloop's files have no place for it.")
    mesh = {key: mac[key] for key in ("instances", "meshX", "meshY")}
    local.append({"name": mac["name"], "class": "intmac", "attributes": mesh})
    return {"version": 0.3, "subtree": [{"name": "system", "local": local}]}


def _component(level: Record) -> Record:
    network = level.get("network") or {}
    given = {
        "word-bits": level["word_bits"],
        "block-size": level.get("block_size", 1),
        "cluster-size": level.get("cluster_size", 1),
        "entries": level["size_words"],
        **{key: level[key] for key in ("instances", "meshX", "meshY")},
        **{
            key: level.get(key) for key in ("read_bandwidth", "write_bandwidth", "shared_bandwidth")
        },
        "multiple-buffering": level.get("multiple_buffering"),
        "min-utilization": level.get("min_utilization"),
        "addr-gen-energy": level.get("addr_gen_pj"),
        "energy-per-hop": network.get("energy_per_hop_pj"),
        "router-energy": network.get("router_pj"),
        "energy-per-ingress": network.get("ingress_pj"),
        "network_fill_latency": level.get("network_fill_latency"),
        "network_drain_latency": level.get("network_drain_latency"),
    }
    attributes = {key: value for key, value in given.items() if value is not None}
    return {"class": level["class"], "attributes": attributes}


def _energies(arch: Record) -> Record:
    tables = []
    for level in arch["levels"]:
        energies = level["energy_pj"]
        actions = [
            {"name": f"random_{action}", "arguments": None, "energy": energies[action]}
            for action in ("read", "fill", "update")
        ]
        tables.append({"name": f"system.{level['name']}", "actions": actions})
    mac = {"name": "mac_random", "arguments": None, "energy": arch["mac"]["energy_pj"]}
    tables.append({"name": f"system.{arch['mac']['name']}", "actions": [mac]})
    return {"version": 0.3, "tables": tables}


def _problem(problem: Record) -> Record:
    _check_letters(problem["dims"])
    spaces = []
    for tensor in problem["tensors"]:
        axes = [[list(term) for term in axis] for axis in tensor["axes"]]
        # Timeloop's coefficients are names: every number is one of its own.
        for axis in axes:
            for term in axis:
                if term[1] != 1:
                    term[1] = _coefficient(term[1])
                else:
                    del term[1]
        space: Record = {"name": tensor["name"], "projection": axes}
        spaces.append({**space, "read-write": True} if tensor.get("output") else space)
    values = sorted(
        {term[1] for tensor in problem["tensors"] for axis in tensor["axes"] for term in axis} - {1}
    )
    shape = {
        "name": problem["name"],
        "dimensions": list(problem["dims"]),
        "coefficients": [{"name": _coefficient(value), "default": value} for value in values],
        "data-spaces": spaces,
    }
    return {"shape": shape, "instance": dict(problem["dims"])}


def _coefficient(value: int) -> str:
    return f"minus{-value}" if value < 0 else f"times{value}"


def _check_letters(dims: Any) -> None:
    long = [name for name in dims if len(name) > 1]
    if long:
        raise ConfigError(f"{long[0]}: Timeloop's dimensions have one letter each.")
