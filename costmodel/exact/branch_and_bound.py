"""The compiled proof: every mapping is either bounded away or evaluated.

A *unit* of work is a spatial vector with the tensors that the element buffers keep. Its mappings
form a tree: the element tile, then the shared buffer's tile and keep set, then the loop orders.
A branch is cut when a lower bound on its objective does not beat the limit.
"""

from __future__ import annotations

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.exact.access_energy import case_of, fits, outer_charge
from costmodel.exact.loop_order_search import order_loops
from costmodel.exact.objective import INFINITE, energy_threshold, is_below
from costmodel.exact.problem import BUFFER, ELEMENT, ProofTables
from costmodel.exact.structures import Problem, Unit
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
    pick_step,
    unit_of,
)
from costmodel.exact.workspace import (
    BETWEEN_TILES,
    DEPTH,
    FRESH,
    IN_TILE,
    INNER_TILES,
    OUTER_DEPTH,
    OUTER_TILES,
    PART_DEPTH,
    PART_FIRST,
    PART_PATH,
    PART_STOP,
    STAGE,
    SUBTREES,
    SURVIVOR,
    SURVIVORS,
    TILINGS,
    Found,
    Work,
)

# Below so many element tiles a bound on all of them costs more than it saves.
FEWEST_LEAVES = 3


@lean
def prove_units(
    problem: Problem,
    unit_vector: Array,
    unit_set: Array,
    begin: int,
    end: int,
    found: Found,
    work: Work,
) -> int:
    """Searches units `begin` to `end` for mappings below the limit.

    It pauses when `found.ticks` are used up or `found.halt` is set, within a unit if need be, and
    goes on from there when it is called again with that unit as `begin` and the same `work`. The
    limit may have been lowered meanwhile.

    Args:
        problem: the problem.
        unit_vector: `[U]` the vector of each unit.
        unit_set: `[U]` the tensors that its element buffers keep, as bits.
        begin: the first unit.
        end: past the last one.
        found: the best mappings and the limit; updated.
        work: working memory.

    Returns:
        The unit that it paused in; `end` if all are searched.
    """
    for unit in range(begin, end):
        if not _prove_unit(problem, unit_vector[unit], unit_set[unit], found, work):
            return unit
    return end


@part
def _must_pause(found: Found) -> bool:
    """Counts a look at a tile, and says whether it comes too late."""
    found.ticks[0] -= 1
    return bool(found.ticks[0] < 0 or found.halt[0] != 0)


@part
def _prove_unit(
    problem: Problem,
    v: int,
    inner_set: int,
    found: Found,
    work: Work,
) -> bool:
    """Walks the element tiles of a unit, one dimension after another; False if it paused.

    At depth d the first d + 1 dimensions have their extents, the others are at their smallest.
    """
    tables = problem.tables
    n = tables.sizes.size
    stage = work.paused[STAGE]
    work.paused[STAGE] = FRESH
    unit = unit_of(problem, v, inner_set)
    if stage == FRESH:
        enter_vector(problem, work, v)
    threshold = energy_threshold(found.kind, unit.cycles, found.limit[0], found.limit[1])
    limit_energy, limit_cycles = found.limit[0], found.limit[1]
    vary = groups_vary(tables, work)
    depth = work.paused[DEPTH]
    if stage == FRESH:
        _fix_tiles(tables, work, inner_set, vary)
        start_unit(problem, work, unit, vary)
        if not fits(tables, ELEMENT, inner_set, work.element.extent):
            return True
        depth = 0
        if inner_set == 0 and not vary:
            # Nothing enters the element buffers: their tile makes no difference.
            depth = n - 1
        elif found.part[PART_DEPTH] >= 0:
            depth = _enter_part(tables, found, work)
            if not fits(tables, ELEMENT, inner_set, work.element.extent):
                return True
    while depth >= 0:
        if stage != IN_TILE and _must_pause(found):
            work.paused[STAGE] = BETWEEN_TILES
            work.paused[DEPTH] = depth
            return False
        if depth < n - 1:
            descend = work.bounds.leaves[depth + 1] < FEWEST_LEAVES
            if not descend:
                found.counts[SUBTREES] += 1
                least = subtree_energy(problem, work, inner_set, depth + 1, threshold)
                descend = least < threshold
            if descend:
                depth += 1
                continue
        if depth == n - 1:
            if stage != IN_TILE:
                found.counts[INNER_TILES] += 1
                if vary:
                    charge_groups(problem, work, unit)
                _bound_above(problem, unit, threshold, found, work)
            stage = FRESH
            if not _walk_above(problem, unit, found, work):
                work.paused[STAGE] = IN_TILE
                work.paused[DEPTH] = depth
                return False
            if found.limit[0] != limit_energy or found.limit[1] != limit_cycles:
                limit_energy, limit_cycles = found.limit[0], found.limit[1]
                threshold = energy_threshold(found.kind, unit.cycles, limit_energy, limit_cycles)
            if inner_set == 0 and not vary:
                return True
        depth = _next_element_tile(tables, work, inner_set, depth, found)
    return True


