"""Assignments with what words cost under them, by energy and by the cycles of every port.

Letters: B assignments, L levels, n dimensions, T tensors, P ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.exact_any.assignments import Assignments
from costmodel.exact_any.layout import OneOrder
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.once import fill_inside, moving_of
from costmodel.tile_chains.ports import Port, PortWeights, Prices, port_floors, port_weights, priced
from costmodel.tile_chains.tables import products_inside
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import Weights, placed_weights


class Weighed(NamedTuple):
    """Assignments, and what words cost under them.

    space: their map space; mates `[B]`; spatial `[B, L, n]` their factors; found: their weights;
    limited: the ports whose cycles matter, and cycles: of these; inside `[L, n]`: what the tiles
    are asked for by all of them, None: by each.
    """

    space: MapSpace
    mates: Array
    spatial: Array
    found: Weights
    limited: Sequence[Port]
    cycles: PortWeights
    inside: Array | None

    def at(self, prices: Prices) -> Priced:
        """What words cost by a list of prices."""
        listed = priced(self.space, prices, self.limited, self.cycles, self.found)
        return Priced(prices, *listed)

    def least_cycles(self) -> FloatArray:
        """`[P, B]` the cycles of ports if every word enters once."""
        return port_floors(self.space, self.cycles, self.found)


class Priced(NamedTuple):
    """prices; weight `[B, L + 1, T]` what a word costs; fixed `[B]` what no tile decides."""

    prices: Prices
    weight: FloatArray
    fixed: FloatArray


def weigh(
    one: OneOrder, found: Assignments, mates: Array, limited: Sequence[Port], *, shared: bool
) -> Weighed:
    """Weighs assignments, whose tables may be shared.

    Args:
        one: the order of buffers.
        found: all assignments.
        mates: which of them.
        limited: the ports whose cycles matter.
        shared: whether they are to share outer tables.
    """
    spatial = one.spreads.spatial(found.choice[mates])
    inside = np.gcd.reduce(products_inside(spatial)) if shared else None
    its = placed_weights(one.space, found.keeps, spatial)
    cycles = port_weights(one.space, limited, found.keeps, its)
    return Weighed(one.space, mates, spatial, its, limited, cycles, inside)


def inside_of(of: Weighed, rows: Array, weight: FloatArray, entering: FloatArray) -> FloatArray:
    """`[B, L]` what words that enter the tiles of levels further in than each cost at least.

    Args:
        of: assignments.
        rows: `[B]` which of them.
        weight: `[B', L + 1, T]` what a word costs, of all of them.
        entering: `[B, L]` energy that entering the tiles of a level needs by itself, if energy is a
            part of what costs; 0 where nothing is known.
    """
    found = np.empty(entering.shape)
    fill_inside(
        moving_of(of.space), of.found.outer[rows], weight[rows], of.found.weight[rows], entering,
        found,
    )  # fmt: skip
    return found
