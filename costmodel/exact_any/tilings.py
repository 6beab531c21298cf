"""The tilings of an assignment, searched depth first from the MACs outwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled.laid_out import addresses_of, laid_out
from costmodel.exact_any.known import SLACK, Known
from costmodel.exact_any.layout import OneOrder
from costmodel.exact_any.leaves import Assignment
from costmodel.exact_any.side_by_side import descents
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.descent import DONE, FOUND, FULL, Descent, descend, make_descent
from costmodel.tile_chains.sights import (
    Bounds,
    Search,
    Sight,
    Wanted,
    bound_children,
    choose,
    list_allowed,
)
from costmodel.tile_chains.tables import ChainTables

Way = tuple[tuple[int, tuple[int, ...]], ...]
"""Per depth the tile in work, -1 if none, and the tiles that are through."""

Child = tuple[float, int]
"""A tile, after the energy that it needs at the cycles that all mappings take."""


OUTERMOST = 6
"""So many levels are searched by compiled code; further in it is noted where a search is."""

QUOTA = 1000
"""Lists of tiles that are made in a row: some tens of milliseconds."""

Descend = Callable[[int, int, Any], Iterator[None]]


class _Work(NamedTuple):
    """An assignment in work: its search, where the far end of that is, and the tiles chosen."""

    one: OneOrder
    assignment: Assignment
    search: Search
    way: Descent
    chosen: Array
    cycles: int


class Trail:
    """Where a search is: on its way, per depth, the tile in work and those that are through."""

    def __init__(self, begun: Way = ()) -> None:
        """Starts anew, or where another search was.

        Args:
            begun: where that was.
        """
        self._begun = begun
        self._path: list[int] = []
        self._through: list[set[int]] = []

    @property
    def notes(self) -> int:
        """Of how many levels, from the innermost, it is noted where the search is."""
        return 2

    def open(self) -> set[int]:
        """Goes one deeper; returns the tiles there that are through."""
        depth = len(self._path)
        same = [tile for tile, _ in self._begun[:depth]] == self._path
        through = self._begun[depth][1] if same and depth < len(self._begun) else ()
        self._through.append(set(through))
        return self._through[-1]

    def own(self, tiles: Array) -> Array:
        """Those of the tiles `[B]` at this depth that are this search's: all."""
        return tiles

    def note(self, children: list[Child]) -> list[Child]:
        """Takes note of the tiles at this depth that could win, and returns them."""
        return children

    def close(self) -> None:
        """Leaves a depth."""
        self._through.pop()

    def enter(self, tile: int) -> None:
        """Takes up a tile."""
        self._path.append(tile)

    def leave(self) -> None:
        """Is through with the tile taken up last."""
        self._through[-1].add(self._path.pop())

    @property
    def way(self) -> Way:
        """Where the search is: where it began as long as it has not come so far."""
        depth = len(self._path)
        found = [
            (tile, tuple(sorted(through)))
            for tile, through in zip([*self._path, -1], self._through, strict=False)
        ]
        begun = self._begun
        if [tile for tile, _ in begun[:depth]] != self._path or depth >= len(begun):
            return tuple(found)
        if depth == len(found):
            return (*found, *begun[depth:])
        through = found[depth][1]
        if begun[depth][0] in through:
            return tuple(found)
        return (*found[:depth], (begun[depth][0], through), *begun[depth + 1 :])


