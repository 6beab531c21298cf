"""The primitive list of a loop nest: prime factors and separators, compiled.

Source: D. Yang, *Optimizing CNN Accelerator Dataflow Using Simulated Annealing* (project report,
2020), sections 3 and 4. A mapping is a list of *primitives*, outermost first: every prime factor of
every dimension once, and a separator between one slot and the next (`costmodel.arrays.tables`:
the loops of a level, or those spread over its fan-out). Primitives of one dimension in one slot
merge into one loop, and loops stand in the order of the average positions of their primitives,
equal averages in the order of the workload's dimensions.

Letters: C chains, A attempts, N primitives and separators of a list, D attributes of a code, S
slots, n dimensions, L levels, T tensors. A primitive is its index into the tables' prime factors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.feasibility import check_mapping
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import compiled
from costmodel.compiled.by_reference import by_reference
from costmodel.costs import STATUS_OK, FloatArray
from costmodel.map_space.moves import find_row, order_index
from costmodel.space import Codes

SEPARATOR = -1

UNIFORMS_PER_MOVE = 4

# Share of moves that redraw an attribute which the list does not hold, where there is one.
OTHER_SHARE = 0.2


@by_reference
class Layout(NamedTuple):
    """What a list holds, and working memory; one per searcher.

    Layout: slot_column `[S]` the code's column of a slot's loop order (-1: none); other_columns,
    the columns that no list holds (banks, kept tensors, mesh axes), and other_cardinality.

    Memory: tokens and merged `[N]` lists; block_start `[N + 1]`; code `[D]`; factors `[n, S]`;
    totals, counts, order and rows `[n]`; used, one per prime factor; kept and tile `[L, T]`.
    """

    slot_column: Array
    other_columns: Array
    other_cardinality: Array
    tokens: Array
    merged: Array
    block_start: Array
    code: Codes
    factors: Array
    totals: Array
    counts: Array
    order: Array
    rows: Array
    used: npt.NDArray[np.uint8]
    kept: npt.NDArray[np.uint8]
    tile: Array


def make_layout(tables: NestTables, cardinality: Array) -> Layout:
    """The layout of a map space's lists.

    Args:
        tables: the map space.
        cardinality: `[D]` of its codes.
    """
    n, slots = tables.sizes.size, tables.slot_level.size
    length = tables.prime_value.size + slots - 1
    columns = np.where(
        tables.slot_spatial == 1,
        tables.spatial_order_column[tables.slot_level],
        tables.order_column[tables.slot_level],
    )
    held = {*range(n), *columns.tolist()}
    others = np.array([c for c in range(cardinality.size) if c not in held], dtype=np.int64)
    shape = (tables.capacity.size, tables.sliding.size)
    return Layout(
        slot_column=columns,
        other_columns=others,
        other_cardinality=cardinality[others],
        tokens=np.zeros(length, np.int64),
        merged=np.zeros(length, np.int64),
        block_start=np.zeros(length + 1, np.int64),
        code=np.zeros(cardinality.size, np.int32),
        factors=np.ones((n, slots), np.int64),
        totals=np.zeros(n, np.int64),
        counts=np.zeros(n, np.int64),
        order=np.zeros(n, np.int64),
        rows=np.zeros(n, np.int64),
        used=np.zeros(tables.prime_value.size, np.uint8),
        kept=np.zeros(shape, np.uint8),
        tile=np.zeros(shape, np.int64),
    )


@compiled
def _order_of_slot(layout: Layout) -> int:
    """Index of a slot's loop order: present dimensions by average position, then the others."""
    n = layout.order.size
    present = 0
    for d in range(n):
        if layout.counts[d] == 0:
            continue
        place = present
        while place > 0:
            before = layout.order[place - 1]
            # totals / counts compared without rounding.
            if layout.totals[before] * layout.counts[d] <= layout.totals[d] * layout.counts[before]:
                break
            layout.order[place] = before
            place -= 1
        layout.order[place] = d
        present += 1
    for d in range(n):
        if layout.counts[d] == 0:
            layout.order[present] = d
            present += 1
    return order_index(layout.order)


@compiled
def decode(tables: NestTables, layout: Layout, tokens: Array, code: Codes) -> None:
    """Writes the tilings and loop orders of a list `[N]` into a code `[D]`; the rest stays."""
    layout.factors[:] = 1
    layout.totals[:] = 0
    layout.counts[:] = 0
    slot = 0
    for i in range(tokens.size + 1):
        if i < tokens.size and tokens[i] != SEPARATOR:
            d = tables.prime_dimension[tokens[i]]
            layout.factors[d, slot] *= tables.prime_value[tokens[i]]
            layout.totals[d] += i
            layout.counts[d] += 1
            continue
        if layout.slot_column[slot] >= 0:
            code[layout.slot_column[slot]] = _order_of_slot(layout)
        layout.totals[:] = 0
        layout.counts[:] = 0
        slot += 1
    for d in range(layout.factors.shape[0]):
        code[d] = find_row(tables, d, layout.factors[d]) - tables.row_start[d]