@part
def _enter_part(
    tables: ProofTables,
    found: Found,
    work: Work,
) -> int:
    """Takes the first tiles of a part of a unit, and returns its depth."""
    depth: int = found.part[PART_DEPTH]
    for d in range(depth):
        pick_step(tables, work, d, found.part[PART_PATH + d])
    pick_step(tables, work, depth, found.part[PART_FIRST])
    return depth


@part
def _next_element_tile(
    tables: ProofTables,
    work: Work,
    inner_set: int,
    depth: int,
    found: Found,
) -> int:
    """Takes the next extent of the deepest dimension that has one; returns its depth, or -1."""
    first = max(0, found.part[PART_DEPTH])
    while depth >= first:
        at = tables.divisor_start[depth] + work.element.spatial_at[depth]
        choices = tables.multiple_start[at + 1] - tables.multiple_start[at]
        if depth == found.part[PART_DEPTH]:
            choices = found.part[PART_STOP]
        if work.element.pick[depth] + 1 < choices:
            pick_step(tables, work, depth, work.element.pick[depth] + 1)
            if fits(tables, ELEMENT, inner_set, work.element.extent):
                break
            # Nor do larger extents of this dimension.
        pick_step(tables, work, depth, 0)
        depth -= 1
    return depth if depth >= first else -1


@part
def _bound_above(
    problem: Problem,
    unit: Unit,
    threshold: int,
    found: Found,
    work: Work,
) -> None:
    """Bounds one element tile, and lists the shared buffer's keep sets with which it may win."""
    tables, outer, bounds = problem.tables, problem.outer, work.bounds
    n = tables.sizes.size
    bound_element_tile(problem, work)
    for h in range(n + 1):
        for t in range(tables.sliding.size):
            bounds.loose[h, t] = bounds.inner[h, t]
    cell = cell_of(tables, work.element.step_at)
    survivors = 0
    for k in range(tables.outer_sets.size):
        above = outer.energy[k, cell]
        if above >= INFINITE:
            continue
        outer_set = tables.outer_sets[k]
        loose = least_inner_energy(tables, work, unit.inner_set, outer_set)
        least = work.charges.base[k] + loose + above
        if least >= threshold:
            continue
        if tables.limited:
            slowest = bound_traffic(
                tables, work, unit, outer_set, bounds.inner[n], bounds.outer[n],
                outer.words[k, cell],
            )  # fmt: skip
            if not is_below(found.kind, least, slowest, found.limit[0], found.limit[1]):
                continue
        bounds.live[survivors] = k
        bounds.live_energy[survivors] = loose
        survivors += 1
    work.paused[SURVIVORS] = survivors
    work.paused[SURVIVOR] = 0
    work.paused[OUTER_DEPTH] = -1


@part
def _walk_above(
    problem: Problem,
    unit: Unit,
    found: Found,
    work: Work,
) -> bool:
    """Walks the shared buffer's tiles above an element tile that may win; False if it paused."""
    while work.paused[SURVIVOR] < work.paused[SURVIVORS]:
        s = work.paused[SURVIVOR]
        if not _split_loops(
            problem, unit, work.bounds.live[s], work.bounds.live_energy[s], found, work
        ):
            return False
        work.paused[SURVIVOR] = s + 1
        work.paused[OUTER_DEPTH] = -1
    return True


