"""Compiled proposals of the structured searcher for machines beyond the first ones.

On machines whose levels hold one tensor each, or that fan out at several levels, a mapping is
mostly decided by which prime stands in which slot. A new mapping uses every fan-out, width and
height apart, and fills the levels from the innermost outwards. A move takes a prime from one slot
to another; where that makes a fan-out or a level too small, primes that stand in the way go back
where the first came from, until all fits. Loop orders are reuse classes, as on other machines.

Letters as in `searchers.compiled.structured_moves`.
"""

from __future__ import annotations

from costmodel.arrays.feasibility import beyond_mesh, locate
from costmodel.arrays.tables import NestTables
from costmodel.compiled import part
from costmodel.map_space.moves import order_index
from costmodel.space import Codes
from searchers.compiled.random_numbers import below, copy, uniform
from searchers.compiled.structured_orders import (
    draw_looped,
    draw_resting,
    draw_skippable,
    draw_vector,
    kept_mask,
    place_spatial,
    settle_order,
    write_factors,
    write_kept,
)
from searchers.compiled.structured_state import ATTEMPTS, Choices, Workspace
from searchers.compiled.structured_tiles import grow, level_fits, measure, shift

# Cumulative shares of the moves; the rest of 1 fills a level anew.
_REORDER = 0.20
_SHIFT = 0.70
_SPATIAL = 0.85

# Share of levels of a new mapping that are left as they are.
_LEFT = 0.2

# Primes that give way to one that moves.
_REPAIRS = 4

# Probability that a level's order is drawn anew once its loops have changed.
_REDRAWN = 0.5


@part
def _keep_what_must(tables: NestTables, work: Workspace, level: int, mask: int) -> None:
    """Kept tensors of a level: those of a mask, as far as the machine leaves it open."""
    machine = tables.machine
    held = (mask | machine.always_kept[level]) & ~machine.never_kept[level]
    for t in range(work.kept.shape[1]):
        work.kept[level, t] = (held >> t) & 1


@part
def _decode(tables: NestTables, work: Workspace, code: Codes) -> None:
    """Factors and kept tensors of a code."""
    locate(tables, code, work.rows)
    for d in range(work.factors.shape[0]):
        copy(tables.factors[work.rows[d]], work.factors[d])
    for level in range(work.kept.shape[0]):
        column = tables.keep_column[level]
        _keep_what_must(tables, work, level, code[column] if column >= 0 else -1)


@part
def _spread(tables: NestTables, work: Workspace, level: int, code: Codes) -> bool:
    """Gives spatial loops an axis such that they fit the mesh, and whether they do."""
    slot = tables.spatial_slot[level]
    n = work.factors.shape[0]
    machine = tables.machine
    column = tables.spatial_axis_column[level]
    looping = 0
    free = 0
    for d in range(n):
        if work.factors[d, slot] > 1:
            looping |= 1 << d
            free += 1
    if looping & machine.barred[level]:
        return False
    given = (code[column] if column >= 0 else 0) & looping
    for changed in range(1 << free if column >= 0 else 1):
        axes = given
        bit = 0
        for d in range(n):
            if (looping >> d) & 1:
                axes ^= ((changed >> bit) & 1) << d
                bit += 1
        taken = (axes | machine.only_y[level]) & ~machine.only_x[level] & looping
        wide = 1
        high = 1
        for d in range(n):
            if (taken >> d) & 1:
                high *= work.factors[d, slot]
            else:
                wide *= work.factors[d, slot]
        if machine.both[level]:
            return beyond_mesh(tables, level, work.factors[:, slot]) == 0
        if column < 0:
            return wide * high <= tables.fanout[level]
        if wide <= tables.mesh[level, 0] and high <= tables.mesh[level, 1]:
            code[column] = taken
            return True
    return False


@part
def _redraw_order(tables: NestTables, work: Workspace, level: int, code: Codes) -> None:
    """Draws a reuse class for a level's loops: a tensor that rests while the inner loops run."""
    slot = tables.temporal_slot[level]
    n = work.factors.shape[0]
    innermost = draw_looped(work, slot)
    if innermost < 0:
        return
    resting = draw_resting(tables, work, innermost)
    position = 0
    for wanted in range(3):
        for d in range(n):
            place = 0
            if work.factors[d, slot] > 1:
                place = 1 if resting < 0 or tables.relevant[resting, d] else 2
            if d != innermost and place == wanted:
                work.order[position] = d
                position += 1
    work.order[position] = innermost
    code[tables.order_column[level]] = order_index(work.order)


