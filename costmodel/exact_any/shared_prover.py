"""One proof shared out over processes: what it ends with is the same for any number of them.

Pieces stand in a fixed order. The limit of a piece is the best mapping of all pieces at least
WINDOW before it, merged in order, so that nothing depends on which one is settled first (the
lemma of shares, docs/inside/proof-any-levels.md). A worker that dies loses only its piece.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

import numpy as np

from costmodel.costs import Objective
from costmodel.exact.progress import Earlier
from costmodel.exact_any.pieces import (
    Limit,
    Piece,
    PieceProver,
    Settled,
    read_bounds,
    write_bounds,
)
from costmodel.exact_any.prover import STEP_SECONDS, AnyProver
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ArgumentError, ConfigError, DataError

WINDOW = 128
"""How many pieces may be in work beside each other; more workers than that would idle."""

PIECES = 128
"""Where fewer assignments are to be searched each is split, into MOST_PARTS at most."""

MOST_PARTS = 16

MOST_MATES = 8
"""How many assignments one piece bounds; they share outer tables, others build them again."""

MOST_DEATHS = 5
"""Deaths in a row without a piece settled in between after which it is the piece that kills."""

_workers: list[PieceProver] = []


def _begin(space: MapSpace, objective: Objective, keep: Mapping[str, Sequence[str]] | None) -> None:
    _workers[:] = [PieceProver(space, objective=objective, keep=keep)]


def _settle(piece: Piece, limit: Limit) -> Settled:
    return _workers[0].settle(piece, limit)


class SharedProver(AnyProver):
    """The proof of `AnyProver`, shared out.

    Attributes:
        workers: how many processes work; with one it is this process.
        lengths: processor seconds of the pieces settled, in their order: of those that bound
            assignments, then of those that search tilings.
    """

    def __init__(
        self,
        space: MapSpace,
        *,
        workers: int,
        objective: Objective = "edp",
        keep: Mapping[str, Sequence[str]] | None = None,
        build: bool = True,
    ) -> None:
        """Notes what is to be proven, as `AnyProver` does.

        Args:
            space: as there.
            workers: how many processes work.
            objective: as there.
            keep: as there.
            build: as there.

        Raises:
            ConfigError: as there, or fewer than one worker or more than WINDOW.
        """
        if not 1 <= workers <= WINDOW:
            raise ArgumentError("workers", f": expected 1 to {WINDOW}, got {workers}.")
        self.workers = workers
        self.lengths: list[list[float]] = []
        self._pool: Executor | None = None
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

    def close(self) -> None:
        """Ends the workers; what they have in work is lost."""
        if self._pool is not None:
            # Shutting down alone would wait for what is in work.
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _start(self) -> Executor:
        """New workers."""
        self.close()
        given = self.space, self.objective, self.keep
        if self.workers == 1:
            self._pool = ThreadPoolExecutor(1, initializer=_begin, initargs=given)
        else:
            # Forked processes would inherit locks of compiled code.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self.workers, mp_context=context, initializer=_begin, initargs=given
            )
        return self._pool

    def _prove(self) -> Iterator[None]:
        yield from self._list()
        self._dealt = True
        try:
            yield from self._deal(self._to_bound())
            yield from self._deal(self._to_search())
        finally:
            self.close()

    def _limit(self) -> Limit:
        return self._known.best or (math.inf, math.inf)

    def _to_bound(self) -> list[Piece]:
        """The assignments that could win: those together that share outer tables."""
        pieces = []
        for group, (number, found) in enumerate(self._queue.groups):
            several = [len(rows) > 1 for rows in self._orders[number].spreads.vectors]
            # They differ in what the innermost fan-out spreads alone.
            last = max((level for level, some in enumerate(several) if some), default=0)
            shared: dict[bytes, list[int]] = {}
            for a in range(len(found.energy)):
                if self._known.beats(float(found.energy[a]), int(found.cycles[a])):
                    shared.setdefault(found.choice[a, :last].tobytes(), []).append(a)
            for together in shared.values():
                for begin in range(0, len(together), MOST_MATES):
                    mates = tuple(together[begin : begin + MOST_MATES])
                    bounds = tuple(read_bounds(found, a) for a in mates)
                    pieces.append(Piece(group, mates, bounds))
        return sorted(pieces, key=lambda piece: self._known.order(*self._floor(piece)))

    def _to_search(self) -> list[Piece]:
        """The assignments that could win by what bounds them, in parts if they are few."""
        found = [
            Piece(group, (a,), (read_bounds(rows, a),), 0, 1)
            for group, (_, rows) in enumerate(self._queue.groups)
            for a in np.flatnonzero(rows.chains > 0).tolist()
            if self._known.beats(float(rows.energy[a]), int(rows.cycles[a]))
        ]
        parts = min(MOST_PARTS, -(-PIECES // max(1, len(found))))
        found.sort(key=lambda piece: self._known.order(*self._floor(piece)))
        return [one._replace(part=part, parts=parts) for one in found for part in range(parts)]

    def _deal(self, pieces: list[Piece]) -> Iterator[None]:
        """Has pieces settled, and merges what comes of them in their order."""
        self.lengths.append([])
        deaths = 0
        limits, running, dealt = [self._limit()] * WINDOW, dict[int, Future[Settled]](), 0
        # Below neither what is left nor what was bounded but now is nothing.
        low = (math.inf, math.inf)
        for merged, piece in enumerate(pieces):
            self._bound = min(low, self._floor(piece), key=lambda one: self._known.order(*one))
            while dealt < min(len(pieces), merged + WINDOW):
                if self._able(pieces[dealt], limits[dealt]):
                    running[dealt] = self._submit(pieces[dealt], limits[dealt])
                dealt += 1
            while merged in running:
                wait([running[merged]], timeout=STEP_SECONDS)
                if not running[merged].done():
                    yield
                    continue
                try:
                    done = running[merged].result()
                except BrokenProcessPool:
                    deaths += 1
                    if deaths == MOST_DEATHS:
                        raise DataError(f"workers: {deaths} died over one piece.") from None
                    self._start()
                    again = {i for i, one in running.items() if not _is_settled(one)}
                    running |= {i: self._submit(pieces[i], limits[i]) for i in again}
                    continue
                deaths = 0
                del running[merged]
                low = self._merge(piece, done, low)
            limits.append(self._limit())
        yield

    def _submit(self, piece: Piece, limit: Limit) -> Future[Settled]:
        """Gives a piece to the workers; if they are dead, what comes of it says so."""
        pool = self._pool or self._start()
        try:
            return pool.submit(_settle, piece, limit)
        except BrokenProcessPool as error:
            lost: Future[Settled] = Future()
            lost.set_exception(error)
            return lost

    def _merge(self, piece: Piece, done: Settled, low: Limit) -> Limit:
        """Takes over what came of a piece; returns what bounds all that was bounded so far."""
        self._known.take(done.codes)
        self.lengths[-1].append(done.seconds)
        for name, number in done.counts.items():
            self._counts[name] += number
        found = self._queue.groups[piece.group][1]
        if piece.parts:
            return low
        for a, bounds in zip(piece.assignments, done.bounds, strict=True):
            write_bounds(found, a, bounds)
            low = min(low, bounds[:2], key=lambda one: self._known.order(*one))
        return low

    def _floor(self, piece: Piece) -> Limit:
        """What bounds a piece."""
        return min((one[:2] for one in piece.bounds), key=lambda one: self._known.order(*one))

    def _able(self, piece: Piece, limit: Limit) -> bool:
        """Whether a piece could hold what is below a limit."""
        gate = self._nothing_known()
        gate.start_below(limit)
        return any(gate.beats(energy, cycles) for energy, cycles, *_ in piece.bounds)


def _is_settled(one: Future[Settled]) -> bool:
    return one.done() and not one.cancelled() and one.exception() is None
