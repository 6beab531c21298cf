"""Lower bounds on the words that enter a tile, over every order of the loops above it.

The cost model charges V words (the whole tile) for a step of a loop, or D <= V for a *credited*
step: one that moves the tile as the innermost loop does. With T the product of all trip counts and
N that of the loops that are not credited, the words are at least T x D + N x (V - D): lemma 1 of
docs/inside/proof.md. Everything here bounds N from below, given the dimension of the innermost
loop. Per axis of the tensor the bound is a product, so an axis of several terms (P + R) needs only
the least product of uncredited trips over the orders of its own loops: the *credit tables*.

Letters: n dimensions, T tensors, X axes of all tensors; kind 0 of a credit table stands for an
innermost loop that does not move the tensor, kind 1 + k for one over the axis's term k.
"""

from __future__ import annotations

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.exact.objective import INFINITE
from costmodel.exact.problem import ProofTables
from costmodel.exact.structures import OuterTables
from costmodel.exact.workspace import AxisLoops, Bounds, Work


@part
def least_uncredited(
    loops: AxisLoops,
    count: int,
    first: int,
) -> int:
    """Least product of uncredited trips over the orders of the loops of one axis.

    How far the loops inside a loop have moved the axis depends on which they are, not on their
    order: so this is a shortest path over subsets.

    Args:
        loops: the loops.
        count: how many there are.
        first: the innermost loop of the nest, or -1 where that is one that does not move the axis.
    """
    step, trip, is_inner, least = loops.step, loops.trip, loops.inner, loops.least
    everything = (1 << count) - 1
    inner = 0
    for j in range(count):
        inner |= is_inner[j] << j
    product = 1
    for j in range(count):
        product *= trip[j]
    for chosen in range(everything + 1):
        least[chosen] = product
    if first >= 0:
        if is_inner[first] == 0 and inner != 0:
            return product
        least[1 << first] = 1
    else:
        least[0] = 1
    for chosen in range(1, everything + 1):
        if first >= 0 and ((chosen >> first) & 1 == 0 or chosen == 1 << first):
            continue
        for j in range(count):
            if (chosen >> j) & 1 == 0 or j == first:
                continue
            before = chosen ^ (1 << j)
            if is_inner[j] == 0 and before & inner != inner:
                continue
            moved = 0 if first < 0 else step[first]
            for i in range(count):
                if (before >> i) & 1:
                    moved += step[i]
            cost = 1 if before != 0 and step[j] == moved else trip[j]
            least[chosen] = min(least[chosen], least[before] * cost)
    return int(least[everything])


@part
def split_credit(
    tables: ProofTables,
    loops: AxisLoops,
    axis: int,
    kind: int,
    below: Array,
    middle: Array,
) -> int:
    """Least product of uncredited trips of an axis, for one split of the loops over two levels.

    Args:
        tables: the problem.
        loops: scratch.
        axis: index among the axes of all tensors.
        kind: of the credit table.
        below: `[n]` extent that one iteration of the inner level's loops steps over.
        middle: `[n]` extent that one iteration of the outer level's loops steps over.
    """
    step, trip, is_inner = loops.step, loops.trip, loops.inner
    count = 0
    first = -1
    begin = tables.term_start[axis]
    for k in range(begin, tables.term_start[axis + 1]):
        d = tables.term_dimension[k]
        wanted = kind == 1 + k - begin
        if middle[d] > below[d]:
            step[count] = tables.term_coefficient[k] * below[d]
            trip[count] = middle[d] // below[d]
            is_inner[count] = 1
            if wanted:
                first = count
                wanted = False
            count += 1
        if tables.sizes[d] > middle[d]:
            step[count] = tables.term_coefficient[k] * middle[d]
            trip[count] = tables.sizes[d] // middle[d]
            is_inner[count] = 0
            if wanted:
                first = count
                wanted = False
            count += 1
    if kind > 0 and first < 0:
        # The innermost loop cannot be over a dimension that has no loop: never asked for.
        return 1
    return least_uncredited(loops, count, first)


@lean
def fill_credit_tables(
    tables: ProofTables,
    outer: OuterTables,
    work: Work,
    axis: int,
    first: int,
    last: int,
) -> None:
    """Fills a part of the credit tables of an axis of several terms.

    That is the least over every split of the loops between the two levels, and the one for loops
    of the outer level alone, both by the extents below.

    Args:
        tables: the problem.
        outer: takes them.
        work: scratch.
        axis: the axis.
        first: the first cell of its own lattice.
        last: past the last one.
    """
    extent, middle, position = work.element.extent, work.buffer.extent, work.buffer.at
    begin, end = tables.term_start[axis], tables.term_start[axis + 1]
    cells = tables.credit_cells[axis]
    for cell in range(first, last):
        for k in range(begin, end):
            d = tables.term_dimension[k]
            own = tables.divisor_start[d + 1] - tables.divisor_start[d]
            position[d] = cell // tables.credit_stride[k] % own
            extent[d] = tables.divisors[tables.divisor_start[d] + position[d]]
        for kind in range(1 + end - begin):
            where = tables.credit_start[axis] + kind * cells + cell
            best = split_credit(tables, work.axis, axis, kind, extent, extent)
            outer.outer[where] = best
            for other in range(cells):
                above = True
                for k in range(begin, end):
                    d = tables.term_dimension[k]
                    own = tables.divisor_start[d + 1] - tables.divisor_start[d]
                    wider = other // tables.credit_stride[k] % own
                    middle[d] = tables.divisors[tables.divisor_start[d] + wider]
                    if middle[d] % extent[d] != 0:
                        above = False
                        break
                if above:
                    best = min(best, split_credit(tables, work.axis, axis, kind, extent, middle))
            outer.loose[where] = best


