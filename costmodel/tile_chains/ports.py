"""Cycles that limited bandwidths take, as words that enter tiles: the chain's other prices.

Reads, fills and updates of a level are linear in the words that enter tiles, as energies are, so
that the same chain bounds the cycles of every limited port.

Letters: L levels, T tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.links import handed_on, has_links, let_rest
from costmodel.tile_chains.once import fill_floors, fill_port_weights, moving_of
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import Weights


class Port(NamedTuple):
    """What a level can read, take in, or both, in words per cycle of one instance.

    level: the first of those that share it; stop: the one past their last. One that turns is no
    level's: the elements at work, with their multiply-accumulates and what passes through arrays
    take beside them, which is linear in the words that enter tiles as well (lemma 12e).
    """

    level: int
    stop: int
    reads: bool
    writes: bool
    bandwidth: float
    turns: bool = False


def ports(space: MapSpace) -> list[Port]:
    """The limited ports of a machine, the outermost first: each takes a chain of its own."""
    if space not in _ports:
        _ports[space] = _list_ports(space)
    return _ports[space]


_ports: WeakKeyDictionary[MapSpace, list[Port]] = WeakKeyDictionary()


def _list_ports(space: MapSpace) -> list[Port]:
    found = []
    for level, stop in np.unique(space.tables.machine.sharing, axis=0).tolist():
        read, write = space.tables.bandwidth[level].tolist()
        shared = float(space.tables.machine.shared[level])
        found += [
            Port(level, stop, True, False, read),
            Port(level, stop, False, True, write),
            Port(level, stop, True, True, shared),
        ]
    found = [port for port in found if np.isfinite(port.bandwidth)]
    levels = int(space.tables.capacity.size)
    return (
        [*found, Port(0, levels, False, False, 1.0, True)]
        if space.tables.machine.turning
        else found
    )


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
    used = found.outer.prod(axis=2)
    return np.asarray((space.tables.machine.leakage * used).sum(axis=1))


class PortWeights(NamedTuple):
    """Cycles of limited ports, by assignment.

    weight `[P, B, L + 1, T]` per word that enters a tile; own `[P, B, T]` those that no tile
    decides: both are a tensor's, and depend on the levels that keep it alone.
    """

    weight: FloatArray
    own: FloatArray

    def of(self, port: int) -> tuple[FloatArray, FloatArray]:
        """`[B, L + 1, T]` of one of the ports, and `[B]` what no tile decides of all tensors."""
        return self.weight[port], np.asarray(self.own[port].sum(axis=1))


def port_weights(
    space: MapSpace, listed: Sequence[Port], keeps: tuple[int, ...], found: Weights
) -> PortWeights:
    """The cycles of ports under assignments.

    Args:
        space: the map space.
        listed: ports of its machine.
        keeps: `[L]` kept tensors of every level, as bits.
        found: the weights of these assignments, whatever their tiles.
    """
    weight = np.zeros((len(listed), *found.weight.shape))
    own = np.zeros((len(listed), *found.own.shape))
    said = np.array([port[:4] for port in listed], np.int64).reshape(len(listed), 4)
    moving, bandwidth = moving_of(space), np.array([port.bandwidth for port in listed])
    fill_port_weights(
        moving, said, bandwidth, np.array(keeps), found.groups, found.outer,
        weight, own,
    )  # fmt: skip
    if has_links(space) and listed:
        _hand_on(space, listed, keeps, found, PortWeights(weight, own))
    for place, port in enumerate(listed):
        if port.turns:
            machine = space.tables.machine
            for level, t in zip(*np.nonzero(machine.turns), strict=True):
                kept = [at for at in range(level + 1, len(keeps)) if (keeps[at] >> t) & 1]
                if kept:
                    weight[place, :, kept[0], t] += machine.turns[level, t]
                else:
                    steps = (found.cycles - machine.waiting) // machine.cycles_per_mac
                    own[place, :, t] += machine.turns[level, t] * steps
            own[place, :, 0] += found.cycles - machine.waiting
    return PortWeights(weight, own)


def _hand_on(
    space: MapSpace, listed: Sequence[Port], keeps: tuple[int, ...], of: Weights, found: PortWeights
) -> None:
    """Leaves out of ports' cycles what neighbours may hand on, as of energies; changes `found`."""
    above = of.outer.prod(axis=2)
    spatial, steps = of.outer[:, 1:] // of.outer[:, :-1], int(space.tables.macs) // above[:, -1]
    handed, width = handed_on(space, spatial), moving_of(space).width
    for t in np.flatnonzero([] if handed is None else handed.may.any(axis=(0, 1))).tolist():
        assert handed is not None  # else there is no such tensor
        kept = [level for level, mask in enumerate(keeps) if mask >> t & 1]
        for child in (*kept[1:], len(keeps)):
            share = handed.share(of.groups, keeps, child, t)
            may, once = handed.may[:, child - 1, t], above[:, child - 1] == 1
            for place, port in enumerate(listed):
                weight = found.weight[place, :, child, t]
                if child == port.level:
                    # Its own words come in: fewer, or with one cut off.
                    words = width[child, t] / port.bandwidth * port.writes
                    weight -= np.where(may & ~once, words, 0.0)
                    found.own[place, :, t] -= np.where(may & once, words, 0.0)
                    continue
                passed = weight * (1 - share)
                weight -= passed
                if child == len(keeps):
                    found.own[place, :, t] -= passed * steps
    found.own[:] += let_rest(space, spatial, found.weight) * steps[:, None]


def priced(
    space: MapSpace, prices: Prices, listed: Sequence[Port], cycles: PortWeights, found: Weights
) -> tuple[FloatArray, FloatArray]:
    """What a word that enters a tile costs `[B, L + 1, T]`, and what no tile decides `[B]`.

    Args:
        space: the map space.
        prices: what counts.
        listed: the ports that may.
        cycles: of these ports, by assignment.
        found: the weights of the assignments.
    """
    weight, fixed = found.weight, found.fixed
    if prices.port is None:
        return weight, fixed
    busy, waiting = cycles.of(listed.index(prices.port))
    if prices.other is not None:
        others, their = cycles.of(listed.index(prices.other))
        busy = (1 - prices.share) * busy + prices.share * others
        waiting = (1 - prices.share) * waiting + prices.share * their
    rate = np.full(len(fixed), prices.rate)
    if prices.leaks:
        rate = leakage(space, found)
        fixed = fixed - rate * found.cycles
    elif prices.rate == 0:
        return busy, waiting
    waiting = waiting + float(space.tables.machine.waiting)
    return weight + rate[:, None, None] * busy, fixed + rate * waiting


def port_floors(space: MapSpace, cycles: PortWeights, found: Weights) -> FloatArray:
    """`[P, B]` the cycles that ports take at least if every word enters once, without waiting."""
    fixed = cycles.own.sum(axis=2)
    least = np.empty(fixed.shape)
    fill_floors(moving_of(space), found.outer, cycles.weight, fixed, least)
    return least
