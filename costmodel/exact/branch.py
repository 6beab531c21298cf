"""The compiled proof: every mapping is either bounded away or evaluated.

A *unit* of work is a spatial vector with the tensors that the element buffers keep. Its mappings
form a tree: the element tile, then the shared buffer's tile and keep set, then the loop orders.
A branch is cut when a lower bound on its objective does not beat the limit.
"""

from __future__ import annotations

from costmodel.compiled import inlined, lean
from costmodel.exact.charges import case_of, fits, outer_charge
from costmodel.exact.objective import INFINITE, energy_threshold, is_below
from costmodel.exact.permute import order_loops
from costmodel.exact.state import (
    INNER_TILES,
    OUTER_TILES,
    SUBTREES,
    TILINGS,
    Found,
    OuterTables,
    Work,
)
from costmodel.exact.subtree import start_unit, subtree_energy
from costmodel.exact.tables import BUFFER, ELEMENT, ProofTables
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
from costmodel.nest import Array

# Below so many element tiles a bound on all of them costs more than it saves.
FEWEST_LEAVES = 3


@lean
def prove_units(
    tables: ProofTables,
    outer: OuterTables,
    vectors: Vectors,
    unit_vector: Array,
    unit_set: Array,
    begin: int,
    end: int,
    found: Found,
    work: Work,
) -> None:
    """Searches units `begin` to `end` for mappings below the limit.

    Args:
        tables: the problem.
        outer: least outer costs.
        vectors: spatial vectors.
        unit_vector: `[U]` the vector of each unit.
        unit_set: `[U]` the tensors that its element buffers keep, as bits.
        begin: the first unit.
        end: past the last one.
        found: the best mappings and the limit; updated.
        work: working memory.
    """
    for unit in range(begin, end):
        _prove_unit(tables, outer, vectors, unit_vector[unit], unit_set[unit], found, work)


@lean
def _prove_unit(
    tables: ProofTables,
    outer: OuterTables,
    vectors: Vectors,
    v: int,
    inner_set: int,
    found: Found,
    work: Work,
) -> None:
    """Walks the element tiles of a unit, one dimension after another.

    At depth d the first d + 1 dimensions have their extents, the others are at their smallest.
    """
    n = tables.sizes.size
    cycles = enter_vector(tables, vectors, work, v)
    threshold = energy_threshold(found.kind, cycles, found.limit[0], found.limit[1])
    limit_energy, limit_cycles = found.limit[0], found.limit[1]
    vary = groups_vary(tables, work)
    work.place[0] = vectors.order[v]
    work.place[1] = vectors.axes[v]
    _fix_tiles(tables, work, inner_set, vary)
    start_unit(tables, vectors, work, v, inner_set, cycles, vary)
    if not fits(tables, ELEMENT, inner_set, work.extent):
        return
    depth = 0
    if inner_set == 0 and not vary:
        # Nothing enters the element buffers: their tile makes no difference.
        depth = n - 1
    while depth >= 0:
        if depth < n - 1:
            descend = work.leaves[depth + 1] < FEWEST_LEAVES
            if not descend:
                found.counts[SUBTREES] += 1
                least = subtree_energy(tables, outer, work, inner_set, depth + 1, threshold)
                descend = least < threshold
            if descend:
                depth += 1
                continue
        if depth == n - 1:
            found.counts[INNER_TILES] += 1
            if vary:
                charge_groups(tables, vectors, work, v, inner_set, cycles)
            _try_element_tile(tables, outer, vectors, v, inner_set, cycles, threshold, found, work)
            if found.limit[0] != limit_energy or found.limit[1] != limit_cycles:
                limit_energy, limit_cycles = found.limit[0], found.limit[1]
                threshold = energy_threshold(found.kind, cycles, limit_energy, limit_cycles)
            if inner_set == 0 and not vary:
                return
        while depth >= 0:
            at = tables.divisor_start[depth] + work.spatial_at[depth]
            choices = tables.multiple_start[at + 1] - tables.multiple_start[at]
            if work.pick[depth] + 1 < choices:
                _pick_step(tables, work, depth, work.pick[depth] + 1)
                if fits(tables, ELEMENT, inner_set, work.extent):
                    break
                # Nor do larger extents of this dimension.
            _pick_step(tables, work, depth, 0)
            depth -= 1


