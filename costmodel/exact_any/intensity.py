"""Floors by arithmetic intensity: what must enter a level's tiles again, as none holds everything.

A tile of volume V (one point of the iteration space per multiply-accumulate below it) that holds w
words of a tensor gets these anew for every V points, unless the innermost loop outside moves the
tensor not at all, or by less than a tile. So, class of innermost loops by class, what the tensors
cost that move is at least the points that an instance has, times the least of the sum of
weight x w / V over all tiles that fit. That is linear in the weights: the least is at a corner of
all the tiles' w / V, and corners do not depend on spatial factors, so that the floors of all
assignments are found at once (lemma 18 of docs/inside/proof-any-levels.md).

Letters: B assignments, L levels, n dimensions, T tensors, F tiles, P corners, M tensors that move.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.compiled import lean
from costmodel.exact_any.layout import OneOrder
from costmodel.tile_chains.ports import Port, port_weights
from costmodel.tile_chains.tables import products_inside
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import entering_once, weights

MOST_CORNERS = 64
"""Of more corners so many are taken, below all others: the floors are a little lower."""

MOST_LOOKED = 128
"""Of so many levels' tiles it is known what is least, for further proofs of the operation."""


class _Class(NamedTuple):
    """What a class of innermost loops moves of a level's tiles.

    tensors `[M]` that move; along `[n]` the dimensions of the axes that it slides along; cells
    `[F]` the tiles that are least of those with the same extents there; words `[F, M]` per point.
    """

    tensors: Array
    along: npt.NDArray[np.bool_]
    cells: Array
    words: FloatArray


class _Looked(NamedTuple):
    """What is known of the tiles that keep some tensors, whatever words cost.

    classes: by number; corners `[P, M]` by class and the spatial factors around.
    """

    classes: dict[int, _Class]
    corners: dict[tuple[int, bytes], FloatArray]


@lru_cache(maxsize=MOST_LOOKED)
def _looked_at(operation: tuple[bytes, ...], kept: int, tiles: bytes) -> _Looked:
    """What is known of tiles, filled by whoever needs it: machines of a sweep have many alike.

    Args:
        operation: what decides words and classes.
        kept: the tensors that the tiles keep, as bits.
        tiles: a digest of which tiles they are.
    """
    return _Looked({}, {})


class _Kept(NamedTuple):
    """A level's tiles that keep some tensors.

    kept: the tensors; moved `[n]` the dimensions that move any; cells `[F]` the tiles, as large as
    they can be in the others; looked: what is known of them.
    """

    kept: tuple[int, ...]
    moved: npt.NDArray[np.bool_]
    cells: Array
    looked: _Looked


