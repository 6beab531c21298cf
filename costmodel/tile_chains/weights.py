"""What a word that enters a tile costs, for assignments of kept tensors and spatial factors.

Energy is linear in the words that enter tiles. Every such word costs its fill, and its share of
the reads (of outputs: reads and updates) of the next level outwards that keeps the tensor; what is
read for the MACs is one more tile, of one word. Rounding up to blocks is left out here, and of
what networks cost only the least that a delivery to all children can cost is counted, so that with
either of them the sum is a lower bound.

Letters: B assignments, L levels, n dimensions, T tensors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.machine_tables import NETWORK_OF_HOPS
from costmodel.arrays.projections import (
    GROUPS_PER_AXIS,
    GROUPS_PER_CHILD,
    PART_OF_INPUT,
)
from costmodel.arrays.tables import Array
from costmodel.loop_nest.networks import fill_least_hops
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.once import distinct, moving_of, multiply_words_once
from costmodel.tile_chains.tiles import FloatArray


class Weights(NamedTuple):
    """Energy of the words that enter tiles, and what does not depend on tiles.

    weight `[B, L + 1, T]` pJ per word that enters a tile, the MACs' last; fixed `[B]` pJ, the MACs'
    reads included; base `[B]` what of that is no tensor's, own `[B, T]` what is: like its weight it
    depends on the levels that keep this tensor alone; cycles `[B]` of computing, with latencies;
    outer `[B, L + 1, n]` products of the spatial factors outside a level.
    """

    weight: FloatArray
    fixed: FloatArray
    base: FloatArray
    own: FloatArray
    cycles: Array
    outer: Array


def groups(space: MapSpace, level: int, t: int, spatial: Array, inside: Array | None) -> Array:
    """`[B]` children of an instance with tiles of their own of a tensor.

    Args:
        space: the map space.
        level: the level that fans out.
        t: the tensor.
        spatial: `[B, n]` spatial factors below it.
        inside: `[B, n]` extents of the children's tiles; None: the fewest that there can be.
    """
    tables = space.tables
    kind = tables.grouping[level, t]
    if kind == GROUPS_PER_CHILD:
        return np.asarray(spatial.prod(axis=1))
    if kind != GROUPS_PER_AXIS:
        return np.asarray(spatial[:, tables.relevant[t] > 0].prod(axis=1))
    count = np.ones(len(spatial), np.int64)
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        terms = slice(tables.term_start[axis], tables.term_start[axis + 1])
        dims, coefficients = tables.term_dimension[terms], tables.term_coefficient[terms]
        factors = spatial[:, dims]
        if inside is None:
            # Sums of steps are at least as many as if all steps were equal.
            count *= 1 + (factors - 1).sum(axis=1)
        else:
            steps = coefficients * inside[:, dims]
            count *= np.array([distinct(*row) for row in zip(factors, steps, strict=True)])
    return count


def weights(
    space: MapSpace, keeps: tuple[int, ...], spatial: Array, extents: Array | None = None
) -> Weights:
    """The weights of assignments.

    Args:
        space: the map space.
        keeps: `[L]` kept tensors of every level, as bits.
        spatial: `[B, L, n]` spatial factors below every level.
        extents: `[B, L + 1, n]` tiles of all levels and of a MAC, where they are known: sums are
            then equal to the model's (but for blocks and networks), not below them.
    """
    tables, machine = space.tables, space.tables.machine
    batch, levels = len(spatial), len(keeps)
    outer = np.ones((batch, levels + 1, spatial.shape[2]), np.int64)
    outer[:, 1:] = np.cumprod(spatial, axis=1)
    above = outer.prod(axis=2)
    steps = int(tables.macs) // above[:, -1]
    cycles = steps * int(machine.cycles_per_mac) + int(machine.waiting)
    clusters = np.minimum(above[:, :-1], machine.clusters)
    action = machine.action / machine.block[:, None]
    weight = np.zeros((batch, levels + 1, tables.sliding.size))
    own = np.zeros((batch, tables.sliding.size))
    fixed = np.full(batch, float(tables.macs) * float(tables.mac_energy))
    fixed += (machine.leakage * above[:, :-1]).sum(axis=1) * cycles
    base = fixed.copy()
    for t in range(tables.sliding.size):
        output = tables.part_kind[t] != PART_OF_INPUT
        kept = [level for level in range(levels) if (keeps[level] >> t) & 1]
        moving = tables.relevant[t] > 0
        for level in kept:
            filled = clusters[:, level] * (action[level, 1] + machine.address[level])
            if level != kept[0]:
                weight[:, level, t] += filled
            if output:
                # What is produced for the first time is neither read nor filled.
                part = int(tables.words[t]) // outer[:, level, moving].prod(axis=1)
                saved = clusters[:, level] * action[level, 0]
                filling = level != kept[0] and not machine.charged
                less = part * (saved + filling * filled)
                fixed -= less
                own[:, t] -= less
        for place, level in enumerate(kept):
            child = kept[place + 1] if place + 1 < len(kept) else levels
            served = np.ones(batch, np.int64)
            for f in reversed(range(level, child)):
                inside = None if extents is None else extents[:, f + 1]
                if machine.network[f] == NETWORK_OF_HOPS or (machine.network[f] and f == child - 1):
                    delivered = _delivery(space, f, t, spatial[:, f])
                    weight[:, child, t] += above[:, f] * served * delivered
                served *= groups(space, f, t, spatial[:, f], inside)
            per_word = action[level, 0] + machine.address[level] + output * action[level, 2]
            weight[:, child, t] += clusters[:, level] * served * per_word
    fixed += weight[:, levels].sum(axis=1) * steps
    own += weight[:, levels] * steps[:, None]
    return Weights(weight, fixed, base, own, cycles, outer)


def _delivery(space: MapSpace, level: int, t: int, spatial: Array) -> FloatArray:
    """`[B]` pJ that one delivery of a word to every child of an instance costs at least.

    Args:
        space: the map space.
        level: the level that fans out.
        t: the tensor.
        spatial: `[B, n]` spatial factors below it.
    """
    tables, machine = space.tables, space.tables.machine
    fewest = groups(space, level, t, spatial, None)
    children = spatial.prod(axis=1)
    members = children // fewest
    if tables.grouping[level, t] == GROUPS_PER_AXIS:
        # Sums of steps that are all different: one loop of an axis tells members of a group apart.
        longest = np.ones_like(children)
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            terms = tables.term_dimension[tables.term_start[axis] : tables.term_start[axis + 1]]
            longest *= spatial[:, terms].max(axis=1, initial=1)
        members = children // longest
    hops = np.zeros(len(spatial), np.int64)
    fill_least_hops(tables.mesh[level], children, members, hops)
    # Memory outside the chip counts an output's words twice, less those that are new.
    output = tables.part_kind[t] != PART_OF_INPUT
    once = float(not (output and machine.dram[level]))
    passing = machine.ingress[level] + machine.router[level]
    return np.asarray(hops / 2 * tables.hop_energy[level] + once * passing * fewest)


def floors(space: MapSpace, found: Weights) -> FloatArray:
    """`[B]` energy that no mapping of an assignment undercuts, pJ: every word enters once."""
    return np.asarray(found.fixed + level_floors(space, found.weight, found.outer).sum(axis=1))


def level_floors(space: MapSpace, weight: FloatArray, outer: Array) -> FloatArray:
    """`[B, L]` what words that enter the tiles of each level cost if every word enters once.

    Args:
        space: the map space.
        weight: `[B, L + 1, T]` what a word costs.
        outer: `[B, L + 1, n]` spatial factors outside.
    """
    return np.asarray(entering_once(space, weight, outer).sum(axis=2))


def entering_once(space: MapSpace, weight: FloatArray, outer: Array) -> FloatArray:
    """`[B, L, T]` the same by tensor, with arguments as there."""
    found = weight[:, :-1].copy()
    multiply_words_once(moving_of(space), np.ascontiguousarray(outer), found)
    return found