@part
def _finish(tables: NestTables, work: Workspace, redrawn: float, code: Codes) -> bool:
    """Writes factors, kept tensors, axes, orders and banks into the code; False: no axes fit.

    Of levels whose loops have changed the order is drawn anew with a probability `redrawn`.
    """
    n = work.factors.shape[0]
    levels = work.words.shape[0]
    for level in range(levels):
        slot = tables.spatial_slot[level]
        if slot >= 0:
            changed = False
            for d in range(n):
                changed |= tables.factors[work.rows[d], slot] != work.factors[d, slot]
            if changed and not _spread(tables, work, level, code):
                return False
        slot = tables.temporal_slot[level]
        changed = False
        for d in range(n):
            before = tables.factors[work.rows[d], slot] > 1
            changed |= before != (work.factors[d, slot] > 1)
        if changed:
            if level < levels - 1 and uniform(work.stream) < redrawn:
                _redraw_order(tables, work, level, code)
            else:
                settle_order(tables, work, level, code)
        write_kept(tables, work, level, code)
    write_factors(tables, work, code)
    return True


@part
def _held_in(listed: Choices, work: Workspace, slot: int, without: int) -> int:
    """A random distinct prime that `slot` holds, but for pair `without`; -1: none."""
    count = 0
    for pair in range(listed.prime.size):
        factor = work.factors[listed.dimension[pair], slot]
        if factor > 1 and pair != without and factor % listed.prime[pair] == 0:
            work.open_pairs[count] = pair
            count += 1
    return work.open_pairs[below(work.stream, count)] if count else -1


@part
def _slot_of(listed: Choices, work: Workspace, pair: int, first: int, without: int) -> int:
    """A random slot from `first` inwards, but for `without`, that holds a prime; -1: none."""
    d = listed.dimension[pair]
    prime = listed.prime[pair]
    count = 0
    chosen = -1
    for s in range(first, work.factors.shape[1]):
        if work.factors[d, s] > 1 and s != without and work.factors[d, s] % prime == 0:
            count += 1
            if below(work.stream, count) == 0:
                chosen = s
    return chosen


@part
def _outer_slot(tables: NestTables, work: Workspace, slot: int) -> int:
    """A random temporal slot outside a slot, the outermost as often as all others."""
    level = tables.slot_level[slot]
    if tables.slot_spatial[slot]:
        level += 1
    if level <= 1 or uniform(work.stream) < 0.5:
        return tables.temporal_slot[0]
    return tables.temporal_slot[below(work.stream, level)]


@part
def _make_room(
    tables: NestTables,
    listed: Choices,
    work: Workspace,
    tight: tuple[int, int],
    moved: int,
    back: int,
) -> bool:
    """Takes a random prime out of what is tight, a slot or else a level's tile.

    Not the pair `moved`; to the slot `back` if that stands outside, else to a random one that does.
    """
    slot, level = tight
    if slot >= 0:
        pair = _held_in(listed, work, slot, moved)
        source = slot
    else:
        inner = tables.temporal_slot[level]
        count = 0
        pair = -1
        source = -1
        for other in range(listed.prime.size):
            if other == moved:
                continue
            d = listed.dimension[other]
            # What no tensor kept here depends on takes no room here.
            matters = False
            for t in range(work.kept.shape[1]):
                matters |= work.kept[level, t] == 1 and tables.relevant[t, d] == 1
            if not matters:
                continue
            s = _slot_of(listed, work, other, inner, -1)
            if s >= 0:
                count += 1
                if below(work.stream, count) == 0:
                    pair = other
                    source = s
    if pair < 0:
        return False
    target = back
    if slot < 0 and back >= tables.temporal_slot[level]:
        target = _outer_slot(tables, work, tables.temporal_slot[level])
    if target == source:
        target = _outer_slot(tables, work, source)
    shift(work, pair, source, target, listed)
    return True


