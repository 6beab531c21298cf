"""What the compiled proof changes: the best mappings, the limit, counts, and working memory.

Letters: n dimensions, T tensors, X axes of all tensors, K outer keep sets, B best mappings held.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.exact.objective import INFINITE
from costmodel.exact.orders import Orders, make_orders
from costmodel.exact.tables import ProofTables
from costmodel.nest import Array

# Columns of a row that describes a mapping, after five blocks of n: spatial factors, extents of
# the element buffers' tiles, extents of the shared buffer's tile, and the dimensions of the shared
# buffer's and of DRAM's loops, innermost first.
BLOCKS = 5
INNER_SET, OUTER_SET, SPATIAL_ORDER, SPATIAL_AXES = range(4)
EXTRA = 4

INNER_TILES, OUTER_TILES, TILINGS, ORDERS, SUBTREES = range(5)


class Found(NamedTuple):
    """The best mappings and what a better one has to beat.

    Attributes:
        kind: the objective, `costmodel.exact.objective.KINDS`.
        energy: `[B]` in units, ascending by objective; INFINITE where nothing was found yet.
        cycles: `[B]`.
        rows: `[B, 5n + 4]` the mappings.
        limit: `[2]` energy and cycles: only what is below is looked for.
        counts: `[5]` element tiles, shared buffer's tiles and tilings bounded, orders evaluated,
            and bounds of subtrees of element tiles.
    """

    kind: int
    energy: Array
    cycles: Array
    rows: Array
    limit: Array
    counts: Array


def nothing_found(kind: int, dimensions: int, most: int) -> Found:
    """Holds up to `most` mappings, none yet."""
    return Found(
        kind,
        np.full(most, INFINITE),
        np.full(most, INFINITE),
        np.zeros((most, BLOCKS * dimensions + EXTRA), np.int64),
        np.full(2, INFINITE),
        np.zeros(5, np.int64),
    )


class OuterTables(NamedTuple):
    """Least cost of everything above the shared buffer, by what the tile must be a multiple of.

    Attributes:
        loose: credit tables over every split of the loops (`costmodel.exact.traffic`).
        outer: credit tables of DRAM's loops alone.
        energy: `[K, cells]` least energy of the words that enter any tile of the shared buffer
            that is a multiple of the cell's; INFINITE where none fits.
        words: `[K, cells]` likewise the least words; `[K, 0]` without bandwidth limits.
    """

    loose: Array
    outer: Array
    energy: Array
    words: Array


class Work(NamedTuple):
    """Working memory; one per thread.

    `[n]`: spatial and spatial_at (its position), the inner tile's extent, step and step_at, trips;
    the outer tile's extent middle and middle_at, outer_trips; pick and outer_pick, positions in
    the lists of multiples; fixed_tile, 1 where the shared buffer's tile must be the step.
    `[T]`: groups, held. `[T, 4]`: fixed, inner_charge. `[n + 1, T]`: inner_bound, outer_bound;
    loose_bound, that of the element tile for any split.
    `[X, 1 + n]`: credit. `[K]`: live outer sets, what they cost whatever the loops are (base) and
    what the loops above the element tile cost at least (loose).
    """

    spatial: Array
    spatial_at: Array
    extent: Array
    step: Array
    step_at: Array
    trips: Array
    middle: Array
    middle_at: Array
    outer_trips: Array
    pick: Array
    outer_pick: Array
    fixed_tile: Array
    groups: Array
    held: Array
    fixed: Array
    inner_charge: Array
    inner_bound: Array
    loose_bound: Array
    outer_bound: Array
    credit: Array
    live: Array
    base: Array
    loose: Array
    low_fixed: Array
    low_charge: Array
    low_base: Array
    least: Array
    entering: Array
    resting: Array
    leaves: Array
    traffic: Array
    tensor_traffic: Array
    offsets: Array
    hops: Array
    place: Array
    moved: Array
    lowest: Array
    highest: Array
    axis_step: Array
    axis_trip: Array
    axis_inner: Array
    axis_least: Array
    orders: Orders


def make_work(tables: ProofTables) -> Work:
    """Working memory for one thread."""
    n, tensors, axes = tables.sizes.size, tables.sliding.size, tables.credit_start.size
    terms = int(np.diff(tables.term_start).max(initial=1))

    def vector() -> Array:
        return np.ones(n, np.int64)

    return Work(
        spatial=vector(),
        spatial_at=vector(),
        extent=vector(),
        step=vector(),
        step_at=vector(),
        trips=vector(),
        middle=vector(),
        middle_at=vector(),
        outer_trips=vector(),
        pick=vector(),
        outer_pick=vector(),
        fixed_tile=vector(),
        groups=np.ones(tensors, np.int64),
        held=np.ones(tensors, np.int64),
        fixed=np.zeros((tensors, 4), np.int64),
        inner_charge=np.zeros((tensors, 4), np.int64),
        inner_bound=np.zeros((n + 1, tensors), np.int64),
        loose_bound=np.zeros((n + 1, tensors), np.int64),
        outer_bound=np.zeros((n + 1, tensors), np.int64),
        credit=np.ones((axes, 1 + n), np.int64),
        live=np.zeros(tables.outer_sets.size, np.int64),
        base=np.zeros(tables.outer_sets.size, np.int64),
        loose=np.zeros(tables.outer_sets.size, np.int64),
        low_fixed=np.zeros((tensors, 4), np.int64),
        low_charge=np.zeros((tensors, 4), np.int64),
        low_base=np.zeros(tables.outer_sets.size, np.int64),
        least=np.ones(tensors, np.int64),
        entering=np.ones(tensors, np.int64),
        resting=np.ones(tensors, np.int64),
        leaves=np.ones(n + 1, np.int64),
        traffic=np.zeros((3, 2), np.int64),
        tensor_traffic=np.zeros((tensors, 3, 2), np.int64),
        offsets=np.zeros(tables.fanout, np.int64),
        hops=np.zeros(tensors, np.int64),
        place=np.zeros(2, np.int64),
        moved=vector(),
        lowest=np.zeros(tables.fanout, np.int64),
        highest=np.zeros(tables.fanout, np.int64),
        axis_step=np.zeros(2 * terms, np.int64),
        axis_trip=np.zeros(2 * terms, np.int64),
        axis_inner=np.zeros(2 * terms, np.int64),
        axis_least=np.zeros(4**terms, np.int64),
        orders=make_orders(n, tensors),
    )
