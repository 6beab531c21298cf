"""Mapping records: JSON objects with a problem, an architecture and a mapping, scored in bulk.

A record is what Timeloop's results were saved as: `problem`, `arch`, `mapping` and whatever else;
`score` writes `result` in the same keys. Counts are per instance of a level.
"""

from __future__ import annotations

import json
from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from costmodel.costs import STATUS_OK, Detail, explain_status
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.nest_coding import nest_code
from costmodel.loop_nest.nest_records import is_nest_record, score_nests
from costmodel.loop_nest.nest_writing import nest_record
from costmodel.machines.accelerators import Accelerator, accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import mapping_from_record
from costmodel.map_space.record_models import Bandwidth, HasArch, HasProblem
from costmodel.problems.affine import Workload
from costmodel.problems.workload_families import from_sizes
from costmodel.problems.workloads import workload
from costmodel.space import Codes
from mapspace.errors import ConfigError
from mapspace.strict_yaml import shown, unknown_name, validate

Record = dict[str, Any]

VERSION = 1
"""Of the records that are written, and of their schema; a record that says none is of version 1."""


# Beside kind, name, dims and tensors.
_KEYS: MappingType[str, frozenset[str]] = MappingProxyType(
    {
        "cnn": frozenset({"stride", "dilation", "groups"}),
        "conv1d": frozenset({"stride", "dilation"}),
        "einsum": frozenset({"projections", "output", "roles"}),
        "gemm": frozenset({"stride"}),
        "mttkrp": frozenset({"stride"}),
    }
)


def workload_from_record(problem: MappingType[str, Any]) -> Workload:
    """The workload of a record's `problem`.

    Raises:
        ConfigError: an unknown kind, or dimensions that do not fit it.
    """
    part = validate(HasProblem, {"problem": problem}, "").problem
    keys = {"kind", "name", "dims", "tensors"} | _KEYS[part.kind]
    unknown = sorted(part.model_fields_set - keys)
    if unknown:
        raise ConfigError(
            f"problem: unknown {unknown[0]!r} for kind {part.kind}; known: "
            f"{', '.join(sorted(keys))}."
        )
    if part.kind == "einsum":
        return workload(
            {
                "name": part.name,
                "dimensions": part.dims,
                "tensors": part.projections,
                "output": part.output,
                **({"roles": part.roles} if part.roles else {}),
            }
        )
    sizes = dict(part.dims)
    if part.kind == "cnn" and sizes.pop("G", part.groups) != part.groups:
        raise ConfigError(f"problem.dims.G: expected groups = {part.groups}, got {part.dims['G']}.")
    # Golden records of products have a stride, of 1; it means nothing there.
    if part.kind in ("cnn", "conv1d"):
        sizes |= {key: getattr(part, key) for key in _KEYS[part.kind] & part.model_fields_set}
    return from_sizes(part.kind, sizes, name=part.name, where="problem.dims")


def problem_record(source: Workload) -> Record:
    """The `problem` part of a record, read back by `workload_from_record`."""
    record: Record = {
        "name": source.name,
        "kind": source.family,
        "dims": dict(source.dimensions),
        "tensors": list(source.tensor_names),
    }
    if source.family in ("cnn", "conv1d"):
        window = source.tensors[1].axes[-1].terms
        record["stride"], record["dilation"] = window[0][1], window[1][1]
        record["groups"] = source.dimensions.get("G", 1)
    if source.family == "conv1d":
        del record["groups"]
    if source.family == "einsum":
        record["output"] = source.tensor_names[-1]
        record["projections"] = {
            tensor.name: [
                " + ".join(name if c == 1 else f"{c}*{name}" for name, c in axis.terms)
                for axis in tensor.axes
            ]
            for tensor in source.tensors
        }
        roles = {tensor.name: tensor.role for tensor in source.tensors if tensor.role}
        if roles:
            record["roles"] = roles
    return record