@part
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
        work.buffer.fixed[d] = int(plain and inner_set != 0)
        for t in range(tables.sliding.size):
            if (inner_set >> t) & 1 and tables.relevant[t, d]:
                work.buffer.fixed[d] = 0


@part
def _split_loops(
    problem: Problem,
    unit: Unit,
    k: int,
    loose: int,
    found: Found,
    work: Work,
) -> bool:
    """Walks the shared buffer's tiles above one element tile, one dimension after another.

    At depth d the first d + 1 dimensions have their extents, the others are at their smallest. The
    least outer cost of what a tile is a multiple of, and the least energy of the words that enter
    the element tile, bound all tiles that are still to come.

    Args:
        problem: the problem.
        unit: the unit in hand.
        k: index of the shared buffer's keep set.
        loose: the least energy of the words that enter the element tile, however the loops split.
        found: the best mappings and the limit; updated.
        work: the element tile, and working memory.

    Returns:
        False if it paused; it goes on from `work.paused`.
    """
    tables, buffer = problem.tables, work.buffer
    n = tables.sizes.size
    outer_set = tables.outer_sets[k]
    depth = work.paused[OUTER_DEPTH]
    if depth < 0:
        depth = 0
        for d in range(n):
            buffer.pick[d] = 0
            buffer.at[d] = work.element.step_at[d]
            buffer.extent[d] = work.element.step[d]
        if not fits(tables, BUFFER, outer_set, buffer.extent):
            return True
    limit_energy, limit_cycles = found.limit[0], found.limit[1]
    threshold = energy_threshold(found.kind, unit.cycles, limit_energy, limit_cycles)
    while depth >= 0:
        if _must_pause(found):
            work.paused[OUTER_DEPTH] = depth
            return False
        cell = cell_of(tables, buffer.at)
        above = work.charges.base[k] + problem.outer.energy[k, cell]
        if above + loose < threshold and _split_may_win(
            problem, unit, k, cell, depth + 1, threshold, found, work
        ):
            if depth < n - 1:
                depth += 1
                continue
            found.counts[OUTER_TILES] += 1
            _try_tiling(problem, unit, k, threshold, found, work)
            if found.limit[0] != limit_energy or found.limit[1] != limit_cycles:
                limit_energy, limit_cycles = found.limit[0], found.limit[1]
                threshold = energy_threshold(found.kind, unit.cycles, limit_energy, limit_cycles)
        depth = _next_buffer_tile(tables, work, outer_set, depth)
    return True


@part
def _next_buffer_tile(
    tables: ProofTables,
    work: Work,
    outer_set: int,
    depth: int,
) -> int:
    """Takes the next extent of the deepest dimension that has one; returns its depth, or -1."""
    buffer = work.buffer
    while depth >= 0:
        at = tables.divisor_start[depth] + work.element.step_at[depth]
        choices = tables.multiple_start[at + 1] - tables.multiple_start[at]
        if buffer.pick[depth] + 1 < choices and not buffer.fixed[depth]:
            _pick_extent(tables, work, depth, buffer.pick[depth] + 1)
            if fits(tables, BUFFER, outer_set, buffer.extent):
                break
        _pick_extent(tables, work, depth, 0)
        depth -= 1
    return depth


@part
def _split_may_win(
    problem: Problem,
    unit: Unit,
    k: int,
    cell: int,
    chosen: int,
    threshold: int,
    found: Found,
    work: Work,
) -> bool:
    """Whether a tiling may win of which the shared buffer's tile has its first extents.

    Above a loop of the shared buffer that moves a tensor, DRAM's loops bring whole tiles even
    where they leave the tensor at rest; both are known of the first `chosen` dimensions.

    Args:
        problem: the problem.
        unit: the unit in hand.
        k: index of the shared buffer's keep set.
        cell: the lattice cell of the shared buffer's tile.
        chosen: how many dimensions of the shared buffer's tile have their extent.
        threshold: energy to stay below.
        found: the limit.
        work: the tiles, and the bounds of the element tile.
    """
    tables, bounds = problem.tables, work.bounds
    n = tables.sizes.size
    outer_set = tables.outer_sets[k]
    above = work.charges.base[k] + problem.outer.energy[k, cell]
    _hold_chosen(tables, work, chosen)
    looped = False
    for d in range(n):
        looped = looped or work.element.trips[d] > 1
    for h in range(n + 1):
        if (h == n) == looped or (h < n and work.element.trips[h] == 1):
            continue
        energy = above
        for t in range(tables.sliding.size):
            if (unit.inner_set >> t) & 1:
                bounds.entering[t] = bounds.loose[h, t]
                if h < n and not tables.relevant[t, h]:
                    bounds.entering[t] *= bounds.held[t]
                case = case_of(t, unit.inner_set, outer_set)
                energy += work.charges.inner[t, case] * bounds.entering[t]
        if energy >= threshold:
            continue
        if not tables.limited:
            return True
        # Energy and cycles for the same innermost loop: what is good for one may be bad for both.
        slowest = bound_traffic(
            tables, work, unit, outer_set, bounds.entering, bounds.outer[n],
            problem.outer.words[k, cell],
        )  # fmt: skip
        if is_below(found.kind, energy, slowest, found.limit[0], found.limit[1]):
            return True
    return False


