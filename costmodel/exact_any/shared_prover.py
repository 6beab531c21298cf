"""One proof shared out over workers: what it ends with is the same for any number of them.

Pieces are dealt by rising bound, and merged in the order in which they were dealt. What is dealt
next, and its limit, depend on how many have been merged alone, so that nothing depends on which one
is settled first (the lemma of shares, docs/inside/shared-proofs.md).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.costs import Objective
from costmodel.exact.pool import Dealt, InOrder, Limit, Pool
from costmodel.exact.progress import AnyLevelsProgress
from costmodel.exact_any.assignment_queue import Standing
from costmodel.exact_any.assignments import least_of_spreads
from costmodel.exact_any.held import is_large
from costmodel.exact_any.pieces import (
    MOST_ROW_TILES,
    Bounds,
    Part,
    Piece,
    Settled,
    Walk,
    read_bounds,
    write_bounds,
)
from costmodel.exact_any.prover import STEP_SECONDS, AnyProver
from costmodel.exact_any.runs import levels_outside
from costmodel.exact_any.share import Left, Share
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from costmodel.tile_chains.tiles import FloatArray

WINDOW = 256
"""How many pieces are dealt beyond those that are merged, at most: with more of them, more is dealt
before the first searches find what would leave it less to do."""

MOST_WALKS, FEW_WALKS, PIECES_PER_WALK = 32, 8, 4
"""The first piece is a walk, and one is dealt after so many others, until there are few, or twice
as many as up to the last that found something, and no more than the most."""

MOST_WORKERS = 128
"""More would wait for a window that is full."""

MOST_MATES = 32
"""Assignments that share outer tables and are bounded together at most."""

MOST_FLOORS = 4
"""Spatial factors whose floors are raised together at most."""

NOTHING = (math.inf, math.inf)

Order = tuple[float, float, float]

Mates = tuple[Hashable, int]
"""Of assignments that share outer tables: the group, or what several keep outside all fan-outs, and
the number of what the outer fan-outs spread."""

Set = tuple[int, list[int]]
"""A group, and assignments of it that share outer tables."""

MOST_TILES, MOST_ROW_MATES = 12_000_000, 64
"""Of large lattices: tiles that have room in the tables of a piece at most but for its last set, of
which far fewer are filled mostly; assignments of a set at most."""

PARTS = 2
"""Into so many pieces sets go that one has left."""

FEW_CHAINS = 16
"""Fewer pieces of chains at first would have workers wait: rows are divided into about so many."""


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
        self._walks, self._most_walks, self._worth = 0, walks, FEW_WALKS
        self._heap: list[tuple[Order, int, Limit, Piece]] = []
        self._numbers = itertools.count()
        # Per order: how many pieces will still raise floors, and what those before left room and no
        # piece bounds yet; what that needs at least.
        self._raising: dict[int, int] = {}
        self._raised: dict[int, dict[tuple[int, int], list[int]]] = {}
        self._low: dict[int, Limit] = {}
        self._outer: dict[int, Array] = {}
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
        """Has an assignment searched that another proof has bounded by chains, or left in part."""
        (bounds,) = read_bounds(self._queue.groups[group][1], [a])
        for piece in self._searches(group, a, bounds):
            self._add(piece)

    def _searches(self, group: int, a: int, bounds: Bounds) -> Iterator[Piece]:
        """The searches of an assignment that chains have bounded."""
        part = Part(group, (a,), (bounds,))
        for left in self._queue.shares.get((group, a), [Left(0.0, Share())]):
            least = max(left.energy, bounds[0]), float(bounds[1])
            yield Piece((part,), least, "search", left.share)

    def _chains(self, sets: Sequence[tuple[int, Sequence[tuple[int, Bounds]]]]) -> Piece:
        """Assignments that share outer tables, to be bounded."""
        parts = tuple(Part(group, *zip(*mates, strict=True)) for group, mates in sets)
        energy = min(bounds[0] for part in parts for bounds in part.bounds)
        cycles = min(bounds[1] for part in parts for bounds in part.bounds)
        apart = self._is_large(parts[0].group)
        return Piece(parts, (energy, float(cycles)), "chains", apart=apart)

    def _following(self, piece: Piece, done: Settled) -> Iterator[Piece]:
        """What is to be done once chains or a search are settled, where it could win.

        It is said before that is merged, too, so that nobody waits for those merged before.
        """
        part, its = piece.parts[0], done.bounds[0]
        if piece.task == "search":
            (bounds,) = its
            for left in done.left:
                least = max(piece.least[0], bounds[0], left.energy), max(piece.least[1], bounds[1])
                one = Part(part.group, part.assignments, its)
                yield Piece((one,), least, "search", left.share, done.prices)
            return
        rest = list[tuple[int, list[tuple[int, Bounds]]]]()
        for part, its in zip(piece.parts, done.bounds, strict=True):
            mates = [
                (a, bounds)
                for a, bounds in zip(part.assignments, its, strict=True)
                if self._known.beats(*bounds[:2], bounds[6])
            ]
            begun = [(a, bounds) for a, bounds in mates if bounds[5] > 0]
            waiting = [(a, bounds) for a, bounds in mates if bounds[5] == 0]
            if waiting:
                rest.append((part.group, waiting))
            if begun and done.unbounded:
                yield self._chains([(part.group, begun)])
                continue
            for a, bounds in begun:
                yield from self._searches(part.group, a, bounds)
        for first in range(min(PARTS, len(rest))):
            yield self._chains(rest[first::PARTS])

    def _add(self, piece: Piece) -> None:
        """Has a piece wait for its turn, if it could win."""
        if not self._known.beats(*piece.least):
            self._leave_out(piece)
            return
        # Shares of one assignment stand together: their tables are the same.
        where = piece.parts[0].bounds[0][:2] if piece.task == "search" else piece.least
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
        chosen = np.flatnonzero(self._known.could_beat(energy, cycles)).tolist()
        self._raised[number] = {}
        if len(self._keeps[number]) == 1:
            self._collect(number, np.full(len(chosen), groups[0]), np.array(chosen, np.int64))
            self._add_collected(number)
            return
        self._raising[number] = -(-len(chosen) // MOST_FLOORS)
        for begin in range(0, len(chosen), MOST_FLOORS):
            some = chosen[begin : begin + MOST_FLOORS]
            least = float(energy[some].min()), float(cycles[some].min())
            part = Part(groups[0], *zip(*self._with_bounds(groups[0], some), strict=True))
            self._add(Piece((part,), least, "floors"))

    def _least_of_spreads(self, number: int, groups: Sequence[int]) -> tuple[FloatArray, Array]:
        """What an order's assignments need, by their spatial factors; inf where none is left.

        Where bypass is searched, the least of all sets of kept tensors, or less than that.
        """
        one, found = self._orders[number], self._queue.groups[groups[0]][1]
        energy, cycles = found.energy, found.cycles
        if not self._lists_all(number):
            energy, cycles = least_of_spreads(
                one.space, self._bounds.limited(one.space), one.spreads.spatial(found.choice),
                self._keeps[number], self._known.could_beat,
            )  # fmt: skip
        left = np.any([self._queue.left(group) for group in groups], axis=0)
        return np.where(left, energy, np.inf), cycles

    def _collect(self, number: int, groups: Array, chosen: Array) -> None:
        """Has assignments `[B]` bounded together with others that share their outer tables."""
        raised, outer = self._raised[number], self._outer_of(number)[chosen]
        large = is_large(self._orders[number].shape)
        each = zip(groups.tolist(), outer.tolist(), chosen.tolist(), strict=True)
        for group, spread, a in each:
            mates = raised.setdefault((group, spread), [])
            mates.append(a)
            if len(mates) >= MOST_MATES and not large:
                self._add_chains([(group, raised.pop((group, spread)))])

    def _outer_of(self, number: int) -> Array:
        """`[A]` the number of what the outer fan-outs of an order's assignments spread.

        Those that share outer tables differ in what the innermost fan-out spreads alone.
        """
        if number not in self._outer:
            choice = self._queue.listed(number).groups[0].choice
            outer = choice[:, : self._last_fan_out(number)]
            _, numbers = np.unique(outer, axis=0, return_inverse=True)
            self._outer[number] = numbers.reshape(-1)
        return self._outer[number]

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
        few = -(-FEW_CHAINS // max(1, len(rows)))
        for sets in rows.values():
            self._add_row(sets, few)

    def _add_row(self, sets: Sequence[Set], few: int) -> None:
        """Has sets bounded that share tables outside all fan-outs, some in one piece.

        Args:
            sets: the sets.
            few: into how many pieces they are divided at least, if they are as many.
        """
        number, found = self._queue.groups[sets[0][0]]
        outside, last = levels_outside(self._orders[number]), self._last_fan_out(number)
        alike = self._tiles(sets[0][0], 0, outside)
        parts = list[tuple[Set, int]]()
        for group, together in sets:
            its = self._tiles(group, outside, last + 1)
            each = max(1, self._tiles(group, last + 1, len(found.keeps)))
            # Of dear assignments fewer share the tables of a set, so that a piece ends.
            most = max(1, min(MOST_ROW_MATES, MOST_ROW_TILES // (2 * each)))
            for begin in range(0, len(together), most):
                some = together[begin : begin + most]
                parts.append(((group, some), its + each * len(some)))
        room = min(MOST_TILES, alike + sum(work for _, work in parts) // few)
        row, filled = list[Set](), alike
        for part, work in parts:
            row.append(part)
            filled += work
            if filled >= room:
                self._add_chains(row)
                row, filled = [], alike
        if row:
            self._add_chains(row)

    def _last_fan_out(self, number: int) -> int:
        """The last level of an order below which assignments spread more or less."""
        several = [len(rows) > 1 for rows in self._orders[number].spreads.vectors]
        return max((level for level, some in enumerate(several) if some), default=0)

    def _tiles(self, group: int, first: int, stop: int) -> int:
        """How many tiles have room at some levels of a group."""
        number, found = self._queue.groups[group]
        tiles = 0
        for level in range(first, stop):
            key = number, level, found.keeps[level]
            if key not in self._fitting:
                self._fitting[key] = int(self._orders[number].lattice.fits(*key[1:]).sum())
            tiles += self._fitting[key]
        return tiles

    def _add_chains(self, sets: Sequence[Set]) -> None:
        """Has assignments bounded that share outer tables."""
        self._add(self._chains([(group, self._with_bounds(group, some)) for group, some in sets]))

    def _with_bounds(self, group: int, mates: Sequence[int]) -> list[tuple[int, Bounds]]:
        """Assignments of a group, with what is known of them."""
        return list(zip(mates, read_bounds(self._queue.groups[group][1], mates), strict=True))

    def _deal(self) -> Iterator[None]:
        """Has pieces settled, and merges what comes of them as they were dealt."""
        # Bounds of what is dealt, those of what is merged already among them.
        out: list[tuple[Order, int, Limit]] = []
        while True:
            while self._heap and len(self._pieces) < WINDOW:
                most = min(self._most_walks, self._worth)
                if self._walks < min(most, 1 + len(self.dealt) // PIECES_PER_WALK):
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
                for one, done in self._pieces.wait(STEP_SECONDS):
                    self._foresee(one, done)
                yield
            self._merge(*self._pieces.take())

    def _merge(self, piece: Piece | Walk, done: Settled) -> None:
        """Takes over what came of a piece, and adds those that follow from it."""
        before = self._limit()
        if len(done.codes):
            super().offer(done.codes)
        if self._limit() != before:
            self._pieces.forget_foreseen()
            # What was dealt before this was found, and cannot beat it.
            for other in self._pieces.drop(lambda one: not self._known.beats(*one.least)):
                self._leave_out(other)
            if isinstance(piece, Walk):
                self._worth = max(self._worth, 2 * piece.seed)
        if isinstance(piece, Walk):
            return
        for name, count in done.counts.items():
            self._counts[name] += count
        if piece.task == "floors":
            self._take_floors(piece, done)
        else:
            self._take_bounds(piece, done)

    def _foresee(self, piece: Piece | Walk, done: Settled) -> None:
        """Has settled what will follow from a piece, unless it is likely to have other limits."""
        if isinstance(piece, Walk) or piece.task == "floors" or len(done.codes):
            return
        for one in self._following(piece, done):
            if self._known.beats(*one.least):
                self._pieces.foresee(one, self._limit())

    def _take_floors(self, piece: Piece, done: Settled) -> None:
        """Raises floors, and has those bounded that they leave room."""
        number, floors = self._queue.groups[piece.group][0], done.floors
        assert floors is not None  # it was asked for them
        left, energy, cycles = self._queue.raise_floors(number, *floors)
        if left.any():
            first = self._known.first(energy, cycles)
            least = float(energy[first]), float(cycles[first])
            before = self._low.get(number, least)
            self._low[number] = min(before, least, key=lambda one: self._known.order(*one))
        self._collect(number, floors.group[left], floors.assignment[left])
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

    def _take_bounds(self, piece: Piece, done: Settled) -> None:
        """Takes over what is known of assignments now, and adds what is left to be done."""
        for part, its in zip(piece.parts, done.bounds, strict=True):
            found = self._queue.groups[part.group][1]
            write_bounds(found, part.assignments, its)
        for one in self._following(piece, done):
            self._add(one)
