"""The mappings known that no other beats in energy and cycles at once, and what they rule out.

What they leave are *gaps*: fewer cycles than the fastest; at least the cycles of one, fewer than
those of the next and less energy than the first of the two; less energy than the last.

Letters: B sets of mappings, G gaps.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.costs import STATUS_OK
from costmodel.exact_any.known import SLACK, Known, Target
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from costmodel.tile_chains.descent import Ties
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.views import Sum


class Staircase(Known):
    """The mappings known that no other beats in energy and cycles at once.

    Attributes:
        cycles: theirs, ascending.
        energies: theirs, pJ, descending.
        mappings: their codes `[D]`.
    """

    def __init__(self, space: MapSpace) -> None:
        """Knows none."""
        super().__init__(space, "edp")
        self.cycles: list[float] = []
        self.energies: list[float] = []
        self.mappings: list[Codes] = []
        self._gaps: tuple[FloatArray, FloatArray] | None = None

    @property
    def full(self) -> bool:
        """Whether anything is known."""
        return bool(self.cycles)

    @property
    def power(self) -> int:
        """None: what bounds energy bounds it whatever the cycles."""
        return 0

    @property
    def gaps(self) -> tuple[FloatArray, FloatArray]:
        """`[G]` the energy that is too much for a gap, pJ, and the most cycles in it."""
        if self._gaps is None:
            top = np.array([math.inf, *self.energies]) * (1 - SLACK)
            self._gaps = top, np.array([*self.cycles, math.inf]) - 1
        return self._gaps

    def limit(self, cycles: float) -> float:
        """The energy that the fastest mappings known, of so many cycles at most, need at least."""
        at = bisect.bisect_right(self.cycles, cycles)
        return self.energies[at - 1] * (1 - SLACK) if at else math.inf

    def limits(self, cycles: Array | FloatArray) -> FloatArray:
        """`limit` for cycles `[...]`."""
        top, _ = self.gaps
        return np.asarray(top[np.searchsorted(np.array(self.cycles), cycles, side="right")])

    def target(self, cycles: float) -> Target:
        """What is known of so many cycles holds for more."""
        return Target(self.limit(cycles), 0.0, math.inf)

    def needs_cycles(self, cycles: int) -> bool:
        """Whether it may hold a mapping faster than all known: no energy is too much for one."""
        return self.full and cycles < self.cycles[0]

    def too_slow(self, energies: FloatArray, cycles: FloatArray) -> npt.NDArray[np.bool_]:
        """Which sets of mappings are beaten by one that is no slower."""
        return ~self.could_beat(energies, cycles)

    def lose_ties(
        self, energies: FloatArray | float, slow: Array | FloatArray | float,
        least: FloatArray | float, cycles: Array | FloatArray | float,
    ) -> npt.NDArray[np.bool_]:  # fmt: skip
        """None: what equals a mapping of the front is beaten by it."""
        return np.zeros(np.shape(least), np.bool_)

    def ties(self, cycles: float) -> Ties | None:
        """A front has as many as it has gaps."""
        return None

    def passes_by(self, energies: FloatArray, cycles: Array) -> npt.NDArray[np.bool_]:
        """Those that are beaten: the front does not close in the order of a product."""
        return self.too_slow(energies, cycles.astype(np.float64))

    def most_cycles(self, energy: float, cycles: float) -> float:
        """The cycles of the first mapping known that needs no more energy."""
        top, right = self.gaps
        return float(right[np.count_nonzero(top > energy) - 1]) + 1

    def most_sum(self, energy: float, cycles: float, rate: float) -> float:
        """The largest sum in the gaps that are open to such bounds."""
        top, right = self.gaps
        its = (top > energy) & (right >= cycles)
        return float((top[its] + rate * (right[its] + 1)).max(initial=0.0))

    def rate_for(self, outcomes: Sequence[tuple[float, int]]) -> float:
        """The slope from the first to the last of the gaps that have ends and are open to some.

        Of one gap: that at which the sum of its most energy and cycles is reached beside both.
        """
        top, right = self.gaps
        energies, cycles = np.array(outcomes, float).T
        its = ((top > energies[:, None]) & (right >= cycles[:, None])).any(axis=0)
        its &= np.isfinite(top) & np.isfinite(right)
        found = np.flatnonzero(its)
        if not found.size:
            return 0.0
        first, last = found[0], found[-1]
        if first < last:
            return float((top[first] - top[last]) / (right[last] - right[first]))
        energy, least = energies.min(), cycles.min()
        return float(max(top[first] - energy, 0.0) / max(right[first] - least, 1.0))

    def together(self, rate: float) -> Sum:
        """What a sum says of the mappings in gaps."""
        return Along(rate, self)

    def take(self, codes: Codes) -> None:
        """Keeps of mappings `[B, D]` those that none beats, in place of those that they beat."""
        costs = LoopNestModel().evaluate(self._space, codes)
        for b in np.flatnonzero(costs.status == STATUS_OK):
            energy, cycles = float(costs.energy_pj[b]), float(costs.latency_cycles[b])
            if energy >= self.limit(cycles):
                continue
            first = bisect.bisect_left(self.cycles, cycles)
            last = first
            while last < len(self.cycles) and self.energies[last] >= energy * (1 - SLACK):
                last += 1
            self.cycles[first:last] = [cycles]
            self.energies[first:last] = [energy]
            self.mappings[first:last] = [codes[b].copy()]
            self._gaps = None


class Along:
    """Energy + rate x cycles, where what could win lies in the gaps of a front.

    Attributes:
        rate: pJ per cycle.
        power: none of cycles.
    """

    power = 0

    def __init__(self, rate: float, front: Staircase) -> None:
        """Notes the rate and the front, which may come to know more."""
        self.rate, self._front = rate, front

    def energy(
        self, energy: FloatArray, slow: FloatArray, both: FloatArray, cycles: float
    ) -> FloatArray:
        """Energy that those of sets in a gap need; inf where no gap is open (lemma 12d).

        A gap is open to a set if its most energy and cycles, and their sum, are above the bounds.
        What lies in it needs the sum less the most cycles of the last such gap.
        """
        top, right = self._front.gaps
        both = both * (1 - SLACK)
        able = (top > energy[:, None]) & (right >= slow[:, None])
        able &= top + self.rate * right > both[:, None]
        last = right.size - 1 - np.argmax(able[:, ::-1], axis=1)
        some = able[np.arange(len(able)), last]
        most = self.rate * np.where(some, right[last], 0.0)
        return np.where(some, np.maximum(energy, both - most), math.inf)
