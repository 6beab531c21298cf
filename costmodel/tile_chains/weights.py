"""What a word that enters a tile costs, for assignments of kept tensors and spatial factors.

Energy is linear in the words that enter tiles. Every such word costs its fill, and its share of
the reads (of outputs: reads and updates) of the next level outwards that keeps the tensor; what is
read for the MACs is one more tile, of one word. Rounding up to blocks is left out here, and of
what networks cost only the least that a delivery to all children can cost is counted, so that with
either of them the sum is a lower bound.

Letters: B assignments, L levels, n dimensions, T tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from costmodel.arrays.machine_tables import NETWORK_OF_HOPS, prices_of_values
from costmodel.arrays.projections import (
    GROUPS_PER_AXIS,
    GROUPS_PER_CHILD,
    PART_OF_INPUT,
)
from costmodel.arrays.tables import Array
from costmodel.loop_nest.networks import fill_least_hops
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.links import Handed, handed_on, has_links, let_rest
from costmodel.tile_chains.once import (
    Filled,
    distinct,
    fill_groups,
    fill_weights,
    moving_of,
    multiply_words_once,
)
from costmodel.tile_chains.places import places
from costmodel.tile_chains.tiles import FloatArray


class Weights(NamedTuple):
    """Energy of the words that enter tiles, and what does not depend on tiles.

    weight `[B, L + 1, T]` pJ per word that enters a tile, the MACs' last; fixed `[B]` pJ, the MACs'
    reads included; base `[B]` what of that is no tensor's, own `[B, T]` what is: like its weight it
    depends on the levels that keep this tensor alone; cycles `[B]` of computing, with latencies;
    outer `[B, L + 1, n]` products of the spatial factors outside a level; groups `[B, L, T]`
    children of an instance that have tiles of their own, at least, or as the tiles say.
    """

    weight: FloatArray
    fixed: FloatArray
    base: FloatArray
    own: FloatArray
    cycles: Array
    outer: Array
    groups: Array


def groups(space: MapSpace, level: int, t: int, spatial: Array, inside: Array) -> Array:
    """`[B]` children of an instance with tiles of their own of a tensor.

    Args:
        space: the map space.
        level: the level that fans out.
        t: the tensor.
        spatial: `[B, n]` spatial factors below it.
        inside: `[B, n]` extents of the children's tiles.
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
        factors, steps = spatial[:, dims], coefficients * inside[:, dims]
        count *= np.array([distinct(*row) for row in zip(factors, steps, strict=True)])
    return count


