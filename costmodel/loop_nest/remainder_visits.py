"""Compiled: how many words enter a tile over the run of loops with remainders, by Timeloop's rule.

Timeloop simulates iterations 0, 1, n - 2 and n - 1 of every temporal loop, in the first child of
every fan-out. At each visit of a tile the words of the last visit are subtracted where the tile
has moved as it did before (displacements of the boxes' centres, rounded); where it has not, all of
its words enter, and whatever comes next is subtracted again. Here the visits of a nest of loops are
summed from the inside out, once per set of dimensions in their last pass: what happens inside
depends on that set, and on how the nest is entered: with no displacement to compare with (FRESH),
with one that its first displacement repeats (SAME), or with another (OTHER).

Letters: K temporal loops, F sets of dimensions in their last pass, A axes of a tensor.
"""

from __future__ import annotations

from costmodel.arrays.remainders import Remainders, WalkScratch
from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import NestTables
from costmodel.compiled import part
from costmodel.space import Codes

FRESH = 0
SAME = 1
OTHER = 2
KNOWN = 3


@part
def list_walk(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch, code: Codes
) -> int:
    """Lists the temporal loops of a mapping and the dimensions that have remainders.

    Returns:
        The product of all temporal factors.
    """
    rows, n, levels = scratch.rows, tables.sizes.size, tables.capacity.size
    imperfect = 0
    for d in range(n):
        walk.bit[d] = 0
        for slot in range(tables.slot_level.size):
            if remainders.rests[rows[d], slot] != tables.factors[rows[d], slot]:
                walk.bit[d] = 1 << imperfect
        imperfect += walk.bit[d] > 0
    walk.even[0] = imperfect == 0
    count = 0
    steps = 1
    steady = 1
    for level in range(levels):
        walk.upto[level] = count
        walk.steady[level] = steady
        slot = tables.temporal_slot[level]
        order = tables.order_start[0, level] + code[tables.order_column[level]]
        for position in range(n):
            d = tables.orders[order, position]
            if tables.factors[rows[d], slot] > 1:
                walk.dimension[count] = d
                walk.full[count] = tables.factors[rows[d], slot]
                walk.rest[count] = remainders.rests[rows[d], slot]
                walk.step[count] = tables.within[rows[d], slot + 1]
                walk.level[count] = level
                steps *= walk.full[count]
                steady &= walk.rest[count] > 1
                count += 1
        walk.cleared[level] = 0
        walk.idle[level] = 0
        walk.spread[level] = 0
        slot = tables.spatial_slot[level]
        if slot >= 0:
            for d in range(n):
                if tables.factors[rows[d], slot] > 1:
                    walk.spread[level] = 1
                if remainders.rests[rows[d], slot] > 1:
                    walk.cleared[level] |= walk.bit[d]
                if remainders.rests[rows[d], slot] != tables.factors[rows[d], slot]:
                    walk.idle[level] |= walk.bit[d]
    walk.upto[levels] = count
    return steps


@part
def count_runs(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch
) -> None:
    """Fills runs `[n, 2]`: iterations of a dimension's temporal loops in first children.

    Those that are not in the last pass where the innermost fan-out begins, then those that are.
    """
    levels = tables.capacity.size
    for d in range(tables.sizes.size):
        row = scratch.rows[d]
        before = 0
        last = 1
        for level in range(levels):
            slot = tables.temporal_slot[level]
            before = before * tables.factors[row, slot] + last * (remainders.rests[row, slot] - 1)
            slot = tables.spatial_slot[level]
            if level < levels - 1 and slot >= 0 and remainders.rests[row, slot] > 1:
                before += last
                last = 0
        walk.runs[d, 0] = before
        walk.runs[d, 1] = last


@part
def find_boxes(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch,
    t: int, level: int,
) -> None:  # fmt: skip
    """Fills the boxes of tensor t's tile at a level `[F, A]` and the sets that matter `[K + 1]`."""
    rows, slot = scratch.rows, tables.temporal_slot[level]
    begin = tables.axis_start[t]
    axes = tables.axis_start[t + 1] - begin
    last = walk.upto[level]
    matters = 0
    for d in range(tables.sizes.size):
        if tables.relevant[t, d] and remainders.last[rows[d], slot] != tables.within[rows[d], slot]:
            matters |= walk.bit[d]
    matters = (matters & ~walk.cleared[level - 1]) | walk.idle[level - 1]
    walk.matters[last] = matters
    for j in range(last - 1, -1, -1):
        crossed = _crossed(walk, j, level)
        matters &= ~crossed
        if walk.rest[j] != walk.full[j]:
            matters |= walk.bit[walk.dimension[j]]
        walk.matters[j] = matters
    for inside in range(walk.volume.size):
        if inside & ~walk.matters[last]:
            continue
        short = inside & ~walk.cleared[level - 1]
        volume = 1
        for a in range(axes):
            low = 0
            width = 1
            for k in range(tables.term_start[begin + a], tables.term_start[begin + a + 1]):
                d = tables.term_dimension[k]
                extent = tables.within[rows[d], slot]
                if short & walk.bit[d]:
                    extent = remainders.last[rows[d], slot]
                coefficient = tables.axis_coefficient[begin + a, d]
                width += abs(coefficient) * (extent - 1)
                low += min(0, coefficient * (extent - 1))
            walk.low[inside, a] = low
            walk.width[inside, a] = width
            volume *= width
        walk.volume[inside] = volume


