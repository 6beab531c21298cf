"""Which orders of buffers side by side need no search, since another one holds the same mappings.

Where two buffers X and Y of a group stand next to each other, X outside, the temporal loops between
them are X's. If these can be moved out of X or into Y without any count changing, the two tiles are
one, and X and Y may change places. So of the orders of a group all but one only hold mappings that
are new if such loops are there; docs/inside/proof-any-levels.md has the lemma and its proof.

Letters: L levels, n dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.shape import charges_for_networks

Dimensions = npt.NDArray[np.bool_]


class Between(NamedTuple):
    """What stands between a buffer and the next one that could change places.

    Of both sets `[n]` at least one dimension has a loop there: else there is the same mapping with
    the buffers the other way round.
    """

    stays_in: Dimensions
    stays_out: Dimensions


def descents(
    space: MapSpace, number: int, keeps: tuple[int, ...], spatial: Array
) -> dict[int, Between]:
    """The levels of an order at which loops must stand, and which.

    Args:
        space: the map space.
        number: which of its orders.
        keeps: `[L]` what every level keeps, as bits.
        spatial: `[L, n]` the spatial factors.
    """
    if space.orders is None:
        return {}
    order = space.orders.orders[number].tolist()
    tables = space.orders.spaces[number].tables
    sliding = tables.sliding != 0
    networks = charges_for_networks(tables)
    found = {}
    for group in space.orders.groups:
        for level in range(group.first, group.stop - 1):
            outer, inner = keeps[level], keeps[level + 1]
            ranks = [(not _any(sliding, keeps[at]), order[at]) for at in (level, level + 1)]
            if ranks[0] < ranks[1] or outer & inner:
                continue
            stays_in: Dimensions = np.ones(tables.sizes.size, np.bool_)
            stays_out = stays_in
            if not sliding[tables.output] and space.constraints is None:
                if not _any(sliding, outer):
                    # A loop that leaves X's tile alone may stand outside X.
                    # Out of the first one it crosses the network, which tells tiles apart.
                    crosses = level == group.first
                    if not (crosses and networks):
                        stays_in = _moved(tables.relevant, outer)
                    if crosses:
                        stays_in = stays_in | (spatial[level - 1] > 1)
                if not _any(sliding, inner):
                    stays_out = _moved(tables.relevant, inner)
            found[level] = Between(stays_in, stays_out)
    return found


def _any(sliding: Dimensions, kept: int) -> bool:
    return any(slides and (kept >> t) & 1 for t, slides in enumerate(sliding.tolist()))


def _moved(relevant: Array, kept: int) -> Dimensions:
    """`[n]` the dimensions that move a tensor of a set."""
    held = [t for t in range(len(relevant)) if (kept >> t) & 1]
    return np.asarray(relevant[held].astype(np.bool_).any(axis=0))
