"""Uniform draws of feasible mappings where hardly any is feasible, by the way that takes least.

Buffers of one or of a dozen words rule most factorisations of a dimension out whatever the others
are: a tile only grows with every extent, and so do the children in use. Without them a drawn
mapping is feasible some thousand times as often on real machines, and still uniform. Where that is
not enough for as many as are wanted, they are counted (`FeasibleDraws`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from costmodel.loop_nest.feasible_draws import FeasibleDraws, countable
from costmodel.loop_nest.tables import Array, NestTables
from costmodel.space import Codes

if TYPE_CHECKING:
    from costmodel.loop_nest.map_space import MapSpace

_TRIED = 4096
# With a smaller feasible share mappings are constructed rather than drawn and rejected.
LEAST_SHARE = 5e-3
# Where this share of those that fit by themselves is feasible, drawing and rejecting them is faster
# than walking through counts; so is rejecting so many, which takes half a second, than counting.
_FITTING_SHARE = 0.025
_MOST_REJECTED = 2_000_000


class ConstructedDraws:
    """Draws feasible mappings of a space in which they are rare."""

    def __init__(self, space: MapSpace) -> None:
        """Does nothing yet: what is needed is made when it is."""
        self._space = space

    @cached_property
    def needed(self) -> bool:
        """Whether hardly any mapping is feasible.

        A property of the space alone, so that draws do not depend on those made before.
        """
        return self._space.feasible_share(np.random.default_rng(0), _TRIED) < LEAST_SHARE

    @cached_property
    def counted(self) -> FeasibleDraws | None:
        """All of them, counted; None where that takes too much."""
        tables = self._space.tables
        return FeasibleDraws(tables) if countable(tables) else None

    @cached_property
    def _fitting(self) -> FittingRows | None:
        if not grows_with_extents(self._space.tables):
            return None
        fitting = FittingRows(self._space)
        return fitting if fitting.share > 0 else None

    def sample(self, rng: np.random.Generator, n: int) -> Codes | None:
        """`[n, D]` uniform; None if there is no way to so many, or none is feasible."""
        fitting = self._fitting
        if fitting is not None and (
            fitting.share >= _FITTING_SHARE or n / fitting.share <= _MOST_REJECTED
        ):
            return fitting.sample(rng, n)
        if self.counted is None:
            return None if fitting is None else fitting.sample(rng, n)
        if self.counted.number == 0:
            return None
        codes = self._space.sample(rng, n)
        self.counted.sample(rng, codes)
        return codes


class FittingRows:
    """Draws mappings of a space of which every dimension fits where all others are outermost.

    Attributes:
        share: of these mappings that are feasible, estimated.
    """

    def __init__(self, space: MapSpace) -> None:
        """Finds the factorisations that fit by themselves; `grows_with_extents` must hold."""
        self._space = space
        tables = space.tables
        n = tables.sizes.size
        outermost = np.zeros((1, space.cardinality.size), np.int32)
        for d in range(n):
            row = _all_outermost(tables, d)
            assert row is not None  # whoever makes this has looked
            outermost[0, d] = row
        self._rows = [self._fitting(outermost, d) for d in range(n)]
        self.share = 0.0
        if all(rows.size for rows in self._rows):
            drawn = self.draw(np.random.default_rng(0), _TRIED)
            self.share = float(space.feasible(drawn).mean())

    def _fitting(self, outermost: Codes, d: int) -> Array:
        tables = self._space.tables
        count = int(self._space.cardinality[d])
        codes = np.repeat(outermost, count, axis=0)
        codes[:, d] = np.arange(count)
        fits = self._space.feasible(codes)
        for column in tables.spatial_axis_column:
            if column >= 0:
                codes[:, column] = 2**tables.sizes.size - 1
        return np.flatnonzero(fits | self._space.feasible(codes))

    def draw(self, rng: np.random.Generator, n: int) -> Codes:
        """`[n, D]` uniform among mappings of these factorisations, feasible or not."""
        codes = self._space.sample(rng, n)
        for d, rows in enumerate(self._rows):
            codes[:, d] = rng.choice(rows, n)
        return codes

    def sample(self, rng: np.random.Generator, n: int) -> Codes:
        """`[n, D]` uniform among the feasible mappings; `share` must be above 0."""
        found: list[Codes] = []
        missing = n
        while missing > 0:
            codes = self.draw(rng, min(max(int(1.1 * missing / self.share), 64), 1 << 18))
            found.append(codes[self._space.feasible(codes)][:missing])
            missing -= len(found[-1])
        return np.concatenate(found)


def grows_with_extents(tables: NestTables) -> bool:
    """Whether a mapping whose tiles and spatial factors are smaller is feasible if another is.

    Not where a level or the array must be filled to some share, nor where a bank allocation fits
    one tile and not a smaller one. A dimension that may not be outermost has no mapping to start
    from.
    """
    machine = tables.machine
    return (
        not bool(machine.least_words.any())
        and machine.least_units <= 1
        and bool((tables.banks_column < 0).all())
        and all(_all_outermost(tables, d) is not None for d in range(tables.sizes.size))
    )


def _all_outermost(tables: NestTables, d: int) -> int | None:
    """The factorisation of a dimension whose loop is outermost, None where that is excluded."""
    rows = tables.factors[tables.row_start[d] : tables.row_start[d + 1], 0]
    found = np.flatnonzero(rows == tables.sizes[d])
    return int(found[0]) if found.size else None
