"""Tables behind a tiling space: the factorisations of one dimension and the moves between them.

A move takes one prime factor out of a loop and gives it to another loop of the same dimension. For
powers of two that is the paper's action set: one factor is doubled and another halved. Source:
Zhang et al., "Compiler-Level Matrix Multiplication Optimization for Deep Learning", 2019,
section 4.1.

Letters: R factorisations of the dimension, P loops, E edits (0 keeps, then one per move).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array, ordered_factorisations, prime_factors
from mapspace.errors import ConfigError

MoveTable = npt.NDArray[np.int32]

NONE = -1
MOST_LOOPS = 8
MOST_ROWS = 1 << 21
DISTANCES_AT_ONCE = 1 << 15


class Factorisations:
    """All ways to write one size as an ordered product, and the moves between them.

    Attributes:
        factors: `[R, P]` in lexicographic order.
        log2: `[R, P]` their logarithms.
        edits: `[R, E]` the row that an edit leads to, -1 where the loop lacks the prime. Edit 0
            keeps the row; then, per distinct prime, ascending, and per ordered pair of loops in
            lexicographic order: the prime moves from the first loop to the second.
        moves: `[R, E - 1]` the rows that a move leads to, in the order of the edits, -1 behind the
            last.
        degree: `[R]` how many those are.
    """

    def __init__(self, size: int, parts: int) -> None:
        """Lays out the tables.

        Args:
            size: of the dimension.
            parts: nested loops.

        Raises:
            ConfigError: there are too many factorisations to list.
        """
        exponents = Counter(prime_factors(size))
        rows = math.prod(math.comb(e + parts - 1, e) for e in exponents.values())
        if rows > MOST_ROWS:
            raise ConfigError(
                f"{size} over {parts} loops has {rows} tilings; a tiling space lists at most "
                f"{MOST_ROWS} per dimension."
            )
        self._size = size
        self.factors: Array = ordered_factorisations(size, parts)
        self.log2: npt.NDArray[np.float64] = np.log2(self.factors)
        self._divisors = np.unique(self.factors)
        self._keys = self._number(self.factors)
        targets = [np.arange(rows)]
        for prime in sorted(exponents):
            for source, target in itertools.permutations(range(parts), 2):
                possible = np.flatnonzero(self.factors[:, source] % prime == 0)
                moved = self.factors[possible].copy()
                moved[:, source] //= prime
                moved[:, target] *= prime
                targets.append(np.full(rows, NONE))
                targets[-1][possible] = self.find(moved)
        self.edits: MoveTable = np.stack(targets, axis=1).astype(np.int32)
        absent = self.edits[:, 1:] == NONE
        in_front = np.argsort(absent, axis=1, kind="stable")
        self.moves: MoveTable = np.take_along_axis(self.edits[:, 1:], in_front, axis=1)
        self.degree: Array = (~absent).sum(axis=1)

    def __len__(self) -> int:
        return len(self.factors)

    def find(self, factors: Array) -> Array:
        """Rows `[B]` of factorisations `[B, P]` of this size."""
        rows: Array = np.searchsorted(self._keys, self._number(factors))
        return rows

    def nearest(self, log2: npt.NDArray[np.float64]) -> Array:
        """Rows `[B]` whose logarithms are nearest to those given, `[B, P]`; the first of equals."""
        rows = np.empty(len(log2), np.int64)
        batch = max(1, DISTANCES_AT_ONCE // len(self))
        for start in range(0, len(log2), batch):
            part = log2[start : start + batch]
            distance = np.zeros((len(part), len(self)))
            for column in range(part.shape[1]):
                distance += (part[:, column, None] - self.log2[:, column]) ** 2
            rows[start : start + batch] = distance.argmin(axis=1)
        return rows

    def _number(self, factors: Array) -> Array:
        """`[B]` one number per row, in lexicographic order; the last factor follows from others."""
        numbers = np.zeros(len(factors), np.int64)
        for column in range(factors.shape[1] - 1):
            digit = np.searchsorted(self._divisors, factors[:, column])
            numbers = numbers * len(self._divisors) + digit
        return numbers
