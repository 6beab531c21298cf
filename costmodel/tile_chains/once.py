"""Compiled: what words that enter tiles cost, ports' cycles, and words that enter a tile once.

Letters: B assignments, L levels, n dimensions, T tensors, X axes of all tensors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from costmodel.arrays.machine_tables import prices_of_values
from costmodel.arrays.projections import GROUPS_PER_AXIS, GROUPS_PER_CHILD, PART_OF_INPUT
from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.compiled.by_reference import by_reference
from costmodel.compiled.laid_out import laid_out
from costmodel.loop_nest.spatial_groups import distinct_sums
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.lattice import lattice
from costmodel.tile_chains.tiles import FloatArray


@by_reference
class Moving(NamedTuple):
    """What moves the tensors of a map space, and what that costs.

    sizes `[n]`; divisors of each, those of dimension d from divisor_start `[n + 1]` on; relevant,
    grouping, axis_start, term_start, term_dimension, term_coefficient, words, macs and mac_energy
    as in `NestTables`; output `[T]` 1 where a tensor is one; lone `[X]` 1 where no other
    axis of the tensor has a dimension of the axis, whole `[X]` places along it; action `[L, T, 3]`
    of a value; width `[L, T]` words of a bandwidth that go with it; the others as in
    `MachineTables`.
    """

    sizes: Array
    divisor_start: Array
    divisors: Array
    relevant: Array
    grouping: Array
    axis_start: Array
    term_start: Array
    term_dimension: Array
    term_coefficient: Array
    words: Array
    output: Array
    lone: Array
    whole: Array
    macs: int
    mac_energy: float
    action: FloatArray
    width: FloatArray
    address: FloatArray
    clusters: Array
    leakage: FloatArray
    cycles_per_mac: int
    waiting: int
    charged: int


class Filled(NamedTuple):
    """What `fill_weights` fills: the fields of `Weights` of the same names, and scratch `[L + 1]`.

    above: instances of every level, the MACs last.
    """

    weight: FloatArray
    fixed: FloatArray
    base: FloatArray
    own: FloatArray
    cycles: Array
    above: Array


_moving: WeakKeyDictionary[MapSpace, Moving] = WeakKeyDictionary()


def moving_of(space: MapSpace) -> Moving:
    """What moves the tensors of a map space; found once."""
    if space not in _moving:
        _moving[space] = _find_moving(space)
    return _moving[space]


def _find_moving(space: MapSpace) -> Moving:
    tables, machine = space.tables, space.tables.machine
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
    divisors = lattice(tables.sizes.tolist())
    return laid_out(
        Moving(
            tables.sizes, divisors["divisor_start"], divisors["divisors"], tables.relevant,
            tables.grouping, tables.axis_start, tables.term_start, tables.term_dimension,
            tables.term_coefficient, tables.words,
            (tables.part_kind != PART_OF_INPUT).astype(np.int64), lone, whole,
            int(tables.macs), float(tables.mac_energy), prices_of_values(machine), machine.words,
            machine.address, machine.clusters, machine.leakage, int(machine.cycles_per_mac),
            int(machine.waiting), int(machine.charged),
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
    outside: Array,
    inside: Array,
) -> int:
    """The fewest children of an instance that have tiles of their own of a tensor.

    Args:
        moving: the map space.
        level: the level that fans out.
        t: the tensor.
        spatial: `[n]` factors below it.
        outside: `[n]` products of the factors below it and below all levels outside it.
        inside: `[n]` products of those below the levels further in.
    """
    kind, count = moving.grouping[level, t], 1
    if kind != GROUPS_PER_AXIS:
        for d in range(spatial.size):
            if kind == GROUPS_PER_CHILD or moving.relevant[t, d] > 0:
                count *= spatial[d]
        return count
    for axis in range(moving.axis_start[t], moving.axis_start[t + 1]):
        first, second, more = -1, -1, 0
        for k in range(moving.term_start[axis], moving.term_start[axis + 1]):
            factor = spatial[moving.term_dimension[k]]
            if factor > 1 and first < 0:
                first = k
            elif factor > 1 and second < 0:
                second = k
            else:
                more += factor - 1
        if second >= 0:
            # With a set more there are as many sums more as it has members, less one, at least.
            count *= more + _fewest_sums(moving, first, second, spatial, outside, inside)
        elif first >= 0:
            count *= spatial[moving.term_dimension[first]]
    return count


@part
def _fewest_sums(
    moving: Moving,
    one: int,
    two: int,
    spatial: Array,
    outside: Array,
    inside: Array,
) -> int:
    """The fewest different sums of the steps of two terms of an axis, over all children's tiles.

    Extents of these are multiples of the factors further in, and divide what those outside leave.
    """
    d, e = moving.term_dimension[one], moving.term_dimension[two]
    fewest: int = spatial[d] * spatial[e]
    for i in range(moving.divisor_start[d], moving.divisor_start[d + 1]):
        extent = moving.divisors[i]
        if extent % inside[d] or moving.sizes[d] // outside[d] % extent:
            continue
        for j in range(moving.divisor_start[e], moving.divisor_start[e + 1]):
            other = moving.divisors[j]
            if other % inside[e] or moving.sizes[e] // outside[e] % other:
                continue
            step, its = moving.term_coefficient[one] * extent, moving.term_coefficient[two] * other
            fewest = min(fewest, distinct_sums(spatial[d], step, spatial[e], its))
    return fewest


@lean
def fill_groups(
    moving: Moving,
    spatial: Array,
    products: Array,
    found: Array,
) -> None:
    """Fills the fewest children that have tiles of their own.

    Args:
        moving: the map space.
        spatial: `[B, L, n]` factors below every level.
        products: `[2, n]` scratch.
        found: `[B, L, T]` filled.
    """
    outside, inside = products[0], products[1]
    for b in range(found.shape[0]):
        for d in range(moving.sizes.size):
            outside[d] = inside[d] = 1
            for level in range(found.shape[1]):
                inside[d] *= spatial[b, level, d]
        for level in range(found.shape[1]):
            for d in range(moving.sizes.size):
                outside[d] *= spatial[b, level, d]
                inside[d] //= spatial[b, level, d]
            for t in range(found.shape[2]):
                found[b, level, t] = _groups(moving, level, t, spatial[b, level], outside, inside)


@lean
def fill_weights(
    moving: Moving,
    keeps: Array,
    groups: Array,
    delivered: FloatArray,
    outer: Array,
    found: Filled,
) -> None:
    """Fills what words that enter tiles cost.

    Args:
        moving: the map space.
        keeps: `[L]` kept tensors of every level, as bits.
        groups: `[B, L, T]` children with tiles of their own.
        delivered: `[B, L, T]` pJ that a delivery to all children of an instance costs.
        outer: `[B, L + 1, n]` spatial factors outside a level.
        found: filled, where there is nothing.
    """
    levels, tensors = keeps.size, groups.shape[2]
    above = found.above
    for b in range(groups.shape[0]):
        leaks = 0.0
        for level in range(levels + 1):
            above[level] = 1
            for d in range(moving.sizes.size):
                above[level] *= outer[b, level, d]
            leaks += moving.leakage[level] * above[level]
        steps = moving.macs // above[levels]
        found.cycles[b] = steps * moving.cycles_per_mac + moving.waiting
        found.base[b] = float(moving.macs) * moving.mac_energy + leaks * found.cycles[b]
        found.fixed[b] = found.base[b]
        reads = 0.0
        for t in range(tensors):
            _weigh_tensor(moving, keeps, groups[b], delivered[b], outer[b], b, t, found)
            reads += found.weight[b, levels, t]
            found.own[b, t] += found.weight[b, levels, t] * steps
        found.fixed[b] += reads * steps


@part
def _weigh_tensor(
    moving: Moving,
    keeps: Array,
    groups: Array,
    delivered: FloatArray,
    outer: Array,
    b: int,
    t: int,
    found: Filled,
) -> None:
    """Fills what words of a tensor cost under an assignment."""
    levels, outermost = keeps.size, True
    for level in range(levels):
        if not (keeps[level] >> t) & 1:
            continue
        clusters = min(found.above[level], moving.clusters[level])
        filled = clusters * (moving.action[level, t, 1] + moving.address[level])
        if not outermost:
            found.weight[b, level, t] += filled
        if moving.output[t] > 0:
            # What is produced for the first time is neither read nor filled.
            saved = clusters * moving.action[level, t, 0]
            if not outermost and not moving.charged:
                saved += filled
            less = _part_of_output(moving, t, outer[level]) * saved
            found.fixed[b] -= less
            found.own[b, t] -= less
        outermost = False
    for level in range(levels):
        if not (keeps[level] >> t) & 1:
            continue
        child, served = level + 1, 1
        while child < levels and not (keeps[child] >> t) & 1:
            child += 1
        for f in range(child - 1, level - 1, -1):
            found.weight[b, child, t] += found.above[f] * served * delivered[f, t]
            served *= groups[f, t]
        per_word = moving.action[level, t, 0] + moving.address[level]
        if moving.output[t] > 0:
            per_word += moving.action[level, t, 2]
        clusters = min(found.above[level], moving.clusters[level])
        found.weight[b, child, t] += clusters * served * per_word


@lean
def fill_port_weights(
    moving: Moving,
    ports: Array,
    bandwidth: FloatArray,
    keeps: Array,
    groups: Array,
    outer: Array,
    weight: FloatArray,
    own: FloatArray,
) -> None:
    """Fills the cycles of ports.

    Args:
        moving: the map space.
        ports: `[P, 4]` its first level, the one past its last, and 1 where it reads, where it
            writes.
        bandwidth: `[P]` words per cycle.
        keeps: `[L]` kept tensors of every level, as bits.
        groups: `[B, L, T]` children with tiles of their own.
        outer: `[B, L + 1, n]` spatial factors outside a level.
        weight: `[P, B, L + 1, T]` nothing; filled with cycles per word that enters a tile.
        own: `[P, B, T]` nothing; filled with those that no tile decides.
    """
    for p in range(ports.shape[0]):
        for level in range(ports[p, 0], ports[p, 1]):
            _fill_port(moving, ports[p], level, keeps, groups, outer, weight[p], own[p])
        _take_time(moving, bandwidth[p], outer, weight[p], own[p])


@part
def _fill_port(
    moving: Moving,
    port: Array,
    level: int,
    keeps: Array,
    groups: Array,
    outer: Array,
    weight: FloatArray,
    own: FloatArray,
) -> None:
    """Adds what a port moves of all tensors at one of its levels, in words."""
    reads, writes = port[2], port[3] > 0
    for t in range(own.shape[1]):
        if not (keeps[level] >> t) & 1:
            continue
        outermost, child = True, keeps.size
        for at in range(keeps.size):
            if at < level and (keeps[at] >> t) & 1:
                outermost = False
            if level < at < child and (keeps[at] >> t) & 1:
                child = at
        output, width = moving.output[t] > 0, moving.width[level, t]
        passes = reads + int(writes and output)
        kept_back = reads + int(writes and not outermost and not moving.charged)
        for b in range(own.shape[0]):
            served = 1
            for f in range(level, child):
                served *= groups[b, f, t]
            weight[b, child, t] += served * passes * width
            if writes and not outermost:
                weight[b, level, t] += width
            if output:
                own[b, t] -= _part_of_output(moving, t, outer[b, level]) * kept_back * width


@part
def _part_of_output(
    moving: Moving,
    t: int,
    outer: Array,
) -> int:
    """Words of a tensor that one instance has in all, by the factors `[n]` outside it."""
    outside = 1
    for d in range(moving.sizes.size):
        if moving.relevant[t, d] > 0:
            outside *= outer[d]
    words: int = moving.words[t] // outside
    return words


@part
def _take_time(
    moving: Moving,
    bandwidth: float,
    outer: Array,
    weight: FloatArray,
    own: FloatArray,
) -> None:
    """Makes cycles of words, the MACs' reads included."""
    levels = weight.shape[1] - 1
    for b in range(own.shape[0]):
        used = 1
        for d in range(moving.sizes.size):
            used *= outer[b, levels, d]
        for t in range(own.shape[1]):
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
                found[b, level, t] = _once(moving, outer[b, level], t, found[b, level, t])


