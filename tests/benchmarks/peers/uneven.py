"""The optimum where every tensor of one buffer has a tile at a loop of its own, proven.

AccelForge may store the tensors of one memory at different loops; a level of ours stands at one.
Cut into a buffer per tensor, side by side, a level stands wherever it likes for each, and only the
sum of the tiles must fit, which the proof is told. Each part has the whole bandwidth, so
that the optimum is one if its words together pass the ports, which `accelforge_costs` counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mapspace as ms
from costmodel.exact_any.prover import AnyProver
from costmodel.loop_nest.records import mapping_record
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from mapspace.errors import MapspaceError

ROLES = ("input", "weight", "output")
Record = dict[str, Any]


class Uneven(NamedTuple):
    """record: the best mapping; edp: of it, pJ x cycles, by our counting."""

    record: Record
    edp: float


def cut(machine: Record, buffer: str) -> Record:
    """A machine whose level `buffer` is a buffer for each role, a word short for each other one."""
    levels = []
    for level in machine["levels"]:
        if level["name"] != buffer:
            levels.append(level)
            continue
        shared = {key: value for key, value in level.items() if key not in ("keep", "bypass")}
        shared["capacity_words"] -= len(ROLES) - 1
        below = {key: shared.pop(key) for key in ("fanout", "mesh", "spatial") if key in shared}
        for role in ROLES:
            others = [other for other in ROLES if other != role]
            part = {**shared, "name": f"{buffer}-{role}", "beside": buffer}
            levels.append({**part, "keep": [role], "bypass": others})
        levels[-1] |= below
    return {**machine, "levels": levels}


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
    space = MapSpace(work, ms.accelerator(cut(machine, buffer)))
    prover = AnyProver(space, build=False, room=room)
    prover.run()
    if prover.best_outcome is None:
        raise MapspaceError("no mapping fits")
    energy, cycles = prover.best_outcome
    record = mapping_record(space, prover.codes(1)[0])
    return Uneven(record, float(energy * prover.unit_pj * cycles))
