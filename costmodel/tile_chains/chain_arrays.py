"""The tables of a chain, as arrays that compiled passes fill.

Letters as in `costmodel.tile_chains.chain`, which says what they hold; X pairs of tensors, P points
of a pair, R rows of points.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.compiled.by_reference import by_reference
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
    """The tables of slots and boundaries.

    free `[F]` the least cost outside where no tensor rests, inf where nothing is left; row `[F]`
    where the points of a tile stand; hull_u, hull_c `[T, H, R]` the hulls', hull_n `[R, T]` how
    many (a hull of one point takes the memory of one); pairs `[R, X, P, 3]` points (trips, trips,
    cost) where two tensors rest, pairs_n `[R, X]` how many. Tiles that are left have the first rows
    of their level's, in a row, so that no memory is touched for others: all of these have the last
    row, which has no points.
    """

    slot_free: FloatArray
    slot_row: npt.NDArray[np.int32]
    slot_u: FloatArray
    slot_c: FloatArray
    slot_n: npt.NDArray[np.int8]
    slot_pairs: FloatArray
    slot_pairs_n: Array
    free: FloatArray
    row: npt.NDArray[np.int32]
    hull_u: FloatArray
    hull_c: FloatArray
    hull_n: npt.NDArray[np.int8]
    pairs: FloatArray
    pairs_n: Array


def empty_chain(tiles: Tiles, tensors: int, pairs: int) -> Chain:
    """Room for the tables of tiles, with so many tensors and pairs."""
    cells = tiles.cell.size
    most = max(2, min(POINTS, MOST_POINTS // max(1, cells * pairs)))

    rows = cells + 1

    def points() -> Iterator[npt.NDArray[Any]]:
        yield np.empty(cells)
        yield np.full(cells, cells, np.int32)  # what is not filled has no points either
        yield np.empty((tensors, HULL, rows))
        yield np.empty((tensors, HULL, rows))
        yield np.empty((rows, tensors), np.int8)
        yield np.empty((rows, pairs, most, 3))
        yield np.empty((rows, pairs), np.int64)

    chain = Chain(*points(), *points())
    for counts in (chain.slot_n, chain.hull_n, chain.slot_pairs_n, chain.pairs_n):
        counts[-1] = 0
    return chain
