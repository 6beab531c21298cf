"""Compiled: what enters a tile at least, by which loop runs innermost outside it.

Letters as in `costmodel.tile_chains.chain`, which explains slots, boundaries and resting tensors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.compiled.by_reference import by_reference
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tiles import FloatArray, Tiles


@by_reference
class Around(NamedTuple):
    """One assignment of kept tensors and spatial factors, for all levels.

    spatial `[L, n]` factors below a level; outer `[L + 1, n]` products of those outside a level;
    weight `[L + 1, T]` energy of a word that enters a tile, the MACs last; credit `[L, X cells]`
    the fewest tiles that are charged along the axes of several terms, from a slot outwards;
    ended `[L, X pairs]` likewise of runs that end in the slot, by step and tile, ended_start `[X]`
    where an axis begins there, -1 if nowhere; inner `[L, n]` what the tiles of a level are
    multiples of; follows `[L, T]` 1 where a level further in pays for a tensor, so that it matters
    whether it rests; idle `[L]` the dimensions, as bits, whose loops need not run innermost in the
    slot outside a level's tile; limit `[L]` what words that enter the tiles of a level and of all
    levels outside it must cost less than, or the tile is left out.
    """

    spatial: Array
    outer: Array
    weight: FloatArray
    credit: FloatArray
    ended: FloatArray
    ended_start: Array
    inner: Array
    follows: Array
    idle: Array
    limit: FloatArray


@lean
def fill_paid_inside(
    weight: FloatArray,
    follows: Array,
) -> None:
    """Fills `[L, T]` with 1 where a level further in pays for a tensor, by weights `[L + 1, T]`."""
    for t in range(follows.shape[1]):
        paid = 0
        for level in range(follows.shape[0] - 1, -1, -1):
            follows[level, t] = paid
            if weight[level, t] > 0:
                paid = 1


@lean
def settle(
    around: Around,
    kept: bool,
    limited: bool,
) -> None:
    """Takes from `inner` and `limit` what tables that serve others as well do not obey.

    Args:
        around: an assignment, all of whose levels ask for multiples of their own.
        kept: whether weights outside all fan-outs are those of other assignments, too: the tables
            there serve every assignment.
        limited: whether those leave out what is above the limit.
    """
    for level in range(around.limit.size):
        outside = True
        for factor in around.outer[level]:
            outside = outside and factor == 1
        if outside and kept:
            for d in range(around.inner.shape[1]):
                around.inner[level, d] = 1
        if outside and not limited:
            around.limit[level] = np.inf


@lean
def first_change(
    before: Around,
    around: Around,
    begin: int,
    exact: bool,
) -> int:
    """The outermost level, of some, whose tables those of another assignment do not serve.

    Args:
        before: that assignment.
        around: this one.
        begin: the outermost level that is looked at.
        exact: whether those below a higher limit do not serve.
    """
    for level in range(begin, around.limit.size):
        limit, old = around.limit[level], before.limit[level]
        if limit > old or (exact and limit < old):
            return level
        for d in range(around.inner.shape[1]):
            if before.outer[level, d] != around.outer[level, d]:
                return level
            inner, more = around.inner[level, d], before.inner[level, d]
            # Tables with more tiles serve as well.
            if inner % more or (exact and inner != more):
                return level
        for t in range(around.follows.shape[1]):
            # Nothing enters the outermost tile.
            if level > 0 and before.weight[level, t] != around.weight[level, t]:
                return level
            if before.follows[level, t] != around.follows[level, t]:
                return level
    levels: int = around.limit.size
    return levels


class Crossing(NamedTuple):
    """A tile of a level, the step that it is a part of in the slot outside, and the loops there.

    level: of the tile; inner: the tile; outer: the tile of all children in the slot outside; trips
    `[n]` of all loops outside that, and all_trips, their product.
    """

    level: int
    inner: int
    outer: int
    trips: FloatArray
    all_trips: float


@part
def covering(
    shape: Shape,
    tiles: Tiles,
    level: int,
    i: int,
    d: int,
    k: int,
) -> int:
    """The tile a prime times larger than tile i in dimension d, by cover k of it; -1: none fits."""
    move = (shape.covers[k] - tiles.place[i, d]) * shape.stride[d]
    return int(tiles.at[level, tiles.cell[i] + move])


@part
def trips_outside(
    shape: Shape,
    extent: Array,
    outer: Array,
    trips: FloatArray,
) -> float:
    """Fills trips `[n]` of all loops outside a tile; their product, 0 if they do not divide."""
    product = 1.0
    for d in range(shape.sizes.size):
        covered = extent[d] * outer[d]
        count = shape.sizes[d] // covered
        if count * covered != shape.sizes[d]:
            return 0.0
        trips[d] = count
        product *= count
    return product


@part
def credit_cell(
    shape: Shape,
    axis: int,
    place: Array,
) -> int:
    """The cell of a tile in the lattice of an axis's own dimensions."""
    cell = 0
    for k in range(shape.term_start[axis], shape.term_start[axis + 1]):
        cell += shape.credit_stride[k] * place[shape.term_dimension[k]]
    return cell


