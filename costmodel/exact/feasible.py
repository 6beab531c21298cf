"""Why a map space holds no feasible mapping: which constraint excludes all, and what would not."""

from __future__ import annotations

from costmodel.exact.tables import BUFFER, ELEMENT, ProofTables
from costmodel.mapspace import MapSpace


def why_infeasible(space: MapSpace, tables: ProofTables) -> str:
    """One line that names the level that holds no tile and the smallest capacity that would.

    The smallest tile of a level is one point of the iteration space: one word of every tensor
    that it keeps. Nothing else can exclude all mappings, since spatial factors may all be 1.
    """
    names = space.accelerator.level_names
    for level, sets in ((ELEMENT, tables.inner_sets), (BUFFER, tables.outer_sets)):
        fewest = min(int(kept).bit_count() for kept in sets)
        capacity = int(tables.capacity[level])
        if 0 <= capacity < fewest:
            return (
                f"No mapping of {space.workload.name} on {space.accelerator.name} is feasible: "
                f"{names[level]} holds {capacity} words, and the smallest tile has one word of "
                f"each of {fewest} tensors. A capacity of {fewest} words would admit a mapping."
            )
    raise AssertionError("every level holds the smallest tile")
