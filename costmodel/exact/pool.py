"""Who settles the pieces of a proof that is shared out: a pool, here or elsewhere.

What comes of a piece is a function of the problem, the piece and the limit alone, so that it does
not matter who settles it, when, or how often.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Hashable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

Limit = tuple[float, float]
"""Energy and cycles of the mapping to beat, in the units of the prover."""


class HasTables(Protocol):
    """A piece."""

    @property
    def tables(self) -> Hashable:
        """Pieces with the same of these read the same tables; None: it reads none of its own."""
        ...


Piece = TypeVar("Piece", bound=HasTables)
Settled = TypeVar("Settled")
PieceIn = TypeVar("PieceIn", contravariant=True)
SettledOut = TypeVar("SettledOut", covariant=True)


class Settles(Protocol[PieceIn, SettledOut]):
    """Settles pieces of one problem."""

    def settle(self, piece: PieceIn, limit: Limit) -> Generator[None, None, SettledOut]:
        """Does what a piece asks for, for what is below a limit, in parts of some milliseconds."""
        ...


class Pool(Protocol[PieceIn, SettledOut]):
    """Who settles pieces, in any order."""

    def submit(self, number: int, piece: PieceIn, limit: Limit) -> None:
        """Takes a piece with its number."""
        ...

    def ready(self, seconds: float) -> Sequence[tuple[int, SettledOut]]:
        """What is settled by now, by number; waits for so long at most."""
        ...

    def drop(self, number: int) -> None:
        """Drops a piece that was submitted, if nobody has begun with it."""
        ...

    def forget(self) -> None:
        """Drops what nobody has begun with; of the rest something may still come."""
        ...


SHARE, MOST_BUNDLED = 4, 16
"""A bundle is a worker's share of what waits, divided by the first, and no more than the second."""

NEAR = 4
"""Whose tables a worker has comes first, if it came so many pieces per worker later at most."""


