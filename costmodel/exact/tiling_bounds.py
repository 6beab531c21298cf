"""Bounds on the mappings of one element tile, and on those of one tiling.

Letters: n dimensions, T tensors, V spatial vectors, K outer keep sets.
"""

from __future__ import annotations

from costmodel.arrays.tables import Array
from costmodel.compiled import part
from costmodel.exact.access_energy import (
    case_of,
    count_groups,
    fill_base,
    fill_charges,
    least_cycles,
    level_traffic,
    outer_charge,
)
from costmodel.exact.loop_orders import list_loops
from costmodel.exact.objective import INFINITE
from costmodel.exact.problem import BUFFER, DRAM, ProofTables
from costmodel.exact.structures import Problem, Unit
from costmodel.exact.traffic_bounds import bound_entering, look_up_credits, split_credit
from costmodel.exact.workspace import Work
from costmodel.loop_nest.networks import hops_per_delivery


@part
def enter_vector(
    problem: Problem,
    work: Work,
    v: int,
) -> None:
    """Loads a spatial vector, the element tile at its smallest."""
    tables, vectors = problem.tables, problem.vectors
    for d in range(tables.sizes.size):
        work.element.spatial[d] = vectors.factor[v, d]
        work.element.spatial_at[d] = vectors.at[v, d]
        work.element.step[d] = vectors.factor[v, d]
        work.element.step_at[d] = vectors.at[v, d]
        work.element.extent[d] = 1
        work.element.pick[d] = 0
    work.spread.place[0] = vectors.order[v]
    work.spread.place[1] = vectors.axes[v]


@part
def unit_of(
    problem: Problem,
    v: int,
    inner_set: int,
) -> Unit:
    """The unit of a spatial vector and the tensors that the element buffers keep."""
    tables, vectors = problem.tables, problem.vectors
    elements, reduction = vectors.elements[v], vectors.reduction[v]
    return Unit(
        v,
        inner_set,
        tables.macs // elements,
        elements,
        reduction,
        tables.output_words * reduction // elements,
    )


@part
def pick_step(
    tables: ProofTables,
    work: Work,
    d: int,
    pick: int,
) -> None:
    """Sets how far a dimension's loops above the element tile step."""
    element = work.element
    at = tables.divisor_start[d] + element.spatial_at[d]
    element.pick[d] = pick
    element.step_at[d] = tables.multiples[tables.multiple_start[at] + pick]
    element.step[d] = tables.divisors[tables.divisor_start[d] + element.step_at[d]]
    element.extent[d] = element.step[d] // element.spatial[d]


@part
def combination_of(
    tables: ProofTables,
    work: Work,
    t: int,
) -> tuple[int, int]:
    """Which extents the tile has of those that the groups depend on, and how many there are.

    Those are the extents of the dimensions of an axis along which two loops or more are spatial.
    """
    element = work.element
    place = 0
    count = 1
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        spread = 0
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            spread += element.spatial[tables.term_dimension[k]] > 1
        if spread < 2:
            continue
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            d = tables.term_dimension[k]
            if element.spatial[d] > 1:
                at = tables.divisor_start[d] + element.spatial_at[d]
                choices = tables.multiple_start[at + 1] - tables.multiple_start[at]
                place = place * choices + element.pick[d]
                count *= choices
    return place, count


@part
def pick_combination(
    tables: ProofTables,
    work: Work,
    t: int,
    place: int,
) -> None:
    """Gives the element tile the extents of a combination."""
    element = work.element
    rest = place
    for axis in range(tables.axis_start[t + 1] - 1, tables.axis_start[t] - 1, -1):
        spread = 0
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            spread += element.spatial[tables.term_dimension[k]] > 1
        if spread < 2:
            continue
        for k in range(tables.term_start[axis + 1] - 1, tables.term_start[axis] - 1, -1):
            d = tables.term_dimension[k]
            if element.spatial[d] > 1:
                at = tables.divisor_start[d] + element.spatial_at[d]
                choices = tables.multiple_start[at + 1] - tables.multiple_start[at]
                pick_step(tables, work, d, rest % choices)
                rest //= choices


@part
def forget_spread(
    work: Work,
) -> None:
    """Forgets the groups and hops of another unit."""
    known = work.spread.known
    for t in range(known.shape[0]):
        for place in range(known.shape[1]):
            known[t, place, 0] = -1


