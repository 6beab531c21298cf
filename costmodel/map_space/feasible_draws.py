"""Uniform draws of feasible mappings by counting them, where hardly any mapping is feasible.

Whether a mapping is feasible depends on the extents of the tile at every level and on the spatial
factors: on products of factors, never on loop orders. So feasible mappings are counted from the
inside out, slot by slot, over the lattice of extents (one divisor per dimension): how many ways
there are to fill the slots from here inwards such that the tile has these extents and everything
inside fits. A draw walks back from the whole problem, choosing at each slot with the counts as
weights; orders are free. Counts are float64, exact below 2^53.

Letters: n dimensions, S slots, L levels, T tensors, V vectors of extents, D attributes of a code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from costmodel.arrays.feasibility import beyond_mesh
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import compiled, part
from costmodel.compiled.by_reference import by_reference
from costmodel.costs import FloatArray
from costmodel.map_space.moves import find_row
from costmodel.space import Codes

# Beyond this the lattice is not counted: bytes of counts, and pairs of vectors of which one
# divides the other.
MOST_BYTES = 1 << 30
MOST_PAIRS = 2_500_000_000


@by_reference
class Lattice(NamedTuple):
    """Vectors of extents as mixed-radix numbers.

    start `[n + 1]` into divisor, the divisors of each dimension, ascending; stride `[n]`; order
    `[n]` the dimensions by descending stride, which are those of ever more divisors; below
    `[divisors + 1]` into pairs of places among a dimension's divisors: small divides the divisor,
    and rest is the quotient's.
    """

    start: Array
    divisor: Array
    stride: Array
    order: Array
    below: Array
    small: Array
    rest: Array


@by_reference
class Counts(NamedTuple):
    """How many ways there are from a slot inwards, for tiles of given extents.

    inwards `[S + 1, V]` from a slot inwards, with what is kept at its level; partly `[S, n, V]` at
    a temporal slot, once the loops over the first dimensions are chosen; ways `[S, V]` mesh axes
    that spatial factors can take at a spatial slot, 0 where they exceed the fan-out.
    """

    inwards: FloatArray
    partly: FloatArray
    ways: FloatArray


def make_lattice(tables: NestTables) -> Lattice:
    """The lattice of a map space."""
    start, divisors, below, small, rest = [0], [], [0], [], []
    for size in tables.sizes.tolist():
        mine = [v for v in range(1, math.isqrt(size) + 1) if size % v == 0]
        mine = sorted({*mine, *(size // v for v in mine)})
        place = {value: i for i, value in enumerate(mine)}
        for value in mine:
            pairs = [(i, place[value // v]) for i, v in enumerate(mine) if value % v == 0]
            small += [i for i, _ in pairs]
            rest += [i for _, i in pairs]
            below.append(len(small))
        divisors += mine
        start.append(len(divisors))
    counts = np.diff(start)
    order = np.argsort(counts, kind="stable")
    stride = np.empty_like(counts)
    stride[order] = np.concatenate([np.cumprod(counts[order][:0:-1])[::-1], [1]])
    arrays = (start, divisors, stride, order, below, small, rest)
    return Lattice(*(np.array(array, np.int64) for array in arrays))


class FeasibleDraws:
    """Draws mappings of a space uniformly among the feasible ones.

    Attributes:
        number: how many tilings there are, each counted once per choice of kept tensors, banks and
            mesh axes that fits; times the loop orders these are the feasible mappings.
    """

    def __init__(self, tables: NestTables) -> None:
        """Counts.

        Args:
            tables: of the map space; `countable` says whether it can be counted.
        """
        self._tables = tables
        self._lattice = make_lattice(tables)
        shape = _shape(self._lattice, tables)
        slots, _, vectors = shape
        self._counts = Counts(
            np.zeros((slots + 1, vectors)), np.zeros(shape), np.zeros((slots, vectors))
        )
        _count(tables, self._lattice, self._counts)
        self.number = float(self._counts.inwards[0, -1])

    def sample(self, rng: np.random.Generator, codes: Codes) -> None:
        """Overwrites all but loop orders of codes `[B, D]`; there must be a feasible mapping."""
        slots, n, _ = self._counts.partly.shape
        uniforms = rng.random((len(codes), slots * (n + 1)))
        _draw(self._tables, self._lattice, self._counts, uniforms, codes)


def countable(tables: NestTables) -> bool:
    """Whether the feasible mappings of a space can be counted, in little memory and time.

    Not where levels share one room, a tensor may be kept nowhere, or many elements must work on
    several fan-outs, which concerns several levels at once, nor where what overflows is bypassed
    and a level must be filled, nor with imperfect factors.
    """
    if tables.imperfect:
        return False
    machine = tables.machine
    if np.diff(machine.sharing).max() > 1:
        return False
    if machine.least_units > 1 and (tables.spatial_slot >= 0).sum() > 1:
        return False
    held = int(np.bitwise_or.reduce(machine.always_kept))
    if int(machine.never_kept[0]) & ~held:
        return False
    if tables.bypass_on_overflow and machine.least_room.any():
        return False
    lattice = make_lattice(tables)
    slots, n, vectors = _shape(lattice, tables)
    pairs = math.prod(
        int(lattice.below[lattice.start[d + 1]] - lattice.below[lattice.start[d]]) for d in range(n)
    )
    spatial = int((tables.spatial_slot >= 0).sum())
    # At every level all sets of kept tensors, and all allocations of banks, are tried on each tile.
    ways = np.where(tables.keep_column >= 0, 1 << len(tables.sliding), 1)
    ways = ways * np.maximum(1, np.diff(tables.allocation_start))
    if vectors * int(ways.sum()) > MOST_PAIRS:
        return False
    return vectors * slots * (n + 2) * 8 <= MOST_BYTES and pairs * spatial <= MOST_PAIRS


def _shape(lattice: Lattice, tables: NestTables) -> tuple[int, int, int]:
    """S, n and V."""
    vectors = math.prod(int(count) for count in np.diff(lattice.start))
    return tables.slot_level.size, tables.sizes.size, vectors


@part
def _place(lattice: Lattice, d: int, vector: int) -> int:
    """Where a vector's extent stands among all divisors, those of dimension d."""
    count = lattice.start[d + 1] - lattice.start[d]
    place: int = lattice.start[d] + vector // lattice.stride[d] % count
    return place


