"""Compiled: loops that were placed one by one, as the order columns of codes.

Letters: B mappings, D attributes of a code, L levels, n dimensions, K loops above the innermost
level.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.compiled import lean
from costmodel.map_space.moves import order_index
from costmodel.space import Codes


@lean
def write_orders(
    sequences: Array,
    moving: npt.NDArray[np.bool_],
    columns: Array,
    codes: Codes,
    order: Array,
) -> None:
    """Writes the orders of the loops of all levels but the innermost into codes.

    Args:
        sequences: `[B, K]` dimensions of the loops that have trips, the innermost first.
        moving: `[L, n]` which dimensions have trips at a level.
        columns: `[L]` the columns of the levels' orders.
        codes: `[B, D]` are filled.
        order: `[n]` scratch.
    """
    levels, n = moving.shape
    for b in range(codes.shape[0]):
        place = 0
        for level in range(levels - 2, -1, -1):
            loops = 0
            for d in range(n):
                loops += moving[level, d]
            after = loops
            for d in range(n):
                if not moving[level, d]:
                    order[after] = d
                    after += 1
            for k in range(loops):
                order[loops - 1 - k] = sequences[b, place + k]
            place += loops
            codes[b, columns[level]] = order_index(order)
