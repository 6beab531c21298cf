"""How many elements can work at once: what perfect factors leave of the arrays.

A loop of 13 fills 13 of 14 columns, whatever else is spread there. So the fewest cycles of all
mappings are often known before anything is listed.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.lattice import divisors_of

MOST_STATES = 200_000
"""Of more ways to fill all axes together each axis is filled by itself."""


def fewest_cycles(space: MapSpace) -> int:
    """The cycles that no mapping of perfect factors undercuts, however fast words move."""
    tables = space.tables
    axes = sorted(int(side) for side in tables.mesh.ravel() if side > 1)
    busy = most_elements(tuple(sorted(tables.sizes.tolist())), tuple(axes))
    steps = -(-int(tables.macs) // busy)
    return steps * int(tables.machine.cycles_per_mac) + int(tables.machine.waiting)


@lru_cache(maxsize=256)
def most_elements(sizes: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """The largest product of spatial factors, every loop along as many axes as it will.

    Args:
        sizes: of the dimensions; factors of one multiply to a divisor of it.
        axes: children along each axis of every fan-out.
    """
    if not axes:
        return 1
    filled = {(1,) * len(axes)}
    for size in sizes:
        ways = _ways(size, axes)
        if len(filled) * len(ways) > MOST_STATES and len(axes) > 1:
            return math.prod(most_elements(sizes, (axis,)) for axis in axes)
        products = (np.array(list(filled))[:, None] * np.array(ways)[None]).reshape(-1, len(axes))
        products = products[(products <= np.array(axes)).all(axis=1)]
        filled = {tuple(row) for row in np.unique(products, axis=0).tolist()}
    return max(math.prod(one) for one in filled)


def _ways(size: int, axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Factors along every axis that one dimension may have."""
    if not axes:
        return [()]
    return [
        (factor, *rest)
        for factor in divisors_of(size)
        if factor <= axes[0]
        for rest in _ways(size // factor, axes[1:])
    ]
