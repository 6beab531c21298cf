"""Bounds on all element tiles that share the extents of their first dimensions.

Letters: n dimensions, T tensors, K outer keep sets.
"""

from __future__ import annotations

from costmodel.compiled import part
from costmodel.exact.access_energy import (
    case_of,
    fill_base,
    fill_charges,
    least_groups,
)
from costmodel.exact.objective import INFINITE
from costmodel.exact.structures import Problem, Unit
from costmodel.exact.tiling_bounds import (
    cell_of,
    charge_groups,
    combination_of,
    count_spread,
    forget_spread,
    pick_combination,
)
from costmodel.exact.traffic_bounds import least_along
from costmodel.exact.workspace import Work
from costmodel.loop_nest.networks import least_hops

# Combinations of extents that are looked at for the least hops of a unit.
MOST_TRIED = 64


@part
def start_unit(
    problem: Problem,
    work: Work,
    unit: Unit,
    vary: bool,
) -> None:
    """Fills what holds for every element tile of a unit: the least charges, the leaves below.

    Where the groups depend on the element tile there are at least as many as the longest spatial
    loop along each axis makes. Where hops cost energy, groups and hops are those of the best
    element tile for every tensor, if there are not too many to look at.
    """
    tables, element, spread = problem.tables, work.element, work.spread
    forget_spread(work)
    charge_groups(problem, work, unit)
    if vary:
        for t in range(tables.sliding.size):
            if tables.half_hop > 0:
                _least_spread(problem, work, unit, t)
            else:
                spread.groups[t] = least_groups(tables, t, element.spatial)
    fill_charges(tables, unit, spread, work.least_charges)
    fill_base(tables, work.least_charges, unit.inner_set)
    n = tables.sizes.size
    leaves = work.bounds.leaves
    leaves[n] = 1
    for d in range(n - 1, -1, -1):
        at = tables.divisor_start[d] + element.spatial_at[d]
        choices = tables.multiple_start[at + 1] - tables.multiple_start[at]
        leaves[d] = leaves[d + 1] * choices


@part
def _least_spread(
    problem: Problem,
    work: Work,
    unit: Unit,
    t: int,
) -> None:
    """Fills the least groups and the least hops of a tensor over all element tiles."""
    tables, spread = problem.tables, work.spread
    _, count = combination_of(tables, work, t)
    if count > MOST_TRIED:
        spread.groups[t] = least_groups(tables, t, work.element.spatial)
        members = unit.elements // spread.groups[t]
        spread.hops[t] = least_hops(tables.mesh, unit.elements, members) * tables.half_hop
        return
    groups, hops = spread.groups[t], spread.hops[t]
    for place in range(1, count):
        pick_combination(tables, work, t, place)
        count_spread(tables, work, t, place)
        groups = min(groups, spread.groups[t])
        hops = min(hops, spread.hops[t])
    pick_combination(tables, work, t, 0)
    spread.groups[t], spread.hops[t] = groups, hops


@part
def subtree_energy(
    problem: Problem,
    work: Work,
    inner_set: int,
    chosen: int,
    enough: int,
) -> int:
    """A lower bound on the energy of all element tiles with the first extents in hand.

    Per tensor the extents that are left open take what is least for each axis, and their loops
    are none; the shared buffer's tile is a multiple of what is chosen.

    Args:
        problem: the problem.
        work: the tile in hand; dimensions from `chosen` on at their smallest.
        inner_set: tensors kept by the element buffers, as bits.
        chosen: how many dimensions have their extent.
        enough: the search ends with any value below this; 0 for the bound itself.

    Returns:
        The bound in units, INFINITE if no tile of the shared buffer fits; any value below
        `enough` if the bound is below it.
    """
    tables, outer, bounds, element = problem.tables, problem.outer, work.bounds, work.element
    n = tables.sizes.size
    some_loop = False
    for d in range(chosen):
        some_loop = some_loop or element.step[d] < tables.sizes[d]
    for t in range(tables.sliding.size):
        if (inner_set >> t) & 1 == 0:
            continue
        bounds.least[t] = 1
        bounds.resting[t] = 1
        for d in range(chosen):
            if not tables.relevant[t, d]:
                bounds.resting[t] *= tables.sizes[d] // element.step[d]
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            k = tables.term_start[axis]
            d = tables.term_dimension[k]
            if tables.credit_start[axis] < 0 and tables.term_coefficient[k] == 1:
                # extent x trips, whatever the extent.
                bounds.least[t] *= tables.sizes[d] // element.spatial[d]
            else:
                bounds.least[t] *= least_along(
                    tables, outer.loose, axis, element.spatial_at, element.step_at, chosen
                )
    cell = cell_of(tables, element.step_at)
    best = INFINITE
    for k in range(tables.outer_sets.size):
        if outer.energy[k, cell] >= INFINITE:
            continue
        above = work.least_charges.base[k] + outer.energy[k, cell]
        # Row n: no loop at all, which only the open extents allow.
        for h in range(n + 1):
            if h == n and some_loop:
                continue
            if h < n and element.step[h] == tables.sizes[h]:
                continue
            energy = above
            for t in range(tables.sliding.size):
                if (inner_set >> t) & 1 == 0:
                    continue
                words = bounds.least[t]
                if h < n and tables.relevant[t, h]:
                    words *= bounds.resting[t]
                energy += (
                    work.least_charges.inner[t, case_of(t, inner_set, tables.outer_sets[k])] * words
                )
            if energy < enough:
                return int(energy)
            best = min(best, energy)
    return int(best)