@part
def resting_share(
    shape: Shape,
    t: int,
    place: Array,
    trips: FloatArray,
    credit: FloatArray,
) -> float:
    """The share of a resting tensor's trips that is charged at least, once its run has ended.

    Along one axis of several terms later steps can be credited as steps that move nothing.
    """
    share = 1.0
    if shape.sliding[t] == 0:
        return share
    for axis in range(shape.axis_start[t], shape.axis_start[t + 1]):
        start = shape.credit_start[axis]
        if start < 0:
            continue
        along = 1.0
        terms = shape.term_start[axis + 1] - shape.term_start[axis]
        for k in range(shape.term_start[axis], shape.term_start[axis + 1]):
            along *= trips[shape.term_dimension[k]]
        cell = start + terms * shape.credit_cells[axis] + credit_cell(shape, axis, place)
        share = min(share, credit[cell] / along)
    return share


@part
def ended_share(
    shape: Shape,
    t: int,
    step: Array,
    place: Array,
    trips: FloatArray,
    around: Around,
    level: int,
) -> float:
    """As `resting_share`, where the run ends in a level's slot, whose loops lead to a known tile.

    Args:
        shape: the operation.
        t: the tensor.
        step: `[n]` place of the tile of all children.
        place: `[n]` that of the level's tile.
        trips: `[n]` of all loops outside the step.
        around: the assignment.
        level: whose slot it is.
    """
    share = 1.0
    if shape.sliding[t] == 0:
        return share
    for axis in range(shape.axis_start[t], shape.axis_start[t + 1]):
        start = shape.credit_start[axis]
        if start < 0:
            continue
        along = 1.0
        terms = shape.term_start[axis + 1] - shape.term_start[axis]
        for k in range(shape.term_start[axis], shape.term_start[axis + 1]):
            along *= trips[shape.term_dimension[k]]
        cell = credit_cell(shape, axis, step)
        if around.ended_start[axis] < 0:
            charged = around.credit[level, start + terms * shape.credit_cells[axis] + cell]
        else:
            pair = cell * shape.credit_cells[axis] + credit_cell(shape, axis, place)
            charged = around.ended[level, around.ended_start[axis] + pair]
        share = min(share, charged / along)
    return share


@part
def charge_moving(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    crossing: Crossing,
    t: int,
    slide: int,
) -> float:
    """Words that enter a tile at least, where the innermost loop outside it moves tensor t.

    Args:
        shape: the operation.
        tiles: what fits.
        around: the assignment.
        crossing: the tile, and the step that one pass of the innermost loop takes.
        t: the tensor.
        slide: the innermost loop's dimension where it moves along an axis of several terms, or -1.
    """
    words, all_trips = tiles.words[crossing.inner, t], crossing.all_trips
    whole: float = words * all_trips
    if slide < 0 or shape.sliding[t] == 0 or shape.axis_of[t, slide] < 0:
        return whole
    extent, credit = tiles.extent[crossing.inner], around.credit[crossing.level - 1]
    axis = shape.axis_start[t] + shape.axis_of[t, slide]
    start = shape.credit_start[axis]
    if start < 0:
        return whole
    along = 1.0
    width = 1
    term = 0
    for k in range(shape.term_start[axis], shape.term_start[axis + 1]):
        d = shape.term_dimension[k]
        along *= crossing.trips[d]
        width += shape.term_coefficient[k] * (extent[d] - 1)
        if d == slide:
            term = k - shape.term_start[axis]
    moved = shape.coefficient_of[t, slide] * tiles.extent[crossing.outer, slide]
    new = words / width * min(width, moved)
    place = credit_cell(shape, axis, tiles.place[crossing.outer])
    cell = start + term * shape.credit_cells[axis] + place
    charged: float = new * all_trips + (words - new) * (all_trips / along) * credit[cell]
    return charged


@part
def open_dims(
    shape: Shape,
    kind: int,
    trips: FloatArray,
    idle: int,
) -> int:
    """The dimensions of a class, as bits, with loops left outside a tile; 0 if there are none.

    Where all of them are idle there, no loops stand in the next slot: a bit that is no dimension's.
    """
    found = 0
    for d in range(shape.sizes.size):
        if (shape.class_dims[kind] >> d) & 1 and trips[d] > 1:
            found |= 1 << d
    if found == 0 or found & ~idle:
        return found & ~idle
    return 1 << shape.sizes.size


@part
def class_charges(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    crossing: Crossing,
    kind: int,
) -> float:
    """What enters a tile at least, of the tensors that a class of innermost loops moves.

    Those that rest are not charged.
    """
    cost = 0.0
    for t in range(shape.sliding.size):
        weight = around.weight[crossing.level, t]
        if weight == 0 or (shape.class_rest[kind] >> t) & 1:
            continue
        slide = shape.class_slide[kind]
        cost += weight * charge_moving(shape, tiles, around, crossing, t, slide)
    return cost


@part
def least_resting(
    shape: Shape,
    t: int,
    place: Array,
    trips: FloatArray,
    credit: FloatArray,
) -> float:
    """The trips that a resting tensor is charged for at least, wherever its run ends."""
    moving = resting_share(shape, t, place, trips, credit)
    for d in range(shape.sizes.size):
        if shape.relevant[t, d]:
            moving *= trips[d]
    return max(1.0, moving)


@part
def charge_others(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    crossing: Crossing,
    kind: int,
    followed: int,
) -> float:
    """What the tensors that rest beside the followed one cost at least."""
    cost, level = 0.0, crossing.level
    place, credit = tiles.place[crossing.outer], around.credit[level - 1]
    for t in range(shape.sliding.size):
        if t == followed or around.weight[level, t] == 0 or not (shape.class_rest[kind] >> t) & 1:
            continue
        cost += (
            around.weight[level, t]
            * tiles.words[crossing.inner, t]
            * least_resting(shape, t, place, crossing.trips, credit)
        )
    return cost
