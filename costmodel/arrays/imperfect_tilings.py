"""Factorisations with remainders: which there are in a space, and the extents of their blocks.

A row of factors f_1, ..., f_S, outermost first, stands for loops over a size N: the blocks of a
slot have f_(s+1) * ... * f_S iterations, and the digits of N - 1 in this mixed radix are the last
indices that are reached, so that remainders need no memory of their own. The outermost loop runs as
often as it must and no oftener: its factor is N over its block, rounded up.

Letters: S slots.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]

MOST_ROWS = 1 << 16
"""Factorisations of a dimension; beyond, those with the fewest idle iterations are listed."""
IDLE_SHARE = 0.5
"""A factorisation with a larger share of idle iterations, of those with work, is not listed."""
SMALL_PRIMES = (2, 3, 5, 7)
"""Moves of an imperfect space multiply and divide factors by these, and by a size's own primes."""


def last_passes(size: int, factors: Array) -> Array:
    """How often loops run in the last pass over a size, of factors `[rows, S]`: digits and 1."""
    block = np.ones_like(factors)
    block[:, :-1] = np.cumprod(factors[:, :0:-1], axis=1)[:, ::-1]
    rests: Array = (size - 1) // block % factors + 1
    return rests


def block_extents(factors: Array, rests: Array) -> tuple[Array, Array]:
    """Extents `[rows, S + 1]` of blocks from a slot inwards: the largest seen, and the last."""
    rows, slots = factors.shape
    full = np.ones((rows, slots + 1), dtype=np.int64)
    last = np.ones((rows, slots + 1), dtype=np.int64)
    full[:, :-1] = np.cumprod(factors[:, ::-1], axis=1)[:, ::-1]
    for slot in range(slots - 1, -1, -1):
        last[:, slot] = last[:, slot + 1] + full[:, slot + 1] * (rests[:, slot] - 1)
    # A block is seen whole once a loop outside it runs twice.
    alone = np.ones((rows, slots + 1), dtype=bool)
    alone[:, 1:] = np.cumsum(rests > 1, axis=1) == 0
    return np.where(alone, last, full), last


def outermost_as_needed(size: int, factors: Array) -> Array:
    """Rows `[rows, S]` of products of at least `size`, outermost loops made as short as can be."""
    rows = factors.copy()
    block = np.ones_like(factors)
    block[:, :-1] = np.cumprod(factors[:, :0:-1], axis=1)[:, ::-1]
    leading = np.ones(len(rows), dtype=bool)
    for slot in range(factors.shape[1]):
        needed = -(-size // block[:, slot])
        rows[leading, slot] = needed[leading]  # never more than before but in slot 0
        leading &= rows[:, slot] == 1
    return rows


def moving_primes(size: int, primes: list[int], *, imperfect: bool) -> list[int]:
    """Primes by which moves change the factors of a size, given its own."""
    if not imperfect:
        return primes
    small = [prime for prime in SMALL_PRIMES if prime < size]
    return sorted({*primes, *small})