@part
def _extents(lattice: Lattice, vector: int, extents: Array) -> None:
    """Fills extents `[n]` with a vector's."""
    for d in range(extents.size):
        extents[d] = lattice.divisor[_place(lattice, d, vector)]


@part
def _words(tables: NestTables, t: int, extents: Array) -> int:
    """Words of tensor t's tile of the extents `[n]`."""
    words = 1
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        extent = 1
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            extent += tables.term_coefficient[k] * (extents[tables.term_dimension[k]] - 1)
        words *= extent
    return words


@part
def _fits(tables: NestTables, level: int, words: Array, mask: int, row: int) -> bool:
    """Whether the kept tensors' tiles of `[T]` values fit a level, in a row of banks or as one.

    And fill as much of it as they must.
    """
    used = 0
    for t in range(words.size):
        if (mask >> t) & 1:
            room = words[t] * tables.machine.room[level, t]
            used += room
            if row >= 0 and room > tables.allocations[row, t] * tables.bank_words[level]:
                return False
    if used < tables.machine.least_room[level]:
        return False
    return row >= 0 or tables.capacity[level] < 0 or used <= tables.capacity[level]


@part
def _choose_kept(
    tables: NestTables, level: int, words: Array, target: float
) -> tuple[float, int, int]:
    """Of what a level may keep, and in which banks, the first choice beyond `target` that fit.

    Returns how many fit up to it, the mask of kept tensors and the row of the allocation, counted
    within the level; with an infinite target how many fit in all.
    """
    found = 0.0
    masks = 1 << words.size
    for mask in range(masks if tables.keep_column[level] >= 0 else 1):
        kept = mask if tables.keep_column[level] >= 0 else masks - 1
        held = (kept | tables.machine.always_kept[level]) & ~tables.machine.never_kept[level]
        first = tables.allocation_start[level]
        rows = max(1, tables.allocation_start[level + 1] - first)
        banked = tables.banks_column[level] >= 0
        for row in range(rows):
            if tables.bypass_on_overflow or _fits(
                tables, level, words, held, first + row if banked else -1
            ):
                found += 1
                if found > target:
                    return found, kept, row
    return found, 0, 0


