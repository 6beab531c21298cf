"""The tilings of an assignment, searched depth first from the MACs outwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.exact_any.known import SLACK, Known
from costmodel.exact_any.layout import OneOrder
from costmodel.exact_any.leaves import Assignment
from costmodel.exact_any.side_by_side import descents
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.tables import ChainTables
from costmodel.tile_chains.tiles import FloatArray, Tiles
from costmodel.tile_chains.views import View

Way = tuple[tuple[int, tuple[int, ...]], ...]
"""Per depth the tile in work, -1 if none, and the tiles that are through."""

Child = tuple[float, int]
"""A tile, after the energy that it needs at the cycles that all mappings take."""


Descend = Callable[[int, int, Any], Iterator[None]]


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
        self, space: MapSpace, known: Known, counts: dict[str, int], *, each_order: bool,
        room: int | None = None,
    ) -> None:  # fmt: skip
        """Has nothing in work.

        Args:
            space: the map space, of all orders.
            known: the best mappings; taken in.
            counts: of tiles, tilings and orders; counted on.
            each_order: whether mappings that another order of buffers has as well are looked at.
            room: words that buffers side by side hold together; None: each what it has room for.
        """
        self._space, self._known, self._counts = space, known, counts
        self._each_order, self._room = each_order, room
        self.trail = Trail()
        self.below = math.inf

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
        views: Sequence[View],
        tables: ChainTables,
        cycles: int,
    ) -> Iterator[None]:
        """Searches the tilings of the assignment taken up that could be among the best, in pieces.

        Args:
            one: the order of buffers.
            assignment: what is kept and spread.
            views: what is certain of chains of tiles; of energy first.
            tables: those of energy.
            cycles: that every mapping takes at least.
        """
        tiles = tables.tiles
        between = {}
        if not self._each_order:
            between = descents(self._space, one.number, assignment.keeps, assignment.spatial)
        levels = len(assignment.keeps)
        chosen = np.zeros((levels, tiles.extent.shape[1]), np.int64)
        taken = np.zeros(levels, np.int64)
        trail = self.trail

        def children(level: int, step: int) -> list[Child]:
            """Tiles of a level outside a step, by rising bound."""
            listed = trail.own(views[0].multiples(level, step))
            trips = tiles.extent[listed] // tiles.extent[step]
            allowed = one.rules.factors(level, trips)
            if level in between:
                allowed &= between[level].is_new(trips)
            if self._room is not None:
                allowed &= self._has_room(assignment.keeps, tiles, level, listed, taken)
            listed = listed[allowed]
            self._counts["tiles"] += len(listed)
            listed, bounds = self._bound(assignment, views, level, step, listed, cycles)
            left = np.flatnonzero(bounds < self._limit(cycles))
            left = left[np.argsort(bounds[left], kind="stable")]
            return [(float(bounds[b]), int(listed[b])) for b in left]

        def descend(level: int, step: int, deeper: Descend) -> Iterator[None]:
            through = trail.open()
            for bound, b in trail.note(children(level, step)):
                if bound >= self._limit(cycles):
                    break
                if b in through:
                    continue
                chosen[level], taken[level] = tiles.extent[b], b
                trail.enter(b)
                if level == 0:
                    self._try(one, assignment, chosen, cycles)
                    trail.leave()
                    yield
                    continue
                outside = views[0].enter(level, step, b)
                for view in views[1:]:
                    view.choose(level, step, b)
                if outside >= 0:
                    yield
                    yield from deeper(level - 1, outside, deeper)
                trail.leave()
            trail.close()

        # If it named itself it would hold its tables until garbage is collected.
        yield from descend(levels - 1, tables.first_step, descend)

    def _has_room(
        self, keeps: tuple[int, ...], tiles: Tiles, level: int, listed: Array, taken: Array
    ) -> npt.NDArray[np.bool_]:
        """`[B]` whether buffers side by side have room for tiles of a level, all of them together.

        Args:
            keeps: `[L]` kept tensors of every level, as bits.
            tiles: what fits each level.
            level: one of them.
            listed: `[B]` its tiles.
            taken: `[L]` the tiles of levels further in.
        """
        found = np.ones(len(listed), np.bool_)
        for group in () if self._space.orders is None else self._space.orders.groups:
            if not group.first <= level < group.stop:
                continue
            held = np.zeros(len(listed))
            for at in range(group.first, group.stop):
                kept = (keeps[at] >> np.arange(tiles.words.shape[1])) & 1
                # Tiles further out are no smaller.
                held += tiles.words[listed if at <= level else taken[at : at + 1]] @ kept
            found &= held <= (self._room or 0)
        return found

    def _bound(
        self, assignment: Assignment, views: Sequence[View], level: int, step: int, listed: Array,
        cycles: int,
    ) -> tuple[Array, FloatArray]:  # fmt: skip
        """Those of the listed tiles that could win, and the energy that they need at `cycles`."""
        energy = views[0].bounds(level, step, listed)
        plain, slow = energy, np.full(len(listed), float(cycles))
        both, last = np.zeros(len(listed)), views[-1]
        if last.together is not None:
            # It rules most out, and more once the cycles of each port are known.
            left = energy < math.inf
            listed, energy, slow = listed[left], energy[left], slow[left]
            both = last.bounds(level, step, listed)
            least = last.together.energy(energy, slow, both, cycles) * (1 - SLACK)
            able = (least < self._limit(cycles)) & (both < math.inf)
            listed, energy, slow, both = listed[able], energy[able], slow[able], both[able]
            plain = energy
        for view in views[1:]:
            if view.together is not None or not len(listed):
                continue
            found = view.bounds(level, step, listed)
            able = (energy < self._limit(cycles)) & (found < math.inf)
            listed, energy, slow, both = listed[able], energy[able], slow[able], both[able]
            found, plain = found[able], plain[able]
            if view.is_energy:
                energy = np.maximum(energy, found)
            else:
                slow = np.maximum(slow, np.ceil(found * (1 - SLACK)))
                leaked = assignment.leakage * (slow - assignment.computing)
                energy = np.maximum(energy, plain + leaked)
        bounds = energy
        if last.together is not None:
            joint = last.together.energy(energy, slow, both, cycles) * (1 - SLACK)
            bounds = np.maximum(energy, joint)
        bounds[self._known.too_slow(energy, slow)] = math.inf
        return listed, bounds

    def _try(self, one: OneOrder, assignment: Assignment, tiles: Array, cycles: int) -> None:
        """Evaluates the loop orders of a tiling that could be among the best."""
        self._counts["tilings"] += 1
        orders = self._space.orders
        target = self._known.target(cycles)
        target = target._replace(energy=min(self.below, target.energy))
        for codes in one.leaves.codes(assignment, tiles, target, cycles):
            self._counts["orders"] += len(codes)
            self._known.take(codes if orders is None else orders.codes(one.number, codes))
