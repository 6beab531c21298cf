"""Compiled: what ports move of words that enter tiles, and words that enter every tile once.

Letters: B assignments, L levels, n dimensions, T tensors, X axes of all tensors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from costmodel.arrays.projections import GROUPS_PER_AXIS, GROUPS_PER_CHILD, PART_OF_INPUT
from costmodel.arrays.tables import Array
from costmodel.by_reference import by_reference
from costmodel.compiled import lean, part
from costmodel.laid_out import laid_out
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.tiles import FloatArray


@by_reference
class Moving(NamedTuple):
    """What moves the tensors of a map space.

    sizes `[n]`; relevant, grouping, axis_start, term_start, term_dimension and words as in
    `NestTables`; output `[T]` 1 where a tensor is one; lone `[X]` 1 where no other axis of the
    tensor has a dimension of the axis, whole `[X]` places along it; macs; charged as in
    `MachineTables`.
    """

    sizes: Array
    relevant: Array
    grouping: Array
    axis_start: Array
    term_start: Array
    term_dimension: Array
    words: Array
    output: Array
    lone: Array
    whole: Array
    macs: int
    charged: int


_moving: WeakKeyDictionary[MapSpace, Moving] = WeakKeyDictionary()


def moving_of(space: MapSpace) -> Moving:
    """What moves the tensors of a map space; found once."""
    if space not in _moving:
        _moving[space] = _find_moving(space)
    return _moving[space]


def _find_moving(space: MapSpace) -> Moving:
    tables = space.tables
    axes = tables.term_start.size - 1
    lone, whole = np.zeros(axes, np.int64), np.ones(axes, np.int64)
    for t in range(tables.sliding.size):
        start = tables.term_start[tables.axis_start[t] : tables.axis_start[t + 1] + 1]
        uses = np.bincount(tables.term_dimension[start[0] : start[-1]], minlength=tables.sizes.size)
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            terms = slice(tables.term_start[axis], tables.term_start[axis + 1])
            dims = tables.term_dimension[terms]
            lone[axis] = (uses[dims] == 1).all()
            if dims.size > 1 and lone[axis]:
                whole[axis] = distinct(tables.sizes[dims], tables.term_coefficient[terms])
    return laid_out(
        Moving(
            tables.sizes, tables.relevant, tables.grouping, tables.axis_start, tables.term_start,
            tables.term_dimension, tables.words,
            (tables.part_kind != PART_OF_INPUT).astype(np.int64), lone, whole,
            int(tables.macs), int(tables.machine.charged),
        )
    )  # fmt: skip


def distinct(factors: Array, steps: Array) -> int:
    """Distinct sums of multiples of steps, each below its factor."""
    return _distinct(tuple(factors.tolist()), tuple(steps.tolist()))


@lru_cache(maxsize=1024)
def _distinct(factors: tuple[int, ...], steps: tuple[int, ...]) -> int:
    offsets = np.zeros(1, np.int64)
    for factor, step in zip(factors, steps, strict=True):
        offsets = np.unique(offsets[:, None] + step * np.arange(factor))
    return len(offsets)


@part
def _groups(
    moving: Moving,
    level: int,
    t: int,
    spatial: Array,
) -> int:
    """The fewest children of an instance that have tiles of their own of a tensor."""
    kind, count = moving.grouping[level, t], 1
    if kind != GROUPS_PER_AXIS:
        for d in range(spatial.size):
            if kind == GROUPS_PER_CHILD or moving.relevant[t, d] > 0:
                count *= spatial[d]
        return count
    for axis in range(moving.axis_start[t], moving.axis_start[t + 1]):
        # Sums of steps are at least as many as if all steps were equal.
        sums = 1
        for k in range(moving.term_start[axis], moving.term_start[axis + 1]):
            sums += spatial[moving.term_dimension[k]] - 1
        count *= sums
    return count


@lean
def fill_port_weights(
    moving: Moving,
    port: tuple[int, bool, bool, float],
    keeps: Array,
    spatial: Array,
    outer: Array,
    weight: FloatArray,
    own: FloatArray,
) -> None:
    """Fills the cycles of a port.

    Args:
        moving: the map space.
        port: its level, whether it reads, whether it writes, and words per cycle.
        keeps: `[L]` kept tensors of every level, as bits.
        spatial: `[B, L, n]` spatial factors below every level.
        outer: `[B, L + 1, n]` their products outside a level.
        weight: `[B, L + 1, T]` nothing; filled with cycles per word that enters a tile.
        own: `[B, T]` nothing; filled with those that no tile decides.
    """
    level, reads, writes, bandwidth = port
    levels, tensors = keeps.size, own.shape[1]
    for t in range(tensors):
        outermost, child = True, levels
        for at in range(levels):
            if at < level and (keeps[at] >> t) & 1:
                outermost = False
            if level < at < child and (keeps[at] >> t) & 1:
                child = at
        if not (keeps[level] >> t) & 1:
            continue
        output = moving.output[t] > 0
        passes = int(reads) + int(writes and output)
        kept_back = int(reads) + int(writes and not outermost and not moving.charged)
        for b in range(own.shape[0]):
            served = 1
            for f in range(level, child):
                served *= _groups(moving, f, t, spatial[b, f])
            weight[b, child, t] += served * passes
            if writes and not outermost:
                weight[b, level, t] += 1
            if output:
                outside = 1
                for d in range(moving.sizes.size):
                    if moving.relevant[t, d] > 0:
                        outside *= outer[b, level, d]
                own[b, t] -= (moving.words[t] // outside) * kept_back
    for b in range(own.shape[0]):
        used = 1
        for d in range(moving.sizes.size):
            used *= outer[b, levels, d]
        for t in range(tensors):
            own[b, t] = (own[b, t] + weight[b, levels, t] * (moving.macs // used)) / bandwidth
            for at in range(levels + 1):
                weight[b, at, t] /= bandwidth


@lean
def multiply_words_once(
    moving: Moving,
    outer: Array,
    found: FloatArray,
) -> None:
    """Multiplies what a word costs by the words that enter every tile at least once.

    Args:
        moving: the map space.
        outer: `[B, L + 1, n]` spatial factors outside.
        found: `[B, L, T]` what a word costs; multiplied.
    """
    for b in range(found.shape[0]):
        for level in range(found.shape[1]):
            for t in range(found.shape[2]):
                alone = 1
                for axis in range(moving.axis_start[t], moving.axis_start[t + 1]):
                    start, stop = moving.term_start[axis], moving.term_start[axis + 1]
                    d = moving.term_dimension[start]
                    if stop > start + 1 and moving.lone[axis]:
                        found[b, level, t] *= _places(moving, axis, outer[b, level])
                    elif stop == start + 1 and _is_first(moving, t, axis, d):
                        alone *= moving.sizes[d] // outer[b, level, d]
                found[b, level, t] *= alone


@part
def _is_first(
    moving: Moving,
    t: int,
    axis: int,
    d: int,
) -> bool:
    """Whether no axis before this one of a tensor is one dimension's alone, the same one's."""
    for before in range(moving.axis_start[t], axis):
        start = moving.term_start[before]
        if moving.term_start[before + 1] == start + 1 and moving.term_dimension[start] == d:
            return False
    return True


@part
def _places(
    moving: Moving,
    axis: int,
    outer: Array,
) -> int:
    """Places along an axis of several dimensions that an instance needs at least."""
    places, spread = 1, False
    for k in range(moving.term_start[axis], moving.term_start[axis + 1]):
        d = moving.term_dimension[k]
        # An instance has some of each dimension; sums of two sets are as many as both, less one.
        places += moving.sizes[d] // outer[d] - 1
        spread = spread or outer[d] > 1
    known: int = places if spread else moving.whole[axis]
    return known
