"""Cycles that limited bandwidths take, as words that enter tiles: the chain's other prices.

Reads, fills and updates of a level are linear in the words that enter tiles, as energies are, so
that the same chain bounds the cycles of every limited port.

Letters: L levels, T tensors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.projections import PART_OF_INPUT
from costmodel.arrays.tables import Array
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import Weights, groups


class Port(NamedTuple):
    """What a level can read, take in, or both, in words per cycle of one instance."""

    level: int
    reads: bool
    writes: bool
    bandwidth: float


def ports(space: MapSpace) -> list[Port]:
    """The limited ports of a machine, the outermost first: each takes a chain of its own."""
    found = []
    for level in range(space.tables.capacity.size):
        read, write = space.tables.bandwidth[level].tolist()
        shared = float(space.tables.machine.shared[level])
        found += [
            Port(level, True, False, read),
            Port(level, False, True, write),
            Port(level, True, True, shared),
        ]
    return [port for port in found if np.isfinite(port.bandwidth)]


class Prices(NamedTuple):
    """What a chain bounds: energy, cycles of a port, or both together.

    port: whose cycles, None: energy alone, with the leakage while MACs are computed; rate: 0 for
    cycles alone, above 0 for energy + rate x cycles; leaks: for energy with the leakage while the
    port works; other: a port whose cycles are mixed in, with a share, None: those of port alone.
    """

    port: Port | None = None
    rate: float = 0.0
    leaks: bool = False
    other: Port | None = None
    share: float = 0.0


def leakage(space: MapSpace, found: Weights) -> FloatArray:
    """`[B]` energy per cycle that leaks under assignments, pJ."""
    used = found.outer[:, :-1].prod(axis=2)
    return np.asarray((space.tables.machine.leakage * used).sum(axis=1))


def priced(
    space: MapSpace, prices: Prices, keeps: tuple[int, ...], spatial: Array, found: Weights
) -> tuple[FloatArray, FloatArray]:
    """What a word that enters a tile costs `[B, L + 1, T]`, and what no tile decides `[B]`.

    Args:
        space: the map space.
        prices: what counts.
        keeps: `[L]` kept tensors of every level, as bits.
        spatial: `[B, L, n]` spatial factors below every level.
        found: the weights of these assignments.
    """
    weight, fixed = found.weight, found.fixed
    if prices.port is None:
        return weight, fixed
    cycles, waiting = port_weights(space, prices.port, keeps, spatial, found)
    if prices.other is not None:
        others, their = port_weights(space, prices.other, keeps, spatial, found)
        cycles = (1 - prices.share) * cycles + prices.share * others
        waiting = (1 - prices.share) * waiting + prices.share * their
    rate = np.full(len(spatial), prices.rate)
    if prices.leaks:
        rate = leakage(space, found)
        fixed = fixed - rate * found.cycles
    elif prices.rate == 0:
        return cycles, waiting
    waiting = waiting + float(space.tables.machine.waiting)
    return weight + rate[:, None, None] * cycles, fixed + rate * waiting


def port_weights(
    space: MapSpace, port: Port, keeps: tuple[int, ...], spatial: Array, found: Weights
) -> tuple[FloatArray, FloatArray]:
    """Cycles of a port per word that enters a tile `[B, L + 1, T]`, `[B]` those no tile decides."""
    weight, own = port_weights_apart(space, port, keeps, spatial, found)
    return weight, np.asarray(own.sum(axis=1))


def port_weights_apart(
    space: MapSpace, port: Port, keeps: tuple[int, ...], spatial: Array, found: Weights
) -> tuple[FloatArray, FloatArray]:
    """Cycles of a port per word that enters a tile `[B, L + 1, T]`, `[B, T]` those no tile decides.

    Both are a tensor's, and depend on the levels that keep it alone.

    Args:
        space: the map space.
        port: one of its machine's.
        keeps: `[L]` kept tensors of every level, as bits.
        spatial: `[B, L, n]` spatial factors below every level.
        found: the weights of these assignments.
    """
    tables, level = space.tables, port.level
    levels = len(keeps)
    weight = np.zeros(found.weight.shape)
    own = np.zeros((len(spatial), tables.sliding.size))
    for t in range(tables.sliding.size):
        kept = [here for here in range(levels) if (keeps[here] >> t) & 1]
        if level not in kept:
            continue
        output = tables.part_kind[t] != PART_OF_INPUT
        outermost = level == kept[0]
        place = kept.index(level)
        child = kept[place + 1] if place + 1 < len(kept) else levels
        served = np.ones(len(spatial), np.int64)
        for f in range(level, child):
            served *= groups(space, f, t, spatial[:, f], None)
        weight[:, child, t] += served * (port.reads + (port.writes and bool(output)))
        if port.writes and not outermost:
            weight[:, level, t] += 1
        if output:
            outside = found.outer[:, level, tables.relevant[t] > 0].prod(axis=1)
            part = int(tables.words[t]) // outside
            elided = port.writes and not outermost and not tables.machine.charged
            own[:, t] -= part * (port.reads + elided)
    steps = int(tables.macs) // found.outer[:, levels].prod(axis=1)
    own += weight[:, levels] * steps[:, None]
    return weight / port.bandwidth, own / port.bandwidth