@part
def look_up_credits(
    tables: ProofTables,
    table: Array,
    position: Array,
    credit: Array,
) -> None:
    """Fills credit `[X, 1 + n]` for the tile at position `[n]` from a credit table."""
    for axis in range(tables.credit_start.size):
        if tables.credit_start[axis] < 0:
            continue
        begin, end = tables.term_start[axis], tables.term_start[axis + 1]
        where = tables.credit_start[axis]
        for k in range(begin, end):
            where += tables.credit_stride[k] * position[tables.term_dimension[k]]
        for kind in range(1 + end - begin):
            credit[axis, kind] = table[where + kind * tables.credit_cells[axis]]


@part
def tile_words(
    tables: ProofTables,
    t: int,
    extent: Array,
) -> int:
    """Words of tensor t's tile (its bounding box) with these extents `[n]`."""
    words = 1
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        length = 1
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            length += tables.term_coefficient[k] * (extent[tables.term_dimension[k]] - 1)
        words *= length
    return words


@part
def bound_entering(
    tables: ProofTables,
    known: Bounds,
    extent: Array,
    step: Array,
    trips: Array,
    bound: Array,
) -> None:
    """Bounds the words that enter a tile, per dimension of the innermost loop above it.

    Args:
        tables: the problem.
        known: credits, and trips that cannot be credited.
        extent: `[n]` of the tile.
        step: `[n]` extent that the innermost loop of a dimension steps over.
        trips: `[n]` product of the trip counts of each dimension's loops above the tile.
        bound: `[n + 1, T]` result; row h where the innermost loop is over h, row n where there is
            no loop at all. Rows of dimensions without a loop mean nothing.
    """
    n = tables.sizes.size
    credit, held = known.credit, known.held
    total = 1
    for d in range(n):
        total *= trips[d]
    for t in range(tables.sliding.size):
        words = 1
        moving = 1
        whole = 1
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            length = 1
            for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
                d = tables.term_dimension[k]
                length += tables.term_coefficient[k] * (extent[d] - 1)
                moving *= trips[d]
                whole *= trips[d]
            words *= length
            whole *= length
        resting = total // moving
        bound[n, t] = words
        if tables.sliding[t] == 0:
            for h in range(n):
                bound[h, t] = whole * (resting if tables.relevant[t, h] else held[t])
            continue
        at_rest = whole
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            if tables.credit_start[axis] < 0:
                for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
                    bound[tables.term_dimension[k], t] = whole * resting
                continue
            length = 1
            along = 1
            for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
                d = tables.term_dimension[k]
                length += tables.term_coefficient[k] * (extent[d] - 1)
                along *= trips[d]
            others = whole // (length * along)
            at_rest = min(at_rest, others * length * credit[axis, 0])
            for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
                d = tables.term_dimension[k]
                shift = min(length, tables.term_coefficient[k] * step[d])
                uncredited = credit[axis, 1 + k - tables.term_start[axis]]
                moved = shift * along + (length - shift) * uncredited
                bound[d, t] = others * moved * resting
        for h in range(n):
            if tables.relevant[t, h] == 0:
                bound[h, t] = at_rest * held[t]


@part
def least_along(
    tables: ProofTables,
    loose: Array,
    axis: int,
    spatial_at: Array,
    step_at: Array,
    chosen: int,
) -> int:
    """Least share of an axis in the words that enter an element tile, over the extents left open.

    Args:
        tables: the problem.
        loose: credit tables over every split of the loops.
        axis: index among the axes of all tensors.
        spatial_at: `[n]` positions of the spatial factors.
        step_at: `[n]` positions of what the loops above the tile step over.
        chosen: dimensions before this one have their step; the others may take any.
    """
    begin, end = tables.term_start[axis], tables.term_start[axis + 1]
    combinations = 1
    for k in range(begin, end):
        d = tables.term_dimension[k]
        own = tables.divisor_start[d] + spatial_at[d]
        if d >= chosen:
            combinations *= tables.multiple_start[own + 1] - tables.multiple_start[own]
    best = INFINITE
    for combination in range(combinations):
        # Twice over the terms: the whole axis first, then what a step of each term moves.
        length = 1
        along = 1
        cell = 0
        rest = combination
        for k in range(begin, end):
            d = tables.term_dimension[k]
            own = tables.divisor_start[d] + spatial_at[d]
            position = step_at[d]
            if d >= chosen:
                choices = tables.multiple_start[own + 1] - tables.multiple_start[own]
                position = tables.multiples[tables.multiple_start[own] + rest % choices]
                rest //= choices
            step = tables.divisors[tables.divisor_start[d] + position]
            length += tables.term_coefficient[k] * (step // tables.divisors[own] - 1)
            along *= tables.sizes[d] // step
            cell += tables.credit_stride[k] * position
        if tables.credit_start[axis] < 0:
            best = min(best, length * along)
            continue
        where = tables.credit_start[axis] + cell
        best = min(best, length * min(along, loose[where]))
        for k in range(begin, end):
            d = tables.term_dimension[k]
            own = cell // tables.credit_stride[k]
            own %= tables.divisor_start[d + 1] - tables.divisor_start[d]
            step = tables.divisors[tables.divisor_start[d] + own]
            if step == tables.sizes[d]:
                continue
            shift = min(length, tables.term_coefficient[k] * step)
            uncredited = loose[where + (1 + k - begin) * tables.credit_cells[axis]]
            best = min(best, shift * along + (length - shift) * uncredited)
    return best
