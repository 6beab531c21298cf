"""Boxes of spatial factors that still can hold a better mapping, the least bound first.

Letters: L levels, n dimensions.
"""

from __future__ import annotations

import heapq
import itertools
from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.exact_imperfect.prices import Box
from costmodel.map_space.map_space import MapSpace


class Piece(NamedTuple):
    """A box with what is known of it.

    order and kept number the order of buffers and the choice of kept tensors; energy (pJ) and
    cycles no mapping in it undercuts; grids says how many grids have bounded it.
    """

    order: int
    kept: int
    box: Box
    energy: float
    cycles: int
    grids: int


class Queue:
    """Pieces by rising bound of an objective."""

    def __init__(self) -> None:
        """Holds none."""
        self._heap: list[tuple[float, int, Piece]] = []
        self._number = itertools.count()

    def __len__(self) -> int:
        """How many pieces are left."""
        return len(self._heap)

    def put(self, value: float, piece: Piece) -> None:
        """Adds a piece with the bound of its objective."""
        heapq.heappush(self._heap, (value, next(self._number), piece))

    def take(self) -> tuple[float, Piece]:
        """Removes the piece of the least bound."""
        value, _, piece = heapq.heappop(self._heap)
        return value, piece

    @property
    def least(self) -> tuple[float, Piece]:
        """The least bound, and its piece."""
        value, _, piece = self._heap[0]
        return value, piece


def whole_box(space: MapSpace) -> Box:
    """All spatial factors that a machine has room for, meshes and idle children left aside."""
    tables = space.tables
    shape = tables.capacity.size, tables.sizes.size
    high = np.ones(shape, np.int64)
    for level in range(shape[0]):
        if tables.spatial_slot[level] >= 0:
            barred = [bool((tables.machine.barred[level] >> d) & 1) for d in range(shape[1])]
            high[level] = np.where(barred, 1, np.minimum(tables.fanout[level], tables.sizes))
    return Box(np.ones(shape, np.int64), high)


def narrowed(box: Box, fanout: Array) -> Box | None:
    """A box without factors that have no room beside the least of the others; None: none left."""
    inside = box.low.prod(axis=1)
    if (inside > fanout).any():
        return None
    high = np.minimum(box.high, fanout[:, None] * box.low // inside[:, None])
    return Box(box.low, high)


def halves(box: Box) -> tuple[Box, Box] | None:
    """A box in two along its widest factor; None where there is one of every factor only."""
    ratio = box.high / box.low
    at = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    low, high = int(box.low[at]), int(box.high[at])
    if low == high:
        return None
    middle = max(low, min(high - 1, int((low * high) ** 0.5)))
    below, above = box.high.copy(), box.low.copy()
    below[at], above[at] = middle, middle + 1
    return Box(box.low, below), Box(above, box.high)
