"""The optimum where every tensor of one buffer has a tile at a loop of its own, proven.

AccelForge may store the tensors of one memory at different loops; a level of ours stands at one.
Cut into a buffer per tensor, side by side, a level stands wherever it likes for each, and only the
sum of the tiles must fit. A mapping that fits does so within one of finitely many shares of the
room; several shares at once are proven with the largest of each, and halved where the winner of
that does not fit: branch and bound, every node one proof. Each part has the whole bandwidth, so
that the optimum is one if its words together pass the ports, which `accelforge_costs` counts.
"""

from __future__ import annotations

import bisect
import itertools
import math
from typing import Any, NamedTuple

import mapspace as ms
from costmodel.affine import Workload
from costmodel.exact_any.prover import AnyProver
from costmodel.loop_nest.records import mapping_record
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import MapspaceError

ROLES = ("input", "weight", "output")
Record = dict[str, Any]


class Uneven(NamedTuple):
    """record: the best mapping; edp: of it, pJ x cycles, by our counting; proofs: how many."""

    record: Record
    edp: float
    proofs: int


def cut(machine: Record, buffer: str, words: tuple[int, ...]) -> Record:
    """A machine whose level `buffer` is a buffer of so many words for each role."""
    levels = []
    for level in machine["levels"]:
        if level["name"] != buffer:
            levels.append(level)
            continue
        shared = {key: value for key, value in level.items() if key not in ("keep", "bypass")}
        below = {key: shared.pop(key) for key in ("fanout", "mesh", "spatial") if key in shared}
        for role, held in zip(ROLES, words, strict=True):
            others = [other for other in ROLES if other != role]
            part = {**shared, "name": f"{buffer}-{role}", "capacity_words": held, "beside": buffer}
            levels.append({**part, "keep": [role], "bypass": others})
        levels[-1] |= below
    return {**machine, "levels": levels}


def tiles(record: Record, work: Workload, buffer: str) -> list[int]:
    """Words of the tile of each role in its part of the buffer."""
    extents = dict.fromkeys(work.dimension_names, 1)
    held: dict[str, int] = {}
    sizes = {tensor.name: tensor for tensor in work.tensors}
    for level in reversed(record["mapping"]):
        for kind in ("spatial", "temporal"):
            for loop in level[kind]:
                extents[loop[0]] *= loop[1]
        if level["level"].startswith(f"{buffer}-"):
            (name,) = level["keep"]
            held[level["level"]] = _words(sizes[name], extents)
    return [held[f"{buffer}-{role}"] for role in ROLES]


def _words(tensor: Any, extents: dict[str, int]) -> int:
    """Words of a tensor's tile of these extents."""
    return math.prod(
        1 + sum(factor * (extents[d] - 1) for d, factor in axis.terms) for axis in tensor.axes
    )


def shares(work: Workload, room: int) -> list[tuple[int, ...]]:
    """Words for input, weight and output: every mapping that fits does within one of these."""
    roles = work.roles
    sizes: dict[str, list[int]] = {}
    for tensor in work.tensors:
        used = sorted({d for axis in tensor.axes for d, _ in axis.terms})
        divisors = [_divisors(work.dimensions[d]) for d in used]
        words = set()
        for chosen in itertools.product(*divisors):
            extents = dict(zip(used, chosen, strict=True))
            words.add(_words(tensor, extents))
        sizes[roles[tensor.name]] = sorted(one for one in words if one <= room)
    most: dict[tuple[int, int], int] = {}
    for first, second in itertools.product(sizes["input"], sizes["weight"]):
        place = bisect.bisect_right(sizes["output"], room - first - second)
        if place:
            most[first, second] = sizes["output"][place - 1]
    found = [(*pair, third) for pair, third in most.items()]
    return [one for one in found if not any(_within(one, other) for other in found)]


def _divisors(size: int) -> list[int]:
    return [one for one in range(1, size + 1) if size % one == 0]


def _within(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one != other and all(x <= y for x, y in zip(one, other, strict=True))


def best(work: Workload, machine: Record, buffer: str) -> Uneven:
    """Proves the best mapping of all whose tiles in `buffer` fit together, each at its own loop.

    Args:
        work: the layer.
        machine: the file's content; the buffer keeps every tensor.
        buffer: the level's name.

    Raises:
        MapspaceError: nothing fits.
    """
    (room,) = (one["capacity_words"] for one in machine["levels"] if one["name"] == buffer)
    left = [shares(work, room)]
    found: tuple[tuple[float, float], Record] | None = None
    proofs = 0
    while left:
        among = left.pop()
        words = tuple(max(one[at] for one in among) for at in range(len(ROLES)))
        prover = AnyProver(MapSpace(work, ms.accelerator(cut(machine, buffer, words))), build=False)
        proofs += 1
        if found is None:
            prover.run()
        elif not prover.finds_below(found[0]):
            continue
        if prover.best_outcome is None:
            continue
        record = mapping_record(prover.space, prover.codes(1)[0])
        needed = tiles(record, work, buffer)
        if sum(needed) <= room:
            energy, cycles = prover.best_outcome
            found = (float(energy * prover.unit_pj), float(cycles)), record
            continue
        # Halved where some tile has less room than it took: the largest do not fit together.
        less = [sum(one[at] < needed[at] for one in among) for at in range(len(ROLES))]
        at = min(range(len(ROLES)), key=[abs(2 * few - len(among)) for few in less].__getitem__)
        parts = [
            [one for one in among if one[at] < needed[at]],
            [one for one in among if one[at] >= needed[at]],
        ]
        left += [part for part in parts if part]
    if found is None:
        raise MapspaceError("no mapping fits")
    return Uneven(found[1], found[0][0] * found[0][1], proofs)
