"""Compiled: the tiles of the mapping in hand, whether they fit, and what makes them grow.

Letters as in `searchers.compiled.structured_moves`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import NestTables
from costmodel.compiled import part
from costmodel.space import Codes
from searchers.compiled.random_numbers import below
from searchers.compiled.structured_state import Choices, Workspace


@part
def _axis_extent(tables: NestTables, work: Workspace, level: int, axis: int) -> int:
    """Extent of a level's tile along an axis of a tensor."""
    extent = 1
    for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
        inside = work.extents[level, tables.term_dimension[k]]
        extent += tables.term_coefficient[k] * (inside - 1)
    return extent


@part
def level_fits(
    tables: NestTables, work: Workspace, level: int, words: npt.NDArray[np.int64]
) -> bool:
    """Whether a level holds tiles of words `[L, T]`; in banks, whether some allocation does."""
    if tables.capacity[level] < 0:
        return True
    used = 0
    bank = tables.bank_words[level]
    if bank == 0:
        for t in range(words.shape[1]):
            if work.kept[level, t]:
                used += words[level, t] * tables.machine.room[level, t]
        return used <= tables.capacity[level]
    banks = 0
    for t in range(words.shape[1]):
        banks += tables.allocations[tables.allocation_start[level], t]
        room = words[level, t] * tables.machine.room[level, t]
        used += max(1, (room + bank - 1) // bank) if work.kept[level, t] else 1
    return used <= banks


@part
def all_fit(tables: NestTables, work: Workspace) -> bool:
    """Whether every level below the outermost holds its tiles."""
    for level in range(1, work.words.shape[0]):
        if not level_fits(tables, work, level, work.words):
            return False
    return True


@part
def measure(tables: NestTables, work: Workspace) -> None:
    """Extents and words of all tiles below the outermost level, from the factors."""
    levels = work.extents.shape[0]
    for d in range(work.factors.shape[0]):
        extent = 1
        level = levels - 1
        for s in range(work.factors.shape[1] - 1, tables.temporal_slot[0], -1):
            extent *= work.factors[d, s]
            if s == tables.temporal_slot[level]:
                work.extents[level, d] = extent
                level -= 1
    for level in range(1, levels):
        for t in range(work.words.shape[1]):
            words = 1
            for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
                words *= _axis_extent(tables, work, level, axis)
            work.words[level, t] = words


@part
def shift(work: Workspace, pair: int, source: int, target: int, listed: Choices) -> None:
    """Moves the prime of a pair from one slot to another."""
    d = listed.dimension[pair]
    work.factors[d, source] //= listed.prime[pair]
    work.factors[d, target] *= listed.prime[pair]


@part
def grow(
    tables: NestTables, listed: Choices, work: Workspace, source: int, level: int, pair: int
) -> bool:
    """Moves a prime from level `source` to `level`, further in, if all tiles still fit."""
    d = listed.dimension[pair]
    prime = listed.prime[pair]
    fits = True
    reached = level
    # The innermost level first: it is the one that fills up.
    while fits and reached > source:
        small = work.extents[reached, d]
        for t in range(work.words.shape[1]):
            words = work.words[reached, t]
            if tables.relevant[t, d]:
                axis = tables.axis_start[t] + tables.axis_of[t, d]
                extent = _axis_extent(tables, work, reached, axis)
                added = tables.coefficient_of[t, d] * small * (prime - 1)
                words = words // extent * (extent + added)
            work.grown[reached, t] = words
        fits = level_fits(tables, work, reached, work.grown)
        reached -= 1
    if not fits:
        return False
    for further in range(source + 1, level + 1):
        work.extents[further, d] *= prime
        for t in range(work.words.shape[1]):
            work.words[further, t] = work.grown[further, t]
    shift(work, pair, tables.temporal_slot[source], tables.temporal_slot[level], listed)
    return True


@part
def _allocation_holds(tables: NestTables, work: Workspace, level: int, row: int) -> bool:
    """Whether an allocation holds every tile that is kept, and no tile that is to overflow."""
    bank = tables.bank_words[level]
    for t in range(work.words.shape[1]):
        room = work.words[level, t] * tables.machine.room[level, t]
        holds = room <= tables.allocations[row, t] * bank
        if work.kept[level, t] and not holds:
            return False
        if tables.bypass_on_overflow and holds and not work.kept[level, t]:
            return False
    return True


@part
def allocate(tables: NestTables, work: Workspace, level: int, code: Codes) -> None:
    """Chooses at random among the bank allocations that hold the tiles; the old one if it does."""
    column = tables.banks_column[level]
    first = tables.allocation_start[level]
    if _allocation_holds(tables, work, level, first + code[column]):
        return
    count = 0
    for row in range(first, tables.allocation_start[level + 1]):
        if _allocation_holds(tables, work, level, row):
            count += 1
            if below(work.stream, count) == 0:
                code[column] = row - first
