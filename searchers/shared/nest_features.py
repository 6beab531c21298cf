"""What a loop-nest mapping is and moves, as columns for regressions: descriptors and traffic.

Traffic is counted by reuse analysis from tile sizes and loop orders alone: a tile stays while loops
over dimensions that it does not depend on run inside, children that share a tile are served at
once, a sliding window keeps its overlap from one step of the innermost loop to the next, and a word
of the output is not read before it was written. No energy, bandwidth or other figure of the machine
but the shape of its memory is read.

Letters: B mappings, n dimensions, S slots, L levels, T tensors, K traffic columns, F descriptors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import NestTables
from costmodel.space import Codes

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


class Nests(NamedTuple):
    """Mappings spelled out.

    Attributes:
        factors: `[B, n, S]` trip counts.
        extents: `[B, L, n]` extents of the tiles of each level.
        words: `[B, L, T]` words of the tiles, whether kept or not.
        kept: `[B, L, T]` bool.
        instances: `[B, L]` copies of each level in use.
    """

    factors: Integers
    extents: Integers
    words: Integers
    kept: npt.NDArray[np.bool_]
    instances: Integers


def spell_out(tables: NestTables, codes: Codes) -> Nests:
    """The factors, tiles and kept tensors of codes `[B, D]`."""
    batch, n = len(codes), tables.sizes.size
    levels, tensors = tables.capacity.size, tables.sliding.size
    rows = codes[:, :n] + tables.row_start[:-1]
    factors = tables.factors[rows]
    extents = np.ascontiguousarray(tables.within[rows][:, :, tables.temporal_slot].swapaxes(1, 2))
    words = np.ones((batch, levels, tensors), np.int64)
    for t in range(tensors):
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            words[:, :, t] *= _extent(tables, extents, axis)
    kept = np.ones((batch, levels, tensors), np.bool_)
    instances = np.ones((batch, levels), np.int64)
    for level in range(levels):
        if tables.keep_column[level] >= 0:
            mask = codes[:, tables.keep_column[level], None]
            kept[:, level] = (mask >> np.arange(tensors)) & 1
        if tables.bypass_on_overflow and level > 0 and tables.capacity[level] >= 0:
            kept[:, level] &= _held(tables, codes, level, words[:, level], kept[:, level])
        if tables.spatial_slot[level] >= 0:
            used = factors[:, :, tables.spatial_slot[level]].prod(axis=1)
            instances[:, level + 1 :] *= used[:, None]
    return Nests(factors, extents, words, kept, instances)


def cycles(tables: NestTables, nests: Nests) -> Integers:
    """`[B]` iterations that each processing element runs."""
    product: Integers = nests.factors[:, :, tables.temporal_slot].prod(axis=(1, 2))
    return product


def descriptors(tables: NestTables, codes: Codes, nests: Nests) -> Reals:
    """What mappings are, without any reuse analysis: `[B, F]`.

    Logarithms of the factors, of the tiles' extents and of the elements in use; ranks of the loops
    that run, 0 where one does not; kept tensors and what else the code leaves to choose.
    """
    batch = len(codes)
    columns: list[npt.NDArray[np.generic]] = [
        np.log(nests.factors).reshape(batch, -1),
        np.log(nests.extents[:, 1:]).reshape(batch, -1),
        np.log(nests.instances[:, -1:]),
        nests.kept[:, 1:].reshape(batch, -1),
    ]
    for level in range(tables.capacity.size - 1):
        running = nests.factors[:, :, tables.temporal_slot[level]] > 1
        ranks = tables.ranks[
            tables.order_start[0, level] + codes[:, tables.order_column[level]]
        ].astype(np.float64)
        outer = (ranks[:, :, None] > ranks[:, None, :]) & running[:, None, :]
        inner = (ranks[:, :, None] < ranks[:, None, :]) & running[:, None, :]
        columns += [
            running * (outer.sum(axis=2) - inner.sum(axis=2)),
            2.0 * (running & ~inner.any(axis=2)),
        ]
    bits = np.arange(tables.sizes.size)
    for level in range(tables.capacity.size):
        if tables.spatial_order_column[level] >= 0:
            first = tables.order_start[1, level]
            columns.append(tables.ranks[first + codes[:, tables.spatial_order_column[level]]])
        if tables.spatial_axis_column[level] >= 0:
            columns.append((codes[:, [tables.spatial_axis_column[level]]] >> bits) & 1)
    return np.concatenate(columns, axis=1).astype(np.float64)


def traffic(tables: NestTables, codes: Codes, nests: Nests) -> Reals:
    """Words that cross each boundary over the whole run: `[B, K]`.

    Two columns per tensor and level that can matter: words that leave a level inwards (of the
    output: that are updated and read there), and words that enter it from outside, in all
    instances together.
    """
    levels = tables.capacity.size
    loops = _Loops(tables, codes, nests)
    columns = []
    for t in range(tables.sliding.size):
        entering = cycles(tables, nests)
        groups = np.ones(len(codes), np.int64)
        for level in range(levels - 1, -1, -1):
            slot = tables.spatial_slot[level]
            if slot >= 0:
                groups = groups * _distinct(tables, nests, t, slot)
            kept = nests.kept[:, level, t]
            served = np.where(kept, entering * groups, 0)
            filled = np.zeros(len(codes), np.int64)
            if level > 0:
                outside = kept & nests.kept[:, :level, t].any(axis=1)
                filled = np.where(outside, loops.words_entering(t, level), 0)
            if t == tables.output:
                first = _first_writes(tables, nests, level)
                columns.append((2 * served - np.where(kept, first, 0)) * nests.instances[:, level])
                produced = np.where(filled > 0, filled - first, 0)
            else:
                columns.append(served * nests.instances[:, level])
                produced = filled
            if level > 0:
                columns.append(produced * nests.instances[:, level])
            entering = np.where(kept, filled, entering)
            groups = np.where(kept, 1, groups)
    return np.stack(columns, axis=1).astype(np.float64)


class _Loops:
    """The temporal loops above the innermost level, innermost first; `[B, J]` each."""

    def __init__(self, tables: NestTables, codes: Codes, nests: Nests) -> None:
        self.tables, self.nests = tables, nests
        dimensions, trips, steps = [], [], []
        for level in range(tables.capacity.size - 2, -1, -1):
            index = tables.order_start[0, level] + codes[:, tables.order_column[level]]
            order = tables.orders[index][:, ::-1].astype(np.int64)
            slot = tables.temporal_slot[level]
            inside = tables.within[codes[:, : order.shape[1]] + tables.row_start[:-1], slot + 1]
            dimensions.append(order)
            trips.append(np.take_along_axis(nests.factors[:, :, slot], order, axis=1))
            steps.append(np.take_along_axis(inside, order, axis=1))
        self.dimension = np.concatenate(dimensions, axis=1)
        self.trips = np.concatenate(trips, axis=1)
        self.step = np.concatenate(steps, axis=1)
        # Trips of a loop and of all outside it; 1 beyond the last.
        products = np.cumprod(self.trips[:, ::-1], axis=1)[:, ::-1]
        self.outer = np.pad(products, ((0, 0), (0, 1)), constant_values=1)

    def words_entering(self, t: int, level: int) -> Integers:
        """`[B]` words of a tensor that enter one tile of a level over the whole run."""
        tables, nests = self.tables, self.nests
        start = (tables.capacity.size - 1 - level) * tables.sizes.size
        tile = nests.words[:, level, t]
        runs = self.trips[:, start:] > 1
        moves = runs & (tables.relevant[t][self.dimension[:, start:]] > 0)
        words = tile * _at(self.outer, start, moves)
        if not tables.sliding[t]:
            return words
        # The innermost loop slides the window: only what is new enters at its steps.
        first = np.where(runs.any(axis=1), start + runs.argmax(axis=1), -1)
        rows = np.arange(len(first))
        dimension = self.dimension[rows, first]
        axis = tables.axis_of[t][dimension]
        slides = (first >= 0) & (axis >= 0)
        step = tables.coefficient_of[t][dimension] * self.step[rows, first]
        extent = np.ones(len(first), np.int64)
        for a in range(tables.axis_start[t + 1] - tables.axis_start[t]):
            spans = _extent(tables, nests.extents[:, level : level + 1], tables.axis_start[t] + a)
            extent = np.where(axis == a, spans[:, 0], extent)
        new = tile - tile // extent * np.maximum(0, extent - step)
        trips = self.trips[rows, first]
        slid = self.outer[rows, first + 1] * (tile + (trips - 1) * new)
        return np.where(slides, slid, words)


def _at(outer: Integers, start: int, moves: npt.NDArray[np.bool_]) -> Integers:
    """The product of trips from the innermost loop that moves outwards; 1 where none does."""
    beyond = outer.shape[1] - 1
    first = np.where(moves.any(axis=1), start + moves.argmax(axis=1), beyond)
    taken: Integers = outer[np.arange(len(outer)), first]
    return taken


def _extent(tables: NestTables, extents: Integers, axis: int) -> Integers:
    """`[B, L]` extents of tiles along an axis of a tensor, from extents `[B, L, n]`."""
    spans = np.ones(extents.shape[:2], np.int64)
    for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
        inside = extents[:, :, tables.term_dimension[k]]
        spans = spans + tables.term_coefficient[k] * (inside - 1)
    return spans


def _distinct(tables: NestTables, nests: Nests, t: int, slot: int) -> Integers:
    """`[B]` different tiles of a tensor among the children of one instance.

    Exact for axes of one and two moving terms; of more, every child counts.
    """
    count = np.ones(len(nests.factors), np.int64)
    child = int(tables.slot_level[slot]) + 1
    inner = (
        nests.extents[:, child]
        if child < nests.extents.shape[1]
        else np.ones_like(nests.extents[:, 0])
    )
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        terms = range(tables.term_start[axis], tables.term_start[axis + 1])
        along = [nests.factors[:, tables.term_dimension[k], slot] for k in terms]
        for factors in along:
            count = count * factors
        if len(along) == 2:
            steps = [tables.term_coefficient[k] * inner[:, tables.term_dimension[k]] for k in terms]
            # (i, j) and (i + b, j - a) coincide where steps are in the ratio a : b.
            common = np.gcd(steps[0], steps[1])
            repeats = np.maximum(0, along[0] - steps[1] // common) * np.maximum(
                0, along[1] - steps[0] // common
            )
            count = count // (along[0] * along[1]) * (along[0] * along[1] - repeats)
    return count


def _first_writes(tables: NestTables, nests: Nests, level: int) -> Integers:
    """`[B]` words of the output that one instance of a level writes before it ever reads them."""
    split = np.ones(len(nests.factors), np.int64)
    for further in range(level):
        if tables.spatial_slot[further] >= 0:
            relevant = tables.relevant[tables.output] > 0
            factors = nests.factors[:, :, tables.spatial_slot[further]]
            split = split * np.where(relevant, factors, 1).prod(axis=1)
    return tables.output_words // split


def _held(
    tables: NestTables,
    codes: Codes,
    level: int,
    words: Integers,
    wanted: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """`[B, T]` tensors that a level still holds where what overflows bypasses it."""
    words = words * tables.machine.room[level]
    if tables.banks_column[level] >= 0:
        rows = tables.allocation_start[level] + codes[:, tables.banks_column[level]]
        fits: npt.NDArray[np.bool_] = words <= tables.allocations[rows] * tables.bank_words[level]
        return fits
    used = np.zeros(len(words), np.int64)
    held = np.zeros(words.shape, np.bool_)
    for t in range(words.shape[1]):
        held[:, t] = wanted[:, t] & (used + words[:, t] <= tables.capacity[level])
        used += np.where(held[:, t], words[:, t], 0)
    return held
