"""Compiled proposals of the structured searcher: whole mappings and moves, many chains per call.

Letters: C chains, D attributes of a code, n dimensions, S slots, L levels, T tensors, as in
`costmodel.arrays.tables`. Inside, a mapping is its factors `[n, S]`, the extents of its
tiles `[L, n]` and the tensors kept `[L, T]`; the code is written back at the end.
Every chain has its own stream of random numbers, so that it depends on no other.
"""

from __future__ import annotations

from costmodel.arrays.feasibility import check_mapping
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
    place_spatial,
    settle_order,
    write_factors,
    write_kept,
)
from searchers.compiled.structured_state import ATTEMPTS, Choices, Workspace
from searchers.compiled.structured_tiles import all_fit, grow, measure, shift

# Cumulative shares of the moves that every machine has; the rest of 1 moves a single prime.
_REORDER = 0.20
_REFILL = 0.50
_EXCHANGE_SPATIAL = 0.75
_EXCHANGE = 0.92


@part
def _fill(tables: NestTables, listed: Choices, work: Workspace, level: int, barred: int) -> None:
    """Moves random primes from the outermost level to `level` until none fits any more.

    The pair `barred` (-1: none) is not the first to move, so that what was just taken out does
    not simply return.
    """
    outermost = tables.temporal_slot[0]
    count = 0
    for pair in range(listed.prime.size):
        if work.factors[listed.dimension[pair], outermost] % listed.prime[pair] == 0:
            work.open_pairs[count] = pair
            count += 1
    while count > 0:
        pick = below(work.stream, count)
        pair = work.open_pairs[pick]
        if pair == barred and count > 1:
            continue
        barred = -1
        moved = grow(tables, listed, work, 0, level, pair)
        left = work.factors[listed.dimension[pair], outermost]
        if not moved or left % listed.prime[pair] != 0:
            count -= 1
            work.open_pairs[pick] = work.open_pairs[count]


@part
def _fill_outer(tables: NestTables, listed: Choices, work: Workspace, probability: float) -> None:
    """Fills each level between the outermost and the innermost with a probability."""
    for level in range(work.extents.shape[0] - 2, 0, -1):
        if uniform(work.stream) < probability:
            _fill(tables, listed, work, level, -1)


@part
def _pick(listed: Choices, work: Workspace, slot: int, without: int) -> int:
    """A random distinct prime that `slot` holds of a dimension other than `without`; -1: none."""
    count = 0
    for pair in range(listed.prime.size):
        d = listed.dimension[pair]
        if d != without and work.factors[d, slot] % listed.prime[pair] == 0:
            work.open_pairs[count] = pair
            count += 1
    return work.open_pairs[below(work.stream, count)] if count else -1


@part
def _redraw_order(tables: NestTables, work: Workspace, level: int, code: Codes) -> None:
    """Draws a reuse class for a level's loops: a tensor that rests while the inner loops run.

    Innermost is a loop over a dimension that the tensor does not depend on, around it the others
    that it does not depend on, outermost those that it does.
    """
    n = work.factors.shape[0]
    innermost = draw_looped(work, tables.temporal_slot[level])
    if innermost < 0:
        return
    resting = draw_resting(tables, work, innermost)
    position = 0
    for wanted in (1, 0):
        for d in range(n):
            relevant = 1 if resting < 0 else tables.relevant[resting, d]
            if d != innermost and relevant == wanted:
                work.order[position] = d
                position += 1
    work.order[position] = innermost
    code[tables.order_column[level]] = order_index(work.order)


@part
def _redraw_some_order(tables: NestTables, work: Workspace, code: Codes) -> None:
    """Draws a reuse class for a random level above the innermost."""
    _redraw_order(tables, work, below(work.stream, max(1, work.words.shape[0] - 1)), code)


@part
def _finish(tables: NestTables, work: Workspace, code: Codes) -> None:
    """Writes factors, orders, kept tensors and banks into the code, in one canonical form.

    Loops of a single trip and the innermost level's order change no cost: they take a fixed
    place, so that equal mappings have equal codes. Any allocation of banks that holds the tiles
    costs the same, so banks are given after the tiles are chosen.
    """
    write_factors(tables, work, code)
    for level in range(work.words.shape[0]):
        settle_order(tables, work, level, code)
        write_kept(tables, work, level, code)


@part
def _shrink(tables: NestTables, listed: Choices, work: Workspace) -> None:
    """Takes random primes out to the outermost level until all tiles fit."""
    outermost = tables.temporal_slot[0]
    while not all_fit(tables, work):
        count = 0
        chosen = -1
        source = -1
        for s in range(work.factors.shape[1]):
            for pair in range(listed.prime.size):
                held = work.factors[listed.dimension[pair], s] % listed.prime[pair] == 0
                if held and s != outermost:
                    count += 1
                    if below(work.stream, count) == 0:
                        chosen = pair
                        source = s
        if chosen < 0:
            return
        shift(work, chosen, source, outermost, listed)
        measure(tables, work)


@part
def _draw_spatial(tables: NestTables, listed: Choices, work: Workspace) -> None:
    """Draws the spatial factors of every level, mostly among those of the largest product."""
    outermost = tables.temporal_slot[0]
    for level in range(tables.fanout.size):
        slot = tables.spatial_slot[level]
        if slot < 0:
            continue
        for _ in range(ATTEMPTS):
            row = draw_vector(listed, work, level)
            divides = True
            for d in range(work.factors.shape[0]):
                divides &= work.factors[d, outermost] % listed.vectors[row, d] == 0
            if divides:
                for d in range(work.factors.shape[0]):
                    work.factors[d, outermost] //= listed.vectors[row, d]
                    work.factors[d, slot] = listed.vectors[row, d]
                break


