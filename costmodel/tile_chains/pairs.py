"""Compiled: two tensors that rest together, and what everything outside costs by where both end.

Where loops over one dimension leave two tensors at rest, their runs are nested: both rest through
the same loops, then one ends and the other may go on. What everything outside costs is then a set
of points (trips of the one, trips of the other, cost), and the least for two prices is at a corner
of its lower convex hull. Corners are kept as far as there is room; two that are joined become a
point below both, so that the least never is too high.

Letters as in `costmodel.tile_chains.chain`, and X pairs, P points of a pair.
"""

from __future__ import annotations

import numpy as np

from costmodel.compiled import part
from costmodel.tile_chains.chain_arrays import Chain, Scratch
from costmodel.tile_chains.entering import Around, Crossing, covering, least_resting, trips_outside
from costmodel.tile_chains.hulls import insert_point
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tiles import FloatArray, Tiles


@part
def _needless(
    points: FloatArray,
    count: int,
    one: float,
    two: float,
    cost: float,
) -> bool:
    """Whether a point is nowhere less than one point, or than every mixture of two."""
    for a in range(count):
        if points[a, 0] <= one and points[a, 1] <= two and points[a, 2] <= cost:
            return True
    for a in range(count):
        for b in range(a):
            # The shares of a for which the mixture is not above in each of the three.
            low, high = 0.0, 1.0
            for k in range(3):
                wanted = one if k == 0 else two if k == 1 else cost
                slope = points[a, k] - points[b, k]
                left = wanted - points[b, k]
                if slope > 0:
                    high = min(high, left / slope)
                elif slope < 0:
                    low = max(low, left / slope)
                elif left < 0:
                    high = -1.0
            if low <= high:
                return True
    return False


@part
def insert_pair(
    points: FloatArray,
    count: int,
    one: float,
    two: float,
    cost: float,
) -> int:
    """Adds a point (trips, trips, cost) to points `[P, 3]`. Returns how many there are."""
    if _needless(points, count, one, two, cost):
        return count
    kept = 0
    for a in range(count):
        if points[a, 0] >= one and points[a, 1] >= two and points[a, 2] >= cost:
            continue
        for k in range(3):
            points[kept, k] = points[a, k]
        kept += 1
    if kept < points.shape[0]:
        points[kept, 0], points[kept, 1], points[kept, 2] = one, two, cost
        return kept + 1
    nearest, least = 0, np.inf
    for a in range(kept):
        # How far below the higher of both the point that takes their places would be.
        apart = 1.0
        for k in range(3):
            value = one if k == 0 else two if k == 1 else cost
            larger = max(points[a, k], value)
            if larger > 0:
                apart *= 2 - min(points[a, k], value) / larger
        if apart < least:
            nearest, least = a, apart
    points[nearest, 0] = min(points[nearest, 0], one)
    points[nearest, 1] = min(points[nearest, 1], two)
    points[nearest, 2] = min(points[nearest, 2], cost)
    return kept


@part
def least_of_pair(
    points: FloatArray,
    count: int,
    price_one: float,
    price_two: float,
) -> float:
    """The least of cost + prices x trips over points `[P, 3]`; inf without any."""
    least = np.inf
    for a in range(count):
        cost = points[a, 2] + price_one * points[a, 0] + price_two * points[a, 1]
        least = min(least, cost)
    return least


@part
def pair_of_class(
    shape: Shape,
    kind: int,
) -> int:
    """The pair of tensors that alone rest in a class; -1 if there is none."""
    for x in range(shape.pair_one.size):
        if shape.class_rest[kind] == (1 << shape.pair_one[x]) | (1 << shape.pair_two[x]):
            return x
    return -1


@part
def follows_partner(
    shape: Shape,
    around: Around,
    level: int,
    kind: int,
) -> bool:
    """Whether the tensors that rest in a class are a pair whose points a level's slot has."""
    x = pair_of_class(shape, kind)
    if x < 0:
        return False
    both: bool = around.follows[level, shape.pair_one[x]] * around.follows[level, shape.pair_two[x]]
    return both


@part
def fill_slot_pairs(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    chain: Chain,
    level: int,
    scratch: Scratch,
    count: int,
) -> None:
    """Fills the points of a level's slot, from those of its boundary and the hulls of its slot.

    Args:
        shape: the operation.
        tiles: what fits.
        around: the assignment.
        chain: the tables.
        level: whose slot.
        scratch: with the tiles listed.
        count: how many are.
    """
    for x in range(shape.pair_one.size):
        one, two = shape.pair_one[x], shape.pair_two[x]
        for m in range(count):
            chain.slot_pairs_n[chain.slot_row[scratch.listed[m]], x] = 0
        if around.follows[level, one] == 0 or around.follows[level, two] == 0:
            continue
        for m in range(count):
            i = scratch.listed[m]
            if chain.slot_free[i] == np.inf:
                continue
            own, r = chain.row[i], chain.slot_row[i]
            found = chain.pairs_n[own, x]
            for a in range(found):
                for k in range(3):
                    chain.slot_pairs[r, x, a, k] = chain.pairs[own, x, a, k]
            ended = trips_outside(shape, tiles.extent[i], around.outer[level], scratch.trips)
            found = _end_one(
                chain.slot_pairs[r, x], found, ended, chain.slot_u[two, :, r],
                chain.slot_c[two, :, r], chain.slot_n[r, two], 0,
            )  # fmt: skip
            found = _end_one(
                chain.slot_pairs[r, x], found, ended, chain.slot_u[one, :, r],
                chain.slot_c[one, :, r], chain.slot_n[r, one], 1,
            )  # fmt: skip
            chain.slot_pairs_n[r, x] = found
        for d in range(shape.sizes.size):
            if shape.relevant[one, d] or shape.relevant[two, d]:
                continue
            for m in range(count - 1, -1, -1):
                _join_covers(shape, tiles, chain, level, scratch.listed[m], d, x)


