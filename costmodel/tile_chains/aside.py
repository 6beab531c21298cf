"""Tables of the outermost levels, put aside until somebody asks for the same ones again.

What stands outside all fan-outs depends on what these levels keep and on the prices of words that
enter them: a few tables, which hundreds of sets of kept tensors read in turns. Filling them anew
takes several times as long as to copy what is in them.

Letters: F tiles, R of these that have points, T tensors, L levels, H points of a hull.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.compiled import lean
from costmodel.tile_chains.chain_arrays import Chain
from costmodel.tile_chains.entering import Around
from costmodel.tile_chains.tiles import FloatArray

MOST_BYTES = 192 * 2**20
"""So much is put aside of the tables of a lattice, by all price lists together."""

LOOSER = 0.25
"""Tables that are put aside have limits higher by this share, to serve other assignments too."""


STEPS = 4
"""Limits of tables that everybody fills alike rise in so many steps per octave."""


class Half(NamedTuple):
    """What tables say of the slots or the boundaries of some levels.

    free `[F]` the least cost; row `[F]` where the points of a tile stand, -1 if it has none; n
    `[R, T]` how many these are of each tensor, one row after another, each one of values.
    """

    free: FloatArray
    row: npt.NDArray[np.int32]
    n: npt.NDArray[np.int8]
    values: FloatArray


class Outermost(NamedTuple):
    """What tables say of some levels; around: the assignment that they were filled for."""

    around: Around
    slots: Half
    boundaries: Half

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(array.nbytes for array in (*self.slots, *self.boundaries))


def stepped(limit: FloatArray) -> FloatArray:
    """Limits `[l]`, those above nothing raised to the next quarter of an octave."""
    raised = limit.copy()
    some = np.isfinite(limit) & (limit > 0)
    raised[some] = 2 ** (np.ceil(np.log2(limit[some]) * STEPS) / STEPS)
    return np.maximum(raised, limit)


class Aside:
    """Tables of some outermost levels, the ones used last.

    Attributes:
        first: the outermost of these levels.
        levels: the first further in.
        exact: whether they serve at their own limits alone, which are `stepped`: then it makes no
            difference whether they are there.
    """

    def __init__(self, levels: int, *, exact: bool = False, most: int = MOST_BYTES) -> None:
        """Has none.

        Args:
            levels: how many levels stand outside all fan-outs, whatever is spread.
            exact: whether they serve at their own limits alone, the outermost level among them.
            most: bytes that all of them may take.
        """
        self.first, self.levels, self.exact = int(not exact), levels, exact
        self._most = most
        self._held: dict[bytes, Outermost] = {}
        self._bytes = 0

    def key(self, keeps: tuple[int, ...], around: Around) -> bytes:
        """Which tables those of kept tensors `[L]`, as bits, for an assignment are."""
        limit = around.limit[1 : self.levels] if self.exact else around.limit[:0]
        weight = around.weight[: self.levels]
        return bytes(keeps[: self.levels]) + weight.tobytes() + limit.tobytes()

    def put(self, key: bytes, around: Around, chain: Chain, rows: slice) -> None:
        """Copies the tables of the tiles in rows; those used longest ago make room."""
        self._drop(key)
        found = Outermost(around, *(_copy(its, rows) for its in _halves(chain)))
        self._held[key] = found
        self._bytes += found.size
        while self._bytes > self._most:
            self._drop(next(iter(self._held)))

    def get(self, key: bytes) -> Outermost | None:
        """Tables that were put aside, None where there are none."""
        found = self._held.pop(key, None)
        if found is not None:
            self._held[key] = found
        return found

    def _drop(self, key: bytes) -> None:
        found = self._held.pop(key, None)
        self._bytes -= 0 if found is None else found.size


def bring_back(found: Outermost, chain: Chain, rows: slice) -> None:
    """Copies tables that were put aside to the tiles in rows, of which there are as many."""
    for half, (free, row, *points) in zip(found[1:], _halves(chain), strict=True):
        free[rows] = half.free
        row[rows] = np.where(half.row < 0, free.size, half.row)
        _spread(half.n, half.values, half.row[half.row >= 0], *points)


def _halves(chain: Chain) -> list[tuple[Any, ...]]:
    """Of slots and boundaries the least costs, rows, counts and points."""
    return [
        (chain.slot_free, chain.slot_row, chain.slot_n, chain.slot_u, chain.slot_c),
        (chain.free, chain.row, chain.hull_n, chain.hull_u, chain.hull_c),
    ]


def _copy(half: tuple[Any, ...], rows: slice) -> Half:
    free, row, n, u, c = half
    # The last row is that of all tiles without points.
    its = np.where(row[rows] == free.size, -1, row[rows]).astype(np.int32)
    used = its[its >= 0]
    counts = n[used]
    values = np.empty((int(counts.sum()), 2))
    _collect(counts, used, u, c, values)
    return Half(free[rows].copy(), its, counts, values)


@lean
def _collect(
    n: npt.NDArray[np.int8],
    used: npt.NDArray[np.int32],
    u: FloatArray,
    c: FloatArray,
    values: FloatArray,
) -> None:
    """Writes down the points of the used rows of hulls `[T, H, R]`, one after another."""
    at = 0
    for k in range(used.size):
        for t in range(n.shape[1]):
            for h in range(n[k, t]):
                values[at, 0], values[at, 1] = u[t, h, used[k]], c[t, h, used[k]]
                at += 1


@lean
def _spread(
    n: npt.NDArray[np.int8],
    values: FloatArray,
    used: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int8],
    u: FloatArray,
    c: FloatArray,
) -> None:
    """Writes points to the rows of hulls `[T, H, R]` that they are of."""
    at = 0
    for k in range(used.size):
        for t in range(n.shape[1]):
            counts[used[k], t] = n[k, t]
            for h in range(n[k, t]):
                u[t, h, used[k]], c[t, h, used[k]] = values[at, 0], values[at, 1]
                at += 1
