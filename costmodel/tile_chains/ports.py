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

MOST_PORTS = 3
"""Ports that are bounded, the outermost ones: each takes a chain of its own."""


class Port(NamedTuple):
    """What a level can read, take in, or both, in words per cycle of one instance."""

    level: int
    reads: bool
    writes: bool
    bandwidth: float


def ports(space: MapSpace) -> list[Port]:
    """The limited ports of a machine, the outermost first."""
    found = []
    for level in range(space.tables.capacity.size):
        read, write = space.tables.bandwidth[level].tolist()
        shared = float(space.tables.machine.shared[level])
        found += [
            Port(level, True, False, read),
            Port(level, False, True, write),
            Port(level, True, True, shared),
        ]
    return [port for port in found if np.isfinite(port.bandwidth)][:MOST_PORTS]


class Prices(NamedTuple):
    """What a chain bounds: energy, cycles of a port, or both together.

    port: whose cycles, None: energy alone, with the leakage while MACs are computed; rate: 0 for
    cycles alone, above 0 for energy + rate x cycles; leaks: for energy with the leakage while the
    port works.
    """

    port: Port | None = None
    rate: float = 0.0
    leaks: bool = False


def leakage(space: MapSpace, found: Weights) -> float:
    """Energy per cycle that leaks under one assignment, pJ."""
    used = found.outer[0].prod(axis=1)[:-1]
    return float((space.tables.machine.leakage * used).sum())


def priced(
    space: MapSpace, prices: Prices, keeps: tuple[int, ...], spatial: Array, found: Weights
) -> tuple[FloatArray, float]:
    """What a word that enters a tile costs `[L + 1, T]`, and what no tile decides.

    Args:
        space: the map space.
        prices: what counts.
        keeps: `[L]` kept tensors of every level, as bits.
        spatial: `[L, n]` spatial factors below every level.
        found: the weights of this one assignment.
    """
    weight, fixed = found.weight[0], float(found.fixed[0])
    if prices.port is None:
        return weight, fixed
    cycles, waiting = port_weights(space, prices.port, keeps, spatial, found)
    rate = prices.rate
    if prices.leaks:
        rate = leakage(space, found)
        fixed -= rate * float(found.cycles[0])
    elif rate == 0:
        return cycles, waiting
    waiting += float(space.tables.machine.waiting)
    return weight + rate * cycles, fixed + rate * waiting


def port_weights(
    space: MapSpace, port: Port, keeps: tuple[int, ...], spatial: Array, found: Weights
) -> tuple[FloatArray, float]:
    """Cycles of a port per word that enters a tile `[L + 1, T]`, and those that no tile decides.

    Args:
        space: the map space.
        port: one of its machine's.
        keeps: `[L]` kept tensors of every level, as bits.
        spatial: `[L, n]` spatial factors below every level.
        found: the weights of this one assignment.
    """
    tables, level = space.tables, port.level
    levels = len(keeps)
    weight = np.zeros((levels + 1, tables.sliding.size))
    fixed = 0.0
    for t in range(tables.sliding.size):
        kept = [here for here in range(levels) if (keeps[here] >> t) & 1]
        if level not in kept:
            continue
        output = tables.part_kind[t] != PART_OF_INPUT
        outermost = level == kept[0]
        place = kept.index(level)
        child = kept[place + 1] if place + 1 < len(kept) else levels
        served = 1
        for f in range(level, child):
            served *= int(groups(space, f, t, spatial[None, f], None)[0])
        weight[child, t] += served * (port.reads + (port.writes and bool(output)))
        if port.writes and not outermost:
            weight[level, t] += 1
        if output:
            outside = found.outer[0, level, tables.relevant[t] > 0].prod()
            part = int(tables.words[t]) // int(outside)
            elided = port.writes and not outermost and not tables.machine.charged
            fixed -= part * (port.reads + elided)
    steps = int(tables.macs) // int(found.outer[0, levels].prod())
    fixed += float(weight[levels].sum()) * steps
    return weight / port.bandwidth, fixed / port.bandwidth
