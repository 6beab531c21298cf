"""Bounds on the mappings of one element tile, and on those of one tiling.

Letters: n dimensions, T tensors, V spatial vectors, K outer keep sets.
"""

from __future__ import annotations

from typing import NamedTuple

from costmodel.compiled import inlined, lean
from costmodel.exact.charges import (
    case_of,
    count_groups,
    fill_base,
    fill_charges,
    least_cycles,
    level_traffic,
    outer_charge,
)
from costmodel.exact.objective import INFINITE
from costmodel.exact.orders import list_loops
from costmodel.exact.state import OuterTables, Work
from costmodel.exact.tables import BUFFER, DRAM, ProofTables
from costmodel.exact.traffic import bound_entering, look_up_credits, split_credit
from costmodel.kernel import hops_per_delivery
from costmodel.nest import Array


class Vectors(NamedTuple):
    """Spatial vectors, each with a place on the mesh where that matters.

    Attributes:
        factor: `[V, n]` spatial factors; at `[V, n]` their positions among the divisors.
        elements: `[V]` elements in use.
        reduction: `[V]` elements that add to one output word.
        order: `[V]` index of the order of the spatial loops.
        axes: `[V]` dimensions along the mesh's height, as bits.
    """

    factor: Array
    at: Array
    elements: Array
    reduction: Array
    order: Array
    axes: Array


