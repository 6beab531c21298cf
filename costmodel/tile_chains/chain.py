"""Compiled: the least cost of everything outside a tile, one level after another from the outside.

Letters: L levels, F tiles, n dimensions, T tensors, C classes, H points of a hull.

The chain is explained in docs/inside/proof-any-levels.md. A *slot* is where the temporal loops of
a level stand, between the level's tile and the tile of its children; a *boundary* is where a
level's tile is, and where the words that enter it are charged. A tensor *rests* while no loop has
moved it; what it will have cost is a price per unit times the trips of all loops outside the run
that it rests through. So the cost of everything outside, given a resting tensor, is the lower hull
of points (trips, cost).
"""

from __future__ import annotations

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.tile_chains.chain_arrays import Chain, Scratch
from costmodel.tile_chains.entering import (
    Around,
    Crossing,
    charge_others,
    class_charges,
    covering,
    open_dims,
    resting_share,
    trips_outside,
)
from costmodel.tile_chains.hulls import insert_point, least_on_hull
from costmodel.tile_chains.pairs import (
    edge_pairs,
    fill_slot_pairs,
    follows_partner,
    insert_pair,
    pairs_of_class,
)
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tiles import FloatArray, Tiles


@part
def fill_left(
    shape: Shape,
    around: Around,
    level: int,
    left: FloatArray,
) -> None:
    """Fills trips of the loops outside a level's tile, by divisor; 0 where it is no extent of one.

    Extents are multiples of what is asked for inside, and divide what is left outside.
    """
    for d in range(shape.sizes.size):
        for row in range(shape.divisor_start[d], shape.divisor_start[d + 1]):
            covered = shape.divisors[row] * around.outer[level, d]
            left[row] = 0
            if shape.divisors[row] % around.inner[level, d] == 0 and shape.sizes[d] % covered == 0:
                left[row] = shape.sizes[d] // covered


@part
def _list_tiles(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    level: int,
    scratch: Scratch,
) -> int:
    """Lists the tiles of a level that spatial factors outside and inside leave; how many.

    What is left outside each extent is in scratch then.
    """
    n, left = shape.sizes.size, scratch.left
    fill_left(shape, around, level, left)
    count = 0
    for i in range(tiles.start[level], tiles.start[level + 1]):
        d = 0
        while d < n and left[shape.divisor_start[d] + tiles.place[i, d]] > 0:
            d += 1
        if d == n:
            scratch.listed[count] = i
            count += 1
    return count


@part
def _trips_of(
    shape: Shape,
    tiles: Tiles,
    i: int,
    scratch: Scratch,
) -> float:
    """Fills the trips of all loops outside a listed tile; their product."""
    product = 1.0
    for d in range(shape.sizes.size):
        trip = scratch.left[shape.divisor_start[d] + tiles.place[i, d]]
        scratch.trips[d] = trip
        product *= trip
    return product


@part
def without_points(
    chain: Chain,
) -> int:
    """The row of the tiles that have no points."""
    last: int = chain.hull_n.shape[0] - 1
    return last


@part
def build_slot(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    chain: Chain,
    level: int,
    scratch: Scratch,
) -> None:
    """Fills the tables of a level's slot from those of its boundary."""
    first, trips = tiles.start[level], scratch.trips
    n, tensors = shape.sizes.size, shape.sliding.size
    for i in range(first, tiles.start[level + 1]):
        chain.slot_free[i], chain.slot_row[i] = np.inf, without_points(chain)
    count = _list_tiles(shape, tiles, around, level, scratch)
    if level == 0 and _lead_to_all(shape, tiles, chain, scratch, count):
        _fill_outermost_slot(shape, tiles, around, chain, scratch, count)
        return
    for k in range(count):
        i = scratch.listed[k]
        chain.slot_free[i] = chain.free[i]
    for d in range(n):
        for m in range(count - 1, -1, -1):
            i = scratch.listed[m]
            row = shape.divisor_start[d] + tiles.place[i, d]
            for k in range(shape.cover_start[row], shape.cover_start[row + 1]):
                j = covering(shape, tiles, level, i, d, k)
                if j >= 0:
                    chain.slot_free[i] = min(chain.slot_free[i], chain.slot_free[first + j])
    used = first
    for m in range(count):
        i = scratch.listed[m]
        if chain.slot_free[i] == np.inf:
            continue
        own, r = chain.row[i], used
        chain.slot_row[i] = r
        used += 1
        product = _trips_of(shape, tiles, i, scratch)
        for t in range(tensors):
            chain.slot_n[r, t] = 0
            if not around.follows[level, t]:
                continue
            chain.slot_n[r, t] = chain.hull_n[own, t]
            for h in range(chain.hull_n[own, t]):
                chain.slot_u[t, h, r] = chain.hull_u[t, h, own]
                chain.slot_c[t, h, r] = chain.hull_c[t, h, own]
            u = product * resting_share(shape, t, tiles.place[i], trips, around.credit[level])
            chain.slot_n[r, t] = insert_point(
                chain.slot_u[t, :, r],
                chain.slot_c[t, :, r],
                chain.slot_n[r, t],
                u,
                chain.slot_free[i],
            )
    for d in range(n):
        for m in range(count - 1, -1, -1):
            _join_covers(shape, tiles, around, chain, level, scratch.listed[m], d)
    if shape.pair_one.size:
        fill_slot_pairs(shape, tiles, around, chain, level, scratch, count)