@part
def _sample(tables: NestTables, listed: Choices, work: Workspace, code: Codes) -> None:
    """A new mapping: full array, innermost level filled, a reuse class per level."""
    work.factors[:] = 1
    copy(tables.sizes, work.factors[:, tables.temporal_slot[0]])
    _draw_spatial(tables, listed, work)
    levels = work.words.shape[0]
    for level in range(levels):
        skipping = listed.skippable[level] == 1 and uniform(work.stream) < 0.5
        for t in range(work.words.shape[1]):
            skips = skipping and uniform(work.stream) < 0.5
            work.kept[level, t] = 0 if skips else 1
    measure(tables, work)
    _shrink(tables, listed, work)
    if levels > 1:
        _fill(tables, listed, work, levels - 1, -1)
    _fill_outer(tables, listed, work, listed.outer_fill)
    for level in range(levels - 1):
        _redraw_order(tables, work, level, code)
    place_spatial(tables, work, code)


@part
def _refill(tables: NestTables, listed: Choices, work: Workspace) -> None:
    """Takes one or two primes out of the innermost level and fills it anew."""
    innermost = work.words.shape[0] - 1
    outermost = tables.temporal_slot[0]
    if uniform(work.stream) < 0.7:
        for level in range(1, innermost):
            slot = tables.temporal_slot[level]
            for d in range(work.factors.shape[0]):
                work.factors[d, outermost] *= work.factors[d, slot]
                work.factors[d, slot] = 1
    barred = -1
    for _ in range(2 if uniform(work.stream) < 0.4 else 1):
        pair = _pick(listed, work, tables.temporal_slot[innermost], -1)
        if pair >= 0:
            shift(work, pair, tables.temporal_slot[innermost], outermost, listed)
            barred = pair
    measure(tables, work)
    _fill(tables, listed, work, innermost, barred)
    _fill_outer(tables, listed, work, 0.5)


@part
def _exchange(listed: Choices, work: Workspace, first_slot: int, second_slot: int) -> None:
    """Exchanges primes of two dimensions between two slots, if there are such."""
    first = _pick(listed, work, first_slot, -1)
    if first < 0:
        return
    second = _pick(listed, work, second_slot, listed.dimension[first])
    if second < 0:
        return
    shift(work, first, first_slot, second_slot, listed)
    shift(work, second, second_slot, first_slot, listed)


@part
def _flip_kept(tables: NestTables, listed: Choices, work: Workspace) -> None:
    """Drops a tensor from a level that can be skipped, or keeps it there again."""
    chosen = draw_skippable(listed, work)
    work.kept[chosen, below(work.stream, work.words.shape[1])] ^= 1
    _shrink(tables, listed, work)
    if uniform(work.stream) < 0.7:
        _fill(tables, listed, work, work.words.shape[0] - 1, -1)


@part
def _move(tables: NestTables, listed: Choices, work: Workspace, code: Codes) -> None:
    """One structured move of the mapping; it may come out infeasible."""
    levels = work.words.shape[0]
    if uniform(work.stream) < listed.skip_share:
        _flip_kept(tables, listed, work)
        return
    if uniform(work.stream) < listed.place_share:
        place_spatial(tables, work, code)
        return
    kind = uniform(work.stream)
    if kind < _REORDER:
        _redraw_some_order(tables, work, code)
        return
    if levels > 1 and kind < _REFILL:
        _refill(tables, listed, work)
        return
    refill = False
    if listed.spatial_slots.size > 0 and kind < _EXCHANGE_SPATIAL:
        spatial = listed.spatial_slots[below(work.stream, listed.spatial_slots.size)]
        _exchange(listed, work, spatial, tables.temporal_slot[below(work.stream, levels)])
        refill = levels > 1 and uniform(work.stream) < 0.5
    elif levels > 1 and kind < _EXCHANGE:
        first = below(work.stream, levels)
        second = (first + 1 + below(work.stream, levels - 1)) % levels
        _exchange(listed, work, tables.temporal_slot[first], tables.temporal_slot[second])
    else:
        source = below(work.stream, work.factors.shape[1])
        target = below(work.stream, work.factors.shape[1])
        pair = _pick(listed, work, source, -1)
        if pair >= 0:
            shift(work, pair, source, target, listed)
    measure(tables, work)
    if refill and all_fit(tables, work):
        _fill(tables, listed, work, levels - 1, -1)
    elif uniform(work.stream) < 0.25:
        _redraw_some_order(tables, work, code)


@part
def attempt(tables: NestTables, listed: Choices, work: Workspace, new: bool, code: Codes) -> None:
    """Makes a new mapping, or a move of the feasible one in code `[D]`, into the code."""
    if new:
        _sample(tables, listed, work, code)
    else:
        check_mapping(tables, code, work.rows, work.kept, work.tile)
        for d in range(work.factors.shape[0]):
            copy(tables.factors[work.rows[d]], work.factors[d])
        measure(tables, work)
        _move(tables, listed, work, code)
    _finish(tables, work, code)
