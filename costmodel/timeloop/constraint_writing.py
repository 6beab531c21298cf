"""What a machine says of its map space, as the entries of Timeloop's mapper.

A machine of ours says itself which tensors its levels hold and what runs across which axis of its
meshes; Timeloop's machines leave that to constraints, which come beside those of the machine.
"""

from __future__ import annotations

import re
from typing import Any

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.constraint_entries import Constraint
from costmodel.machines.side_by_side import free_groups
from costmodel.map_space.constraint_reading import single_factors, tensors_named
from costmodel.map_space.constraints import Constraints, machine_constraints
from costmodel.map_space.impossible import all_constraints
from costmodel.map_space.meant_entries import meant
from costmodel.problems.affine import Workload
from costmodel.timeloop.writing import LeftOut, no_place
from mapspace.errors import ConfigError

Record = dict[str, Any]


def written_constraints(
    workload: Workload, machine: Accelerator, left_out: LeftOut = None
) -> list[Record]:
    """Entries that leave of Timeloop's map space what a machine leaves of ours.

    Args:
        workload: the operation.
        machine: the machine, with its constraints.
        left_out: where to list what Timeloop does not know; None: it is refused.

    Raises:
        ConfigError: it names what no entry of Timeloop's says, or constraints that leave nothing.
    """
    if machine.overflow != "invalid":
        no_place(f"{machine.name}.overflow: {machine.overflow}", left_out)
    if machine.factors != "perfect":
        no_place(f"{machine.name}.factors: {machine.factors}", left_out)
    for level in filter(machine.takes_both_axes, machine.levels):
        no_place(f"{machine.name}.{level.name}.axes: both", left_out)
    for level in filter(machine.has_tiles_apart, machine.levels):
        no_place(f"{machine.name}.{level.name}.tiles: apart", left_out)
    for group in free_groups(machine):
        no_place(f"{machine.name}.levels: {group.name}, side by side in every order", left_out)
    all_constraints(workload, machine, None)
    own = machine_constraints(workload, machine)
    entries = [_by_name(entry, workload) for entry in meant(machine.constraints, workload)]
    for index, level in enumerate(machine.levels):
        target = {"target": level.name}
        if level.fanout > 1:
            _spread(
                entries,
                meant(machine.constraints, workload),
                workload,
                machine,
                own,
                index,
                left_out,
            )
        _kept(entries, workload, own, index, target)
    return entries


def _by_name(entry: Constraint, workload: Workload) -> Record:
    """An entry with tensors in place of roles."""
    written = entry.model_dump()
    for key in ("keep", "bypass"):
        if key in written:
            written[key] = tensors_named(entry, key, workload.roles, entry.target)
    return written


def _kept(
    entries: list[Record], workload: Workload, own: Constraints, index: int, target: Record
) -> None:
    """What a level holds and does not, beside what its entry says."""
    tensors = workload.tensor_names
    said = {"keep": own.keep[index], "bypass": own.bypass[index]}
    if index == 0 and own.keep[0] == (1 << len(tensors)) - 1:
        return  # as it does with Timeloop where nothing is said
    names = {
        key: [name for t, name in enumerate(tensors) if (mask >> t) & 1]
        for key, mask in said.items()
    }
    if not any(names.values()):
        return
    entry = _entry(entries, target, ("bypass", "bypassing", "datatype"), "bypass")
    for key, listed in names.items():
        already = set(entry.get(key, ()))
        entry[key] = [name for name in tensors if name in already or name in listed]
    both = [name for name in entry.get("keep", ()) if name in entry.get("bypass", ())]
    if both:
        raise ConfigError(
            f"constraints: {target['target']} is to keep and to bypass {both[0]}, by them and by "
            "the machine."
        )


def _spread(
    entries: list[Record],
    given: tuple[Constraint, ...],
    workload: Workload,
    machine: Accelerator,
    own: Constraints,
    index: int,
    left_out: LeftOut,
) -> None:
    """What may run across the children of a level, and along which axis."""
    level, across = machine.levels[index], own.spatial[index]
    assert across is not None
    names, sizes = workload.dimension_names, own.sizes
    barred = [d for d, most in enumerate(across.most) if most == 1 < sizes[d]]
    wide, tall = (
        [d for d in range(len(names)) if (mask[index] >> d) & 1 and sizes[d] > 1]
        for mask in (own.wide, own.tall)
    )
    if level.width_height[1] == 1:
        wide = []  # there is one axis
    where = f"{machine.name}.{level.name}.spatial"
    said = [entry for entry in given if entry.target == level.name and entry.kind == "spatial"]
    if barred:
        entry = _entry(entries, {"target": level.name}, ("spatial",), "spatial")
        never = {names[d] for d in barred}
        # What else is said of these cannot make them run.
        texts = [
            text
            for text in single_factors(entry.get("factors", ()), names)
            if re.split("[<>=]", text)[0] not in never
        ]
        entry["factors"] = " ".join([*texts, *(f"{names[d]}<=1" for d in barred)])
    if not wide and not tall:
        return
    free = [d for d in range(len(names)) if d not in (*barred, *wide, *tall) and sizes[d] > 1]
    searched = level.hop_energy_pj > 0 or level.router_pj > 0
    if free or (searched and max(len(wide), len(tall)) > 1):
        what = names[(free or wide or tall)[0]]
        no_place(f"{where}: {what} along either axis beside others along one", left_out)
        return
    if any(entry.permutation is not None or entry.split is not None for entry in said):
        no_place(f"{where}: axes beside an order or a split of constraints", left_out)
        return
    idle = [d for d in range(len(names)) if d not in (*wide, *tall)]
    entry = _entry(entries, {"target": level.name}, ("spatial",), "spatial")
    entry["permutation"] = "".join(names[d] for d in (*wide, *idle, *tall))
    entry["split"] = len(wide)


def _entry(entries: list[Record], target: Record, kinds: tuple[str, ...], kind: str) -> Record:
    """The entry of a level and kind; a new one where there is none."""
    for entry in entries:
        if entry["target"] == target["target"] and entry["type"] in kinds:
            return entry
    entries.append({**target, "type": kind})
    return entries[-1]
