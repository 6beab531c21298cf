"""The least cost of everything above the shared buffer, for every tile at once.

Whatever the loops below, the words that enter the shared buffer's tile b cost at least f(b), and a
mapping whose element tiles step over s has a tile that is a multiple of s: it pays at least the
minimum of f over the multiples of s. That minimum is what the tables hold.
"""

from __future__ import annotations

import numpy as np

from costmodel.compiled import lean
from costmodel.exact.charges import fits, outer_charge
from costmodel.exact.objective import INFINITE
from costmodel.exact.state import OuterTables, Work, make_work
from costmodel.exact.tables import BUFFER, ProofTables
from costmodel.exact.traffic import bound_entering, fill_credit_tables, look_up_credits


def build_outer_tables(tables: ProofTables) -> OuterTables:
    """Builds the credit tables and the tables of least outer cost."""
    kinds = 1 + np.diff(tables.term_start)
    cells = int((kinds * tables.credit_cells).sum())
    sets = tables.outer_sets.size
    outer = OuterTables(
        loose=np.ones(cells, np.int64),
        outer=np.ones(cells, np.int64),
        energy=np.full((sets, tables.cells), INFINITE),
        words=np.full((sets, tables.cells if tables.limited else 0), INFINITE),
    )
    work = make_work(tables)
    fill_credit_tables(
        tables, outer.loose, outer.outer, work.extent, work.middle, work.middle_at,
        work.axis_step, work.axis_trip, work.axis_inner, work.axis_least,
    )  # fmt: skip
    _fill_tiles(tables, outer, work)
    _take_least(tables, outer)
    return outer


@lean
def _fill_tiles(
    tables: ProofTables,
    outer: OuterTables,
    work: Work,
) -> None:
    """Fills the cost of each tile alone: the least over the innermost loops above it."""
    n = tables.sizes.size
    for t in range(tables.sliding.size):
        work.held[t] = 1
    for cell in range(tables.cells):
        rest = cell
        alone = True
        for d in range(n):
            at = rest // tables.stride[d]
            rest -= at * tables.stride[d]
            work.middle_at[d] = at
            work.middle[d] = tables.divisors[tables.divisor_start[d] + at]
            work.trips[d] = tables.sizes[d] // work.middle[d]
            alone &= work.trips[d] == 1
        bounded = False
        for k in range(tables.outer_sets.size):
            kept = tables.outer_sets[k]
            if not fits(tables, BUFFER, kept, work.middle):
                continue
            if not bounded:
                look_up_credits(tables, outer.outer, work.middle_at, work.credit)
                bound_entering(
                    tables, work.middle, work.middle, work.trips, work.credit, work.held,
                    work.outer_bound,
                )  # fmt: skip
                bounded = True
            for h in range(n + 1):
                if (h < n and work.trips[h] == 1) or (h == n and not alone):
                    continue
                energy = 0
                words = 0
                for t in range(tables.sliding.size):
                    if (kept >> t) & 1:
                        energy += outer_charge(tables, t) * work.outer_bound[h, t]
                        words += work.outer_bound[h, t]
                outer.energy[k, cell] = min(outer.energy[k, cell], energy)
                if tables.limited:
                    outer.words[k, cell] = min(outer.words[k, cell], words)


@lean
def _take_least(
    tables: ProofTables,
    outer: OuterTables,
) -> None:
    """Turns the cost of each tile into the least over its multiples, one dimension at a time."""
    for d in range(tables.sizes.size):
        own = tables.divisor_start[d + 1] - tables.divisor_start[d]
        stride = tables.stride[d]
        for cell in range(tables.cells - 1, -1, -1):
            at = tables.divisor_start[d] + cell // stride % own
            for c in range(tables.cover_start[at], tables.cover_start[at + 1]):
                wider = cell + (tables.covers[c] - cell // stride % own) * stride
                for k in range(tables.outer_sets.size):
                    outer.energy[k, cell] = min(outer.energy[k, cell], outer.energy[k, wider])
                    if tables.limited:
                        outer.words[k, cell] = min(outer.words[k, cell], outer.words[k, wider])
