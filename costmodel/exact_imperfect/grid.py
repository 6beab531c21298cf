"""A grid over the extents of tiles: intervals of whole numbers, per dimension.

With remainders a tile may have any extent, so that a lattice of divisors does not list them. Here
every interval is a cell: its lower end says what must fit, its upper end how few passes there are.

Letters: n dimensions, T tensors, L levels; cells are arrays with an axis per dimension.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array, NestTables

FloatArray = npt.NDArray[np.float64]

_FINEST, _COARSEST = 1.0, 64.0


def _steps(size: int, ratio: float) -> list[int]:
    """Lower ends of the intervals of a size, each that many times the one before, or one more."""
    found = [1]
    while found[-1] < size:
        found.append(min(size, max(found[-1] + 1, math.ceil(found[-1] * ratio))))
    return found


class Grid:
    """The cells of an operation.

    Attributes:
        low, high: per dimension, the ends of its intervals; the last one is the whole size alone.
        shape: how many intervals each dimension has.
    """

    def __init__(self, sizes: Array, most: int) -> None:
        """Makes the finest grid of at most so many cells.

        Args:
            sizes: `[n]`.
            most: cells; at least what two intervals per dimension need.
        """
        low, high = _FINEST, _COARSEST
        for _ in range(30):
            middle = math.sqrt(low * high)
            cells = math.prod(len(_steps(size, middle)) for size in sizes.tolist())
            low, high = (low, middle) if cells <= most else (middle, high)
        self.sizes = sizes
        self.low = [np.array(_steps(size, high)) for size in sizes.tolist()]
        self.high = [
            np.append(ends[1:] - 1, size)
            for ends, size in zip(self.low, sizes.tolist(), strict=True)
        ]
        self.shape = tuple(len(ends) for ends in self.low)

    def cell(self, d: int, extents: Array) -> Array:
        """The intervals of dimension d that extents lie in."""
        found: Array = np.searchsorted(self.low[d], extents, "right") - 1
        return found

    def along(self, d: int, values: npt.NDArray[np.generic]) -> FloatArray:
        """Values per interval of dimension d, as an array over all cells."""
        shape = [1] * len(self.shape)
        shape[d] = len(values)
        return values.reshape(shape).astype(np.float64)

    def words(self, tables: NestTables, t: int) -> FloatArray:
        """Words of tensor t's tile at the lower ends of cells."""
        words = np.ones([1] * len(self.shape))
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            words = words * self.width(tables, axis)
        return words

    def width(self, tables: NestTables, axis: int) -> FloatArray:
        """Extents of a tile along an axis, at the lower ends of cells."""
        width = np.ones([1] * len(self.shape))
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            d = int(tables.term_dimension[k])
            width = width + tables.term_coefficient[k] * (self.along(d, self.low[d]) - 1)
        return width


def fits(tables: NestTables, grid: Grid, level: int, kept: int, banks: int) -> FloatArray:
    """0 in cells of which a part fits a level, inf in the others.

    Args:
        tables: the map space.
        grid: the cells.
        level: the level.
        kept: its tensors, as bits.
        banks: how many it has; 0: it has none.
    """
    need = np.zeros([1] * len(grid.shape))
    banked = int(tables.bank_words[level])
    for t in range(tables.sliding.size):
        words = grid.words(tables, t) if (kept >> t) & 1 else np.ones_like(need) * (banked > 0)
        words = words * tables.machine.room[level, t]
        need = need + (np.ceil(words / banked) if banked else words)
    room = banks if banked else tables.capacity[level]
    free = np.zeros(grid.shape)
    if banked or tables.capacity[level] >= 0:
        free[np.broadcast_to(need, grid.shape) > room] = np.inf
    return free
