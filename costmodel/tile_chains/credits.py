"""Compiled: the fewest steps along an axis of several terms that no order of loops gets credited.

Where windows slide, a step that moves the tile just as the innermost loop does is charged for what
is new alone. How far the axis has been moved by the loops inside a loop decides that, so that all
sequences of loops over the axis's dimensions are looked at, from a tile outwards. A loop's steps
are counted in every pass of the loops outside it (lemma 15 of docs/inside/proof-any-levels.md).

Letters: X axes of all tensors, m terms of an axis, n dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tiles import FloatArray

DEPTH = 64
"""Loops that a sequence may hold: more than sizes below 2^62 have prime factors."""

MOST_LOOKED = 20_000
"""Loops looked at where spatial factors stand among them, before a lesser bound will do."""

MOST_AXIS_CELLS = 48
"""Axes with more cells have no table of runs that end in a slot."""

MOST_STACKED = 64
"""Credits of so many assignments are kept: one is filled for several prices in turn."""


MOVED, CHARGED, CHOICE, FRESH, JUMPS = range(5)
"""Columns of a row after the extents: how far the loops inside have moved the axis, tiles that are
charged, the next choice, the innermost loop's step (-1 before it), spatial factors still outside.
"""


class Begin(NamedTuple):
    """Where sequences of loops over an axis of several terms begin, and with which loop.

    axis; first: the term of the innermost loop, which is credited; m: a loop that does not move the
    axis is innermost; extent `[m]` of the tile in the axis's dimensions; jump `[m]` products of the
    spatial factors outside, by which steps grow on the way; until `[m]` extents that the loops of
    the slot outside the tile lead to, one per dimension; where they are the tile's own all loops
    are open.
    """

    axis: int
    first: int
    extent: Array
    jump: Array
    until: Array


@lean
def least_uncredited(shape: Shape, begin: Begin, stack: Array) -> float:
    """The fewest tiles along one axis that are charged: the first, and of steps not credited.

    Args:
        shape: the operation.
        begin: the axis, the tile and what is innermost.
        stack: `[DEPTH, 2m + 4]` scratch.

    Returns:
        How many of the axis's tiles; inf where the innermost loop cannot run.
    """
    start = shape.term_start[begin.axis]
    terms = shape.term_start[begin.axis + 1] - start
    whole, spread = _lay_first(shape, start, terms, begin, stack)
    if whole == 1:
        return 1.0
    least = np.inf
    depth, looked = 0, 0
    while depth >= 0:
        looked += 1
        if looked > MOST_LOOKED and spread:
            # The first loop alone is charged, half of all steps or more: no sequence needs less.
            return 1 + whole / 2 if begin.first == terms else 1.0
        choice, charged = stack[depth, terms + CHOICE], stack[depth, terms + CHARGED]
        stack[depth, terms + CHOICE] += 1
        if choice == 0 and _is_complete(shape, start, terms, stack, depth):
            least = min(least, charged)
        found = -1
        if charged < least:
            found = _nth_loop(shape, start, terms, begin.until, stack, depth, choice)
        if found < 0:
            depth -= 1
        elif _stand(shape, start, terms, begin.first, stack, depth, found):
            depth += 1
    return least


@part
def _lay_first(
    shape: Shape,
    start: int,
    terms: int,
    begin: Begin,
    stack: Array,
) -> tuple[int, bool]:
    """Writes the row of no loops; returns the tiles along the axis, and whether it is spread."""
    whole, spread = 1, False
    for k in range(terms):
        size = shape.sizes[shape.term_dimension[start + k]]
        whole *= size // (begin.extent[k] * begin.jump[k])
        spread = spread or begin.jump[k] > 1
        stack[0, k] = begin.extent[k]
        stack[0, terms + JUMPS + k] = begin.jump[k]
    stack[0, terms + MOVED] = 0
    stack[0, terms + CHARGED] = 1
    stack[0, terms + CHOICE] = 0
    stack[0, terms + FRESH] = 0 if begin.first == terms else -1
    return whole, spread


@part
def _is_complete(
    shape: Shape,
    start: int,
    terms: int,
    stack: Array,
    depth: int,
) -> bool:
    """Whether all loops over the axis stand: the first to stand was the innermost one."""
    for k in range(terms):
        if stack[depth, k] != shape.sizes[shape.term_dimension[start + k]]:
            return False
    return True


@part
def _stand(
    shape: Shape,
    start: int,
    terms: int,
    first: int,
    stack: Array,
    depth: int,
    found: int,
) -> bool:
    """Writes the next row, where a loop of `_nth_loop` stands; whether it may stand here."""
    k, trip = found // 2**40, found % 2**40
    across = k >= terms
    fresh, moved = stack[depth, terms + FRESH], stack[depth, terms + MOVED]
    if not across and fresh < 0 and k != first:
        return False
    for column in range(2 * terms + JUMPS):
        stack[depth + 1, column] = stack[depth, column]
    stack[depth + 1, terms + CHOICE] = 0
    if across:
        stack[depth + 1, k - terms] *= trip
        stack[depth + 1, JUMPS + k] //= trip
        return True
    stack[depth + 1, k] *= trip
    step = shape.term_coefficient[start + k] * stack[depth, k]
    stack[depth + 1, terms + MOVED] = moved + step
    if fresh < 0:
        stack[depth + 1, terms + FRESH] = step
        return True
    # Where the axis rests in the innermost loop, the first that moves it is charged.
    if (moved > 0 or first < terms) and step == fresh + moved:
        return True
    beyond = _trips_left(shape, start, terms, stack, depth + 1)
    stack[depth + 1, terms + CHARGED] += (trip - 1) * beyond
    return True


@part
def _trips_left(
    shape: Shape,
    start: int,
    terms: int,
    stack: Array,
    depth: int,
) -> int:
    """Trips of all temporal loops over the axis that do not stand yet."""
    left = 1
    for k in range(terms):
        size = shape.sizes[shape.term_dimension[start + k]]
        left *= size // (stack[depth, k] * stack[depth, terms + JUMPS + k])
    return left


@part
def _nth_loop(
    shape: Shape,
    start: int,
    terms: int,
    until: Array,
    stack: Array,
    depth: int,
    choice: int,
) -> int:
    """The dimension and the trips of the choice-th loop that can stand next; -1 beyond the last.

    Spatial loops, of any share of the factors outside, come after the temporal ones: the dimension
    plus the number of terms.
    """
    count = 0
    for k in range(terms):
        if stack[depth, k] < until[k]:
            if count == choice:
                known: int = k * 2**40 + until[k] // stack[depth, k]
                return known
            count += 1
    if count:
        return -1
    for k in range(2 * terms):
        d = shape.term_dimension[start + k % terms]
        left = stack[depth, terms + JUMPS + k % terms]
        if k < terms:
            left = shape.sizes[d] // (stack[depth, k] * left)
        for row in range(shape.divisor_start[d], shape.divisor_start[d + 1]):
            trip = shape.divisors[row]
            if trip < 2 or left % trip:
                continue
            if count == choice:
                found: int = k * 2**40 + trip
                return found
            count += 1
    return -1


@lean
def fill_credits(
    shape: Shape,
    outer: Array,
    credit: FloatArray,
    stack: Array,
    extent: Array,
    jump: Array,
) -> None:
    """Fills the credits of all axes from tiles outwards.

    Args:
        shape: the operation.
        outer: `[n]` spatial factors outside.
        credit: `[X cells]` filled as `Shape` lays it out.
        stack: scratch of `least_uncredited`.
        extent: scratch `[m]`.
        jump: scratch `[m]`.
    """
    for axis in range(shape.credit_start.size):
        if shape.credit_start[axis] < 0:
            continue
        terms = shape.term_start[axis + 1] - shape.term_start[axis]
        for cell in range(shape.credit_cells[axis]):
            valid = _extents_of(shape, axis, cell, outer, extent, jump)
            for first in range(terms + 1):
                value = 1.0
                if valid:
                    begin = Begin(axis, first, extent, jump, extent)
                    value = least_uncredited(shape, begin, stack)
                place = shape.credit_start[axis] + first * shape.credit_cells[axis] + cell
                credit[place] = value


@part
def _extents_of(
    shape: Shape,
    axis: int,
    cell: int,
    outer: Array,
    extent: Array,
    jump: Array,
) -> bool:
    """Fills extents of a cell of an axis and the spatial factors outside; whether they divide."""
    valid = True
    start = shape.term_start[axis]
    rest = cell
    for k in range(shape.term_start[axis + 1] - start):
        d = shape.term_dimension[start + k]
        position = rest // shape.credit_stride[start + k]
        rest %= shape.credit_stride[start + k]
        extent[k] = shape.divisors[shape.divisor_start[d] + position]
        jump[k] = outer[d]
        valid = valid and shape.sizes[d] % (extent[k] * jump[k]) == 0
    return valid


@lean
def fill_ended(
    shape: Shape,
    outer: Array,
    ended_start: Array,
    ended: FloatArray,
    stack: Array,
    work: Array,
) -> None:
    """Fills what is charged of tensors whose run ends in a slot, by step and tile there.

    Args:
        shape: the operation.
        outer: `[n]` spatial factors outside.
        ended_start: `[X]` where an axis's cells of steps times cells of tiles begin; -1: nowhere.
        ended: filled.
        stack: scratch of `least_uncredited`.
        work: scratch `[3, m]`.
    """
    for axis in range(shape.credit_start.size):
        if ended_start[axis] < 0:
            continue
        terms = shape.term_start[axis + 1] - shape.term_start[axis]
        cells = shape.credit_cells[axis]
        for inner in range(cells):
            for tile in range(cells):
                valid = _extents_of(shape, axis, tile, outer, work[1], work[2])
                valid = valid and _extents_of(shape, axis, inner, outer, work[0], work[2])
                for k in range(terms):
                    valid = valid and work[1, k] % work[0, k] == 0
                value = 1.0
                if valid:
                    begin = Begin(axis, terms, work[0], work[2], work[1])
                    value = least_uncredited(shape, begin, stack)
                ended[ended_start[axis] + inner * cells + tile] = value


class Credits:
    """The credits of an operation, from slots outwards, each computed once.

    Attributes:
        ended_start: `[X]` where the table of runs that end in a slot begins for an axis, -1 where
            it would be large.
    """

    def __init__(self, shape: Shape) -> None:
        """Knows none yet."""
        self._shape = shape
        self._found: dict[bytes, tuple[FloatArray, FloatArray]] = {}
        self._stacked: dict[bytes, tuple[FloatArray, FloatArray]] = {}
        sizes = np.where(shape.credit_start >= 0, shape.credit_cells, 0)
        sizes = np.where(sizes > MOST_AXIS_CELLS, 0, sizes) ** 2
        starts = np.cumsum(sizes) - sizes
        self.ended_start: Array = np.where(sizes > 0, starts, -1)
        self._size = int(sizes.sum())
        # Where no axis has several terms, what is outside makes no difference.
        self._depends = bool((shape.credit_start >= 0).any())

    def outwards(self, outer: Array) -> tuple[FloatArray, FloatArray]:
        """`[L, X cells]` those of every level's slot, `[L, X pairs]` of runs that end in it.

        Args:
            outer: `[L + 1, n]` products of the spatial factors outside every level and a MAC.
        """
        key = outer[:-1].tobytes() if self._depends else b""
        if key not in self._stacked:
            credit, ended = zip(*(self._from_slot(row) for row in outer[:-1]), strict=True)
            if len(self._stacked) >= MOST_STACKED:
                self._stacked.clear()
            self._stacked[key] = np.stack(credit), np.stack(ended)
        return self._stacked[key]

    def _from_slot(self, outer: Array) -> tuple[FloatArray, FloatArray]:
        key = outer.tobytes()
        if key not in self._found:
            shape = self._shape
            terms = np.diff(shape.term_start)
            sizes = (1 + terms) * shape.credit_cells
            credit = np.ones(int(sizes[shape.credit_start >= 0].sum()) + 1)
            widest = int(terms.max(initial=1))
            scratch = np.zeros((DEPTH, 2 * widest + 4), np.int64)
            work = np.zeros((3, widest), np.int64)
            fill_credits(shape, outer, credit, scratch, work[0], work[1])
            ended = np.ones(self._size + 1)
            fill_ended(shape, outer, self.ended_start, ended, scratch, work)
            self._found[key] = credit, ended
        return self._found[key]
