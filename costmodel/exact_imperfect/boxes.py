"""Boxes of spatial factors that still can hold a better mapping, the least bound first.

Letters: L levels, n dimensions.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.exact_imperfect.prices import Box
from costmodel.map_space.map_space import MapSpace

WIDTH = 0.2
"""What a factor's interval weighs beside the cycles that halving it gains."""


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


def best_halves(
    box: Box, fanout: Array, cycles: Callable[[Box], int]
) -> list[tuple[Box, int]] | None:
    """A box in two along the factor that raises cycles most, or else has the widest interval.

    Args:
        box: the factors.
        fanout: `[L]`.
        cycles: the least cycles of a box.

    Returns:
        What there is room for, each with its cycles; None where the box has one of every factor.
    """
    found: tuple[float, list[tuple[Box, int]]] | None = None
    for level, d in np.argwhere(box.high > box.low).tolist():
        low, high = int(box.low[level, d]), int(box.high[level, d])
        middle = max(low, min(high - 1, int((low * high) ** 0.5)))
        below, above = box.high.copy(), box.low.copy()
        below[level, d], above[level, d] = middle, middle + 1
        rooms = (narrowed(Box(box.low, below), fanout), narrowed(Box(above, box.high), fanout))
        parts = [(part, cycles(part)) for part in rooms if part is not None]
        # Halves of which one is slow are nearly as good as two that are a little slower.
        gain = sum(math.log(each) for _, each in parts) / 2 if len(parts) > 1 else math.inf
        gain += WIDTH * math.log(high / low)
        if found is None or gain > found[0]:
            found = gain, parts
    return None if found is None else found[1]