class Waiting(Generic[Piece]):
    """Pieces that wait for a worker, in bundles that read the same tables.

    The more wait, the larger the bundles are, so that tables are filled seldom; in the end they are
    single pieces.
    """

    def __init__(self) -> None:
        """Holds none."""
        # With the place in line of each.
        self._pieces: dict[int, tuple[Piece, Limit, int]] = {}
        self._places = itertools.count()
        self._alike: dict[Hashable, dict[int, None]] = {}

    def __len__(self) -> int:
        """How many wait."""
        return len(self._pieces)

    def add(self, number: int, piece: Piece, limit: Limit) -> None:
        """Takes a piece with its number."""
        self._pieces[number] = piece, limit, next(self._places)
        self._alike.setdefault(self._key(number, piece), {})[number] = None

    def bundle(self, workers: int, last: Hashable = None) -> list[tuple[int, Piece, Limit]]:
        """Hands out a piece that waits, and others that read the same tables.

        Args:
            workers: how many share what waits.
            last: the tables that the worker read last: a piece that reads them is handed out if it
                is not far behind the first one in line, else that one.
        """
        most = max(1, min(MOST_BUNDLED, len(self._pieces) // (SHARE * workers)))
        first, (piece, _, place) = next(iter(self._pieces.items()))
        key = self._key(first, piece)
        has = self._alike.get((last,)) if last is not None else None
        if has and self._pieces[next(iter(has))][2] - place <= NEAR * workers:
            key = (last,)
        alike = self._alike[key]
        numbers = list(itertools.islice(alike, most))
        for number in numbers:
            del alike[number]
        if not alike:
            del self._alike[key]
        return [(number, *self._pieces.pop(number)[:2]) for number in numbers]

    def drop(self, number: int) -> None:
        """Drops a piece, if it waits."""
        if number in self._pieces:
            piece, *_ = self._pieces.pop(number)
            key = self._key(number, piece)
            del self._alike[key][number]
            if not self._alike[key]:
                del self._alike[key]

    def clear(self) -> None:
        """Drops all."""
        self._pieces.clear()
        self._alike.clear()

    def _key(self, number: int, piece: Piece) -> Hashable:
        return number if piece.tables is None else (piece.tables,)


class Dealt(NamedTuple):
    """A piece that was dealt, for whoever simulates other workers.

    after: the first piece that was not merged by then; tables: whose it reads, None: none of its
    own; dropped: after which piece was merged it was dropped, None: it was not.
    """

    after: int
    tables: Hashable
    dropped: int | None = None


class InOrder(Generic[Piece, Settled]):
    """Has pieces settled by a pool, and hands them back in the order in which they were dealt.

    What is likely to be dealt may be settled before it is: what comes of a piece depends on it and
    its limit alone.

    Attributes:
        dealt: all pieces, in their order.
    """

    def __init__(self, pool: Pool[Piece, Settled]) -> None:
        """Has dealt nothing."""
        self.dealt: list[Dealt] = []
        self._pool = pool
        self._out: dict[int, Piece] = {}
        self._settled: dict[int, Settled] = {}
        self._last = -1
        # What was foreseen, with the number by which the pool knows it, below zero.
        self._foreseen: dict[tuple[Piece, Limit], int] = {}
        self._early: dict[int, Settled] = {}
        self._foreseen_numbers = itertools.count(-1, -1)
        # Of pieces that were foreseen and dealt, the numbers by each other.
        self._number: dict[int, int] = {}
        self._pool_number: dict[int, int] = {}

    def __len__(self) -> int:
        """How many pieces are dealt and not handed back."""
        return len(self._out)

    @property
    def pending(self) -> Collection[Piece]:
        """The pieces that are dealt and not handed back, in their order."""
        return self._out.values()

    @property
    def first(self) -> int:
        """The number of the first of them, or of the next one that will be dealt."""
        return next(iter(self._out), len(self.dealt))

    def deal(self, piece: Piece, limit: Limit) -> int:
        """Has a piece settled, and returns its number."""
        number = len(self.dealt)
        self.dealt.append(Dealt(self.first, piece.tables))
        self._out[number] = piece
        at = self._foreseen.pop((piece, limit), None)
        if at is None:
            self._pool.submit(number, piece, limit)
        elif at in self._early:
            self._settled[number] = self._early.pop(at)
        else:
            self._number[at], self._pool_number[number] = number, at
        return number

    def foresee(self, piece: Piece, limit: Limit) -> None:
        """Has a piece settled that is likely to be dealt with this limit, unless it is already."""
        if (piece, limit) not in self._foreseen:
            at = self._foreseen[piece, limit] = next(self._foreseen_numbers)
            self._pool.submit(at, piece, limit)

    def forget_foreseen(self) -> None:
        """Drops what is foreseen: limits are others."""
        for at in self._foreseen.values():
            self._pool.drop(at)
        self._foreseen.clear()
        self._early.clear()

    @property
    def is_settled(self) -> bool:
        """Whether the first of them is settled."""
        return self.first in self._settled

    def wait(self, seconds: float) -> list[tuple[Piece, Settled]]:
        """Waits for so many seconds at most for some to be settled, or foreseen ones; which."""
        found = list[tuple[Piece, Settled]]()
        foreseen = {at: piece for (piece, _), at in self._foreseen.items()}
        for at, settled in self._pool.ready(seconds):
            number = self._number.pop(at, at)
            if number in self._out:
                self._settled[number] = settled
                found.append((self._out[number], settled))
            elif at in foreseen:
                self._early[at] = settled
                found.append((foreseen[at], settled))
        return found

    def take(self) -> tuple[Piece, Settled]:
        """Hands back the first of them, which is settled, and what came of it."""
        self._last = self.first
        return self._out.pop(self._last), self._settled.pop(self._last)

    def drop(self, hopeless: Callable[[Piece], bool]) -> list[Piece]:
        """Drops what is not handed back yet and nobody needs any more, and returns it."""
        found = [number for number, piece in self._out.items() if hopeless(piece)]
        for number in found:
            self._pool.drop(self._pool_number.get(number, number))
            self._settled.pop(number, None)
        return [self._dropped(number) for number in found]

    def forget(self) -> None:
        """Drops what is not handed back yet."""
        self._pool.forget()
        self._settled.clear()
        self._foreseen.clear()
        self._early.clear()
        for number in list(self._out):
            self._dropped(number)

    def _dropped(self, number: int) -> Piece:
        self.dealt[number] = self.dealt[number]._replace(dropped=self._last)
        return self._out.pop(number)


class Here(Generic[Piece, Settled]):
    """A pool of this thread alone."""

    def __init__(self, prover: Settles[Piece, Settled]) -> None:
        """Has nothing to do yet."""
        self._prover = prover
        self._waiting = Waiting[Piece]()
        self._bundle: deque[tuple[int, Piece, Limit]] = deque()
        self._work: tuple[int, Generator[None, None, Settled]] | None = None

    def submit(self, number: int, piece: Piece, limit: Limit) -> None:
        """See `Pool`."""
        self._waiting.add(number, piece, limit)

    def ready(self, seconds: float) -> Sequence[tuple[int, Settled]]:
        """See `Pool`."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if self._work is None:
                if not self._bundle:
                    self._bundle.extend(self._waiting.bundle(1))
                number, piece, limit = self._bundle.popleft()
                self._work = number, self._begin(number, piece, limit)
            number, work = self._work
            try:
                next(work)
            except StopIteration as done:
                self._work = None
                return [(number, done.value)]
        return []

    def _begin(self, number: int, piece: Piece, limit: Limit) -> Generator[None, None, Settled]:
        """Begins with a piece."""
        return self._prover.settle(piece, limit)

    def drop(self, number: int) -> None:
        """See `Pool`."""
        self._waiting.drop(number)
        self._bundle = deque(one for one in self._bundle if one[0] != number)

    def forget(self) -> None:
        """See `Pool`."""
        self._waiting.clear()
        self._bundle.clear()
        self._work = None
