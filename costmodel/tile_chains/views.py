"""Tilings bounded from the MACs outwards, by energy, and by energy and cycles together.

A *view* is one price list of the words that enter tiles, with the chain's tables for it. Energy has
one. Where a bandwidth limits cycles, energy + rate x cycles has another: both are linear in the
same words, so that its chain bounds the sum for the same mapping.

Letters: B tiles of a level.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.costs import Objective
from costmodel.tile_chains.lines import empty_lines
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tables import ChainTables
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.walk import (
    Slot,
    bound_tiles,
    enter_and_cross,
    list_multiples,
)


class Sum(Protocol):
    """How energy and cycles are added, and what the sum says of mappings that could win."""

    @property
    def rate(self) -> float:
        """Price of a cycle, pJ."""

    def energy(
        self, energy: FloatArray, slow: FloatArray, both: FloatArray, cycles: float
    ) -> FloatArray:
        """Energy `[B]` at `cycles` that those of sets that could win need; inf: none could.

        Args:
            energy: `[B]` that the mappings of sets need at least, pJ.
            slow: `[B]` cycles that they take at least.
            both: `[B]` that their sum is at least.
            cycles: that all of them take at least.
        """


class Together(NamedTuple):
    """Energy + rate x cycles, for objectives energy x cycles^power."""

    rate: float
    power: int

    @classmethod
    def of(cls, objective: Objective, energy: float, cycles: float) -> Together:
        """The rate that rules most out where energy and cycles have these bounds.

        The line of the sum then cuts the curve of equal objectives at both bounds, or nearly so.
        """
        power = 2 if objective == "ed2p" else 1
        return cls(max(power * energy / cycles, 1e-30), power)

    def energy(
        self, energy: FloatArray, slow: FloatArray, both: FloatArray, cycles: float
    ) -> FloatArray:
        """Energy that at `cycles` has the least objective that is possible.

        Of all points that are at least `energy`, `slow` and, in the sum, `both`, the product is
        least at an end of the line where the sum is reached: it rises and falls along it.
        """
        slower = np.maximum(slow, (both - energy) / self.rate)
        return np.minimum(
            energy * (slower / cycles) ** self.power,
            np.maximum(energy, both - self.rate * slow) * (slow / cycles) ** self.power,
        )


class View:
    """What is certain of a chain of tiles under one price list."""

    def __init__(
        self,
        shape: Shape,
        tables: ChainTables,
        levels: int,
        fixed: float,
        together: Sum | None = None,
        *,
        is_energy: bool = False,
    ) -> None:
        """Begins at the MACs.

        Args:
            shape: the operation.
            tables: filled for the assignment and the prices.
            levels: how many the machine has.
            fixed: what no tile decides.
            together: how energy and cycles are added; None: it is one of them alone.
            is_energy: whether it is energy once more, with other leakage.
        """
        self.together, self.is_energy = together, is_energy
        assert tables.around is not None  # they are filled
        self._shape, self._tiles, self._chain = shape, tables.tiles, tables.chain
        self._around, self._fixed = tables.around, fixed
        self._trips = np.zeros(shape.sizes.size)
        self._choice = np.zeros(shape.sizes.size, np.int64)
        self._listed = np.zeros(int(np.diff(self._tiles.start).max()), np.int64)
        self._inside = [empty_lines() for _ in range(levels + 1)]
        self._crossed = [empty_lines() for _ in range(levels + 1)]
        self._crossed[levels].number[0] = 1
        self._crossed[levels].tensor[0] = self._crossed[levels].other[0] = -1
        # Tiles that are chosen, and not entered yet: by level, with the step inside.
        self._chosen: dict[int, tuple[int, int]] = {}

    def multiples(self, level: int, step: int) -> Array:
        """`[B]` the tiles of a level that may stand outside a step."""
        count = list_multiples(self._shape, self._tiles, level, step, self._choice, self._listed)
        return self._listed[:count].copy()

    def _slot(self, level: int, step: int) -> Slot:
        return Slot(level, step, self._crossed[level + 1], self._trips)

    def bounds(self, level: int, step: int, listed: Array) -> FloatArray:
        """`[B]` what all mappings with tiles `[B]` of a level outside a step cost at least."""
        for chosen in sorted((at for at in self._chosen if at > level), reverse=True):
            self._enter(chosen, *self._chosen.pop(chosen))
        found = np.empty(len(listed))
        bound_tiles(
            self._shape, self._tiles, self._around, self._chain, self._slot(level, step),
            listed, found,
        )  # fmt: skip
        return found + self._fixed

    def enter(self, level: int, step: int, tile: int) -> int:
        """Chooses a tile outside a step; returns the step outside it, -1 if there is none."""
        self._chosen.clear()
        return self._enter(level, step, tile)

    def choose(self, level: int, step: int, tile: int) -> None:
        """Chooses a tile outside a step, which is entered when something outside it is bounded."""
        self._chosen[level] = step, tile

    def _enter(self, level: int, step: int, tile: int) -> int:
        slot = self._slot(level, step)
        outside: int = enter_and_cross(
            self._shape, self._tiles, self._around, slot, tile,
            self._inside[level], self._crossed[level],
        )  # fmt: skip
        return outside