@lean
def fill_floors(
    moving: Moving,
    outer: Array,
    weight: FloatArray,
    fixed: FloatArray,
    found: FloatArray,
) -> None:
    """Fills what costs at least if every word enters every tile once.

    Args:
        moving: the map space.
        outer: `[B, L + 1, n]` spatial factors outside.
        weight: `[P, B, L + 1, T]` what a word costs, by several lists of prices.
        fixed: `[P, B]` what no tile decides.
        found: `[P, B]` filled.
    """
    for p in range(found.shape[0]):
        for b in range(found.shape[1]):
            whole = 0.0
            for level in range(weight.shape[2] - 1):
                whole += _level_once(moving, outer[b, level], weight[p, b, level])
            found[p, b] = fixed[p, b] + whole


@lean
def fill_inside(
    moving: Moving,
    outer: Array,
    weight: FloatArray,
    energy: FloatArray,
    entering: FloatArray,
    found: FloatArray,
) -> None:
    """Fills what words cost at least that enter the tiles of the levels further in than each.

    Args:
        moving: the map space.
        outer: `[B, L + 1, n]` spatial factors outside.
        weight: `[B, L + 1, T]` what a word costs.
        energy: `[B, L + 1, T]` the energy that is a part of it.
        entering: `[B, L]` energy that entering a level's tiles needs; 0 where it is not known.
        found: `[B, L]` filled.
    """
    for b in range(found.shape[0]):
        inside = 0.0
        for level in range(found.shape[1] - 1, -1, -1):
            once = _level_once(moving, outer[b, level], weight[b, level])
            if entering[b, level] > 0:
                # Energy is a part of what costs, the rest enters once.
                least = _level_once(moving, outer[b, level], energy[b, level])
                once += max(0.0, entering[b, level] - least)
            inside += once
            found[b, level] = inside - once


@part
def _level_once(
    moving: Moving,
    outer: Array,
    weight: FloatArray,
) -> float:
    """What entering a level's tile costs all tensors at least, by prices `[T]` of a word."""
    cost = 0.0
    for t in range(weight.size):
        cost += _once(moving, outer, t, weight[t])
    return cost


@part
def _once(
    moving: Moving,
    outer: Array,
    t: int,
    cost: float,
) -> float:
    """What a tensor's words cost at a level if each enters once, by what one costs."""
    alone = 1
    for axis in range(moving.axis_start[t], moving.axis_start[t + 1]):
        start, stop = moving.term_start[axis], moving.term_start[axis + 1]
        d = moving.term_dimension[start]
        if stop > start + 1 and moving.lone[axis]:
            cost *= _places(moving, axis, outer)
        elif stop == start + 1 and _is_first(moving, t, axis, d):
            alone *= moving.sizes[d] // outer[d]
    return cost * alone


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
