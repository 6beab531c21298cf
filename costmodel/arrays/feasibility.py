"""Compiled feasibility: does a mapping fit the fan-out and the capacities?

Letters: B mappings, D attributes of a code, n dimensions, L levels, T tensors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import lean, part
from costmodel.costs import STATUS_CAPACITY, STATUS_FANOUT, STATUS_IDLE, STATUS_OK
from costmodel.space import Codes

Flags = npt.NDArray[np.uint8]
Statuses = npt.NDArray[np.int32]


@part
def axis_extent(
    tables: NestTables,
    axis: int,
    slot: int,
    rows: Array,
) -> int:
    """Words along an axis of the tile from a slot inwards."""
    extent = 1
    for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
        inside = tables.within[rows[tables.term_dimension[k]], slot]
        extent += tables.term_coefficient[k] * (inside - 1)
    return extent


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
        words *= axis_extent(tables, axis, slot, rows)
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
def axes_in_use(
    tables: NestTables,
    level: int,
    code: Codes,
) -> int:
    """Bit d: dimension d runs along the height of the children of a level."""
    column = tables.spatial_axis_column[level]
    if column < 0:
        return 0
    machine = tables.machine
    if machine.placed_start[level] >= 0:
        return int(machine.placed[machine.placed_start[level] + code[column]])
    axes: int = (code[column] | machine.only_y[level]) & ~machine.only_x[level]
    return axes


@part
def height_of(tables: NestTables, level: int, d: int, rows: Array, axes: int) -> int:
    """The part of a dimension's spatial factor below a level that runs along the height."""
    if (axes >> d) & 1:
        return int(tables.factors[rows[d], tables.spatial_slot[level]])
    if tables.tall.shape[0] == 0:
        return 1
    return int(tables.tall[rows[d], level])


