"""Mappings of machines with keys of their own, as the records that `nest_records` reads."""

from __future__ import annotations

import itertools
from typing import Any

from costmodel.arrays.machine_tables import is_stationary
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.levels import Level, SpatialRules
from costmodel.machines.transfers import value_of
from costmodel.map_space.mapping import LevelMapping, Mapping
from costmodel.problems.affine import Workload

Record = dict[str, Any]


def nest_record(workload: Workload, machine: Accelerator, mapping: Mapping) -> Record:
    """One mapping as a whole record, without a result."""
    return {
        "problem": problem_record(workload),
        "arch_name": machine.name,
        "arch": arch_of(machine, workload),
        "mapping": [_loops(level) for level in mapping.levels],
    }


def problem_record(workload: Workload) -> Record:
    """The `problem` of a record."""
    tensors = []
    for tensor in workload.tensors:
        axes = [[[name, factor] for name, factor in axis.terms] for axis in tensor.axes]
        entry: Record = {"name": tensor.name, "axes": axes}
        if tensor.output:
            entry["output"] = True
        if tensor.bits is not None:
            entry["bits"] = tensor.bits
        tensors.append(entry)
    return {"name": workload.name, "dims": dict(workload.dimensions), "tensors": tensors}


def arch_of(machine: Accelerator, workload: Workload | None = None) -> Record:
    """The `arch` part of such a record: every number of the machine, not what it keeps.

    Args:
        machine: the machine.
        workload: whose tensors are meant by roles; None: they stay roles.
    """
    levels = []
    instances, width, height = 1, 1, 1
    for level in machine.levels:
        where = {"instances": instances, "meshX": width, "meshY": height}
        levels.append(_level(machine, level) | _timing(level, workload) | where)
        instances *= level.fanout
        width *= level.width_height[0]
        height *= level.width_height[1]
    mac: Record = {"name": "MAC", "instances": instances, "meshX": width, "meshY": height}
    mac["energy_pj"] = machine.mac_energy_pj
    if machine.mac_leakage_pj:
        mac["leakage_pj"] = machine.mac_leakage_pj
    if machine.cycles_per_mac != 1:
        mac["cycles_per_mac"] = machine.cycles_per_mac
    arch: Record = {"name": machine.name, "levels": levels, "mac": mac}
    if machine.output_fills != "elided":
        arch["output_fills"] = machine.output_fills
    if machine.counting != "timeloop":
        arch["counting"] = machine.counting
    if machine.link_transfers:
        arch["link_transfers"] = True
    return arch


def _timing(level: Level, workload: Workload | None) -> Record:
    """What passes and tiles take; a record knows tensors, and no roles of inputs."""
    roles = {} if workload is None else workload.roles
    found: Record = {}
    if level.array is not None:
        found["array"] = level.array.model_dump(mode="json")
        if roles:
            names = list(itertools.compress(roles, is_stationary(level.array, roles)))
            found["array"]["stationary"] = names
    if level.startup:
        known = {one: value_of(level.startup, one, roles[one], 0) for one in roles}
        found["startup"] = known or dict(level.startup)
    if level.buffering:
        said = {one: value_of(level.buffering, one, roles[one], "double") for one in roles}
        found["buffering"] = said or dict(level.buffering)
    return found


def _level(machine: Accelerator, level: Level) -> Record:
    """Sizes and energies; what says nothing is left out."""
    rules = level.spatial or SpatialRules()
    read, fill, update = level.energies
    network = {
        "energy_per_hop_pj": level.hop_energy_pj,
        "router_pj": level.router_pj,
        "ingress_pj": level.ingress_pj,
    }
    entry: Record = {
        "name": level.name,
        "class": "DRAM" if level.is_dram else "SRAM",
        "size_words": level.capacity_words,
        "word_bits": level.word_bits or machine.word_bits,
        "energy_pj": {"read": read, "fill": fill, "update": update},
    }
    further = {
        "packing": (level.packing or machine.packing, "whole"),
        "block_size": (level.block_words, 1),
        "cluster_size": (level.cluster_size, 1),
        "read_bandwidth": (level.read_bandwidth, None),
        "write_bandwidth": (level.write_bandwidth, None),
        "shared_bandwidth": (level.bandwidth, None),
        "multiple_buffering": (level.multiple_buffering, 1.0),
        "min_utilization": (level.min_utilisation, 0.0),
        "addr_gen_pj": (level.address_pj, 0.0),
        "leakage_pj": (level.leakage_pj, 0.0),
        "network_fill_latency": (level.fill_latency, 0),
        "network_drain_latency": (level.drain_latency, 0),
        "multicast": (rules.multicast, True),
        "spatial_reduction": (rules.reduction, True),
        "banks": (level.banks, None),
        "shares": (level.shares, None),
    }
    entry |= {key: value for key, (value, usual) in further.items() if value != usual}
    return {**entry, "network": network} if any(network.values()) else entry


def _loops(level: LevelMapping) -> Record:
    temporal: list[list[Any]] = [
        [name, level.temporal[name]] for name in level.order if level.temporal[name] > 1
    ]
    across: list[list[Any]] = [
        [name, factor, axis or "X"] for name, factor, axis in level.spatial_loops
    ]
    for listed, rests in ((temporal, level.temporal_rests), (across, level.spatial_rests)):
        for loop in listed if rests else ():
            loop.append(rests[loop[0]])
    banks = {"banks": dict(level.banks)} if level.banks else {}
    return banks | {
        "level": level.name,
        "keep": list(level.keep),
        "temporal": temporal,
        # The loops along the height stand outside those along the width.
        "spatial": sorted(across, key=lambda loop: loop[2] == "X"),
    }