@part
def _crossed(walk: WalkScratch, j: int, level: int) -> int:
    """Dimensions that leave their last pass between loop j and the next, or the tile of a level."""
    until = level - 1 if j + 1 == walk.upto[level] else walk.level[j + 1]
    cleared = 0
    for between in range(walk.level[j], until):
        cleared |= walk.cleared[between]
    return cleared


@part
def _enter(
    walk: WalkScratch, axes: int, kind: int, before: int, after: int, corners: bool, rests: bool
) -> tuple[int, int]:
    """Words that enter at a visit, from the box at `here` to that at `there`; and what is known.

    Args:
        walk: state holds the displacement to compare with, where the kind is KNOWN.
        axes: of the tensor.
        kind: what is known of the displacement before.
        before: set at the visit before.
        after: set at this one.
        corners: whether displacements are those of the boxes' corners, in place of their centres.
        rests: whether nothing enters a box that is where it was, however it came there.
    """
    same = kind != OTHER
    moves = False
    overlap = 1
    for a in range(axes):
        old = walk.here[a] + walk.low[before, a]
        new = walk.there[a] + walk.low[after, a]
        twice = 2 * (new - old) + walk.width[after, a] - walk.width[before, a]
        if corners:
            twice = 2 * (walk.there[a] - walk.here[a])
        # The centres' displacement, halves rounded away from zero.
        walk.move[a] = (twice + 1) // 2 if twice >= 0 else -((1 - twice) // 2)
        moves = moves or old != new or walk.width[before, a] != walk.width[after, a]
        same = same and (kind != KNOWN or walk.state[a] == walk.move[a])
        common = min(old + walk.width[before, a], new + walk.width[after, a]) - max(old, new)
        overlap *= max(0, common)
    if not same:
        return walk.volume[after] if moves or not rests else 0, FRESH
    for a in range(axes):
        walk.state[a] = walk.move[a]
    return walk.volume[after] - overlap, KNOWN


@part
def _through(walk: WalkScratch, axes: int, kind: int, inner: int, inside: int) -> tuple[int, int]:
    """Words that enter after the first visit of an inner nest, and what is known behind it."""
    if walk.many[inner, inside] == 0:
        return 0, kind
    if kind == KNOWN:
        kind = SAME
        for a in range(axes):
            if walk.state[a] != walk.second[inner, inside, a]:
                kind = OTHER
    for a in range(axes):
        walk.state[a] = walk.moved[inner, inside, kind, a]
    return walk.words[inner, inside, kind], walk.leaves[inner, inside, kind]


@part
def _iteration(trips: int, k: int, folded: bool, even: bool) -> tuple[int, int, int]:
    """The k-th iteration that is simulated: its index, and how often it and its inside count.

    Of a mapping without remainders iterations 0 and 1 are, the others as iteration 1.
    """
    if k == 0:
        return 0, 1, 1
    if even:
        return 1, trips - 1, trips - 1
    if k == min(trips, 4) - 1:
        return trips - 1, 1, 1
    if trips == 3:
        return 1, 1, 1
    if k == 1:
        return 1, (trips - 2 if folded else trips - 3), trips - 3
    return trips - 2, (0 if folded else 1), 1


@part
def _sum_loop(
    tables: NestTables, walk: WalkScratch, t: int, level: int, j: int, inside: int, wanted: int
) -> None:  # fmt: skip
    """Sums the visits of a tile in the nest from loop j inwards, for one set of dimensions."""
    begin = tables.axis_start[t]
    axes = tables.axis_start[t + 1] - begin
    d = walk.dimension[j]
    inner = j + 1
    ends = walk.bit[d] == 0 or (inside & walk.bit[d]) > 0
    trips = walk.rest[j] if ends else walk.full[j]
    crossed = _crossed(walk, j, level)
    kept = walk.matters[inner] & ~crossed
    # Without a fan-out between, Timeloop counts iteration n - 2 as it counts iteration 1.
    innermost = inner == walk.upto[level]
    alone = innermost and walk.level[j] == level - 1 and walk.spread[level - 1] == 0
    even = walk.even[0] > 0
    simulated = min(trips, 2 if even else 4)
    for kind in range(3):
        words = 0
        known = kind
        many = 0
        for k in range(simulated):
            index, own, within = _iteration(trips, k, alone, even)
            set_now = inside if index == trips - 1 else inside & ~walk.bit[d]
            set_now &= kept
            first = walk.first[inner, set_now]
            if k > 0:
                for a in range(axes):
                    walk.there[a] = index * tables.axis_coefficient[begin + a, d] * walk.step[j]
                entering, known = _enter(
                    walk, axes, known, walk.end[j, inside], first, False, False
                )
                if many == 0:
                    for a in range(axes):
                        walk.second[j, inside, a] = walk.move[a]
                many = 1
                if first & walk.idle[level - 1] == wanted:
                    words += own * entering
            elif walk.many[inner, set_now]:
                for a in range(axes):
                    walk.second[j, inside, a] = walk.second[inner, set_now, a]
                many = 1
            if k == 0:
                walk.first[j, inside] = first
            more, known = _through(walk, axes, known, inner, set_now)
            words += within * more
            for a in range(axes):
                walk.here[a] = (
                    index * tables.axis_coefficient[begin + a, d] * walk.step[j]
                    + walk.shift[inner, set_now, a]
                )
            walk.end[j, inside] = walk.end[inner, set_now]
        walk.many[j, inside] = many
        note_visits(walk, axes, (j, inside, kind), words, known)


