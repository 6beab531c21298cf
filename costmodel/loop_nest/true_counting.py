"""Compiled: what a mapping with remainders really does, element by element.

Timeloop counts the first child of every fan-out and takes the others for its equals: seven rows on
two children of four are eight. Here every child is walked through its own loops, pass by pass, by
the same rule of what enters a tile, but that corners tell how a tile has moved: the centre of a
shorter one moves otherwise; and a tile that is where it was takes nothing in. Of a dimension
children differ in few ways only: in the last pass those ahead of its end are full, one is the last,
those behind it wait. So they are counted by kinds.

A read serves all children of an instance that hold the same tile, and of those that differ only in
dimensions that the tensor has not, what the first of them needs: it works whenever any of them
does. Words of one place in a sliding window are shared among children of the same kinds.

Letters: n dimensions, L levels, T tensors, A axes of a tensor, Q kinds of children of a dimension.
"""

from __future__ import annotations

import numpy as np

from costmodel.arrays.projections import GROUPS_OF_VECTORS, GROUPS_PER_CHILD, PART_OF_INPUT
from costmodel.arrays.remainders import Remainders, WalkScratch
from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import NestTables
from costmodel.compiled import part
from costmodel.costs import FloatArray
from costmodel.loop_nest.cost_kernel import CostArrays, DetailArrays, _level_cycles
from costmodel.loop_nest.remainder_visits import (
    FRESH,
    KNOWN,
    _enter,
    _start,
    _through,
    find_boxes,
    note_visits,
    words_of_blocks,
)
from costmodel.loop_nest.spatial_groups import distinct_sums, sort, tile_key


@part
def _add_kind(
    tables: NestTables, scratch: Scratch, walk: WalkScratch,
    place: tuple[int, int, int], passes: int, children: int, leads: int,
) -> None:  # fmt: skip
    """Adds a kind of children that no longer meet the end of a dimension from a fan-out inwards.

    Args:
        tables: the map space.
        scratch: its rows.
        walk: length and leads of the new kind hold what is further out.
        place: the dimension, the level that fans out, and the level up to which passes are counted.
        passes: through the loops outside the fan-out.
        children: there, of this kind.
        leads: whether the first child is among them.
    """
    d, at, level = place
    if children == 0 or passes == 0:
        return
    q = walk.kinds[d]
    walk.length[d, q, at], walk.leads[d, q, at] = children, leads
    for inner in range(at + 1, level):
        passes *= tables.factors[scratch.rows[d], tables.temporal_slot[inner]]
        slot = tables.spatial_slot[inner]
        factor = tables.factors[scratch.rows[d], slot] if slot >= 0 else 1
        walk.length[d, q, inner], walk.leads[d, q, inner] = factor, 1
    walk.passes[d, q] = passes
    walk.short[d, q] = 0
    walk.kinds[d] += 1
    for outer in range(at):
        walk.length[d, q + 1, outer] = walk.length[d, q, outer]
        walk.leads[d, q + 1, outer] = walk.leads[d, q, outer]


