"""Mappings as real vectors for networks, and the mappings nearest to such vectors.

Letters: B mappings, D attributes of a code, F features, n dimensions, S slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.arrays.remainders import Remainders
from costmodel.arrays.tables import NestTables
from costmodel.map_space import moves
from costmodel.space import Codes
from mapspace.errors import ContractError
from mapspace.strict_yaml import shown

# Real points to project are clipped here.
_FARTHEST = 1e15


def encode(
    tables: NestTables, remainders: Remainders | None, codes: Codes
) -> npt.NDArray[np.float32]:
    """`MapSpace.encode` where buffers have one order; `[B, F]`."""
    t = tables
    rows = codes[:, : t.sizes.size] + t.row_start[:-1]
    batch = len(codes)
    parts = [
        np.broadcast_to(t.sizes, (batch, t.sizes.size)),
        t.factors[rows].transpose(0, 2, 1).reshape(batch, -1),
    ]
    parts += [
        t.ranks[first + codes[:, column]]
        for first, column in zip(t.order_start[0], t.order_column, strict=True)
    ]
    for level, column in enumerate(t.banks_column):
        if column >= 0:
            parts.append(t.allocations[t.allocation_start[level] + codes[:, column]])
    bits = np.arange(t.sliding.size)
    parts += [(codes[:, [c]] >> bits) & 1 for c in t.keep_column if c >= 0]
    parts += [
        t.ranks[first + codes[:, c]]
        for first, c in zip(t.order_start[1], t.spatial_order_column, strict=True)
        if c >= 0
    ]
    bits = np.arange(t.sizes.size)
    parts += [(codes[:, [c]] >> bits) & 1 for c in t.spatial_axis_column if c >= 0]
    if remainders is not None:
        parts.append(remainders.rests[rows].transpose(0, 2, 1).reshape(batch, -1))
    return np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")


def check_points(points: npt.NDArray[np.floating[Any]], width: int) -> None:
    """Refuses what is no batch of finite points of so many features.

    Raises:
        ContractError: wrong shape, or a value that is not finite.
    """
    if not isinstance(points, np.ndarray):
        raise ContractError(f"points: expected an array [B, {width}], got {shown(points)}.")
    if not np.issubdtype(points.dtype, np.number):
        raise ContractError(f"points: expected numbers, got {points.dtype}.")
    if points.ndim != 2 or points.shape[1] != width:
        raise ContractError(f"Expected points of shape [B, {width}], got {list(points.shape)}.")
    if not np.isfinite(points).all():
        raise ContractError("Points to project must be finite.")


def project(tables: NestTables, points: npt.NDArray[np.floating[Any]], width: int) -> Codes:
    """`MapSpace.project` where buffers have one order.

    Args:
        tables: those of the map space.
        points: `[B, F]`, finite.
        width: attributes of a code, D.
    """
    t = tables
    n, batch = t.sizes.size, len(points)
    # Beyond every size, and small enough for the squares of distances.
    points = np.clip(points, -_FARTHEST, _FARTHEST)
    codes = np.zeros((batch, width), np.int32)
    position = n
    factors = points[:, n : n + t.slot_level.size * n].reshape(batch, t.slot_level.size, n)
    position += t.slot_level.size * n

    def take(width: int) -> npt.NDArray[np.float64]:
        nonlocal position
        position += width
        return points[:, position - width : position].astype(np.float64)

    for column in t.order_column:
        codes[:, column] = moves.order_indices(take(n))
    for level, column in enumerate(t.banks_column):
        if column >= 0:
            rows = t.allocations[t.allocation_start[level] : t.allocation_start[level + 1]]
            distance = ((take(t.sliding.size)[:, None, :] - rows) ** 2).sum(axis=2)
            codes[:, column] = distance.argmin(axis=1)
    for column in t.keep_column[t.keep_column >= 0]:
        codes[:, column] = (take(t.sliding.size) > 0.5) @ (1 << np.arange(t.sliding.size))
    for column in t.spatial_order_column[t.spatial_order_column >= 0]:
        codes[:, column] = moves.order_indices(take(n))
    for column in t.spatial_axis_column[t.spatial_axis_column >= 0]:
        codes[:, column] = (take(n) > 0.5) @ (1 << np.arange(n))
    moves.project_tilings(t, np.ascontiguousarray(factors, np.float64), codes)
    return codes
