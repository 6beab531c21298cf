"""Sets of spatial factors, as intervals: where the bound of imperfect factors branches.

Letters: L levels, n dimensions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from costmodel.arrays.imperfect_tilings import IDLE_SHARE
from costmodel.arrays.tables import Array
from costmodel.map_space.map_space import MapSpace

LONGEST = 1 + IDLE_SHARE
"""No product of a dimension's factors exceeds its size by more (`imperfect_tilings`)."""


class Spread(NamedTuple):
    """Spatial factors below every level that lie between least and most `[L, n]`."""

    least: Array
    most: Array

    @property
    def is_point(self) -> bool:
        """Whether there is one choice only."""
        return bool((self.least == self.most).all())

    def outside(self) -> tuple[Array, Array]:
        """`[L + 1, n]` least and largest products of the factors outside a level; L: the MACs."""
        levels, n = self.least.shape
        low, high = np.ones((levels + 1, n), np.int64), np.ones((levels + 1, n), np.int64)
        low[1:], high[1:] = np.cumprod(self.least, axis=0), np.cumprod(self.most, axis=0)
        return low, high


def tightened(space: MapSpace, spread: Spread) -> Spread | None:
    """A set without ends that no mapping has; None if nothing is left.

    A fan-out holds no more children than it has, and a dimension no more iterations than are
    listed.
    """
    tables = space.tables
    least, most = spread.least, spread.most.copy()
    if (least > most).any():
        return None
    for level, slot in enumerate(tables.spatial_slot.tolist()):
        if slot >= 0:
            if int(least[level].prod()) > int(tables.fanout[level]):
                return None
            others = least[level].prod() // least[level]
            most[level] = np.minimum(most[level], int(tables.fanout[level]) // others)
    limit = np.floor(LONGEST * tables.sizes).astype(np.int64)
    if (least.prod(axis=0) > limit).any():
        return None
    most = np.minimum(most, limit // (least.prod(axis=0) // least))
    if elements(space, Spread(least, most)) < int(tables.machine.least_units):
        return None
    return Spread(least, most)


def elements(space: MapSpace, spread: Spread) -> int:
    """Multiply-accumulate units that work at most."""
    found = 1
    for level, slot in enumerate(space.tables.spatial_slot.tolist()):
        if slot >= 0:
            along = math.prod(spread.most[level].tolist())
            found *= min(int(space.tables.fanout[level]), along)
    return found


def least_cycles(space: MapSpace, spread: Spread) -> int:
    """Cycles that no mapping of a set undercuts: the busiest unit's share, rounded up."""
    sizes, machine = space.tables.sizes, space.tables.machine
    high = spread.outside()[1][-1]
    steps = math.prod((-(-sizes // high)).tolist())
    work = math.prod(sizes.tolist())
    steps = max(steps, -(-work // elements(space, spread)))
    return int(steps) * int(machine.cycles_per_mac) + int(machine.waiting)
