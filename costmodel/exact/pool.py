"""Who settles the pieces of a proof that is shared out: a pool, here or elsewhere.

What comes of a piece is a function of the problem, the piece and the limit alone, so that it does
not matter who settles it, when, or how often.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Sequence
from typing import Generic, Protocol, TypeVar

Limit = tuple[float, float]
"""Energy and cycles of the mapping to beat, in the units of the prover."""

Piece = TypeVar("Piece")
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

    def forget(self) -> None:
        """Drops what nobody has begun with; of the rest something may still come."""
        ...


class Here(Generic[Piece, Settled]):
    """A pool of this thread alone: the first piece that came is settled first."""

    def __init__(self, prover: Settles[Piece, Settled]) -> None:
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

    def forget(self) -> None:
        """See `Pool`."""
        self._waiting.clear()
        self._work = None