def weights(
    space: MapSpace, keeps: tuple[int, ...], spatial: Array, extents: Array | None = None,
    hops: Mapping[int, Array] | None = None, links: bool = True,
) -> Weights:  # fmt: skip
    """The weights of assignments.

    Args:
        space: the map space.
        keeps: `[L]` kept tensors of every level, as bits.
        spatial: `[B, L, n]` spatial factors below every level.
        extents: `[B, L + 1, n]` tiles of all levels and of a MAC, where they are known: sums are
            then equal to the model's (but for blocks and networks), not below them.
        hops: by level `[B, T]` twice the hops of a delivery to all children; of levels that are
            missing as few as there can be.
        links: whether neighbours may hand on words of windows.
    """
    tables, machine = space.tables, space.tables.machine
    batch, levels, n = spatial.shape
    tensors = tables.sliding.size
    outer = np.ones((batch, levels + 1, n), np.int64)
    np.cumprod(spatial, axis=1, out=outer[:, 1:])
    fewest = fewest_groups(space, spatial)
    counts = fewest.copy()
    if extents is not None:
        for level, t in zip(*np.nonzero(tables.grouping == GROUPS_PER_AXIS), strict=True):
            counts[:, level, t] = groups(space, level, t, spatial[:, level], extents[:, level + 1])
    handed = handed_on(space, spatial) if links else None
    delivered = np.zeros((batch, levels, tensors))
    for level in np.flatnonzero(machine.network).tolist():
        for t in range(tensors):
            last = level == levels - 1 or (keeps[level + 1] >> t) & 1
            if last or machine.network[level] == NETWORK_OF_HOPS:
                known = None if hops is None or level not in hops else hops[level][:, t]
                below = spatial[:, level], fewest[:, level, t]
                delivered[:, level, t] = _delivery(space, level, t, *below, known)
    if handed is not None:
        delivered[handed.may] = 0.0
    found = Filled(
        np.zeros((batch, levels + 1, tensors)), np.empty(batch), np.empty(batch),
        np.zeros((batch, tensors)), np.empty(batch, np.int64), np.empty(levels + 1, np.int64),
    )  # fmt: skip
    fill_weights(moving_of(space), np.array(keeps), counts, delivered, outer, found)
    if has_links(space):
        if handed is not None:
            _hand_on(space, keeps, (outer, counts), handed, found)
        moved = let_rest(space, spatial, found.weight)
        moved *= (int(space.tables.macs) // outer[:, -1].prod(axis=1))[:, None]
        found.own[:] += moved
        found.fixed[:] += moved.sum(axis=1)
    return Weights(*found[:-1], outer, counts)


def _hand_on(
    space: MapSpace, keeps: tuple[int, ...], around: tuple[Array, Array], handed: Handed,
    found: Filled,
) -> None:  # fmt: skip
    """Leaves out of weights what neighbours may hand on.

    Args:
        space: the map space.
        keeps: `[L]` kept tensors of every level, as bits.
        around: `[B, L + 1, n]` spatial factors outside, `[B, L, T]` children with tiles of their
            own.
        handed: what they may hand on.
        found: the weights, changed.
    """
    tables, machine, above = space.tables, space.tables.machine, around[0].prod(axis=2)
    prices = prices_of_values(machine)
    for t in np.flatnonzero(handed.may.any(axis=(0, 1))).tolist():
        kept = [level for level, mask in enumerate(keeps) if mask >> t & 1]
        for level in kept[1:]:
            outside, may = level - 1, handed.may[:, level - 1, t]
            clusters = np.minimum(above[:, level], machine.clusters[level])
            fill = clusters * (prices[level, t, 1] + machine.address[level])
            read = clusters * (prices[level, t, 0] + machine.address[level])
            rest = (found.weight[:, level, t] - fill) * handed.passing(around[1], keeps, level, t)
            # Whom nothing is delivered to has it from a neighbour, which reads it for that.
            counts = around[1][:, outside, t]
            hop = tables.hop_energy[outside] + 2 * machine.router[outside]
            instead = above[:, outside] * hop + read / above[:, level]
            saved = np.maximum(0, rest / counts - instead)
            rest -= np.where(may, np.maximum(0, counts - handed.kept[:, outside, t]) * saved, 0)
            # What instances hand on is shared out among all, and a word may be cut off.
            found.weight[:, level, t] = rest + np.where(may, fill / above[:, outside], fill)
            cut = np.where(may, fill + read, 0.0)
            found.fixed[:] -= cut
            found.own[:, t] -= cut
        macs = found.weight[:, -1, t]
        passed = macs * (1 - handed.share(around[1], keeps, len(keeps), t))
        macs -= passed
        steps = int(space.tables.macs) // above[:, -1]
        found.fixed[:] -= passed * steps
        found.own[:, t] -= passed * steps


def placed_weights(space: MapSpace, keeps: tuple[int, ...], spatial: Array) -> Weights:
    """The weights of assignments, with hops that all tensors' deliveries need together (lemma 17).

    Hops of every tensor are those of its own best place. What no place is best for is fixed: the
    least, over the places, of what the others cost if every word enters once.

    Args:
        space: the map space.
        keeps: `[L]` kept tensors of every level, as bits.
        spatial: `[B, L, n]` spatial factors below every level.
    """
    listed = {
        level: [places(space, level, factors) for factors in spatial[:, level]]
        for level in meshes(space)
    }
    known = {
        level: np.array([one.least for one in found if one is not None])
        for level, found in listed.items()
        if None not in found
    }
    least = weights(space, keeps, spatial, hops=known)
    for level, hops in known.items():
        ways = [one for one in listed[level] if one is not None]
        span = np.array([one.twice.max(axis=0) for one in ways]) - hops
        if not span.any():
            continue
        most = weights(space, keeps, spatial, hops={**known, level: hops + span})
        more = most.own - least.own
        more += entering_once(space, most.weight - least.weight, least.outer).sum(axis=1)
        for b, one in enumerate(ways):
            shares = (one.twice - hops[b]) / np.maximum(1, span[b])
            least.fixed[b] += (shares * more[b]).sum(axis=1).min()
    return least


def meshes(space: MapSpace) -> list[int]:
    """The levels below which hops cost energy."""
    tables = space.tables
    costs = (tables.hop_energy > 0) & (tables.machine.network > 0) & (tables.fanout > 1)
    return [int(level) for level in np.flatnonzero(costs)]


def fewest_groups(space: MapSpace, spatial: Array) -> Array:
    """`[B, L, T]` children of an instance that have tiles of their own, at least.

    Args:
        space: the map space.
        spatial: `[B, L, n]` spatial factors below every level.
    """
    counts = np.empty((*spatial.shape[:2], space.tables.sliding.size), np.int64)
    products = np.empty((2, spatial.shape[2]), np.int64)
    fill_groups(moving_of(space), np.ascontiguousarray(spatial), products, counts)
    return counts


def _delivery(
    space: MapSpace, level: int, t: int, spatial: Array, fewest: Array, known: Array | None
) -> FloatArray:
    """`[B]` pJ that one delivery of a word to every child of an instance costs at least.

    Args:
        space: the map space.
        level: the level that fans out.
        t: the tensor.
        spatial: `[B, n]` spatial factors below it.
        fewest: `[B]` children with tiles of their own, at least.
        known: `[B]` twice its hops; None: the fewest that there can be.
    """
    tables, machine = space.tables, space.tables.machine
    hops = known
    if hops is None:
        children = spatial.prod(axis=1)
        members = children // fewest
        if tables.grouping[level, t] == GROUPS_PER_AXIS:
            # Sums of steps that are all different: one loop of an axis tells members of a group
            # apart.
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


def entering_once(space: MapSpace, weight: FloatArray, outer: Array) -> FloatArray:
    """`[B, L, T]` what words that enter tiles cost if every word enters every tile once.

    Args:
        space: the map space.
        weight: `[B, L + 1, T]` what a word costs.
        outer: `[B, L + 1, n]` spatial factors outside.
    """
    found = weight[:, :-1].copy()
    multiply_words_once(moving_of(space), np.ascontiguousarray(outer), found)
    return found
