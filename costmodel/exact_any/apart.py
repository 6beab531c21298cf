"""Floors of assignments, level by level: what enters the tiles of each level at least by itself.

Which tensors are kept may be searched, and then there are hundreds of sets of them. What enters a
level's tiles depends on what this level keeps and on the next level outwards that keeps it, and
these are few: so the least of every level is found once for all sets, and a set's floor is the sum
(lemma 11 of docs/inside/proof-any-levels.md).

Letters: L levels, n dimensions, T tensors, G sets of kept tensors, C rows of weights of a level, M
sets of tensors that a level keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.exact_any.assignments import Paths
from costmodel.exact_any.layout import OneOrder
from costmodel.tile_chains.chain import step_of
from costmodel.tile_chains.entering import (
    Around,
    Crossing,
    charge_moving,
    least_resting,
    open_dims,
    trips_outside,
)
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tables import products_inside
from costmodel.tile_chains.tiles import FloatArray, Tiles
from costmodel.tile_chains.weights import Weights, weights

BLOCK = 256
"""Assignments that are weighed at a time."""

MOST_BLOCKS = 64
"""So many of these are kept: half a megabyte each for three tensors and four levels."""


class Rows(NamedTuple):
    """What words that enter a level's tiles may cost, and scratch.

    weight `[C, T]` pJ per word; kept `[C]` which of the sets of tensors the level keeps; cells
    those with room for one at least; fits `[cells, M]` for which; trips `[n]` and words `[T]`
    scratch.
    """

    weight: FloatArray
    kept: Array
    cells: Array
    fits: Array
    trips: FloatArray
    words: FloatArray


class LevelRows(NamedTuple):
    """The rows of a level: which `[G]` row is a set's, paths `[C, T]` whose weights make a row.

    fits `[cells, M]` 1 where a set of tensors has room, cells those with any, kept `[C]` the set.
    """

    which: Array
    paths: Array
    fits: Array
    cells: Array
    kept: Array


@lean
def least_of_level(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    level: int,
    rows: Rows,
    least: FloatArray,
) -> None:
    """The least that words entering a level's tiles cost, by row, over all of its tiles.

    Args:
        shape: the operation.
        tiles: all cells, at every level.
        around: the spatial factors; its weights are not read.
        level: an inner one.
        rows: the weights.
        least: `[C]` filled; inf where no tile fits.
    """
    for c in range(least.size):
        least[c] = np.inf
    for i in rows.cells:
        d, n = 0, shape.sizes.size
        while d < n and tiles.extent[i, d] % around.inner[level, d] == 0:
            d += 1
        if d < n:
            continue
        j = step_of(shape, tiles, around, level, i)
        if j < 0:
            continue
        outer = around.outer[level - 1]
        all_trips = trips_outside(shape, tiles.extent[j], outer, rows.trips)
        if all_trips == 0:
            continue
        crossing = Crossing(level, i, j, rows.trips, all_trips)
        if all_trips == 1:
            for t in range(shape.sliding.size):
                rows.words[t] = tiles.words[i, t]
            _lower(rows, i, least)
            continue
        for kind in range(shape.class_rest.size):
            if open_dims(shape, kind, rows.trips, 0):
                _fill_entering(shape, tiles, around, crossing, kind, rows.words)
                _lower(rows, i, least)


@part
def _fill_entering(
    shape: Shape,
    tiles: Tiles,
    around: Around,
    crossing: Crossing,
    kind: int,
    words: FloatArray,
) -> None:
    """The words `[T]` that enter a tile at least where a loop of a class runs innermost outside."""
    credit = around.credit[crossing.level - 1]
    for t in range(shape.sliding.size):
        if (shape.class_rest[kind] >> t) & 1:
            place = tiles.place[crossing.outer]
            passes = least_resting(shape, t, place, crossing.trips, credit)
            words[t] = tiles.words[crossing.inner, t] * passes
        else:
            slide = shape.class_slide[kind]
            words[t] = charge_moving(shape, tiles, around, crossing, t, slide)


@part
def _lower(
    rows: Rows,
    i: int,
    least: FloatArray,
) -> None:
    """Lowers every row's least to what it charges for words, where its tensors fit."""
    for c in range(least.size):
        if rows.fits[i, rows.kept[c]] == 0:
            continue
        cost = 0.0
        for t in range(rows.words.size):
            cost += rows.weight[c, t] * rows.words[t]
        least[c] = min(least[c], cost)


