"""What the proof's bounds say of single tilings, to be held against enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np

from costmodel import Codes
from costmodel.arrays.tables import Array
from costmodel.compiled import lean
from costmodel.exact.problem import BUFFER, ELEMENT, ProofTables
from costmodel.exact.prover import Prover
from costmodel.exact.structures import Problem, Vectors
from costmodel.exact.subtree_bounds import start_unit, subtree_energy
from costmodel.exact.tiling_bounds import (
    bound_element_tile,
    bound_tiling,
    bound_traffic,
    cell_of,
    charge_groups,
    enter_vector,
    groups_vary,
    least_inner_energy,
    unit_of,
)
from costmodel.exact.workspace import Work, make_work


@lean
def bounds_of_tiling(
    problem: Problem,
    v: int,
    inner_set: int,
    k: int,
    tile: Array,
    work: Work,
    bounds: Array,
) -> None:
    """What the proof's bounds say of one tiling.

    Args:
        problem: the problem.
        v: the tiling's spatial vector.
        inner_set: tensors kept by the element buffers, as bits.
        k: index of the shared buffer's keep set.
        tile: `[3, n]` extents of the element tile, positions of what its loops step over, positions
            of the shared buffer's tile.
        work: working memory.
        bounds: `[2, 3]` takes energies in units, and cycles: the largest bound of the subtrees that
            hold the element tile, that for any split of the loops and that for the true one.
    """
    tables, outer = problem.tables, problem.outer
    n = tables.sizes.size
    enter_vector(problem, work, v)
    unit = unit_of(problem, v, inner_set)
    outer_set = tables.outer_sets[k]
    start_unit(problem, work, unit, groups_vary(tables, work))
    bounds[0, 0] = 0
    for d in range(n):
        work.element.extent[d] = tile[0, d]
        work.element.step_at[d] = tile[1, d]
        work.element.step[d] = tables.divisors[tables.divisor_start[d] + tile[1, d]]
        at = tables.divisor_start[d] + work.element.spatial_at[d]
        for place in range(tables.multiple_start[at], tables.multiple_start[at + 1]):
            if tables.multiples[place] == tile[1, d]:
                work.element.pick[d] = place - tables.multiple_start[at]
        bounds[0, 0] = max(bounds[0, 0], subtree_energy(problem, work, inner_set, d + 1, 0))
    for d in range(n):
        work.buffer.at[d] = tile[2, d]
        work.buffer.extent[d] = tables.divisors[tables.divisor_start[d] + tile[2, d]]
    charge_groups(problem, work, unit)
    bound_element_tile(problem, work)
    cell = cell_of(tables, work.element.step_at)
    loose = least_inner_energy(tables, work, inner_set, outer_set)
    bounds[0, 1] = work.charges.base[k] + loose + outer.energy[k, cell]
    for which in range(3):
        bounds[1, which] = unit.cycles
    if tables.limited:
        bounds[1, 1] = bound_traffic(
            tables, work, unit, outer_set, work.bounds.inner[n], work.bounds.outer[n],
            outer.words[k, cell],
        )  # fmt: skip
    both, _, _, _ = bound_tiling(problem, work, inner_set, outer_set)
    bounds[0, 2] = work.charges.base[k] + both
    if tables.limited:
        bounds[1, 2] = bound_traffic(
            tables, work, unit, outer_set, work.bounds.inner[n], work.bounds.outer[n], -1
        )


def bounds(prover: Prover, codes: Codes) -> tuple[Any, Any]:
    """What the bounds say of the tilings of mappings, whatever their loop orders.

    Args:
        prover: a proof whose tables stand.
        codes: `[B, D]` feasible mappings.

    Returns:
        `[B, 4]` energy (units) and cycles: the floor of the mapping's unit, the largest bound
        of the subtrees that hold it, the bound for its element tile and that for its tiling.
    """
    tables, space = prover.space.tables, prover.space
    n = tables.sizes.size
    rows = codes[:, :n] + tables.row_start[:-1]
    factors = tables.factors[rows].transpose(0, 2, 1)
    extent = factors[:, tables.temporal_slot[ELEMENT]]
    slot = tables.spatial_slot[BUFFER]
    spatial = factors[:, slot] if slot >= 0 else np.ones_like(extent)
    step = extent * spatial
    middle = step * factors[:, tables.temporal_slot[BUFFER]]
    energy = np.zeros((len(codes), 4), np.int64)
    cycles = np.zeros((len(codes), 4), np.int64)
    vectors = {tuple(row): v for v, row in enumerate(prover._problem.vectors.factor.tolist())}
    units = {
        (int(v), int(kept)): unit
        for unit, (v, kept) in enumerate(zip(prover._unit_vector, prover._unit_set, strict=True))
    }
    everything = 2 ** len(space.workload.tensors) - 1
    kept = [
        codes[:, column] if column >= 0 else np.full(len(codes), everything)
        for column in (tables.keep_column[ELEMENT], tables.keep_column[BUFFER])
    ]
    outer = {int(kept): k for k, kept in reversed(list(enumerate(prover._tables.outer_sets)))}
    positions = [_positions(prover._tables, steps) for steps in (step, middle)]
    tiles = np.stack([extent.astype(np.int64), *positions], axis=1)
    work, bounds = make_work(prover._tables), np.zeros((2, 3), np.int64)
    for b, (factor, inner) in enumerate(zip(spatial.tolist(), kept[0].tolist(), strict=True)):
        v = vectors[tuple(factor)]
        energy[b, 0], cycles[b, 0] = prover._floor(units[v, inner])
        bounds_of_tiling(
            *_problem_of(prover, v, codes[b]), inner, outer[int(kept[1][b])], tiles[b], work, bounds
        )
        energy[b, 1:], cycles[b, 1:] = bounds
    return energy, cycles


def _problem_of(prover: Prover, v: int, code: Any) -> tuple[Problem, int]:
    """The problem and the place of a spatial vector in it, its loops as a mapping has them."""
    problem, tables = prover._problem, prover.space.tables
    order, axes = tables.spatial_order_column[BUFFER], tables.spatial_axis_column[BUFFER]
    if max(order, axes) < 0:
        return problem, v
    here = Vectors(*(column[v : v + 1].copy() for column in problem.vectors))
    for field, column in ((here.order, order), (here.axes, axes)):
        if column >= 0:
            field[0] = code[column]
    return problem._replace(vectors=here), 0


def _positions(tables: ProofTables, extents: Any) -> Any:
    """Positions `[B, n]` of extents `[B, n]` among the divisors of their dimensions."""
    ends = zip(tables.divisor_start[:-1], tables.divisor_start[1:], strict=True)
    return np.stack(
        [
            np.searchsorted(tables.divisors[start:end], extents[:, d])
            for d, (start, end) in enumerate(ends)
        ],
        axis=1,
    )
