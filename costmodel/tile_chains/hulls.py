"""Compiled: lower convex hulls of points (trips, cost) with few points."""

from __future__ import annotations

import numpy as np

from costmodel.compiled import part
from costmodel.tile_chains.tiles import FloatArray

HULL = 6
"""Points that a hull keeps; more are joined, two by two, into points below both."""


@part
def insert_point(
    us: FloatArray,
    cs: FloatArray,
    count: int,
    u: float,
    c: float,
) -> int:
    """Adds a point to a lower hull: rising in u, falling and convex in c. Returns its points."""
    place = 0
    while place < count and us[place] < u:
        place += 1
    if place > 0 and cs[place - 1] <= c:
        return count
    if place < count and us[place] == u and cs[place] <= c:
        return count
    if 0 < place < count:
        rise = (cs[place] - cs[place - 1]) * (u - us[place - 1])
        if (c - cs[place - 1]) * (us[place] - us[place - 1]) >= rise:
            return count
    beyond = place
    while beyond < count and cs[beyond] >= c:
        beyond += 1
    while beyond + 1 < count and (cs[beyond] - c) * (us[beyond + 1] - u) >= (cs[beyond + 1] - c) * (
        us[beyond] - u
    ):
        beyond += 1
    begin = place
    while begin > 1 and (cs[begin - 1] - cs[begin - 2]) * (u - us[begin - 2]) >= (
        c - cs[begin - 2]
    ) * (us[begin - 1] - us[begin - 2]):
        begin -= 1
    if begin + 1 + count - beyond > us.size:
        return _join_points(us, cs, count, place, u, c)
    shift = begin + 1 - beyond
    if shift > 0:
        for i in range(count - 1, beyond - 1, -1):
            us[i + shift], cs[i + shift] = us[i], cs[i]
    elif shift < 0:
        for i in range(beyond, count):
            us[i + shift], cs[i + shift] = us[i], cs[i]
    us[begin], cs[begin] = u, c
    return count + shift


@part
def _join_points(
    us: FloatArray,
    cs: FloatArray,
    count: int,
    place: int,
    u: float,
    c: float,
) -> int:
    """Makes room in a full hull: one point becomes one below itself and the new one."""
    before = np.inf
    if place > 0:
        before = (u - us[place - 1]) * (cs[place - 1] - c)
    after = np.inf
    if place < count:
        after = (us[place] - u) * (c - cs[place])
    if before <= after:
        cs[place - 1] = c
    else:
        us[place] = u
    return count


@part
def least_on_hull(
    us: FloatArray,
    cs: FloatArray,
    count: int,
    price: float,
) -> float:
    """The least of c + price * u over the points of a hull; inf without any."""
    least = np.inf
    for i in range(count):
        least = min(least, cs[i] + price * us[i])
    return least