@part
def _draw_spatial(tables: NestTables, listed: Choices, work: Workspace) -> None:
    """Draws the loops across every fan-out, mostly among those that use the most children."""
    outermost = tables.temporal_slot[0]
    n = work.factors.shape[0]
    for fan in range(listed.fan_level.size):
        slot = tables.spatial_slot[listed.fan_level[fan]]
        for _ in range(ATTEMPTS):
            row = draw_vector(listed, work, fan)
            fits = True
            for d in range(n):
                factor = listed.vectors[row, d]
                # A dimension may be to run along one axis of a mesh.
                level = listed.fan_level[fan]
                again = work.factors[d, slot] > 1 and not tables.machine.both[level]
                if factor > 1 and (again or work.factors[d, outermost] % factor != 0):
                    fits = False
            if fits:
                for d in range(n):
                    work.factors[d, outermost] //= listed.vectors[row, d]
                    work.factors[d, slot] *= listed.vectors[row, d]
                break


@part
def _sample(tables: NestTables, listed: Choices, work: Workspace, code: Codes) -> None:
    """A new mapping: every fan-out in use, levels filled from the innermost outwards."""
    work.factors[:] = 1
    copy(tables.sizes, work.factors[:, tables.temporal_slot[0]])
    _draw_spatial(tables, listed, work)
    levels = work.words.shape[0]
    for level in range(levels):
        skipping = listed.skippable[level] == 1 and uniform(work.stream) < 0.5
        mask = -1
        for t in range(work.words.shape[1]):
            if skipping and uniform(work.stream) < 0.5:
                mask ^= 1 << t
        _keep_what_must(tables, work, level, mask)
    _repair(tables, listed, work, -1, tables.temporal_slot[0], 100)
    for level in range(levels - 1, 0, -1):
        if uniform(work.stream) >= _LEFT:
            _fill_from(tables, listed, work, level, -1)
    for level in range(levels):
        code[tables.order_column[level]] = 0


@part
def _fill_from(
    tables: NestTables, listed: Choices, work: Workspace, level: int, barred: int
) -> None:
    """Moves random primes from the levels outside to a level until none fits any more."""
    count = 0
    for pair in range(listed.prime.size):
        if pair != barred:
            work.open_pairs[count] = pair
            count += 1
    while count > 0:
        pick = below(work.stream, count)
        pair = work.open_pairs[pick]
        d = listed.dimension[pair]
        prime = listed.prime[pair]
        source = -1
        seen = 0
        for outer in range(level):
            if work.factors[d, tables.temporal_slot[outer]] % prime == 0:
                seen += 1
                if below(work.stream, seen) == 0:
                    source = outer
        if source < 0 or not grow(tables, listed, work, source, level, pair):
            count -= 1
            work.open_pairs[pick] = work.open_pairs[count]


@part
def _too_small(tables: NestTables, work: Workspace) -> tuple[int, int]:
    """The spatial slot and the level that do not hold what stands there; -1 each: all do."""
    for level in range(tables.fanout.size):
        slot = tables.spatial_slot[level]
        if slot < 0:
            continue
        product = 1
        for d in range(work.factors.shape[0]):
            product *= work.factors[d, slot]
        if product > tables.fanout[level]:
            return slot, -1
    for level in range(work.words.shape[0] - 1, 0, -1):
        if not level_fits(tables, work, level, work.words):
            return -1, level
    return -1, -1


@part
def _repair(
    tables: NestTables, listed: Choices, work: Workspace, moved: int, back: int, most: int
) -> bool:
    """Takes primes back out of what has become too small, at most so many; whether all fits."""
    for _ in range(most):
        measure(tables, work)
        tight = _too_small(tables, work)
        if tight[0] < 0 and tight[1] < 0:
            return True
        if not _make_room(tables, listed, work, tight, moved, back):
            return False
    measure(tables, work)
    tight = _too_small(tables, work)
    return tight[0] < 0 and tight[1] < 0


@part
def _is_barred(tables: NestTables, listed: Choices, pair: int, slot: int) -> bool:
    """Whether a prime's dimension may not run across the fan-out that a slot stands for."""
    if not tables.slot_spatial[slot]:
        return False
    barred: int = tables.machine.barred[tables.slot_level[slot]]
    return (barred >> listed.dimension[pair]) & 1 == 1


