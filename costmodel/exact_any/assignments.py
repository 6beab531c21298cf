"""All assignments of kept tensors and spatial factors, with a floor under what each can cost.

Letters: A assignments, L levels, n dimensions, V vectors of a level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.exact_any.known import SLACK
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.ports import Port, leakage, port_weights
from costmodel.tile_chains.rules import Rules
from costmodel.tile_chains.spatial import vectors
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import Weights, floors, weights

MOST_ASSIGNMENTS = 2_000_000
"""More of them would take gigabytes to list."""

_PIECE = 20_000


class Assignments(NamedTuple):
    """Assignments with the same kept tensors.

    keeps `[L]` bits; choice `[A, L]` the vector of every level; fixed `[A]` pJ that no tile
    decides; plain `[A]` pJ and cycles `[A]` that none of its mappings undercuts; energy `[A]` pJ
    that at so many cycles have an objective that none undercuts; slowest `[A]` the port that takes
    the most cycles and least `[A]` how many, -1 where none is limited or known; rate `[A]` at which
    cycles are added to energy, 0 where they are not; chains `[A]` how many have bounded it.
    """

    keeps: tuple[int, ...]
    choice: Array
    fixed: FloatArray
    plain: FloatArray
    energy: FloatArray
    cycles: Array
    slowest: Array
    least: Array
    rate: FloatArray
    chains: Array


class Spreads:
    """The spatial factors of all levels of a map space.

    Attributes:
        vectors: per level `[V, n]`.
    """

    def __init__(self, space: MapSpace, rules: Rules) -> None:
        """Lists the vectors of every level that rules leave."""
        self._space, self._rules = space, rules
        self.vectors = [
            rules.vectors(level, vectors(space, level))
            for level in range(space.tables.capacity.size)
        ]

    def count(self) -> int:
        """How many combinations there are, those whose factors do not divide included."""
        return math.prod(len(rows) for rows in self.vectors)

    def choices(self) -> Array:
        """`[A, L]` combinations whose products divide the sizes."""
        sizes = self._space.tables.sizes
        found = np.zeros((1, 0), np.int64)
        product = np.ones((1, sizes.size), np.int64)
        for rows in self.vectors:
            # What leaves nothing is a list of nothing.
            parts = [np.zeros((0, found.shape[1] + 1), np.int64)]
            products = [product[:0]]
            size = max(1, _PIECE // max(1, len(rows)))
            for begin in range(0, len(found), size):
                here = product[begin : begin + size, None] * rows
                before, allowed = np.nonzero((sizes % here == 0).all(axis=2))
                parts.append(np.column_stack([found[begin + before], allowed]))
                products.append(here[before, allowed])
            found, product = np.concatenate(parts), np.concatenate(products)
        return found[self._rules.enough_work(product.prod(axis=1))]

    def spatial(self, choice: Array) -> Array:
        """`[A, L, n]` factors of combinations `[A, L]`."""
        columns = [rows[choice[:, level]] for level, rows in enumerate(self.vectors)]
        return np.stack(columns, axis=1)


def list_assignments(
    space: MapSpace,
    spreads: Spreads,
    choices: list[tuple[int, ...]],
    limited: Sequence[Port] = (),
) -> Iterator[Assignments]:
    """Lists all assignments, for one choice `[L]` of kept tensors after another.

    Args:
        space: the map space.
        spreads: its spatial factors.
        choices: the kept tensors.
        limited: the ports whose cycles matter.
    """
    choice = spreads.choices()
    for keeps in choices:
        energy, cycles = np.zeros(len(choice)), np.zeros(len(choice), np.int64)
        fixed = np.zeros(len(choice))
        for begin in range(0, len(choice), _PIECE):
            piece = slice(begin, begin + _PIECE)
            spatial = spreads.spatial(choice[piece])
            found = weights(space, keeps, spatial)
            cycles[piece] = least_cycles(space, limited, keeps, spatial, found)
            energy[piece] = floors(space, found)
            energy[piece] += leakage(space, found) * (cycles[piece] - found.cycles)
            fixed[piece] = found.fixed
        unknown = np.full((2, len(choice)), -1)
        rate = np.zeros(len(choice))
        chains = np.zeros(len(choice), np.int64)
        yield Assignments(
            keeps,
            choice,
            fixed,
            energy.copy(),
            energy,
            cycles,
            unknown[0],
            unknown[1],
            rate,
            chains,
        )


def least_cycles(
    space: MapSpace, limited: Sequence[Port], keeps: tuple[int, ...], spatial: Array, found: Weights
) -> Array:
    """`[B]` cycles that no mapping of an assignment undercuts: every word enters once.

    Args:
        space: the map space.
        limited: the ports that count.
        keeps: `[L]` kept tensors of every level, as bits.
        spatial: `[B, L, n]` spatial factors below every level.
        found: the weights of these assignments.
    """
    cycles = found.cycles
    for port in limited:
        least = port_floors(space, port, keeps, spatial, found) * (1 - SLACK)
        whole = np.ceil(least).astype(np.int64) + int(space.tables.machine.waiting)
        cycles = np.maximum(cycles, whole)
    return cycles


def port_floors(
    space: MapSpace, port: Port, keeps: tuple[int, ...], spatial: Array, found: Weights
) -> FloatArray:
    """`[B]` the cycles that a port takes at least if every word enters once, without waiting."""
    weight, fixed = port_weights(space, port, keeps, spatial, found)
    return floors(space, found._replace(weight=weight, fixed=fixed))
