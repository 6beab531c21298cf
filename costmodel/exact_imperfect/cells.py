"""Tile extents as cells: intervals within which a dimension is passed over equally often.

Letters: n dimensions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.exact_imperfect.grid import FloatArray

RATIOS = (1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 1e9)


class Cells(NamedTuple):
    """Per dimension the ends of its intervals, ascending, first and last included `[m]`."""

    low: tuple[Array, ...]
    high: tuple[Array, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Intervals per dimension."""
        return tuple(len(low) for low in self.low)

    def along(self, d: int, values: FloatArray) -> FloatArray:
        """Values `[m]` of a dimension as an array of n axes."""
        return values.reshape([-1 if axis == d else 1 for axis in range(len(self.low))])


def cells_of(sizes: Array, most: int) -> Cells:
    """Intervals of all dimensions, as fine as `most` cells allow.

    An extent b passes over N in N / b steps, rounded up: extents with equal steps are one interval
    at the finest.
    """
    for ratio in RATIOS:
        low = [_starts(int(size), ratio) for size in sizes]
        if math.prod(len(one) for one in low) <= most:
            break
    high = [np.append(one[1:] - 1, size) for one, size in zip(low, sizes.tolist(), strict=True)]
    return Cells(tuple(low), tuple(high))


def _starts(size: int, ratio: float) -> Array:
    """Where intervals start: 1 and the size, and between them no closer than a ratio."""
    steps = np.arange(1, size + 1)
    found: list[int] = []
    for start in np.unique(-(-size // steps)).tolist():
        if not found or start >= ratio * found[-1] or start == size:
            found.append(start)
    return np.array(found, np.int64)
