"""Where children lie on a mesh, and the hops that deliveries of all tensors need together.

Children fill a mesh row by row in the order of their spatial loops, those along the height outside
those along the width, whatever the split: so the order of all these loops says where each lies, and
one order is good for one tensor and bad for another.

Letters: A places, B assignments, L levels, n dimensions, T tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from costmodel.arrays.projections import GROUPS_PER_AXIS, GROUPS_PER_CHILD
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import lean
from costmodel.compiled.by_reference import by_reference
from costmodel.loop_nest.networks import hops_per_delivery, least_hops
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.rules import Place, Rules

MOST_PLACES = 720
"""Of more places, those of seven loops, each tensor's hops are bounded by themselves."""

MOST_TOGETHER = 256
"""Of more ways to lay the factors of several levels together none is looked at by itself."""


@by_reference
class _Room(NamedTuple):
    """A child's tile `[n]`, one point, and scratch of `hops_per_delivery`.

    moved `[n]`; the others an entry per child.
    """

    inside: Array
    moved: Array
    children: Array
    lowest: Array
    highest: Array


class Places(NamedTuple):
    """Ways to lay spatial factors on the mesh below a level, one for each that hops tell apart.

    twice `[A, T]` twice the hops of one delivery of a word to every child, at least, of each
    tensor; members: the places that share these.
    """

    twice: Array
    members: Sequence[Sequence[Place]]

    @property
    def least(self) -> Array:
        """`[T]` twice the hops that each tensor needs at its own best place."""
        return np.asarray(self.twice.min(axis=0))


_places: WeakKeyDictionary[MapSpace, dict[tuple[int, bytes], Places]] = WeakKeyDictionary()


def places(space: MapSpace, level: int, factors: Array) -> Places | None:
    """The ways to lay factors `[n]` on the mesh below a level; None where there are too many.

    Places of the map space without its constraints, which only take some away; what takes no fewer
    hops than another place for any tensor is left in, as constraints may leave it alone.
    """
    known = _places.setdefault(space, {})
    key = level, factors.tobytes()
    if key not in known:
        known[key] = group(space, level, factors, Rules.every_place(space, level, factors))
    found = known[key]
    return found if 0 < len(found.members) <= MOST_PLACES else None


def group(
    space: MapSpace, level: int, factors: Array, listed: Sequence[Place],
    inside: Array | None = None,
) -> Places:  # fmt: skip
    """Groups places by the hops that they make of every tensor's deliveries.

    Args:
        space: the map space.
        level: the level that fans out.
        factors: `[n]` spatial factors below it.
        listed: places.
        inside: `[n]` extents of the children's tiles, where they are known: hops are then exact.
    """
    tables, n = space.tables, factors.size
    still = np.flatnonzero(factors == 1).tolist()
    orders = np.array([[*order, *still] for _, order in listed], np.int64).reshape(len(listed), n)
    heights = np.array([height for height, _ in listed], np.int64)
    children = int(factors.prod())
    tile = np.ones(n, np.int64) if inside is None else inside
    room = _Room(tile, *(np.zeros(size, np.int64) for size in (n, children, children, children)))
    twice = np.zeros((len(listed), tables.sliding.size), np.int64)
    members = _most_members(space, level, factors, known=inside is not None)
    _fill_hops(tables, tables.mesh[level], orders, heights, factors, members, room, twice)
    different, place = np.unique(twice, axis=0, return_inverse=True)
    shared: list[list[Place]] = [[] for _ in different]
    for one, at in zip(listed, place.ravel().tolist(), strict=True):
        shared[at].append(one)
    return Places(different, shared)


def _most_members(space: MapSpace, level: int, factors: Array, *, known: bool) -> Array:
    """`[T]` children that hold one tile at most, where that is not counted, else 0.

    Sums of steps of several loops along one axis may coincide, as tiles say: not counted unless
    these are known. Children that are counted each by itself hold tiles of their own.
    """
    tables = space.tables
    found = np.zeros(tables.sliding.size, np.int64)
    for t in range(found.size):
        kind = tables.grouping[level, t]
        if kind == GROUPS_PER_CHILD:
            found[t] = 1
        if kind != GROUPS_PER_AXIS or known:
            continue
        longest, several = 1, False
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            terms = tables.term_dimension[tables.term_start[axis] : tables.term_start[axis + 1]]
            longest *= int(factors[terms].max(initial=1))
            several |= int((factors[terms] > 1).sum()) > 1
        if several:
            found[t] = int(factors.prod()) // longest
    return found


@lean
def _fill_hops(
    tables: NestTables,
    mesh: Array,
    orders: Array,
    heights: Array,
    factors: Array,
    members: Array,
    room: _Room,
    twice: Array,
) -> None:
    """Fills twice the hops of a delivery `[A, T]`, of tiles of one point.

    Args:
        tables: of the map space.
        mesh: `[2]` width and height.
        orders: `[A, n]` dimensions of the spatial loops, outermost first.
        heights: `[A]` bits of what runs along the height.
        factors: `[n]` spatial factors.
        members: `[T]` children of one tile at most, 0 where that follows from the factors.
        room: scratch.
        twice: filled.
    """
    children = 1
    for d in range(factors.size):
        children *= factors[d]
    for a in range(heights.size):
        for t in range(members.size):
            if members[t] > 0:
                twice[a, t] = least_hops(mesh, children, members[t])
                continue
            found = hops_per_delivery(
                tables, t, mesh, orders[a], heights[a], factors, room.inside, room
            )
            twice[a, t] = int(2 * found)
