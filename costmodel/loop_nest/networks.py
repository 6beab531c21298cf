"""Compiled: what the network between a level and its children carries, and how far.

Letters: n dimensions, L levels, T tensors, C classes of multicasts.
"""

from __future__ import annotations

from typing import Any

from costmodel.arrays.feasibility import axes_in_use, height_of
from costmodel.arrays.projections import GROUPS_PER_CHILD
from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import lean, part
from costmodel.loop_nest.spatial_groups import sort, tile_key
from costmodel.space import Codes


@part
def hops_per_delivery(
    tables: Any,
    t: int,
    mesh: Array,
    order: Array,
    axes: int,
    factor: Array,
    inside: Array,
    room: Any,
) -> float:
    """Hops that one delivery of every distinct child tile takes on the mesh below a level.

    A child's number is the mixed-radix number of its spatial loop indices, innermost fastest,
    height outside width; the mesh is filled row by row. A group of children that share a tile is
    reached along the first row to its furthest column, then up and down each of its columns.

    Args:
        tables: anything with the sizes and projections of `NestTables`.
        t: the tensor.
        mesh: `[2]` width and height.
        order: `[n]` dimensions of the spatial loops, outermost first.
        axes: bit d: dimension d runs along the height.
        factor: `[n]` spatial factors.
        inside: `[n]` extents of the child tile.
        room: anything with the scratch moved `[n]`, and children, lowest and highest, an entry per
            child.
    """
    offsets, tile_of, lowest, highest = room.moved, room.children, room.lowest, room.highest
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
        for place in range(2 * n - 1, -1, -1):
            d = order[place % n]
            # Loops along the height stand outside those along the width.
            if (axes >> d) & 1 == place // n:
                continue
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
        while end < children and tile_of[end] // children == tile_of[begin] // children:
            x = tile_of[end] % children % width
            lowest[x] = height
            highest[x] = -1
            end += 1
        for i in range(begin, end):
            x = tile_of[i] % children % width
            y = tile_of[i] % children // width
            furthest = max(furthest, x)
            lowest[x] = min(lowest[x], y)
            highest[x] = max(highest[x], y)
        hops += furthest
        for i in range(begin, end):
            x = tile_of[i] % children % width
            if highest[x] >= 0:
                hops += max(0.0, centre - lowest[x]) + max(0.0, highest[x] - centre)
                highest[x] = -1
        begin = end
    return hops


