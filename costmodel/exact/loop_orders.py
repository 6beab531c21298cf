"""The best loop orders of one tiling, by the model's own counting.

Loops are chosen from the innermost outwards. Once a tensor has been moved in a way that no later
loop can repeat, its traffic is *settled*: every loop outside charges whole tiles, whatever its
order. When all tensors are settled the remaining loops may stand in any order, so few orders are
ever tried.

Letters: n dimensions, T tensors. Flow t < T is what enters the element buffers, flow T + t what
enters the shared buffer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import part
from costmodel.compiled.by_reference import by_reference
from costmodel.exact.problem import ProofTables

FRESH, MOVING, RESTING, SETTLED = range(4)


@by_reference
class Orders(NamedTuple):
    """Working memory of the search for orders; rows of the first axis are depths.

    Flows `[2n + 1, 2T]`: mode FRESH (no loop yet), MOVING (the innermost loop moves the tensor),
    RESTING (it does not) or SETTLED; axis that has been moved, -1 if none; moved, how far; first,
    how far the innermost loop moves; changed, words that a credited step brings; words so far,
    all of them once settled. tile `[2T]`, needed `[2T]` 1 where the words count.

    Loops `[2n]`: dimension, trip, step; used 0 or 1. Depths `[2n + 1]`: chosen loop, next loop to
    try, inside, the trips chosen so far of the level. product `[2]` of all trips of the shared
    buffer and of DRAM.
    """

    mode: Array
    axis: Array
    moved: Array
    first: Array
    changed: Array
    words: Array
    tile: Array
    needed: Array
    dimension: Array
    trip: Array
    step: Array
    used: Array
    chosen: Array
    following: Array
    inside: Array
    product: Array


def make_orders(dimensions: int, tensors: int) -> Orders:
    """Working memory for so many dimensions and tensors."""
    depths, loops, flows = 2 * dimensions + 1, 2 * dimensions, 2 * tensors

    def states() -> Array:
        return np.zeros((depths, flows), np.int64)

    return Orders(
        mode=states(),
        axis=states(),
        moved=states(),
        first=states(),
        changed=states(),
        words=states(),
        tile=np.zeros(flows, np.int64),
        needed=np.zeros(flows, np.int64),
        dimension=np.zeros(loops, np.int64),
        trip=np.zeros(loops, np.int64),
        step=np.zeros(loops, np.int64),
        used=np.zeros(loops, np.int64),
        chosen=np.zeros(depths, np.int64),
        following=np.zeros(depths, np.int64),
        inside=np.zeros(depths, np.int64),
        product=np.ones(2, np.int64),
    )


@part
def list_loops(
    tables: ProofTables,
    orders: Orders,
    below: Array,
    middle: Array,
) -> tuple[int, int]:
    """Lists the loops of a tiling, the buffer's first; returns how many there are of each level."""
    count = 0
    for d in range(tables.sizes.size):
        if middle[d] > below[d]:
            orders.dimension[count] = d
            orders.trip[count] = middle[d] // below[d]
            orders.step[count] = below[d]
            count += 1
    inner = count
    for d in range(tables.sizes.size):
        if tables.sizes[d] > middle[d]:
            orders.dimension[count] = d
            orders.trip[count] = tables.sizes[d] // middle[d]
            orders.step[count] = middle[d]
            count += 1
    return inner, count - inner


@part
def start_flows(
    orders: Orders,
    inner_loops: int,
    outer_loops: int,
) -> None:
    """Sets depth 0: flows that are not needed, or have no loop above their tile, are settled."""
    tensors = orders.tile.size // 2
    for f in range(2 * tensors):
        loops = outer_loops + (inner_loops if f < tensors else 0)
        orders.words[0, f] = 0
        orders.moved[0, f] = 0
        orders.first[0, f] = 0
        orders.changed[0, f] = 0
        orders.axis[0, f] = -1
        if not orders.needed[f]:
            orders.mode[0, f] = SETTLED
        elif loops == 0:
            orders.mode[0, f] = SETTLED
            orders.words[0, f] = orders.tile[f]
        else:
            orders.mode[0, f] = FRESH
    orders.inside[0] = 1


@part
def put_outside(
    tables: ProofTables,
    orders: Orders,
    depth: int,
    loop: int,
    flow: int,
    rest: int,
    extent: Array,
) -> None:
    """Puts a loop outside of those chosen so far: fills a flow's state at depth + 1.

    Args:
        tables: the problem.
        orders: the working memory.
        depth: how many loops stand inside.
        loop: the loop.
        flow: the flow; not settled.
        rest: product of the trips of all loops above the flow's tile that are not yet chosen.
        extent: `[n]` of the flow's tile.
    """
    tensors = orders.tile.size // 2
    t = flow % tensors
    d = orders.dimension[loop]
    tile = orders.tile[flow]
    mode = orders.mode[depth, flow]
    axis = orders.axis[depth, flow]
    moved = orders.moved[depth, flow]
    first = orders.first[depth, flow]
    changed = orders.changed[depth, flow]
    its_axis = tables.axis_of[t, d]
    its_step = tables.coefficient_of[t, d] * orders.step[loop]
    credited = True
    if mode == FRESH:
        if its_axis >= 0:
            length = 1
            whole = tables.axis_start[t] + its_axis
            for k in range(tables.term_start[whole], tables.term_start[whole + 1]):
                length += tables.term_coefficient[k] * (extent[tables.term_dimension[k]] - 1)
            changed = tile - tile // length * max(0, length - its_step)
            mode, axis, moved, first = MOVING, its_axis, its_step, its_step
        else:
            changed = 0
            mode = RESTING
    elif mode == MOVING:
        credited = its_axis == axis and its_step == moved + first
    elif its_axis >= 0:
        credited = its_axis == axis and its_step == moved
    else:
        credited = axis < 0
    words = orders.words[depth, flow]
    words += (orders.trip[loop] - 1) * rest * (changed if credited else tile)
    if orders.mode[depth, flow] != FRESH and its_axis >= 0:
        if axis < 0:
            axis, moved = its_axis, its_step
        elif axis == its_axis:
            moved += its_step
        else:
            mode = SETTLED
    # A step can repeat only along one axis of several terms, or while the tensor rests.
    if axis >= 0 and (changed == tile or tables.credit_start[tables.axis_start[t] + axis] < 0):
        mode = SETTLED
    if mode == SETTLED or rest == 1:
        mode = SETTLED
        words += tile * rest
    orders.mode[depth + 1, flow] = mode
    orders.axis[depth + 1, flow] = axis
    orders.moved[depth + 1, flow] = moved
    orders.first[depth + 1, flow] = first
    orders.changed[depth + 1, flow] = changed
    orders.words[depth + 1, flow] = words


@part
def copy_flow(
    orders: Orders,
    depth: int,
    flow: int,
) -> None:
    """Carries a flow's state over to depth + 1."""
    orders.mode[depth + 1, flow] = orders.mode[depth, flow]
    orders.axis[depth + 1, flow] = orders.axis[depth, flow]
    orders.moved[depth + 1, flow] = orders.moved[depth, flow]
    orders.first[depth + 1, flow] = orders.first[depth, flow]
    orders.changed[depth + 1, flow] = orders.changed[depth, flow]
    orders.words[depth + 1, flow] = orders.words[depth, flow]