@inlined
def enter_vector(
    tables: ProofTables,
    vectors: Vectors,
    work: Work,
    v: int,
) -> int:
    """Loads a spatial vector, the element tile at its smallest; returns the compute cycles."""
    for d in range(tables.sizes.size):
        work.spatial[d] = vectors.factor[v, d]
        work.spatial_at[d] = vectors.at[v, d]
        work.step[d] = vectors.factor[v, d]
        work.step_at[d] = vectors.at[v, d]
        work.extent[d] = 1
        work.pick[d] = 0
    return int(tables.macs // vectors.elements[v])


@inlined
def charge_groups(
    tables: ProofTables,
    vectors: Vectors,
    work: Work,
    v: int,
    inner_set: int,
    cycles: int,
) -> None:
    """Fills the groups of the element tile in hand, and what they alone decide."""
    for t in range(tables.sliding.size):
        work.groups[t] = count_groups(tables, t, work.spatial, work.extent, work.offsets)
        if tables.half_hop > 0:
            hops = hops_per_delivery(
                tables, t, tables.mesh, tables.orders[vectors.order[v]], vectors.axes[v],
                work.spatial, work.extent, work.moved, work.offsets, work.lowest, work.highest,
            )  # fmt: skip
            work.hops[t] = int(2 * hops) * tables.half_hop
    fill_charges(
        tables, cycles, vectors.elements[v], vectors.reduction[v], work.groups, work.hops,
        work.fixed, work.inner_charge,
    )  # fmt: skip
    fill_base(tables, work.fixed, inner_set, work.base)


@inlined
def groups_vary(
    tables: ProofTables,
    work: Work,
) -> bool:
    """Whether two loops along one axis are spatial: then the groups depend on the element tile."""
    for axis in range(tables.credit_start.size):
        spread = 0
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            spread += work.spatial[tables.term_dimension[k]] > 1
        if spread > 1:
            return True
    return False


# Below so many element tiles a bound on all of them costs more than it saves.
FEWEST_LEAVES = 32


@inlined
def cell_of(
    tables: ProofTables,
    position: Array,
) -> int:
    """The lattice cell of an index vector `[n]`."""
    cell = 0
    for d in range(tables.sizes.size):
        cell += int(tables.stride[d] * position[d])
    return cell


@inlined
def bound_element_tile(
    tables: ProofTables,
    outer: OuterTables,
    work: Work,
) -> None:
    """Bounds the words that enter the element tile in hand, whatever the loops' split."""
    for d in range(tables.sizes.size):
        work.trips[d] = tables.sizes[d] // work.step[d]
    for t in range(tables.sliding.size):
        work.held[t] = 1
    look_up_credits(tables, outer.loose, work.step_at, work.credit)
    bound_entering(
        tables, work.extent, work.step, work.trips, work.credit, work.held, work.inner_bound
    )
    if tables.limited:
        _take_least(tables, work.inner_bound, tables.sizes, work.step)


@inlined
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
        looped = looped or work.trips[d] > 1
    least = INFINITE
    for h in range(n + 1):
        if (h == n) == looped or (h < n and work.trips[h] == 1):
            continue
        energy = 0
        for t in range(tables.sliding.size):
            if (inner_set >> t) & 1:
                case = case_of(t, inner_set, outer_set)
                energy += work.inner_charge[t, case] * work.inner_bound[h, t]
        least = min(least, energy)
    return least


@inlined
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


@inlined
def bound_traffic(
    tables: ProofTables,
    work: Work,
    inner_set: int,
    outer_set: int,
    cycles: int,
    first_time: int,
    inner_words: Array,
    outer_words: Array,
    total: int,
) -> int:
    """A lower bound on cycles from lower bounds on the words that enter the tiles.

    Args:
        tables: the problem.
        work: the groups, and scratch.
        inner_set: tensors kept by the element buffers, as bits.
        outer_set: tensors kept by the shared buffer.
        cycles: compute cycles.
        first_time: output words that an element produces.
        inner_words: `[T]` words entering an element tile.
        outer_words: `[T]` words entering the shared buffer's tile, if `total` is negative.
        total: else the words of all kept tensors together. They are charged as inputs' words,
            but for one writing of the output, which is certain.
    """
    for level in range(3):
        work.traffic[level, 0] = 0
        work.traffic[level, 1] = 0
    for t in range(tables.sliding.size):
        words = outer_words[t]
        if total >= 0:
            words = tables.output_words if t == tables.output else 0
        level_traffic(
            tables, t, case_of(t, inner_set, outer_set), cycles, first_time, work.groups[t],
            inner_words[t], words, work.traffic,
        )  # fmt: skip
    if total >= 0:
        known = tables.output_words if (outer_set >> tables.output) & 1 else 0
        work.traffic[BUFFER, 1] += total - known
        work.traffic[DRAM, 0] += total - known
    return least_cycles(tables, work.traffic, cycles)


@lean
def bound_tiling(
    tables: ProofTables,
    outer: OuterTables,
    work: Work,
    inner_set: int,
    outer_set: int,
) -> tuple[int, int, int, int]:
    """Bounds the tiling in hand with the loops' true split.

    Returns:
        The least energy of all words that enter tiles, that of the words that enter the shared
        buffer, and the number of loops of the shared buffer and of DRAM.
    """
    n = tables.sizes.size
    tensors = tables.sliding.size
    inner_loops, outer_loops = list_loops(tables, work.orders, work.step, work.middle)
    for d in range(n):
        work.outer_trips[d] = tables.sizes[d] // work.middle[d]
    for t in range(tensors):
        work.held[t] = 1
    look_up_credits(tables, outer.outer, work.middle_at, work.credit)
    bound_entering(
        tables, work.middle, work.middle, work.outer_trips, work.credit, work.held,
        work.outer_bound,
    )  # fmt: skip
    for t in range(tensors):
        # Above a loop that moves the tensor, DRAM's loops bring whole tiles even where they rest.
        moves = False
        for d in range(n):
            moves = moves or (tables.relevant[t, d] == 1 and work.middle[d] > work.step[d])
        for d in range(n):
            if moves and not tables.relevant[t, d]:
                work.held[t] *= work.outer_trips[d]
    for axis in range(tables.credit_start.size):
        if tables.credit_start[axis] >= 0:
            for kind in range(1 + tables.term_start[axis + 1] - tables.term_start[axis]):
                work.credit[axis, kind] = split_credit(
                    tables, axis, kind, work.step, work.middle,
                    work.axis_step, work.axis_trip, work.axis_inner, work.axis_least,
                )  # fmt: skip
    bound_entering(
        tables, work.extent, work.step, work.trips, work.credit, work.held, work.inner_bound
    )
    # The innermost loop is the shared buffer's where it has any; else it is DRAM's, for both.
    least_inner = INFINITE
    least_outer = INFINITE
    least_joint = INFINITE
    for h in range(n + 1):
        inner = 0
        above = 0
        for t in range(tensors):
            case = case_of(t, inner_set, outer_set)
            if (inner_set >> t) & 1:
                inner += work.inner_charge[t, case] * work.inner_bound[h, t]
            if (outer_set >> t) & 1:
                above += outer_charge(tables, t) * work.outer_bound[h, t]
        stands_inner = inner_loops == 0 if h == n else work.middle[h] > work.step[h]
        stands_outer = outer_loops == 0 if h == n else work.outer_trips[h] > 1
        if stands_inner:
            least_inner = min(least_inner, inner)
        if stands_outer:
            least_outer = min(least_outer, above)
            least_joint = min(least_joint, inner + above)
    if tables.limited:
        if inner_loops > 0:
            _take_least(tables, work.inner_bound, work.middle, work.step)
        else:
            _take_least(tables, work.inner_bound, tables.sizes, work.middle)
        _take_least(tables, work.outer_bound, tables.sizes, work.middle)
    both = least_joint if inner_loops == 0 else least_inner + least_outer
    return both, least_outer, inner_loops, outer_loops
