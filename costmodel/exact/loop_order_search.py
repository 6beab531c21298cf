"""Tries the loop orders of one tiling and keeps the mappings that beat the limit."""

from __future__ import annotations

from costmodel.compiled import part
from costmodel.exact.access_energy import case_of, level_traffic, model_cycles, outer_charge
from costmodel.exact.loop_orders import SETTLED, Orders, copy_flow, put_outside, start_flows
from costmodel.exact.objective import energy_threshold, is_below
from costmodel.exact.problem import ProofTables
from costmodel.exact.structures import Unit
from costmodel.exact.traffic_bounds import tile_words
from costmodel.exact.workspace import (
    BLOCKS,
    INNER_SET,
    ORDERS,
    OUTER_SET,
    SPATIAL_AXES,
    SPATIAL_ORDER,
    Found,
    Work,
)


@part
def order_loops(
    tables: ProofTables,
    unit: Unit,
    k: int,
    inner_loops: int,
    outer_loops: int,
    least_outer: int,
    found: Found,
    work: Work,
) -> None:
    """Walks the orders of the loops listed in `work.orders`, innermost first.

    Args:
        tables: the problem.
        unit: the unit in hand.
        k: index of the shared buffer's keep set.
        inner_loops: how many of the loops are the shared buffer's; they are listed first.
        outer_loops: how many are DRAM's.
        least_outer: the least energy of the words that enter the shared buffer's tile.
        found: the best mappings and the limit; updated.
        work: the tiling, and working memory.
    """
    orders = work.orders
    outer_set = tables.outer_sets[k]
    _start_orders(tables, work, unit.inner_set, outer_set, inner_loops, outer_loops)
    threshold = energy_threshold(found.kind, unit.cycles, found.limit[0], found.limit[1])
    depth = 0
    first_outer = -1  # depth at which DRAM's loops begin, -1 while the shared buffer's are chosen
    arrived = True
    while depth >= 0:
        if arrived:
            arrived = False
            energy, above, settled = _bound_orders(tables, work, unit.inner_set, outer_set, depth)
            if first_outer < 0 and (settled or depth == inner_loops):
                # No order of the other loops of the shared buffer makes a difference.
                first_outer = depth
                orders.inside[depth] = 1
            if work.charges.base[k] + energy + max(above, least_outer) >= threshold:
                depth, first_outer = _step_back(orders, depth, first_outer)
                continue
            if first_outer >= 0:
                done = True
                for f in range(orders.tile.size):
                    done = done and orders.mode[depth, f] == SETTLED
                if done or depth - first_outer == outer_loops:
                    found.counts[ORDERS] += 1
                    _record(tables, unit, k, depth, first_outer, found, work)
                    threshold = energy_threshold(
                        found.kind, unit.cycles, found.limit[0], found.limit[1]
                    )
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
        _put_loop(tables, work, depth, loop, first_outer)
        depth += 1
        arrived = True


@part
def _start_orders(
    tables: ProofTables,
    work: Work,
    inner_set: int,
    outer_set: int,
    inner_loops: int,
    outer_loops: int,
) -> None:
    """Sets depth 0: no loop is chosen, no word has entered."""
    orders = work.orders
    tensors = tables.sliding.size
    orders.product[0] = 1
    orders.product[1] = 1
    for loop in range(inner_loops + outer_loops):
        orders.used[loop] = 0
        orders.product[0 if loop < inner_loops else 1] *= orders.trip[loop]
    for t in range(tensors):
        orders.needed[t] = (inner_set >> t) & 1
        orders.needed[tensors + t] = (outer_set >> t) & 1
        orders.tile[t] = tile_words(tables, t, work.element.extent)
        orders.tile[tensors + t] = tile_words(tables, t, work.buffer.extent)
    start_flows(orders, inner_loops, outer_loops)
    orders.following[0] = 0


@part
def _bound_orders(
    tables: ProofTables,
    work: Work,
    inner_set: int,
    outer_set: int,
    depth: int,
) -> tuple[int, int, bool]:
    """Bounds all orders that begin with the loops chosen.

    Returns:
        The least energy of the words that enter the element tile, that of the words that enter the
        shared buffer, and whether the former is settled.
    """
    orders = work.orders
    tensors = tables.sliding.size
    settled = True
    energy = 0
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
            energy += work.charges.inner[t, case_of(t, inner_set, outer_set)] * words
        else:
            above += outer_charge(tables, t) * words
    return energy, above, settled