class Tilings:
    """Searches the tilings of assignments.

    Attributes:
        trail: where the search of the assignment in work is.
        below: energy at the assignment's cycles; what is not below it is left for later.
    """

    def __init__(
        self, space: MapSpace, known: Known, counts: dict[str, int], *, each_order: bool
    ) -> None:
        """Has nothing in work.

        Args:
            space: the map space, of all orders.
            known: the best mappings; taken in.
            counts: of tiles, tilings and orders; counted on.
            each_order: whether mappings that another order of buffers has as well are looked at.
        """
        self._space, self._known, self._counts = space, known, counts
        self._each_order = each_order
        self.trail = Trail()
        self.below = math.inf
        self._way: Descent | None = None

    def take_up(self, begun: Way, below: float = math.inf) -> None:
        """Begins with an assignment.

        Args:
            begun: where another search was whose mappings are known.
            below: energy, pJ, at the assignment's cycles; only what is below it is looked for.
        """
        self.trail, self.below = Trail(begun), below

    @property
    def way(self) -> Way:
        """Where another search may go on; nowhere if this one leaves something for later."""
        return self.trail.way if self.below == math.inf else ()

    def _limit(self, cycles: float) -> float:
        return min(self.below, self._known.limit(cycles))

    def search(
        self,
        one: OneOrder,
        assignment: Assignment,
        views: Sequence[Sight],
        tables: ChainTables,
        cycles: int,
    ) -> Iterator[None]:
        """Searches the tilings of the assignment taken up that could be among the best, in pieces.

        Args:
            one: the order of buffers.
            assignment: what is kept and spread.
            views: what is certain of chains of tiles; of energy first; nothing: none can win.
            tables: those of energy.
            cycles: that every mapping takes at least.
        """
        if not views:
            return
        tiles = tables.tiles
        levels = len(assignment.keeps)
        chosen = np.zeros((levels, tiles.extent.shape[1]), np.int64)
        trail, room = self.trail, tables.scratch.listed
        search = self._lay_out(one, assignment, views, tables)
        way = self._descent(levels, room)
        work = _Work(one, assignment, search, way, chosen, cycles)

        def children(level: int, step: int) -> list[Child]:
            """Tiles of a level outside a step, by rising bound."""
            listed = trail.own(room[: list_allowed(search, level, step, room)].copy())
            self._counts["tiles"] += len(listed)
            bounds = Bounds(*np.empty((3, len(listed))))
            wanted = Wanted(float(cycles), self._limit(cycles), *self._known.gaps)
            count = bound_children(search, level, step, listed, wanted, bounds)
            of = bounds.energy[:count], bounds.cycles[:count]
            late = self._known.too_slow(*of)
            late |= self._known.lose_ties(*of, bounds.least[:count], cycles)
            least = np.where(late, math.inf, bounds.least[:count])
            left = least.argsort(kind="stable")
            found = zip(least[left].tolist(), listed[left].tolist(), strict=True)
            return [(bound, tile) for bound, tile in found if bound < math.inf]

        def descend(level: int, step: int, deeper: Descend) -> Iterator[None]:
            if level < min(levels - trail.notes, OUTERMOST):
                full = yield from self._far_out(work, level, step)
                if not full:
                    return
            through = trail.open()
            for bound, b in trail.note(children(level, step)):
                if bound >= self._limit(cycles):
                    break
                if b in through:
                    continue
                chosen[level] = tiles.extent[b]
                trail.enter(b)
                if level == 0:
                    self._try(one, assignment, chosen, cycles)
                    trail.leave()
                    yield
                    continue
                outside = choose(search, level, step, b)
                if outside >= 0:
                    yield
                    yield from deeper(level - 1, outside, deeper)
                trail.leave()
            trail.close()

        # If it named itself it would hold its tables until garbage is collected.
        yield from descend(levels - 1, tables.first_step, descend)

    def _far_out(self, work: _Work, level: int, step: int) -> Generator[None, None, bool]:
        """Searches the tiles of a level and of those further out; whether there was no room to."""
        one, assignment, search, way, chosen, cycles = work
        ties, begins = self._known.ties(cycles), step
        while ties is not None:
            wanted = Wanted(float(cycles), self._limit(cycles), *self._known.gaps)
            why = descend(search, level, begins, wanted, ties, way, QUOTA)
            begins = -1
            self._counts["tiles"] += int(way.at[1])
            way.at[1] = 0
            if why in (DONE, FULL):
                break
            if why == FOUND:
                for at in range(level + 1):
                    chosen[at] = search.tiles.extent[search.tile[at]]
                self._try(one, assignment, chosen, cycles)
                ties = self._known.ties(cycles)
            yield
        return ties is None or why == FULL

    def _descent(self, levels: int, listed: Array) -> Descent:
        """Room for a descent, the same as before where it serves."""
        way = self._way
        if way is None or way.listed is not listed or way.stop.size != levels + 1:
            self._way = way = laid_out(make_descent(levels, listed))
        return way

    def _lay_out(
        self, one: OneOrder, assignment: Assignment, views: Sequence[Sight], chain: ChainTables
    ) -> Search:
        """The search of an assignment, with arguments as `search` has them, for compiled code."""
        keeps, n = assignment.keeps, one.shape.sizes.size
        levels = len(keeps)
        stays = np.full((2, levels), -1)
        if not self._each_order:
            between = descents(self._space, one.number, keeps, assignment.spatial)
            for level, loops in between.items():
                stays[:, level] = [(1 << np.flatnonzero(there)).sum() for there in loops]
        tables = one.space.tables
        least, most = one.rules.trips(levels)
        kept = (np.array(keeps)[:, None] >> np.arange(one.shape.sliding.size)) & 1
        said = Search(
            one.shape, chain.tiles, views[0], addresses_of(views),
            np.zeros(levels, np.int64), np.zeros(levels, np.int64), least, most,
            stays[0], stays[1], tables.machine.sharing, tables.capacity,
            kept * tables.machine.room, float(assignment.computing), float(assignment.leakage),
            SLACK, np.zeros(n, np.int64),
        )  # fmt: skip
        return laid_out(said)

    def _try(self, one: OneOrder, assignment: Assignment, tiles: Array, cycles: int) -> None:
        """Evaluates the loop orders of a tiling that could be among the best."""
        self._counts["tilings"] += 1
        orders = self._space.orders
        target = self._known.target(cycles)
        target = target._replace(energy=min(self.below, target.energy))
        for codes in one.leaves.codes(assignment, tiles, target, cycles):
            self._counts["orders"] += len(codes)
            self._known.take(codes if orders is None else orders.codes(one.number, codes))