class Apart:
    """The levels of an order of buffers, each by itself, for all sets of kept tensors."""

    def __init__(self, one: OneOrder, keeps: Sequence[tuple[int, ...]], choice: Array) -> None:
        """Finds out which sets of kept tensors are the same for a level.

        Args:
            one: the order.
            keeps: `[G]` kept tensors of every level, as bits.
            choice: `[A, L]` the vectors of assignments.
        """
        self._one, self._choice = one, choice
        shape, lattice = one.shape, one.lattice
        levels, tensors = len(keeps[0]), shape.sliding.size
        cells = shape.cells
        self._tiles = Tiles(
            start=np.zeros(levels + 1, np.int64),
            cell=np.arange(cells),
            extent=np.ascontiguousarray(lattice.extent),
            place=np.ascontiguousarray(lattice.place),
            words=np.ascontiguousarray(lattice.words.T.astype(np.float64)),
            full=np.ones(cells, np.int64),
            at=np.tile(np.arange(cells, dtype=np.int32), (levels, 1)),
        )
        self._paths = Paths(keeps, tensors)
        self._rows = [self._rows_of(level) for level in range(1, levels)]
        self._least: dict[bytes, FloatArray] = {}
        self._blocks: dict[int, list[Weights]] = {}

    def _rows_of(self, level: int) -> LevelRows:
        """The rows of an inner level."""
        lattice, paths = self._one.lattice, self._paths
        kept = paths.bits[:, level] > 0
        outside = paths.levels & ((1 << level) - 1)
        nearest = np.frexp(outside.astype(np.float64))[1]
        _, first, which = np.unique(
            np.where(kept, 1 + nearest, 0), axis=0, return_index=True, return_inverse=True
        )
        masks = (kept[first] << np.arange(kept.shape[1])).sum(axis=1)
        sets, mask = np.unique(masks, return_inverse=True)
        fits = np.column_stack([lattice.fits(level, int(one_set)) for one_set in sets])
        cells = np.flatnonzero(fits.any(axis=1))
        return LevelRows(
            which.reshape(-1), paths.place[first], np.ascontiguousarray(fits.astype(np.int64)),
            cells, mask.reshape(-1),
        )  # fmt: skip

    def _weights(self, a: int) -> tuple[FloatArray, Array]:
        """Weights `[paths, L + 1, T]` of an assignment, and `[L + 1, n]` its factors outside."""
        block, row = divmod(a, BLOCK)
        if block not in self._blocks:
            if len(self._blocks) == MOST_BLOCKS:
                self._blocks.clear()
            spatial = self._one.spreads.spatial(self._choice[block * BLOCK :][:BLOCK])
            space = self._one.space
            self._blocks[block] = [weights(space, keeps, spatial) for keeps in self._paths.keeps]
        found = self._blocks[block]
        return np.stack([each.weight[row] for each in found]), found[0].outer[row]

    def floors(self, a: int) -> Iterator[FloatArray | None]:
        """`[G]` pJ that words entering tiles cost at least, by set of kept tensors: at the end.

        Args:
            a: the assignment whose spatial factors these are.

        Yields:
            None after every piece of work, at last the floors, without what no tile decides.
        """
        shape = self._one.shape
        spatial = self._one.spreads.spatial(self._choice[a : a + 1])[0]
        weight, outer = self._weights(a)
        # Outside all fan-outs the least serves every assignment.
        inner = np.where((outer[:-1] == 1).all(axis=1)[:, None], 1, products_inside(spatial))
        levels, tensors = len(inner), shape.sliding.size
        known = self._one.credits
        around = Around(
            np.ascontiguousarray(spatial), np.ascontiguousarray(outer), weight[0].copy(),
            *known.outwards(outer), known.ended_start, np.ascontiguousarray(inner),
            np.zeros((levels, tensors), np.int64), np.zeros(levels, np.int64),
            np.full(levels, np.inf),
        )  # fmt: skip
        total = np.zeros(len(self._rows[0].which))
        for level, of in enumerate(self._rows, 1):
            charged = np.ascontiguousarray(weight[of.paths, level, np.arange(tensors)])
            factors = np.concatenate([[level], outer[level - 1], outer[level], inner[level]])
            # What it hashes takes much more room than the least.
            key = blake2b(factors.tobytes() + charged.tobytes(), digest_size=24).digest()
            if key not in self._least:
                trips, words = np.zeros(shape.sizes.size), np.zeros(tensors)
                rows = Rows(charged, of.kept, of.cells, of.fits, trips, words)
                least = np.empty(len(charged))
                least_of_level(shape, self._tiles, around, level, rows, least)
                self._least[key] = least
                yield None
            total += self._least[key][of.which]
        yield total
