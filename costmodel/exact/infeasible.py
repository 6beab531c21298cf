"""Whether a map space holds any feasible mapping, and if not what would admit one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from costmodel.machines.packing import pack
from costmodel.map_space.map_space import MapSpace


def why_infeasible(space: MapSpace, keep: Mapping[str, Sequence[str]] | None = None) -> str | None:
    """One line that names the level that holds no tile and the capacity that would; None if fine.

    The smallest tile of a level is one point of the iteration space: one word of every tensor
    that the level keeps. All loops may stand at the outermost level and all spatial factors be 1,
    so nothing else can exclude every mapping.

    Args:
        space: the map space.
        keep: the tensors that a level keeps, for levels where that is not searched.
    """
    accelerator = space.accelerator
    if accelerator.overflow == "bypass":
        return None
    machine = space.tables.machine
    everything = (1 << len(space.workload.tensors)) - 1
    for index, level in enumerate(accelerator.levels):
        held = everything & ~int(machine.never_kept[index])
        if keep is not None and level.name in keep:
            names = space.workload.tensor_names
            held = sum(1 << t for t, name in enumerate(names) if name in keep[level.name])
        elif index > 0 and accelerator.bypass == "searched":
            held = int(machine.always_kept[index])
        needs = machine.room[index] * [held >> t & 1 for t in range(len(machine.room[index]))]
        if 0 <= space.tables.capacity[index] < needs.sum():
            unit = pack(accelerator, space.workload.bits_by_tensor).unit[index]
            buffered = level.multiple_buffering
            times = f", each held {buffered:g} times" if buffered > 1 else ""
            needed = math.ceil(needs.sum() / unit * buffered)
            return (
                f"No mapping of {space.workload.name} on {accelerator.name} is feasible: "
                f"{level.name} holds {level.capacity_words} words, and the smallest tile has one "
                f"{'word' if unit == 1 else 'value'} of each of {held.bit_count()} tensors{times}. "
                f"A capacity of {needed} words would admit one."
            )
    return None
