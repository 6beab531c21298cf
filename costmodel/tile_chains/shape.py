"""What a proof reads of an operation: divisors, projections, and classes of innermost loops.

Letters: n dimensions, T tensors, X axes of all tensors, C classes.

A tile is one *cell* of the lattice of divisors: per dimension the position of its extent among the
divisors of the dimension's size, numbered with `stride`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled.by_reference import by_reference
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.lattice import credit_layout, lattice, projections

# Cells of the lattice beyond which the tables over it would not fit in two gigabytes.
MOST_CELLS = 2_000_000


@by_reference
class Shape(NamedTuple):
    """An operation as the compiled passes read it.

    Divisors: sizes `[n]`; divisor_start `[n + 1]` into divisors, ascending per dimension;
    cover_start into covers: per divisor the positions of those that are a prime times it; stride
    `[n]` and cells of the lattice.

    Tensors, as in `NestTables`: relevant, axis_start, term_start, term_dimension,
    term_coefficient, axis_of, coefficient_of, sliding.

    Axes of several terms: credit_start `[X]` into the tables of credits, -1 for axes of one term;
    credit_cells `[X]` cells of the lattice of the axis's own dimensions; credit_stride per term.

    Classes of the innermost loop of a run of loops: class_rest `[C]` bit t: tensor t does not move
    with it; class_dims `[C]` bit d: it may run over dimension d; class_slide `[C]` the dimension
    where it moves a tensor along an axis of several terms, else -1.

    Pairs of tensors without sliding windows that alone rest in one class: pair_one and pair_two
    `[X]`; pair_of `[T, T]` which pair two tensors are, -1 if none.

    together `[n, n]` 1 where two dimensions move one axis of several terms, itself among them;
    exchanges 1 where loops that leave all that a level keeps alone may stand inside its tile.
    """

    sizes: Array
    divisor_start: Array
    divisors: Array
    cover_start: Array
    covers: Array
    stride: Array
    cells: int
    relevant: Array
    axis_start: Array
    term_start: Array
    term_dimension: Array
    term_coefficient: Array
    axis_of: Array
    coefficient_of: Array
    sliding: Array
    credit_start: Array
    credit_cells: Array
    credit_stride: Array
    class_rest: Array
    class_dims: Array
    class_slide: Array
    pair_one: Array
    pair_two: Array
    pair_of: Array
    together: Array
    exchanges: int


def build_shape(space: MapSpace) -> Shape:
    """Lays out the operation of a map space."""
    t = space.tables
    divisors = lattice(t.sizes.tolist())
    del divisors["multiple_start"], divisors["multiples"]
    classes = _classes(space)
    pairs, pair_of = _pairs(space, classes[:, 0])
    return Shape(
        **divisors,
        **projections(t),
        **credit_layout(space),
        class_rest=classes[:, 0].copy(),
        class_dims=classes[:, 1].copy(),
        class_slide=classes[:, 2].copy(),
        pair_one=pairs[:, 0].copy(),
        pair_two=pairs[:, 1].copy(),
        pair_of=pair_of,
        together=_together(space),
        exchanges=int(_exchanges(space)),
    )


def _classes(space: MapSpace) -> Array:
    """`[C, 3]` rest, dims and slide of every class.

    Dimensions that leave the same tensors at rest, and slide none, are one class: which of them
    runs innermost makes no difference.
    """
    t = space.tables
    found: dict[tuple[int, int], int] = {}
    for d, size in enumerate(t.sizes.tolist()):
        if size == 1:
            continue
        rest, slides = 0, -1
        for tensor in range(t.sliding.size):
            axis = t.axis_of[tensor, d]
            if axis < 0:
                rest |= 1 << tensor
                continue
            axis += t.axis_start[tensor]
            if t.term_start[axis + 1] - t.term_start[axis] > 1:
                slides = d
        found[rest, slides] = found.get((rest, slides), 0) | 1 << d
    rows = [(rest, dims, slide) for (rest, slide), dims in found.items()]
    return np.array(rows, np.int64).reshape(len(rows), 3)


def _pairs(space: MapSpace, rests: Array) -> tuple[Array, Array]:
    """`[X, 2]` the pairs of tensors that rest together, and `[T, T]` which pair two tensors are."""
    sliding = space.tables.sliding
    found = []
    for rest in sorted(set(rests.tolist())):
        pair = [t for t in range(sliding.size) if (rest >> t) & 1]
        if len(pair) == 2 and not sliding[pair].any():
            found.append(pair)
    pair_of = np.full((sliding.size, sliding.size), -1)
    for x, (one, two) in enumerate(found):
        pair_of[one, two] = pair_of[two, one] = x
    return np.array(found, np.int64).reshape(len(found), 2), pair_of


def _together(space: MapSpace) -> Array:
    """`[n, n]` 1 where two dimensions move one axis of several terms."""
    t = space.tables
    found = np.zeros((t.sizes.size, t.sizes.size), np.int64)
    for start, end in zip(t.term_start[:-1], t.term_start[1:], strict=True):
        dims = t.term_dimension[start:end]
        if end - start > 1:
            found[np.ix_(dims, dims)] = 1
    return found


def _exchanges(space: MapSpace) -> bool:
    """Whether a loop costs the same on either side of a tile that it does not move."""
    return space.constraints is None and not charges_for_networks(space.tables)


def charges_for_networks(tables: NestTables) -> bool:
    """Whether what crosses some network costs energy there."""
    machine = tables.machine
    costs = (machine.network, machine.router, machine.ingress, tables.hop_energy)
    return any(cost.any() for cost in costs)
