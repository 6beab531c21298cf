"""What the structured searcher's compiled moves read and write, besides the map space's tables.

Letters: n dimensions, S slots, L levels, T tensors, as in `costmodel.nest`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.nest import NestTables

Array = npt.NDArray[np.int64]

# Shares of moves on what only some machines leave to the mapping.
SKIP_SHARE = 0.10
PLACE_SHARE = 0.10


class Choices(NamedTuple):
    """What proposals choose from, besides the tables.

    Attributes:
        dimension: `[M]` dimension of each distinct prime factor.
        prime: `[M]` its value.
        vectors: `[V, n]` spatial factors of the largest product, level by level.
        vector_start: `[L + 1]` into vectors.
        spatial_slots: the slots of spatial loops.
        skippable: `[L]` 1 where tensors can skip the level, by choice or by overflow.
        outer_fill: probability that a level above the innermost is filled in a new mapping.
        skip_share: share of moves that drop or keep a tensor.
        place_share: share of moves that redraw where spatial loops run.
    """

    dimension: Array
    prime: Array
    vectors: Array
    vector_start: Array
    spatial_slots: Array
    skippable: Array
    outer_fill: float
    skip_share: float
    place_share: float


class Workspace(NamedTuple):
    """The mapping in hand: factors `[n, S]`, extents `[L, n]`, words and kept `[L, T]`; scratch."""

    stream: npt.NDArray[np.uint64]
    factors: Array
    extents: Array
    words: Array
    grown: Array
    kept: npt.NDArray[np.uint8]
    tile: Array
    rows: Array
    order: Array
    open_pairs: Array


def list_choices(tables: NestTables, outer_fill: float) -> Choices:
    """Lists distinct primes and, per level, the spatial vectors of the largest product.

    Args:
        tables: the map space.
        outer_fill: probability that a level above the innermost is filled in a new mapping.
    """
    pairs = sorted(
        set(zip(tables.prime_dimension.tolist(), tables.prime_value.tolist(), strict=True))
    )
    vectors: list[list[int]] = []
    start = [0]
    for level, fanout in enumerate(tables.fanout.tolist()):
        if tables.spatial_slot[level] >= 0:
            vectors.extend(_largest_vectors(tables.sizes.tolist(), fanout))
        start.append(len(vectors))
    skippable = (tables.keep_column >= 0) | bool(tables.bypass_on_overflow)
    skippable[0] = False
    placed = (tables.spatial_order_column >= 0) | (tables.spatial_axis_column >= 0)
    return Choices(
        dimension=np.array([d for d, _ in pairs], dtype=np.int64),
        prime=np.array([prime for _, prime in pairs], dtype=np.int64),
        vectors=np.array(vectors, dtype=np.int64).reshape(-1, tables.sizes.size),
        vector_start=np.array(start, dtype=np.int64),
        spatial_slots=np.flatnonzero(tables.slot_spatial),
        skippable=skippable.astype(np.int64),
        outer_fill=outer_fill,
        skip_share=SKIP_SHARE if skippable.any() else 0.0,
        place_share=PLACE_SHARE if placed.any() else 0.0,
    )


def make_workspace(tables: NestTables) -> Workspace:
    """Working memory of `propose`; one per searcher."""
    n, slots = tables.sizes.size, tables.slot_level.size
    levels, tensors = tables.capacity.size, tables.sliding.size
    return Workspace(
        stream=np.zeros(1, np.uint64),
        factors=np.ones((n, slots), np.int64),
        extents=np.ones((levels, n), np.int64),
        words=np.ones((levels, tensors), np.int64),
        grown=np.ones((levels, tensors), np.int64),
        kept=np.ones((levels, tensors), np.uint8),
        tile=np.ones((levels, tensors), np.int64),
        rows=np.zeros(n, np.int64),
        order=np.arange(n),
        open_pairs=np.zeros(tables.prime_value.size, np.int64),
    )


def _largest_vectors(sizes: list[int], limit: int) -> list[list[int]]:
    """All vectors of divisors of `sizes` with the largest product that is at most `limit`."""
    divisors = [[f for f in range(1, min(size, limit) + 1) if size % f == 0] for size in sizes]
    reachable = {1}
    for factors in divisors:
        reachable = {p * f for p in reachable for f in factors if p * f <= limit}
    found: list[list[int]] = [[]]
    products = [max(reachable)]
    for position, factors in enumerate(divisors):
        last = position == len(divisors) - 1
        extended = [
            ([*vector, f], rest // f)
            for vector, rest in zip(found, products, strict=True)
            for f in factors
            if rest % f == 0 and (not last or rest == f)
        ]
        found = [vector for vector, _ in extended]
        products = [rest for _, rest in extended]
    return found
