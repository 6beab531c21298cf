"""All assignments of kept tensors and spatial factors, with a floor under what each can cost.

Letters: A assignments, G sets of kept tensors, L levels, n dimensions, V vectors of a level, T
tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.exact_any.known import SLACK
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.interchange import first_of_alike, interchanges
from costmodel.tile_chains.ports import Port, leakage, port_weights
from costmodel.tile_chains.rules import Rules
from costmodel.tile_chains.spatial import vectors
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import Weights, entering_once, weights

MOST_SPREADS = 200_000
"""More spatial factors would take long to look through."""

MOST_ASSIGNMENTS = 20_000_000
"""More of them would take gigabytes to list."""

_PIECE = 20_000

_PIECE_OF_SETS = 1_000_000
"""Spreads are listed in pieces: so many with all sets of kept tensors, at least 256."""


class Assignments(NamedTuple):
    """Assignments with the same kept tensors.

    keeps `[L]` bits; choice `[A, L]` the vector of every level; fixed `[A]` pJ that no tile
    decides; plain `[A]` pJ and cycles `[A]` that none of its mappings undercuts; energy `[A]` pJ
    that at so many cycles have an objective that none undercuts; slowest `[A]` the port that takes
    the most cycles, -1 where none is limited or known, and least `[A]` how many; rate `[A]` at
    which cycles are added to energy, 0 where they are not; chains `[A]` how many have bounded it.
    """

    keeps: tuple[int, ...]
    choice: Array
    fixed: FloatArray
    plain: FloatArray
    energy: FloatArray
    cycles: Array
    slowest: npt.NDArray[np.int8]
    least: Array
    rate: FloatArray
    chains: npt.NDArray[np.int8]


class Listed(NamedTuple):
    """All assignments of an order of buffers.

    groups: by set of kept tensors; energy, cycles, fixed and plain `[G, A]` those of the groups.
    """

    groups: tuple[Assignments, ...]
    energy: FloatArray
    cycles: Array
    fixed: FloatArray
    plain: FloatArray


class Spreads:
    """The spatial factors of all levels of a map space.

    Attributes:
        vectors: per level `[V, n]`.
    """

    def __init__(self, space: MapSpace, rules: Rules, *, each: bool = False) -> None:
        """Lists the vectors of every level that rules leave.

        Args:
            space: the map space.
            rules: what is left of it.
            each: whether spreads whose mappings cost what those of another one do are listed.
        """
        self._space, self._rules = space, rules
        self.vectors = [
            rules.vectors(level, vectors(space, level))
            for level in range(space.tables.capacity.size)
        ]
        self._each = each

    @cached_property
    def _renamings(self) -> list[Array]:
        """What leaves costs as they are; who only counts spreads does not look for it."""
        return [] if self._each else interchanges(self._space, self.vectors)

    def count(self) -> int:
        """How many combinations there are, those whose factors do not divide included."""
        return math.prod(len(rows) for rows in self.vectors)

    def choices(self) -> Array:
        """`[A, L]` combinations whose products divide the sizes: one of those that are alike."""
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
        found = found[self._rules.enough_work(product.prod(axis=1))]
        return found[first_of_alike(self.spatial(found), self._renamings)]

    def spatial(self, choice: Array) -> Array:
        """`[A, L, n]` factors of combinations `[A, L]`."""
        columns = [rows[choice[:, level]] for level, rows in enumerate(self.vectors)]
        return np.stack(columns, axis=1)


class Paths:
    """The levels that may keep a tensor: what its words cost depends on no other tensor's.

    Attributes:
        keeps: every path as if it were all tensors', `[L]` bits.
        place: `[G, T]` the path of every tensor, by set of kept tensors.
        levels: `[G, T]` the levels of the path, as bits.
        bits: `[G, L, T]` 1 where a level keeps a tensor.
    """

    def __init__(self, keeps: Sequence[tuple[int, ...]], tensors: int) -> None:
        """Finds the paths of sets of kept tensors `[L]`."""
        levels, everything = len(keeps[0]), (1 << tensors) - 1
        self.bits: Array = (np.array(keeps)[:, :, None] >> np.arange(tensors)) & 1
        self.levels: Array = (self.bits << np.arange(levels)[:, None]).sum(axis=1)
        different, place = np.unique(self.levels, return_inverse=True)
        self.keeps = [
            tuple(everything * int(path >> level & 1) for level in range(levels))
            for path in different
        ]
        self.place: Array = place.reshape(self.levels.shape)
        if len(self.keeps) > len(keeps):
            # Fewer sets than paths: each is looked at as it is.
            self.keeps = list(keeps)
            self.place = np.tile(np.arange(len(keeps))[:, None], tensors)

    def of_sets(self, found: FloatArray) -> FloatArray:
        """`[G, B]` sums over the tensors of what is known of paths `[paths, B, T]`."""
        total = found[self.place[:, 0], :, 0]
        for t in range(1, self.place.shape[1]):
            total += found[self.place[:, t], :, t]
        return total

    def least(self, found: FloatArray) -> FloatArray:
        """`[B]` sums over the tensors of the least of their paths: no set has less."""
        of_tensors = [
            found[np.unique(self.place[:, t]), :, t].min(axis=0) for t in range(self.place.shape[1])
        ]
        return np.asarray(np.sum(of_tensors, axis=0))


def list_assignments(
    space: MapSpace,
    spreads: Spreads,
    choices: list[tuple[int, ...]],
    limited: Sequence[Port] = (),
    *,
    floors: bool = True,
) -> Iterator[Listed | None]:
    """Lists all assignments for choices `[L]` of kept tensors.

    Args:
        space: the map space.
        spreads: its spatial factors.
        choices: the kept tensors.
        limited: the ports whose cycles matter.
        floors: whether to write down what is certain of all; else `write_floors` does so of some.

    Yields:
        None after every piece of work, at last the assignments.
    """
    choice = spreads.choices()
    size = len(choices), len(choice)
    # What stays nothing for long takes no memory. Where few are written down they are those of some
    # spatial factors under many sets, which stand together then.
    order: Literal["C", "F"] = "C" if floors else "F"
    fixed, plain, energy, rate = (np.zeros(size, order=order) for _ in range(4))
    cycles, least = np.zeros(size, np.int64, order), np.zeros(size, np.int64, order)
    slowest, chains = np.full(size, -1, np.int8, order), np.zeros(size, np.int8, order)
    columns = fixed, plain, energy, cycles, slowest, least, rate, chains
    groups = tuple(
        Assignments(keeps, choice, *(column[g] for column in columns))
        for g, keeps in enumerate(choices)
    )
    found = Listed(groups, energy, cycles, fixed, plain)
    step = min(_PIECE // (1 + len(limited)), max(256, _PIECE_OF_SETS // max(1, size[0])))
    for begin in range(0, size[1] if choices and floors else 0, step):
        some = np.arange(begin, min(begin + step, size[1]))
        write_floors(space, limited, spreads.spatial(choice[some]), found, some)
        yield None
    yield found


def write_floors(
    space: MapSpace, limited: Sequence[Port], spatial: Array, found: Listed, some: Array
) -> None:
    """Writes down what is certain of assignments if every word enters every tile once.

    Args:
        space: the map space.
        limited: the ports that count.
        spatial: `[B, L, n]` spatial factors below every level.
        found: all assignments; filled.
        some: `[B]` those with these factors, under every set of kept tensors.
    """
    paths = Paths([group.keeps for group in found.groups], space.tables.sliding.size)
    weighed = [weights(space, keeps, spatial) for keeps in paths.keeps]
    its = weighed[0]
    own = np.stack([each.own for each in weighed])
    once = own + np.stack([_of_tensors(space, each.weight, each) for each in weighed])
    cycles = np.broadcast_to(its.cycles, (len(found.groups), len(some)))
    for of_port in _of_ports(space, limited, paths, weighed):
        busy = paths.of_sets(of_port)
        cycles = np.maximum(cycles, _whole(space, busy))
    leaking = leakage(space, its) * (cycles - its.cycles)
    found.fixed[:, some], found.cycles[:, some] = its.base + paths.of_sets(own), cycles
    energy = its.base + paths.of_sets(once) + leaking
    found.energy[:, some] = found.plain[:, some] = energy


def least_of_spreads(
    space: MapSpace,
    limited: Sequence[Port],
    spatial: Array,
    choices: Sequence[tuple[int, ...]],
    could_win: Callable[[FloatArray, Array], npt.NDArray[np.bool_]],
) -> tuple[FloatArray, Array]:
    """What all assignments with some spatial factors need, whichever tensors are kept.

    Args:
        space: the map space.
        limited: the ports that count.
        spatial: `[B, L, n]` spatial factors below every level.
        choices: the sets of kept tensors.
        could_win: says which could win that need energy `[B]`, pJ, and cycles `[B]`; of the others
            ports are not looked at.

    Returns:
        Energy, pJ, and cycles `[B]`.
    """
    paths = Paths(choices, space.tables.sliding.size)
    energy, cycles = np.zeros(len(spatial)), np.zeros(len(spatial), np.int64)
    for begin in range(0, len(spatial), _PIECE):
        some = np.arange(begin, min(begin + _PIECE, len(spatial)))
        weighed = [weights(space, keeps, spatial[some]) for keeps in paths.keeps]
        once = np.stack([each.own + _of_tensors(space, each.weight, each) for each in weighed])
        energy[some], cycles[some] = weighed[0].base + paths.least(once), weighed[0].cycles
    some = np.flatnonzero(could_win(energy, cycles))
    if len(some):
        weighed = [weights(space, keeps, spatial[some]) for keeps in paths.keeps]
        computing = cycles[some]
        for of_port in _of_ports(space, limited, paths, weighed):
            busy = paths.least(of_port)
            cycles[some] = np.maximum(cycles[some], _whole(space, busy))
        energy[some] += leakage(space, weighed[0]) * (cycles[some] - computing)
    return energy, cycles


def _whole(space: MapSpace, least: FloatArray) -> Array:
    """Cycles of which a port is busy for so many at least."""
    whole = np.ceil(least * (1 - SLACK)).astype(np.int64)
    return np.asarray(whole + int(space.tables.machine.waiting))


def _of_ports(
    space: MapSpace, limited: Sequence[Port], paths: Paths, weighed: Sequence[Weights]
) -> FloatArray:
    """`[ports, paths, B, T]` the cycles that a tensor's words take at least."""
    each_path = zip(paths.keeps, weighed, strict=True)
    return np.stack([_once(space, limited, *each) for each in each_path], axis=1)


def _of_tensors(space: MapSpace, weight: FloatArray, found: Weights) -> FloatArray:
    """`[B, T]` what a tensor's words cost if every word enters every tile once."""
    return np.asarray(entering_once(space, weight, found.outer).sum(axis=1))


def _once(
    space: MapSpace, limited: Sequence[Port], keeps: tuple[int, ...], found: Weights
) -> FloatArray:
    """`[ports, B, T]` the cycles that a tensor's words take at least."""
    cycles = port_weights(space, limited, keeps, found)
    least = [_of_tensors(space, weight, found) for weight in cycles.weight]
    return cycles.own + np.reshape(least, cycles.own.shape)
