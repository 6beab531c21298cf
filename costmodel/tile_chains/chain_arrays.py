"""The tables of a chain, as arrays that compiled passes fill.

Letters as in `costmodel.tile_chains.chain`, which says what they hold; X pairs of tensors, P points
of a pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.by_reference import by_reference
from costmodel.tile_chains.hulls import HULL
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tiles import FloatArray, Tiles

POINTS = 24
"""Points that a tile and pair keep, where there is room for them."""

MOST_POINTS = 4_000_000
"""Points of all tiles and pairs of one table: more of them would take gigabytes."""


@by_reference
class Scratch(NamedTuple):
    """Scratch: trips `[n]`; listed `[F of a level]`; per divisor of every dimension jump and left.

    left: trips of the loops outside, 0 where an extent is none of a level's.
    """

    trips: FloatArray
    listed: Array
    jump: Array
    left: FloatArray


def make_scratch(shape: Shape, most: int) -> Scratch:
    """Scratch for levels of at most so many tiles."""
    divisors = shape.divisors.size
    return Scratch(
        np.zeros(shape.sizes.size), np.zeros(most, np.int64),
        np.zeros(divisors, np.int64), np.zeros(divisors),
    )  # fmt: skip


@by_reference
class Chain(NamedTuple):
    """The tables: free `[F]`, hull_u, hull_c `[F, T, H]`, hull_n `[F, T]`, of slots and boundaries.

    free is the least cost outside where no tensor rests; pairs `[F, X, P, 3]` points (trips, trips,
    cost) where two tensors rest, pairs_n `[F, X]` how many.
    """

    slot_free: FloatArray
    slot_u: FloatArray
    slot_c: FloatArray
    slot_n: Array
    slot_pairs: FloatArray
    slot_pairs_n: Array
    free: FloatArray
    hull_u: FloatArray
    hull_c: FloatArray
    hull_n: Array
    pairs: FloatArray
    pairs_n: Array


def empty_chain(tiles: Tiles, tensors: int, pairs: int) -> Chain:
    """Room for the tables of tiles, with so many tensors and pairs."""
    cells = tiles.cell.size
    most = max(2, min(POINTS, MOST_POINTS // max(1, cells * pairs)))

    def hulls() -> tuple[FloatArray, FloatArray, Array, FloatArray, Array]:
        shape = (cells, tensors, HULL)
        return (
            np.empty(shape), np.empty(shape), np.zeros(shape[:2], np.int64),
            np.empty((cells, pairs, most, 3)), np.zeros((cells, pairs), np.int64),
        )  # fmt: skip

    return Chain(np.empty(cells), *hulls(), np.empty(cells), *hulls())