@part
def _choose_axes(
    tables: NestTables, level: int, factors: Array, target: float
) -> tuple[float, int]:
    """Of the mesh axes of spatial factors `[n]`, the first choice beyond `target` that fit.

    Returns how many fit up to it and bit d where dimension d runs along the height.
    """
    n = factors.size
    found = 0.0
    meshed = tables.spatial_axis_column[level] >= 0
    machine = tables.machine
    first = machine.placed_start[level]
    slot = tables.spatial_slot[level]
    spread = 0
    for d in range(n):
        spread |= (factors[d] > 1) << d
        if factors[d] < tables.least[slot, d] or factors[d] > tables.most[slot, d]:
            return found, 0
    if machine.barred[level] & spread:
        return found, 0
    if first >= 0 and not meshed and machine.placed[first + spread] == 0:
        return found, 0
    for axes in range(1 << n if meshed else 1):
        taken = (axes | machine.only_y[level]) & ~machine.only_x[level] if meshed else 0
        if first >= 0 and meshed:
            if machine.placed[first + axes] != axes or (taken ^ axes) & spread:
                continue
            taken = axes
        along_x = 1
        along_y = 1
        for d in range(n):
            if (taken >> d) & 1:
                along_y *= factors[d]
            else:
                along_x *= factors[d]
        wide = tables.mesh[level, 0] if meshed else tables.fanout[level]
        if machine.both[level] and beyond_mesh(tables, level, factors) > 0:
            continue
        if along_x <= wide and (not meshed or along_y <= tables.mesh[level, 1]):
            found += 1
            if found > target:
                return found, axes
    return found, 0


@part
def _choose_spatial(
    lattice: Lattice, ways: FloatArray, inside: FloatArray, fanout: int, vector: int,
    target: float, stack: Array,
) -> tuple[float, int]:  # fmt: skip
    """Of the spatial factors that divide a tile's extents, the first beyond `target` ways.

    Args:
        lattice: the lattice.
        ways: `[V]` of factors.
        inside: `[V]` of what is left for the slots inside.
        fanout: the largest product of factors.
        vector: the tile's extents.
        target: ways to pass.
        stack: `[4, n + 1]` scratch.

    Returns:
        How many ways there are up to it, and the vector of factors.
    """
    n = lattice.stride.size
    found = 0.0
    position, product, factors, left = stack[0], stack[1], stack[2], stack[3]
    product[0] = 1
    factors[0] = 0
    left[0] = 0
    depth = 0
    position[0] = 0
    while depth >= 0:
        d = lattice.order[depth]
        cell = _place(lattice, d, vector)
        first, last = lattice.below[cell], lattice.below[cell + 1]
        room = fanout // product[depth]
        if depth == n - 1:
            # The most divisors, and a stride of 1.
            for k in range(first, last):
                if lattice.divisor[lattice.start[d] + lattice.small[k]] > room:
                    break
                chosen = factors[depth] + lattice.small[k]
                found += ways[chosen] * inside[left[depth] + lattice.rest[k]]
                if found > target:
                    return found, chosen
            depth -= 1
            continue
        k = first + position[depth]
        # Divisors ascend: once one is too large, so are the others.
        if k == last or lattice.divisor[lattice.start[d] + lattice.small[k]] > room:
            depth -= 1
            continue
        position[depth] += 1
        factor = lattice.divisor[lattice.start[d] + lattice.small[k]]
        product[depth + 1] = product[depth] * factor
        factors[depth + 1] = factors[depth] + lattice.small[k] * lattice.stride[d]
        left[depth + 1] = left[depth] + lattice.rest[k] * lattice.stride[d]
        depth += 1
        position[depth] = 0
    return found, 0


@part
def _choose_divisor(
    lattice: Lattice, d: int, counts: FloatArray, vector: int, target: float,
    bounds: tuple[int, int],
) -> tuple[float, int]:  # fmt: skip
    """Of the vectors that differ in a smaller divisor of d, the first beyond `target` ways.

    The quotient, the factor of the loop, lies between the bounds.
    """
    cell = _place(lattice, d, vector)
    base = vector - (cell - lattice.start[d]) * lattice.stride[d]
    found = 0.0
    last = vector
    for k in range(lattice.below[cell], lattice.below[cell + 1]):
        inner = base + lattice.small[k] * lattice.stride[d]
        factor = lattice.divisor[lattice.start[d] + lattice.rest[k]]
        if bounds[0] <= factor <= bounds[1] and counts[inner] > 0:
            found += counts[inner]
            last = inner
            if found > target:
                break
    return found, last


