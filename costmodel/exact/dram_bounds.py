"""The least cost of everything above the shared buffer, for every tile at once.

Whatever the loops below, the words that enter the shared buffer's tile b cost at least f(b), and a
mapping whose element tiles step over s has a tile that is a multiple of s: it pays at least the
minimum of f over the multiples of s. That minimum is what the tables hold.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costmodel.compiled import lean
from costmodel.exact.access_energy import fits, outer_charge
from costmodel.exact.objective import INFINITE
from costmodel.exact.problem import BUFFER, ProofTables
from costmodel.exact.structures import OuterTables
from costmodel.exact.traffic_bounds import bound_entering, fill_credit_tables, look_up_credits
from costmodel.exact.workspace import Work, make_work

# Pairs of cells, cells and keep sets that one piece of the work takes: about five milliseconds.
CREDIT_PAIRS = 20_000
TILE_CELLS = 10_000
LEAST_CELLS = 200_000


def empty_outer_tables(tables: ProofTables) -> OuterTables:
    """The tables before `fill_outer_tables`: only that sets what they hold, piece by piece."""
    kinds = 1 + np.diff(tables.term_start)
    cells = int((kinds * tables.credit_cells).sum())
    sets = tables.outer_sets.size
    return OuterTables(
        loose=np.ones(cells, np.int64),
        outer=np.ones(cells, np.int64),
        energy=np.empty((sets, tables.cells), np.int64),
        words=np.empty((sets, tables.cells if tables.limited else 0), np.int64),
    )


def fill_outer_tables(tables: ProofTables, outer: OuterTables) -> Iterator[float]:
    """Fills the credit tables and the tables of least outer cost.

    Yields:
        After every piece, how large it was: 1 is about five milliseconds.
    """
    work = make_work(tables)
    for axis in np.flatnonzero(tables.credit_start >= 0).tolist():
        cells = int(tables.credit_cells[axis])
        for first, last in _pieces(cells, CREDIT_PAIRS // cells):
            fill_credit_tables(tables, outer, work, axis, first, last)
            yield (last - first) * cells / CREDIT_PAIRS
    sets = tables.outer_sets.size
    for first, last in _pieces(tables.cells, TILE_CELLS // sets):
        outer.energy[:, first:last] = INFINITE
        outer.words[:, first:last] = INFINITE
        _fill_tiles(tables, outer, work, first, last)
        yield (last - first) * sets / TILE_CELLS
    for d in range(tables.sizes.size):
        for first, last in _pieces(tables.cells, LEAST_CELLS // sets):
            # Descending: a multiple of a tile comes before it.
            _take_least(tables, outer, d, tables.cells - last, tables.cells - first)
            yield (last - first) * sets / LEAST_CELLS


def _pieces(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Begins and ends of parts of 0..count-1."""
    for begin in range(0, count, max(1, size)):
        yield begin, min(count, begin + max(1, size))


@lean
def _fill_tiles(
    tables: ProofTables,
    outer: OuterTables,
    work: Work,
    first: int,
    last: int,
) -> None:
    """Fills the cost of some tiles alone: the least over the innermost loops above each."""
    n = tables.sizes.size
    for t in range(tables.sliding.size):
        work.bounds.held[t] = 1
    for cell in range(first, last):
        rest = cell
        alone = True
        for d in range(n):
            at = rest // tables.stride[d]
            rest -= at * tables.stride[d]
            work.buffer.at[d] = at
            work.buffer.extent[d] = tables.divisors[tables.divisor_start[d] + at]
            work.buffer.trips[d] = tables.sizes[d] // work.buffer.extent[d]
            alone &= work.buffer.trips[d] == 1
        bounded = False
        for k in range(tables.outer_sets.size):
            kept = tables.outer_sets[k]
            if not fits(tables, BUFFER, kept, work.buffer.extent):
                continue
            if not bounded:
                look_up_credits(tables, outer.outer, work.buffer.at, work.bounds.credit)
                bound_entering(
                    tables, work.bounds, work.buffer.extent, work.buffer.extent, work.buffer.trips,
                    work.bounds.outer,
                )  # fmt: skip
                bounded = True
            for h in range(n + 1):
                if (h < n and work.buffer.trips[h] == 1) or (h == n and not alone):
                    continue
                energy = 0
                words = 0
                for t in range(tables.sliding.size):
                    if (kept >> t) & 1:
                        energy += outer_charge(tables, t) * work.bounds.outer[h, t]
                        words += work.bounds.outer[h, t]
                outer.energy[k, cell] = min(outer.energy[k, cell], energy)
                if tables.limited:
                    outer.words[k, cell] = min(outer.words[k, cell], words)


@lean
def _take_least(
    tables: ProofTables,
    outer: OuterTables,
    d: int,
    first: int,
    last: int,
) -> None:
    """Turns the cost of some tiles into the least over their multiples in one dimension."""
    own = tables.divisor_start[d + 1] - tables.divisor_start[d]
    stride = tables.stride[d]
    for cell in range(last - 1, first - 1, -1):
        at = tables.divisor_start[d] + cell // stride % own
        for c in range(tables.cover_start[at], tables.cover_start[at + 1]):
            wider = cell + (tables.covers[c] - cell // stride % own) * stride
            for k in range(tables.outer_sets.size):
                outer.energy[k, cell] = min(outer.energy[k, cell], outer.energy[k, wider])
                if tables.limited:
                    outer.words[k, cell] = min(outer.words[k, cell], outer.words[k, wider])
