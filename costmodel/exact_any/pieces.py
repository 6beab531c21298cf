"""Pieces of a proof that workers settle by themselves: what they are, and how one is settled.

What comes of a piece is a function of the problem, the piece and the limit alone, so that it does
not matter who settles it, when, or how often.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Literal, NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.exact.pool import Limit
from costmodel.exact_any.assignments import Assignments
from costmodel.exact_any.chain_bounds import Opened
from costmodel.exact_any.layout import OneOrder
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.share import Left, Share, ShareTrail
from costmodel.space import Codes
from costmodel.tile_chains.ports import Prices
from costmodel.tile_chains.tables import ChainTables

Bounds = tuple[float, int, int, int, float, int, float]
"""Of an assignment: energy, cycles, slowest, least, rate, chains and plain, as in `Assignments`."""

Task = Literal["floors", "chains", "mix", "search"]

MOST_WORK = 300_000
"""A search that takes more, about a quarter of a second, gives back what is left."""

TILING_WORK = 120
"""What a tiling takes, in tiles that are bounded in one view."""


class Piece(NamedTuple):
    """What is to be done about assignments that keep the same tensors.

    group: which tensors and order; assignments: of these; bounds: what is known of each; least:
    what no mapping of theirs undercuts; task: raise the floors of their spatial factors, under all
    kept tensors; bound them by chains; mix two ports' cycles with energy for one; or search a share
    of the tilings of one; prices: what was mixed for that one, None: nothing is.
    """

    group: int
    assignments: tuple[int, ...]
    bounds: tuple[Bounds, ...]
    least: Limit
    task: Task
    share: Share = Share()
    prices: Prices | None = None


class Settled(NamedTuple):
    """What came of a piece.

    codes `[0 .. top, D]` the best mappings below the limit; bounds: of its assignments; floors: of
    raised ones that are below the limit, with group and assignment; counts: what it took; seconds:
    of processor time; left: shares that are still to be searched; prices: what was mixed.
    """

    codes: Codes
    bounds: tuple[Bounds, ...]
    floors: tuple[tuple[int, int, float], ...]
    counts: dict[str, int]
    seconds: float
    left: tuple[Left, ...]
    prices: Prices | None = None


class PieceProver(AnyProver):
    """Settles pieces of a proof.

    Tables of the kept tensors in work are kept from piece to piece: they say the same as new ones.
    """

    _held: tuple[int, list[ChainTables]] | None = None
    _opened: tuple[tuple[int, int, Bounds, Prices | None], Opened] | None = None
    _prices: Prices | None = None

    def settle(self, piece: Piece, limit: Limit) -> Generator[None, None, Settled]:
        """Does what a piece asks for, for what is below a limit."""
        started, paused = time.thread_time(), 0.0
        before = dict(self._counts)
        number, found = self._queue.groups[piece.group]
        one, mates = self._orders[number], np.array(piece.assignments)
        for a, bounds in zip(piece.assignments, piece.bounds, strict=True):
            write_bounds(found, a, bounds)
        self._known.start_below(limit)
        self._prices = None
        left: tuple[Left, ...] = ()
        trail = ShareTrail(piece.share)
        for _ in self._work_on(piece, one, found, mates, trail):
            if trail.inside and self._work_since(before) > MOST_WORK:
                left = trail.left()
                break
            pause = time.thread_time()
            yield
            paused += time.thread_time() - pause
        counts = {name: number - before[name] for name, number in self._counts.items()}
        if piece.task == "search":
            counts["chains"] = 0  # which tables were there depends on the worker
        raised = tuple(read_bounds(found, a) for a in piece.assignments)
        floors = self._low_floors(number, mates) if piece.task == "floors" else ()
        seconds = time.thread_time() - started - paused
        codes = self._known.codes(self._top)
        return Settled(codes, raised, floors, counts, seconds, left, self._prices)

    def _work_on(
        self,
        piece: Piece,
        one: OneOrder,
        found: Assignments,
        mates: Array,
        trail: ShareTrail,
    ) -> Iterator[None]:
        if piece.task == "floors":
            yield from self._raise_floors(one, mates)
            return
        tables = self._tables_of(piece.group)
        if piece.task == "chains":
            self._opened = None
            yield from self._bounds.bound(one, tables, found, mates)
            return
        a = piece.assignments[0]
        if found.rate[a] > 0:
            # What another piece has mixed here was for another limit.
            self._bounds.mixed(one, found, a, piece.prices)
        if piece.task == "mix":
            self._opened = None
            self._prices = yield from self._bounds.mix(one, tables, found, a)
            return
        key = piece.group, a, piece.bounds[0], piece.prices
        if self._opened is None or self._opened[0] != key:
            self._opened = None
            self._opened = key, (yield from self._open(piece))
        self._tilings.trail = trail
        assignment, views = self._opened[1]
        cycles = int(found.cycles[a])
        yield from self._tilings.search(one, assignment, views, tables[0], cycles)

    def _open(self, piece: Piece) -> Generator[None, None, Opened]:
        """Fills the tables that a search reads."""
        number, found = self._queue.groups[piece.group]
        a, tables = piece.assignments[0], self._tables_of(piece.group)
        return (yield from self._bounds.open(self._orders[number], tables, found, a))

    def _work_since(self, before: dict[str, int]) -> int:
        """How much was searched, in tiles that are bounded in one view."""
        counts = self._counts
        tilings = counts["tilings"] - before["tilings"]
        views = 1 if self._opened is None else len(self._opened[1][1])
        return views * (counts["tiles"] - before["tiles"] + TILING_WORK * tilings)

    def _low_floors(self, number: int, chosen: Array) -> tuple[tuple[int, int, float], ...]:
        """Of all groups of an order the chosen assignments that could win, with their floors."""
        return tuple(
            (group, a, float(found.energy[a]))
            for group, (order, found) in enumerate(self._queue.groups)
            if order == number
            for a in self._could_win(found, chosen).tolist()
        )

    def _tables_of(self, group: int) -> list[ChainTables]:
        if self._held is None or self._held[0] != group:
            number, found = self._queue.groups[group]
            one = self._orders[number]
            self._held = self._opened = None  # make room first
            tiles = one.lattice.tiles(found.keeps)
            tables = ChainTables(one.shape, tiles, found.keeps, one.credits)
            self._held = group, [tables]
        return self._held[1]


def read_bounds(found: Assignments, a: int) -> Bounds:
    """What is known of an assignment."""
    return (
        float(found.energy[a]), int(found.cycles[a]), int(found.slowest[a]),
        int(found.least[a]), float(found.rate[a]), int(found.chains[a]), float(found.plain[a]),
    )  # fmt: skip


def write_bounds(found: Assignments, a: int, bounds: Bounds) -> None:
    """Notes what is known of an assignment."""
    found.energy[a], found.cycles[a], found.slowest[a] = bounds[:3]
    found.least[a], found.rate[a], found.chains[a], found.plain[a] = bounds[3:]
