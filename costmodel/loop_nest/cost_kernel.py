"""The compiled pass: traffic, energy and cycles of one mapping after another.

The formulas are Timeloop's (v3, dense, perfect factors, link transfers off) in closed form; the
names below follow it. Letters: B mappings, n dimensions, S slots, L levels, T tensors.

All counts are int64 and exact: `Workload` refuses sizes whose counts could leave 62 bits. Energy
and the bandwidth limits are float64, where every count below 2^53 is exact as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from costmodel.compiled import lean, part
from costmodel.costs import STATUS_OK, FloatArray
from costmodel.loop_nest.feasibility import Statuses, check_mapping
from costmodel.loop_nest.tables import Array, NestTables, Scratch
from costmodel.space import Codes


@part
def _distinct_offsets(
    tables: NestTables,
    axis: int,
    slot: int,
    rows: Array,
    children: Array,
) -> int:
    """Number of distinct offsets along an axis over the spatial loops of a slot."""
    count = 0
    first_factor = 1
    first_step = 1
    second_factor = 1
    second_step = 1
    for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
        row = rows[tables.term_dimension[k]]
        factor = tables.factors[row, slot]
        if factor == 1:
            continue
        step = tables.term_coefficient[k] * tables.within[row, slot + 1]
        count += 1
        if count == 1:
            first_factor, first_step = factor, step
        elif count == 2:
            second_factor, second_step = factor, step
    if count <= 1:
        return first_factor
    if count == 2:
        # (i, j) and (i + b/g, j - a/g) coincide; count the points that no other precedes.
        a, b = first_step, second_step
        while b:
            a, b = b, a % b
        repeat_first = max(0, first_factor - second_step // a)
        repeat_second = max(0, second_factor - first_step // a)
        return first_factor * second_factor - repeat_first * repeat_second
    return _count_distinct(tables, axis, slot, rows, children)


@part
def sort(
    values: Array,
    count: int,
) -> None:
    """Sorts the first `count` values in place (Shell's method: it needs no memory)."""
    gap = 1
    while gap < count // 3:
        gap = gap * 3 + 1
    while gap > 0:
        for i in range(gap, count):
            value = values[i]
            j = i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3


@part
def _count_distinct(
    tables: NestTables,
    axis: int,
    slot: int,
    rows: Array,
    children: Array,
) -> int:
    """As _distinct_offsets, by enumeration, for axes of three and more moving terms."""
    count = 1
    children[0] = 0
    for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
        row = rows[tables.term_dimension[k]]
        factor = tables.factors[row, slot]
        step = tables.term_coefficient[k] * tables.within[row, slot + 1]
        for x in range(1, factor):
            for i in range(count):
                children[x * count + i] = children[i] + x * step
        count *= factor
    sort(children, count)
    distinct = 1
    for i in range(1, count):
        distinct += children[i] != children[i - 1]
    return distinct


@part
def _multicast_groups(
    tables: NestTables,
    t: int,
    level: int,
    rows: Array,
    children: Array,
) -> int:
    """Number of distinct child tiles of tensor t among the children of one instance: G(T, l)."""
    slot = tables.spatial_slot[level]
    if slot < 0:
        return 1
    groups = 1
    if tables.sliding[t]:
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            groups *= _distinct_offsets(tables, axis, slot, rows, children)
    else:
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            d = tables.term_dimension[tables.term_start[axis]]
            groups *= tables.factors[rows[d], slot]
    return groups


@part
def _words_entering(
    tables: NestTables,
    t: int,
    slot: int,
    rows: Array,
    tile: int,
    first: int,
    loops: int,
    dimension: Array,
    trips: Array,
    step: Array,
    outer: Array,
    moved: Array,
) -> int:
    """Words entering a child tile over the whole run, per instance: Delta(T, c).

    Args:
        tables: the map space.
        t: the tensor.
        slot: the child level's temporal slot.
        rows: `[n]` factorisation rows.
        tile: words of the child tile.
        first: index of the innermost loop above the tile.
        loops: number of loops; those from `first` on stand above the tile, innermost first.
        dimension: `[n * L]` dimension of each loop.
        trips: trip count of each loop, all larger than 1.
        step: distance in its dimension that one iteration of each loop moves.
        outer: product of the trip counts of a loop and all outside it; 1 past the last.
        moved: `[axes]` scratch.
    """
    if first == loops:
        return tile
    if tables.sliding[t] == 0:
        # Without overlap only the innermost run of loops over other dimensions is free.
        for i in range(first, loops):
            if tables.relevant[t, dimension[i]]:
                return tile * outer[i]
        return tile
    # Overlap is credited to steps that move the tile just as the innermost loop does; Timeloop
    # takes the inner loops at iteration 1 for that comparison.
    axis_first = tables.axis_of[t, dimension[first]]
    step_first = tables.coefficient_of[t, dimension[first]] * step[first]
    changed = 0
    if axis_first >= 0:
        axis = tables.axis_start[t] + axis_first
        extent = 1
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            inside = tables.within[rows[tables.term_dimension[k]], slot]
            extent += tables.term_coefficient[k] * (inside - 1)
        changed = tile - tile // extent * max(0, extent - step_first)
    axes = tables.axis_start[t + 1] - tables.axis_start[t]
    for a in range(axes):
        moved[a] = 0
    if axis_first >= 0:
        moved[axis_first] = step_first
    words = tile + (trips[first] - 1) * outer[first + 1] * changed
    for j in range(first + 1, loops):
        axis_j = tables.axis_of[t, dimension[j]]
        step_j = tables.coefficient_of[t, dimension[j]] * step[j]
        same = True
        for a in range(axes):
            displacement = (step_j if a == axis_j else 0) - moved[a]
            if displacement != (step_first if a == axis_first else 0):
                same = False
                break
        words += (trips[j] - 1) * outer[j + 1] * (changed if same else tile)
        if axis_j >= 0:
            moved[axis_j] += step_j
    return words


@part
def _loops_above(
    tables: NestTables,
    code: Codes,
    rows: Array,
    start: Array,
    dimension: Array,
    trips: Array,
    step: Array,
    outer: Array,
) -> tuple[int, int]:
    """Lists the temporal loops above the innermost level, innermost first.

    Fills start `[L]` with the index of the first loop above each level's tile, and dimension,
    trips, step and outer as `_words_entering` takes them. Returns the number of loops and the
    product of all temporal trip counts, the innermost level's included.
    """
    n = tables.sizes.size
    levels = start.size
    count = 0
    for level in range(levels - 1, 0, -1):
        start[level] = count
        above = level - 1
        slot = tables.temporal_slot[above]
        order = tables.orders[code[tables.order_column[above]]]
        for position in range(n - 1, -1, -1):
            d = order[position]
            trip = tables.factors[rows[d], slot]
            if trip > 1:
                dimension[count] = d
                trips[count] = trip
                step[count] = tables.within[rows[d], slot + 1]
                count += 1
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
def hops_per_delivery(
    tables: Any,
    t: int,
    mesh: Array,
    order: Array,
    axes: int,
    factor: Array,
    inside: Array,
    offsets: Array,
    tile_of: Array,
    lowest: Array,
    highest: Array,
) -> float:
    """Hops that one delivery of every distinct child tile takes on the mesh below a level.

    A child's number is the mixed-radix number of its spatial loop indices, innermost fastest; the
    mesh is filled row by row. A group of children that share a tile is reached along the first
    row to its furthest column, then up and down each of its columns.

    Args:
        tables: anything with the sizes and projections of `NestTables`.
        t: the tensor.
        mesh: `[2]` width and height.
        order: `[n]` dimensions of the spatial loops, outermost first.
        axes: bit d: dimension d runs along the height.
        factor: `[n]` spatial factors.
        inside: `[n]` extents of the child tile.
        offsets: `[n]` scratch; the others are scratch too, one entry per child.
        tile_of: scratch.
        lowest: scratch.
        highest: scratch.
    """
    n = tables.sizes.size
    along_x = 1
    along_y = 1
    for d in range(n):
        if (axes >> d) & 1:
            along_y *= factor[d]
        else:
            along_x *= factor[d]
    children = along_x * along_y
    if children == 1:
        return 0.0
    width = max(mesh[0], along_x)
    height = max(mesh[1], along_y)
    axes_of_tensor = tables.axis_start[t + 1] - tables.axis_start[t]
    for child in range(children):
        rest = child
        for a in range(axes_of_tensor):
            offsets[a] = 0
        for position in range(n - 1, -1, -1):
            d = order[position]
            index = rest % factor[d]
            rest //= factor[d]
            axis = tables.axis_of[t, d]
            if axis >= 0:
                offsets[axis] += tables.coefficient_of[t, d] * inside[d] * index
        key = 0
        for a in range(axes_of_tensor):
            span = 1
            axis = tables.axis_start[t] + a
            for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
                span += tables.term_coefficient[k] * tables.sizes[tables.term_dimension[k]]
            key = key * span + offsets[a]
        tile_of[child] = key * children + child
    sort(tile_of, children)
    centre = (height - 1) / 2
    hops = 0.0
    begin = 0
    while begin < children:
        end = begin
        furthest = 0
        for x in range(width):
            lowest[x] = height
            highest[x] = -1
        while end < children and tile_of[end] // children == tile_of[begin] // children:
            x = tile_of[end] % children % width
            y = tile_of[end] % children // width
            furthest = max(furthest, x)
            lowest[x] = min(lowest[x], y)
            highest[x] = max(highest[x], y)
            end += 1
        hops += furthest
        for x in range(width):
            if highest[x] >= 0:
                hops += max(0.0, centre - lowest[x]) + max(0.0, highest[x] - centre)
        begin = end
    return hops


@lean
def evaluate_mappings(
    tables: NestTables,
    scratch: Scratch,
    codes: Codes,
    energy: FloatArray,
    latency: FloatArray,
    status: Statuses,
    excess: Array,
    detailed: bool,
    tiles: Array,
    counts: Array,
    instances: Array,
    network: FloatArray,
) -> None:
    """Costs of codes `[B, D]`: energy (pJ), latency (cycles), status and excess `[B]`.

    With `detailed` it also fills tiles `[B, L, T]`, counts `[B, 3, L, T]` (reads, fills, updates
    per instance), instances `[B, L]` and network `[B, T]` (pJ); without, they are not touched.
    """
    n = tables.sizes.size
    levels = tables.capacity.size
    tensors = tables.sliding.size
    output = tables.output
    rows, kept, tile = scratch.rows, scratch.kept, scratch.tile
    start, dimension, trips, step = scratch.start, scratch.dimension, scratch.trips, scratch.step
    outer, moved, above = scratch.outer, scratch.moved, scratch.above
    accesses, reading, writing = scratch.accesses, scratch.reading, scratch.writing
    limited = False
    for level in range(levels):
        limited |= np.isfinite(tables.bandwidth[level, 0])
        limited |= np.isfinite(tables.bandwidth[level, 1])

    for b in range(codes.shape[0]):
        code = codes[b]
        status[b], excess[b] = check_mapping(tables, code, rows, kept, tile)
        if status[b] != STATUS_OK:
            energy[b] = np.inf
            latency[b] = np.inf
            continue
        loops, cycles = _loops_above(tables, code, rows, start, dimension, trips, step, outer)
        used = 1
        for level in range(levels):
            above[level] = used
            accesses[level] = 0
            reading[level] = 0.0
            writing[level] = 0.0
            slot = tables.spatial_slot[level]
            if slot >= 0:
                for d in range(n):
                    used *= tables.factors[rows[d], slot]
        hop_energy = 0.0

        for t in range(tensors):
            # From the inside out: `served` words pass between a level and what stands below it.
            entering = cycles
            groups = 1
            hops = 0.0
            for level in range(levels - 1, -1, -1):
                groups *= _multicast_groups(tables, t, level, rows, scratch.children)
                slot = tables.spatial_slot[level]
                if tables.hop_energy[level] > 0 and slot >= 0:
                    for d in range(n):
                        scratch.factor[d] = tables.factors[rows[d], slot]
                        scratch.inside[d] = tables.within[rows[d], slot + 1]
                    column = tables.spatial_axis_column[level]
                    per_delivery = hops_per_delivery(
                        tables, t, tables.mesh[level],
                        tables.orders[code[tables.spatial_order_column[level]]],
                        code[column] if column >= 0 else 0, scratch.factor, scratch.inside,
                        moved, scratch.children, scratch.lowest, scratch.highest,
                    )  # fmt: skip
                    hops += per_delivery * tables.hop_energy[level] * entering * above[level]
                if not kept[level, t]:
                    continue
                served = entering * groups
                groups = 1
                share = 0
                for further in range(level):
                    if kept[further, t]:
                        entering = _words_entering(
                            tables, t, tables.temporal_slot[level], rows, tile[level, t],
                            start[level], loops, dimension, trips, step, outer, moved,
                        )  # fmt: skip
                        share = entering
                        break
                if t == output:
                    # The first time that a word is produced at a level, nothing is read.
                    first_time = tables.output_words
                    for further in range(level):
                        slot = tables.spatial_slot[further]
                        if slot >= 0:
                            for d in range(n):
                                if tables.relevant[t, d]:
                                    first_time //= tables.factors[rows[d], slot]
                    reads = served - first_time
                    fills = share - first_time if share > 0 else 0
                    updates = served
                else:
                    reads = served
                    fills = share
                    updates = 0
                accesses[level] += reads + fills + updates
                if limited:
                    # Summed per tensor, as Timeloop does: the rounding up below shows it.
                    reading[level] += reads / cycles
                    writing[level] += (fills + updates) / cycles
                if detailed:
                    counts[b, 0, level, t] = reads
                    counts[b, 1, level, t] = fills
                    counts[b, 2, level, t] = updates
                    tiles[b, level, t] = tile[level, t]
            hop_energy += hops
            if detailed:
                network[b, t] = hops

        total = tables.macs * tables.mac_energy + hop_energy
        slowest = np.float64(cycles)
        for level in range(levels):
            total += accesses[level] * above[level] * tables.energy[level]
            if limited:
                slowdown = 1.0
                if reading[level] > 0:
                    slowdown = min(slowdown, tables.bandwidth[level, 0] / reading[level])
                if writing[level] > 0:
                    slowdown = min(slowdown, tables.bandwidth[level, 1] / writing[level])
                slowest = max(slowest, np.ceil(cycles / slowdown))
            if detailed:
                instances[b, level] = above[level]
        energy[b] = total
        latency[b] = slowest