@part
def list_kinds(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch, level: int
) -> int:
    """Lists the kinds of instances of a level per dimension; L: of multiply-accumulate units.

    Returns:
        Instances that have any work.
    """
    working = 1
    for d in range(tables.sizes.size):
        row = scratch.rows[d]
        walk.kinds[d] = 0
        whole = 1
        for slot in range(tables.slot_level.size):
            whole *= tables.factors[row, slot]
        before = 0
        ends = True
        for at in range(level):
            slot = tables.temporal_slot[at]
            before = before * tables.factors[row, slot] + remainders.rests[row, slot] - 1
            whole //= tables.factors[row, slot]
            slot = tables.spatial_slot[at]
            q = walk.kinds[d]
            walk.length[d, q, at] = walk.leads[d, q, at] = 1
            if slot < 0 or tables.factors[row, slot] == 1:
                continue
            full, rest = tables.factors[row, slot], remainders.rests[row, slot]
            whole //= full
            ends = remainders.last[row, slot + 1] != whole
            ahead = rest - 1 if ends else rest
            _add_kind(tables, scratch, walk, (d, at, level), before + 1, ahead, 1)
            _add_kind(tables, scratch, walk, (d, at, level), before, full - rest, 0)
            if not ends:
                break
            q = walk.kinds[d]
            walk.length[d, q, at], walk.leads[d, q, at] = 1, rest == 1
        if ends:
            q = walk.kinds[d]
            walk.passes[d, q] = before + 1
            walk.short[d, q] = whole != remainders.last[row, tables.temporal_slot[level]] if (
                level < tables.capacity.size
            ) else 0  # fmt: skip
            walk.kinds[d] += 1
        found = 0
        for q in range(walk.kinds[d]):
            found += _members(walk, d, q, level)
        working *= found
    return working


@part
def _members(walk: WalkScratch, d: int, q: int, level: int) -> int:
    """Instances of a level that are of a kind in one dimension."""
    members = 1
    for at in range(level):
        members *= walk.length[d, q, at]
    return members


@part
def _leads(walk: WalkScratch, d: int, q: int, level: int) -> int:
    """1 if the first instance of a level is of a kind."""
    leads = 1
    for at in range(level):
        leads *= walk.leads[d, q, at]
    return leads


@part
def _take_kinds(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch, level: int
) -> None:
    """Lays the loops outside a level out as the chosen kinds of instances run through them."""
    n = tables.sizes.size
    for d in range(n):
        walk.place[d] = walk.passes[d, walk.chosen[d]] - 1
        walk.bit[d] = walk.short[d, walk.chosen[d]]
    steady = 1
    for j in range(walk.upto[level] - 1, -1, -1):
        d, full = walk.dimension[j], walk.full[j]
        walk.rest[j] = walk.place[d] % full + 1
        walk.place[d] //= full
        walk.bit[d] |= walk.rest[j] != full
        steady &= walk.rest[j] > 1
    walk.steady[level] = steady
    walk.even[0] = 1
    for at in range(level):
        walk.cleared[at] = 0
    slot = tables.temporal_slot[level]
    bit = 1
    for d in range(n):
        row = scratch.rows[d]
        if walk.bit[d] or remainders.last[row, slot] != tables.within[row, slot]:
            walk.even[0] &= walk.bit[d] == 0
            walk.bit[d] = bit
            bit <<= 1
            if walk.short[d, walk.chosen[d]] == 0:
                walk.cleared[level - 1] |= walk.bit[d]


@part
def _sum_passes(tables: NestTables, walk: WalkScratch, t: int, j: int, inside: int) -> None:
    """As `remainder_visits._sum_loop`, of every pass of a loop, until passes repeat each other.

    Instances without remainders are counted as those of a perfect mapping.
    """
    begin = tables.axis_start[t]
    axes = tables.axis_start[t + 1] - begin
    d = walk.dimension[j]
    inner = j + 1
    kept = walk.matters[inner]
    trips = walk.full[j]
    if walk.bit[d] == 0 or (inside & walk.bit[d]) > 0:
        trips = walk.rest[j]
    for kind in range(3):
        words = many = k = 0
        known = kind
        while k < trips:
            set_now = (inside if k == trips - 1 else inside & ~walk.bit[d]) & kept
            came, added = known, 0
            for a in range(axes):
                walk.came[a] = walk.state[a]
            if k > 0:
                for a in range(axes):
                    walk.there[a] = k * tables.axis_coefficient[begin + a, d] * walk.step[j]
                first = walk.first[inner, set_now]
                before, rests = walk.end[j, inside], not walk.even[0]
                added, known = _enter(walk, axes, known, before, first, True, rests)
                if many == 0:
                    for a in range(axes):
                        walk.second[j, inside, a] = walk.move[a]
                many = 1
            else:
                walk.first[j, inside] = walk.first[inner, set_now]
                if walk.many[inner, set_now]:
                    for a in range(axes):
                        walk.second[j, inside, a] = walk.second[inner, set_now, a]
                    many = 1
            more, known = _through(walk, axes, known, inner, set_now)
            words += added + more
            same = k > 0 and known == came and k < trips - 2
            for a in range(axes):
                same = same and (known != KNOWN or walk.came[a] == walk.state[a])
            if same and not walk.even[0]:
                words += (trips - 2 - k) * (added + more)
                k = trips - 2
            for a in range(axes):
                offset = k * tables.axis_coefficient[begin + a, d] * walk.step[j]
                walk.here[a] = offset + walk.shift[inner, set_now, a]
            walk.end[j, inside] = walk.end[inner, set_now]
            k += 1
            if walk.even[0] and k == 2:
                # As of a perfect mapping, of which Timeloop takes further passes for the second.
                words += (trips - 2) * (added + more)
                break
        walk.many[j, inside] = many
        note_visits(walk, axes, (j, inside, kind), words, known)