@part
def _end_one(
    points: FloatArray,
    count: int,
    ended: float,
    us: FloatArray,
    cs: FloatArray,
    corners: int,
    which: int,
) -> int:
    """Adds points where one tensor's run ends and the other rests on, as its hull says.

    Args:
        points: `[P, 3]` taken in.
        count: how many there are.
        ended: the trips of the tensor whose run ends.
        us: trips of the other's hull.
        cs: costs of the other's hull.
        corners: how many that has.
        which: 0 if the first tensor's run ends, 1 if the second's.

    Returns:
        How many points there are.
    """
    for h in range(corners):
        one = ended if which == 0 else us[h]
        two = us[h] if which == 0 else ended
        count = insert_pair(points, count, one, two, cs[h])
    return count


@part
def _join_covers(
    shape: Shape,
    tiles: Tiles,
    chain: Chain,
    level: int,
    i: int,
    d: int,
    x: int,
) -> None:
    """Adds the points of the tiles that are a prime times larger in a dimension."""
    first = tiles.start[level]
    if chain.slot_free[i] == np.inf:
        return  # nor do they have any
    row, r = shape.divisor_start[d] + tiles.place[i, d], chain.slot_row[i]
    for k in range(shape.cover_start[row], shape.cover_start[row + 1]):
        j = covering(shape, tiles, level, i, d, k)
        if j < 0:
            continue
        other = chain.slot_row[first + j]
        found = chain.slot_pairs_n[r, x]
        for a in range(chain.slot_pairs_n[other, x]):
            found = insert_pair(
                chain.slot_pairs[r, x], found, chain.slot_pairs[other, x, a, 0],
                chain.slot_pairs[other, x, a, 1], chain.slot_pairs[other, x, a, 2],
            )  # fmt: skip
        chain.slot_pairs_n[r, x] = found


@part
def pairs_of_class(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    chain: Chain,
    crossing: Crossing,
    kind: int,
    base: float,
    there: bool,
) -> float:
    """What a class costs at least by its pairs; their points go on across the boundary.

    Args:
        shape: the operation.
        tiles: what fits.
        around: the assignment.
        chain: the tables; the boundary's take the points in, and of a class with one pair alone its
            hulls too.
        crossing: the tile.
        kind: the class.
        base: what the tensors that the class moves cost.
        there: whether its loops stand in the slot, not further out.

    Returns:
        The least; 0 where there is no pair.
    """
    level, i, j = crossing.level, crossing.inner, crossing.outer
    inside, outside = around.follows[level], around.follows[level - 1]
    alone, r = pair_of_class(shape, kind), chain.row[i]
    from_row = chain.slot_row[j] if there else chain.row[j]
    bound = 0.0
    for x in range(shape.pair_one.size):
        one, two = shape.pair_one[x], shape.pair_two[x]
        both = (1 << one) | (1 << two)
        if shape.class_rest[kind] & both != both or outside[one] * outside[two] == 0:
            continue
        price_one = around.weight[level, one] * tiles.words[i, one]
        price_two = around.weight[level, two] * tiles.words[i, two]
        more = base
        for t in range(shape.sliding.size):
            if t != one and t != two and (shape.class_rest[kind] >> t) & 1:
                trips, credit = crossing.trips, around.credit[level - 1]
                rests = least_resting(shape, t, tiles.place[j], trips, credit)
                more += around.weight[level, t] * tiles.words[i, t] * rests
        least = np.inf
        points = chain.slot_pairs[from_row, x] if there else chain.pairs[from_row, x]
        for a in range(chain.slot_pairs_n[from_row, x] if there else chain.pairs_n[from_row, x]):
            u_one, u_two = points[a, 0], points[a, 1]
            cost = points[a, 2] + more + price_one * u_one + price_two * u_two
            least = min(least, cost)
            if inside[one] and inside[two]:
                found = chain.pairs_n[r, x]
                chain.pairs_n[r, x] = insert_pair(chain.pairs[r, x], found, u_one, u_two, cost)
            if alone == x and inside[one]:
                chain.hull_n[r, one] = insert_point(
                    chain.hull_u[one, :, r],
                    chain.hull_c[one, :, r],
                    chain.hull_n[r, one],
                    u_one,
                    cost,
                )
            if alone == x and inside[two]:
                chain.hull_n[r, two] = insert_point(
                    chain.hull_u[two, :, r],
                    chain.hull_c[two, :, r],
                    chain.hull_n[r, two],
                    u_two,
                    cost,
                )
        bound = max(bound, least)
    return bound


@part
def edge_pairs(
    shape: Shape,
    around: Around,
    chain: Chain,
    level: int,
    r: int,
    ended: float,
) -> None:
    """Adds to the points of a boundary's row those where one run ends, after `ended` trips."""
    for x in range(shape.pair_one.size):
        one, two = shape.pair_one[x], shape.pair_two[x]
        if around.follows[level, one] == 0 or around.follows[level, two] == 0:
            continue
        found = _end_one(
            chain.pairs[r, x], chain.pairs_n[r, x], ended, chain.hull_u[two, :, r],
            chain.hull_c[two, :, r], chain.hull_n[r, two], 0,
        )  # fmt: skip
        chain.pairs_n[r, x] = _end_one(
            chain.pairs[r, x], found, ended, chain.hull_u[one, :, r], chain.hull_c[one, :, r],
            chain.hull_n[r, one], 1,
        )  # fmt: skip
