"""Whether a map space holds any feasible mapping, and if not what would admit one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costmodel.loop_nest.map_space import MapSpace


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
    for index, level in enumerate(accelerator.levels):
        fewest = len(space.workload.tensors)
        if keep is not None and level.name in keep:
            fewest = len(set(keep[level.name]))
        elif index > 0 and accelerator.bypass == "searched":
            fewest = 0
        if level.capacity_words is not None and level.capacity_words < fewest:
            return (
                f"No mapping of {space.workload.name} on {accelerator.name} is feasible: "
                f"{level.name} holds {level.capacity_words} words, and the smallest tile has one "
                f"word of each of {fewest} tensors. A capacity of {fewest} words would admit one."
            )
    return None
