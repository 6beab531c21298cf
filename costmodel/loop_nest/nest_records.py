"""Records of whole nests on any hierarchy, scored in bulk: any keep sets, axes and projections.

The form is that of the golden records `timeloop-general`: `arch` with a list of levels, `problem`
with a list of tensors and their axes, `mapping` with a list of loops per level. Counts are per
instance of a level.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from costmodel.arrays.remainders import check_no_array, check_true_counting, make_walk
from costmodel.arrays.scratch import make_scratch, most_classes
from costmodel.arrays.tables import NestTables
from costmodel.costs import STATUS_OK, FloatArray
from costmodel.loop_nest.added_cycles import adds_cycles
from costmodel.loop_nest.cost_kernel import (
    CostArrays,
    DetailArrays,
    evaluate_mappings,
    make_costs,
    make_details,
)
from costmodel.loop_nest.link_transfers import make_links
from costmodel.loop_nest.nest_record_models import (
    HasNestArch,
    HasNestMapping,
    HasNestProblem,
    NestArch,
    NestProblem,
    is_imperfect,
)
from costmodel.loop_nest.nest_tables import NestMapping, check_nest, nest_accelerator, nest_tables
from costmodel.loop_nest.nest_validity import why_invalid
from costmodel.loop_nest.remainder_kernel import evaluate_imperfect
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.packing import Packing, pack
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate

Record = dict[str, Any]

# Cells of the classes of networks that are held at once: 64 MiB.
_MOST_CELLS = 2**23


class _Group(NamedTuple):
    """Perfect or imperfect records of one operation on one machine: indices and mappings."""

    problem: NestProblem
    arch: NestArch
    machine: Accelerator
    members: list[int]
    mappings: list[NestMapping]

    @property
    def truly(self) -> bool:
        """Whether elements are counted one by one where there are remainders."""
        return self.arch.counting == "true"


class _Scored(NamedTuple):
    """What the pass found for some records of a group."""

    group: _Group
    tables: NestTables
    costs: CostArrays
    details: DetailArrays
    macs: FloatArray
    packing: Packing


def is_nest_record(record: object) -> bool:
    """Whether a record has the form that is read here: its mapping is a list of levels."""
    return isinstance(record, dict) and isinstance(record.get("mapping"), list)


def score_nests(
    records: Mapping[int, Record],
    *,
    link_transfers: bool | None = None,
    counting: Literal["timeloop", "true"] | None = None,
) -> dict[int, Record]:
    """Evaluates records, all those of one problem and architecture in one batch.

    Args:
        records: of the form that `is_nest_record` knows, by their index.
        link_transfers: whether neighbours below a level hand words to each other; None: as a
            record's `arch` says.
        counting: of remainders, by Timeloop or every element by itself; None: as a record's `arch`
            says.

    Returns:
        Their results by index: counts and energies, or `valid: false` and `why`.

    Raises:
        ConfigError: a record cannot be read; the message starts with its index.
    """
    machines: dict[str, _Group] = {}
    groups: dict[tuple[str, bool], _Group] = {}
    for index, record in records.items():
        try:
            part = {"mapping": record["mapping"]}
            parts = [record.get("arch"), record.get("problem")]
            key = json.dumps(parts, sort_keys=True)
            if key not in machines:
                machines[key] = _group(record, counting, link_transfers)
            mapping = validate(HasNestMapping, part, "").mapping
            imperfect = is_imperfect(mapping)
            group = groups.setdefault(
                (key, imperfect), machines[key]._replace(members=[], mappings=[])
            )
            check_nest(group.problem, group.arch, mapping)
            if imperfect and group.arch.link_transfers:
                raise ConfigError("mapping: remainders are not counted with link transfers.")
            if group.arch.link_transfers and any(loops.across[2] for loops in mapping):
                raise ConfigError(
                    "mapping: dimensions along both axes are not counted with link transfers."
                )
            if imperfect and group.truly:
                check_true_counting(nest_tables(group.problem, group.machine, [mapping])[0])
        except ConfigError as error:
            raise ConfigError(f"record {index}: {error}") from None
        group.members.append(index)
        group.mappings.append(mapping)
    return {
        index: result
        for group in groups.values()
        for index, result in zip(group.members, _score_group(group), strict=True)
    }


def _group(
    record: Record, counting: Literal["timeloop", "true"] | None, link_transfers: bool | None
) -> _Group:
    problem = validate(HasNestProblem, {"problem": record.get("problem")}, "").problem
    arch = validate(HasNestArch, {"arch": record.get("arch")}, "").arch
    said = {"counting": counting, "link_transfers": link_transfers}
    arch = arch.model_copy(update={key: value for key, value in said.items() if value is not None})
    machine = nest_accelerator(arch, of_bits=any(problem.bits_by_tensor))
    return _Group(problem, arch, machine, [], [])


def _score_group(group: _Group) -> list[Record]:
    link_transfers = group.arch.link_transfers
    cells = len(group.machine.levels) * len(group.problem.tensors) * 4
    room = most_classes(group.machine.processing_elements)
    if link_transfers:
        room *= 2 * (len(group.problem.dims) * len(group.machine.levels) + 1)
    imperfect = bool(group.mappings) and is_imperfect(group.mappings[0])
    # Children are counted anew for every set of dimensions in their last pass.
    sets = 2 ** len(group.problem.dims) if imperfect else 1
    batch = max(1, _MOST_CELLS // (cells * room * sets))
    packing = pack(group.machine, group.problem.bits_by_tensor)
    results = []
    for first in range(0, len(group.mappings), batch):
        mappings = group.mappings[first : first + batch]
        tables, remainders, codes = nest_tables(group.problem, group.machine, mappings)
        costs = make_costs(len(codes))
        scratch = make_scratch(tables)
        macs = np.full(len(codes), float(group.problem.macs))
        if imperfect:
            tables = tables._replace(truly=int(group.truly))
            check_no_array(tables)
            walk = make_walk(tables, remainders)
            details = make_details(tables, len(codes), classes=walk.classes.shape[1])
            evaluate_imperfect(tables, remainders, scratch, walk, codes, costs, details, macs)
        else:
            links = make_links(tables) if link_transfers else None
            details = make_details(tables, len(codes), classes=room)
            added = adds_cycles(tables)
            evaluate_mappings(tables, scratch, codes, costs, details, links, added)
        scored = _Scored(group, tables, costs, details, macs, packing)
        for row, mapping in enumerate(mappings):
            full = _full_banks(scored, mapping, row)
            if costs.status[row] == STATUS_OK and full is not None:
                results.append({"valid": False, "why": full})
            elif costs.status[row] == STATUS_OK:
                results.append(_result(scored, mapping, row))
            else:
                why = why_invalid(group.problem, group.arch, mapping, packing)
                results.append({"valid": False, "why": why})
    return results


def _result(scored: _Scored, mapping: NestMapping, row: int) -> Record:
    group, costs = scored.group, scored.costs
    macs, cycles = round(scored.macs[row]), float(costs.latency[row])
    counting = {"counting": "true"} if scored.tables.truly else {}
    return counting | {
        "energy_pj": float(costs.energy[row]),
        "cycles": int(cycles),
        "utilization": macs / (group.arch.mac.instances * cycles),
        "macs": macs,
        "mac_energy_pj": macs * group.arch.mac.energy_pj,
        "levels": [_level(scored, mapping, row, level) for level in range(len(mapping))],
    }


def _full_banks(scored: _Scored, mapping: NestMapping, row: int) -> str | None:
    """Which tile exceeds the banks that its tensor is given, in one line; None: none does."""
    group = scored.group
    for index, (level, loops) in enumerate(zip(group.arch.levels, mapping, strict=True)):
        for t, tensor in enumerate(group.problem.tensors):
            if level.banks is None or tensor.name not in loops.keep:
                continue
            units = scored.packing.unit[index], scored.packing.room[index, t]
            room = loops.banks[tensor.name] * ((level.size_words or 0) // level.banks) * units[0]
            tile = int(scored.details.tiles[row, index, t]) * units[1]
            if tile > room:
                return f"{level.name}: tile of {tensor.name} of {tile} exceeds its banks of {room}"
    return None


def _level(scored: _Scored, mapping: NestMapping, row: int, level: int) -> Record:
    details, arch = scored.details, scored.group.arch.levels[level]
    kept = set(mapping[level].keep)
    tensors = {}
    for t, tensor in enumerate(scored.group.problem.tensors):
        if tensor.name not in kept:
            continue
        reads, fills, updates = _per_instance(scored, row, level, t)
        tensors[tensor.name] = {
            "tile": int(details.tiles[row, level, t]),
            "instances": int(details.instances[row, level]),
            "reads": reads,
            "fills": fills,
            "updates": updates,
            "energy_pj": float(details.charges[row, 0, level, t]),
        }
        if arch.addr_gen_pj is not None:
            tensors[tensor.name]["addr_gen_pj"] = float(details.charges[row, 1, level, t])
    entry = {"name": arch.name, "cycles": int(details.cycles[row, level]), "tensors": tensors}
    spread = any(factor > 1 for _, factor, _ in mapping[level].spatial)
    if not scored.tables.truly and (spread or details.charges[row, 2, level].any()):
        entry["network"] = _network(scored, mapping, row, level)
    return entry


def _per_instance(scored: _Scored, row: int, level: int, t: int) -> list[int] | list[float]:
    """Reads, fills and updates of an instance; where instances differ, on average."""
    counts: list[int] = scored.details.counts[row, :, level, t].tolist()
    if not scored.tables.truly:
        return counts
    instances = int(scored.details.instances[row, level])
    if all(count % instances == 0 for count in counts):
        return [count // instances for count in counts]
    return [count / instances for count in counts]


def _network(scored: _Scored, mapping: NestMapping, row: int, level: int) -> Record:
    """Classes of multicasts below a level, for tensors that are kept there or further out."""
    children = int(np.prod([factor for _, factor, _ in mapping[level].spatial] or [1]))
    outside = {name for loops in mapping[: level + 1] for name in loops.keep}
    network = {}
    for t, tensor in enumerate(scored.group.problem.tensors):
        if tensor.name not in outside:
            continue
        classes = scored.details.classes[row, level, t]
        classes = classes[classes[:, 0] > 0]
        added = 0
        for members, _, accesses, _ in classes.tolist() if tensor.output else ():
            added = int(added + (members - 1) * accesses)  # Timeloop truncates each sum
        network[tensor.name] = {
            "fanout": children,
            "multicast_scatter_accesses_hops": classes.tolist(),
            "spatial_reductions": added,
            "energy_pj": float(scored.details.charges[row, 2, level, t]),
        }
    return network