@part
def _words_entering(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch,
    t: int, level: int,
) -> int:  # fmt: skip
    """Words that enter a tile of the chosen kinds over the run; L: steps of such a unit."""
    if level == tables.capacity.size:
        steps = 1
        for d in range(tables.sizes.size):
            steps *= walk.passes[d, walk.chosen[d]]
        return steps
    _take_kinds(tables, remainders, scratch, walk, level)
    blocks: int = words_of_blocks(tables, remainders, scratch, walk, t, level)
    if blocks >= 0:
        return blocks
    find_boxes(tables, remainders, scratch, walk, t, level)
    last = walk.upto[level]
    start = _start(walk, level)
    for j in range(last, -1, -1):
        for inside in range(walk.volume.size):
            if inside & ~walk.matters[j] or walk.forced[j] & walk.matters[j] & ~inside:
                continue
            if j < last:
                _sum_passes(tables, walk, t, j, inside)
                continue
            walk.many[j, inside] = 0
            walk.first[j, inside] = inside
            walk.end[j, inside] = inside
            for a in range(walk.state.size):
                walk.shift[j, inside, a] = 0
    words: int = walk.volume[walk.first[0, start]]
    if walk.many[0, start]:
        words += walk.words[0, start, FRESH]
    return words


@part
def _groups(tables: NestTables, scratch: Scratch, walk: WalkScratch, t: int, at: int) -> int:
    """Reads for the children of the chosen kinds of one instance, per read of one of them."""
    slot = tables.spatial_slot[at]
    if slot < 0:
        return 1
    groups = 1
    apart = tables.grouping[at, t] == GROUPS_PER_CHILD
    for d in range(tables.sizes.size):
        length = walk.length[d, walk.chosen[d], at]
        if apart:
            groups *= length
        elif not tables.relevant[t, d]:
            groups *= walk.leads[d, walk.chosen[d], at]
    if apart or groups == 0:
        return groups
    simple = tables.grouping[at, t] != GROUPS_OF_VECTORS
    together = 1
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        moving = length = step = 1
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            d = tables.term_dimension[k]
            more = walk.length[d, walk.chosen[d], at]
            if more == 1:
                continue
            further = tables.term_coefficient[k] * tables.within[scratch.rows[d], slot + 1]
            simple = simple and moving <= 2
            if moving == 1:
                length, step = more, further
            else:
                length = distinct_sums(length, step, more, further)
            moving += 1
        together *= length
    if not simple:
        together = _distinct_tiles(tables, scratch, walk, t, at)
    found: int = groups * together
    return found


