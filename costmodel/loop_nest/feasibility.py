"""Compiled feasibility: does a mapping fit the fan-out and the capacities?

Letters: B mappings, D attributes of a code, n dimensions, L levels, T tensors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from costmodel.compiled import lean, part
from costmodel.costs import STATUS_CAPACITY, STATUS_FANOUT, STATUS_OK
from costmodel.loop_nest.tables import Array, NestTables, Scratch
from costmodel.space import Codes

Flags = npt.NDArray[np.uint8]
Statuses = npt.NDArray[np.int32]


@part
def footprint(
    tables: NestTables,
    t: int,
    slot: int,
    rows: Array,
) -> int:
    """Words of tensor t's tile from a slot inwards: the bounding box of what its loops touch."""
    words = 1
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        extent = 1
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            inside = tables.within[rows[tables.term_dimension[k]], slot]
            extent += tables.term_coefficient[k] * (inside - 1)
        words *= extent
    return words


@part
def locate(
    tables: NestTables,
    code: Codes,
    rows: Array,
) -> None:
    """Fills rows `[n]` with the factorisation rows that a code `[D]` names."""
    for d in range(tables.sizes.size):
        rows[d] = tables.row_start[d] + code[d]


@part
def check_fanout(
    tables: NestTables,
    code: Codes,
    rows: Array,
) -> int:
    """Processing elements that a mapping asks for beyond what its levels fan out to (0: fits)."""
    for level in range(tables.fanout.size):
        slot = tables.spatial_slot[level]
        if slot < 0:
            continue
        column = tables.spatial_axis_column[level]
        axes = code[column] if column >= 0 else 0
        along_x = 1
        along_y = 1
        for d in range(tables.sizes.size):
            factor = tables.factors[rows[d], slot]
            if (axes >> d) & 1:
                along_y *= factor
            else:
                along_x *= factor
        if column < 0:
            if along_x > tables.fanout[level]:
                return along_x - tables.fanout[level]
        elif along_x > tables.mesh[level, 0] or along_y > tables.mesh[level, 1]:
            over_x = max(0, along_x - tables.mesh[level, 0])
            return max(over_x, along_y - tables.mesh[level, 1])
    return 0


@part
def check_capacity(
    tables: NestTables,
    level: int,
    code: Codes,
    rows: Array,
    kept: Flags,
    tile: Array,
) -> int:
    """Words by which a level overflows; fills kept and tile `[T]` of that level.

    Where the machine bypasses on overflow a tensor that no longer fits is dropped from the level,
    in the workload's order of tensors, and nothing ever overflows.
    """
    tensors = tile.size
    column = tables.keep_column[level]
    mask = code[column] if column >= 0 else -1
    slot = tables.temporal_slot[level]
    bank_row = -1
    if tables.banks_column[level] >= 0:
        bank_row = tables.allocation_start[level] + code[tables.banks_column[level]]
    capacity = tables.capacity[level]
    used = 0
    excess = 0
    for t in range(tensors):
        kept[t] = (mask >> t) & 1
        if not kept[t]:
            tile[t] = 0
            continue
        words = footprint(tables, t, slot, rows)
        tile[t] = words
        if capacity < 0:
            continue
        if bank_row >= 0:
            over = words - tables.allocations[bank_row, t] * tables.bank_words[level]
        else:
            over = used + words - capacity
        if over > 0:
            if tables.bypass_on_overflow and level > 0:
                kept[t] = 0
                tile[t] = 0
                continue
            excess = max(excess, over)
        used += words
    return excess


@part
def check_mapping(
    tables: NestTables,
    code: Codes,
    rows: Array,
    kept: Flags,
    tile: Array,
) -> tuple[int, int]:
    """Status and excess of one mapping; fills rows `[n]`, kept and tile `[L, T]`."""
    locate(tables, code, rows)
    excess = check_fanout(tables, code, rows)
    if excess > 0:
        return STATUS_FANOUT, excess
    for level in range(tables.capacity.size):
        excess = check_capacity(tables, level, code, rows, kept[level], tile[level])
        if excess > 0:
            return STATUS_CAPACITY + level, excess
    return STATUS_OK, 0


@lean
def check_mappings(
    tables: NestTables,
    scratch: Scratch,
    codes: Codes,
    status: Statuses,
    excess: Array,
) -> None:
    """Status and excess of codes `[B, D]` into `[B]` each."""
    for b in range(codes.shape[0]):
        status[b], excess[b] = check_mapping(
            tables, codes[b], scratch.rows, scratch.kept, scratch.tile
        )