def accelerator_from_record(
    arch: MappingType[str, Any], *, name: str, bypass: bool = False
) -> Accelerator:
    """The accelerator of a record's `arch`.

    Args:
        arch: sizes in words, instances, energies per word, bandwidths, mesh, hop energy.
        name: the record's `arch_name`.
        bypass: make the kept tensors a part of the code, for mappings that name them.

    Raises:
        ConfigError: a key is missing, or a value no accelerator may have.
    """
    part = validate(HasArch, {"arch": arch, "arch_name": name}, "").arch
    names = part.levels_outer_to_inner
    for key in ("instances", "size_words", "energy_pj_per_word_access"):
        missing = [level for level in names if level not in getattr(part, key)]
        if missing:
            raise ConfigError(f"arch.{key}: {missing[0]!r} is missing.")
    by_level = ("instances", "size_words", "energy_pj_per_word_access", "banks")
    for key in (*by_level, "bandwidth_words_per_cycle"):
        for level in getattr(part, key) or {}:
            if level not in names:
                raise unknown_name(f"level of arch.{key}", level, names)
    bandwidths = part.bandwidth_words_per_cycle or {}
    levels = []
    for index, level in enumerate(names):
        inner = names[index + 1] if index + 1 < len(names) else None
        fanout, rest = divmod(part.instances[inner or level], part.instances[level])
        if rest or not fanout:
            raise ConfigError(
                f"arch.instances.{inner}: expected a multiple of {level}'s "
                f"{part.instances[level]}, got {part.instances[inner or level]}."
            )
        bandwidth = bandwidths.get(level, Bandwidth())
        levels.append(
            {
                "name": level,
                "capacity_words": part.size_words[level],
                "energy_pj": part.energy_pj_per_word_access[level],
                "read_bandwidth": bandwidth.read,
                "write_bandwidth": bandwidth.write,
                "banks": part.banks.get(level),
                "fanout": fanout,
                "mesh": part.mesh if fanout > 1 else None,
                "hop_energy_pj": part.energy_per_hop_pj.get(f"{level}<->{inner}", 0.0),
            }
        )
    return accelerator(
        {
            "name": name,
            "levels": levels,
            "mac_energy_pj": part.mac_energy_pj,
            "word_bits": part.word_bits,
            "clock_ghz": part.clock_ghz,
            "overflow": part.overflow,
            "bypass": "searched" if bypass else "none",
        }
    )


def arch_record(source: Accelerator) -> Record:
    """The `arch` part of a record, read back by `accelerator_from_record`.

    Raises:
        ConfigError: the machine has keys that these records have no place for.
    """
    if source.further_key is not None:
        raise ConfigError(
            f"{source.name} has {source.further_key}, which a mapping record has no place for."
        )
    record: Record = {
        "levels_outer_to_inner": [level.name for level in source.levels],
        "word_bits": source.word_bits,
        "size_words": {level.name: level.capacity_words for level in source.levels},
        "instances": {},
        "energy_pj_per_word_access": {level.name: level.word_energy_pj for level in source.levels},
        "mac_energy_pj": source.mac_energy_pj,
        "bandwidth_words_per_cycle": {
            level.name: {"read": level.read_bandwidth, "write": level.write_bandwidth}
            for level in source.levels
        },
        "energy_per_hop_pj": {},
        "clock_ghz": source.clock_ghz,
        "overflow": source.overflow,
    }
    instances = 1
    for index, level in enumerate(source.levels):
        record["instances"][level.name] = instances
        instances *= level.fanout
        if level.fanout > 1:
            record["mesh"] = list(level.mesh or (level.fanout, 1))
            if level.hop_energy_pj > 0:
                inner = source.levels[index + 1].name
                record["energy_per_hop_pj"][f"{level.name}<->{inner}"] = level.hop_energy_pj
    banks = {level.name: level.banks for level in source.levels if level.banks is not None}
    if banks:
        record["banks"] = banks
    return record


def needs_nest(machine: Accelerator, workload: Workload) -> bool:
    """Whether a mapping is recorded as a whole nest: it has no shorter form."""
    spread = [level.fanout > 1 for level in machine.levels]
    beyond = machine.further_key is not None or any(workload.bits_by_tensor)
    return beyond or sum(spread) > 1 or spread[-1]


def mapping_record(space: MapSpace, code: Codes) -> Record:
    """One mapping `[D]` of a space as a whole record, without a result.

    On a machine with keys that the first machines had not, several fan-outs, or one below its
    innermost level, it is a record of a whole nest. Buffers side by side have the mapping's order.
    """
    space, code = space.in_order(code)
    if needs_nest(space.accelerator, space.workload):
        return nest_record(space.workload, space.accelerator, space.describe(code))
    return {
        "problem": problem_record(space.workload),
        "arch_name": space.accelerator.name,
        "arch": arch_record(space.accelerator),
        "mapping": space.describe(code).to_record(),
    }


def read_mapping(record: MappingType[str, Any]) -> tuple[MapSpace, Codes]:
    """The map space and code `[D]` of one record."""
    _check_parts(record)
    space = _space(record)
    return space, record_code(space, record)