@part
def _hold_chosen(
    tables: ProofTables,
    work: Work,
    chosen: int,
) -> None:
    """Fills the trips that cannot be credited, as far as the first dimensions tell."""
    for t in range(tables.sliding.size):
        work.bounds.held[t] = 1
        moves = False
        brought = 1
        for d in range(chosen):
            if tables.relevant[t, d]:
                moves = moves or work.buffer.extent[d] > work.element.step[d]
            else:
                brought *= tables.sizes[d] // work.buffer.extent[d]
        if moves:
            work.bounds.held[t] = brought


@part
def _pick_extent(
    tables: ProofTables,
    work: Work,
    d: int,
    pick: int,
) -> None:
    """Sets the shared buffer's tile along a dimension."""
    buffer = work.buffer
    at = tables.divisor_start[d] + work.element.step_at[d]
    buffer.pick[d] = pick
    buffer.at[d] = tables.multiples[tables.multiple_start[at] + pick]
    buffer.extent[d] = tables.divisors[tables.divisor_start[d] + buffer.at[d]]


@part
def _try_tiling(
    problem: Problem,
    unit: Unit,
    k: int,
    threshold: int,
    found: Found,
    work: Work,
) -> None:
    """Tries the orders of the tiling in hand, if its bound lets it pass."""
    tables = problem.tables
    both, least_outer, inner_loops, outer_loops = bound_tiling(
        problem, work, unit.inner_set, tables.outer_sets[k]
    )
    if work.charges.base[k] + both >= threshold:
        return
    if tables.limited and not _orders_may_win(
        tables, unit, k, inner_loops, outer_loops, threshold, found, work
    ):
        return
    found.counts[TILINGS] += 1
    order_loops(tables, unit, k, inner_loops, outer_loops, least_outer, found, work)


@part
def _orders_may_win(
    tables: ProofTables,
    unit: Unit,
    k: int,
    inner_loops: int,
    outer_loops: int,
    threshold: int,
    found: Found,
    work: Work,
) -> bool:
    """Whether energy and cycles of the tiling in hand may win for any pair of innermost loops."""
    n = tables.sizes.size
    bounds, outer_set = work.bounds, tables.outer_sets[k]
    for h in range(n + 1):
        stands = inner_loops == 0 if h == n else work.buffer.extent[h] > work.element.step[h]
        for g in range(n + 1):
            stands_outer = outer_loops == 0 if g == n else work.buffer.trips[g] > 1
            if not stands_outer or (inner_loops > 0 and not stands):
                continue
            # Without loops of the shared buffer the same loop is innermost for both.
            if inner_loops == 0 and h != g:
                continue
            energy = work.charges.base[k]
            for t in range(tables.sliding.size):
                case = case_of(t, unit.inner_set, outer_set)
                if (unit.inner_set >> t) & 1:
                    energy += work.charges.inner[t, case] * bounds.inner[h, t]
                if (outer_set >> t) & 1:
                    energy += outer_charge(tables, t) * bounds.outer[g, t]
            if energy >= threshold:
                continue
            slowest = bound_traffic(
                tables, work, unit, outer_set, bounds.inner[h], bounds.outer[g], -1
            )
            if is_below(found.kind, energy, slowest, found.limit[0], found.limit[1]):
                return True
    return False