@part
def _distinct_tiles(
    tables: NestTables, scratch: Scratch, walk: WalkScratch, t: int, at: int
) -> int:
    """Different places of the tiles of children of the chosen kinds, by listing them."""
    keys, index = scratch.children, walk.place
    count = 1
    for d in range(tables.sizes.size):
        index[d] = 0
        if tables.relevant[t, d]:
            count *= walk.length[d, walk.chosen[d], at]
    for child in range(count):
        rest = child
        for d in range(tables.sizes.size):
            if tables.relevant[t, d]:
                index[d] = rest % walk.length[d, walk.chosen[d], at]
                rest //= walk.length[d, walk.chosen[d], at]
        keys[child] = tile_key(tables, t, tables.spatial_slot[at], scratch.rows, index)
    sort(keys, count)
    distinct = 1
    for i in range(1, count):
        distinct += keys[i] != keys[i - 1]
    return distinct


@part
def _pass_words(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch,
    t: int, above: int, level: int,
) -> None:  # fmt: skip
    """Adds what passes from a level to the next one inside that keeps a tensor; L: to the units.

    Reads of the one and fills of the other, of all instances and of the first; kinds are listed.
    """
    n = tables.sizes.size
    for d in range(n):
        walk.chosen[d] = 0
    while True:
        members = outside = leads = leading = 1
        for d in range(n):
            members *= _members(walk, d, walk.chosen[d], level)
            outside *= _members(walk, d, walk.chosen[d], above)
            leads *= _leads(walk, d, walk.chosen[d], level)
            leading *= _leads(walk, d, walk.chosen[d], above)
        words = _words_entering(tables, remainders, scratch, walk, t, level)
        groups = 1
        for at in range(above, level):
            groups *= _groups(tables, scratch, walk, t, at)
        scratch.counts[0, above, t] += outside * groups * words
        walk.busiest[0, above, t] += leading * groups * words
        if level < tables.capacity.size:
            scratch.counts[1, level, t] += members * words
            walk.busiest[1, level, t] += leads * words
        d = 0
        while d < n and walk.chosen[d] + 1 == walk.kinds[d]:
            walk.chosen[d] = 0
            d += 1
        if d == n:
            return
        walk.chosen[d] += 1


@part
def _first_words(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch,
    t: int, level: int,
) -> tuple[int, int]:  # fmt: skip
    """Words of an output that an instance is the first to see, of all instances and of the first.

    Every axis of the output is one dimension.
    """
    slot = tables.temporal_slot[level]
    words = first = 1
    for d in range(tables.sizes.size):
        row = scratch.rows[d]
        here = begin = 0
        for q in range(walk.kinds[d]):
            seen = 1
            if tables.relevant[t, d]:
                seen = walk.passes[d, q] * tables.within[row, slot]
                if walk.short[d, q]:
                    seen -= tables.within[row, slot] - remainders.last[row, slot]
            here += seen * _members(walk, d, q, level)
            begin += seen * _leads(walk, d, q, level)
        words *= here
        first *= begin
    return words, first


@part
def _count(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch, t: int
) -> None:
    """Fills counts `[3, L]` of a tensor, of all instances together, and busiest, of the first."""
    levels = tables.capacity.size
    above = -1
    for level in range(levels + 1):
        if level < levels:
            for action in range(3):
                scratch.counts[action, level, t] = walk.busiest[action, level, t] = 0
            if not scratch.kept[level, t]:
                continue
        working = list_kinds(tables, remainders, scratch, walk, level)
        if above >= 0:
            _pass_words(tables, remainders, scratch, walk, t, above, level)
        if level < levels:
            walk.working[level] = working
            if tables.part_kind[t] != PART_OF_INPUT:
                new, first = _first_words(tables, remainders, scratch, walk, t, level)
                # Reads that are left out; what the level inside asks for is added to them.
                scratch.counts[0, level, t], walk.busiest[0, level, t] = -new, -first
                scratch.counts[2, level, t], walk.busiest[2, level, t] = new, first
                if above >= 0 and not tables.machine.charged:
                    scratch.counts[1, level, t] -= new
                    walk.busiest[1, level, t] -= first
        above = level
    if tables.part_kind[t] != PART_OF_INPUT:
        for level in range(levels):
            scratch.counts[2, level, t] += scratch.counts[0, level, t]
            walk.busiest[2, level, t] += walk.busiest[0, level, t]


