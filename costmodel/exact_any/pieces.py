"""Pieces of a proof that workers settle by themselves: what they are, and how one is settled.

What comes of a piece is a function of the problem, the piece and the limit alone, so that it does
not matter who settles it, when, or how often.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from costmodel.exact_any.assignments import Assignments
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.tables import ChainTables
from costmodel.exact_any.tilings import Trail, Way
from costmodel.space import Codes

Limit = tuple[float, float]
"""Energy, pJ, and cycles of the mapping to beat."""

Bounds = tuple[float, int, int, int, float, int]
"""Of an assignment: energy, cycles, slowest, least, rate and chains, as in `Assignments`."""

MOST_TILES = 30_000
"""A search that bounds more tiles, about a second, is given back, to be split further."""

FINEST = 512
"""What is split into so many parts is not given back."""


class Piece(NamedTuple):
    """Assignments to bound, or the share of one assignment's tilings to search.

    group: which kept tensors and order; assignments: of these; bounds: what is known of each;
    part and parts: of one assignment's innermost tiles those whose number leaves that remainder;
    parts 0: the assignments are to be bounded; begun: where the search was that was given back.
    """

    group: int
    assignments: tuple[int, ...]
    bounds: tuple[Bounds, ...]
    part: int = 0
    parts: int = 0
    begun: Way = ()


class Settled(NamedTuple):
    """What came of a piece.

    codes `[0 .. 1, D]` the best mapping below the limit; bounds: of its assignments; counts: what
    it took; seconds: of processor time; left: where the search is of what is to be split, else
    None.
    """

    codes: Codes
    bounds: tuple[Bounds, ...]
    counts: dict[str, int]
    seconds: float
    left: Way | None


class Pool(Protocol):
    """Who settles pieces, in any order."""

    def submit(self, number: int, piece: Piece, limit: Limit) -> None:
        """Takes a piece with its number."""
        ...

    def ready(self, seconds: float) -> Sequence[tuple[int, Settled]]:
        """What is settled by now, by number; waits for so long at most."""
        ...


class PieceProver(AnyProver):
    """Settles pieces of a proof.

    Tables of the kept tensors in work are kept from piece to piece: they say the same as new ones.
    """

    def settle(self, piece: Piece, limit: Limit) -> Generator[None, None, Settled]:
        """Bounds the piece's assignments or searches its tilings for what is below a limit."""
        started, paused = time.thread_time(), 0.0
        before = dict(self._counts)
        number, found = self._queue.groups[piece.group]
        one, mates = self._orders[number], np.array(piece.assignments)
        for a, bounds in zip(piece.assignments, piece.bounds, strict=True):
            write_bounds(found, a, bounds)
        self._known.start_below(limit)
        tables = self._tables_of(piece.group)
        if piece.parts:
            self._tilings.trail = _Share(piece)
            work = self._take_up(one, tables, found, piece.assignments[0])
        else:
            work = self._bound_all(one, tables, found, mates)
        way: Way | None = None
        for _ in work:
            if 0 < piece.parts < FINEST and self._counts["tiles"] - before["tiles"] > MOST_TILES:
                way = self._tilings.trail.way
                break
            left = time.thread_time()
            yield
            paused += time.thread_time() - left
        counts = {name: number - before[name] for name, number in self._counts.items()}
        raised = tuple(read_bounds(found, a) for a in piece.assignments)
        seconds = time.thread_time() - started - paused
        return Settled(self._known.codes(1), raised, counts, seconds, way)

    def _tables_of(self, group: int) -> list[ChainTables]:
        held: tuple[int, list[ChainTables]] | None = getattr(self, "_held", None)
        if held is None or held[0] != group:
            number, found = self._queue.groups[group]
            one = self._orders[number]
            tables = ChainTables(
                one.shape, one.lattice.tiles(found.keeps), found.keeps, one.credits
            )
            self._held = held = (group, [tables])
        return held[1]


class Here:
    """A pool of this thread alone: the first piece that came is settled first."""

    def __init__(self, prover: PieceProver) -> None:
        """Has nothing to do yet."""
        self._prover = prover
        self._waiting: deque[tuple[int, Piece, Limit]] = deque()
        self._work: tuple[int, Generator[None, None, Settled]] | None = None

    def submit(self, number: int, piece: Piece, limit: Limit) -> None:
        """See `Pool`."""
        self._waiting.append((number, piece, limit))

    def ready(self, seconds: float) -> Sequence[tuple[int, Settled]]:
        """See `Pool`."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if self._work is None:
                number, piece, limit = self._waiting.popleft()
                self._work = number, self._prover.settle(piece, limit)
            number, work = self._work
            try:
                next(work)
            except StopIteration as done:
                self._work = None
                return [(number, done.value)]
        return []


class _Others(set[int]):
    """The innermost tiles that are through, and those that are other parts'."""

    def __init__(self, part: int, parts: int, through: Iterable[int]) -> None:
        super().__init__(through)
        self._part, self._parts = part, parts

    def __contains__(self, tile: object) -> bool:
        assert isinstance(tile, int)
        return tile % self._parts != self._part or super().__contains__(tile)


class _Share(Trail):
    """A search of one part of an assignment's innermost tiles."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(piece.begun)
        self._mine = piece.part, piece.parts

    def open(self) -> set[int]:
        """See `Trail`."""
        found = super().open()
        if len(self._through) == 1:
            self._through[0] = found = _Others(*self._mine, found)
        return found


def read_bounds(found: Assignments, a: int) -> Bounds:
    """What is known of an assignment."""
    return (
        float(found.energy[a]), int(found.cycles[a]), int(found.slowest[a]),
        int(found.least[a]), float(found.rate[a]), int(found.chains[a]),
    )  # fmt: skip


def write_bounds(found: Assignments, a: int, bounds: Bounds) -> None:
    """Notes what is known of an assignment."""
    found.energy[a], found.cycles[a], found.slowest[a] = bounds[:3]
    found.least[a], found.rate[a], found.chains[a] = bounds[3:]
