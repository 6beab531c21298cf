"""Compiled: the loop orders of a tiling, by the model's own counting of the words that enter tiles.

Loops are placed one by one from the inside out. A pair of a level and a tensor is *open* as long as
where the next loops stand can matter to it: it rests while nothing has moved it, or its windows
slide along one axis. Once no pair is open the rest of a level's loops may stand in any order.

Letters: L levels, n dimensions, T tensors, P = L x T pairs, K loops above the innermost level.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.compiled.by_reference import by_reference
from costmodel.exact_any.handing import NEVER, UNKNOWN, axis_terms, hand_on, may_hand_on
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tiles import FloatArray

SLACK = 1e-12
"""What is closer than this share counts as equal."""

UNSEEN, RESTING, SLIDING, CLOSED = range(4)
DEPTH = 160


@by_reference
class Tiling(NamedTuple):
    """One tiling.

    tile and step `[L, n]` extents of a level and of its children together; trips `[L, n]` of the
    temporal loops between; beyond `[L, n]` products of the trips of the levels outside; words
    `[L, T]`; weight `[L + 1, T]`; matters `[L, T]` 1 where the words that enter decide what a
    mapping costs; rank `[L, n]` loops of a lower one stand inside the others; rough the tensors, as
    bits, of which fewer words can cost more, so that no way to enter their tiles is passed over;
    links `[L, T]` 1 where neighbours may hand on what enters tiles, or MACS; more `[L, T]` what a
    word costs beside its weight where they do not.
    """

    tile: Array
    step: Array
    trips: Array
    beyond: FloatArray
    words: FloatArray
    weight: FloatArray
    matters: Array
    rank: Array
    rough: int
    links: Array
    more: FloatArray


@by_reference
class Wanted(NamedTuple):
    """What a mapping must be below, and what decides it beside the energy of words that enter.

    energy: pJ, at cycles, which all mappings take; power: of cycles beside one of energy, so that
    energy x (its cycles / cycles)^power is to be below it; most: cycles that it may take; fixed: pJ
    that no order decides, with what leaks in computing cycles; leakage: pJ per further cycle;
    waiting: cycles on top of those of a port; ports `[P, L, T]` cycles of each limited port per
    word that enters a tile, own `[P]` those that no order decides.
    """

    energy: float
    cycles: float
    power: float
    most: float
    fixed: float
    computing: float
    leakage: float
    waiting: float
    ports: FloatArray
    own: FloatArray


@by_reference
class Places(NamedTuple):
    """Scratch of the search, a row per loop placed.

    level, left, tried, placed `[DEPTH]`: the level whose loops are placed, which are left (bits),
    which were tried, how many stand; rest `[DEPTH]` trips of all loops that do not stand yet;
    status, first, moved `[DEPTH, P]`: of a pair, the axis of its innermost loop and the one moved
    since (-1: none); one, far `[DEPTH, P]` how far the innermost loop moves, and all together; new,
    total `[DEPTH, P]` words charged for a credited step, and in all so far; sequence `[DEPTH]` the
    dimensions that stand, innermost first; busy `[ports]` cycles;
    handing `[DEPTH, P]` whether neighbours hand words on.
    """

    level: Array
    left: Array
    tried: Array
    placed: Array
    rest: FloatArray
    status: Array
    first: Array
    moved: Array
    one: Array
    far: Array
    new: FloatArray
    total: FloatArray
    sequence: Array
    busy: FloatArray
    handing: Array


def make_places(levels: int, tensors: int, ports: int) -> Places:
    """Scratch for machines of so many levels and limited ports."""
    pairs = levels * tensors
    level, left, tried, placed, sequence = (np.zeros(DEPTH, np.int64) for _ in range(5))
    status, first, moved, one, far, handing = (np.zeros((DEPTH, pairs), np.int64) for _ in range(6))
    new, total = (np.zeros((DEPTH, pairs)) for _ in range(2))
    rest, busy = np.zeros(DEPTH), np.zeros(ports)
    return Places(
        level, left, tried, placed, rest, status, first, moved, one, far, new, total, sequence,
        busy, handing,
    )  # fmt: skip


@part
def _left_trips(
    tiling: Tiling,
    level: int,
    left: int,
    d: int,
) -> float:
    """Trips over a dimension of all loops that do not stand yet."""
    trips: float = tiling.beyond[level, d]
    if (left >> d) & 1:
        trips *= tiling.trips[level, d]
    return trips


@part
def _least_words(
    shape: Shape,
    tiling: Tiling,
    places: Places,
    row: int,
    pair: int,
) -> float:
    """Words that a pair is charged for at least, however the loops that are left stand."""
    tensors = shape.sliding.size
    level, t = pair // tensors, pair % tensors
    status, total = places.status[row, pair], places.total[row, pair]
    if status == CLOSED:
        closed: float = total
        return closed
    words = tiling.words[level, t]
    here = places.level[row]
    if level <= here:
        # Its loops begin further out.
        here, left = level - 1, (1 << shape.sizes.size) - 1
    else:
        left = places.left[row]
    product = 1.0
    if status == SLIDING:
        axis = places.moved[row, pair]
        for d in range(shape.sizes.size):
            if shape.axis_of[t, d] != axis:
                product *= _left_trips(tiling, here, left, d)
        new = places.new[row, pair]
        sliding: float = total + (places.rest[row] - 1) * new + (words - new) * (product - 1)
        return sliding
    if shape.sliding[t] == 0:
        for d in range(shape.sizes.size):
            if shape.relevant[t, d]:
                product *= _left_trips(tiling, here, left, d)
    resting: float = total + words * (product - 1)
    return resting


@part
def _place_for_pair(
    shape: Shape,
    tiling: Tiling,
    places: Places,
    row: int,
    pair: int,
    d: int,
    trip: int,
    outside: float,
) -> None:
    """What a loop over dimension d, with so many trips outside it, means for an open pair."""
    tensors = shape.sliding.size
    level, t = pair // tensors, pair % tensors
    words = tiling.words[level, t]
    axis, terms = shape.axis_of[t, d], axis_terms(shape, t, d)
    step = 0
    if axis >= 0:
        step = shape.coefficient_of[t, d] * tiling.step[places.level[row], d]
    status = places.status[row, pair]
    if status == UNSEEN:
        places.first[row, pair] = places.moved[row, pair] = axis
        places.one[row, pair] = places.far[row, pair] = step
        new = 0.0
        if axis >= 0:
            place = shape.axis_start[t] + axis
            width = 1
            for k in range(shape.term_start[place], shape.term_start[place + 1]):
                inside = tiling.tile[level, shape.term_dimension[k]] - 1
                width += shape.term_coefficient[k] * inside
            new = words / width * min(width, step)
        places.new[row, pair] = new
        places.total[row, pair] += (trip - 1) * outside * new
        if axis < 0:
            places.status[row, pair] = RESTING
        elif terms > 1:
            places.status[row, pair] = SLIDING
        else:
            places.status[row, pair] = CLOSED
    elif axis < 0:
        if status == SLIDING:
            places.total[row, pair] += (trip - 1) * outside * words
    elif status == RESTING:
        places.total[row, pair] += (trip - 1) * outside * words
        places.moved[row, pair], places.far[row, pair] = axis, step
        places.status[row, pair] = SLIDING if terms > 1 else CLOSED
    elif axis == places.moved[row, pair]:
        wanted = places.far[row, pair]
        if places.first[row, pair] >= 0:
            wanted += places.one[row, pair]
        charged = places.new[row, pair] if step == wanted else words
        places.total[row, pair] += (trip - 1) * outside * charged
        places.far[row, pair] += step
    else:
        places.total[row, pair] += (trip - 1) * outside * words
        places.status[row, pair] = CLOSED
    if places.status[row, pair] == CLOSED:
        places.total[row, pair] += (outside - 1) * words


@part
def _is_open(
    shape: Shape,
    tiling: Tiling,
    places: Places,
    row: int,
    pair: int,
) -> bool:
    """Whether the next loop can matter to a pair."""
    tensors = shape.sliding.size
    level = pair // tensors
    if level <= places.level[row] or tiling.matters[level, pair % tensors] == 0:
        return False
    open_: bool = places.status[row, pair] != CLOSED
    return open_


@part
def _signature(
    shape: Shape,
    tiling: Tiling,
    places: Places,
    row: int,
    d: int,
) -> int:
    """What a loop over a dimension would close: bits of tensors; -1 where it is like no other.

    Also -2 where it moves nothing that is open, and may stand next without a choice.
    """
    tensors = shape.sliding.size
    closes = 0
    moves = False
    alone = False
    slides = False
    for pair in range(tensors, places.status.shape[1]):
        if not _is_open(shape, tiling, places, row, pair):
            continue
        t = pair % tensors
        status = places.status[row, pair]
        terms = axis_terms(shape, t, d)
        if status == SLIDING:
            slides = True
            if terms == 0 or shape.axis_of[t, d] == places.moved[row, pair]:
                alone = True
            else:
                closes |= 1 << t
        elif terms == 0:
            slides = slides or (status == UNSEEN and shape.sliding[t] > 0)
        elif terms > 1:
            alone = True
        else:
            closes |= 1 << t
        moves = moves or terms > 0
    if alone:
        return -1
    if not moves and not slides:
        return -2
    return closes


@part
def _innermost(
    tiling: Tiling,
    level: int,
    left: int,
) -> int:
    """The dimensions, as bits, whose rank lets them stand next."""
    least = 1 << 30
    chosen = 0
    for d in range(tiling.rank.shape[1]):
        if (left >> d) & 1 and tiling.rank[level, d] <= least:
            if tiling.rank[level, d] < least:
                chosen = 0
            least = tiling.rank[level, d]
            chosen |= 1 << d
    return chosen


@part
def _is_rough(
    shape: Shape,
    tiling: Tiling,
    places: Places,
    row: int,
) -> bool:
    """Whether a pair is open of a tensor of which fewer words can cost more."""
    tensors = shape.sliding.size
    if tiling.rough:
        for pair in range(tensors, places.status.shape[1]):
            rough = (tiling.rough >> (pair % tensors)) & 1
            if rough and _is_open(shape, tiling, places, row, pair):
                return True
    return False


@part
def _choices(
    shape: Shape,
    tiling: Tiling,
    places: Places,
    row: int,
) -> int:
    """The dimensions of which one is to be tried next, as bits: one of each kind."""
    n = shape.sizes.size
    left = _innermost(tiling, places.level[row], places.left[row])
    if _is_rough(shape, tiling, places, row) or may_hand_on(tiling, places, row):
        return left
    chosen = 0
    for d in range(n):
        if not (left >> d) & 1:
            continue
        kind = _signature(shape, tiling, places, row, d)
        if kind == -2:
            return 1 << d
        new = True
        if kind >= 0:
            for e in range(d):
                if (chosen >> e) & 1 and _signature(shape, tiling, places, row, e) == kind:
                    new = False
        if new:
            chosen |= 1 << d
    return chosen


@part
def _settle(
    shape: Shape,
    tiling: Tiling,
    places: Places,
    row: int,
) -> bool:
    """Goes on to the loops that matter, placing those that do not; True where all stand."""
    n = shape.sizes.size
    while True:
        matters = may_hand_on(tiling, places, row)
        for pair in range(places.status.shape[1]):
            matters = matters or _is_open(shape, tiling, places, row, pair)
        if not matters:
            while places.left[row]:
                first = _innermost(tiling, places.level[row], places.left[row])
                places.left[row] &= ~first
                for d in range(n):
                    if (first >> d) & 1:
                        places.sequence[places.placed[row]] = d
                        places.placed[row] += 1
                        places.rest[row] /= tiling.trips[places.level[row], d]
        if places.left[row]:
            places.tried[row] = ~_choices(shape, tiling, places, row)
            return False
        if places.level[row] == 0:
            return True
        places.level[row] -= 1
        level = places.level[row]
        for d in range(n):
            if tiling.trips[level, d] > 1:
                places.left[row] |= 1 << d


@part
def _begin(
    shape: Shape,
    tiling: Tiling,
    places: Places,
) -> None:
    """The first row: no loop stands."""
    levels, n = tiling.tile.shape
    tensors = shape.sliding.size
    places.level[0], places.left[0], places.placed[0] = levels - 1, 0, 0
    places.rest[0] = 1.0
    for d in range(n):
        places.rest[0] *= tiling.beyond[levels - 1, d]
    for pair in range(levels * tensors):
        places.status[0, pair] = UNSEEN
        places.total[0, pair] = tiling.words[pair // tensors, pair % tensors]
        places.handing[0, pair] = UNKNOWN


@part
def _cost(
    shape: Shape,
    tiling: Tiling,
    places: Places,
    row: int,
    wanted: Wanted,
) -> float:
    """The energy at the wanted cycles that mappings need at least, given the loops that stand."""
    tensors, ports = shape.sliding.size, wanted.own.size
    energy = wanted.fixed
    for p in range(ports):
        places.busy[p] = wanted.own[p]
    for pair in range(tensors, places.status.shape[1]):
        level, t = pair // tensors, pair % tensors
        weight = tiling.weight[level, t]
        if places.handing[row, pair] == NEVER:
            weight += tiling.more[level, t]
        counts = weight > 0
        for p in range(ports):
            counts = counts or wanted.ports[p, level, t] > 0
        if not counts:
            continue
        words = _least_words(shape, tiling, places, row, pair)
        energy += weight * words
        for p in range(ports):
            places.busy[p] += wanted.ports[p, level, t] * words
    slow = wanted.cycles
    for p in range(ports):
        slow = max(slow, math.ceil(places.busy[p] * (1 - SLACK)) + wanted.waiting)
    if slow > wanted.most:
        return math.inf
    energy += wanted.leakage * (slow - wanted.computing)
    if slow > wanted.cycles:
        energy *= (slow / wanted.cycles) ** wanted.power
    return energy


@lean
def search_orders(
    shape: Shape,
    tiling: Tiling,
    places: Places,
    wanted: Wanted,
    single: bool,
    skip: int,
    found: Array,
    costs: FloatArray,
) -> int:
    """Lists orders of loops whose cost is below what is wanted.

    Args:
        shape: the operation.
        tiling: its tiling.
        places: scratch.
        wanted: what they are to be below.
        single: keep the best one only, and look for what is below it from then on.
        skip: orders to pass over, which an earlier call has listed.
        found: `[m, K]` takes the dimensions of all loops, innermost first.
        costs: `[m]` takes their energy at the wanted cycles; less than what they really need, with
            blocks or networks.

    Returns:
        How many were found; more than m were cut off where it is m and not `single`.
    """
    row = 0
    count = 0
    seen = 0
    limit = wanted.energy
    _begin(shape, tiling, places)
    if _settle(shape, tiling, places, 0):
        cost = _cost(shape, tiling, places, 0, wanted)
        if cost < limit and skip == 0:
            costs[0] = cost
            for k in range(places.placed[0]):
                found[0, k] = places.sequence[k]
            return 1
        return 0
    while row >= 0:
        d = 0
        while d < shape.sizes.size and (places.tried[row] >> d) & 1:
            d += 1
        if d == shape.sizes.size:
            row -= 1
            continue
        places.tried[row] |= 1 << d
        _stand(shape, tiling, places, row, d)
        row += 1
        done = _settle(shape, tiling, places, row)
        cost = _cost(shape, tiling, places, row, wanted)
        if cost < limit and not done:
            continue
        row -= 1
        if cost >= limit:
            continue
        seen += 1
        if seen <= skip:
            continue
        place = 0 if single else count
        costs[place] = cost
        for k in range(places.placed[row + 1]):
            found[place, k] = places.sequence[k]
        if single:
            limit = cost
            count = 1
        else:
            count += 1
            if count == costs.size:
                return count
    return count


@part
def _stand(
    shape: Shape,
    tiling: Tiling,
    places: Places,
    row: int,
    d: int,
) -> None:
    """Writes the next row: a loop over dimension d stands."""
    level = places.level[row]
    trip = tiling.trips[level, d]
    after = row + 1
    places.level[after] = level
    places.left[after] = places.left[row] & ~(1 << d)
    places.sequence[places.placed[row]] = d
    places.placed[after] = places.placed[row] + 1
    places.rest[after] = places.rest[row] / trip
    for pair in range(places.status.shape[1]):
        places.status[after, pair] = places.status[row, pair]
        places.first[after, pair] = places.first[row, pair]
        places.moved[after, pair] = places.moved[row, pair]
        places.one[after, pair] = places.one[row, pair]
        places.far[after, pair] = places.far[row, pair]
        places.new[after, pair] = places.new[row, pair]
        places.total[after, pair] = places.total[row, pair]
        places.handing[after, pair] = places.handing[row, pair]
        if _is_open(shape, tiling, places, row, pair):
            _place_for_pair(shape, tiling, places, after, pair, d, trip, places.rest[after])
    hand_on(shape, tiling, places, after, d, level)
