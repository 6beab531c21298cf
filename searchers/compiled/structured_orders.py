"""Compiled: loop orders, places of spatial loops and kept tensors of the mapping in hand.

What the proposals of `structured_moves` and `structured_deep` share; letters as there.
"""

from __future__ import annotations

from costmodel.arrays.tables import NestTables
from costmodel.compiled import part
from costmodel.map_space.moves import find_row, order_index
from costmodel.space import Codes
from searchers.compiled.random_numbers import below, uniform
from searchers.compiled.structured_state import NEAR, Choices, Workspace
from searchers.compiled.structured_tiles import allocate


@part
def draw_looped(work: Workspace, slot: int) -> int:
    """A random dimension that loops in a slot; -1: none does."""
    count = 0
    drawn = -1
    for d in range(work.factors.shape[0]):
        if work.factors[d, slot] > 1:
            count += 1
            if below(work.stream, count) == 0:
                drawn = d
    return drawn


@part
def draw_resting(tables: NestTables, work: Workspace, innermost: int) -> int:
    """A random tensor that does not depend on the innermost dimension; -1: all do."""
    count = 0
    drawn = -1
    for t in range(tables.relevant.shape[0]):
        if tables.relevant[t, innermost] == 0:
            count += 1
            if below(work.stream, count) == 0:
                drawn = t
    return drawn


@part
def draw_vector(listed: Choices, work: Workspace, fan: int) -> int:
    """A random row of a fan's spatial factors, mostly one that uses the most children."""
    first, last, end = (
        listed.vector_start[fan],
        listed.largest_end[fan],
        listed.vector_start[fan + 1],
    )
    if last < end and uniform(work.stream) < NEAR:
        first, last = last, end
    row: int = first + below(work.stream, last - first)
    return row


@part
def draw_skippable(listed: Choices, work: Workspace) -> int:
    """A random level that tensors can skip; -1: there is none."""
    count = 0
    drawn = -1
    for level in range(listed.skippable.size):
        if listed.skippable[level]:
            count += 1
            if below(work.stream, count) == 0:
                drawn = level
    return drawn


@part
def place_spatial(tables: NestTables, work: Workspace, code: Codes) -> None:
    """Draws the order and the mesh axes of the spatial loops anew where they are a choice."""
    n = work.order.size
    for level in range(tables.fanout.size):
        if tables.spatial_order_column[level] >= 0:
            for d in range(n):
                other = below(work.stream, d + 1)
                work.order[d] = work.order[other]
                work.order[other] = d
            code[tables.spatial_order_column[level]] = order_index(work.order)
        if tables.spatial_axis_column[level] >= 0:
            code[tables.spatial_axis_column[level]] = below(work.stream, 1 << n)


@part
def settle_order(tables: NestTables, work: Workspace, level: int, code: Codes) -> None:
    """Loops of a single trip, and the innermost level's order, take a fixed place outside."""
    slot = tables.temporal_slot[level]
    innermost = level == work.words.shape[0] - 1
    column = tables.order_column[level]
    given = code[column]
    position = 0
    for moving in range(2):
        for i in range(work.order.size):
            d = tables.orders[given, i] if moving and not innermost else i
            looped = not innermost and work.factors[d, slot] > 1
            if looped == (moving == 1):
                work.order[position] = d
                position += 1
    code[column] = order_index(work.order)


@part
def kept_mask(work: Workspace, level: int) -> int:
    """Bit t: a level keeps tensor t."""
    mask = 0
    for t in range(work.kept.shape[1]):
        mask |= work.kept[level, t] << t
    return mask


@part
def write_kept(tables: NestTables, work: Workspace, level: int, code: Codes) -> None:
    """Writes the tensors that a level keeps, and its banks, into the code."""
    if tables.keep_column[level] >= 0:
        code[tables.keep_column[level]] = kept_mask(work, level)
    if tables.banks_column[level] >= 0:
        allocate(tables, work, level, code)


@part
def write_factors(tables: NestTables, work: Workspace, code: Codes) -> None:
    """Writes the factors that differ from the code's into the code."""
    for d in range(work.factors.shape[0]):
        row = tables.row_start[d] + code[d]
        for s in range(work.factors.shape[1]):
            if tables.factors[row, s] != work.factors[d, s]:
                code[d] = find_row(tables, d, work.factors[d]) - tables.row_start[d]
                break