@part
def _put_loop(
    tables: ProofTables,
    work: Work,
    depth: int,
    loop: int,
    first_outer: int,
) -> None:
    """Puts a loop outside of those chosen so far, for every flow."""
    orders = work.orders
    tensors = tables.sliding.size
    inside = orders.inside[depth] * orders.trip[loop]
    orders.inside[depth + 1] = inside
    for f in range(2 * tensors):
        if orders.mode[depth, f] == SETTLED or (f >= tensors and first_outer < 0):
            copy_flow(orders, depth, f)
            continue
        if first_outer >= 0:
            rest = orders.product[1] // inside
        else:
            rest = orders.product[1] * (orders.product[0] // inside)
        put_outside(
            tables, orders, depth, loop, f, rest,
            work.element.extent if f < tensors else work.buffer.extent,
        )  # fmt: skip


@part
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


@part
def _record(
    tables: ProofTables,
    unit: Unit,
    k: int,
    depth: int,
    first_outer: int,
    found: Found,
    work: Work,
) -> None:
    """Evaluates the order chosen and, if it beats the limit, puts the mapping among the best."""
    orders, outer_set = work.orders, tables.outer_sets[k]
    tensors = tables.sliding.size
    energy = work.charges.base[k]
    for t in range(tensors):
        case = case_of(t, unit.inner_set, outer_set)
        inner_words = orders.words[depth, t]
        outer_words = orders.words[depth, tensors + t]
        energy += work.charges.inner[t, case] * inner_words
        if (outer_set >> t) & 1:
            energy += outer_charge(tables, t) * outer_words
        if tables.limited:
            traffic = work.traffic.of_tensor[t]
            for level in range(3):
                traffic[level, 0] = 0
                traffic[level, 1] = 0
            level_traffic(
                tables, unit, t, case, work.spread.groups[t], inner_words, outer_words, traffic
            )
    cycles = unit.cycles
    if tables.limited:
        cycles = model_cycles(tables, work.traffic.of_tensor, cycles)
    if not is_below(found.kind, energy, cycles, found.limit[0], found.limit[1]):
        return
    index = _make_room(found, work, unit.inner_set, outer_set, energy, cycles)
    if index < 0:
        return
    _write_row(found, work, index, unit.inner_set, outer_set, depth, first_outer)
    found.energy[index] = energy
    found.cycles[index] = cycles
    last = found.energy.size - 1
    last_energy, last_cycles = found.energy[last], found.cycles[last]
    if is_below(found.kind, last_energy, last_cycles, found.limit[0], found.limit[1]):
        found.limit[0] = last_energy
        found.limit[1] = last_cycles


@part
def _write_row(
    found: Found,
    work: Work,
    index: int,
    inner_set: int,
    outer_set: int,
    depth: int,
    first_outer: int,
) -> None:
    """Writes the mapping in hand among the best."""
    orders, row = work.orders, found.rows[index]
    n = work.element.extent.size
    for d in range(n):
        row[d] = work.element.spatial[d]
        row[n + d] = work.element.extent[d]
        row[2 * n + d] = work.buffer.extent[d]
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
    row[BLOCKS * n + SPATIAL_ORDER] = work.spread.place[0]
    row[BLOCKS * n + SPATIAL_AXES] = work.spread.place[1]


@part
def _make_room(
    found: Found,
    work: Work,
    inner_set: int,
    outer_set: int,
    energy: int,
    cycles: int,
) -> int:
    """Makes room among the best and returns where; -1 if this tiling is there already, no worse.

    Mappings that differ only in the order or place of their loops count as one: the best is held.
    """
    held, n = found.energy.size, work.element.extent.size
    gap = held - 1
    for i in range(held):
        same = found.rows[i, BLOCKS * n + INNER_SET] == inner_set
        same = same and found.rows[i, BLOCKS * n + OUTER_SET] == outer_set
        for d in range(n):
            same = same and found.rows[i, d] == work.element.spatial[d]
            same = same and found.rows[i, n + d] == work.element.extent[d]
            same = same and found.rows[i, 2 * n + d] == work.buffer.extent[d]
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
