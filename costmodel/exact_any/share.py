"""Shares of an assignment's tilings: what a piece of a proof searches, and what it leaves."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.exact_any.tilings import Child, Trail

MOST_SHARES = 16
"""Into so many shares what is left is split at most: the tiles of the innermost level that has any.
Those of a level further out, of which there are fewer, are one."""

FALLS = 2
"""What is searched of a tile is taken to grow with this power of what its bound leaves room."""


class Share(NamedTuple):
    """The tilings that begin with a path of tiles, from the innermost level outwards.

    path: the tiles; tiles: those of the next level that may follow, None: all.
    """

    path: tuple[int, ...] = ()
    tiles: tuple[int, ...] | None = None


class Left(NamedTuple):
    """A share that is still to be searched.

    energy: pJ that its mappings need at the cycles that all of the assignment take.
    """

    energy: float
    share: Share


class ShareTrail(Trail):
    """A search of one share, which can say what of it is left."""

    def __init__(self, share: Share) -> None:
        """Begins with nothing of it searched."""
        super().__init__()
        self._share = share
        self._listed: list[list[Child]] = []

    @property
    def notes(self) -> int:
        """See `Trail`: what is left is split by what is noted further out than the path."""
        return 4 + len(self._share.path)

    def own(self, tiles: Array) -> Array:
        """See `Trail`."""
        depth, (path, last) = len(self._path), self._share
        mine: Array = tiles
        if depth < len(path):
            mine = tiles[tiles == path[depth]]
        elif depth == len(path) and last is not None:
            mine = np.intersect1d(tiles, last, assume_unique=True)
        return mine

    def note(self, children: list[Child]) -> list[Child]:
        """See `Trail`."""
        self._listed.append(children)
        return children

    def close(self) -> None:
        """See `Trail`."""
        super().close()
        self._listed.pop()

    @property
    def inside(self) -> bool:
        """Whether the search has come to the end of the path: before, nothing is settled."""
        return len(self._listed) > len(self._share.path)

    @property
    def between(self) -> bool:
        """Whether it is through with some tiles of the first level, and amid none of them."""
        return len(self._listed) == len(self._share.path) + 1 and bool(self._through[-1])

    def more(self, limit: float) -> float:
        """How many times what was searched of the share is likely to be left of it.

        Tiles with low bounds have more tilings that could win: with the square of what is between
        bound and limit left and searched agree within a factor of three or so.

        Args:
            limit: energy that mappings must be below at the cycles that all of them take.
        """
        through = 0.0
        for depth in reversed(range(len(self._share.path), len(self._listed))):
            room = {tile: 1.0 for _, tile in self._listed[depth]}
            if limit < math.inf:
                listed = self._listed[depth]
                room = {tile: max(0.0, limit - bound) ** FALLS for bound, tile in listed}
            total = sum(room.values())
            its = sum(room.get(tile, 0.0) for tile in sorted(self._through[depth]))
            if depth < len(self._path):
                its += through * room.get(self._path[depth], 0.0)
            through = its / total if total > 0 else 1.0
        return (1 - through) / through if through > 0 else math.inf

    def left(self, shares: int) -> tuple[Left, ...]:
        """What is left of the share, in shares without overlap; the search is inside.

        Args:
            shares: into how many the tiles of the innermost level that has any are split.
        """
        found: list[Left] = []
        path, split = tuple(self._path), max(1, min(MOST_SHARES, shares))
        for depth, children in enumerate(self._listed):
            done = self._through[depth] | set(path[depth : depth + 1])
            if depth + 1 == len(self._listed) == len(path):
                # Nothing is searched of the tile entered last: it is left like others, or by
                # itself, so that a share that was left ends further in if nothing of it is through.
                done = done - {path[-1]}
                if not self._through[depth]:
                    energy = next(bound for bound, tile in children if tile == path[-1])
                    found.append(Left(energy, Share(path)))
                    done.add(path[-1])
            left = [child for child in children if child[1] not in done]
            for first in range(min(split, len(left))):
                chosen = left[first::split]
                tiles = tuple(tile for _, tile in chosen)
                found.append(Left(chosen[0][0], Share(path[:depth], tiles)))
            if left:
                split = 1
        return tuple(found)
