"""Compiled: which children of one instance need the same words.

Letters: n dimensions, L levels, T tensors.
"""

from __future__ import annotations

from costmodel.arrays.projections import (
    GROUPS_PER_AXIS,
    GROUPS_PER_CHILD,
    GROUPS_PER_DIMENSION,
)
from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import part


@part
def greatest_common_divisor(a: int, b: int) -> int:
    """Of two numbers of at least 0."""
    while b:
        a, b = b, a % b
    return a


@part
def distinct_sums(first: int, first_step: int, second: int, second_step: int) -> int:
    """Number of distinct sums of two runs of so many steps."""
    if second_step >= first * first_step or first_step >= second * second_step:
        return first * second
    # (i, j) and (i + b/g, j - a/g) coincide; count the points that no other precedes.
    a = greatest_common_divisor(first_step, second_step)
    repeat_first = max(0, first - second_step // a)
    repeat_second = max(0, second - first_step // a)
    return first * second - repeat_first * repeat_second


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
        together: int = distinct_sums(first_factor, first_step, second_factor, second_step)
        return together
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
def count_different(
    values: Array,
    count: int,
) -> int:
    """How many of the first `count` values differ; sorts these in place."""
    sort(values, count)
    different = 1
    for i in range(1, count):
        different += values[i] != values[i - 1]
    return different


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
    different: int = count_different(children, count)
    return different


@part
def tile_key(
    tables: NestTables,
    t: int,
    slot: int,
    rows: Array,
    index: Array,
) -> int:
    """A number of the tile that the child at `index` `[n]` in the spatial loops of a slot holds."""
    key = 0
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        common = 0
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            row = rows[tables.term_dimension[k]]
            if tables.factors[row, slot] > 1:
                step = tables.term_coefficient[k] * tables.within[row, slot + 1]
                common = greatest_common_divisor(common, step)
        if common == 0:
            continue
        # In units of the common divisor, so that the keys of large tiles stay small.
        span = 1
        offset = 0
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            d = tables.term_dimension[k]
            factor = tables.factors[rows[d], slot]
            if factor > 1:
                step = tables.axis_coefficient[axis, d] * tables.within[rows[d], slot + 1]
                step = step // common
                span += abs(step) * (factor - 1)
                offset += step * index[d] - min(0, step * (factor - 1))
        key = key * span + offset
    return key


@part
def _count_vectors(
    tables: NestTables,
    scratch: Scratch,
    t: int,
    slot: int,
) -> int:
    """Number of distinct displacements, all axes together, where a dimension moves two of them."""
    rows, keys, index = scratch.rows, scratch.children, scratch.inside
    count = 1
    for d in range(rows.size):
        count *= tables.factors[rows[d], slot]
    for child in range(count):
        rest = child
        for d in range(rows.size):
            factor = tables.factors[rows[d], slot]
            index[d] = rest % factor
            rest //= factor
        keys[child] = tile_key(tables, t, slot, rows, index)
    different: int = count_different(keys, count)
    return different


@part
def multicast_groups(
    tables: NestTables,
    scratch: Scratch,
    t: int,
    level: int,
) -> int:
    """Number of distinct child tiles of tensor t among the children of one instance: G(T, l)."""
    slot = tables.spatial_slot[level]
    if slot < 0:
        return 1
    rows = scratch.rows
    groups = 1
    kind = tables.grouping[level, t]
    if kind == GROUPS_PER_DIMENSION:
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            d = tables.term_dimension[tables.term_start[axis]]
            groups *= tables.factors[rows[d], slot]
    elif kind == GROUPS_PER_AXIS:
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            groups *= _distinct_offsets(tables, axis, slot, rows, scratch.children)
    elif kind == GROUPS_PER_CHILD:
        for d in range(rows.size):
            groups *= tables.factors[rows[d], slot]
    else:
        groups = _count_vectors(tables, scratch, t, slot)
    return groups