@part
def least_hops(
    mesh: Array,
    elements: int,
    members: int,
) -> int:
    """At least twice the hops of one delivery to every element, however they lie on the mesh.

    Elements fill the mesh row by row whatever the loops are, so where they lie is known. No group
    has more than so many members: the furthest columns of groups sum up to every `members`-th of
    all columns in falling order at least, and so do the distances of each half of a column.
    """
    width, height = mesh[0], mesh[1]
    if elements == 1:
        return 0
    twice = 0
    before = 0
    for x in range(min(width, elements) - 1, -1, -1):
        count = elements // width + int(x < elements % width)
        twice += 2 * x * (-(-(before + count) // members) + (-before // members))
        before += count
        for y in range(0, count, members):
            twice += max(0, height - 1 - 2 * y)
        for y in range(count - 1, -1, -members):
            twice += max(0, 2 * y - (height - 1))
    return int(twice)


@lean
def fill_least_hops(
    mesh: Array,
    elements: Array,
    members: Array,
    found: Array,
) -> None:
    """Fills `[B]` of `least_hops` for so many elements `[B]` in groups of so many `[B]`."""
    for b in range(found.size):
        found[b] = least_hops(mesh, elements[b], members[b])


@part
def find_classes(
    tables: NestTables,
    scratch: Scratch,
    code: Codes,
    t: int,
    level: int,
) -> int:
    """Sorts the children of an instance by how many others hold the same tile of tensor t.

    Fills classes `[C, 3]` of the scratch, see `count_classes`.

    Returns:
        The number of classes.
    """
    children, width, height = sort_children(tables, scratch, code, t, level)
    for child in range(children):
        scratch.served[child] = 0
    return count_classes(scratch, children, width, height)


@part
def sort_children(
    tables: NestTables,
    scratch: Scratch,
    code: Codes,
    t: int,
    level: int,
) -> tuple[int, int, int]:
    """Sorts the children of an instance of a level by the tile of tensor t that they hold.

    Fills children of the scratch with tile x number of children + child, ascending. A child's
    number is the mixed-radix number of its spatial loop indices, innermost fastest, height outside
    width; the mesh is filled row by row, and is as wide as the machine's or as what the mapping
    uses.

    Returns:
        The number of children, width and height of the mesh.
    """
    rows, keys, index = scratch.rows, scratch.children, scratch.inside
    slot = tables.spatial_slot[level]
    along_x = 1
    along_y = 1
    axes = axes_in_use(tables, level, code)
    if slot >= 0:
        for d in range(rows.size):
            tall = height_of(tables, level, d, rows, axes)
            along_y *= tall
            along_x *= tables.factors[rows[d], slot] // tall
    children = along_x * along_y
    width = max(tables.mesh[level, 0], along_x)
    height = max(tables.mesh[level, 1], along_y)
    if children == 1:
        keys[0] = 0
        return children, width, height
    apart = tables.grouping[level, t] == GROUPS_PER_CHILD
    for child in range(children):
        spatial_index(tables, scratch, code, level, child)
        key = child if apart else tile_key(tables, t, slot, rows, index)
        keys[child] = key * children + child
    sort(keys, children)
    return children, width, height


@part
def spatial_index(
    tables: NestTables,
    scratch: Scratch,
    code: Codes,
    level: int,
    child: int,
) -> None:
    """Fills inside `[n]` of the scratch with the indices of a child in a level's spatial loops."""
    if tables.spatial_slot[level] < 0:
        for d in range(scratch.rows.size):
            scratch.inside[d] = 0
        return
    axes = axes_in_use(tables, level, code)
    column = tables.spatial_order_column[level]
    order = tables.orders[tables.order_start[1, level] + (code[column] if column >= 0 else 0)]
    slot = tables.spatial_slot[level]
    rest = child
    if tables.tall.shape[0] > 0:
        _split_index(tables, scratch, (level, axes), order, child)
        return
    for along_height in range(2):
        for position in range(scratch.rows.size - 1, -1, -1):
            d = order[position]
            if (axes >> d) & 1 == along_height:
                factor = tables.factors[scratch.rows[d], slot]
                scratch.inside[d] = rest % factor
                rest //= factor


@part
def _split_index(
    tables: NestTables, scratch: Scratch, place: tuple[int, int], order: Any, child: int
) -> None:
    """As `spatial_index`, where dimensions may run along both axes: a level and its axes."""
    level, axes = place
    slot = tables.spatial_slot[level]
    rest = child
    for d in range(scratch.rows.size):
        scratch.inside[d] = 0
    for along_height in range(2):
        for position in range(scratch.rows.size - 1, -1, -1):
            d = order[position]
            tall = height_of(tables, level, d, scratch.rows, axes)
            wide = tables.factors[scratch.rows[d], slot] // tall
            if along_height:
                scratch.inside[d] += rest % tall * wide
                rest //= tall
            else:
                scratch.inside[d] += rest % wide
                rest //= wide


@part
def count_classes(
    scratch: Scratch,
    children: int,
    width: int,
    height: int,
) -> int:
    """Fills classes `[C, 3]` of the scratch with the groups of sorted children, in ascending order.

    Children per group, number of such groups, hops that one delivery to each of them takes; of
    the children that are not served otherwise.

    Returns:
        The number of classes.
    """
    keys = scratch.children
    found = 0
    begin = 0
    while begin < children:
        end = begin
        members = 0
        while end < children and keys[end] // children == keys[begin] // children:
            members += 1 - scratch.served[keys[end] % children]
            end += 1
        if members > 0:
            hops = _hops_of_group(scratch, begin, end, children, width, height)
            found = _add_group(scratch.classes, found, members, hops)
        begin = end
    return found


@part
def _hops_of_group(
    scratch: Scratch,
    begin: int,
    end: int,
    children: int,
    width: int,
    height: int,
) -> float:
    """Hops to the children from `begin` to `end` in the sorted keys, which hold the same tile."""
    keys, lowest, highest = scratch.children, scratch.lowest, scratch.highest
    if children == 1:
        return 0.0
    furthest = 0
    # Columns of these children alone: a row of a million has as many groups, and columns.
    for i in range(begin, end):
        x = keys[i] % children % width
        lowest[x] = height
        highest[x] = -1
    for i in range(begin, end):
        if scratch.served[keys[i] % children]:
            continue
        x = keys[i] % children % width
        y = keys[i] % children // width
        furthest = max(furthest, x)
        lowest[x] = min(lowest[x], y)
        highest[x] = max(highest[x], y)
    centre = (height - 1) / 2
    hops = float(furthest)
    for i in range(begin, end):
        x = keys[i] % children % width
        if highest[x] >= 0:
            hops += max(0.0, centre - lowest[x]) + max(0.0, highest[x] - centre)
            highest[x] = -1
    return hops


@part
def _add_group(
    classes: Any,
    found: int,
    members: int,
    hops: float,
) -> int:
    """Counts a group in the class of its size; returns the number of classes."""
    place = 0
    while place < found and classes[place, 0] < members:
        place += 1
    if place == found or classes[place, 0] != members:
        for i in range(found, place, -1):
            for k in range(3):
                classes[i, k] = classes[i - 1, k]
        classes[place, 0], classes[place, 1], classes[place, 2] = members, 0.0, 0.0
        found += 1
    classes[place, 1] += 1
    classes[place, 2] += hops
    return found
