"""Compiled moves and projection in a loop-nest map space.

Letters as in `costmodel.arrays.tables`. Random numbers are passed in as uniforms, so that
the generator stays the caller's.
"""

from __future__ import annotations

import itertools

import numpy as np

from costmodel.arrays.feasibility import check_mapping
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import compiled
from costmodel.costs import STATUS_CAPACITY, STATUS_FANOUT, STATUS_OK, FloatArray
from costmodel.space import Codes

UNIFORMS_PER_MOVE = 5


@compiled
def find_row(
    tables: NestTables,
    d: int,
    factors: Array,
) -> int:
    """Row of dimension d's factorisation with these factors `[S]`, by binary search.

    Where constraints exclude it, one that they leave and that is near in the table.
    """
    low = tables.row_start[d]
    high = tables.row_start[d + 1] - 1
    while low < high:
        middle = (low + high) // 2
        before = False
        for s in range(factors.size):
            if tables.factors[middle, s] != factors[s]:
                before = tables.factors[middle, s] < factors[s]
                break
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def exact_row(
    tables: NestTables,
    d: int,
    factors: Array,
) -> int:
    """Row of dimension d's factorisation with these factors `[S]`; -1 if it has no such row."""
    row = find_row(tables, d, factors)
    for s in range(factors.size):
        if tables.factors[row, s] != factors[s]:
            return -1
    return row