@inlined
def _try_element_tile(
    tables: ProofTables,
    outer: OuterTables,
    vectors: Vectors,
    v: int,
    inner_set: int,
    cycles: int,
    threshold: int,
    found: Found,
    work: Work,
) -> None:
    """Bounds one element tile, and walks the shared buffer's tiles above it if it may win."""
    n = tables.sizes.size
    bound_element_tile(tables, outer, work)
    for h in range(n + 1):
        for t in range(tables.sliding.size):
            work.loose_bound[h, t] = work.inner_bound[h, t]
    cell = cell_of(tables, work.step_at)
    first_time = tables.output_words * vectors.reduction[v] // vectors.elements[v]
    survivors = 0
    for k in range(tables.outer_sets.size):
        above = outer.energy[k, cell]
        if above >= INFINITE:
            continue
        outer_set = tables.outer_sets[k]
        loose = least_inner_energy(tables, work, inner_set, outer_set)
        least = work.base[k] + loose + above
        if least >= threshold:
            continue
        if tables.limited:
            slowest = bound_traffic(
                tables, work, inner_set, outer_set, cycles, first_time, work.inner_bound[n],
                work.outer_bound[n], outer.words[k, cell],
            )  # fmt: skip
            if not is_below(found.kind, least, slowest, found.limit[0], found.limit[1]):
                continue
        work.live[survivors] = k
        work.loose[survivors] = loose
        survivors += 1
    for s in range(survivors):
        k = work.live[s]
        _split_loops(
            tables, outer, vectors, v, inner_set, tables.outer_sets[k], k, work.loose[s], cycles,
            found, work,
        )  # fmt: skip


@inlined
def _pick_step(
    tables: ProofTables,
    work: Work,
    d: int,
    pick: int,
) -> None:
    """Sets how far a dimension's loops above the element tile step."""
    at = tables.divisor_start[d] + work.spatial_at[d]
    work.pick[d] = pick
    work.step_at[d] = tables.multiples[tables.multiple_start[at] + pick]
    work.step[d] = tables.divisors[tables.divisor_start[d] + work.step_at[d]]
    work.extent[d] = work.step[d] // work.spatial[d]


@inlined
def _fix_tiles(
    tables: ProofTables,
    work: Work,
    inner_set: int,
    vary: bool,
) -> None:
    """Marks dimensions that need no loop in the shared buffer.

    That is a dimension that no tensor kept by the element buffers depends on: such a loop can move
    into the element tile, which costs no room there and never raises the words that enter it. Used
    only where these tensors have axes of one term each and the groups do not change.
    """
    plain = not vary
    for t in range(tables.sliding.size):
        if (inner_set >> t) & 1 and tables.sliding[t]:
            plain = False
    for d in range(tables.sizes.size):
        work.fixed_tile[d] = int(plain and inner_set != 0)
        for t in range(tables.sliding.size):
            if (inner_set >> t) & 1 and tables.relevant[t, d]:
                work.fixed_tile[d] = 0


@lean
def _split_loops(
    tables: ProofTables,
    outer: OuterTables,
    vectors: Vectors,
    v: int,
    inner_set: int,
    outer_set: int,
    k: int,
    loose: int,
    cycles: int,
    found: Found,
    work: Work,
) -> None:
    """Walks the shared buffer's tiles above one element tile, one dimension after another.

    At depth d the first d + 1 dimensions have their extents, the others are at their smallest. The
    least outer cost of what a tile is a multiple of, and the least energy of the words that enter
    the element tile, bound all tiles that are still to come. `loose` is the latter however the
    loops split.
    """
    n = tables.sizes.size
    for d in range(n):
        work.outer_pick[d] = 0
        work.middle_at[d] = work.step_at[d]
        work.middle[d] = work.step[d]
    limit_energy, limit_cycles = found.limit[0], found.limit[1]
    threshold = energy_threshold(found.kind, cycles, limit_energy, limit_cycles)
    if not fits(tables, BUFFER, outer_set, work.middle):
        return
    cell = cell_of(tables, work.middle_at)
    first_time = tables.output_words * vectors.reduction[v] // vectors.elements[v]
    depth = 0
    while depth >= 0:
        above = work.base[k] + outer.energy[k, cell]
        total = outer.words[k, cell] if tables.limited else 0
        if above + loose < threshold and _split_may_win(
            tables, work, inner_set, outer_set, depth + 1, above, total, cycles, first_time,
            threshold, found,
        ):  # fmt: skip
            if depth < n - 1:
                depth += 1
                continue
            found.counts[OUTER_TILES] += 1
            _try_tiling(
                tables, outer, vectors, v, inner_set, outer_set, k, cycles, threshold, found, work
            )
            if found.limit[0] != limit_energy or found.limit[1] != limit_cycles:
                limit_energy, limit_cycles = found.limit[0], found.limit[1]
                threshold = energy_threshold(found.kind, cycles, limit_energy, limit_cycles)
        while depth >= 0:
            at = tables.divisor_start[depth] + work.step_at[depth]
            choices = tables.multiple_start[at + 1] - tables.multiple_start[at]
            if work.outer_pick[depth] + 1 < choices and not work.fixed_tile[depth]:
                _pick_middle(tables, work, depth, work.outer_pick[depth] + 1)
                if fits(tables, BUFFER, outer_set, work.middle):
                    break
            _pick_middle(tables, work, depth, 0)
            depth -= 1
        cell = cell_of(tables, work.middle_at)