@part
def beyond_axes(width: int, height: int, wide: int, tall: int, free: int) -> int:
    """What loops need beyond a mesh on which any of them may be split in two, one along each axis.

    Products of their factors decide: every divisor of a product is one of divisors.

    Args:
        width: of the mesh.
        height: of the mesh.
        wide: product of what runs along the width only.
        tall: product of what runs along the height only.
        free: product of what may be split.

    Returns:
        Children beyond one of its axes (0: fits).
    """
    if wide > width:
        return wide - width
    along = min(free, width // wide)
    while free % along:
        along -= 1
    return max(0, tall * (free // along) - height)


@part
def beyond_mesh(tables: NestTables, level: int, factors: Array) -> int:
    """As `beyond_axes`, for spatial factors `[n]` below a level."""
    machine = tables.machine
    wide = 1
    tall = 1
    free = 1
    for d in range(factors.size):
        if (machine.only_x[level] >> d) & 1:
            wide *= factors[d]
        elif (machine.only_y[level] >> d) & 1:
            tall *= factors[d]
        else:
            free *= factors[d]
    return beyond_axes(tables.mesh[level, 0], tables.mesh[level, 1], wide, tall, free)


@lean
def fill_beyond_mesh(tables: NestTables, level: int, factors: Array, beyond: Array) -> None:
    """Fills `[V]` of `beyond_mesh` for spatial factors `[V, n]` below a level."""
    for v in range(beyond.size):
        beyond[v] = beyond_mesh(tables, level, factors[v])


@part
def _beyond_both(tables: NestTables, level: int, rows: Array) -> int:
    """As `beyond_mesh`, of a mapping's rows `[n]`."""
    machine, slot = tables.machine, tables.spatial_slot[level]
    wide = 1
    tall = 1
    free = 1
    for d in range(rows.size):
        factor = tables.factors[rows[d], slot]
        if (machine.only_x[level] >> d) & 1:
            wide *= factor
        elif (machine.only_y[level] >> d) & 1:
            tall *= factor
        else:
            free *= factor
    return beyond_axes(tables.mesh[level, 0], tables.mesh[level, 1], wide, tall, free)


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
        if column < 0 and tables.machine.both[level]:
            over = _beyond_both(tables, level, rows)
            if over > 0:
                return over
            continue
        axes = axes_in_use(tables, level, code)
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
    """What a level lacks of room; fills kept and tile `[T]` of that level.

    Where the machine bypasses on overflow a tensor that no longer fits is dropped from the level,
    in the workload's order of tensors, and nothing ever overflows.
    """
    tensors = tile.size
    column = tables.keep_column[level]
    mask = ~tables.machine.never_kept[level]
    if column >= 0:
        mask &= code[column] | tables.machine.always_kept[level]
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
        words = footprint(tables, t, slot, rows) if level > 0 else tables.words[t]
        tile[t] = words
        if capacity < 0:
            continue
        words *= tables.machine.room[level, t]
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
def _check_spread(
    tables: NestTables,
    code: Codes,
    rows: Array,
) -> tuple[int, int]:
    """Status and excess by what may run across which axis, and how much of it at least."""
    machine = tables.machine
    units = 1
    for level in range(tables.fanout.size):
        slot = tables.spatial_slot[level]
        if slot < 0:
            continue
        spread = 0
        for d in range(rows.size):
            factor = tables.factors[rows[d], slot]
            units *= factor
            if factor > 1:
                spread |= 1 << d
                if (machine.barred[level] >> d) & 1:
                    return STATUS_FANOUT, factor - 1
        start = machine.placed_start[level]
        if start >= 0 and tables.spatial_axis_column[level] >= 0:
            axes = axes_in_use(tables, level, code)
            if spread & ((axes & machine.only_x[level]) | (~axes & machine.only_y[level])):
                return STATUS_FANOUT, 1
        elif start >= 0 and machine.placed[start + spread] == 0:
            return STATUS_FANOUT, 1
    if units < machine.least_units:
        return STATUS_IDLE, machine.least_units - units
    return STATUS_OK, 0


@part
def _check_rules(
    tables: NestTables,
    code: Codes,
    rows: Array,
    kept: Flags,
    tile: Array,
) -> tuple[int, int]:
    """Status and excess by what a machine asks for beyond fan-outs and capacities."""
    levels, tensors = tile.shape
    status, excess = _check_spread(tables, code, rows)
    if status != STATUS_OK:
        return status, excess
    for level in range(levels):
        over, missing = _room_beyond(tables, level, tile)
        if over > 0:
            return STATUS_CAPACITY + level, over
        if missing > 0:
            return STATUS_CAPACITY + levels + level, missing
    for t in range(tensors):
        holders = 0
        for level in range(levels):
            holders += kept[level, t]
        if holders == 0:
            return STATUS_CAPACITY + 2 * levels + t, tables.words[t]
    return STATUS_OK, 0


@part
def _room_beyond(
    tables: NestTables,
    level: int,
    tile: Array,
) -> tuple[int, int]:
    """Room by which tiles `[L, T]` exceed a level's capacity, or stay below its least utilisation.

    Tiles of levels that share one room count together, where the last of these is asked for.
    """
    first, stop = tables.machine.sharing[level, 0], tables.machine.sharing[level, 1]
    if level + 1 < stop:
        return 0, 0
    used = 0
    for at in range(first, stop):
        for t in range(tile.shape[1]):
            used += tile[at, t] * tables.machine.room[at, t]
    least, capacity = tables.machine.least_room[level], tables.capacity[level]
    over = 0 if capacity < 0 or first == level else max(0, used - capacity)
    return over, 0 if used >= least else int(np.ceil(least)) - used


@part
def _check_meshes(
    tables: NestTables,
    code: Codes,
    rows: Array,
    first: int,
    last: int,
) -> int:
    """Instances used beyond what a level has, or the MACs, for levels `first` to `last` (0: fits).

    As timeloop-model has it: a fan-out limits the product of all spatial factors outside, so that
    one may be exceeded where others are not used.
    """
    mesh = tables.machine.mesh
    along_x = 1
    along_y = 1
    for level in range(last + 1):
        over = max(along_x * along_y - mesh[level, 0], along_x - mesh[level, 1])
        over = max(over, along_y - mesh[level, 2])
        if level >= first and over > 0:
            return over
        if level == last:
            break
        axes = axes_in_use(tables, level, code)
        for d in range(rows.size):
            factor = tables.factors[rows[d], tables.spatial_slot[level]]
            tall = height_of(tables, level, d, rows, axes)
            along_y *= tall
            along_x *= factor // tall
    return 0


@part
def _check_as_timeloop(
    tables: NestTables,
    code: Codes,
    rows: Array,
    kept: Flags,
    tile: Array,
) -> tuple[int, int]:
    """As `check_mapping`, in timeloop-model's order: the MACs, then levels from the innermost out.

    Its machines have neither banks nor a way around what overflows, and its codes name what every
    level keeps; so it looks for itself, and leaves `check_capacity` to the other caller, into
    which it is compiled.
    """
    levels, tensors = tile.shape
    excess = _check_meshes(tables, code, rows, levels, levels)
    if excess > 0:
        return STATUS_FANOUT, excess
    for level in range(levels - 1, -1, -1):
        used = 0
        for t in range(tensors):
            kept[level, t] = (code[tables.keep_column[level]] >> t) & 1
            tile[level, t] = 0
            if kept[level, t]:
                tile[level, t] = 1
                for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
                    tile[level, t] *= axis_extent(tables, axis, tables.temporal_slot[level], rows)
            used += tile[level, t] * tables.machine.room[level, t]
        if tables.capacity[level] >= 0 and used > tables.capacity[level]:
            return STATUS_CAPACITY + level, used - tables.capacity[level]
        # Rooms that levels share are looked at once all tiles are known.
        if tables.machine.sharing[level, 0] == tables.machine.sharing[level, 1] - 1:
            missing = _room_beyond(tables, level, tile)[1]
            if missing > 0:
                return STATUS_CAPACITY + levels + level, missing
        excess = _check_meshes(tables, code, rows, level, level)
        if excess > 0:
            return STATUS_FANOUT, excess
    return _check_rules(tables, code, rows, kept, tile)


@part
def check_mapping(
    tables: NestTables,
    code: Codes,
    rows: Array,
    kept: Flags,
    tile: Array,
) -> tuple[int, int]:
    """Status and excess of one mapping; fills rows `[n]`, kept and tile `[L, T]`.

    Fan-outs come first, then capacities from the outermost level in; timeloop-model looks at the
    MACs first, then at each level from the innermost out.
    """
    locate(tables, code, rows)
    if tables.machine.cumulative:
        return _check_as_timeloop(tables, code, rows, kept, tile)
    excess = check_fanout(tables, code, rows)
    if excess > 0:
        return STATUS_FANOUT, excess
    for level in range(tables.capacity.size):
        excess = check_capacity(tables, level, code, rows, kept[level], tile[level])
        if excess > 0:
            return STATUS_CAPACITY + level, excess
    if tables.machine.restricted:
        return _check_rules(tables, code, rows, kept, tile)
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
