"""Compiled: whether neighbours hand on words of windows, by the loops that stand (lemma 19).

Letters: L levels, n dimensions, T tensors, P = L x T pairs.
"""

from __future__ import annotations

from typing import Any

from costmodel.compiled import part
from costmodel.tile_chains.shape import Shape

UNKNOWN, HANDING, HANDED, NEVER = range(4)
"""Of a pair: they may, do as long as only windows move the tensor, did, or never do."""

MACS = 2
"""Neighbours that are MACs, which take a tensor in every step, also while it rests."""


@part
def axis_terms(
    shape: Shape,
    t: int,
    d: int,
) -> int:
    """Terms of the axis along which a dimension moves a tensor; 0 if it does not."""
    axis = shape.axis_of[t, d]
    if axis < 0:
        return 0
    axis += shape.axis_start[t]
    terms: int = shape.term_start[axis + 1] - shape.term_start[axis]
    return terms


@part
def may_hand_on(
    tiling: Any,
    places: Any,
    row: int,
) -> bool:
    """Whether the next loop decides what neighbours hand on.

    Args:
        tiling: `orders.Tiling`.
        places: `orders.Places`.
        row: of the loops that stand.
    """
    levels, tensors = tiling.links.shape
    for level in range(places.level[row] + 1, levels):
        for t in range(tensors):
            if tiling.links[level, t] and places.handing[row, level * tensors + t] <= HANDING:
                return True
    return False


@part
def hand_on(
    shape: Shape,
    tiling: Any,
    places: Any,
    row: int,
    d: int,
    at: int,
) -> None:
    """What a loop over dimension d of level `at` means for what neighbours further in hand on.

    Args:
        shape: the operation.
        tiling: `orders.Tiling`.
        places: `orders.Places`.
        row: of the loops that stand, this one included; written.
        d: the dimension.
        at: the level.
    """
    levels, tensors = tiling.links.shape
    for level in range(at + 1, levels):
        for t in range(tensors):
            link, pair = tiling.links[level, t], level * tensors + t
            if not link or places.handing[row, pair] > HANDING:
                continue
            terms = axis_terms(shape, t, d)
            first = places.handing[row, pair] == UNKNOWN
            if terms > 1:
                places.handing[row, pair] = HANDING
            elif terms == 1:
                places.handing[row, pair] = NEVER if first else HANDED
            elif first and link != MACS:
                # Inside all others is a loop that brings nothing: no visit is like the one before.
                places.handing[row, pair] = NEVER
