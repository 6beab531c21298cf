"""One proof shared out over workers: what it ends with is the same for any number of them.

Pieces are dealt by rising bound, and merged in the order in which they were dealt. What is dealt
next, and its limit, depend on how many have been merged alone, so that nothing depends on which one
is settled first (the lemma of shares, docs/inside/proof-any-levels.md).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.costs import Objective
from costmodel.exact.pool import Dealt, InOrder, Limit, Pool
from costmodel.exact.progress import AnyLevelsProgress
from costmodel.exact_any.assignment_queue import Standing
from costmodel.exact_any.assignments import least_of_spreads
from costmodel.exact_any.held import is_large
from costmodel.exact_any.pieces import (
    Part,
    Piece,
    Settled,
    Task,
    Walk,
    read_bounds,
    write_bounds,
)
from costmodel.exact_any.prover import STEP_SECONDS, AnyProver
from costmodel.exact_any.runs import levels_outside
from costmodel.exact_any.share import Left, Share
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from costmodel.tile_chains.ports import Prices
from costmodel.tile_chains.tiles import FloatArray

WINDOW = 256
"""How many pieces are dealt beyond those that are merged, at most: with more of them, more is dealt
before the first searches find what would leave it less to do."""

MOST_WALKS, PIECES_PER_WALK = 8, 16
"""The first piece is a walk, and one is dealt after so many others, until there are so many: a long
proof has all of them, a short one few."""

MOST_WORKERS = 128
"""More would wait for a window that is full."""

MOST_MATES = 32
"""Assignments that share outer tables and are bounded together at most."""

MOST_FLOORS = 4
"""Spatial factors whose floors are raised together at most."""

NOTHING = (math.inf, math.inf)

Order = tuple[float, float, float]

Mates = tuple[Hashable, bytes]
"""Of assignments that share outer tables: the group, or what several keep outside all fan-outs, and
what the outer fan-outs spread."""

Set = tuple[int, list[int]]
"""A group, and assignments of it that share outer tables."""

SET_WORK, MOST_ROW_WORK, MOST_ROW_MATES = 50, 350, 64
"""Of large lattices: what the tables of a set of these take that its assignments share, and what a
piece takes at most but for its last set, in tables of one assignment further in of up to MATE_TILES
tiles, about two milliseconds; assignments of a set at most."""

MATE_TILES = 12_000


class SharedProver(AnyProver):
    """The proof of `AnyProver`, shared out."""

    _takes_up = False

    def __init__(
        self,
        space: MapSpace,
        pool: Pool[Any, Settled],
        *,
        objective: Objective = "edp",
        keep: Mapping[str, Sequence[str]] | None = None,
        top: int = 1,
        build: bool = True,
        walks: int = 0,
    ) -> None:
        """Notes what is to be proven, as `AnyProver` does.

        Args:
            space: as there.
            pool: settles pieces, of a `PieceProver` with the same arguments; and walks, if any.
            objective: as there.
            keep: as there.
            top: as there.
            build: as there.
            walks: how many walks may be dealt; their seeds are 1, 2, 3 ...

        Raises:
            ConfigError: as there.
        """
        self._pieces: InOrder[Piece | Walk, Settled] = InOrder(pool)
        self._walks, self._most_walks = 0, walks
        self._heap: list[tuple[Order, int, Limit, Piece]] = []
        self._numbers = itertools.count()
        # Per order: how many pieces will still raise floors, and what those before left room and no
        # piece bounds yet; what that needs at least.
        self._raising: dict[int, int] = {}
        self._raised: dict[int, dict[tuple[int, bytes], list[int]]] = {}
        self._low: dict[int, Limit] = {}
        # How many tiles fit, by order, level and what it keeps.
        self._fitting: dict[tuple[int, int, int], int] = {}
        self._sealed = self._begun = False
        super().__init__(space, objective=objective, keep=keep, top=top, build=build)

    @property
    def dealt(self) -> list[Dealt]:
        """The pieces, in their order."""
        return self._pieces.dealt

    def offer(self, codes: Codes) -> None:
        """Takes mappings as `AnyProver` does, before pieces are dealt; later ones are passed.

        When they came would decide what pieces find.
        """
        if not self._sealed:
            super().offer(codes)

    def _recorded(self) -> AnyLevelsProgress | None:
        """What is settled is what nothing that waits or is dealt is about."""
        if not self._begun:
            return None
        groups = self._queue.groups
        left = [np.zeros(len(found.energy), np.bool_) for _, found in groups]
        shares: dict[tuple[int, int], list[Left]] = {}
        for piece in (*self._pieces.pending, *(entry[-1] for entry in self._heap)):
            if isinstance(piece, Walk):
                continue
            if piece.task == "search":
                key, one = (piece.group, piece.assignments[0]), Left(piece.least[0], piece.share)
                shares.setdefault(key, []).append(one)
                continue
            if piece.task == "chains":
                for part in piece.parts:
                    left[part.group][list(part.assignments)] = True
                continue
            number = groups[piece.group][0]
            for group, (order, _) in enumerate(groups):
                if order == number:
                    left[group][list(piece.assignments)] = True
        for raised in self._raised.values():
            for (group, _), chosen in raised.items():
                left[group][chosen] = True
        bounded: list[list[int]] = [[] for _ in groups]
        for group, a in sorted(shares):
            bounded[group].append(a)
        standings = []
        for (_, found), open_, searched in zip(groups, left, bounded, strict=True):
            begun = np.flatnonzero(open_ & (found.chains > 0)).tolist()
            settled = ~open_
            settled[searched] = False
            standings.append(Standing(settled, searched, begun))
        whole = Share()
        parts = {key: some for key, some in shares.items() if some[0].share != whole}
        return self._queue.progress_of(standings, parts)

    def _prove(self) -> Generator[None, None, None]:
        listing = super()._prove()
        while not self._built:
            next(listing)
            yield
        self._sealed = True
        for number in range(len(self._orders)):
            self._begin(number)
            yield
        for group, a in self._queue.bounded:
            self._add_bounded(group, a)
        self._begun = True
        yield from self._deal()

    def _limit(self) -> Limit:
        return self._known.to_beat or NOTHING

    def _add_bounded(self, group: int, a: int) -> None:
        """Has an assignment searched that chains have bounded, or what another proof has left."""
        found = self._queue.groups[group][1]
        for left in self._queue.shares.get((group, a), [Left(0.0, Share())]):
            least = max(left.energy, float(found.energy[a])), float(found.cycles[a])
            if self._known.beats(*least):
                self._add([(group, [a])], "search", least, left.share)

    def _add(
        self,
        sets: Sequence[Set],
        task: Task,
        least: Limit,
        share: Share | None = None,
        prices: Prices | None = None,
    ) -> None:
        """Has a piece wait for its turn."""
        parts = tuple(
            Part(group, tuple(mates), tuple(read_bounds(found, a) for a in mates))
            for group, mates in sets
            for found in (self._queue.groups[group][1],)
        )
        apart = task == "chains" and self._is_large(parts[0].group)
        piece = Piece(parts, least, task, share or Share(), prices, apart)
        # Shares of one assignment stand together: their tables are the same.
        where = parts[0].bounds[0][:2] if task == "search" else least
        entry = self._known.order(*where), next(self._numbers), where, piece
        heapq.heappush(self._heap, entry)

    def _is_large(self, group: int) -> bool:
        return is_large(self._orders[self._queue.groups[group][0]].shape)

    def _begin(self, number: int) -> None:
        """Adds the first pieces of an order, by what of their tables is shared."""
        groups = [g for g, (order, _) in enumerate(self._queue.groups) if order == number]
        if not groups:
            return
        energy, cycles = self._least_of_spreads(number, groups)
        chosen = np.flatnonzero(self._could_all_win(energy, cycles)).tolist()
        self._raised[number] = {}
        if len(self._keeps[number]) == 1:
            for a in chosen:
                self._collect(number, groups[0], a)
            self._add_collected(number)
            return
        self._raising[number] = -(-len(chosen) // MOST_FLOORS)
        for begin in range(0, len(chosen), MOST_FLOORS):
            some = chosen[begin : begin + MOST_FLOORS]
            least = float(energy[some].min()), float(cycles[some].min())
            self._add([(groups[0], some)], "floors", least)

    def _least_of_spreads(self, number: int, groups: Sequence[int]) -> tuple[FloatArray, Array]:
        """What an order's assignments need, by their spatial factors; inf where none is left.

        Where bypass is searched, the least of all sets of kept tensors, or less than that.
        """
        one, found = self._orders[number], self._queue.groups[groups[0]][1]
        energy, cycles = found.energy, found.cycles
        if not self._lists_all(number):
            energy, cycles = least_of_spreads(
                one.space, self._bounds.limited(one.space), one.spreads.spatial(found.choice),
                self._keeps[number], self._could_all_win,
            )  # fmt: skip
        left = np.any([self._queue.left(group) for group in groups], axis=0)
        return np.where(left, energy, np.inf), cycles

    def _could_all_win(self, energy: FloatArray, cycles: Array) -> npt.NDArray[np.bool_]:
        """Which sets of mappings could win that need energy `[B]`, pJ, and cycles `[B]`."""
        each = zip(energy.tolist(), cycles.tolist(), strict=True)
        return np.array([self._known.beats(*bounds) for bounds in each], np.bool_)

    def _collect(self, number: int, group: int, a: int) -> None:
        """Has an assignment bounded together with others that share its outer tables."""
        one = self._orders[number]
        several = [len(rows) > 1 for rows in one.spreads.vectors]
        # They differ in what the innermost fan-out spreads alone.
        last = max((level for level, some in enumerate(several) if some), default=0)
        key = group, self._queue.groups[group][1].choice[a, :last].tobytes()
        mates = self._raised[number].setdefault(key, [])
        mates.append(a)
        if len(mates) >= MOST_MATES and not is_large(one.shape):
            self._add_chains([(group, self._raised[number].pop(key))])

    def _add_collected(self, number: int) -> None:
        """Has all those bounded that wait for others."""
        raised, rows = self._raised.pop(number), dict[Mates, list[Set]]()
        outside = levels_outside(self._orders[number])
        for (group, outer), mates in raised.items():
            if not is_large(self._orders[number].shape):
                self._add_chains([(group, mates)])
                continue
            keeps = self._queue.groups[group][1].keeps[:outside]
            rows.setdefault((keeps, outer), []).append((group, mates))
        for sets in rows.values():
            self._add_row(sets)

    def _add_row(self, sets: Sequence[Set]) -> None:
        """Has sets bounded that share tables outside all fan-outs, some in one piece."""
        row, work = list[Set](), 0.0
        for group, together in sets:
            each = self._mate_work(group)
            # Of dear assignments fewer share the tables of a set, so that a piece ends.
            most = max(1, min(MOST_ROW_MATES, int((MOST_ROW_WORK - SET_WORK) / each)))
            for begin in range(0, len(together), most):
                row.append((group, together[begin : begin + most]))
                work += SET_WORK + each * len(row[-1][1])
                if work >= MOST_ROW_WORK:
                    self._add_chains(row)
                    row, work = [], 0.0
        if row:
            self._add_chains(row)

    def _mate_work(self, group: int) -> float:
        """What the tables of one assignment take further in, by the tiles that have room there."""
        number, found = self._queue.groups[group]
        one, tiles = self._orders[number], 0
        several = [len(rows) > 1 for rows in one.spreads.vectors]
        last = max((level for level, some in enumerate(several) if some), default=0)
        for level, kept in enumerate(found.keeps[last + 1 :], last + 1):
            key = number, level, kept
            if key not in self._fitting:
                self._fitting[key] = int(one.lattice.fits(level, kept).sum())
            tiles += self._fitting[key]
        return max(1.0, tiles / MATE_TILES)

    def _add_chains(self, sets: Sequence[Set]) -> None:
        """Has assignments bounded that share outer tables."""
        lows = [
            (float(found.energy[mates].min()), float(found.cycles[mates].min()))
            for group, mates in sets
            for found in (self._queue.groups[group][1],)
        ]
        energy, cycles = (min(column) for column in zip(*lows, strict=True))
        self._add(sets, "chains", (energy, cycles))

    def _deal(self) -> Iterator[None]:
        """Has pieces settled, and merges what comes of them as they were dealt."""
        # Bounds of what is dealt, those of what is merged already among them.
        out: list[tuple[Order, int, Limit]] = []
        while True:
            while self._heap and len(self._pieces) < WINDOW:
                if self._walks < min(self._most_walks, 1 + len(self.dealt) // PIECES_PER_WALK):
                    self._walks += 1
                    self._pieces.deal(Walk(self._walks), NOTHING)
                    continue
                order, _, where, piece = heapq.heappop(self._heap)
                if self._known.beats(*piece.least):
                    heapq.heappush(out, (order, self._pieces.deal(piece, self._limit()), where))
                else:
                    self._leave_out(piece)
            while out and out[0][1] < self._pieces.first:
                heapq.heappop(out)
            if not out and not self._heap:
                # Whatever walks may find, nothing is left that could beat the best mapping.
                self._pieces.forget()
                return
            low = [*(where for _, _, where in out[:1]), *self._low.values()]
            low += [where for _, _, where, _ in self._heap[:1]]
            self._bound = min(low, key=lambda one: self._known.order(*one))
            while not self._pieces.is_settled:
                self._pieces.wait(STEP_SECONDS)
                yield
            self._merge(*self._pieces.take())

    def _merge(self, piece: Piece | Walk, done: Settled) -> None:
        """Takes over what came of a piece, and adds those that follow from it."""
        before = self._limit()
        if len(done.codes):
            super().offer(done.codes)
        if self._limit() != before:
            # What was dealt before this was found, and cannot beat it.
            for other in self._pieces.drop(lambda one: not self._known.beats(*one.least)):
                self._leave_out(other)
        if isinstance(piece, Walk):
            return
        for name, count in done.counts.items():
            self._counts[name] += count
        if piece.task == "floors":
            self._take_floors(piece, done)
        elif piece.task == "chains":
            self._take_chains(piece, done)
        else:
            a = piece.assignments[0]
            write_bounds(self._queue.groups[piece.group][1], a, done.bounds[0][0])
            for left in done.left:
                self._take_left(piece, left, done.prices)

    def _take_floors(self, piece: Piece, done: Settled) -> None:
        """Raises floors, and has those bounded that they leave room."""
        number = self._queue.groups[piece.group][0]
        for group, a, energy, cycles in done.floors:
            if not self._queue.is_left(group, a):
                continue
            found = self._queue.groups[group][1]
            found.energy[a] = max(found.energy[a], energy)
            found.plain[a] = max(found.plain[a], energy)
            found.cycles[a] = max(found.cycles[a], cycles)
            least = float(found.energy[a]), float(found.cycles[a])
            before = self._low.get(number, least)
            self._low[number] = min(before, least, key=lambda one: self._known.order(*one))
            self._collect(number, group, a)
        self._count_floors(number)

    def _leave_out(self, piece: Piece | Walk) -> None:
        """Passes a piece that cannot hold a better mapping any more."""
        if isinstance(piece, Piece) and piece.task == "floors":
            self._count_floors(self._queue.groups[piece.group][0])

    def _count_floors(self, number: int) -> None:
        """After the last floors of an order has those bounded that still wait for others."""
        self._raising[number] -= 1
        if self._raising[number] == 0:
            self._add_collected(number)
            self._low.pop(number, None)

    def _take_chains(self, piece: Piece, done: Settled) -> None:
        """Has those searched whose chains leave them room, or bounded by further price lists."""
        sets = list[Set]()
        for part, its in zip(piece.parts, done.bounds, strict=True):
            found, left = self._queue.groups[part.group][1], list[int]()
            for a, bounds in zip(part.assignments, its, strict=True):
                write_bounds(found, a, bounds)
                energy, cycles, *_, chains, _ = bounds
                if chains > 0 and self._known.beats(energy, cycles):
                    left.append(a)
            if left:
                sets.append((part.group, left))
        for group, left in sets:
            if done.unbounded:
                self._add_chains([(group, left)])
                continue
            for a in left:
                self._add_bounded(group, a)

    def _take_left(self, piece: Piece, left: Left, prices: Prices | None) -> None:
        """Has a share searched that was left."""
        group, a = piece.group, piece.assignments[0]
        found = self._queue.groups[group][1]
        energy = max(piece.least[0], float(found.energy[a]), left.energy)
        least = energy, max(piece.least[1], float(found.cycles[a]))
        if self._known.beats(*least):
            self._add([(group, [a])], "search", least, left.share, prices)
