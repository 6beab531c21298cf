"""The tiles that every level can hold, given what the levels keep.

Letters: L levels, F tiles of a level, n dimensions, T tensors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.by_reference import by_reference
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.rules import Rules
from costmodel.tile_chains.shape import Shape

FloatArray = npt.NDArray[np.float64]


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
    cell: Array
    extent: Array
    place: Array
    words: FloatArray
    full: Array
    at: npt.NDArray[np.int32]


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
        self._low, self._high = rules.extents()
        self._shape = shape
        cells = np.arange(shape.cells)
        counts = np.diff(shape.divisor_start)
        self.place: Array = (cells[:, None] // shape.stride) % counts
        self.extent: Array = shape.divisors[shape.divisor_start[:-1] + self.place]
        self.words: Array = np.ones((shape.sliding.size, shape.cells), np.int64)
        for t in range(shape.sliding.size):
            for axis in range(shape.axis_start[t], shape.axis_start[t + 1]):
                extent = np.ones(shape.cells, np.int64)
                for k in range(shape.term_start[axis], shape.term_start[axis + 1]):
                    inside = self.extent[:, shape.term_dimension[k]] - 1
                    extent += shape.term_coefficient[k] * inside
                self.words[t] *= extent

    def fits(self, level: int, kept: int) -> npt.NDArray[np.bool_]:
        """`[cells]` whether the kept tensors (bit t: tensor t) fit the level."""
        tables = self._space.tables
        if tables.capacity[level] < 0:
            return np.ones(self._shape.cells, np.bool_)
        tensors = [t for t in range(len(self.words)) if (kept >> t) & 1]
        if tables.banks_column[level] >= 0:
            banks = np.zeros(self._shape.cells, np.int64)
            for t in range(len(self.words)):
                need = -(-self.words[t] // tables.bank_words[level]) if t in tensors else 1
                banks += need
            found: npt.NDArray[np.bool_] = banks <= (
                self._space.accelerator.levels[level].banks or 0
            )
            return found
        used = self.words[tensors].sum(axis=0)
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
        stops = before + np.cumsum([len(part) for part in parts])
        if over is None:
            over = self._room(len(keeps), int(stops[-1]))
        elif len(parts) and stops[-1] > over.cell.size:
            return self.tiles(keeps)
        found = over._replace(start=np.concatenate([over.start[: same + 1], stops]))
        for level, part in enumerate(parts, same):
            self._list_level(found, level, keeps[level], part)
        return found

    def _room(self, levels: int, size: int) -> Tiles:
        """Room for so many tiles."""
        dimensions, tensors = self.extent.shape[1], len(self.words)
        return Tiles(
            start=np.zeros(1, np.int64),
            cell=np.empty(size, np.int64),
            extent=np.empty((size, dimensions), np.int64),
            place=np.empty((size, dimensions), np.int64),
            words=np.empty((size, tensors)),
            full=np.empty(size, np.int64),
            at=np.empty((levels, self._shape.cells), np.int32),
        )

    def _list_level(self, found: Tiles, level: int, kept: int, cells: Array) -> None:
        """Writes down the tiles of a level, by its cells."""
        rows = slice(int(found.start[level]), int(found.start[level + 1]))
        found.at[level] = -1
        found.at[level, cells] = np.arange(len(cells))
        found.cell[rows], found.place[rows] = cells, self.place[cells]
        extent, words = self.extent[cells], self.words[:, cells]
        found.extent[rows], found.words[rows] = extent, words.T
        tensors = [t for t in range(len(words)) if (kept >> t) & 1]
        left = ((extent >= self._low[level]) & (extent <= self._high[level])).all(axis=1)
        least = self._space.tables.machine.least_words[level]
        found.full[rows] = (words[tensors].sum(axis=0) >= least) & left
