"""What the compiled proof changes: the best mappings, the limit, counts, and working memory.

Letters: n dimensions, T tensors, X axes of all tensors, K outer keep sets, B best mappings held, F
elements of the machine. Extents are numbers of iterations; positions are among the divisors of a
dimension; energies are whole units.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled.by_reference import by_reference
from costmodel.exact.loop_orders import Orders, make_orders
from costmodel.exact.objective import INFINITE
from costmodel.exact.problem import ProofTables

# Columns of a row that describes a mapping, after five blocks of n: spatial factors, extents of
# the element buffers' tiles, extents of the shared buffer's tile, and the dimensions of the shared
# buffer's and of DRAM's loops, innermost first.
BLOCKS = 5
INNER_SET, OUTER_SET, SPATIAL_ORDER, SPATIAL_AXES = range(4)
EXTRA = 4

INNER_TILES, OUTER_TILES, TILINGS, ORDERS, SUBTREES = range(5)

# Where a unit's search paused (`Work.paused`): the stage, the depth of the element tile, how many
# keep sets of the shared buffer survived and which one is in hand, the depth of its tile.
STAGE, DEPTH, SURVIVORS, SURVIVOR, OUTER_DEPTH = range(5)
# Stages: not begun; between element tiles; among the shared buffer's tiles above one of them.
FRESH, BETWEEN_TILES, IN_TILE = range(3)

# Which element tiles of a unit are searched (`Found.part`).
PART_DEPTH, PART_FIRST, PART_STOP, PART_PATH = range(4)


@by_reference
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
        ticks: `[1]` how many tiles, finished or not, may still be looked at before a pause.
        halt: `[1]` not 0: pause at once; shared by all who search, set from any thread.
        part: `[3 + n]` which element tiles of a unit: those whose first dimensions, as many as
            `PART_DEPTH` says, have the extents at PART_PATH and on, and the next one of these from
            PART_FIRST up to before PART_STOP, all of them as picks; PART_DEPTH -1: all tiles.
    """

    kind: int
    energy: Array
    cycles: Array
    rows: Array
    limit: Array
    counts: Array
    ticks: Array
    halt: Array
    part: Array


def nothing_found(kind: int, dimensions: int, most: int) -> Found:
    """Holds up to `most` mappings, none yet."""
    return Found(
        kind,
        np.full(most, INFINITE),
        np.full(most, INFINITE),
        np.zeros((most, BLOCKS * dimensions + EXTRA), np.int64),
        np.full(2, INFINITE),
        np.zeros(5, np.int64),
        np.full(1, INFINITE),
        np.zeros(1, np.int64),
        np.full(PART_PATH + dimensions, -1),
    )


@by_reference
class ElementTile(NamedTuple):
    """The element tile in hand."""

    spatial: Array
    """`[n]` factors of the spatial vector."""
    spatial_at: Array
    """`[n]` their positions."""
    extent: Array
    """`[n]` extents of the tile."""
    step: Array
    """`[n]` extents that one step of the loops above it covers: extent x spatial."""
    step_at: Array
    """`[n]` their positions."""
    trips: Array
    """`[n]` product of the trip counts of each dimension's loops above the tile."""
    pick: Array
    """`[n]` which of the multiples of `spatial` the step is."""


@by_reference
class BufferTile(NamedTuple):
    """The shared buffer's tile in hand."""

    extent: Array
    """`[n]` extents of the tile."""
    at: Array
    """`[n]` their positions."""
    trips: Array
    """`[n]` trip counts of DRAM's loops."""
    pick: Array
    """`[n]` which of the multiples of the element tile's step the extent is."""
    fixed: Array
    """`[n]` 1 where the tile must be the element tile's step."""


@by_reference
class Spread(NamedTuple):
    """How the tensors lie on the elements."""

    groups: Array
    """`[T]` distinct tiles among the elements."""
    hops: Array
    """`[T]` energy of one delivery of all distinct tiles over the mesh."""
    place: Array
    """`[2]` index of the order of the spatial loops; dimensions along the height, as bits."""
    known: Array
    """`[T, C, 2]` groups and hops by the extents that they depend on; -1: not counted so far."""
    children: Array
    """`[F]` scratch, as are the others."""
    moved: Array
    """`[n]`."""
    lowest: Array
    """`[F]`."""
    highest: Array
    """`[F]`."""


@by_reference
class Charges(NamedTuple):
    """What words cost, by where a tensor is kept (`costmodel.exact.access_energy`)."""

    fixed: Array
    """`[T, 4]` energy whatever the loops above the tiles are."""
    inner: Array
    """`[T, 4]` energy of one word that enters an element tile."""
    base: Array
    """`[K]` all energy that does not depend on the loops."""