@part
def note_visits(
    walk: WalkScratch, axes: int, which: tuple[int, int, int], words: int, known: int
) -> None:
    """Notes what the visits of a loop (`which`: loop, dimensions at their end, kind) came to."""
    j, inside, kind = which
    walk.words[j, inside, kind] = words
    walk.leaves[j, inside, kind] = known
    for a in range(axes):
        walk.moved[j, inside, kind, a] = walk.state[a]
        walk.shift[j, inside, a] = walk.here[a]


@part
def words_of_blocks(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch,
    t: int, level: int,
) -> int:  # fmt: skip
    """As `words_over_walk`, in closed form; -1 where there is none.

    Where tiles of a tensor never overlap and every loop outside runs at least twice, all of a tile
    enters whenever a loop over the tensor's dimensions moves it, and nothing while the loops inside
    the innermost such loop run.
    """
    if tables.sliding[t] or tables.tangled[t] or walk.idle[level - 1] or not walk.steady[level]:
        return -1
    innermost = walk.upto[level] - 1
    while innermost >= 0 and not tables.relevant[t, walk.dimension[innermost]]:
        innermost -= 1
    for d in range(walk.bit.size):
        walk.counted[d, 0] = 0
        walk.counted[d, 1] = 1
    between = 0
    for j in range(innermost + 1):
        while between < walk.level[j]:
            _leave_last_pass(walk, walk.cleared[between])
            between += 1
        d = walk.dimension[j]
        walk.counted[d, 0] = walk.counted[d, 0] * walk.full[j] + walk.counted[d, 1] * (
            walk.rest[j] - 1
        )
    while between < level:
        _leave_last_pass(walk, walk.cleared[between])
        between += 1
    words = 1
    slot = tables.temporal_slot[level]
    for d in range(walk.bit.size):
        whole, short = walk.counted[d, 0], walk.counted[d, 1]
        if tables.relevant[t, d]:
            row = scratch.rows[d]
            step = abs(tables.coefficient_of[t, d])
            whole *= 1 + step * (tables.within[row, slot] - 1)
            short *= 1 + step * (remainders.last[row, slot] - 1)
        words *= whole + short
    return words


@part
def _leave_last_pass(walk: WalkScratch, cleared: int) -> None:
    """Counts all runs of some dimensions as not in their last pass."""
    for d in range(walk.bit.size):
        if walk.bit[d] & cleared:
            walk.counted[d, 0] += walk.counted[d, 1]
            walk.counted[d, 1] = 0


@part
def _start(walk: WalkScratch, level: int) -> int:
    """Dimensions in their last pass where the loops above a level begin; fills `forced`."""
    last = walk.upto[level]
    ahead = 0
    for d in range(walk.bit.size):
        ahead |= walk.bit[d]
    until = level - 1 if last == 0 else walk.level[0]
    for between in range(until):
        ahead &= ~walk.cleared[between]
    walk.forced[0] = ahead
    for j in range(last):
        forced = walk.forced[j] & ~_crossed(walk, j, level)
        if walk.rest[j] > 1:
            forced &= ~walk.bit[walk.dimension[j]]
        walk.forced[j + 1] = forced
    start: int = ahead & walk.matters[0]
    return start


@part
def words_over_walk(tables: NestTables, walk: WalkScratch, t: int, level: int, wanted: int) -> int:
    """Words entering the first child's tile of tensor t at a level, at visits of one kind.

    Args:
        tables: the map space.
        walk: loops are listed, and boxes found for this tensor and level.
        t: the tensor.
        level: not the outermost.
        wanted: of the dimensions of which the fan-out above has fewer children in the last pass,
            those that are in it.
    """
    last = walk.upto[level]
    idle = walk.idle[level - 1]
    start = _start(walk, level)
    for j in range(last, -1, -1):
        for inside in range(walk.volume.size):
            if inside & ~walk.matters[j] or walk.forced[j] & walk.matters[j] & ~inside:
                continue
            if j < last:
                _sum_loop(tables, walk, t, level, j, inside, wanted)
                continue
            walk.many[j, inside] = 0
            walk.first[j, inside] = inside
            walk.end[j, inside] = inside
            for a in range(walk.state.size):
                walk.shift[j, inside, a] = 0
    first = walk.first[0, start]
    words = 0
    if first & idle == wanted:
        words += walk.volume[first]
    if walk.many[0, start]:
        words += walk.words[0, start, FRESH]
    return words
