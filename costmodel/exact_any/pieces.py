"""Pieces of a proof that workers settle by themselves: what they are, and how one is settled.

What comes of a piece is a function of the problem, the piece and the limit alone, so that it does
not matter who settles it, when, or how often.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from costmodel.exact_any.assignments import Assignments
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.tables import ChainTables
from costmodel.exact_any.tilings import Way
from costmodel.space import Codes

Limit = tuple[float, float]
"""Energy, pJ, and cycles of the mapping to beat."""

Bounds = tuple[float, int, int, int, float, int]
"""Of an assignment: energy, cycles, slowest, least, rate and chains, as in `Assignments`."""


class Piece(NamedTuple):
    """Assignments to bound, or the share of one assignment's tilings to search.

    group: which kept tensors and order; assignments: of these; bounds: what is known of each;
    part and parts: of one assignment's outermost choices of a tile those whose number leaves that
    remainder; parts 0: the assignments are to be bounded.
    """

    group: int
    assignments: tuple[int, ...]
    bounds: tuple[Bounds, ...]
    part: int = 0
    parts: int = 0


class Settled(NamedTuple):
    """What came of a piece.

    codes `[0 .. 1, D]` the best mapping below the limit; bounds: of its assignments; counts: what
    it took; seconds: of processor time.
    """

    codes: Codes
    bounds: tuple[Bounds, ...]
    counts: dict[str, int]
    seconds: float


class PieceProver(AnyProver):
    """Settles pieces of a proof, each as if it were the first."""

    def settle(self, piece: Piece, limit: Limit) -> Settled:
        """Bounds the piece's assignments or searches its tilings for what is below a limit."""
        started = time.thread_time()
        before = dict(self._counts)
        number, found = self._queue.groups[piece.group]
        one, mates = self._orders[number], np.array(piece.assignments)
        for a, bounds in zip(piece.assignments, piece.bounds, strict=True):
            write_bounds(found, a, bounds)
        self._known.start_below(limit)
        # Tables of other assignments could be shared, but what is found must not depend on them.
        tables = [ChainTables(one.shape, one.lattice.tiles(found.keeps), found.keeps)]
        if piece.parts:
            self._tilings.take_up(_others(len(tables[0].tiles.extent), piece.part, piece.parts))
            work = self._take_up(one, tables, found, piece.assignments[0])
        else:
            work = self._bound_all(one, tables, found, mates)
        for _ in work:
            pass
        counts = {name: number - before[name] for name, number in self._counts.items()}
        raised = tuple(read_bounds(found, a) for a in piece.assignments)
        return Settled(self._known.codes(1), raised, counts, time.thread_time() - started)


def _others(tiles: int, part: int, parts: int) -> Way:
    """A search that is through with the innermost level's tiles that are other parts'."""
    return ((-1, tuple(b for b in range(tiles) if b % parts != part)),)


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