def score(records: Sequence[Record], model: LoopNestModel) -> list[Record]:
    """Evaluates records, all those of one problem and architecture in one batch.

    Args:
        records: mapping records, or those of whole nests (`costmodel.loop_nest.nest_records`).
        model: the cost model.

    Returns:
        The records in order, each with `result` (or, if infeasible, `result.status` saying why; of
        a whole nest `result.valid` false and `result.why`).

    Raises:
        ConfigError: a record cannot be read; the message starts with its index, from 0.
    """
    groups: dict[str, list[int]] = {}
    spaces: dict[str, MapSpace] = {}
    codes: dict[int, Codes] = {}
    nests = {index: record for index, record in enumerate(records) if is_nest_record(record)}
    for index, record in enumerate(records):
        if index in nests:
            continue
        try:
            _check_parts(record)
            key = json.dumps(
                [record["problem"], record["arch"], "keep" in record["mapping"]], sort_keys=True
            )
            if key not in spaces:
                spaces[key] = _space(record)
            codes[index] = record_code(spaces[key], record)
            groups.setdefault(key, []).append(index)
        except ConfigError as error:
            raise ConfigError(f"record {index}: {error}") from None
    results: list[Record] = [{} for _ in records]
    for index, result in score_nests(
        nests, link_transfers=model.link_transfers, counting=model.counting
    ).items():
        results[index] = result
    for key, members in groups.items():
        space = spaces[key]
        costs = model.evaluate(space, np.stack([codes[i] for i in members]), detail=True)
        names = tuple(level.name for level in space.accelerator.levels)
        detail = costs.detail
        assert detail is not None  # detail was asked for
        for row, index in enumerate(members):
            if costs.status[row] != STATUS_OK:
                why = explain_status(int(costs.status[row]), int(costs.excess[row]), names)
                results[index] = {"status": why}
                continue
            results[index] = {
                "energy_pj": float(costs.energy_pj[row]),
                "cycles": int(costs.latency_cycles[row]),
                "utilization": float(detail.utilisation[row]),
                "macs": space.workload.macs,
                "mac_energy_pj": detail.mac_energy_pj,
                "levels": _levels(space, detail, row),
                "network_energy_pj": dict(
                    zip(
                        space.workload.tensor_names,
                        detail.network_energy_pj[row].tolist(),
                        strict=True,
                    )
                ),
            }
    return [record | {"result": result} for record, result in zip(records, results, strict=True)]


def _check_parts(record: object) -> None:
    if not isinstance(record, dict):
        raise ConfigError(f"expected an object, got {shown(record)}.")
    for part in ("problem", "arch", "mapping"):
        if not isinstance(record.get(part), dict):
            raise ConfigError(f"{part}: expected an object, got {shown(record.get(part))}.")


def _levels(space: MapSpace, detail: Detail, row: int) -> Record:
    return {
        level.name: {
            tensor: {
                "keep": int(detail.tile[row, i, t] > 0),
                "tile": int(detail.tile[row, i, t]),
                "instances": int(detail.instances[row, i]),
                "reads": int(detail.reads[row, i, t]),
                "fills": int(detail.fills[row, i, t]),
                "updates": int(detail.updates[row, i, t]),
                "energy_pj": float(detail.energy_pj[row, i, t]),
            }
            for t, tensor in enumerate(space.workload.tensor_names)
        }
        for i, level in enumerate(space.accelerator.levels)
    }


def _space(record: MappingType[str, Any]) -> MapSpace:
    return MapSpace(
        workload_from_record(record["problem"]),
        accelerator_from_record(
            record["arch"],
            name=record.get("arch_name", "record"),
            bypass="keep" in record["mapping"],
        ),
    )


def record_code(space: MapSpace, record: MappingType[str, Any]) -> Codes:
    """The code `[D]` of a record's mapping in a space.

    Raises:
        ConfigError: the record has no mapping of this space.
    """
    if isinstance(record["mapping"], list):
        return nest_code(space, record["mapping"])
    if space.orders is not None:
        order = space.orders.order_of(record["arch"].get("levels_outer_to_inner", ()))
        inside = record_code(space.orders.spaces[order], record)
        code: Codes = space.orders.codes(order, inside[None])[0]
        return code
    accelerator = space.accelerator
    return space.code(
        mapping_from_record(
            record["mapping"],
            tuple(level.name for level in accelerator.levels),
            space.workload.dimension_names,
            space.workload.tensor_names,
            tuple(level.fanout > 1 for level in accelerator.levels),
        )
    )
