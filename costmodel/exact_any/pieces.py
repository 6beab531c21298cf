"""Pieces of a proof that workers settle by themselves: what they are, and how one is settled.

What comes of a piece is a function of the problem, the piece and the limit alone, so that it does
not matter who settles it, when, or how often.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.exact.pool import Limit
from costmodel.exact_any.assignments import Assignments
from costmodel.exact_any.chain_bounds import Opened
from costmodel.exact_any.held import is_large
from costmodel.exact_any.layout import OneOrder
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.runs import levels_outside
from costmodel.exact_any.share import MOST_SHARES, Left, Share, ShareTrail
from costmodel.exact_any.weighing import Weighed
from costmodel.space import Codes
from costmodel.tile_chains.aside import Aside
from costmodel.tile_chains.ports import Prices
from costmodel.tile_chains.tables import ChainTables
from costmodel.tile_chains.tiles import FloatArray

Bounds = tuple[float, int, int, int, float, int, float]
"""Of an assignment: energy, cycles, slowest, least, rate, chains and plain, as in `Assignments`."""

Task = Literal["floors", "chains", "search"]

MOST_WORK, AMID = 500_000, 2
"""A search that takes more, about a fifth of a second, gives back what is left once it is through
with a tile of its first level; after so many times as much whatever it is amid. For every view more
than one it is half as much again."""

FEW_LEFT = 0.5
"""It goes on, up to so many times more, where it is likely to end after this share of that."""

SHARE_WORK = 250_000
"""What is left is split into shares that are likely to take so much."""

MOST_BYTES = 1 << 29
"""What the tables of assignments may take that a worker has searched, with those of the last."""

MOST_CHAIN_WORK = 1_500_000
"""Cells of tables inside fan-outs after which chains leave further price lists to another piece."""

MOST_ROW_TILES, SET_TILES = 2_400_000, 20_000
"""Tiles of slots and boundaries inside fan-outs, about 0.6 seconds, after which sets that share
tables outside of them are left to other pieces; what a set takes beside."""

OFTEN, MOST_ASIDE = 4, 3 << 27
"""Of large lattices all tiles outside all fan-outs are filled, and put aside, from then on; bytes
that these take at most."""

TILING_WORK, ORDER_WORK = 400, 20
"""What a tiling takes, and each of its orders that is scored, in tiles bounded in one view, which
take 0.4 microseconds each on `hops4x16` and on `cluster4x64bw`."""


class Part(NamedTuple):
    """Assignments that keep the same tensors: group, which ones; bounds: what is known of each."""

    group: int
    assignments: tuple[int, ...]
    bounds: tuple[Bounds, ...]


class Piece(NamedTuple):
    """What is to be done about assignments.

    parts: those that keep the same tensors; of several parts those outside all fan-outs are the
    same; least: what no mapping of theirs undercuts; task: raise the floors of their spatial
    factors, under all kept tensors; bound them by chains; or search a share of the tilings of one,
    for which the cycles of two ports are mixed first; prices: what was mixed for it, None: nothing
    is; apart: whether its tables are of no use to others.
    """

    parts: tuple[Part, ...]
    least: Limit
    task: Task
    share: Share = Share()
    prices: Prices | None = None
    apart: bool = False

    @property
    def group(self) -> int:
        """The kept tensors and order of the first part, mostly the only one."""
        return self.parts[0].group

    @property
    def assignments(self) -> tuple[int, ...]:
        """The assignments of the first part, mostly the only one."""
        return self.parts[0].assignments

    @property
    def tables(self) -> tuple[Task, int, int]:
        """Whose tables it reads: those of one assignment, or of all that keep the same."""
        alone = self.apart or self.task == "search"
        return self.task, self.group, self.assignments[0] if alone else -1


class Walk(NamedTuple):
    """A search, by whoever settles pieces, for a mapping that is good; others must beat it.

    seed: of the search; least: what rules nothing out.
    """

    seed: int
    least: Limit = (0.0, 1.0)

    @property
    def tables(self) -> None:
        """It reads none."""
        return None


class Floors(NamedTuple):
    """Raised floors: of what group and which assignment each is, energy and cycles, all `[B]`."""

    group: Array
    assignment: Array
    energy: FloatArray
    cycles: Array


class Settled(NamedTuple):
    """What came of a piece.

    codes `[0 .. top, D]` the best mappings below the limit; bounds: of its parts; floors: raised
    ones below the limit, None: it raises none; counts: what it took; left: shares that are still to
    be searched; prices: what was mixed; unbounded: whether chains by further price lists are left.
    """

    codes: Codes
    bounds: tuple[tuple[Bounds, ...], ...]
    floors: Floors | None
    counts: dict[str, int]
    left: tuple[Left, ...]
    prices: Prices | None = None
    unbounded: bool = False


Key = tuple[int, int, Bounds, Prices | None, Limit | None]
"""Of an assignment that is searched: what its tables depend on."""


class PieceProver(AnyProver):
    """Settles pieces of a proof.

    Tables of the kept tensors in work are kept from piece to piece, and those of the assignments
    that were searched last: they say the same as new ones.
    """

    _takes_up = False
    _held: tuple[int, list[ChainTables]] | None = None
    _prices: Prices | None = None
    _unbounded = False
    _mixing = 0
    _views = 1
    # Whether a piece is about many assignments, by chains.
    _bounds_many = False

    @cached_property
    def _opened(self) -> dict[Key, tuple[list[ChainTables], Opened]]:
        """Assignments that were searched, the last one at the end."""
        return {}

    @cached_property
    def _asides(self) -> dict[int, tuple[Aside, Counter[tuple[int, ...]]]]:
        """By order the tables put aside, and how often those of kept tensors were filled."""
        return {}

    def get_ready(self) -> None:
        """Does what the first pieces would wait for: somebody lists what is to be settled."""
        for one in self._orders:
            groups = [g for g, (number, _) in enumerate(self._queue.groups) if number == one.number]
            if not groups or not len(self._queue.groups[groups[0]][1].choice):
                continue
            if not self._lists_all(one.number):
                self._note_floors(one.number, np.array([0]))
                # Levels outside all fan-outs serve all.
                for _ in self._levels_apart(one)[0].floors(0):
                    pass
            if is_large(one.shape):
                rows = self._queue.groups[groups[0]][1]
                of = self._bounds.weigh(one, rows, np.array([0]), shared=True)
                self._tables_of(groups[0], of)[0].touch(2 * one.shape.cells)

    def settle(self, piece: Piece, limit: Limit) -> Generator[None, None, Settled]:
        """Does what a piece asks for, for what is below a limit."""
        before = dict(self._counts)
        number, found = self._queue.groups[piece.group]
        one, mates = self._orders[number], np.array(piece.assignments)
        self._known.start_below(limit)
        self._prices, self._unbounded, self._mixing = None, False, 0
        self._bounds_many = piece.task == "chains"
        left: tuple[Left, ...] = ()
        trail = ShareTrail(piece.share)
        for part in piece.parts:
            write_bounds(self._queue.groups[part.group][1], part.assignments, part.bounds)
        for _ in self._work_on(piece, one, found, trail):
            if trail.inside:
                left = self._left(trail, self._work_since(before), int(found.cycles[mates[0]]))
                if left:
                    break
            yield
        raised = self._bounds_of(piece)
        floors = self._low_floors(number, mates) if piece.task == "floors" else None
        counts = {name: number - before[name] for name, number in self._counts.items()}
        if piece.task == "search":
            counts["chains"] = self._mixing  # which others were there depends on the worker
        codes = self._known.codes(self._top)
        return Settled(codes, raised, floors, counts, left, self._prices, self._unbounded)

    def _left(self, trail: ShareTrail, work: int, cycles: int) -> tuple[Left, ...]:
        """What a search gives back after so much work; nothing: it goes on."""
        # Whoever takes a share fills a table for every view.
        dear = (1 + self._views) / 2
        most = dear * MOST_WORK
        if work <= most or not (work > AMID * most or trail.between):
            return ()
        more = work * trail.more(self._known.limit(cycles))
        if more <= FEW_LEFT * most and work <= 3 * most:
            return ()
        return trail.left(math.ceil(min(more / (dear * SHARE_WORK), MOST_SHARES)))

    def _raise_anew(self, one: OneOrder, chosen: Array) -> Iterator[None]:
        """Raises floors, which are written down anew, as if nobody here had raised them before."""
        self._note_floors(one.number, chosen)
        if one.number in self._apart:
            self._apart[one.number][2].difference_update(chosen.tolist())
        yield from self._raise_floors(one, chosen)

    def _bounds_of(self, piece: Piece) -> tuple[tuple[Bounds, ...], ...]:
        """What is known of the assignments of every part."""
        return tuple(
            read_bounds(self._queue.groups[part.group][1], part.assignments) for part in piece.parts
        )

    def _work_on(
        self,
        piece: Piece,
        one: OneOrder,
        found: Assignments,
        trail: ShareTrail,
    ) -> Iterator[None]:
        mates = np.array(piece.assignments)
        if piece.task == "floors":
            yield from self._raise_anew(one, mates)
            return
        if piece.task == "chains":
            self._unbounded = yield from self._bound_parts(piece, one)
            return
        a, self._prices = piece.assignments[0], piece.prices
        if found.rate[a] > 0:
            # What another piece has mixed here was for another limit.
            self._bounds.mixed(one, found, a, piece.prices)
            if piece.prices is None:
                of = self._bounds.weigh(one, found, mates, shared=True)
                tables = self._tables_of(piece.group, of)
                before = self._counts["chains"]
                self._prices = yield from self._bounds.mix(one, tables, found, a)
                self._mixing = self._counts["chains"] - before
                if not self._could_win(found, mates).size:
                    return
        tables, (assignment, views) = yield from self._open(piece)
        self._tilings.trail, self._views = trail, len(views)
        yield from self._tilings.search(one, assignment, views, tables[0], int(found.cycles[a]))

    def _bound_parts(self, piece: Piece, one: OneOrder) -> Generator[None, None, bool]:
        """Bounds assignments by chains; returns whether further price lists are left.

        Of several sets the last ones may stay as they are.
        """
        most, before = MOST_CHAIN_WORK // one.shape.cells, self._counts["chains"]
        run = [
            (found, self._bounds.weigh(one, found, np.array(part.assignments), shared=True))
            for part in piece.parts
            for found in (self._queue.groups[part.group][1],)
        ]
        outside, unbounded = self._bounds.outside(one, run), False

        def enough() -> bool:
            return len(run) > 1 or self._counts["chains"] - before > most

        filled = work = 0
        for part, (found, of) in zip(piece.parts, run, strict=True):
            if work > MOST_ROW_TILES:
                break
            if outside is not None and of.inside is not None:
                inside = np.concatenate([outside.inside, of.inside[len(outside.inside) :]])
                of = of._replace(inside=inside)
            tables = self._tables_of(part.group, of, filled)
            work += SET_TILES - tables[0].filled
            bounding = self._bounds.bound(one, tables, found, of, outside, enough)
            unbounded = yield from bounding
            work += tables[0].filled
            filled = 0 if outside is None else len(outside.inside)
        return unbounded

    def _open(self, piece: Piece) -> Generator[None, None, tuple[list[ChainTables], Opened]]:
        """The tables that a search reads: those that are there, or filled."""
        ((bounds,),) = self._bounds_of(piece)
        key = piece.group, piece.assignments[0], bounds, self._prices, self._known.to_beat
        found = self._opened.pop(key, None)
        if found is None:
            found = yield from self._fill(piece)
        self._opened[key] = found
        while len(self._opened) > 1 and self._bytes() > MOST_BYTES:
            del self._opened[next(iter(self._opened))]
        return found

    def _fill(self, piece: Piece) -> Generator[None, None, tuple[list[ChainTables], Opened]]:
        """Fills tables for a search."""
        number, rows = self._queue.groups[piece.group]
        one, a = self._orders[number], piece.assignments[0]
        of = self._bounds.weigh(one, rows, np.array([a]), shared=True)
        tables = self._tables_of(piece.group, of)
        if not is_large(one.shape) and tables[0].size <= MOST_BYTES // 4:
            tables = [ChainTables(one.shape, tables[0].tiles, rows.keeps, one.credits, exact=True)]
        return tables, (yield from self._bounds.open(one, tables, rows, a))

    def _bytes(self) -> int:
        """What the tables of the assignments that were searched take at most."""
        return sum(table.size for tables, _ in self._opened.values() for table in tables)

    def _work_since(self, before: dict[str, int]) -> int:
        """How much was searched, in tiles that are bounded in one view."""
        counts = self._counts
        tilings = counts["tilings"] - before["tilings"]
        bounded = counts["tiles"] - before["tiles"] + TILING_WORK * tilings
        return self._views * bounded + ORDER_WORK * (counts["orders"] - before["orders"])

    def _low_floors(self, number: int, chosen: Array) -> Floors:
        """Of all groups of an order the chosen assignments that could win, with their floors."""
        listed = self._queue.listed(number)
        first = next(g for g, (order, _) in enumerate(self._queue.groups) if order == number)
        energy, cycles = listed.energy[:, chosen], listed.cycles[:, chosen]
        plain = listed.plain[:, chosen]
        its, mates = np.nonzero(self._known.could_beat(energy, cycles, plain))
        return Floors(first + its, chosen[mates], energy[its, mates], cycles[its, mates])

    def _tables_of(self, group: int, of: Weighed, filled: int = 0) -> list[ChainTables]:
        """Tables for what is next of a group; if large, nothing else has tables of its own.

        Args:
            group: the group.
            of: what is next.
            filled: of how many levels, from the outermost, those filled last serve it as they are.
        """
        held = None if self._held is None else self._held[1]
        for key in [key for key, (tables, _) in self._opened.items() if tables is held]:
            del self._opened[key]
        one = self._orders[self._queue.groups[group][0]]
        keeps = self._queue.groups[group][1].keeps
        if is_large(one.shape):
            return self._turned(one, keeps, of, filled)
        if self._held is None or self._held[0] != group:
            held, self._held = [] if self._held is None else self._held[1], None
            tiles = one.lattice.tiles(keeps)
            if held and held[0].may_serve(one.shape):
                # Tiles as they were are read by what was searched.
                for table in held:
                    table.turn_to(tiles, keeps)
            else:
                held.clear()  # make room first
                held = [ChainTables(one.shape, tiles, keeps, one.credits, exact=True)]
            self._held = group, held
        return self._held[1]

    def _turned(
        self, one: OneOrder, keeps: tuple[int, ...], of: Weighed, filled: int
    ) -> list[ChainTables]:
        """Tables of the tiles alone that some assignments have, with nothing further in filled.

        Outside all fan-outs they have all tiles where a worker has filled them so often that it is
        worth the while to put them aside.
        """
        assert of.inside is not None  # they share tables
        outer, inside = np.gcd.reduce(of.found.outer[:, :-1]), of.inside.copy()
        held = [] if self._held is None else self._held[1]
        aside = self._aside_for(one, keeps, filled)
        inside[: 1 if aside is None else aside.levels] = 1
        if held and held[0].may_serve(one.shape):
            # The outermost level has all its tiles always: they are filled once.
            same = max(filled, int(held[0].keeps[0] == keeps[0]))
            tiles = one.lattice.tiles_between(keeps, inside, outer, held[0].tiles, same)
            for table in held:
                table.turn_to(tiles, keeps, same)
        else:
            held.clear()
            # Room for all that may come: what nobody writes to takes no memory.
            room = one.lattice.room(len(keeps), len(keeps) * one.shape.cells)
            tiles = one.lattice.tiles_between(keeps, inside, outer, room)
            held.append(ChainTables(one.shape, tiles, keeps, one.credits))
            held[0].whole = True
        for table in held:
            table.aside, table.steps = aside, levels_outside(one) if self._bounds_many else 0
        self._held = -1, held
        return held

    def _aside_for(self, one: OneOrder, keeps: tuple[int, ...], filled: int) -> Aside | None:
        """Who takes tables outside all fan-outs aside; None: they have tiles of these alone."""
        if not self._bounds_many:
            return None
        if one.number not in self._asides:
            aside = Aside(levels_outside(one), exact=True, most=MOST_ASIDE)
            self._asides[one.number] = aside, Counter()
        aside, asked = self._asides[one.number]
        outermost = keeps[: aside.levels]
        asked[outermost] += filled == 0
        return aside if asked[outermost] > OFTEN else None


def read_bounds(found: Assignments, chosen: Sequence[int]) -> tuple[Bounds, ...]:
    """What is known of some assignments."""
    some = list(chosen)
    return tuple(zip(*(column[some].tolist() for column in _bounds(found)), strict=True))


def write_bounds(found: Assignments, chosen: Sequence[int], bounds: Sequence[Bounds]) -> None:
    """Notes what is known of some assignments."""
    some = list(chosen)
    for column, values in zip(_bounds(found), zip(*bounds, strict=True), strict=True):
        column[some] = values


def _bounds(found: Assignments) -> tuple[npt.NDArray[Any], ...]:
    """The columns that `Bounds` has, in their order."""
    return (
        found.energy, found.cycles, found.slowest, found.least, found.rate, found.chains,
        found.plain,
    )  # fmt: skip