@compiled
def encode(tables: NestTables, layout: Layout, code: Codes, tokens: Array) -> None:
    """Writes the merged list of a code `[D]` into tokens `[N]`: every loop's primitives adjoin."""
    n, slots = layout.factors.shape
    layout.used[:] = 0
    filled = 0
    for slot in range(slots):
        column = layout.slot_column[slot]
        for place in range(n):
            d = place
            if column >= 0:
                d = int(tables.orders[code[column], place])
            rest = tables.factors[tables.row_start[d] + code[d], slot]
            for p in range(tables.prime_value.size):
                if rest == 1:
                    break
                fits = tables.prime_dimension[p] == d and rest % tables.prime_value[p] == 0
                if fits and layout.used[p] == 0:
                    layout.used[p] = 1
                    tokens[filled] = p
                    filled += 1
                    rest //= tables.prime_value[p]
        if slot < slots - 1:
            tokens[filled] = SEPARATOR
            filled += 1


@compiled
def _two_of(count: int, first_uniform: float, second_uniform: float) -> tuple[int, int]:
    """Two different places of `count`, the lower first; twice the same where there is one."""
    first = int(first_uniform * count)
    second = (first + 1 + int(second_uniform * (count - 1))) % count
    return min(first, second), max(first, second)


@compiled
def swap_merged(
    tables: NestTables, layout: Layout, code: Codes, tokens: Array, draw: FloatArray
) -> None:
    """Writes the merged list of a code with two whole loops, or separators, exchanged."""
    merged, start = layout.merged, layout.block_start
    encode(tables, layout, code, merged)
    blocks = 0
    for i in range(merged.size):
        joins = i > 0 and merged[i] != SEPARATOR and merged[i - 1] != SEPARATOR
        if joins:
            d = tables.prime_dimension[merged[i]]
            joins = tables.prime_dimension[merged[i - 1]] == d
        if not joins:
            start[blocks] = i
            blocks += 1
    start[blocks] = merged.size
    first, second = _two_of(blocks, draw[2], draw[3])
    filled = 0
    for block in range(blocks):
        taken = block
        if block == first:
            taken = second
        elif block == second:
            taken = first
        for i in range(start[taken], start[taken + 1]):
            tokens[filled] = merged[i]
            filled += 1


@compiled
def propose(
    tables: NestTables,
    layout: Layout,
    lists: Array,
    codes: Codes,
    uniforms: FloatArray,
    merged_share: float,
    distinct: bool,
) -> None:
    """One feasible move per chain, in place; a chain that finds none keeps its mapping.

    Args:
        tables: the map space.
        layout: from `make_layout`.
        lists: `[C, N]` int64 where the chains stand, overwritten.
        codes: `[C, D]` int32 what the lists decode to, feasible, overwritten.
        uniforms: `[C, A, UNIFORMS_PER_MOVE]` in [0, 1), a row per attempt.
        merged_share: probability that a move exchanges whole loops instead of single primitives.
        distinct: exchanges that leave the mapping as it is are made and followed by another.
    """
    for c in range(lists.shape[0]):
        for a in range(uniforms.shape[1]):
            draw = uniforms[c, a]
            layout.tokens[:] = lists[c]
            layout.code[:] = codes[c]
            if layout.other_columns.size > 0 and draw[0] < OTHER_SHARE:
                other = int(draw[2] * layout.other_columns.size)
                value = int(draw[3] * layout.other_cardinality[other])
                layout.code[layout.other_columns[other]] = value
            elif layout.tokens.size > 0:
                if draw[1] < merged_share:
                    swap_merged(tables, layout, codes[c], layout.tokens, draw)
                else:
                    first, second = _two_of(lists.shape[1], draw[2], draw[3])
                    layout.tokens[first] = lists[c, second]
                    layout.tokens[second] = lists[c, first]
                decode(tables, layout, layout.tokens, layout.code)
            status, _ = check_mapping(tables, layout.code, layout.rows, layout.kept, layout.tile)
            if status != STATUS_OK:
                continue
            changed = False
            for i in range(layout.code.size):
                changed |= layout.code[i] != codes[c, i]
            lists[c] = layout.tokens
            codes[c] = layout.code
            if changed or not distinct:
                break


@compiled
def decode_all(tables: NestTables, layout: Layout, lists: Array, codes: Codes) -> None:
    """Writes what lists `[C, N]` hold into codes `[C, D]`."""
    for c in range(lists.shape[0]):
        decode(tables, layout, lists[c], codes[c])


@compiled
def encode_all(tables: NestTables, layout: Layout, codes: Codes, lists: Array) -> None:
    """Writes the merged lists of codes `[C, D]` into lists `[C, N]`."""
    for c in range(lists.shape[0]):
        encode(tables, layout, codes[c], lists[c])