@compiled
def _count(tables: NestTables, lattice: Lattice, counts: Counts) -> None:
    """Fills the counts, from the innermost slot outwards."""
    n, slots = tables.sizes.size, tables.slot_level.size
    vectors = counts.inwards.shape[1]
    extents, words = np.zeros(n, np.int64), np.zeros(tables.sliding.size, np.int64)
    stack = np.zeros((4, n + 1), np.int64)
    counts.inwards[slots, 0] = 1.0
    for slot in range(slots - 1, -1, -1):
        level = tables.slot_level[slot]
        before, after = counts.inwards[slot + 1], counts.inwards[slot]
        if tables.slot_spatial[slot]:
            for vector in range(vectors):
                _extents(lattice, vector, extents)
                product = 1
                for d in range(n):
                    product *= extents[d]
                if tables.machine.least_units <= product <= tables.fanout[level]:
                    counts.ways[slot, vector] = _choose_axes(tables, level, extents, np.inf)[0]
            for vector in range(vectors):
                after[vector] = _choose_spatial(
                    lattice, counts.ways[slot], before, tables.fanout[level], vector, np.inf, stack
                )[0]
            continue
        for d in range(n):
            inner = before if d == 0 else counts.partly[slot, d - 1]
            bounds = tables.least[slot, d], tables.most[slot, d]
            for vector in range(vectors):
                counts.partly[slot, d, vector] = _choose_divisor(
                    lattice, d, inner, vector, np.inf, bounds
                )[0]
        for vector in range(vectors):
            if counts.partly[slot, n - 1, vector] > 0:
                _extents(lattice, vector, extents)
                for t in range(words.size):
                    words[t] = _words(tables, t, extents)
                fit = _choose_kept(tables, level, words, np.inf)[0]
                after[vector] = counts.partly[slot, n - 1, vector] * fit


@compiled
def _draw(
    tables: NestTables, lattice: Lattice, counts: Counts, uniforms: FloatArray, codes: Codes
) -> None:
    """Draws codes `[B, D]`, from uniforms `[B, S * (n + 1)]`."""
    n, slots = tables.sizes.size, tables.slot_level.size
    extents, words = np.zeros(n, np.int64), np.zeros(tables.sliding.size, np.int64)
    stack = np.zeros((4, n + 1), np.int64)
    factors = np.ones((n, slots), np.int64)
    for b in range(codes.shape[0]):
        vector = counts.inwards.shape[1] - 1
        for slot in range(slots):
            level = tables.slot_level[slot]
            drawn = uniforms[b, slot * (n + 1) : (slot + 1) * (n + 1)]
            if tables.slot_spatial[slot]:
                target = drawn[0] * counts.inwards[slot, vector]
                _, chosen = _choose_spatial(
                    lattice, counts.ways[slot], counts.inwards[slot + 1], tables.fanout[level],
                    vector, target, stack,
                )  # fmt: skip
                _extents(lattice, chosen, extents)
                factors[:, slot] = extents
                if tables.spatial_axis_column[level] >= 0:
                    target = drawn[1] * counts.ways[slot, chosen]
                    _, axes = _choose_axes(tables, level, extents, target)
                    codes[b, tables.spatial_axis_column[level]] = axes
                vector = _divided(lattice, vector, chosen)
                continue
            _extents(lattice, vector, extents)
            for t in range(words.size):
                words[t] = _words(tables, t, extents)
            fit = counts.inwards[slot, vector] / counts.partly[slot, n - 1, vector]
            _, kept, row = _choose_kept(tables, level, words, drawn[n] * fit)
            if tables.keep_column[level] >= 0:
                codes[b, tables.keep_column[level]] = kept
            if tables.banks_column[level] >= 0:
                codes[b, tables.banks_column[level]] = row
            for d in range(n - 1, -1, -1):
                inner = counts.partly[slot, d - 1] if d > 0 else counts.inwards[slot + 1]
                target = drawn[d] * counts.partly[slot, d, vector]
                bounds = tables.least[slot, d], tables.most[slot, d]
                _, vector = _choose_divisor(lattice, d, inner, vector, target, bounds)
            for d in range(n):
                factors[d, slot] = extents[d]
            _extents(lattice, vector, extents)
            for d in range(n):
                factors[d, slot] //= extents[d]
        for d in range(n):
            codes[b, d] = find_row(tables, d, factors[d]) - tables.row_start[d]


@part
def _divided(lattice: Lattice, vector: int, factors: int) -> int:
    """The vector of extents divided by a vector of factors."""
    result = 0
    for d in range(lattice.stride.size):
        cell = _place(lattice, d, vector)
        small = _place(lattice, d, factors) - lattice.start[d]
        for k in range(lattice.below[cell], lattice.below[cell + 1]):
            if lattice.small[k] == small:
                result += lattice.rest[k] * lattice.stride[d]
    return result
