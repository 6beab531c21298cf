"""Compiled: from a chain of tiles to those that may come next outwards, and what they cost.

A chain of tiles is chosen from the MACs outwards. What is certain of its cost is a list of *lines*:
each is one choice of which tensor rests where, a cost so far, and the price that the tensor which
still rests will pay per trip outside its run. The least over the lines, each with what the tables
say of everything outside, is a lower bound of all mappings with these tiles.

Letters: n dimensions, T tensors, M lines.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.by_reference import by_reference
from costmodel.compiled import lean, part
from costmodel.exact_any.chain import Chain, step_of
from costmodel.exact_any.entering import (
    Around,
    Crossing,
    charge_others,
    class_charges,
    is_open,
    least_resting,
    resting_share,
    trips_outside,
)
from costmodel.exact_any.hulls import least_on_hull
from costmodel.exact_any.shape import Shape
from costmodel.exact_any.tiles import FloatArray, Tiles

MOST_LINES = 32


@by_reference
class Lines(NamedTuple):
    """At most MOST_LINES lines, and how many there are in number `[1]`.

    tensor: the one that rests, -1 if none; cost so far; price per trip; dims: dimensions over which
    the innermost loop outside may run, as bits, 0 for any.
    """

    tensor: Array
    cost: FloatArray
    price: FloatArray
    dims: Array
    number: Array


class Slot(NamedTuple):
    """What is known in a level's slot: the step of all children there, a tile of that level.

    lines: those in the slot; trips `[n]` scratch.
    """

    level: int
    step: int
    lines: Lines
    trips: FloatArray


def empty_lines() -> Lines:
    """No lines yet."""
    return Lines(
        np.zeros(MOST_LINES, np.int64), np.zeros(MOST_LINES), np.zeros(MOST_LINES),
        np.zeros(MOST_LINES, np.int64), np.zeros(1, np.int64),
    )  # fmt: skip


@part
def add_line(
    lines: Lines,
    tensor: int,
    cost: float,
    price: float,
    dims: int,
) -> None:
    """Adds a line unless another is nowhere worse; where there is no room, two become one."""
    count = lines.number[0]
    for i in range(count):
        same = lines.tensor[i] == tensor and lines.dims[i] == dims
        if same and lines.cost[i] <= cost and lines.price[i] <= price:
            return
    kept = 0
    for i in range(count):
        same = lines.tensor[i] == tensor and lines.dims[i] == dims
        if same and lines.cost[i] >= cost and lines.price[i] >= price:
            continue
        lines.tensor[kept], lines.cost[kept] = lines.tensor[i], lines.cost[i]
        lines.price[kept], lines.dims[kept] = lines.price[i], lines.dims[i]
        kept += 1
    if kept == MOST_LINES:
        # Below both: the least cost of any line, and no price.
        cheapest = cost
        for i in range(kept):
            cheapest = min(cheapest, lines.cost[i])
        kept = 0
        tensor, cost, price, dims = -1, cheapest, 0.0, 0
    lines.tensor[kept], lines.cost[kept] = tensor, cost
    lines.price[kept], lines.dims[kept] = price, dims
    lines.number[0] = kept + 1


@lean
def cross_boundary(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    level: int,
    i: int,
    lines: Lines,
    crossed: Lines,
    trips: FloatArray,
) -> int:
    """Charges what enters a level's tile i: from the lines inside to those in the slot outside.

    Returns:
        The tile of all children in the slot outside; -1 if there is none.
    """
    crossed.number[0] = 0
    j = step_of(shape, tiles, around, level, i)
    if j < 0:
        return -1
    weight, credit = around.weight[level], around.credit[level - 1]
    all_trips = trips_outside(shape, tiles.extent[j], around.outer[level - 1], trips)
    if all_trips == 0:
        return -1
    tensors = shape.sliding.size
    if all_trips == 1:
        whole = 0.0
        for t in range(tensors):
            whole += weight[t] * tiles.words[i, t]
        for m in range(lines.number[0]):
            ended = lines.price[m] if lines.tensor[m] >= 0 else 0.0
            add_line(crossed, -1, lines.cost[m] + whole + ended, 0.0, 0)
        return j
    crossing = Crossing(level, i, j, trips, all_trips)
    for kind in range(shape.class_rest.size):
        if not is_open(shape, kind, trips):
            continue
        rest, dims = shape.class_rest[kind], shape.class_dims[kind]
        base = class_charges(shape, tiles, around, crossing, kind)
        for m in range(lines.number[0]):
            before = lines.tensor[m]
            followed = _followed(shape, tiles, around, level, i, rest, before)
            cost = lines.cost[m] + base
            price = 0.0
            if followed >= 0:
                cost += charge_others(shape, tiles, around, crossing, kind, followed)
                price = weight[followed] * tiles.words[i, followed]
            if before == followed:
                price += lines.price[m]
            elif before >= 0 and (rest >> before) & 1:
                least = least_resting(shape, before, tiles.place[j], trips, credit)
                cost += lines.price[m] * least
            elif before >= 0:
                share = resting_share(shape, before, tiles.place[j], trips, credit)
                cost += lines.price[m] * all_trips * share
            add_line(crossed, followed, cost, price, dims)
    return j


@part
def _followed(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    level: int,
    i: int,
    rest: int,
    before: int,
) -> int:
    """Which of the resting tensors is followed: the one before, else the dearest; -1 if none.

    One that costs nothing is not worth it.
    """
    if before >= 0 and (rest >> before) & 1:
        return before
    found, most = -1, 0.0
    for t in range(shape.sliding.size):
        price = around.weight[level, t] * tiles.words[i, t]
        if (rest >> t) & 1 and price > most:
            found, most = t, price
    return found


@part
def _through_slot(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    slot: Slot,
    b: int,
    m: int,
) -> tuple[bool, bool, float]:
    """What becomes of a line in the slot between the step there and the level's tile b.

    Returns:
        Whether there are such loops, whether its tensor rests on outside b, and else its cost.
    """
    level, j, crossed = slot.level, slot.step, slot.lines
    moved = 0
    for d in range(shape.sizes.size):
        if tiles.extent[b, d] > tiles.extent[j, d]:
            moved |= 1 << d
    if moved and crossed.dims[m] and not moved & crossed.dims[m]:
        return False, False, np.inf
    t = crossed.tensor[m]
    if t < 0:
        return True, False, crossed.cost[m]
    passed = 1.0
    rests = True
    for d in range(shape.sizes.size):
        if (moved >> d) & 1:
            if shape.relevant[t, d]:
                rests = False
            else:
                passed *= tiles.extent[b, d] // tiles.extent[j, d]
    if rests:
        return True, True, crossed.cost[m]
    all_trips = trips_outside(shape, tiles.extent[j], around.outer[level], slot.trips)
    share = resting_share(shape, t, tiles.place[j], slot.trips, around.credit[level])
    return True, False, crossed.cost[m] + crossed.price[m] * (all_trips * share / passed)


@lean
def list_multiples(
    shape: Shape,
    tiles: Tiles,
    level: int,
    j: int,
    choice: Array,
    listed: Array,
) -> int:
    """Lists the tiles of a level whose extents are multiples of those of the step j.

    Args:
        shape: the operation.
        tiles: what fits.
        level: whose tiles.
        j: the step, a tile of the same level.
        choice: scratch `[n]`: the divisor of every dimension.
        listed: takes the tiles.

    Returns:
        How many.
    """
    n = shape.sizes.size
    first, cell, count = tiles.start[level], tiles.cell[j], 0
    for d in range(n):
        choice[d] = tiles.place[j, d]
    while True:
        found = tiles.at[level, cell]
        if found >= 0:
            listed[count] = first + found
            count += 1
        d = 0
        while d < n:
            # The next multiple in this dimension, or the first again and the next dimension.
            start, before = shape.divisor_start[d], choice[d]
            choice[d] += 1
            while (
                start + choice[d] < shape.divisor_start[d + 1]
                and shape.divisors[start + choice[d]] % tiles.extent[j, d]
            ):
                choice[d] += 1
            more = start + choice[d] < shape.divisor_start[d + 1]
            if not more:
                choice[d] = tiles.place[j, d]
            cell += (choice[d] - before) * shape.stride[d]
            if more:
                break
            d += 1
        if d == n:
            return count


@lean
def bound_tiles(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    chain: Chain,
    slot: Slot,
    listed: Array,
    bounds: FloatArray,
) -> None:
    """Bounds tiles of a level outside the step: listed `[B]`, bounds `[B]`, inf if none."""
    crossed = slot.lines
    for k in range(listed.size):
        b = listed[k]
        least = np.inf
        if chain.free[b] < np.inf:
            for m in range(crossed.number[0]):
                possible, rests, cost = _through_slot(shape, tiles, around, slot, b, m)
                if not possible:
                    continue
                if rests:
                    t = crossed.tensor[m]
                    cost += least_on_hull(
                        chain.hull_u[b, t], chain.hull_c[b, t], chain.hull_n[b, t],
                        crossed.price[m],
                    )  # fmt: skip
                else:
                    cost += chain.free[b]
                least = min(least, cost)
        bounds[k] = least


@lean
def enter_tile(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    slot: Slot,
    b: int,
    lines: Lines,
) -> None:
    """The lines at the boundary of tile b, from those in the slot outside the step."""
    crossed = slot.lines
    lines.number[0] = 0
    for m in range(crossed.number[0]):
        possible, rests, cost = _through_slot(shape, tiles, around, slot, b, m)
        if possible and rests:
            add_line(lines, crossed.tensor[m], cost, crossed.price[m], 0)
        elif possible:
            add_line(lines, -1, cost, 0.0, 0)