@part
def count_spread(
    tables: ProofTables,
    work: Work,
    t: int,
    place: int,
) -> None:
    """Fills the groups and hops of tensor t for the element tile in hand, its combination known."""
    spread, element = work.spread, work.element
    remembered = place < spread.known.shape[1]
    if remembered and spread.known[t, place, 0] >= 0:
        spread.groups[t] = spread.known[t, place, 0]
        spread.hops[t] = spread.known[t, place, 1]
        return
    spread.groups[t] = count_groups(tables, t, element.spatial, element.extent, spread.children)
    if tables.half_hop > 0:
        hops = hops_per_delivery(
            tables, t, tables.mesh, tables.orders[spread.place[0]], spread.place[1],
            element.spatial, element.extent, spread,
        )  # fmt: skip
        spread.hops[t] = int(2 * hops) * tables.half_hop
    if remembered:
        spread.known[t, place, 0] = spread.groups[t]
        spread.known[t, place, 1] = spread.hops[t]


@part
def charge_groups(
    problem: Problem,
    work: Work,
    unit: Unit,
) -> None:
    """Fills the groups of the element tile in hand, and what they alone decide."""
    tables = problem.tables
    for t in range(tables.sliding.size):
        place, _ = combination_of(tables, work, t)
        count_spread(tables, work, t, place)
    fill_charges(tables, unit, work.spread, work.charges)
    fill_base(tables, work.charges, unit.inner_set)


@part
def groups_vary(
    tables: ProofTables,
    work: Work,
) -> bool:
    """Whether two loops along one axis are spatial: then the groups depend on the element tile."""
    for axis in range(tables.credit_start.size):
        spread = 0
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            spread += work.element.spatial[tables.term_dimension[k]] > 1
        if spread > 1:
            return True
    return False


@part
def cell_of(
    tables: ProofTables,
    position: Array,
) -> int:
    """The lattice cell of an index vector `[n]`."""
    cell = 0
    for d in range(tables.sizes.size):
        cell += int(tables.stride[d] * position[d])
    return cell


@part
def bound_element_tile(
    problem: Problem,
    work: Work,
) -> None:
    """Bounds the words that enter the element tile in hand, whatever the loops' split."""
    tables, element, bounds = problem.tables, work.element, work.bounds
    for d in range(tables.sizes.size):
        element.trips[d] = tables.sizes[d] // element.step[d]
    for t in range(tables.sliding.size):
        bounds.held[t] = 1
    look_up_credits(tables, problem.outer.loose, element.step_at, bounds.credit)
    bound_entering(tables, bounds, element.extent, element.step, element.trips, bounds.inner)
    if tables.limited:
        _take_least(tables, bounds.inner, tables.sizes, element.step)


@part
def least_inner_energy(
    tables: ProofTables,
    work: Work,
    inner_set: int,
    outer_set: int,
) -> int:
    """The least energy of the words that enter the element tile in hand."""
    n = tables.sizes.size
    looped = False
    for d in range(n):
        looped = looped or work.element.trips[d] > 1
    least = INFINITE
    for h in range(n + 1):
        if (h == n) == looped or (h < n and work.element.trips[h] == 1):
            continue
        energy = 0
        for t in range(tables.sliding.size):
            if (inner_set >> t) & 1:
                case = case_of(t, inner_set, outer_set)
                energy += work.charges.inner[t, case] * work.bounds.inner[h, t]
        least = min(least, energy)
    return least


@part
def _take_least(
    tables: ProofTables,
    bound: Array,
    outside: Array,
    inside: Array,
) -> None:
    """Leaves in row n of a bound, where any dimension has a loop, the least of each tensor.

    Args:
        tables: the problem.
        bound: `[n + 1, T]` by the innermost loop.
        outside: `[n]` extents above the loops that may be innermost.
        inside: `[n]` extents below them.
    """
    n = tables.sizes.size
    found = False
    for h in range(n):
        if outside[h] > inside[h]:
            for t in range(tables.sliding.size):
                bound[n, t] = min(bound[n, t], bound[h, t]) if found else bound[h, t]
            found = True


