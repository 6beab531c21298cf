"""Bounds on all element tiles that share the extents of their first dimensions.

Letters: n dimensions, T tensors, K outer keep sets.
"""

from __future__ import annotations

from costmodel.compiled import inlined, lean
from costmodel.exact.charges import case_of, fill_base, fill_charges, least_groups
from costmodel.exact.objective import INFINITE
from costmodel.exact.state import OuterTables, Work
from costmodel.exact.tables import ProofTables
from costmodel.exact.tiles import (
    Vectors,
    bound_element_tile,
    bound_tiling,
    bound_traffic,
    cell_of,
    charge_groups,
    enter_vector,
    groups_vary,
    least_inner_energy,
)
from costmodel.exact.traffic import least_along
from costmodel.nest import Array


@inlined
def start_unit(
    tables: ProofTables,
    vectors: Vectors,
    work: Work,
    v: int,
    inner_set: int,
    cycles: int,
    vary: bool,
) -> None:
    """Fills what holds for every element tile of a unit: the least charges, the leaves below.

    Where the groups depend on the element tile there are at least as many as the longest spatial
    loop along each axis makes, and hops are left out.
    """
    charge_groups(tables, vectors, work, v, inner_set, cycles)
    if vary:
        for t in range(tables.sliding.size):
            work.hops[t] = 0
            work.groups[t] = least_groups(tables, t, work.spatial)
    fill_charges(
        tables, cycles, vectors.elements[v], vectors.reduction[v], work.groups, work.hops,
        work.low_fixed, work.low_charge,
    )  # fmt: skip
    fill_base(tables, work.low_fixed, inner_set, work.low_base)
    n = tables.sizes.size
    work.leaves[n] = 1
    for d in range(n - 1, -1, -1):
        at = tables.divisor_start[d] + work.spatial_at[d]
        choices = tables.multiple_start[at + 1] - tables.multiple_start[at]
        work.leaves[d] = work.leaves[d + 1] * choices


@lean
def subtree_energy(
    tables: ProofTables,
    outer: OuterTables,
    work: Work,
    inner_set: int,
    chosen: int,
    enough: int,
) -> int:
    """A lower bound on the energy of all element tiles with the first extents in hand.

    Per tensor the extents that are left open take what is least for each axis, and their loops
    are none; the shared buffer's tile is a multiple of what is chosen.

    Args:
        tables: the problem.
        outer: least outer costs.
        work: the tile in hand; dimensions from `chosen` on at their smallest.
        inner_set: tensors kept by the element buffers, as bits.
        chosen: how many dimensions have their extent.
        enough: the search ends with any value below this; 0 for the bound itself.

    Returns:
        The bound in units, INFINITE if no tile of the shared buffer fits; any value below
        `enough` if the bound is below it.
    """
    n = tables.sizes.size
    some_loop = False
    for d in range(chosen):
        some_loop = some_loop or work.step[d] < tables.sizes[d]
    for t in range(tables.sliding.size):
        if (inner_set >> t) & 1 == 0:
            continue
        work.least[t] = 1
        work.resting[t] = 1
        for d in range(chosen):
            if not tables.relevant[t, d]:
                work.resting[t] *= tables.sizes[d] // work.step[d]
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            k = tables.term_start[axis]
            d = tables.term_dimension[k]
            if tables.credit_start[axis] < 0 and tables.term_coefficient[k] == 1:
                # extent x trips, whatever the extent.
                work.least[t] *= tables.sizes[d] // work.spatial[d]
            else:
                work.least[t] *= least_along(
                    tables, outer.loose, axis, work.spatial_at, work.step_at, chosen
                )
    cell = cell_of(tables, work.step_at)
    best = INFINITE
    for k in range(tables.outer_sets.size):
        if outer.energy[k, cell] >= INFINITE:
            continue
        above = work.low_base[k] + outer.energy[k, cell]
        # Row n: no loop at all, which only the open extents allow.
        for h in range(n + 1):
            if h == n and some_loop:
                continue
            if h < n and work.step[h] == tables.sizes[h]:
                continue
            energy = above
            for t in range(tables.sliding.size):
                if (inner_set >> t) & 1 == 0:
                    continue
                words = work.least[t]
                if h < n and tables.relevant[t, h]:
                    words *= work.resting[t]
                energy += work.low_charge[t, case_of(t, inner_set, tables.outer_sets[k])] * words
            if energy < enough:
                return int(energy)
            best = min(best, energy)
    return int(best)


@lean
def bounds_of_tiling(
    tables: ProofTables,
    outer: OuterTables,
    vectors: Vectors,
    v: int,
    inner_set: int,
    k: int,
    extent: Array,
    step_at: Array,
    middle_at: Array,
    work: Work,
    energy: Array,
    cycles: Array,
) -> None:
    """What the proof's bounds say of one tiling: for tests of the bounds, and for explanations.

    Args:
        tables: the problem.
        outer: least outer costs.
        vectors: spatial vectors.
        v: the tiling's spatial vector.
        inner_set: tensors kept by the element buffers, as bits.
        k: index of the shared buffer's keep set.
        extent: `[n]` of the element tile.
        step_at: `[n]` position of what its loops step over.
        middle_at: `[n]` position of the shared buffer's tile.
        work: working memory.
        energy: `[3]` takes the largest bound of the subtrees that hold the element tile, that for
            any split of the loops and that for the true one, in units.
        cycles: `[3]` takes those on cycles.
    """
    n = tables.sizes.size
    compute = enter_vector(tables, vectors, work, v)
    elements, reduction = vectors.elements[v], vectors.reduction[v]
    outer_set = tables.outer_sets[k]
    start_unit(tables, vectors, work, v, inner_set, compute, groups_vary(tables, work))
    energy[0] = 0
    for d in range(n):
        work.extent[d] = extent[d]
        work.step_at[d] = step_at[d]
        work.step[d] = tables.divisors[tables.divisor_start[d] + step_at[d]]
        energy[0] = max(energy[0], subtree_energy(tables, outer, work, inner_set, d + 1, 0))
    for d in range(n):
        work.middle_at[d] = middle_at[d]
        work.middle[d] = tables.divisors[tables.divisor_start[d] + middle_at[d]]
    charge_groups(tables, vectors, work, v, inner_set, compute)
    bound_element_tile(tables, outer, work)
    cell = cell_of(tables, work.step_at)
    loose = least_inner_energy(tables, work, inner_set, outer_set)
    energy[1] = work.base[k] + loose + outer.energy[k, cell]
    cycles[0] = compute
    cycles[1] = compute
    cycles[2] = compute
    first_time = tables.output_words * reduction // elements
    if tables.limited:
        cycles[1] = bound_traffic(
            tables, work, inner_set, outer_set, compute, first_time, work.inner_bound[n],
            work.outer_bound[n], outer.words[k, cell],
        )  # fmt: skip
    both, _, _, _ = bound_tiling(tables, outer, work, inner_set, outer_set)
    energy[2] = work.base[k] + both
    if tables.limited:
        cycles[2] = bound_traffic(
            tables, work, inner_set, outer_set, compute, first_time, work.inner_bound[n],
            work.outer_bound[n], -1,
        )  # fmt: skip
