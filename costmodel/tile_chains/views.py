"""Tilings bounded from the MACs outwards, by energy, and by energy and cycles together.

A *view* is one price list of the words that enter tiles, with the chain's tables for it. Energy has
one. Where a bandwidth limits cycles, energy + rate x cycles has another: both are linear in the
same words, so that its chain bounds the sum for the same mapping.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from costmodel.compiled.laid_out import laid_out
from costmodel.costs import Objective
from costmodel.tile_chains.sights import ENERGY, TOGETHER, Sight
from costmodel.tile_chains.tables import ChainTables
from costmodel.tile_chains.tiles import FloatArray


class Sum(Protocol):
    """How energy and cycles are added, and what the sum says of mappings that could win."""

    @property
    def rate(self) -> float:
        """Price of a cycle, pJ."""

    @property
    def power(self) -> int:
        """The power of cycles beside one of energy; 0: what could win lies in gaps of a front."""

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


def view_of(
    tables: ChainTables, fixed: float, together: Sum | None = None, *, kind: int = ENERGY
) -> Sight:
    """What tables that are filled for an assignment and a price list say, from the MACs on.

    Args:
        tables: the tables; no other view of them may be in use.
        fixed: what no tile decides.
        together: how energy and cycles are added; None: it is one of them alone.
        kind: which of them.
    """
    assert tables.around is not None  # they are filled
    like, inside, crossed = tables.lines
    rate, power = (0.0, 1) if together is None else (together.rate, together.power)
    sight = Sight(
        tables.around, tables.chain, like, inside, crossed, np.full(1, len(inside) - 1),
        tables.scratch.trips, fixed, kind if together is None else TOGETHER, rate, power,
    )  # fmt: skip
    return laid_out(sight)
