"""The tiles that every level can hold, given what the levels keep.

Letters: L levels, F tiles of a level, n dimensions, T tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.compiled import lean
from costmodel.compiled.by_reference import by_reference
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.rules import Rules
from costmodel.tile_chains.shape import Shape

FloatArray = npt.NDArray[np.float64]

Extents = npt.NDArray[np.int32] | npt.NDArray[np.int64]
"""Extents of tiles; of 64 bits where a size of the operation needs them."""

Places = npt.NDArray[np.int16]
"""Positions among the divisors of a dimension."""

ALL = slice(None)


@by_reference
class Tiles(NamedTuple):
    """Tiles that fit a level and all levels outside it, one level's after another's, by cell.

    There may be more room than there are tiles.

    start `[L + 1]`; cell `[F]` in the lattice; extent and place `[F, n]` extents and their
    positions among the divisors; words `[F, T]` of every tensor, kept or not; full `[F]` 1 where
    the tile reaches the level's least utilisation and constraints leave it; at `[L, cells]` the
    tile of a cell, -1 if none.
    """

    start: Array
    cell: npt.NDArray[np.int32]
    extent: Extents
    place: Places
    words: FloatArray
    full: npt.NDArray[np.int8]
    at: npt.NDArray[np.int32]


class Level(NamedTuple):
    """What the tiles of a level keep.

    kept: the tensors, as bits; least: room that these take at least; room `[T]` of a value; low
    and high `[n]` the least and the largest extents that constraints leave it.
    """

    kept: int
    least: float
    room: Array
    low: Array
    high: Array


@lean
def list_level(
    tiles: Tiles,
    level: int,
    cells: Array,
    place: Places,
    extent: Extents,
    words: Array,
    of: Level,
) -> None:
    """Writes down the tiles of a level.

    Args:
        tiles: where.
        level: the level.
        cells: `[F]` their cells, ascending.
        place: `[cells, n]` positions among the divisors.
        extent: `[cells, n]` extents.
        words: `[T, cells]` words of every tensor's tile.
        of: what they keep.
    """
    first = tiles.start[level]
    for cell in range(tiles.at.shape[1]):
        tiles.at[level, cell] = -1
    for m in range(cells.size):
        cell, i, full, held = cells[m], first + m, 1, 0
        tiles.at[level, cell] = m
        tiles.cell[i] = cell
        for d in range(place.shape[1]):
            tiles.place[i, d], tiles.extent[i, d] = place[cell, d], extent[cell, d]
            if extent[cell, d] < of.low[d] or extent[cell, d] > of.high[d]:
                full = 0
        for t in range(words.shape[0]):
            tiles.words[i, t] = words[t, cell]
            if (of.kept >> t) & 1:
                held += words[t, cell] * of.room[t]
        tiles.full[i] = full if held >= of.least else 0


class Lattice:
    """All cells of an operation's lattice, and which of them a set of kept tensors allows.

    Attributes:
        place: `[cells, n]` positions among the divisors.
        extent: `[cells, n]` extents.
        words: `[T, cells]` words of every tensor's tile.
    """

    def __init__(self, space: MapSpace, shape: Shape, rules: Rules) -> None:
        """Lists the cells of a map space's operation, of which rules may leave a part."""
        self._space = space
        self._fitting: dict[tuple[int, int], npt.NDArray[np.bool_]] = {}
        self._low, self._high = rules.extents()
        self._shape = shape
        size = shape.cells, shape.stride.size
        # Those of the tiles of all levels take a tenth of a gigabyte of 64 bits each.
        narrow = shape.divisors.max() < 2**31
        self.place: Places = np.empty(size, np.int16)
        self.extent: Extents = np.empty(size, np.int32) if narrow else np.empty(size, np.int64)
        for d, stride in enumerate(shape.stride.tolist()):
            own = shape.divisors[shape.divisor_start[d] : shape.divisor_start[d + 1]]
            # To divide every cell by its strides would take as long as all else together.
            cells = -1, len(own), stride, size[1]
            self.place.reshape(cells)[..., d] = np.arange(len(own))[:, None]
            self.extent.reshape(cells)[..., d] = own[:, None]
        self.words: Array = np.ones((shape.sliding.size, shape.cells), np.int64)
        for t in range(shape.sliding.size):
            for axis in range(shape.axis_start[t], shape.axis_start[t + 1]):
                extent = np.ones(shape.cells, np.int64)
                for k in range(shape.term_start[axis], shape.term_start[axis + 1]):
                    inside = self.extent[:, shape.term_dimension[k]] - np.int64(1)
                    extent += shape.term_coefficient[k] * inside
                self.words[t] *= extent

    def fits(self, level: int, kept: int, cells: Array | slice = ALL) -> npt.NDArray[np.bool_]:
        """`[cells]` whether the kept tensors (bit t: tensor t) fit the level, of some cells."""
        tables = self._space.tables
        if tables.capacity[level] < 0:
            return np.ones(self.words[0, cells].shape, np.bool_)
        words = self.words[:, cells] * tables.machine.room[level][:, None]
        tensors = [t for t in range(len(words)) if (kept >> t) & 1]
        if tables.banks_column[level] >= 0:
            banks = np.zeros(words.shape[1], np.int64)
            for t in range(len(words)):
                need = -(-words[t] // tables.bank_words[level]) if t in tensors else 1
                banks += need
            found: npt.NDArray[np.bool_] = banks <= (
                self._space.accelerator.levels[level].banks or 0
            )
            return found
        used = words[tensors].sum(axis=0)
        fitting: npt.NDArray[np.bool_] = used <= tables.capacity[level]
        return fitting

    def tiles(self, keeps: tuple[int, ...], over: Tiles | None = None, same: int = 0) -> Tiles:
        """The tiles of every level.

        Args:
            keeps: `[L]` the tensors that each level keeps, as bits.
            over: those of other kept tensors, which nobody reads any more: written over, if there
                is room.
            same: how many levels, from the outermost, keep the same there.
        """
        before = 0 if over is None else int(over.start[same])
        fitting = np.ones(self._shape.cells, np.bool_)
        if over is not None and same:
            fitting = over.at[same - 1] >= 0
        parts: list[Array] = []
        for level in range(same, len(keeps)):
            fitting = fitting & self.fits(level, keeps[level])
            parts.append(np.flatnonzero(fitting))
        if over is not None and before + sum(map(len, parts)) > over.cell.size:
            return self.tiles(keeps)
        return self._listed(keeps, parts, over, same)

    def tiles_between(
        self, keeps: tuple[int, ...], inside: Array, outer: Array, over: Tiles | None = None,
        same: int = 0,
    ) -> Tiles:  # fmt: skip
        """The tiles of every level that are multiples, and divide what spatial factors leave.

        Args:
            keeps: `[L]` the tensors that each level keeps, as bits.
            inside: `[L, n]` of what they are multiples.
            outer: `[L, n]` spatial factors outside.
            over: those of others, which nobody reads any more: written over, if there is room.
            same: how many levels, from the outermost, have the same tiles there.
        """
        parts: list[Array] = []
        fitting = np.ones(self._shape.cells, np.bool_)
        for level, kept in enumerate(keeps):
            fitting = fitting & self._all_that_fit(level, kept)
            if level >= same:
                cells = self._cells_between(inside[level], outer[level])
                parts.append(cells[fitting[cells]])
        if over is not None and over.start[same] + sum(map(len, parts)) > over.cell.size:
            return self.tiles_between(keeps, inside, outer)
        return self._listed(keeps, parts, over, same)

    def _all_that_fit(self, level: int, kept: int) -> npt.NDArray[np.bool_]:
        """`[cells]` as `fits`, looked at once: sets of kept tensors are these of each level."""
        if (level, kept) not in self._fitting:
            self._fitting[level, kept] = self.fits(level, kept)
        return self._fitting[level, kept]

    def _cells_between(self, inside: Array, outer: Array) -> Array:
        """Cells, ascending, of the extents that are multiples of some and leave room for others."""
        shape, found = self._shape, np.zeros(1, np.int64)
        for d in np.argsort(-shape.stride, kind="stable").tolist():
            own = shape.divisors[shape.divisor_start[d] : shape.divisor_start[d + 1]]
            left = (own % inside[d] == 0) & (shape.sizes[d] % (own * outer[d]) == 0)
            found = (found[:, None] + np.flatnonzero(left) * shape.stride[d]).ravel()
        return found

    def _listed(
        self, keeps: tuple[int, ...], parts: Sequence[Array], over: Tiles | None, same: int
    ) -> Tiles:
        """Tiles by their cells, level by level from one on; those of levels outside stay."""
        stops = np.cumsum([len(part) for part in parts], dtype=np.int64)
        if over is None:
            over = self.room(len(keeps), int(stops[-1]))
        stops = np.concatenate([over.start[: same + 1], over.start[same] + stops])
        found = over._replace(start=stops)
        for level, part in enumerate(parts, same):
            self._list_level(found, level, keeps[level], part)
        return found

    def room(self, levels: int, size: int) -> Tiles:
        """Room for so many tiles, of which there are none yet."""
        dimensions, tensors = self.extent.shape[1], len(self.words)
        return Tiles(
            start=np.zeros(1, np.int64),
            cell=np.empty(size, np.int32),
            extent=np.empty((size, dimensions), self.extent.dtype),
            place=np.empty((size, dimensions), self.place.dtype),
            words=np.empty((size, tensors)),
            full=np.empty(size, np.int8),
            at=np.empty((levels, self._shape.cells), np.int32),
        )

    def _list_level(self, found: Tiles, level: int, kept: int, cells: Array) -> None:
        """Writes down the tiles of a level, by its cells."""
        machine = self._space.tables.machine
        # What levels that share a room hold together is looked at once all of their tiles are.
        alone = machine.sharing[level, 0] == machine.sharing[level, 1] - 1
        least = float(machine.least_room[level]) if alone else 0.0
        room = machine.room[level]
        of = Level(kept, least, room, self._low[level].copy(), self._high[level].copy())
        list_level(found, level, cells, self.place, self.extent, self.words, of)
