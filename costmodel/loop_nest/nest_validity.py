"""Why Timeloop refuses a mapping, in its words: the MACs first, then levels from the inside.

The compiled pass decides; this says it again for people, of the few mappings that are refused.
"""

from __future__ import annotations

import itertools
import math

from costmodel.loop_nest.nest_record_models import NestArch, NestLevel, NestLoops, NestProblem
from costmodel.machines.packing import Packing

NO_FIGURES = (
    "an output at a sum of dimensions is read or filled a negative number of times; Timeloop has "
    "no figures for it"
)


def why_invalid(
    problem: NestProblem, arch: NestArch, mapping: tuple[NestLoops, ...], packing: Packing
) -> str:
    """Why Timeloop refuses a mapping that the pass refused.

    Args:
        problem: the operation.
        arch: its machine.
        mapping: of it.
        packing: how values lie in words.
    """
    used = [
        tuple(math.prod(f for _, f, a in loops.spatial if a == axis) for axis in "XY")
        for loops in mapping
    ]
    mac = arch.mac
    width, height = (math.prod(along) for along in zip(*used, strict=True))
    why = _beyond(width, height, (mac.instances, mac.meshX, mac.meshY))
    if why:
        words = ("instances", "X expansion", "Y expansion")
        return (
            f"MAC: mapped max Arithmetic {words[why[0]]} {why[1]} exceeds hardware instances "
            f"{why[2]}"
        )
    held: dict[int, int] = {}
    for position in range(len(mapping) - 1, -1, -1):
        level, loops = arch.levels[position], mapping[position]
        extents = _largest_extents(problem, mapping, position)
        width //= used[position][0]
        height //= used[position][1]
        takes = {
            p.name: p.words(extents) * int(room)
            for p, room in zip(problem.projections, packing.room[position], strict=True)
        }
        held[position] = sum(takes[name] for name in takes if name in loops.keep)
        # What levels hold that share one room is looked at together, below.
        alone = len(_room_of(arch, level)) == 1
        why_not = _beside_most(level, int(packing.unit[position]), held[position]) if alone else ""
        why = _beyond(width, height, (level.instances, level.meshX, level.meshY))
        if why:
            words = ("instances", "X expansion", "Y expansion")
            why_not += (
                f"mapped {words[why[0]]} {why[1]} exceeds available hardware instances {why[2]}"
            )
        if why_not:
            return f"{level.name}: {why_not}"
    for level in arch.levels:
        room = _room_of(arch, level)
        unit = int(packing.unit[room[0]])
        why_not = _beside_most(level, unit, sum(held[place] for place in room))
        if why_not:
            return f"{', '.join(arch.levels[place].name for place in room)} together: {why_not}"
    kept = {name for loops in mapping for name in loops.keep}
    for tensor in problem.tensors:
        if tensor.name not in kept:
            return f"{tensor.name} is kept at no level"
    return NO_FIGURES


def _largest_extents(
    problem: NestProblem, mapping: tuple[NestLoops, ...], position: int
) -> dict[str, int]:
    """Extents of a level's tiles where they are largest."""
    last = dict.fromkeys(problem.dims, 0)
    whole = dict.fromkeys(problem.dims, 1)
    repeated = set()
    for place, loops in enumerate(mapping):
        for name, factor, rest in itertools.chain(*loops.listed):
            if place < position:
                repeated |= {name} if rest > 1 else set()
            else:
                whole[name] *= factor
                last[name] = last[name] * factor + rest - 1
    return {name: whole[name] if name in repeated else last[name] + 1 for name in last}


def _beyond(width: int, height: int, limits: tuple[int, int, int]) -> tuple[int, int, int] | None:
    """Which of instances, width and height is exceeded first, what is used and what there is."""
    for place, wanted in enumerate((width * height, width, height)):
        if wanted > limits[place]:
            return place, wanted, limits[place]
    return None


def _room_of(arch: NestArch, level: NestLevel) -> list[int]:
    """The positions of the levels that share a level's room, its own among them."""
    if level.shares is None:
        return [arch.levels.index(level)]
    return [place for place, other in enumerate(arch.levels) if other.shares == level.shares]


def _beside_most(level: NestLevel, unit: int, used: int) -> str:
    """What is wrong with so much held by a level, in parts of a word; empty where nothing is."""
    if level.size_words is None:
        return ""
    kind = "size" if unit == 1 else "bits"
    most = math.floor(level.size_words * unit / level.multiple_buffering)
    if used > most:
        return f"mapped tile {kind} {used} exceeds buffer capacity {most}"
    if used < most * level.min_utilization:
        return (
            f"mapped tile {kind} {used} is less than constrained minimum utilization "
            f"{most * level.min_utilization:g}"
        )
    return ""
