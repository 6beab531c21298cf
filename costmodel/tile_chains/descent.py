"""Compiled: the outermost levels of a search of tilings, depth first, until a tiling is found.

Whoever calls looks at the tiling, says what must be below now, and goes on.

Letters: B tiles, L levels, W tiles that wait.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.compiled.by_reference import by_reference
from costmodel.tile_chains.sights import (
    Bounds,
    Search,
    Wanted,
    bound_children,
    choose,
    list_allowed,
)
from costmodel.tile_chains.tiles import FloatArray

DONE, FOUND, PAUSED, FULL = range(4)
"""Why a descent returns: it is through; a tiling is chosen; for a while; there is no room."""

ROOM = 1 << 16
"""Tiles of all levels that may wait at a time; a level with more of them is not searched here."""


class Ties(NamedTuple):
    """Tiles that lose: no better than this by any of the first three, or too slow.

    least: energy at the cycles of all, energy: in any case, pJ; slow: cycles; most: cycles.
    """

    least: float
    energy: float
    slow: float
    most: float


@by_reference
class Descent(NamedTuple):
    """Where a descent is.

    tile and bound `[W]` what waits, level by level from the innermost, the best last; stop `[L]`
    one past a level's last; at `[2]` the level in work, one above `top` once it is through, and the
    tiles looked at; listed `[B]`, energy, cycles and least `[W]` scratch.
    """

    tile: Array
    bound: FloatArray
    stop: Array
    at: Array
    listed: Array
    energy: FloatArray
    cycles: FloatArray
    least: FloatArray


def make_descent(levels: int, listed: Array, room: int = ROOM) -> Descent:
    """Room for so many tiles that wait, with scratch `listed` for all tiles of a level."""
    return Descent(
        np.zeros(room, np.int64), np.zeros(room), np.zeros(levels + 1, np.int64),
        np.zeros(2, np.int64), listed, *np.zeros((3, room)),
    )  # fmt: skip


@lean
def descend(
    search: Search,
    top: int,
    step: int,
    wanted: Wanted,
    ties: Ties,
    descent: Descent,
    quota: int,
) -> int:
    """Begins or goes on with the tiles of levels from `top` outwards.

    Args:
        search: the search; the tiles further in are chosen.
        top: the innermost level that is searched here.
        step: outside it; -1 to go on.
        wanted: what mappings must be below, now.
        ties: what loses.
        descent: where it is.
        quota: lists of tiles to make at most.

    Returns:
        FOUND where search.tile has a tiling, DONE, PAUSED, or FULL where nothing was begun or the
        level in work, `descent.at[0]`, has more tiles than there is room for.
    """
    at = descent.at
    if step >= 0:
        at[0], descent.stop[top + 1] = top, 0
        if not _open(search, top, step, wanted, ties, descent):
            return FULL
    made = 0
    while at[0] <= top:
        level = at[0]
        last = descent.stop[level] - 1
        if last < descent.stop[level + 1] or descent.bound[last] >= wanted.limit:
            at[0] += 1
            continue
        descent.stop[level] = last
        b = descent.tile[last]
        if level == 0:
            search.tile[0] = b
            return FOUND
        outside = choose(search, level, search.step[level], b)
        if outside < 0:
            continue
        at[0] = level - 1
        if not _open(search, level - 1, outside, wanted, ties, descent):
            return FULL
        made += 1
        if made == quota:
            return PAUSED
    return DONE


@part
def _open(
    search: Search,
    level: int,
    step: int,
    wanted: Wanted,
    ties: Ties,
    descent: Descent,
) -> bool:
    """Lists the tiles of a level that could win, the best last; whether there is room for them."""
    first = descent.stop[level + 1]
    search.step[level], descent.stop[level] = step, first
    count = list_allowed(search, level, step, descent.listed)
    descent.at[1] += count
    if first + count > descent.tile.size:
        return False
    bounds = Bounds(descent.energy, descent.cycles, descent.least)
    count = bound_children(search, level, step, descent.listed[:count], wanted, bounds)
    stop = first
    for k in range(count):
        least = bounds.least[k]
        tied = least >= ties.least and bounds.energy[k] >= ties.energy
        if (tied and bounds.cycles[k] >= ties.slow) or bounds.cycles[k] > ties.most:
            continue
        place = stop
        # Of equal bounds what is listed first comes first.
        while place > first and descent.bound[place - 1] <= least:
            descent.bound[place] = descent.bound[place - 1]
            descent.tile[place] = descent.tile[place - 1]
            place -= 1
        descent.bound[place], descent.tile[place] = least, descent.listed[k]
        stop += 1
    descent.stop[level] = stop
    return True
