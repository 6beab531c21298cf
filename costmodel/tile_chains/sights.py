"""Compiled: what the tilings of an assignment cost at least, under all of its price lists at once.

Letters: B tiles of a level, L levels, n dimensions, T tensors, V price lists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.compiled.by_reference import by_reference
from costmodel.compiled.laid_out import lying_at
from costmodel.tile_chains.chain_arrays import Chain
from costmodel.tile_chains.entering import Around
from costmodel.tile_chains.lines import Lines
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tiles import FloatArray, Tiles
from costmodel.tile_chains.walk import Slot, bound_tile, enter_and_cross, list_multiples

ENERGY, PORT, LEAKING, TOGETHER = range(4)
"""What a price list says: energy, cycles of a port, energy with other leakage, or their sum."""


@by_reference
class Sight(NamedTuple):
    """One price list of an assignment, with its tables, and what is certain of a chain of tiles.

    like: any lines; inside and crossed `[L + 1]` where those at the boundary of a level's tile lie,
    and those in the slot outside it; entered `[1]`: from this level inwards they are there; trips
    `[n]` scratch; fixed: what no tile decides; kind: what it says; rate and power: of sums of
    energy and cycles.
    """

    around: Around
    chain: Chain
    like: Lines
    inside: Array
    crossed: Array
    entered: Array
    trips: FloatArray
    fixed: float
    kind: int
    rate: float
    power: int


@by_reference
class Search(NamedTuple):
    """The search of an assignment's tilings.

    sights `[V]` where its price lists lie: of energy, the sum of energy and cycles if there is one,
    others; like: any of them; step and tile `[L]` that are chosen; least and most `[L, n]` trips of
    a level's loops that rules leave; stays_in and stays_out `[L]` dimensions, as bits: of both one
    at least must have a loop at the level, -1: need not; sharing `[L, 2]` the first level of those
    that share one room, and the one past the last; capacity `[L]` of a room (-1: without limit);
    room `[L, T]` what a value of a tensor that a level keeps takes of it, else 0; computing: cycles
    that the MACs take; leakage: pJ per cycle; slack: the share by which equal sums may differ;
    choice `[n]` scratch.
    """

    shape: Shape
    tiles: Tiles
    like: Sight
    sights: Array
    step: Array
    tile: Array
    least: Array
    most: Array
    stays_in: Array
    stays_out: Array
    sharing: Array
    capacity: Array
    room: Array
    computing: float
    leakage: float
    slack: float
    choice: Array


class Wanted(NamedTuple):
    """What mappings of an assignment must be below.

    cycles: that all of them take; limit: energy, pJ, at these cycles; top and right `[G]` most
    energy and most cycles of the gaps in which a sum of no power must lie.
    """

    cycles: float
    limit: float
    top: FloatArray
    right: FloatArray


class Bounds(NamedTuple):
    """What tiles `[B]` need: energy and cycles, and the energy that is as good at given cycles."""

    energy: FloatArray
    cycles: FloatArray
    least: FloatArray


@lean
def list_allowed(
    search: Search,
    level: int,
    step: int,
    listed: Array,
) -> int:
    """Lists the tiles of a level outside a step that rules and room leave; returns how many."""
    found = list_multiples(search.shape, search.tiles, level, step, search.choice, listed)
    count = 0
    for k in range(found):
        if _is_left(search, level, step, listed[k]) and _has_room(search, level, listed[k]):
            listed[count] = listed[k]
            count += 1
    return count


@part
def _is_left(
    search: Search,
    level: int,
    step: int,
    b: int,
) -> bool:
    """Whether a level may have the loops between a step and its tile b."""
    extent, loops = search.tiles.extent, 0
    for d in range(search.shape.sizes.size):
        trips = extent[b, d] // extent[step, d]
        if trips < search.least[level, d] or trips > search.most[level, d]:
            return False
        if trips > 1:
            loops |= 1 << d
    return bool(loops & search.stays_in[level] and loops & search.stays_out[level]) or (
        search.stays_in[level] < 0
    )


@part
def _has_room(
    search: Search,
    level: int,
    b: int,
) -> bool:
    """Whether the levels that share a room have some for tile b of a level, all together."""
    first, stop = search.sharing[level, 0], search.sharing[level, 1]
    if search.capacity[level] < 0 or first == stop - 1:
        return True
    held = 0.0
    for at in range(first, stop):
        # Tiles further out are no smaller.
        tile = b if at <= level else search.tile[at]
        for t in range(search.room.shape[1]):
            held += search.tiles.words[tile, t] * search.room[at, t]
    return bool(held <= search.capacity[level])


@lean
def choose(
    search: Search,
    level: int,
    step: int,
    b: int,
) -> int:
    """Chooses tile b of a level outside a step; returns the step outside it, -1 if none is."""
    search.step[level], search.tile[level] = step, b
    for v in range(1, search.sights.size):
        sight = lying_at(search.like, search.sights[v])
        # It is entered when something outside it is bounded.
        sight.entered[0] = max(sight.entered[0], level + 1)
    return _enter(search, lying_at(search.like, search.sights[0]), level)


@part
def _enter(
    search: Search,
    sight: Sight,
    level: int,
) -> int:
    slot = Slot(
        level, search.step[level], lying_at(sight.like, sight.crossed[level + 1]), sight.trips
    )
    found: int = enter_and_cross(
        search.shape, search.tiles, sight.around, slot, search.tile[level],
        lying_at(sight.like, sight.inside[level]), lying_at(sight.like, sight.crossed[level]),
    )  # fmt: skip
    return found


@part
def _bound(
    search: Search,
    v: int,
    level: int,
    step: int,
    b: int,
) -> float:
    """What tile b of a level outside a step costs at least under a price list; inf if nothing."""
    sight = lying_at(search.like, search.sights[v])
    if v > 0:
        while sight.entered[0] > level + 1:
            sight.entered[0] -= 1
            _enter(search, sight, sight.entered[0])
    slot = Slot(level, step, lying_at(sight.like, sight.crossed[level + 1]), sight.trips)
    found: float = sight.fixed + bound_tile(
        search.shape, search.tiles, sight.around, sight.chain, slot, b
    )
    return found


@lean
def bound_children(
    search: Search,
    level: int,
    step: int,
    listed: Array,
    wanted: Wanted,
    bounds: Bounds,
) -> int:
    """Bounds tiles of a level outside a step, and leaves those that could win at the front.

    Args:
        search: the search.
        level: whose tiles.
        step: the step.
        listed: `[B]` tiles; changed.
        wanted: what could win.
        bounds: `[B]` filled.

    Returns:
        How many could win.
    """
    count = 0
    for k in range(listed.size):
        if _bound_child(search, level, step, listed[k], wanted, bounds, count):
            listed[count] = listed[k]
            count += 1
    return count


@part
def _bound_child(
    search: Search,
    level: int,
    step: int,
    b: int,
    wanted: Wanted,
    bounds: Bounds,
    place: int,
) -> bool:
    """One of the tiles; whether it could win."""
    energy = _bound(search, 0, level, step, b)
    if not energy < wanted.limit:
        return False
    slow, both = wanted.cycles, 0.0
    last = lying_at(search.like, search.sights[search.sights.size - 1])
    mixed = last.kind == TOGETHER
    others = search.sights.size - int(mixed)
    if mixed:
        # It rules most out, and more once the cycles of each port are known.
        both = _bound(search, others, level, step, b)
        if both == np.inf or not _joint(search, last, energy, slow, both, wanted) < wanted.limit:
            return False
    plain = energy
    for v in range(1, others):
        found = _bound(search, v, level, step, b)
        if found == np.inf:
            return False
        if lying_at(search.like, search.sights[v]).kind == LEAKING:
            energy = max(energy, found)
        else:
            slow = max(slow, np.ceil(found * (1 - search.slack)))
            energy = max(energy, plain + search.leakage * (slow - search.computing))
        if not energy < wanted.limit:
            return False
    least = energy
    if mixed:
        least = max(energy, _joint(search, last, energy, slow, both, wanted))
    bounds.energy[place], bounds.cycles[place], bounds.least[place] = energy, slow, least
    return least < wanted.limit


@part
def _joint(
    search: Search,
    sight: Sight,
    energy: float,
    slow: float,
    both: float,
    wanted: Wanted,
) -> float:
    """Energy that mappings with such bounds need: see `Together.energy` and `Along.energy`."""
    if sight.power == 0:
        return _along(search, sight, energy, slow, both, wanted) * (1 - search.slack)
    slower = max(slow, (both - energy) / sight.rate)
    one, two = slower / wanted.cycles, slow / wanted.cycles
    if sight.power > 1:
        one, two = one * one, two * two
    other = max(energy, both - sight.rate * slow)
    return min(energy * one, other * two) * (1 - search.slack)


@part
def _along(
    search: Search,
    sight: Sight,
    energy: float,
    slow: float,
    both: float,
    wanted: Wanted,
) -> float:
    """Energy that mappings in a gap need: what is left of the sum in the last that is open."""
    top, right = wanted.top, wanted.right
    both *= 1 - search.slack
    for gap in range(top.size - 1, -1, -1):
        most = sight.rate * right[gap]
        if top[gap] > energy and right[gap] >= slow and top[gap] + most > both:
            found: float = max(energy, both - most)
            return found
    return np.inf
