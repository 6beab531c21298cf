"""The proof for three levels shared out over workers: a piece is a run of units.

As in the proof on any hierarchy (lemma 13 of docs/inside/shared-proofs.md) pieces are merged in
the order in which they were dealt, and what is dealt next, with which limit, depends on what is
merged alone: so what it ends with is the same for any number of workers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import NamedTuple

from costmodel.arrays.tables import Array
from costmodel.costs import Objective
from costmodel.exact.decode import Outcome
from costmodel.exact.objective import INFINITE
from costmodel.exact.parallel_search import Lane, Walk, merge
from costmodel.exact.pool import Dealt, InOrder, Limit, Pool
from costmodel.exact.prover import STEP_PIECES, Prover
from costmodel.exact.structures import OuterTables, Problem
from costmodel.exact.workspace import (
    BETWEEN_TILES,
    DEPTH,
    PART_PATH,
    STAGE,
    Found,
    nothing_found,
)
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ContractError

WINDOW = 256
"""How many pieces are dealt beyond those that are merged, at most."""

MOST_BOUNDS = 100_000
"""A piece of more, about a tenth of a second, gives back the units that it has not begun."""

SPLIT = 8
"""Into so many runs they are split."""

FIRST_UNITS, MOST_UNITS = 1, 1024
"""Of the first pieces, and of any."""

PAUSE_TILES = 10_000
"""After so many tiles whoever settles a piece may look at the clock."""

WAIT_SECONDS = 0.05


class Units(NamedTuple):
    """Units, by rising floor, from one up to before another; of a single one perhaps a part.

    tiles: of a part the picks, from one up to before another, of the dimension that follows those
    of path, whose picks these are (`Found.part`); None: all tiles.
    """

    first: int
    stop: int
    path: tuple[int, ...] = ()
    tiles: tuple[int, int] | None = None

    @property
    def tables(self) -> None:
        """None of its own: those of the proof stand from the beginning."""
        return None


class Unlisted(NamedTuple):
    """The first piece of all: the units are to be listed, as whoever settles units has them."""

    @property
    def tables(self) -> None:
        """None of its own, as units have none."""
        return None


class UnitList(NamedTuple):
    """All units by rising floor.

    energy and cycles `[U]` of the floors, vector `[U]` of spatial factors, kept `[U]` the tensors
    that the element buffers keep, as bits.
    """

    energy: Array
    cycles: Array
    vector: Array
    kept: Array


class UnitsSettled(NamedTuple):
    """What came of units.

    energy and cycles `[B]`, rows `[B, ...]`: the best mappings below the limit, as in `Found`;
    counts `[5]`; next: the first unit that is still to be searched whole; left: what is of the one
    before it.
    """

    energy: Array
    cycles: Array
    rows: Array
    counts: Array
    next: int
    left: tuple[Units, ...] = ()


AnyUnits = Unlisted | Units
AnyUnitsSettled = UnitList | UnitsSettled


class UnitProver(Prover):
    """Settles pieces of a proof; its tables stand from the beginning."""

    def settle(self, piece: AnyUnits, limit: Limit) -> Generator[None, None, AnyUnitsSettled]:
        """Lists all units, or searches some for what is below a limit."""
        if isinstance(piece, Unlisted):
            return UnitList(self._unit_energy, self._unit_cycles, self._unit_vector, self._unit_set)
        most = self._found.energy.size
        found = nothing_found(self._kind, self._tables.sizes.size, most)
        found.limit[:] = limit
        lane = self._walk.enter(piece.first, piece.stop, found)
        if piece.tiles is not None:
            lane.found.part[: PART_PATH + len(piece.path)] = (
                len(piece.path),
                *piece.tiles,
                *piece.path,
            )
        left: tuple[Units, ...] = ()
        while lane.unit < piece.stop and lane.found.counts.sum() < MOST_BOUNDS:
            lane.end = lane.unit + 1
            while lane.unit < lane.end:
                self._walk.go_on_in(lane, PAUSE_TILES)
                yield
                if lane.found.counts.sum() >= MOST_BOUNDS and self._splits(lane):
                    left = self._rest(lane, piece)
                    lane.unit = lane.end
        best = lane.found
        return UnitsSettled(best.energy, best.cycles, best.rows, best.counts, lane.unit, left)

    def _splits(self, lane: Lane) -> bool:
        """Whether the unit in hand can be left between two tiles, where it is brought to then."""
        if self._tables.half_hop or self._unit_set[min(lane.unit, lane.end - 1)] == 0:
            return False  # all ways to lay a vector on the mesh; a single tile
        while lane.unit < lane.end and lane.work.paused[STAGE] != BETWEEN_TILES:
            self._walk.go_on_in(lane, 1)
        return lane.unit < lane.end

    def _rest(self, lane: Lane, piece: Units) -> tuple[Units, ...]:
        """What is left of a unit that pauses between tiles: of every depth the picks to come."""
        tables, element, depth = self._tables, lane.work.element, int(lane.work.paused[DEPTH])
        picks = [int(pick) for pick in element.pick[: depth + 1]]
        found: list[Units] = []
        for d in range(len(piece.path), depth + 1):
            at = int(tables.divisor_start[d] + element.spatial_at[d])
            stop = int(tables.multiple_start[at + 1] - tables.multiple_start[at])
            if piece.tiles is not None and d == len(piece.path):
                stop = piece.tiles[1]
            # The tile at the deepest one has not had its turn.
            first = picks[d] + (d < depth)
            # Most is left of the first of them.
            run = max(1, stop - first if found else -(-(stop - first) // SPLIT))
            found += [
                Units(lane.unit, lane.end, tuple(picks[:d]), (begin, min(stop, begin + run)))
                for begin in range(first, stop, run)
            ]
        return tuple(found)


class SharedWalk(Walk):
    """Has units searched by a pool.

    Attributes:
        pieces: those that were dealt.
    """

    def __init__(
        self,
        problem: Problem,
        unit_vector: Array,
        unit_set: Array,
        pieces: InOrder[AnyUnits, AnyUnitsSettled],
    ) -> None:
        """Begins with no units dealt; see `Walk`."""
        super().__init__(problem, unit_vector, unit_set, 1)
        self.block = FIRST_UNITS
        self.pieces = pieces
        self._left: list[Units] = []
        self._beyond: int | None = None

    def search(self, begin: int, end: int, bounds: int, found: Found) -> int:
        """Deals pieces, and merges the next one if it is settled; see `Walk`.

        Returns:
            The unit before which all are searched.
        """
        if self._beyond is None:
            self._beyond = begin
        self._deal_pieces(end, found)
        if self.pieces and not self.pieces.is_settled:
            self.pieces.wait(WAIT_SECONDS)
        if self.pieces.is_settled:
            piece, done = self.pieces.take()
            assert isinstance(piece, Units)  # all others were taken before
            assert isinstance(done, UnitsSettled)
            self._merge(piece, done, found)
        dealt = [piece for piece in self.pieces.pending if isinstance(piece, Units)]
        return min([one.first for one in (*dealt, *self._left)] or [self._beyond])

    def forget(self) -> None:
        """Drops what is dealt."""
        super().forget()
        self.pieces.forget()
        self._left.clear()
        self._beyond = None

    def begin_at(self, places: Sequence[tuple[int, int, int]], found: Found) -> None:
        """Goes on with the blocks of another walk; units in work begin anew."""
        self.forget()
        self._left = sorted(Units(unit, end) for unit, _, end in places if unit < end)
        self._beyond = max((end for *_, end in places), default=None)

    def _deal_pieces(self, end: int, found: Found) -> None:
        """Deals what was left first; what lies beyond `end` cannot win in this round."""
        assert self._beyond is not None  # the caller has looked
        limit = int(found.limit[0]), int(found.limit[1])
        while len(self.pieces) < WINDOW:
            if self._left and self._left[0].first < end:
                piece = heapq.heappop(self._left)
            elif self._beyond < end:
                piece = Units(self._beyond, min(end, self._beyond + self.block))
                self._beyond = piece.stop
            else:
                return
            self.pieces.deal(piece, limit)

    def _merge(self, piece: Units, done: UnitsSettled, found: Found) -> None:
        """Takes over what came of a piece; pieces become such as take about MOST_BOUNDS."""
        merge(found, found._replace(
            energy=done.energy, cycles=done.cycles, rows=done.rows, counts=done.counts
        ))  # fmt: skip
        for one in done.left:
            heapq.heappush(self._left, one)
        whole = piece.tiles is None and piece.stop - piece.first == self.block
        if done.next < piece.stop:
            run = -(-(piece.stop - done.next) // SPLIT)
            for first in range(done.next, piece.stop, run):
                heapq.heappush(self._left, Units(first, min(first + run, piece.stop)))
            self.block = max(1, self.block // 2)
        elif whole and done.counts.sum() < MOST_BOUNDS // 2:
            self.block = min(MOST_UNITS, 2 * self.block)


class SharedUnits(Prover):
    """The proof of `Prover`, shared out; it has no tables of its own, but of who settles pieces."""

    def __init__(
        self,
        space: MapSpace,
        pool: Pool[AnyUnits, AnyUnitsSettled],
        *,
        objective: Objective = "edp",
        keep: Mapping[str, Sequence[str]] | None = None,
        top: int = 1,
        build: bool = True,
    ) -> None:
        """Notes what is to be proven, as `Prover` does.

        Args:
            space: as there.
            pool: settles pieces, of a `UnitProver` with the same arguments.
            objective: as there.
            keep: as there.
            top: as there.
            build: as there.

        Raises:
            ConfigError: as there.
        """
        self._pieces = InOrder(pool)
        super().__init__(space, objective=objective, keep=keep, top=top, threads=1, build=build)

    @property
    def dealt(self) -> list[Dealt]:
        """The pieces, in their order."""
        return self._pieces.dealt

    def _fill(self, outer: OuterTables) -> Iterator[float]:
        return iter(())

    def _list_units(self) -> Iterator[float]:
        """Has the units listed by whoever has the tables; yields as `Prover` does."""
        self._pieces.deal(Unlisted(), (0, 0))
        while not self._pieces.is_settled:
            self._pieces.wait(WAIT_SECONDS)
            yield STEP_PIECES
        _, listed = self._pieces.take()
        assert isinstance(listed, UnitList)
        self._unit_energy, self._unit_cycles = listed.energy, listed.cycles
        self._unit_vector, self._unit_set = listed.vector, listed.kept

    def _make_walk(self) -> Walk:
        return SharedWalk(self._problem, self._unit_vector, self._unit_set, self._pieces)

    def search_vectors(
        self, elements: int, limit: Outcome, ends: float = math.inf
    ) -> tuple[Outcome, Codes] | None:
        """Has no tables to do so.

        Raises:
            ContractError: always.
        """
        raise ContractError("A proof that is shared out searches what it deals alone.")

    def _begin_round(self) -> None:
        """Sets the best mapping known as the target, where there is one.

        Rounds that rise to it would end one after another, each with few pieces left, and search
        most units again.
        """
        super()._begin_round()
        best = self._to_beat()
        if best[0] < INFINITE:
            self._found.limit[:] = best

    def offer(self, codes: Codes) -> None:
        """Takes mappings as `Prover` does, before pieces are dealt; later ones are passed.

        When they came would decide what pieces find.
        """
        if not self.built:
            super().offer(codes)