@part
def _charge(
    tables: NestTables, scratch: Scratch, walk: WalkScratch, level: int, t: int
) -> tuple[float, float]:
    """Energy of a level and a tensor, pJ: its accesses, and its addresses.

    In the order of `cost_kernel`, so that what has no remainders costs the same there.
    """
    machine, counts = tables.machine, scratch.counts
    if not machine.separate:
        accesses = counts[0, level, t] + counts[1, level, t] + counts[2, level, t]
        return accesses * tables.energy[level], 0.0
    working = walk.working[level]
    parts, block = machine.parts[level, t], machine.block[level, t]
    clusters = min(working, machine.clusters[level])
    charge = 0.0
    for action in range(3):
        # Of an instance on average; rounded up once.
        accesses = counts[action, level, t] / working * parts
        if block > 1:
            accesses = np.ceil(accesses / block)
        charge += accesses * machine.action[level, action]
    addressed = counts[1, level, t]
    addressed += counts[0 if tables.part_kind[t] == PART_OF_INPUT else 2, level, t]
    return charge * clusters, machine.address[level] * clusters * (addressed / working)


@part
def cost_truly(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch,
    b: int, costs: CostArrays, details: DetailArrays, macs: FloatArray,
) -> None:  # fmt: skip
    """Cost of the b-th mapping, whose loops are listed, as every element does its own work."""
    levels, tensors = tables.capacity.size, tables.sliding.size
    for level in range(levels):
        walk.cleared[level] = walk.idle[level] = 0
        walk.working[level] = list_kinds(tables, remainders, scratch, walk, level)
    list_kinds(tables, remainders, scratch, walk, levels)
    steps = tables.machine.cycles_per_mac
    for d in range(tables.sizes.size):
        longest = 0
        for q in range(walk.kinds[d]):
            longest = max(longest, walk.passes[d, q])
        steps *= longest
    for t in range(tensors):
        _count(tables, remainders, scratch, walk, t)
    macs[b] = tables.macs
    total = tables.macs * tables.mac_energy
    slowest = float(steps)
    for level in range(levels):
        accesses = 0
        energy = 0.0
        for t in range(tensors):
            charge, address = _charge(tables, scratch, walk, level, t)
            energy += charge + address
            for action in range(3):
                accesses += scratch.counts[action, level, t]
            if details.tiles.shape[0] > 0:
                details.tiles[b, level, t] = scratch.tile[level, t]
                details.charges[b, 0, level, t], details.charges[b, 1, level, t] = charge, address
                for action in range(3):
                    details.counts[b, action, level, t] = scratch.counts[action, level, t]
            width = tables.machine.words[level, t]
            written = walk.busiest[1, level, t] + walk.busiest[2, level, t]
            scratch.reading[level] += width * walk.busiest[0, level, t] / steps
            scratch.writing[level] += width * written / steps
        total += energy if tables.machine.separate else accesses * tables.energy[level]
        cycles = _level_cycles(tables, scratch, level, steps)
        slowest = max(slowest, cycles)
        if details.tiles.shape[0] > 0:
            details.instances[b, level] = walk.working[level]
            details.cycles[b, level] = cycles
    slowest += tables.machine.waiting
    if tables.machine.separate:
        for level in range(levels):
            total += tables.machine.leakage[level] * slowest * scratch.above[level]
        units = scratch.above[levels - 1] * scratch.spread[levels - 1]
        total += tables.machine.leakage[levels] * slowest * units
    costs.energy[b] = total
    costs.latency[b] = slowest
