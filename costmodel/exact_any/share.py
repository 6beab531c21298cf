"""Shares of an assignment's tilings: what a piece of a proof searches, and what it leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.exact_any.tilings import Child, Trail

SPLIT, SPLIT_FURTHER = 4, 1
"""Into so many shares what is left is split: the tiles of the innermost level that has any, and
those of levels further out, of which there are fewer."""


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

    def left(self) -> tuple[Left, ...]:
        """What is left of the share, in shares without overlap; the search is inside."""
        found: list[Left] = []
        path = tuple(self._path)
        if len(path) == len(self._listed):
            # The tile in work has been entered alone.
            energy = next(bound for bound, tile in self._listed[-1] if tile == path[-1])
            found.append(Left(energy, Share(path)))
        split = SPLIT
        for depth, children in enumerate(self._listed):
            done = self._through[depth] | set(path[depth : depth + 1])
            left = [child for child in children if child[1] not in done]
            for first in range(min(split, len(left))):
                chosen = left[first::split]
                tiles = tuple(tile for _, tile in chosen)
                found.append(Left(chosen[0][0], Share(path[:depth], tiles)))
            if left:
                split = SPLIT_FURTHER
        return tuple(found)