class Intensity:
    """The floors of assignments that keep the same tensors."""

    def __init__(self, one: OneOrder, keeps: tuple[int, ...]) -> None:
        """Has looked at no level yet.

        Args:
            one: the order of buffers.
            keeps: `[L]` kept tensors of every level, as bits.
        """
        self._one, self._keeps = one, keeps
        self._shape, self._lattice = one.shape, one.lattice
        self._known: dict[int, _Kept] = {}
        shape = one.shape
        matter = (
            shape.sizes, shape.relevant, shape.axis_start, shape.term_start, shape.term_dimension,
            shape.term_coefficient, shape.class_rest, shape.class_slide,
        )  # fmt: skip
        self._operation = tuple(array.tobytes() for array in matter)

    def floors(self, spatial: Array) -> FloatArray:
        """`[B]` pJ that the mappings of assignments need at least, leakage while waiting left out.

        Args:
            spatial: `[B, L, n]` their spatial factors.
        """
        found = weights(self._one.space, self._keeps, spatial)
        floors = self._least(spatial, found.outer, found.weight[None], found.fixed[None])
        return np.asarray(floors[0])

    def cycles(self, spatial: Array, limited: Sequence[Port]) -> FloatArray:
        """`[B]` cycles for which the busiest of some ports is busy at least.

        Args:
            spatial: `[B, L, n]` spatial factors.
            limited: the ports.
        """
        if not limited:
            return np.zeros(len(spatial))
        found = weights(self._one.space, self._keeps, spatial)
        cycles = port_weights(self._one.space, limited, self._keeps, found)
        busy = self._least(spatial, found.outer, cycles.weight, cycles.own.sum(axis=2))
        return np.asarray(np.maximum(0, busy.max(axis=0)))

    def _least(
        self, spatial: Array, outer: Array, weight: FloatArray, fixed: FloatArray
    ) -> FloatArray:
        """`[K, B]` what mappings cost at least by lists of prices.

        Args:
            spatial: `[B, L, n]` the spatial factors of assignments.
            outer: `[B, L + 1, n]` their products outside every level.
            weight: `[K, B, L + 1, T]` what a word that enters a tile costs.
            fixed: `[K, B]` what no tile decides.
        """
        once = np.stack([entering_once(self._one.space, prices, outer) for prices in weight])
        inside = products_inside(spatial)
        found: FloatArray = fixed + once.sum(axis=(2, 3))
        for level in range(1, spatial.shape[1]):
            left = self._shape.sizes // outer[:, level]
            around = np.concatenate([outer[:, level - 1], spatial[:, level - 1]], axis=1)
            more = self._beyond(level, weight[:, :, level], once[:, :, level], around)
            # A loop that moves nothing that is kept may run innermost.
            idle = (left > inside[:, level])[:, ~self._of(level).moved].any(axis=1)
            found += np.where(idle, 0, more)
        return found

    def _of(self, level: int) -> _Kept:
        """A level's tiles."""
        if level not in self._known:
            self._known[level] = self._look(level, self._keeps[level])
        return self._known[level]

    def _look(self, level: int, mask: int) -> _Kept:
        shape, lattice = self._shape, self._lattice
        kept = [t for t in range(shape.sliding.size) if mask >> t & 1]
        moved = np.asarray((shape.relevant[kept] > 0).any(axis=0))
        cells = np.flatnonzero(
            lattice.fits(level, mask) & (lattice.place[:, ~moved] == 0).all(axis=1)
        )
        digest = hashlib.blake2b(cells.tobytes(), digest_size=16).digest()
        return _Kept(tuple(kept), moved, cells, _looked_at(self._operation, mask, digest))

    def _class(self, level: int, kind: int) -> _Class:
        """What a class of innermost loops moves of a level's tiles."""
        of = self._of(level)
        if kind not in of.looked.classes:
            shape, lattice = self._shape, self._lattice
            rest = int(shape.class_rest[kind])
            tensors = np.array([t for t in of.kept if not rest >> t & 1], np.int64)
            slide = int(shape.class_slide[kind])
            along = (shape.together[slide] > 0) & (slide >= 0)
            group = lattice.place[of.cells][:, along] @ shape.stride[along]
            volume = lattice.extent[of.cells][:, of.moved].prod(axis=1, dtype=np.float64)
            words = lattice.words[tensors][:, of.cells].T / volume[:, None]
            left = undominated(words, group)
            of.looked.classes[kind] = _Class(tensors, along, of.cells[left], words[left])
        return of.looked.classes[kind]

    def _corners(self, level: int, kind: int, around: bytes) -> FloatArray:
        """`[P, M]` the least words per point of the tensors that a class of loops moves.

        Args:
            level: the level.
            kind: the class.
            around: `[2, n]` the spatial factors outside the level outside, and its own; 1 where
                they make no difference.
        """
        found, key = self._of(level).looked.corners, (kind, around)
        if key not in found:
            shape, of = self._shape, self._class(level, kind)
            slide = int(shape.class_slide[kind])
            outer, spread = np.frombuffer(around, np.int64).reshape(2, -1)
            extent = self._lattice.extent[of.cells][:, of.along] * spread[of.along]
            left = (shape.sizes // outer)[of.along]
            fits = np.flatnonzero((left % extent == 0).all(axis=1))
            words = of.words[fits]
            for m, t in enumerate(of.tensors.tolist()):
                if slide >= 0 and shape.axis_of[t, slide] >= 0:
                    words[:, m] *= self._share(t, slide, of.cells[fits], outer, spread)
            first = undominated(words, np.zeros(len(words), np.int64))
            found[key] = words[first[:MOST_CORNERS]]
            if len(first) > MOST_CORNERS:
                below = words[first[MOST_CORNERS:]].min(axis=0)
                found[key] = np.vstack([found[key], below])
        return found[key]

    def _share(self, t: int, slide: int, cells: Array, outer: Array, spread: Array) -> FloatArray:
        """`[F]` the share of a tensor's tile that a step of a loop along an axis of it brings.

        Not credited steps bring all of it (lemma 15).
        """
        shape = self._shape
        axis = int(shape.axis_start[t] + shape.axis_of[t, slide])
        start = int(shape.credit_start[axis])
        if start < 0:
            return np.ones(len(cells))
        terms = slice(int(shape.term_start[axis]), int(shape.term_start[axis + 1]))
        dims, coefficients = shape.term_dimension[terms], shape.term_coefficient[terms]
        extent = self._lattice.extent[cells].astype(np.int64)
        width = 1 + ((extent[:, dims] - 1) * coefficients).sum(axis=1)
        moved = shape.coefficient_of[t, slide] * extent[:, slide] * spread[slide]
        anew = np.minimum(1, moved / width)
        place, along = np.zeros(len(cells), np.int64), np.ones(len(cells))
        for k, d in enumerate(dims.tolist(), terms.start):
            own = shape.divisors[shape.divisor_start[d] : shape.divisor_start[d + 1]]
            step = extent[:, d] * spread[d]
            place += shape.credit_stride[k] * np.searchsorted(own, step)
            along *= shape.sizes[d] // (outer[d] * step)
        term = dims.tolist().index(slide)
        credit, _ = self._one.credits.outwards(np.stack([outer, outer]))
        charged = credit[0, start + term * shape.credit_cells[axis] + place] / along
        return np.asarray(anew + (1 - anew) * np.minimum(1, charged))

    def _beyond(
        self, level: int, weight: FloatArray, once: FloatArray, around: Array
    ) -> FloatArray:
        """`[K, B]` cost beyond every word once, under the class of innermost loops of least cost.

        Args:
            level: the level.
            weight: `[K, B, T]` what a word that enters costs, by lists of prices.
            once: `[K, B, T]` what all cost if every word enters once.
            around: `[B, 2 n]` spatial factors outside the level outside, and its own.
        """
        of, shape = self._of(level), self._shape
        n = shape.sizes.size
        spread = around[:, :n] * around[:, n:]
        points = (shape.sizes // spread)[:, of.moved].prod(axis=1, dtype=np.float64)
        least = np.full(weight.shape[:2], np.inf)
        for kind in range(shape.class_rest.size):
            tensors, along, *_ = self._class(level, kind)
            if not len(tensors):
                continue
            costs, base = weight[:, :, tensors], once[:, :, tensors].sum(axis=2)
            for some in _alike(around[:, np.tile(along, 2)]):
                factors = np.where(along, around[some[0]].reshape(2, n), 1)
                corners = self._corners(level, kind, factors.tobytes())
                moving = (costs[:, some] @ corners.T).min(axis=2, initial=np.inf)
                more = moving * points[some] - base[:, some]
                least[:, some] = np.minimum(least[:, some], more)
        return np.where(np.isfinite(least), np.maximum(0, least), 0)


def _alike(rows: Array) -> list[Array]:
    """Which of rows `[B, k]` are equal: a list of those of each kind."""
    kind = np.zeros(len(rows), np.int64)
    for column in rows.T:
        # Numbered anew column by column, so that numbers stay below B x B.
        place = np.unique(column, return_inverse=True)[1]
        kind = np.unique(kind * (place.max(initial=0) + 1) + place, return_inverse=True)[1]
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(kind[order])) + 1) if len(rows) else []


def undominated(points: FloatArray, group: Array) -> Array:
    """Those of points `[F, M]` that are not at least another one of their group in all columns."""
    order = np.lexsort((points.sum(axis=1), group))
    found = np.empty(len(points), np.int64)
    # Of one layout, so that it is compiled once.
    return found[: list_undominated(np.ascontiguousarray(points), group, order, found)]


@lean
def list_undominated(points: FloatArray, group: Array, order: Array, found: Array) -> int:
    """Lists points that are not at least another one of their group in all columns.

    Args:
        points: `[F, M]` the points.
        group: `[F]` the group of each.
        order: `[F]` all of them, group by group, those with less in all first.
        found: `[F]` filled.

    Returns:
        How many there are.
    """
    count, first = 0, 0
    for place in range(order.size):
        one = order[place]
        if place > 0 and group[one] != group[order[place - 1]]:
            first = count
        least = True
        for k in range(first, count):
            other = found[k]
            below = True
            for column in range(points.shape[1]):
                if points[other, column] > points[one, column]:
                    below = False
                    break
            if below:
                least = False
                break
        if least:
            found[count] = one
            count += 1
    return count
