"""One proof shared out over workers: what it ends with is the same for any number of them.

Pieces stand in a fixed order. The limit of a piece is the best mapping of all pieces at least
WINDOW before it, merged in order, so that nothing depends on which one is settled first (the
lemma of shares, docs/inside/proof-any-levels.md).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence

import numpy as np

from costmodel.costs import Objective
from costmodel.exact.progress import Earlier
from costmodel.exact_any.pieces import (
    Limit,
    Piece,
    Pool,
    Settled,
    read_bounds,
    write_bounds,
)
from costmodel.exact_any.prover import STEP_SECONDS, AnyProver
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ConfigError

WINDOW = 128
"""How many pieces may be in work beside each other; more workers than that would idle."""

PARTS_WINDOW = 8192
"""Likewise of parts, of which most take milliseconds beside few that take seconds."""

LEAST_PARTS, PARTS, MOST_PARTS = 16, 2048, 512
"""Into so many an assignment is split at least, all together if that is more, and one at most."""

FEW = 8
"""Where no more assignments are to be searched all are split at once: to try them takes longer."""

FIRST_PIECES = 32
"""Where fewer lists of assignments share outer tables they are split, and build tables again."""


class SharedProver(AnyProver):
    """The proof of `AnyProver`, shared out.

    Attributes:
        lengths: processor seconds of the pieces settled, in their order, of every round.
        windows: the window of every round.
    """

    def __init__(
        self,
        space: MapSpace,
        pool: Pool,
        *,
        objective: Objective = "edp",
        keep: Mapping[str, Sequence[str]] | None = None,
        build: bool = True,
    ) -> None:
        """Notes what is to be proven, as `AnyProver` does.

        Args:
            space: as there.
            pool: settles pieces, of a `PieceProver` with the same arguments.
            objective: as there.
            keep: as there.
            build: as there.

        Raises:
            ConfigError: as there.
        """
        self.lengths: list[list[float]] = []
        self.windows: list[int] = []
        self._pool = pool
        self._dealt = False
        super().__init__(space, objective=objective, keep=keep, build=build)

    def offer(self, codes: Codes) -> None:
        """Takes mappings as `AnyProver` does, before pieces are dealt; later ones are passed.

        When they came would decide what pieces find.
        """
        if not self._dealt:
            super().offer(codes)

    def resume(self, earlier: Earlier) -> None:
        """Raises ConfigError: a shared proof begins anew."""
        raise ConfigError("workers: a proof that goes on from a certificate is not shared out.")

    def progress(self) -> None:
        """None: nothing is recorded that another proof could go on from."""
        return

    def _prove(self) -> Iterator[None]:
        listing = super()._prove()
        while not self._built:
            next(listing)
            yield
        self._dealt = True
        yield from self._deal(self._to_bound())
        long = self._to_search()
        if len(long) > FEW:
            long = yield from self._deal(long)
        while long:
            long = yield from self._deal(_split(long), PARTS_WINDOW)

    def _limit(self) -> Limit:
        return self._known.best or (math.inf, math.inf)

    def _sorted(self, pieces: list[Piece]) -> list[Piece]:
        """By rising bound; in the order listed where bounds are equal."""
        return sorted(pieces, key=lambda piece: self._known.order(*self._floor(piece)))

    def _to_bound(self) -> list[Piece]:
        """The assignments that could win: those together that share outer tables."""
        shared: dict[tuple[int, bytes], list[int]] = {}
        for group, (number, found) in enumerate(self._queue.groups):
            several = [len(rows) > 1 for rows in self._orders[number].spreads.vectors]
            # They differ in what the innermost fan-out spreads alone.
            last = max((level for level, some in enumerate(several) if some), default=0)
            for a in range(len(found.energy)):
                if self._known.beats(float(found.energy[a]), int(found.cycles[a])):
                    shared.setdefault((group, found.choice[a, :last].tobytes()), []).append(a)
        most = max(map(len, shared.values()), default=1)
        if len(shared) < FIRST_PIECES:
            most = -(-sum(map(len, shared.values())) // FIRST_PIECES)
        pieces = []
        for (group, _), together in shared.items():
            found = self._queue.groups[group][1]
            for begin in range(0, len(together), most):
                mates = tuple(together[begin : begin + most])
                pieces.append(Piece(group, mates, tuple(read_bounds(found, a) for a in mates)))
        return self._sorted(pieces)

    def _to_search(self) -> list[Piece]:
        """The assignments that could win by what bounds them."""
        return self._sorted(
            [
                Piece(group, (a,), (read_bounds(rows, a),), 0, 1)
                for group, (_, rows) in enumerate(self._queue.groups)
                for a in np.flatnonzero(rows.chains > 0).tolist()
                if self._known.beats(float(rows.energy[a]), int(rows.cycles[a]))
            ]
        )

    def _deal(
        self, pieces: list[Piece], window: int | None = None
    ) -> Generator[None, None, list[Piece]]:
        """Has pieces settled, and merges what comes of them in their order.

        Args:
            pieces: in the order of their numbers.
            window: how far before a piece those are that set its limit; None: WINDOW.

        Returns:
            Those that are to be split.
        """
        self.lengths.append([])
        window = window or WINDOW
        self.windows.append(window)
        limits, out, dealt = [self._limit()] * window, set[int](), 0
        settled: dict[int, Settled] = {}
        long: list[Piece] = []
        # Below neither what is left nor what was bounded but now is nothing.
        low = (math.inf, math.inf)
        for merged, piece in enumerate(pieces):
            self._bound = min(low, self._floor(piece), key=lambda one: self._known.order(*one))
            while dealt < min(len(pieces), merged + window):
                if self._able(pieces[dealt], limits[dealt]):
                    self._pool.submit(dealt, pieces[dealt], limits[dealt])
                    out.add(dealt)
                dealt += 1
            while merged in out:
                for number, done in self._pool.ready(STEP_SECONDS):
                    settled[number] = done
                    out.discard(number)
                yield
            if merged in settled:
                left = self._merge(piece, done := settled.pop(merged))
                low = min(low, left, key=lambda one: self._known.order(*one))
                if done.left is not None:
                    long.append(piece._replace(begun=done.left))
            limits.append(self._limit())
        return long

    def _merge(self, piece: Piece, done: Settled) -> Limit:
        """Takes over what came of a piece; returns what bounds that of it which is not settled."""
        self._known.take(done.codes)
        self.lengths[-1].append(done.seconds)
        for name, number in done.counts.items():
            self._counts[name] += number
        if piece.parts:
            return (math.inf, math.inf) if done.left is None else self._floor(piece)
        found = self._queue.groups[piece.group][1]
        for a, bounds in zip(piece.assignments, done.bounds, strict=True):
            write_bounds(found, a, bounds)
        return self._floor(piece._replace(bounds=done.bounds))

    def _floor(self, piece: Piece) -> Limit:
        """What bounds a piece."""
        return min((one[:2] for one in piece.bounds), key=lambda one: self._known.order(*one))

    def _able(self, piece: Piece, limit: Limit) -> bool:
        """Whether a piece could hold what is below a limit."""
        gate = self._nothing_known()
        gate.start_below(limit)
        return any(gate.beats(energy, cycles) for energy, cycles, *_ in piece.bounds)


def _split(pieces: list[Piece]) -> list[Piece]:
    """Parts of pieces, which together are these."""
    factor = min(MOST_PARTS, max(LEAST_PARTS, -(-PARTS // len(pieces))))
    return [
        one._replace(part=one.part + again * one.parts, parts=factor * one.parts)
        for one in pieces
        for again in range(factor)
    ]
