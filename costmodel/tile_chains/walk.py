"""Compiled: from a chain of tiles to those that may come next outwards, and what they cost.

What is certain of the cost of a chain of tiles is a list of *lines*
(`costmodel.tile_chains.lines`). The least over them, each with what the tables
say of everything outside, is a lower bound of all mappings with these tiles.

Letters: n dimensions, T tensors, M lines.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import part
from costmodel.tile_chains.chain import step_of
from costmodel.tile_chains.chain_arrays import Chain
from costmodel.tile_chains.entering import (
    Around,
    Crossing,
    class_charges,
    ended_share,
    least_resting,
    open_dims,
    resting_share,
    trips_outside,
)
from costmodel.tile_chains.hulls import least_on_hull
from costmodel.tile_chains.lines import Line, Lines, add_line, line_at, line_in
from costmodel.tile_chains.pairs import least_of_pair
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tiles import FloatArray, Tiles


class Slot(NamedTuple):
    """What is known in a level's slot: the step of all children there, a tile of that level.

    lines: those in the slot; trips `[n]` scratch.
    """

    level: int
    step: int
    lines: Lines
    trips: FloatArray


@part
def cross_boundary(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    slot: Slot,
    i: int,
    lines: Lines,
    crossed: Lines,
) -> int:
    """Charges what enters a level's tile i: from the lines inside to those in the slot outside.

    Args:
        shape: the operation.
        tiles: what fits.
        around: the assignment.
        slot: the slot inside the tile.
        i: the tile.
        lines: those at its boundary.
        crossed: takes those in the slot outside.

    Returns:
        The tile of all children in the slot outside; -1 if there is none.
    """
    crossed.number[0] = 0
    level, trips = slot.level, slot.trips
    j = step_of(shape, tiles, around, level, i)
    if j < 0:
        return -1
    weight = around.weight[level]
    all_trips = trips_outside(shape, tiles.extent[j], around.outer[level - 1], trips)
    if all_trips == 0:
        return -1
    if all_trips == 1:
        whole = 0.0
        for t in range(shape.sliding.size):
            whole += weight[t] * tiles.words[i, t]
        for m in range(lines.number[0]):
            ended = lines.price[m] if lines.tensor[m] >= 0 else 0.0
            ended += lines.other_price[m] if lines.other[m] >= 0 else 0.0
            add_line(crossed, Line(-1, lines.cost[m] + whole + ended, 0.0, -1, 0.0, 0))
        return j
    crossing = Crossing(level, i, j, trips, all_trips)
    idle = _idle_outside(shape, tiles, around, slot, i)
    for kind in range(shape.class_rest.size):
        dims = open_dims(shape, kind, trips, idle)
        if not dims:
            continue
        base = class_charges(shape, tiles, around, crossing, kind)
        for m in range(lines.number[0]):
            line = _cross_line(shape, tiles, around, crossing, kind, line_at(lines, m), base)
            add_line(crossed, line_in(line, dims))
    return j


@part
def _idle_outside(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    slot: Slot,
    i: int,
) -> int:
    """The dimensions, as bits, whose loops need not stand innermost outside tile i.

    A slot has one loop over a dimension. Where one stands inside already it may not be the
    outermost one there, but for the innermost level, in which the order makes no difference.
    """
    idle: int = around.idle[slot.level]
    if slot.level == around.idle.size - 1:
        return idle
    for d in range(shape.sizes.size):
        if tiles.extent[i, d] > tiles.extent[slot.step, d]:
            idle &= ~(1 << d)
    return idle


@part
def _cross_line(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    crossing: Crossing,
    kind: int,
    line: Line,
    base: float,
) -> Line:
    """What becomes of a line at a boundary, where a loop of a class runs innermost outside.

    Args:
        shape: the operation.
        tiles: what fits.
        around: the assignment.
        crossing: the tile.
        kind: the class.
        line: as it is inside.
        base: what the tensors that the class moves cost.
    """
    level, i = crossing.level, crossing.inner
    rest = shape.class_rest[kind]
    before, beside = line.tensor, line.other
    followed, other = _followed(shape, tiles, around, level, i, rest, before, beside)
    cost, price, other_price = line.cost + base, 0.0, 0.0
    for t in range(shape.sliding.size):
        carried = line.price if t == before else line.other_price if t == beside else 0.0
        if not (rest >> t) & 1:
            if carried > 0:
                cost += carried * _ended(shape, tiles, around, crossing, t)
            continue
        carried += around.weight[level, t] * tiles.words[i, t]
        if t == followed:
            price = carried
        elif t == other:
            other_price = carried
        elif carried > 0:
            cost += carried * least_resting(
                shape, t, tiles.place[crossing.outer], crossing.trips, around.credit[level - 1]
            )
    return Line(followed, cost, price, other, other_price, 0)


@part
def _ended(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    crossing: Crossing,
    t: int,
) -> float:
    """The trips that a tensor is charged for whose run ends at a boundary."""
    share = resting_share(
        shape, t, tiles.place[crossing.outer], crossing.trips, around.credit[crossing.level - 1]
    )
    ended: float = crossing.all_trips * share
    return ended


@part
def _followed(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    level: int,
    i: int,
    rest: int,
    before: int,
    beside: int,
) -> tuple[int, int]:
    """Which of the resting tensors are followed: those before, else the dearest; -1 if none.

    One that costs nothing is not worth it. A second one is followed where the two are a pair.
    """
    found = -1
    if before >= 0 and (rest >> before) & 1:
        found = before
    elif beside >= 0 and (rest >> beside) & 1:
        found = beside
    else:
        found = _dearest(shape, tiles, around, level, i, rest, -1)
    other = -1
    if found == before and beside >= 0 and (rest >> beside) & 1:
        other = beside
    elif found >= 0:
        other = _dearest(shape, tiles, around, level, i, rest, found)
    if other >= 0 and shape.pair_one[shape.pair_of[found, other]] == other:
        found, other = other, found
    return found, other


@part
def _dearest(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    level: int,
    i: int,
    rest: int,
    beside: int,
) -> int:
    """The resting tensor that pays most per trip, of those that make a pair with one beside it."""
    found, most = -1, 0.0
    for t in range(shape.sliding.size):
        price = around.weight[level, t] * tiles.words[i, t]
        if (rest >> t) & 1 and price > most and (beside < 0 or shape.pair_of[beside, t] >= 0):
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
) -> tuple[bool, Line]:
    """What becomes of a line in the slot between the step there and the level's tile b.

    Returns:
        Whether there are such loops, and the line at the boundary of b: what has moved is charged,
        what rests on is followed.
    """
    level, j, crossed = slot.level, slot.step, slot.lines
    moved = 0
    for d in range(shape.sizes.size):
        if tiles.extent[b, d] > tiles.extent[j, d]:
            moved |= 1 << d
    t, other = crossed.tensor[m], crossed.other[m]
    if moved and crossed.dims[m] and not moved & crossed.dims[m]:
        return False, Line(-1, np.inf, 0.0, -1, 0.0, 0)
    cost = crossed.cost[m]
    if t < 0:
        return True, Line(-1, cost, 0.0, -1, 0.0, 0)
    # Trips of the loops that leave both at rest, only the first, only the second.
    common, alone, beside = 1.0, 1.0, 1.0
    rests, other_rests = True, other >= 0
    for d in range(shape.sizes.size):
        if not (moved >> d) & 1:
            continue
        passed = tiles.extent[b, d] // tiles.extent[j, d]
        moves, moves_other = shape.relevant[t, d] > 0, other >= 0 and shape.relevant[other, d] > 0
        rests = rests and not moves
        other_rests = other_rests and not moves_other
        if moves and not moves_other:
            beside *= passed
        elif moves_other and not moves:
            alone *= passed
        elif not moves:
            common *= passed
    price, other_price = crossed.price[m], crossed.other_price[m]
    if rests and (other_rests or other < 0):
        return True, Line(t, cost, price, other, other_price, 0)
    all_trips = trips_outside(shape, tiles.extent[j], around.outer[level], slot.trips)
    all_trips *= ended_share(shape, t, tiles.place[j], tiles.place[b], slot.trips, around, level)
    if other < 0:
        return True, Line(-1, cost + price * (all_trips / common), 0.0, -1, 0.0, 0)
    ended = all_trips / common
    if rests:
        return True, Line(t, cost + other_price * ended, price, -1, 0.0, 0)
    if other_rests:
        return True, Line(other, cost + price * ended, other_price, -1, 0.0, 0)
    cost += min(
        price * (ended / alone) + other_price * ended,
        price * ended + other_price * (ended / beside),
    )
    return True, Line(-1, cost, 0.0, -1, 0.0, 0)


@part
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


@part
def bound_tile(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    chain: Chain,
    slot: Slot,
    b: int,
) -> float:
    """What all mappings with tile b of a level outside the step cost at least; inf if none."""
    crossed, least = slot.lines, np.inf
    if chain.free[b] < np.inf:
        for m in range(crossed.number[0]):
            possible, line = _through_slot(shape, tiles, around, slot, b, m)
            if possible:
                least = min(least, line.cost + _least_outside(shape, chain, b, line))
    return least


@part
def _least_outside(
    shape: Shape,
    chain: Chain,
    b: int,
    line: Line,
) -> float:
    """What a line costs at least from the boundary of tile b on."""
    least: float = chain.free[b]
    t, r = line.tensor, chain.row[b]
    if line.other >= 0:
        x = shape.pair_of[t, line.other]
        least = least_of_pair(chain.pairs[r, x], chain.pairs_n[r, x], line.price, line.other_price)
    elif t >= 0:
        hull_u, hull_c, count = chain.hull_u[t, :, r], chain.hull_c[t, :, r], chain.hull_n[r, t]
        least = least_on_hull(hull_u, hull_c, count, line.price)
    return least


@part
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
        possible, line = _through_slot(shape, tiles, around, slot, b, m)
        if possible:
            add_line(lines, line)


@part
def enter_and_cross(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    slot: Slot,
    b: int,
    inside: Lines,
    crossed: Lines,
) -> int:
    """The lines at the boundary of tile b and in the slot outside; as `cross_boundary`."""
    enter_tile(shape, tiles, around, slot, b, inside)
    outside: int = cross_boundary(shape, tiles, around, slot, b, inside, crossed)
    return outside