@lean
def _split_may_win(
    tables: ProofTables,
    work: Work,
    inner_set: int,
    outer_set: int,
    chosen: int,
    above: int,
    total: int,
    cycles: int,
    first_time: int,
    threshold: int,
    found: Found,
) -> bool:
    """Whether a tiling with the first extents of the shared buffer's tile in hand may win.

    Above a loop of the shared buffer that moves a tensor, DRAM's loops bring whole tiles even
    where they leave the tensor at rest; both are known of the first `chosen` dimensions.

    Args:
        tables: the problem.
        work: the tiles, and the bounds of the element tile.
        inner_set: tensors kept by the element buffers, as bits.
        outer_set: tensors kept by the shared buffer.
        chosen: how many dimensions of the shared buffer's tile have their extent.
        above: energy of everything but the words that enter the element tile, at the least.
        total: words that enter the shared buffer's tile, at the least.
        cycles: compute cycles.
        first_time: output words that an element produces.
        threshold: energy to stay below.
        found: the limit.
    """
    n = tables.sizes.size
    looped = False
    for d in range(n):
        looped = looped or work.trips[d] > 1
    for t in range(tables.sliding.size):
        work.held[t] = 1
        moves = False
        brought = 1
        for d in range(chosen):
            if tables.relevant[t, d]:
                moves = moves or work.middle[d] > work.step[d]
            else:
                brought *= tables.sizes[d] // work.middle[d]
        if moves:
            work.held[t] = brought
    for h in range(n + 1):
        if (h == n) == looped or (h < n and work.trips[h] == 1):
            continue
        energy = above
        for t in range(tables.sliding.size):
            if (inner_set >> t) & 1:
                work.entering[t] = work.loose_bound[h, t]
                if h < n and not tables.relevant[t, h]:
                    work.entering[t] *= work.held[t]
                case = case_of(t, inner_set, outer_set)
                energy += work.inner_charge[t, case] * work.entering[t]
        if energy >= threshold:
            continue
        if not tables.limited:
            return True
        # Energy and cycles for the same innermost loop: what is good for one may be bad for both.
        slowest = bound_traffic(
            tables, work, inner_set, outer_set, cycles, first_time, work.entering,
            work.outer_bound[n], total,
        )  # fmt: skip
        if is_below(found.kind, energy, slowest, found.limit[0], found.limit[1]):
            return True
    return False


@inlined
def _pick_middle(
    tables: ProofTables,
    work: Work,
    d: int,
    pick: int,
) -> None:
    """Sets the shared buffer's tile along a dimension."""
    at = tables.divisor_start[d] + work.step_at[d]
    work.outer_pick[d] = pick
    work.middle_at[d] = tables.multiples[tables.multiple_start[at] + pick]
    work.middle[d] = tables.divisors[tables.divisor_start[d] + work.middle_at[d]]


@lean
def _try_tiling(
    tables: ProofTables,
    outer: OuterTables,
    vectors: Vectors,
    v: int,
    inner_set: int,
    outer_set: int,
    k: int,
    cycles: int,
    threshold: int,
    found: Found,
    work: Work,
) -> None:
    """Tries the orders of the tiling in hand, if its bound lets it pass."""
    elements, reduction = vectors.elements[v], vectors.reduction[v]
    both, least_outer, inner_loops, outer_loops = bound_tiling(
        tables, outer, work, inner_set, outer_set
    )
    least = work.base[k] + both
    if least >= threshold:
        return
    if tables.limited and not _orders_may_win(
        tables, work, inner_set, outer_set, k, cycles,
        tables.output_words * reduction // elements, inner_loops, outer_loops, threshold, found,
    ):  # fmt: skip
        return
    found.counts[TILINGS] += 1
    order_loops(
        tables, elements, reduction, work.place, inner_set, outer_set, cycles, work.base[k],
        least_outer, inner_loops, outer_loops, found, work,
    )  # fmt: skip


@lean
def _orders_may_win(
    tables: ProofTables,
    work: Work,
    inner_set: int,
    outer_set: int,
    k: int,
    cycles: int,
    first_time: int,
    inner_loops: int,
    outer_loops: int,
    threshold: int,
    found: Found,
) -> bool:
    """Whether energy and cycles of the tiling in hand may win for any pair of innermost loops."""
    n = tables.sizes.size
    for h in range(n + 1):
        stands = inner_loops == 0 if h == n else work.middle[h] > work.step[h]
        for g in range(n + 1):
            stands_outer = outer_loops == 0 if g == n else work.outer_trips[g] > 1
            if not stands_outer or (inner_loops > 0 and not stands):
                continue
            # Without loops of the shared buffer the same loop is innermost for both.
            if inner_loops == 0 and h != g:
                continue
            energy = work.base[k]
            for t in range(tables.sliding.size):
                case = case_of(t, inner_set, outer_set)
                if (inner_set >> t) & 1:
                    energy += work.inner_charge[t, case] * work.inner_bound[h, t]
                if (outer_set >> t) & 1:
                    energy += outer_charge(tables, t) * work.outer_bound[g, t]
            if energy >= threshold:
                continue
            slowest = bound_traffic(
                tables, work, inner_set, outer_set, cycles, first_time, work.inner_bound[h],
                work.outer_bound[g], -1,
            )  # fmt: skip
            if is_below(found.kind, energy, slowest, found.limit[0], found.limit[1]):
                return True
    return False