@compiled
def shift_factor(
    tables: NestTables,
    d: int,
    prime: int,
    source: int,
    target: int,
    factors: Array,
) -> int:
    """Row of an imperfect factorisation with a prime in another slot; -1 if there is none.

    The outermost slot gives and takes what there is: its loop runs as often as it must.

    Args:
        tables: the map space.
        d: the dimension.
        prime: what `source` is divided and `target` multiplied by.
        source: a slot that the prime divides, or the outermost.
        target: another slot.
        factors: `[S]` the factorisation, overwritten.
    """
    if source > 0:
        if factors[source] % prime != 0:
            return -1
        factors[source] //= prime
    if target > 0:
        factors[target] *= prime
    block = 1
    for s in range(factors.size):
        block *= factors[s]
    leading = True
    for s in range(factors.size):
        block //= factors[s]
        if leading:
            factors[s] = -(-tables.sizes[d] // block)
            leading = factors[s] == 1
    row: int = exact_row(tables, d, factors)
    return row


@compiled
def order_index(
    order: Array,
) -> int:
    """Lexicographic index of a permutation `[n]` among all of them."""
    n = order.size
    index = 0
    for i in range(n):
        smaller = 0
        for j in range(i + 1, n):
            smaller += order[j] < order[i]
        index = index * (n - i) + smaller
    return index


@compiled
def allocation_row(
    tables: NestTables,
    level: int,
    banks: Array,
) -> int:
    """Row of a level's bank allocation `[T]` in the allocation table, by search."""
    for row in range(tables.allocation_start[level], tables.allocation_start[level + 1]):
        same = True
        for t in range(banks.size):
            if tables.allocations[row, t] != banks[t]:
                same = False
                break
        if same:
            return row - tables.allocation_start[level]
    return -1


@compiled
def move_prime(
    tables: NestTables,
    code: Codes,
    uniforms: FloatArray,
) -> bool:
    """Moves one prime factor of one dimension from one slot to another; False if it cannot."""
    if tables.prime_value.size == 0:
        return False
    slots = tables.slot_level.size
    pick = int(uniforms[1] * tables.prime_value.size)
    d = tables.prime_dimension[pick]
    prime = tables.prime_value[pick]
    factors = tables.factors[tables.row_start[d] + code[d]].copy()
    if tables.imperfect:
        source = int(uniforms[2] * slots)
        target = (source + 1 + int(uniforms[3] * (slots - 1))) % slots
        row = shift_factor(tables, d, prime, source, target, factors)
        if row >= 0:
            code[d] = row - tables.row_start[d]
        return row >= 0
    # The slots that hold the prime, as often as they hold it: every factor is as likely to move.
    holders = 0
    for s in range(slots):
        rest = factors[s]
        while rest % prime == 0:
            holders += 1
            rest //= prime
    chosen = int(uniforms[2] * holders)
    source = 0
    for s in range(slots):
        rest = factors[s]
        while rest % prime == 0:
            if chosen == 0:
                source = s
            chosen -= 1
            rest //= prime
    target = (source + 1 + int(uniforms[3] * (slots - 1))) % slots
    if target == source:
        return False
    factors[source] //= prime
    factors[target] *= prime
    row = exact_row(tables, d, factors)
    if row < 0:
        return False
    code[d] = row - tables.row_start[d]
    return True


@compiled
def swap_loops(
    tables: NestTables,
    code: Codes,
    column: int,
    uniforms: FloatArray,
) -> bool:
    """Exchanges two dimensions in the order that a column holds."""
    n = tables.sizes.size
    if n < 2:
        return False
    first = int(uniforms[2] * n)
    second = (first + 1 + int(uniforms[3] * (n - 1))) % n
    order = tables.orders[code[column]].copy()
    order[first], order[second] = order[second], order[first]
    code[column] = order_index(order)
    return True


@compiled
def shift_bank(
    tables: NestTables,
    level: int,
    code: Codes,
    uniforms: FloatArray,
) -> bool:
    """Gives one bank of a tensor to another; False if the tensor has only one."""
    column = tables.banks_column[level]
    banks = tables.allocations[tables.allocation_start[level] + code[column]].copy()
    tensors = banks.size
    if tensors < 2:
        return False
    source = int(uniforms[2] * tensors)
    target = (source + 1 + int(uniforms[3] * (tensors - 1))) % tensors
    if banks[source] <= 1:
        return False
    banks[source] -= 1
    banks[target] += 1
    code[column] = allocation_row(tables, level, banks)
    return True


@compiled
def flip_bit(
    code: Codes,
    column: int,
    bits: int,
    uniforms: FloatArray,
) -> bool:
    """Flips one bit of a column: a tensor is kept or bypassed, a dimension changes mesh axis."""
    code[column] ^= 1 << int(uniforms[2] * bits)
    return True


@compiled
def mutate(
    tables: NestTables,
    codes: Codes,
    weights: FloatArray,
    uniforms: FloatArray,
) -> None:
    """One random move in each row of codes `[B, D]`, in place.

    Args:
        tables: the map space.
        codes: `[B, D]` int32.
        weights: `[6]` cumulative probability of: tiling, order, banks, keep, spatial order, axis.
        uniforms: `[B, UNIFORMS_PER_MOVE]` in [0, 1).
    """
    levels = tables.capacity.size
    n = tables.sizes.size
    for b in range(codes.shape[0]):
        draw = uniforms[b]
        kind = 0
        while kind < 5 and draw[0] >= weights[kind]:
            kind += 1
        if kind == 0:
            move_prime(tables, codes[b], draw)
            continue
        if kind == 1:
            columns = tables.order_column
        elif kind == 2:
            columns = tables.banks_column
        elif kind == 3:
            columns = tables.keep_column
        elif kind == 4:
            columns = tables.spatial_order_column
        else:
            columns = tables.spatial_axis_column
        present = 0
        for level in range(levels):
            present += columns[level] >= 0
        chosen = int(draw[1] * present)
        for level in range(levels):
            if columns[level] < 0:
                continue
            if chosen == 0:
                if kind == 1 or kind == 4:
                    swap_loops(tables, codes[b], columns[level], draw)
                elif kind == 2:
                    shift_bank(tables, level, codes[b], draw)
                elif kind == 3:
                    flip_bit(codes[b], columns[level], tables.sliding.size, draw)
                else:
                    flip_bit(codes[b], columns[level], n, draw)
            chosen -= 1


@compiled
def _nearest_row(
    tables: NestTables,
    d: int,
    point: FloatArray,
    limit: int,
    needed_slot: int,
    spatial: bool,
) -> tuple[int, float]:
    """Factorisation of dimension d nearest to a point `[S]`, and its squared distance.

    Only rows whose tiles are nowhere larger than those of row `limit` (-1: any row) count, and,
    if `needed_slot` >= 0, whose tile there (with `spatial`, factor there) is truly smaller.
    """
    best = -1
    best_distance = np.inf
    slots = point.size
    for row in range(tables.row_start[d], tables.row_start[d + 1]):
        if limit >= 0:
            fits = True
            for s in range(slots):
                if tables.within[row, s] > tables.within[limit, s]:
                    fits = False
                    break
                if tables.slot_spatial[s] and tables.factors[row, s] > tables.factors[limit, s]:
                    fits = False
                    break
            if fits and needed_slot >= 0:
                if spatial:
                    fits = tables.factors[row, needed_slot] < tables.factors[limit, needed_slot]
                else:
                    fits = tables.within[row, needed_slot] < tables.within[limit, needed_slot]
            if not fits:
                continue
        distance = 0.0
        for s in range(slots):
            difference = point[s] - tables.factors[row, s]
            distance += difference * difference
        if distance < best_distance:
            best_distance = distance
            best = row
    return best, best_distance


@compiled
def project_tilings(
    tables: NestTables,
    points: FloatArray,
    codes: Codes,
) -> None:
    """Sets the tilings of codes `[B, D]` to those nearest to points `[B, S, n]`, then repairs.

    While a mapping asks for too many processing elements or words, the dimension whose next
    smaller factorisation lies nearest to the point gives way. The other columns of the codes
    (orders, banks, kept tensors, mesh axes) must be set already and stay as they are.
    """
    n = tables.sizes.size
    levels = tables.capacity.size
    tensors = tables.sliding.size
    slots = tables.slot_level.size
    rows = np.empty(n, np.int64)
    kept = np.empty((levels, tensors), np.uint8)
    tile = np.empty((levels, tensors), np.int64)
    point = np.empty((n, slots))
    current = np.empty(n)
    for b in range(codes.shape[0]):
        for d in range(n):
            for s in range(slots):
                point[d, s] = points[b, s, d]
            row, current[d] = _nearest_row(tables, d, point[d], -1, -1, False)
            codes[b, d] = row - tables.row_start[d]
        while True:
            status, _ = check_mapping(tables, codes[b], rows, kept, tile)
            if status == STATUS_OK:
                break
            best = -1
            best_row = -1
            best_added = np.inf
            best_distance = 0.0
            for d in range(n):
                for level in range(levels):
                    if status == STATUS_FANOUT:
                        slot = tables.spatial_slot[level]
                        if slot < 0:
                            continue
                    elif level == status - STATUS_CAPACITY:
                        slot = tables.temporal_slot[level]
                    else:
                        continue
                    row, distance = _nearest_row(
                        tables, d, point[d], rows[d], slot, status == STATUS_FANOUT
                    )
                    if row >= 0 and distance - current[d] < best_added:
                        best_added = distance - current[d]
                        best, best_row, best_distance = d, row, distance
            if best < 0:
                break
            codes[b, best] = best_row - tables.row_start[best]
            current[best] = best_distance


@compiled
def order_indices(
    ranks: FloatArray,
) -> Array:
    """Indices `[B]` of the permutations that sort ranks `[B, n]`, equal ranks in given order."""
    indices = np.empty(ranks.shape[0], np.int64)
    for b in range(ranks.shape[0]):
        indices[b] = order_index(np.argsort(ranks[b], kind="mergesort"))
    return indices


def neighbours(tables: NestTables, kinds: tuple[str, ...], code: Codes) -> Codes:
    """Every code one move away from a code `[D]`, `[M, D]` without repeats.

    Args:
        tables: the map space.
        kinds: `[D]` kind of each attribute.
        code: `[D]`.
    """
    n, slots = tables.sizes.size, tables.slot_level.size
    found: list[Codes] = []

    def changed(column: int, value: int) -> None:
        found.append(code.copy())
        found[-1][column] = value

    distinct = zip(tables.prime_dimension.tolist(), tables.prime_value.tolist(), strict=True)
    for d, prime in sorted(set(distinct)):
        factors = tables.factors[tables.row_start[d] + code[d]]
        for source, target in itertools.permutations(range(slots), 2):
            if tables.imperfect:
                row = shift_factor(tables, d, prime, source, target, factors.copy())
                if row >= 0 and row != tables.row_start[d] + code[d]:
                    changed(d, row - tables.row_start[d])
            elif factors[source] % prime == 0:
                moved = factors.copy()
                moved[source] //= prime
                moved[target] *= prime
                row = exact_row(tables, d, moved)
                if row >= 0:
                    changed(d, row - tables.row_start[d])
    for column, kind in enumerate(kinds):
        if kind in ("order", "spatial-order"):
            for first, second in itertools.combinations(range(n), 2):
                order = tables.orders[code[column]].copy()
                order[[first, second]] = order[[second, first]]
                changed(column, order_index(order))
        elif kind in ("keep", "spatial-axis"):
            for bit in range(tables.sliding.size if kind == "keep" else n):
                changed(column, int(code[column]) ^ (1 << bit))
    for level, column in enumerate(tables.banks_column):
        if column < 0:
            continue
        banks = tables.allocations[tables.allocation_start[level] + code[column]]
        for source, target in itertools.permutations(range(banks.size), 2):
            if banks[source] > 1:
                shifted = banks.copy()
                shifted[source] -= 1
                shifted[target] += 1
                changed(column, allocation_row(tables, level, shifted))
    if tables.imperfect and found:
        return np.unique(np.stack(found), axis=0)
    return np.stack(found) if found else np.empty((0, code.size), np.int32)