@part
def _shift_some(tables: NestTables, listed: Choices, work: Workspace) -> bool:
    """Takes a prime to another slot, and what stands in its way back; False: none was found."""
    if listed.prime.size == 0:
        return False
    pair = below(work.stream, listed.prime.size)
    source = _slot_of(listed, work, pair, 0, -1)
    target = below(work.stream, work.factors.shape[1])
    if target == source or _is_barred(tables, listed, pair, target):
        return False
    shift(work, pair, source, target, listed)
    if tables.slot_spatial[source]:
        # What runs across leaves a gap that another prime may close.
        other = below(work.stream, listed.prime.size)
        place = _slot_of(listed, work, other, 0, source)
        if other != pair and place >= 0 and not _is_barred(tables, listed, other, source):
            shift(work, other, place, source, listed)
    return _repair(tables, listed, work, pair, source, _REPAIRS)


@part
def _swap_spatial(tables: NestTables, listed: Choices, work: Workspace) -> bool:
    """Exchanges primes of two dimensions between a fan-out and another slot."""
    if listed.spatial_slots.size == 0:
        return False
    slot = listed.spatial_slots[below(work.stream, listed.spatial_slots.size)]
    first = _held_in(listed, work, slot, -1)
    if first < 0:
        return False
    other = below(work.stream, work.factors.shape[1])
    second = _held_in(listed, work, other, first)
    if other == slot or second < 0 or _is_barred(tables, listed, second, slot):
        return False
    shift(work, first, slot, other, listed)
    shift(work, second, other, slot, listed)
    return _repair(tables, listed, work, second, other, _REPAIRS)


@part
def _refill(tables: NestTables, listed: Choices, work: Workspace) -> bool:
    """Takes one or two primes out of a level and fills it anew, and sometimes those outside."""
    levels = work.words.shape[0]
    level = 1 + below(work.stream, levels - 1)
    slot = tables.temporal_slot[level]
    barred = -1
    for _ in range(2 if uniform(work.stream) < 0.4 else 1):
        pair = _held_in(listed, work, slot, -1)
        if pair >= 0:
            shift(work, pair, slot, _outer_slot(tables, work, slot), listed)
            barred = pair
    if not _repair(tables, listed, work, -1, tables.temporal_slot[0], _REPAIRS):
        return False
    _fill_from(tables, listed, work, level, barred)
    return True


@part
def _flip_kept(tables: NestTables, listed: Choices, work: Workspace) -> bool:
    """Drops a tensor from a level that can be skipped, or keeps it there again."""
    chosen = draw_skippable(listed, work)
    mask = kept_mask(work, chosen) ^ (1 << below(work.stream, work.words.shape[1]))
    _keep_what_must(tables, work, chosen, mask)
    if not _repair(tables, listed, work, -1, tables.temporal_slot[0], 2 * _REPAIRS):
        return False
    if chosen > 0 and uniform(work.stream) < 0.7:
        _fill_from(tables, listed, work, chosen, -1)
    return True


@part
def _move(tables: NestTables, listed: Choices, work: Workspace, code: Codes) -> bool:
    """One move of the mapping; False: there was none."""
    if uniform(work.stream) < listed.skip_share:
        return _flip_kept(tables, listed, work)
    if uniform(work.stream) < listed.place_share:
        place_spatial(tables, work, code)
        return True
    levels = work.words.shape[0]
    kind = uniform(work.stream)
    if kind < _REORDER or levels == 1:
        _redraw_order(tables, work, below(work.stream, max(1, levels - 1)), code)
        return True
    if kind < _SHIFT:
        return _shift_some(tables, listed, work)
    if kind < _SPATIAL:
        return _swap_spatial(tables, listed, work)
    return _refill(tables, listed, work)


@part
def attempt_deep(
    tables: NestTables, listed: Choices, work: Workspace, new: bool, code: Codes
) -> bool:
    """As `structured_moves.attempt`; False: it comes to nothing."""
    _decode(tables, work, code)
    if new:
        _sample(tables, listed, work, code)
    elif not _move(tables, listed, work, code):
        return False
    return _finish(tables, work, 1.0 if new else _REDRAWN, code)
