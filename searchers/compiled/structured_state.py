"""What the structured searcher's compiled moves read and write, besides the map space's tables.

Letters: n dimensions, S slots, L levels, T tensors, as in `costmodel.arrays.tables`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import NestTables
from costmodel.compiled.by_reference import by_reference

Array = npt.NDArray[np.int64]

# The most often that a chain tries to move, or to sample, before it gives up.
ATTEMPTS = 20

# Share of new mappings that do not use the most children of a fan-out.
NEAR = 0.05

# Shares of moves on what only some machines leave to the mapping.
SKIP_SHARE = 0.10
PLACE_SHARE = 0.10

# Spatial vectors may leave up to this share of the elements that could work idle: where no tensor
# needs to be kept close, a product such as 252 = 4 x 7 x 9 can beat 256.
NEAR_SHARE = 0.1

# Beyond so many vectors only those of the largest product are listed.
MOST_VECTORS = 200_000


@by_reference
class Choices(NamedTuple):
    """What proposals choose from, besides the tables.

    Attributes:
        dimension: `[M]` dimension of each distinct prime factor.
        prime: `[M]` its value.
        vectors: `[V, n]` spatial factors, fan by fan: first those of the largest product, then
            those that come near it. A fan is a level, or on deep machines an axis of its mesh.
        fan_level: `[F]` the level of each fan.
        vector_start: `[F + 1]` into vectors.
        largest_end: `[F]` end of those of the largest product.
        spatial_slots: the slots of spatial loops.
        skippable: `[L]` 1 where tensors can skip the level, by choice or by overflow.
        outer_fill: probability that a level above the innermost is filled in a new mapping.
        skip_share: share of moves that drop or keep a tensor.
        place_share: share of moves that redraw where spatial loops run.
    """

    dimension: Array
    prime: Array
    vectors: Array
    fan_level: Array
    vector_start: Array
    largest_end: Array
    spatial_slots: Array
    skippable: Array
    outer_fill: float
    skip_share: float
    place_share: float


@by_reference
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


@by_reference
class Hand(NamedTuple):
    """What proposals are made of; `deep` is None on machines such as the first ones."""

    tables: NestTables
    choices: Choices
    work: Workspace
    deep: int | None


@by_reference
class Chains(NamedTuple):
    """Annealing chains: codes `[C, D]`, ln losses, steps made and random streams `[C]`."""

    codes: npt.NDArray[np.int32]
    losses: npt.NDArray[np.float64]
    steps: Array
    streams: npt.NDArray[np.uint64]


@by_reference
class Schedule(NamedTuple):
    """What every chain does: `initial` new mappings, then `length` moves, ever colder."""

    initial: int
    length: int
    hottest: float
    coldest: float


def make_hand(tables: NestTables, outer_fill: float) -> Hand:
    """What `structured_walk` reads and overwrites; one per searcher.

    Args:
        tables: the map space.
        outer_fill: probability that a level above the innermost is filled in a new mapping.
    """
    deep = 1 if is_deep(tables) else None
    return Hand(tables, _list_choices(tables, outer_fill), _make_workspace(tables), deep)


def _list_choices(tables: NestTables, outer_fill: float) -> Choices:
    """Lists distinct primes and, per level, the spatial vectors that use the array well."""
    pairs = sorted(
        set(zip(tables.prime_dimension.tolist(), tables.prime_value.tolist(), strict=True))
    )
    vectors = [np.ones((0, tables.sizes.size), np.int64)]
    start, largest_end = [0], []
    fans = _axes(tables) if is_deep(tables) else _levels(tables)
    for _, limit, sizes in fans:
        if limit > 1:
            vectors.extend(_spatial_vectors(sizes, limit))
            largest_end.append(start[-1] + len(vectors[-2]))
            start.append(largest_end[-1] + len(vectors[-1]))
        else:
            largest_end.append(start[-1])
            start.append(start[-1])
    skippable = (tables.keep_column >= 0) | bool(tables.bypass_on_overflow)
    skippable[0] = False
    placed = (tables.spatial_order_column >= 0) | (tables.spatial_axis_column >= 0)
    return Choices(
        dimension=np.array([d for d, _ in pairs], dtype=np.int64),
        prime=np.array([prime for _, prime in pairs], dtype=np.int64),
        vectors=np.concatenate(vectors),
        fan_level=np.array([level for level, _, _ in fans], dtype=np.int64),
        vector_start=np.array(start, dtype=np.int64),
        largest_end=np.array(largest_end, dtype=np.int64),
        spatial_slots=np.flatnonzero(tables.slot_spatial),
        skippable=skippable.astype(np.int64),
        outer_fill=outer_fill,
        skip_share=SKIP_SHARE if skippable.any() else 0.0,
        place_share=PLACE_SHARE if placed.any() else 0.0,
    )


def is_deep(tables: NestTables) -> bool:
    """Whether a machine is beyond the first ones: more than three levels, or rules of its own."""
    machine = tables.machine
    kept = machine.always_kept | machine.never_kept
    across = machine.barred | machine.only_x | machine.only_y
    return tables.capacity.size > 3 or bool(kept.any() or across.any())


Fan = tuple[int, int, list[int]]
"""A level, how many children something may run across, and the sizes that may."""


def _levels(tables: NestTables) -> list[Fan]:
    """Every level as one fan; a fan-out of 1 where there is no slot."""
    return [
        (level, fanout if tables.spatial_slot[level] >= 0 else 1, tables.sizes.tolist())
        for level, fanout in enumerate(tables.fanout.tolist())
    ]


def _axes(tables: NestTables) -> list[Fan]:
    """The axes of every level's mesh, with what may run along them."""
    machine, bits = tables.machine, np.arange(tables.sizes.size)
    fans = []
    for level in np.flatnonzero(tables.spatial_slot >= 0).tolist():
        for extent, elsewhere in zip(
            tables.mesh[level].tolist(), (machine.only_y, machine.only_x), strict=True
        ):
            if extent == 1:
                continue
            barred = ((machine.barred[level] | elsewhere[level]) >> bits) & 1
            fans.append((level, extent, np.where(barred, 1, tables.sizes).tolist()))
    return fans


