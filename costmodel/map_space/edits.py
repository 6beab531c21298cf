"""Compiled edits of mappings: each attribute has numbered edits, of which a caller picks one.

Unlike the moves of `costmodel.map_space.moves` nothing is random here, and a number means the same
edit in every mapping of a space: primes, slots, loops, tensors and dimensions are named by the
number, not found in the mapping. Number 0 keeps an attribute; the others are, in this order,

    tiling: per distinct prime of the dimension, ascending, and per ordered pair of slots: move that
        prime once from the first slot to the second;
    order, spatial-order: per pair of dimensions: swap their loops;
    banks: per ordered pair of tensors: give one bank of the first to the second;
    keep: per tensor: keep it if it bypasses the level, and the reverse;
    spatial-axis: per dimension: to the other mesh axis.

Pairs are in lexicographic order. Letters as in `costmodel.arrays.tables`.
"""

from __future__ import annotations

import numpy as np

from costmodel.arrays.feasibility import check_mapping
from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import lean, part
from costmodel.costs import STATUS_OK
from costmodel.map_space.moves import allocation_row, exact_row, order_index, shift_factor
from costmodel.space import Codes

_TILING, _ORDER, _SPATIAL_ORDER, _BANKS, _KEEP, _SPATIAL_AXIS = range(6)
_NUMBERS = {
    "tiling": _TILING,
    "order": _ORDER,
    "spatial-order": _SPATIAL_ORDER,
    "banks": _BANKS,
    "keep": _KEEP,
    "spatial-axis": _SPATIAL_AXIS,
}


def number_kinds(kinds: tuple[str, ...]) -> Array:
    """The kinds of attributes, `[D]`, as `edit_mappings` reads them."""
    return np.array([_NUMBERS[kind] for kind in kinds], dtype=np.int64)


def count_edits(tables: NestTables, kinds: tuple[str, ...]) -> Array:
    """Number of edits of each attribute, `[D]`, the one that keeps it included.

    Args:
        tables: the map space.
        kinds: `[D]` kind of each attribute.
    """
    n, slots, tensors = tables.sizes.size, tables.slot_level.size, tables.sliding.size
    swaps = n * (n - 1) // 2
    others = {
        "order": swaps,
        "spatial-order": swaps,
        "banks": tensors * (tensors - 1),
        "keep": tensors,
        "spatial-axis": n,
    }
    counts = []
    for column, kind in enumerate(kinds):
        if kind == "tiling":
            primes = np.unique(tables.prime_value[tables.prime_dimension == column])
            counts.append(1 + primes.size * slots * (slots - 1))
        else:
            counts.append(1 + others[kind])
    return np.array(counts, dtype=np.int64)


@part
def _ordered_pair(number: int, count: int) -> tuple[int, int]:
    """Two different places among `count`, in either order."""
    first = number // (count - 1)
    second = number % (count - 1)
    if second >= first:
        second += 1
    return first, second


@part
def _unordered_pair(number: int, count: int) -> tuple[int, int]:
    """Two different places among `count`, the lower first."""
    first = 0
    while number >= count - 1 - first:
        number -= count - 1 - first
        first += 1
    return first, first + 1 + number


@part
def _distinct_prime(tables: NestTables, d: int, number: int) -> int:
    """The distinct prime of dimension d with so many smaller ones."""
    prime = 0
    for k in range(tables.prime_value.size):
        if tables.prime_dimension[k] != d or tables.prime_value[k] == prime:
            continue
        prime = tables.prime_value[k]
        if number == 0:
            break
        number -= 1
    return prime


@part
def _move_prime(tables: NestTables, d: int, value: int, number: int, work: Array) -> int:
    """Tiling d with a prime in another slot; -1 if there is none to take, or no such tiling."""
    slots = tables.slot_level.size
    prime = _distinct_prime(tables, d, number // (slots * (slots - 1)))
    source, target = _ordered_pair(number % (slots * (slots - 1)), slots)
    row = tables.row_start[d] + value
    for s in range(slots):
        work[s] = tables.factors[row, s]
    if tables.imperfect:
        found = shift_factor(tables, d, prime, source, target, work[:slots])
        return found - tables.row_start[d] if found >= 0 else -1
    if work[source] % prime != 0:
        return -1
    work[source] //= prime
    work[target] *= prime
    found = exact_row(tables, d, work[:slots])
    return found - tables.row_start[d] if found >= 0 else -1


@part
def _swap_loops(tables: NestTables, value: int, number: int, work: Array) -> int:
    """An order with the loops of two dimensions exchanged."""
    n = tables.sizes.size
    first, second = _unordered_pair(number, n)
    for position in range(n):
        work[position] = tables.orders[value, position]
    work[tables.ranks[value, first]] = second
    work[tables.ranks[value, second]] = first
    return order_index(work[:n])


@part
def _shift_bank(tables: NestTables, column: int, value: int, number: int, work: Array) -> int:
    """An allocation with one bank given to another tensor; -1 if it is the tensor's last.

    A tensor without a bank is in no row of the table.
    """
    level = 0
    while tables.banks_column[level] != column:
        level += 1
    tensors = tables.sliding.size
    source, target = _ordered_pair(number, tensors)
    row = tables.allocation_start[level] + value
    for t in range(tensors):
        work[t] = tables.allocations[row, t]
    work[source] -= 1
    work[target] += 1
    return allocation_row(tables, level, work[:tensors])


@part
def _edited(
    tables: NestTables, kind: int, column: int, value: int, number: int, work: Array
) -> int:
    """Value of a column after edit `number`, counted without the one that keeps it; -1: none."""
    if kind == _TILING:
        return _move_prime(tables, column, value, number, work)
    if kind in (_ORDER, _SPATIAL_ORDER):
        return _swap_loops(tables, value, number, work)
    if kind == _BANKS:
        return _shift_bank(tables, column, value, number, work)
    return value ^ (1 << number)


@lean
def edit_mappings(
    tables: NestTables,
    kinds: Array,
    scratch: Scratch,
    work: Array,
    codes: Codes,
    pending: Array,
) -> None:
    """Edits codes `[B, D]` in place, column by column, keeping feasible mappings feasible.

    Args:
        tables: the map space.
        kinds: `[D]` as `number_kinds` has them.
        scratch: working memory of the check.
        work: at least `[max(S, n, T)]`, overwritten.
        codes: `[B, D]`.
        pending: `[B, D]` edit of each attribute; what is done or cannot be made turns 0, so that
            only edits that would have left a feasible mapping infeasible remain.
    """
    for b in range(codes.shape[0]):
        status, _ = check_mapping(tables, codes[b], scratch.rows, scratch.kept, scratch.tile)
        guarded = status == STATUS_OK
        # Twice: what was refused for want of room may fit once later columns have made room.
        for _ in range(2):
            refused = False
            for column in range(codes.shape[1]):
                if pending[b, column] == 0:
                    continue
                kind = kinds[column]
                before = codes[b, column]
                after = _edited(tables, kind, column, before, pending[b, column] - 1, work)
                if after >= 0:
                    codes[b, column] = after
                    # Orders of loops take no room.
                    if guarded and kind not in (_ORDER, _SPATIAL_ORDER):
                        status, _ = check_mapping(
                            tables, codes[b], scratch.rows, scratch.kept, scratch.tile
                        )
                        if status != STATUS_OK:
                            codes[b, column] = before
                            refused = True
                            continue
                pending[b, column] = 0
            if not refused:
                break