@part
def _lead_to_all(
    shape: Shape,
    tiles: Tiles,
    chain: Chain,
    scratch: Scratch,
    count: int,
) -> bool:
    """Whether loops lead from all tiles of the outermost slot, `count` are listed, to the whole."""
    last, whole = tiles.start[1] - 1, 1
    if shape.pair_one.size:
        return False
    for d in range(shape.sizes.size):
        extents = 0
        for row in range(shape.divisor_start[d], shape.divisor_start[d + 1]):
            extents += scratch.left[row] > 0
        whole *= extents
    return last >= 0 and chain.free[last] == 0 and count == whole


@part
def _fill_outermost_slot(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    chain: Chain,
    scratch: Scratch,
    count: int,
) -> None:
    """Fills the tables of the outermost slot, which leads to the whole problem at no cost.

    A tensor rests there through all loops that leave it in place: of one point is its hull.
    """
    credit = around.credit[0]
    for m in range(count):
        i, r = scratch.listed[m], tiles.start[0] + m
        chain.slot_free[i], chain.slot_row[i] = 0.0, r
        _trips_of(shape, tiles, i, scratch)
        for t in range(shape.sliding.size):
            chain.slot_n[r, t] = 0
            if not around.follows[0, t]:
                continue
            moving = resting_share(shape, t, tiles.place[i], scratch.trips, credit)
            product = 1.0
            for d in range(shape.sizes.size):
                if shape.relevant[t, d]:
                    product *= scratch.trips[d]
            chain.slot_n[r, t] = 1
            chain.slot_u[t, 0, r], chain.slot_c[t, 0, r] = product * moving, 0.0


@part
def _join_covers(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    chain: Chain,
    level: int,
    i: int,
    d: int,
) -> None:
    """Adds the hulls of the tiles that are a prime times larger in a dimension."""
    first = tiles.start[level]
    if chain.slot_free[i] == np.inf:
        return  # nor do they have any
    row, r = shape.divisor_start[d] + tiles.place[i, d], chain.slot_row[i]
    for k in range(shape.cover_start[row], shape.cover_start[row + 1]):
        j = covering(shape, tiles, level, i, d, k)
        if j < 0 or chain.slot_free[first + j] == np.inf:
            continue
        other = chain.slot_row[first + j]
        for t in range(shape.sliding.size):
            if shape.relevant[t, d] or not around.follows[level, t]:
                continue
            for h in range(chain.slot_n[other, t]):
                chain.slot_n[r, t] = insert_point(
                    chain.slot_u[t, :, r], chain.slot_c[t, :, r], chain.slot_n[r, t],
                    chain.slot_u[t, h, other], chain.slot_c[t, h, other],
                )  # fmt: skip


@part
def step_of(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    level: int,
    i: int,
) -> int:
    """The tile, in the slot outside a level, that all children of one instance hold; -1 if none."""
    cell = 0
    for d in range(shape.sizes.size):
        extent = tiles.extent[i, d] * around.spatial[level - 1, d]
        low, high = shape.divisor_start[d], shape.divisor_start[d + 1] - 1
        while low < high:
            middle = (low + high) // 2
            if shape.divisors[middle] < extent:
                low = middle + 1
            else:
                high = middle
        if shape.divisors[low] != extent:
            return -1
        cell += (low - shape.divisor_start[d]) * shape.stride[d]
    found = tiles.at[level - 1, cell]
    if found < 0:
        return -1
    place: int = tiles.start[level - 1] + found
    return place


@part
def build_boundary(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    chain: Chain,
    level: int,
    scratch: Scratch,
) -> None:
    """Fills the tables of a level's boundary, from those of the slot outside it."""
    first, last = tiles.start[level], tiles.start[level + 1]
    tensors, trips = shape.sliding.size, scratch.trips
    for i in range(first, last):
        chain.free[i], chain.row[i] = np.inf, without_points(chain)
    if level == 0:
        i = last - 1
        if last > first and tiles.full[i] and tiles.cell[i] == shape.cells - 1:
            chain.free[i], chain.row[i] = 0.0, first
            for t in range(tensors):
                chain.hull_u[t, 0, first], chain.hull_c[t, 0, first] = 1.0, 0.0
                chain.hull_n[first, t] = 1
            for x in range(shape.pair_one.size):
                chain.pairs_n[first, x] = insert_pair(chain.pairs[first, x], 0, 1.0, 1.0, 0.0)
        return
    fill_jumps(shape, around.spatial[level - 1], scratch.jump)
    count, used = _list_tiles(shape, tiles, around, level, scratch), first
    for m in range(count):
        i = scratch.listed[m]
        if not tiles.full[i]:
            continue
        cell = 0
        for d in range(shape.sizes.size):
            cell += scratch.jump[shape.divisor_start[d] + tiles.place[i, d]]
        found = tiles.at[level - 1, cell]
        if found < 0:
            continue
        j = tiles.start[level - 1] + found
        if chain.slot_free[j] == np.inf:
            continue
        all_trips = trips_outside(shape, tiles.extent[j], around.outer[level - 1], trips)
        crossing = Crossing(level, i, j, trips, all_trips)
        chain.row[i] = used
        if _fill_boundary(shape, tiles, around, chain, crossing):
            used += 1
        else:
            chain.row[i] = without_points(chain)


