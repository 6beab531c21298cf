"""Records as Timeloop's input files: what the real `timeloop-model` takes (version 0.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from costmodel.loop_nest.nest_record_models import (
    HasNestArch,
    HasNestMapping,
    HasNestProblem,
    NestArch,
    NestLevel,
    NestLoops,
    NestProblem,
)
from costmodel.loop_nest.nest_tables import check_nest
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate

Record = dict[str, Any]
LeftOut = list[str] | None
"""Where to list what Timeloop's files have no place for; None: it is refused."""

_NAME = re.compile(r"[^\[\].]+")
_LARGEST = 2**31 - 1
"""Timeloop's sizes have 32 bits."""


def mapping_text(record: Record) -> str:
    """The mapping of a record of a whole nest as Timeloop's YAML.

    Raises:
        ConfigError: as `files_text`.
    """
    arch = validate(HasNestArch, record, "").arch
    problem = validate(HasNestProblem, record, "").problem
    return _text({"mapping": _directives(problem, arch, record)})


def files_text(
    record: Record, constraints: Sequence[Record] = (), *, left_out: LeftOut = None
) -> str:
    """Architecture, energies, problem, mapping and constraints as one file of Timeloop's.

    Args:
        record: of a whole nest; what it has beside `arch`, `problem` and `mapping` is not read.
        constraints: of its map space, in the words of `costmodel.machines.constraint_entries`.
        left_out: where to list what Timeloop does not know; None: it is refused.

    Raises:
        ConfigError: a name or a number that its files cannot hold, or what its model does not
            know: leakage of arithmetic, its cycles, children that share nothing.
    """
    arch = validate(HasNestArch, record, "").arch
    problem = validate(HasNestProblem, record, "").problem
    content: Record = {
        "architecture": _architecture(arch, left_out),
        "ERT": _energies(arch),
        "problem": _problem(problem, left_out),
    }
    if "mapping" in record:
        content["mapping"] = _directives(problem, arch, record)
    if constraints:
        content["mapspace"] = {"constraints": list(constraints)}
    return _text(content)


def of_version_4(record: Record) -> list[str]:
    """What is written and Timeloop's v3.0.3 passes over: leakage, which version 0.4 charges."""
    leaking = [level["name"] for level in record["arch"]["levels"] if level.get("leakage_pj")]
    return [f"{name}.leakage_pj: charged by Timeloop 0.4, not by v3.0.3" for name in leaking]


def no_place(key: str, left_out: LeftOut) -> None:
    """Lists what cannot be said, or refuses it.

    Raises:
        ConfigError: there is no list.
    """
    if left_out is None:
        raise ConfigError(
            f"{key}: Timeloop's files have no place for it; lenient writing leaves it out."
        )
    left_out.append(key)


