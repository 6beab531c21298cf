"""Compiled: how many words enter a tile over the whole run, given the loops above it.

Letters: n dimensions, L levels, T tensors.
"""

from __future__ import annotations

from costmodel.arrays.feasibility import axis_extent
from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import NestTables
from costmodel.compiled import part
from costmodel.space import Codes


@part
def list_loops(
    tables: NestTables,
    scratch: Scratch,
    code: Codes,
) -> tuple[int, int]:
    """Lists the temporal loops above the innermost level, innermost first.

    Fills start `[L]` of the scratch with the index of the first loop above each level's tile, then
    dimension, trips (all larger than 1), step (distance in its dimension that one iteration moves)
    and outer (product of the trips of a loop and all outside it; 1 past the last).

    Returns:
        The number of loops, and the product of all temporal trip counts, the innermost level's
        included.
    """
    rows, start, dimension = scratch.rows, scratch.start, scratch.dimension
    trips, step, outer = scratch.trips, scratch.step, scratch.outer
    n = tables.sizes.size
    levels = start.size
    count = 0
    for level in range(levels - 1, 0, -1):
        start[level] = count
        above = level - 1
        slot = tables.temporal_slot[above]
        order = tables.orders[tables.order_start[0, above] + code[tables.order_column[above]]]
        for position in range(n - 1, -1, -1):
            d = order[position]
            trip = tables.factors[rows[d], slot]
            # Written at once and taken back by the next: a branch would be guessed wrongly.
            dimension[count] = d
            trips[count] = trip
            step[count] = tables.within[rows[d], slot + 1]
            count += int(trip > 1)
    start[0] = count
    outer[count] = 1
    for i in range(count - 1, -1, -1):
        outer[i] = outer[i + 1] * trips[i]
    cycles = outer[0]
    slot = tables.temporal_slot[levels - 1]
    for d in range(n):
        cycles *= tables.factors[rows[d], slot]
    return count, cycles


@part
def words_entering(
    tables: NestTables,
    scratch: Scratch,
    t: int,
    level: int,
    tile: int,
    loops: int,
) -> int:
    """Words entering the tile of tensor t at a level over the run, per instance: Delta(T, level).

    Args:
        tables: the map space.
        scratch: with the loops that `list_loops` found.
        t: the tensor.
        level: the level whose tile it is.
        tile: words of the tile.
        loops: number of loops listed.
    """
    dimension, outer = scratch.dimension, scratch.outer
    first = scratch.start[level]
    if first == loops:
        return tile
    if tables.sliding[t] == 0:
        # Without overlap only the innermost run of loops over other dimensions is free.
        for i in range(first, loops):
            if tables.relevant[t, dimension[i]]:
                entering: int = tile * outer[i]
                return entering
        return tile
    if tables.tangled[t]:
        return _words_of_tangled(tables, scratch, t, level, tile, loops)
    # Overlap is credited to steps that move the tile just as the innermost loop does; Timeloop
    # takes the inner loops at iteration 1 for that comparison.
    step, far = scratch.step, scratch.moved
    axis_first = tables.axis_of[t, dimension[first]]
    for a in range(tables.axis_start[t + 1] - tables.axis_start[t]):
        far[a] = 0
    changed = 0
    # Axes along which a step has to make good what the loops inside it have moved.
    away = 0
    if axis_first >= 0:
        step_first = tables.coefficient_of[t, dimension[first]] * step[first]
        axis = tables.axis_start[t] + axis_first
        extent = axis_extent(tables, axis, tables.temporal_slot[level], scratch.rows)
        if abs(step_first) >= extent:
            everything: int = tile * outer[first]
            return everything
        changed = tile - tile // extent * (extent - abs(step_first))
        far[axis_first] = 2 * step_first
        away = 1
    words: int = tile + (outer[first] - outer[first + 1]) * changed
    for j in range(first + 1, loops):
        steps = outer[j] - outer[j + 1]
        axis_j = tables.axis_of[t, dimension[j]]
        if axis_j < 0:
            words += steps * (changed if away == 0 else tile)
            continue
        step_j = tables.coefficient_of[t, dimension[j]] * step[j]
        before = far[axis_j]
        words += steps * (changed if before == step_j and away == 1 else tile)
        far[axis_j] = before + step_j
        away += int(before + step_j != 0) - int(before != 0)
        if away > 1 and not tables.machine.cumulative:
            # Map spaces have no negative coefficients: no step makes good two axes any more.
            words += tile * (outer[j + 1] - 1)
            return words
    return words


@part
def box_words(
    tables: NestTables,
    scratch: Scratch,
    t: int,
    slot: int,
) -> int:
    """Words of tensor t's tile from a slot inwards, kept or not.

    As `feasibility.footprint`, which the hot path has for itself: what is called from one place
    is compiled into it.
    """
    words = 1
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        words *= axis_extent(tables, axis, slot, scratch.rows)
    return words


@part
def _words_of_tangled(
    tables: NestTables,
    scratch: Scratch,
    t: int,
    level: int,
    tile: int,
    loops: int,
) -> int:
    """As `words_entering`, where one dimension may move several axes at once."""
    dimension, trips, step = scratch.dimension, scratch.trips, scratch.step
    outer, moved = scratch.outer, scratch.moved
    first = scratch.start[level]
    begin = tables.axis_start[t]
    axes = tables.axis_start[t + 1] - begin
    overlap = 1
    for a in range(axes):
        moved[a] = tables.axis_coefficient[begin + a, dimension[first]] * step[first]
        extent = axis_extent(tables, begin + a, tables.temporal_slot[level], scratch.rows)
        overlap *= max(0, extent - abs(moved[a]))
    changed = tile - overlap
    words: int = tile + (trips[first] - 1) * outer[first + 1] * changed
    for j in range(first + 1, loops):
        same = True
        for a in range(axes):
            step_first = tables.axis_coefficient[begin + a, dimension[first]] * step[first]
            step_j = tables.axis_coefficient[begin + a, dimension[j]] * step[j]
            same = same and step_j - moved[a] == step_first
        words += (trips[j] - 1) * outer[j + 1] * (changed if same else tile)
        for a in range(axes):
            moved[a] += tables.axis_coefficient[begin + a, dimension[j]] * step[j]
    return words
