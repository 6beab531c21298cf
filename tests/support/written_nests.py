"""Loop nests of three levels as tests write them."""

from __future__ import annotations

from collections.abc import Mapping

from costmodel import Codes, MapSpace, Workload, accelerator
from costmodel.map_space.mapping import mapping_from_record

LEVELS = ("DRAM", "L2", "L1")


def written(workload: Workload, levels: Mapping[str, str]) -> tuple[MapSpace, Codes]:
    """A nest on `mm256` as a code `[1, D]`, and its map space.

    Args:
        workload: the operation.
        levels: per level the temporal loops, outermost first, and behind a bar the spatial ones:
            `"M2 N4 | K4"`.
    """
    names = workload.dimension_names
    record = {}
    for level in LEVELS:
        temporal, _, spatial = levels.get(level, "").partition("|")
        loops = [(loop[0], int(loop[1:])) for loop in temporal.split()]
        used = [name for name, _ in loops]
        order = used + [name for name in names if name not in used]
        record[level] = {"temporal": dict(loops), "perm": order}
        if level == "L2":
            record[level]["spatial"] = {loop[0]: int(loop[1:]) for loop in spatial.split()}
    mapping = mapping_from_record(
        record, LEVELS, names, workload.tensor_names, (False, True, False)
    )
    space = MapSpace(workload, accelerator("mm256"))
    return space, space.code(mapping)[None]