@by_reference
class Bounds(NamedTuple):
    """Lower bounds on the words that enter tiles, by the dimension of the innermost loop above.

    Row n is for no loop at all; with bandwidth limits, where there are loops, for any of them.
    """

    inner: Array
    """`[n + 1, T]` words that enter the element tile."""
    loose: Array
    """`[n + 1, T]` the same, however the loops are split over the two levels."""
    outer: Array
    """`[n + 1, T]` words that enter the shared buffer's tile."""
    entering: Array
    """`[T]` words that enter the element tile for one innermost loop."""
    credit: Array
    """`[X, 1 + n]` least products of uncredited trips of the axes of several terms."""
    held: Array
    """`[T]` product of the trips that cannot be credited although they do not move the tensor."""
    least: Array
    """`[T]` of a subtree: words that enter the element tile if no loop rests."""
    resting: Array
    """`[T]` of a subtree: product of the trips of the loops that leave the tensor at rest."""
    leaves: Array
    """`[n + 1]` element tiles below each depth of the tree."""
    live: Array
    """`[K]` the shared buffer's keep sets with which the element tile may win."""
    live_energy: Array
    """`[K]` for each of them the least energy of the words that enter the element tile."""


@by_reference
class AxisLoops(NamedTuple):
    """Scratch: the loops of one axis of a tensor, at most two for each of its M terms."""

    step: Array
    """`[2M]` how far an iteration of each loop moves the axis."""
    trip: Array
    """`[2M]` trip counts above 1."""
    inner: Array
    """`[2M]` 1 for loops that must stand inside all others."""
    least: Array
    """`[4^M]` least product of uncredited trips, by the loops chosen, as bits."""


@by_reference
class Traffic(NamedTuple):
    """Scratch: words read and written per instance of each level."""

    total: Array
    """`[3, 2]` of all tensors."""
    of_tensor: Array
    """`[T, 3, 2]` of each."""


@by_reference
class Work(NamedTuple):
    """Working memory; one per thread."""

    element: ElementTile
    """The element tile in hand."""
    buffer: BufferTile
    """The shared buffer's tile in hand."""
    spread: Spread
    """How the tensors lie on the elements."""
    charges: Charges
    """What words of the element tile in hand cost."""
    least_charges: Charges
    """What words cost at least, whatever the element tile of the unit in hand."""
    bounds: Bounds
    """Bounds on the words that enter the tiles."""
    axis: AxisLoops
    """The loops of an axis."""
    traffic: Traffic
    """Words read and written."""
    paused: Array
    """`[5]` where the search of a unit goes on: STAGE, DEPTH, SURVIVORS, SURVIVOR, OUTER_DEPTH."""
    orders: Orders
    """The loop orders of the tiling in hand."""


MOST_KNOWN = 4096
"""Combinations of extents of which groups and hops are remembered."""


def _most_combinations(tables: ProofTables) -> int:
    """The most extents of the dimensions on which the groups of any tensor can depend, at once."""
    divisors = np.diff(tables.divisor_start)
    most = 1
    for t in range(tables.sliding.size):
        own = 1
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            terms = slice(tables.term_start[axis], tables.term_start[axis + 1])
            dimensions = tables.term_dimension[terms].tolist()
            if len(dimensions) > 1:
                own *= math.prod(int(divisors[d]) for d in dimensions)
        most = max(most, own)
    return most


def make_work(tables: ProofTables) -> Work:
    """Working memory for one thread."""
    n, tensors, axes = tables.sizes.size, tables.sliding.size, tables.credit_start.size
    sets = tables.outer_sets.size
    terms = int(np.diff(tables.term_start).max(initial=1))
    combinations = min(_most_combinations(tables), MOST_KNOWN) if tables.half_hop else 1

    def zeros(*shape: int) -> Array:
        return np.zeros(shape, np.int64)

    def ones(*shape: int) -> Array:
        return np.ones(shape, np.int64)

    def charges() -> Charges:
        return Charges(fixed=zeros(tensors, 4), inner=zeros(tensors, 4), base=zeros(sets))

    return Work(
        element=ElementTile(*(ones(n) for _ in ElementTile._fields)),
        buffer=BufferTile(*(ones(n) for _ in BufferTile._fields)),
        spread=Spread(
            groups=ones(tensors),
            hops=zeros(tensors),
            place=zeros(2),
            known=zeros(tensors, combinations, 2),
            children=zeros(tables.fanout),
            moved=ones(n),
            lowest=zeros(tables.fanout),
            highest=zeros(tables.fanout),
        ),
        charges=charges(),
        least_charges=charges(),
        bounds=Bounds(
            inner=zeros(n + 1, tensors),
            loose=zeros(n + 1, tensors),
            outer=zeros(n + 1, tensors),
            entering=ones(tensors),
            credit=ones(axes, 1 + n),
            held=ones(tensors),
            least=ones(tensors),
            resting=ones(tensors),
            leaves=ones(n + 1),
            live=zeros(sets),
            live_energy=zeros(sets),
        ),
        axis=AxisLoops(zeros(2 * terms), zeros(2 * terms), zeros(2 * terms), zeros(4**terms)),
        traffic=Traffic(total=zeros(3, 2), of_tensor=zeros(tensors, 3, 2)),
        paused=zeros(5),
        orders=make_orders(n, tensors),
    )
