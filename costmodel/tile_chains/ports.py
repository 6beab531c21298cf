"""Cycles that limited bandwidths take, as words that enter tiles: the chain's other prices.

Reads, fills and updates of a level are linear in the words that enter tiles, as energies are, so
that the same chain bounds the cycles of every limited port.

Letters: L levels, T tensors.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.once import fill_port_weights, moving_of
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import Weights


class Port(NamedTuple):
    """What a level can read, take in, or both, in words per cycle of one instance."""

    level: int
    reads: bool
    writes: bool
    bandwidth: float


def ports(space: MapSpace) -> list[Port]:
    """The limited ports of a machine, the outermost first: each takes a chain of its own."""
    if space not in _ports:
        _ports[space] = _list_ports(space)
    return _ports[space]


_ports: WeakKeyDictionary[MapSpace, list[Port]] = WeakKeyDictionary()


def _list_ports(space: MapSpace) -> list[Port]:
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
    weight = np.zeros(found.weight.shape)
    own = np.zeros((len(spatial), space.tables.sliding.size))
    said = port.level, port.reads, port.writes, port.bandwidth
    fill_port_weights(
        moving_of(space), said, np.array(keeps), np.ascontiguousarray(spatial),
        np.ascontiguousarray(found.outer), weight, own,
    )  # fmt: skip
    return weight, own