class _Dumper(yaml.SafeDumper):
    """Without anchors, which people do not expect in such files."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(content: Record) -> str:
    text: str = yaml.dump(
        content, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=100
    )
    return text


def _directives(problem: NestProblem, arch: NestArch, record: Record) -> list[Record]:
    mapping = validate(HasNestMapping, record, "").mapping
    check_nest(problem, arch, mapping)
    dims = list(problem.dims)
    _check_letters(problem.dims)
    inner = [*arch.levels[1:], arch.mac]
    listed = []
    for loops, here, below in zip(mapping, arch.levels, inner, strict=True):
        kept = [tensor.name for tensor in problem.tensors if tensor.name in loops.keep]
        bypassed = [tensor.name for tensor in problem.tensors if tensor.name not in loops.keep]
        target = {"target": here.name}
        temporal, across = loops.listed
        if loops.across[2]:
            raise ConfigError(
                f"mapping[{here.name}].spatial: Timeloop's files have no place for it: "
                f"{next(iter(loops.across[2]))} runs along both axes."
            )
        listed.append({**target, "type": "datatype", "keep": kept, "bypass": bypassed})
        listed.append({**target, "type": "temporal", **_loops(temporal, dims)})
        if below.instances > here.instances:
            listed.append({**target, "type": "spatial", **_spatial(loops, dims)})
        elif any(factor > 1 for _, factor, _ in across):
            raise ConfigError(
                f"mapping[{here.name}].spatial: Timeloop's files have no place for it: "
                f"{here.name} has one child."
            )
    return listed


def _spatial(loops: NestLoops, dims: list[str]) -> Record:
    """Loops along the width are inside; `split` says how many of the permutation they are."""
    across = [
        (loop, axis) for loop, (_, _, axis) in zip(loops.listed[1], loops.spatial, strict=True)
    ]
    across = sorted(
        [entry for entry in across if entry[0][1] > 1], key=lambda entry: entry[1] == "X"
    )
    wide = sum(axis == "X" for _, axis in across)
    split = {"split": wide} if wide < len(across) else {}
    return {**_loops([loop for loop, _ in across], dims), **split}


def _loops(loops: list[tuple[str, int, int]], dims: list[str]) -> Record:
    """Factors of all dimensions; the permutation starts with the innermost loop."""
    loops = [loop for loop in loops if loop[1] > 1]
    factors = {name: str(f) if f == rest else f"{f},{rest}" for name, f, rest in loops}
    order = [name for name, _, _ in reversed(loops)]
    order += [name for name in dims if name not in order]
    return {
        "factors": " ".join(f"{name}={factors.get(name, 1)}" for name in dims),
        "permutation": "".join(order),
    }


def _architecture(arch: NestArch, left_out: LeftOut) -> Record:
    for key in ("output_fills", "counting"):
        if getattr(arch, key) != NestArch.model_fields[key].default:
            no_place(f"{arch.name}.{key}", left_out)
    if arch.mac.cycles_per_mac != 1:
        no_place(f"{arch.name}.cycles_per_mac", left_out)
    if arch.mac.leakage_pj:
        no_place(f"{arch.mac.name}.leakage_pj", left_out)
    if any(sign in arch.name for sign in "[]"):
        raise ConfigError(f"{arch.name}: Timeloop reads brackets in a name as a range.")
    names = [level.name for level in (*arch.levels, arch.mac)]
    for position, name in enumerate(names):
        if _NAME.fullmatch(name) is None:
            raise ConfigError(f"{name}: Timeloop's names have neither brackets nor full stops.")
        if names.index(name) != position:
            raise ConfigError(f"{name}: Timeloop's files name each component once.")
    local = [{"name": level.name, **_component(level, left_out)} for level in arch.levels]
    mesh = {key: getattr(arch.mac, key) for key in ("instances", "meshX", "meshY")}
    local.append({"name": arch.mac.name, "class": "intmac", "attributes": mesh})
    return {"version": 0.3, "subtree": [{"name": arch.name, "local": local}]}


def _component(level: NestLevel, left_out: LeftOut) -> Record:
    for key in ("multicast", "spatial_reduction", "shares", "array", "startup", "buffering"):
        if getattr(level, key) != NestLevel.model_fields[key].default:
            no_place(f"{level.name}.{key}", left_out)
    if level.size_words is not None and level.size_words > _LARGEST:
        raise ConfigError(
            f"{level.name}.size_words: expected at most {_LARGEST} for Timeloop's files, got "
            f"{level.size_words}; null is without limit."
        )
    network = level.network
    given = {
        "word-bits": level.word_bits,
        "block-size": level.block_size,
        "cluster-size": level.cluster_size,
        "entries": level.size_words,
        **{key: getattr(level, key) for key in ("instances", "meshX", "meshY")},
        "read_bandwidth": level.read_bandwidth,
        "write_bandwidth": level.write_bandwidth,
        "shared_bandwidth": level.shared_bandwidth,
        "multiple-buffering": _unless(level.multiple_buffering, 1.0),
        "min-utilization": _unless(level.min_utilization, 0.0),
        "addr-gen-energy": level.addr_gen_pj,
        "energy-per-hop": network and _unless(network.energy_per_hop_pj, 0.0),
        "router-energy": network and _unless(network.router_pj, 0.0),
        "energy-per-ingress": network and _unless(network.ingress_pj, 0.0),
        "network_fill_latency": _unless(level.network_fill_latency, 0),
        "network_drain_latency": _unless(level.network_drain_latency, 0),
    }
    attributes = {key: value for key, value in given.items() if value is not None}
    return {"class": level.technology, "attributes": attributes}


def _unless(value: float, usual: float) -> float | None:
    return None if value == usual else value


def _energies(arch: NestArch) -> Record:
    tables = []
    for level in arch.levels:
        energies = level.energy_pj
        actions = [
            {"name": f"random_{action}", "arguments": None, "energy": getattr(energies, action)}
            for action in ("read", "fill", "update")
        ]
        if level.leakage_pj:  # version 0.4 charges it, v3.0.3 passes over it
            actions.append({"name": "leak", "arguments": None, "energy": level.leakage_pj})
        tables.append({"name": f"{arch.name}.{level.name}", "actions": actions})
    mac = {"name": "mac_random", "arguments": None, "energy": arch.mac.energy_pj}
    tables.append({"name": f"{arch.name}.{arch.mac.name}", "actions": [mac]})
    return {"version": 0.3, "tables": tables}


def _problem(problem: NestProblem, left_out: LeftOut) -> Record:
    _check_letters(problem.dims)
    spaces = []
    for tensor in problem.tensors:
        if tensor.bits is not None:
            no_place(f"{problem.name}.{tensor.name}.bits", left_out)
        # Timeloop's coefficients are names: every number is one of its own.
        axes = [
            [[name] if c == 1 else [name, _coefficient(c)] for name, c in axis]
            for axis in tensor.axes
        ]
        space: Record = {"name": tensor.name, "projection": axes}
        spaces.append({**space, "read-write": True} if tensor.output else space)
    values = {c for tensor in problem.tensors for axis in tensor.axes for _, c in axis} - {1}
    shape = {
        "name": problem.name,
        "dimensions": list(problem.dims),
        "coefficients": [
            {"name": _coefficient(value), "default": value} for value in sorted(values)
        ],
        "data-spaces": spaces,
    }
    return {"shape": shape, "instance": dict(problem.dims)}


def _coefficient(value: int) -> str:
    return f"minus{-value}" if value < 0 else f"times{value}"


def _check_letters(dims: Mapping[str, int]) -> None:
    for name, size in dims.items():
        if re.fullmatch(r"[A-Za-z]", name) is None:
            raise ConfigError(f"{name}: Timeloop's dimensions have one letter each.")
        if size > _LARGEST:
            raise ConfigError(
                f"{name}: expected at most {_LARGEST} for Timeloop's files, got {size}."
            )