def _make_workspace(tables: NestTables) -> Workspace:
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


def _spatial_vectors(sizes: list[int], limit: int) -> tuple[Array, Array]:
    """Vectors of divisors `[V, n]` of the largest product up to a limit, and of nearly that.

    Returns:
        Those of the largest product, and those below it by less than `NEAR_SHARE` of it.
    """
    vectors = np.ones((1, 0), dtype=np.int64)
    products = np.ones(1, dtype=np.int64)
    largest = _largest_product(sizes, limit)
    least = math.floor((1 - NEAR_SHARE) * largest) + 1
    for position, size in enumerate(sizes):
        divisors = np.array([f for f in range(1, min(size, limit) + 1) if size % f == 0])
        rows, columns = np.nonzero(
            (products[:, None] * divisors <= largest)
            & (products[:, None] * divisors * math.prod(sizes[position + 1 :]) >= least)
        )
        if len(rows) > MOST_VECTORS:
            rows, columns = np.nonzero(largest % (products[:, None] * divisors) == 0)
        vectors = np.column_stack([vectors[rows], divisors[columns]])
        products = products[rows] * divisors[columns]
    return vectors[products == largest], vectors[(products >= least) & (products < largest)]


def _largest_product(sizes: list[int], limit: int) -> int:
    """The largest product of one divisor of each size that is at most `limit`."""
    reachable = {1}
    for size in sizes:
        divisors = [f for f in range(1, min(size, limit) + 1) if size % f == 0]
        reachable = {p * f for p in reachable for f in divisors if p * f <= limit}
    return max(reachable)