@part
def bound_traffic(
    tables: ProofTables,
    work: Work,
    unit: Unit,
    outer_set: int,
    inner_words: Array,
    outer_words: Array,
    total: int,
) -> int:
    """A lower bound on cycles from lower bounds on the words that enter the tiles.

    Args:
        tables: the problem.
        work: the groups, and scratch.
        unit: the unit in hand.
        outer_set: tensors kept by the shared buffer.
        inner_words: `[T]` words entering an element tile.
        outer_words: `[T]` words entering the shared buffer's tile, if `total` is negative.
        total: else the words of all kept tensors together. They are charged as inputs' words,
            but for one writing of the output, which is certain.
    """
    traffic = work.traffic.total
    for level in range(3):
        traffic[level, 0] = 0
        traffic[level, 1] = 0
    for t in range(tables.sliding.size):
        words = outer_words[t]
        if total >= 0:
            words = tables.output_words if t == tables.output else 0
        level_traffic(
            tables, unit, t, case_of(t, unit.inner_set, outer_set), work.spread.groups[t],
            inner_words[t], words, traffic,
        )  # fmt: skip
    if total >= 0:
        known = tables.output_words if (outer_set >> tables.output) & 1 else 0
        traffic[BUFFER, 1] += total - known
        traffic[DRAM, 0] += total - known
    return least_cycles(tables, traffic, unit.cycles)


@part
def bound_tiling(
    problem: Problem,
    work: Work,
    inner_set: int,
    outer_set: int,
) -> tuple[int, int, int, int]:
    """Bounds the tiling in hand with the loops' true split.

    Returns:
        The least energy of all words that enter tiles, that of the words that enter the shared
        buffer, and the number of loops of the shared buffer and of DRAM.
    """
    tables, element, buffer, bounds = problem.tables, work.element, work.buffer, work.bounds
    n = tables.sizes.size
    inner_loops, outer_loops = list_loops(tables, work.orders, element.step, buffer.extent)
    for d in range(n):
        buffer.trips[d] = tables.sizes[d] // buffer.extent[d]
    for t in range(tables.sliding.size):
        bounds.held[t] = 1
    look_up_credits(tables, problem.outer.outer, buffer.at, bounds.credit)
    bound_entering(tables, bounds, buffer.extent, buffer.extent, buffer.trips, bounds.outer)
    _hold_whole_tiles(tables, work)
    for axis in range(tables.credit_start.size):
        if tables.credit_start[axis] >= 0:
            for kind in range(1 + tables.term_start[axis + 1] - tables.term_start[axis]):
                bounds.credit[axis, kind] = split_credit(
                    tables, work.axis, axis, kind, element.step, buffer.extent
                )
    bound_entering(tables, bounds, element.extent, element.step, element.trips, bounds.inner)
    # The innermost loop is the shared buffer's where it has any; else it is DRAM's, for both.
    least_inner = INFINITE
    least_outer = INFINITE
    least_joint = INFINITE
    for h in range(n + 1):
        inner = 0
        above = 0
        for t in range(tables.sliding.size):
            case = case_of(t, inner_set, outer_set)
            if (inner_set >> t) & 1:
                inner += work.charges.inner[t, case] * bounds.inner[h, t]
            if (outer_set >> t) & 1:
                above += outer_charge(tables, t) * bounds.outer[h, t]
        stands_inner = inner_loops == 0 if h == n else buffer.extent[h] > element.step[h]
        stands_outer = outer_loops == 0 if h == n else buffer.trips[h] > 1
        if stands_inner:
            least_inner = min(least_inner, inner)
        if stands_outer:
            least_outer = min(least_outer, above)
            least_joint = min(least_joint, inner + above)
    if tables.limited:
        if inner_loops > 0:
            _take_least(tables, bounds.inner, buffer.extent, element.step)
        else:
            _take_least(tables, bounds.inner, tables.sizes, buffer.extent)
        _take_least(tables, bounds.outer, tables.sizes, buffer.extent)
    both = least_joint if inner_loops == 0 else least_inner + least_outer
    return both, least_outer, inner_loops, outer_loops


@part
def _hold_whole_tiles(
    tables: ProofTables,
    work: Work,
) -> None:
    """Above a loop that moves a tensor, DRAM's loops bring whole tiles even where they rest."""
    n = tables.sizes.size
    for t in range(tables.sliding.size):
        moves = False
        for d in range(n):
            steps = work.buffer.extent[d] > work.element.step[d]
            moves = moves or (tables.relevant[t, d] == 1 and steps)
        for d in range(n):
            if moves and not tables.relevant[t, d]:
                work.bounds.held[t] *= work.buffer.trips[d]