@part
def fill_jumps(
    shape: Shape,
    factors: Array,
    jump: Array,
) -> None:
    """What extents times factors `[n]` add to a cell, by divisor: they are all divisors."""
    for d in range(shape.sizes.size):
        start, end = shape.divisor_start[d], shape.divisor_start[d + 1]
        to = start
        for row in range(start, end):
            wanted = shape.divisors[row] * factors[d]
            while to < end - 1 and shape.divisors[to] < wanted:
                to += 1
            jump[row] = (to - start) * shape.stride[d]


@part
def _fill_boundary(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    chain: Chain,
    crossing: Crossing,
) -> bool:
    """One tile of a level's boundary, in its row; whether it is left."""
    tensors = shape.sliding.size
    level, i, j = crossing.level, crossing.inner, crossing.outer
    all_trips, r = crossing.all_trips, chain.row[i]
    for t in range(tensors):
        chain.hull_n[r, t] = 0
    for x in range(shape.pair_one.size):
        chain.pairs_n[r, x] = 0
    weight, credit = around.weight[level], around.credit[level - 1]
    # Further out it depends on the loops inside, which are not known here.
    idle = around.idle[level] if level == around.idle.size - 1 else 0
    least = np.inf
    if all_trips == 1:
        least = chain.slot_free[j]
        for t in range(tensors):
            least += weight[t] * tiles.words[i, t]
    for kind in range(shape.class_rest.size):
        dims = open_dims(shape, kind, crossing.trips, idle)
        if not dims:
            continue
        # Where loops stand in the slot, or none but further out.
        there = dims >> shape.sizes.size == 0
        from_row = chain.slot_row[j] if there else chain.row[j]
        free = chain.slot_free[j] if there else chain.free[j]
        base = class_charges(shape, tiles, around, crossing, kind)
        rest = shape.class_rest[kind]
        if rest == 0:
            least = min(least, base + free)
            continue
        others = charge_others(shape, tiles, around, crossing, kind, -1)
        bound = base + others + free
        if bound >= around.limit[level]:
            continue  # no mapping with this tile and such a loop can win
        for t in range(tensors):
            if not (rest >> t) & 1 or not around.follows[level - 1, t]:
                continue
            more = base + charge_others(shape, tiles, around, crossing, kind, t)
            price = weight[t] * tiles.words[i, t]
            us = chain.slot_u[t, :, from_row] if there else chain.hull_u[t, :, from_row]
            cs = chain.slot_c[t, :, from_row] if there else chain.hull_c[t, :, from_row]
            count = chain.slot_n[from_row, t] if there else chain.hull_n[from_row, t]
            # Every resting tensor gives a bound; the class costs at least the largest.
            bound = max(
                bound,
                more + least_on_hull(us, cs, count, price),
            )
            if not around.follows[level, t] or follows_partner(shape, around, level - 1, kind):
                continue
            for h in range(count):
                chain.hull_n[r, t] = insert_point(
                    chain.hull_u[t, :, r], chain.hull_c[t, :, r], chain.hull_n[r, t],
                    us[h], more + cs[h] + price * us[h],
                )  # fmt: skip
        bound = max(bound, pairs_of_class(shape, tiles, around, chain, crossing, kind, base, there))
        least = min(least, bound)
    if least >= around.limit[level] or least == np.inf:
        return False  # no mapping with this tile can win
    chain.free[i] = least
    for t in range(tensors):
        if not around.follows[level, t]:
            continue
        share = resting_share(shape, t, tiles.place[j], crossing.trips, credit)
        chain.hull_n[r, t] = insert_point(
            chain.hull_u[t, :, r],
            chain.hull_c[t, :, r],
            chain.hull_n[r, t],
            all_trips * share,
            least,
        )
    edge_pairs(shape, around, chain, level, r, all_trips)
    return True


@lean
def build_levels(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    chain: Chain,
    first: int,
    stop: int,
    scratch: Scratch,
) -> None:
    """Fills the tables of levels from the first up to before another, from those outside them.

    Args:
        shape: the operation.
        tiles: what fits.
        around: the assignment.
        chain: the tables.
        first: twice the outermost level, and one more if its boundary is there already.
        stop: twice the level to stop before, and one more if its boundary is wanted.
        scratch: scratch.
    """
    for part_of in range(first, stop):
        if part_of % 2 == 0:
            build_boundary(shape, tiles, around, chain, part_of // 2, scratch)
        else:
            build_slot(shape, tiles, around, chain, part_of // 2, scratch)
