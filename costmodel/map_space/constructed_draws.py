"""Uniform draws of feasible mappings where hardly any is feasible, by the way that takes least.

Buffers of one or of a dozen words rule most factorisations of a dimension out whatever the others
are: a tile only grows with every extent, and so do the children in use. Without them a drawn
mapping is feasible some thousand times as often on real machines, and still uniform. Where that is
not enough for as many as are wanted, they are counted (`FeasibleDraws`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from costmodel.arrays.tables import Array, NestTables
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.feasible_draws import FeasibleDraws, countable
from costmodel.space import Codes, Space

_TRIED = 4096
# With a smaller feasible share mappings are constructed rather than drawn and rejected.
LEAST_SHARE = 5e-3
# With a larger one little is gained by anything else than drawing and rejecting.
_EASY_SHARE = 0.25
# Where this share of those that fit by themselves is feasible, drawing and rejecting them is faster
# than walking through counts; so is rejecting so many, which takes half a second, than counting.
_FITTING_SHARE = 0.025
_MOST_REJECTED = 2_000_000


class NestSpace(Space, Protocol):
    """What is drawn from: `costmodel.map_space.map_space.MapSpace`."""

    tables: NestTables
    accelerator: Accelerator
    attribute_kinds: tuple[str, ...]

    def draw_axes(self, rng: np.random.Generator, codes: Codes) -> None:
        """Draws mesh axes anew, in place, where constraints leave some sets of dimensions alone."""
        ...

    def feasible_share(self, rng: np.random.Generator, n: int) -> float:
        """The feasible share of n mappings drawn."""
        ...


class ConstructedDraws:
    """Draws feasible mappings of a space in which they are rare."""

    def __init__(self, space: NestSpace) -> None:
        """Does nothing yet: what is needed is made when it is."""
        self._space = space

    @cached_property
    def needed(self) -> bool:
        """Whether hardly any mapping is feasible.

        A property of the space alone, so that draws do not depend on those made before.
        """
        return self._space.feasible_share(np.random.default_rng(0), _TRIED) < LEAST_SHARE

    @cached_property
    def at_once(self) -> bool:
        """Whether what fits by itself is drawn from the start, not once rejection takes long.

        Of machines that have keys beyond the first ones; of those a seed's draws stay as they were.
        """
        machine = self._space.accelerator
        if machine.further_key is None and len(machine.levels) <= 3:
            return False
        if self._space.feasible_share(np.random.default_rng(0), _TRIED) >= _EASY_SHARE:
            return False
        return self._rules_out

    @property
    def _rules_out(self) -> bool:
        """Whether mappings can be drawn from what fits by itself."""
        return self.fitting is not None and self.fitting.share > 0

    @cached_property
    def counted(self) -> FeasibleDraws | None:
        """All of them, counted; None where that takes too much."""
        tables = self._space.tables
        return FeasibleDraws(tables) if countable(tables) else None

    @cached_property
    def fitting(self) -> FittingRows | None:
        """What fits by itself; None where that rules nothing out."""
        return FittingRows(self._space) if grows_with_extents(self._space.tables) else None

    def sample(self, rng: np.random.Generator, n: int) -> Codes | None:
        """`[n, D]` uniform; None if there is no way to so many, or none is feasible."""
        fitting = self.fitting if self.fitting is not None and self.fitting.share > 0 else None
        if fitting is not None and rejects(fitting.share, n):
            return fitting.sample(rng, n)
        if self.counted is None:
            return None if fitting is None else fitting.sample(rng, n)
        if self.counted.number == 0:
            return None
        codes = self._space.sample(rng, n)
        self.counted.sample(rng, codes)
        return codes


def rejects(share: float, n: int) -> bool:
    """Whether `n` mappings are better drawn and rejected than counted, if a share fits."""
    return share >= _FITTING_SHARE or n / share <= _MOST_REJECTED


class FittingRows:
    """Draws mappings of a space of which every dimension fits where all others are outermost.

    Attributes:
        size: number of these mappings.
        share: of them that are feasible, estimated.
    """

    def __init__(self, space: NestSpace) -> None:
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
        # Loop orders decide nothing: those of mappings that are rejected need not be drawn.
        kinds = np.array(space.attribute_kinds)
        orders = (kinds == "order") | (kinds == "spatial-order")
        self._orders = np.flatnonzero(orders).tolist()
        self._others = np.flatnonzero(~orders & (kinds != "tiling")).tolist()
        others = space.cardinality[n:].astype(float)
        self.size = float(np.prod([rows.size for rows in self._rows])) * float(others.prod())
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
        """`[n, D]` uniform among mappings of these factorisations, without loop orders."""
        cardinality = self._space.cardinality
        codes = np.zeros((n, cardinality.size), np.int32)
        # Column by column: numbers below one bound take a fifth of those below many.
        for d, rows in enumerate(self._rows):
            codes[:, d] = rows[rng.integers(0, rows.size, n, dtype=np.int32)]
        self._draw_columns(rng, codes, self._others)
        self._space.draw_axes(rng, codes)
        return codes

    def draw_orders(self, rng: np.random.Generator, codes: Codes) -> None:
        """Draws the loop orders of codes `[B, D]`, in place."""
        self._draw_columns(rng, codes, self._orders)

    def _draw_columns(self, rng: np.random.Generator, codes: Codes, columns: list[int]) -> None:
        for column in columns:
            most = int(self._space.cardinality[column])
            codes[:, column] = rng.integers(0, most, len(codes), dtype=np.int32)

    def sample(self, rng: np.random.Generator, n: int) -> Codes:
        """`[n, D]` uniform among the feasible mappings; `share` must be above 0."""
        found = [np.empty((0, self._space.cardinality.size), np.int32)]
        missing = n
        while missing > 0:
            codes = self.draw(rng, min(max(int(1.1 * missing / self.share), 64), 1 << 18))
            found.append(codes[self._space.feasible(codes)][:missing])
            missing -= len(found[-1])
        drawn = np.concatenate(found)
        self.draw_orders(rng, drawn)
        return drawn


def grows_with_extents(tables: NestTables) -> bool:
    """Whether a mapping whose tiles and spatial factors are smaller is feasible if another is.

    Not where a level or the array must be filled to some share, nor where a bank allocation fits
    one tile and not a smaller one. A dimension that may not be outermost has no mapping to start
    from.
    """
    machine = tables.machine
    return (
        not bool(machine.least_room.any())
        and machine.least_units <= 1
        and bool((tables.banks_column < 0).all())
        and all(_all_outermost(tables, d) is not None for d in range(tables.sizes.size))
    )


def _all_outermost(tables: NestTables, d: int) -> int | None:
    """The factorisation of a dimension whose loop is outermost, None where that is excluded."""
    rows = tables.factors[tables.row_start[d] : tables.row_start[d + 1], 0]
    found = np.flatnonzero(rows == tables.sizes[d])
    return int(found[0]) if found.size else None
