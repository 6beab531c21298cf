"""Compiled: the fewest trips along an axis of several terms that no order of loops gets credited.

Where windows slide, a step that moves the tile just as the innermost loop does is charged for what
is new alone. How far the axis has been moved by the loops inside a loop decides that, so that all
sequences of loops over the axis's dimensions are looked at, from a tile outwards.

Letters: X axes of all tensors, m terms of an axis, n dimensions.
"""

from __future__ import annotations

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.exact_any.shape import Shape
from costmodel.exact_any.tiles import FloatArray

DEPTH = 64
"""Loops that a sequence may hold: more than sizes below 2^62 have prime factors."""


@lean
def least_uncredited(
    shape: Shape,
    axis: int,
    extent: Array,
    jump: Array,
    first: int,
    stack: Array,
) -> float:
    """The least product of trips, along one axis, of the loops that are not credited.

    Args:
        shape: the operation.
        axis: an axis of several terms.
        extent: `[m]` extents of the tile in the axis's dimensions.
        jump: `[m]` products of the spatial factors outside, by which steps may grow on the way.
        first: the term of the innermost loop, which is credited; m: a loop that does not move the
            axis is innermost.
        stack: `[DEPTH, m + 4]` scratch.

    Returns:
        The product; inf where the innermost loop cannot run.
    """
    start = shape.term_start[axis]
    terms = shape.term_start[axis + 1] - start
    least = np.inf
    whole = 1.0
    jumps = 1
    for k in range(terms):
        jumps *= jump[k]
        whole *= shape.sizes[shape.term_dimension[start + k]] // (extent[k] * jump[k])
    if first == terms and whole == 1:
        return 1.0
    if jumps > 1:
        # Spatial factors outside enlarge steps: how far the axis moves is open.
        return 2.0 if first == terms else 1.0
    # A row: extents, what the loops inside have moved, trips that are charged, the next choice.
    depth = 0
    for k in range(terms):
        stack[0, k] = extent[k]
    stack[0, terms] = 0
    stack[0, terms + 1] = 1
    stack[0, terms + 2] = 0
    fresh = 0 if first == terms else shape.term_coefficient[start + first] * extent[first]
    while depth >= 0:
        choice = stack[depth, terms + 2]
        stack[depth, terms + 2] += 1
        charged = stack[depth, terms + 1]
        if choice == 0:
            left = 1.0
            for k in range(terms):
                size = shape.sizes[shape.term_dimension[start + k]]
                left *= size // stack[depth, k]
            if left == 1:
                least = min(least, charged)
        if charged >= least:
            depth -= 1
            continue
        found = _nth_loop(shape, start, terms, stack, depth, choice)
        if found < 0:
            depth -= 1
            continue
        k, trip = found // 2**40, found % 2**40
        if depth == 0 and first < terms and k != first:
            continue
        step = shape.term_coefficient[start + k] * stack[depth, k]
        moved = stack[depth, terms]
        free = depth == 0 and first < terms
        if depth > 0:
            free = step == fresh + moved
        for other in range(terms):
            stack[depth + 1, other] = stack[depth, other]
        stack[depth + 1, k] *= trip
        stack[depth + 1, terms] = moved + step
        stack[depth + 1, terms + 1] = charged if free else charged * trip
        stack[depth + 1, terms + 2] = 0
        depth += 1
    return least


@part
def _nth_loop(
    shape: Shape,
    start: int,
    terms: int,
    stack: Array,
    depth: int,
    choice: int,
) -> int:
    """The dimension and the trips of the choice-th loop that can stand next; -1 beyond the last."""
    count = 0
    for k in range(terms):
        d = shape.term_dimension[start + k]
        left = shape.sizes[d] // stack[depth, k]
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
        start = shape.term_start[axis]
        terms = shape.term_start[axis + 1] - start
        for cell in range(shape.credit_cells[axis]):
            valid = True
            rest = cell
            for k in range(terms):
                d = shape.term_dimension[start + k]
                position = rest // shape.credit_stride[start + k]
                rest %= shape.credit_stride[start + k]
                extent[k] = shape.divisors[shape.divisor_start[d] + position]
                jump[k] = outer[d]
                valid = valid and shape.sizes[d] % (extent[k] * jump[k]) == 0
            for first in range(terms + 1):
                value = 1.0
                if valid:
                    value = least_uncredited(shape, axis, extent, jump, first, stack)
                place = shape.credit_start[axis] + first * shape.credit_cells[axis] + cell
                credit[place] = value
