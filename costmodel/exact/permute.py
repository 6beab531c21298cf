"""Tries the loop orders of one tiling and keeps the mappings that beat the limit."""

from __future__ import annotations

from costmodel.compiled import inlined, lean
from costmodel.exact.charges import case_of, level_traffic, model_cycles, outer_charge
from costmodel.exact.objective import energy_threshold, is_below
from costmodel.exact.orders import SETTLED, Orders, copy_flow, put_outside, start_flows
from costmodel.exact.state import (
    BLOCKS,
    INNER_SET,
    ORDERS,
    OUTER_SET,
    SPATIAL_AXES,
    SPATIAL_ORDER,
    Found,
    Work,
)
from costmodel.exact.tables import ProofTables
from costmodel.exact.traffic import tile_words
from costmodel.nest import Array


@lean
def order_loops(
    tables: ProofTables,
    elements: int,
    reduction: int,
    place: Array,
    inner_set: int,
    outer_set: int,
    cycles: int,
    base: int,
    least_outer: int,
    inner_loops: int,
    outer_loops: int,
    found: Found,
    work: Work,
) -> None:
    """Walks the orders of the loops listed in `work.orders`, innermost first.

    Args:
        tables: the problem.
        elements: elements in use.
        reduction: elements that add to one output word.
        place: `[2]` order and axes of the spatial loops.
        inner_set: tensors kept by the element buffers, as bits.
        outer_set: tensors kept by the shared buffer.
        cycles: compute cycles.
        base: energy whatever the loops are.
        least_outer: the least energy of the words that enter the shared buffer's tile.
        inner_loops: how many of the loops are the shared buffer's; they are listed first.
        outer_loops: how many are DRAM's.
        found: the best mappings and the limit; updated.
        work: the tiling, and working memory.
    """
    orders = work.orders
    tensors = tables.sliding.size
    inner_product = 1
    for loop in range(inner_loops):
        inner_product *= orders.trip[loop]
    outer_product = 1
    for loop in range(inner_loops, inner_loops + outer_loops):
        outer_product *= orders.trip[loop]
    for loop in range(inner_loops + outer_loops):
        orders.used[loop] = 0
    for t in range(tensors):
        orders.needed[t] = (inner_set >> t) & 1
        orders.needed[tensors + t] = (outer_set >> t) & 1
        orders.tile[t] = tile_words(tables, t, work.extent)
        orders.tile[tensors + t] = tile_words(tables, t, work.middle)
    start_flows(orders, inner_loops, outer_loops)
    orders.following[0] = 0
    threshold = energy_threshold(found.kind, cycles, found.limit[0], found.limit[1])
    depth = 0
    first_outer = -1  # depth at which DRAM's loops begin, -1 while the shared buffer's are chosen
    arrived = True
    while depth >= 0:
        if arrived:
            arrived = False
            settled = True
            energy = base
            above = 0
            for f in range(2 * tensors):
                t = f % tensors
                if not orders.needed[f]:
                    continue
                words = orders.words[depth, f]
                if orders.mode[depth, f] != SETTLED:
                    words += orders.tile[f]
                if f < tensors:
                    settled = settled and orders.mode[depth, f] == SETTLED
                    energy += work.inner_charge[t, case_of(t, inner_set, outer_set)] * words
                else:
                    above += outer_charge(tables, t) * words
            if first_outer < 0 and (settled or depth == inner_loops):
                # No order of the other loops of the shared buffer makes a difference.
                first_outer = depth
                orders.inside[depth] = 1
            if energy + max(above, least_outer) >= threshold:
                depth, first_outer = _step_back(orders, depth, first_outer)
                continue
            if first_outer >= 0:
                done = True
                for f in range(2 * tensors):
                    done = done and orders.mode[depth, f] == SETTLED
                if done or depth - first_outer == outer_loops:
                    found.counts[ORDERS] += 1
                    _record(
                        tables, elements, reduction, place, inner_set, outer_set, cycles, base,
                        depth, first_outer, inner_loops, outer_loops, found, work,
                    )  # fmt: skip
                    threshold = energy_threshold(found.kind, cycles, found.limit[0], found.limit[1])
                    depth, first_outer = _step_back(orders, depth, first_outer)
                    continue
            orders.following[depth] = inner_loops if first_outer >= 0 else 0
        end = inner_loops + outer_loops if first_outer >= 0 else inner_loops
        loop = orders.following[depth]
        while loop < end and orders.used[loop]:
            loop += 1
        if loop == end:
            depth, first_outer = _step_back(orders, depth, first_outer)
            continue
        orders.following[depth] = loop + 1
        orders.chosen[depth] = loop
        orders.used[loop] = 1
        inside = orders.inside[depth] * orders.trip[loop]
        orders.inside[depth + 1] = inside
        for f in range(2 * tensors):
            if orders.mode[depth, f] == SETTLED or (f >= tensors and first_outer < 0):
                copy_flow(orders, depth, f)
                continue
            if first_outer >= 0:
                rest = outer_product // inside
            else:
                rest = outer_product * (inner_product // inside)
            put_outside(
                tables, orders, depth, loop, f, rest,
                work.extent if f < tensors else work.middle,
            )  # fmt: skip
        depth += 1
        arrived = True


@inlined
def _step_back(
    orders: Orders,
    depth: int,
    first_outer: int,
) -> tuple[int, int]:
    """Leaves a depth: frees the loop that led to it; returns the new depth and first_outer."""
    if first_outer == depth:
        first_outer = -1
    if depth > 0:
        orders.used[orders.chosen[depth - 1]] = 0
    return depth - 1, first_outer


@lean
def _record(
    tables: ProofTables,
    elements: int,
    reduction: int,
    place: Array,
    inner_set: int,
    outer_set: int,
    cycles: int,
    base: int,
    depth: int,
    first_outer: int,
    inner_loops: int,
    outer_loops: int,
    found: Found,
    work: Work,
) -> None:
    """Evaluates the order chosen and, if it beats the limit, puts the mapping among the best."""
    orders = work.orders
    n = tables.sizes.size
    tensors = tables.sliding.size
    energy = base
    first_time = tables.output_words * reduction // elements
    for t in range(tensors):
        case = case_of(t, inner_set, outer_set)
        inner_words = orders.words[depth, t]
        outer_words = orders.words[depth, tensors + t]
        energy += work.inner_charge[t, case] * inner_words
        if (outer_set >> t) & 1:
            energy += outer_charge(tables, t) * outer_words
        if tables.limited:
            for level in range(3):
                work.tensor_traffic[t, level, 0] = 0
                work.tensor_traffic[t, level, 1] = 0
            level_traffic(
                tables, t, case, cycles, first_time, work.groups[t], inner_words, outer_words,
                work.tensor_traffic[t],
            )  # fmt: skip
    slowest = model_cycles(tables, work.tensor_traffic, cycles) if tables.limited else cycles
    if not is_below(found.kind, energy, slowest, found.limit[0], found.limit[1]):
        return
    held = found.energy.size
    index = _make_room(found, work, n, inner_set, outer_set, energy, slowest)
    if index < 0:
        return
    row = found.rows[index]
    for d in range(n):
        row[d] = work.spatial[d]
        row[n + d] = work.extent[d]
        row[2 * n + d] = work.middle[d]
        row[3 * n + d] = -1
        row[4 * n + d] = -1
    # Loops chosen, innermost first; the others stand outside them in any order.
    for level in range(2):
        begin, end = (0, first_outer) if level == 0 else (first_outer, depth)
        block = (3 + level) * n
        count = 0
        for at in range(begin, end):
            row[block + count] = orders.dimension[orders.chosen[at]]
            count += 1
        for d in range(n):
            taken = False
            for i in range(count):
                taken = taken or row[block + i] == d
            if not taken:
                row[block + count] = d
                count += 1
    row[BLOCKS * n + INNER_SET] = inner_set
    row[BLOCKS * n + OUTER_SET] = outer_set
    row[BLOCKS * n + SPATIAL_ORDER] = place[0]
    row[BLOCKS * n + SPATIAL_AXES] = place[1]
    found.energy[index] = energy
    found.cycles[index] = slowest
    last_energy, last_cycles = found.energy[held - 1], found.cycles[held - 1]
    if is_below(found.kind, last_energy, last_cycles, found.limit[0], found.limit[1]):
        found.limit[0] = last_energy
        found.limit[1] = last_cycles


@inlined
def _make_room(
    found: Found,
    work: Work,
    n: int,
    inner_set: int,
    outer_set: int,
    energy: int,
    cycles: int,
) -> int:
    """Makes room among the best and returns where; -1 if this tiling is there already, no worse.

    Mappings that differ only in the order or place of their loops count as one: the best is held.
    """
    held = found.energy.size
    gap = held - 1
    for i in range(held):
        same = found.rows[i, BLOCKS * n + INNER_SET] == inner_set
        same = same and found.rows[i, BLOCKS * n + OUTER_SET] == outer_set
        for d in range(n):
            same = same and found.rows[i, d] == work.spatial[d]
            same = same and found.rows[i, n + d] == work.extent[d]
            same = same and found.rows[i, 2 * n + d] == work.middle[d]
        if same:
            if not is_below(found.kind, energy, cycles, found.energy[i], found.cycles[i]):
                return -1
            gap = i
            break
    while gap > 0 and is_below(
        found.kind, energy, cycles, found.energy[gap - 1], found.cycles[gap - 1]
    ):
        found.energy[gap] = found.energy[gap - 1]
        found.cycles[gap] = found.cycles[gap - 1]
        for column in range(found.rows.shape[1]):
            found.rows[gap, column] = found.rows[gap - 1, column]
        gap -= 1
    return gap
