"""The best mappings that a proof knows, and what others must be below to be among them."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.costs import STATUS_OK, Objective
from costmodel.exact.objective import ENERGY, LATENCY, objective_kind
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import Mapping
from costmodel.space import Codes
from costmodel.tile_chains.descent import Ties
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.views import Sum, Together

SLACK = 1e-12
"""Energies are sums in floating point: what is closer than this share counts as equal."""

NOTHING = 1e-20
"""pJ that count as none: where mappings need no energy, those that may win the tie are below it."""

POWERS = {"energy": 0, "edp": 1, "ed2p": 2}
"""The power of cycles beside one of energy."""

NO_GAPS = np.zeros(0), np.zeros(0)

Tiling = tuple[object, ...]
"""What two mappings share that differ in the order of loops or the place on a mesh alone."""


def tiling_of(mapping: Mapping, groups: tuple[tuple[int, int], ...]) -> Tiling:
    """The tiling of a mapping: factors and kept tensors of every level.

    Buffers side by side without loops between them hold the same tiles in either order, and count
    as one tiling.

    Args:
        mapping: the mapping.
        groups: first level and end of every group of buffers side by side.
    """
    found: list[object] = []
    together: list[object] = []
    inside = {level for first, stop in groups for level in range(first, stop - 1)}
    for index, level in enumerate(mapping.levels):
        together.append((level.name, tuple(level.keep)))
        if index in inside and all(trips == 1 for trips in level.temporal.values()):
            continue
        loops = tuple(level.temporal.values()), tuple(level.spatial.values())
        found.append((tuple(sorted(together, key=repr)), loops))
        together = []
    return tuple(found)


class Target(NamedTuple):
    """What a mapping must be below to be among the best.

    energy: pJ at the cycles asked for; energy x (its cycles / those)^power is to be below it; most:
    the most cycles.
    """

    energy: float
    power: float
    most: float


class _Entry(NamedTuple):
    order: tuple[float, float, float]
    energy: float
    cycles: float
    code: Codes
    tiling: Tiling


class Known:
    """The best mappings known, of as many tilings as are asked for.

    Attributes:
        objective: what is minimised.
    """

    def __init__(self, space: MapSpace, objective: Objective, most: int = 1) -> None:
        """Knows none.

        Args:
            space: the map space.
            objective: what is minimised.
            most: how many tilings.
        """
        self.objective: Objective = objective
        self._space, self._kind, self._most = space, objective_kind(objective), most
        self._entries: list[_Entry] = []
        self._below: tuple[float, float] | None = None
        self._to_beat: tuple[float, float] | None = None
        # Whether cycles may be more than those of the MACs, which sets of mappings are bounded by.
        self._waits = bool(space.tables.machine.limited)
        orders = space.orders
        self._groups = () if orders is None else tuple((g.first, g.stop) for g in orders.groups)

    @property
    def power(self) -> int:
        """The power of cycles beside one of energy, 0 where bounds of energy stay what they are."""
        return POWERS.get(self.objective, 0)

    @property
    def gaps(self) -> tuple[FloatArray, FloatArray]:
        """`[G]` most energy and most cycles of the gaps that a front leaves: this is none."""
        return NO_GAPS

    @property
    def best(self) -> tuple[float, float] | None:
        """Energy (pJ) and cycles of the best one; None before the first."""
        return self._entries[0][1:3] if self._entries else None

    @property
    def full(self) -> bool:
        """Whether others must be better than something."""
        return self.to_beat is not None

    @property
    def to_beat(self) -> tuple[float, float] | None:
        """Energy (pJ) and cycles that others must beat; None where nothing is known of that."""
        return self._to_beat

    def start_below(self, limit: tuple[float, float]) -> None:
        """Forgets everything, and takes what is below an energy (pJ) and cycles alone."""
        self._entries, self._below = [], limit
        self._to_beat = limit

    def order(self, energy: float, cycles: float) -> tuple[float, float, float]:
        """Sorts bounds: the objective, then what breaks ties."""
        if self._kind == ENERGY:
            return energy, cycles, 0.0
        if self._kind == LATENCY:
            return cycles, energy, 0.0
        power = 1 if self.objective == "edp" else 2
        return energy * float(cycles) ** power, energy, cycles

    def primary(self, energy: FloatArray, cycles: Array | FloatArray) -> FloatArray:
        """What sorts bounds `[B]` first, as `order` does: then the lesser energy counts."""
        if self._kind in (ENERGY, LATENCY):
            return energy if self._kind == ENERGY else cycles.astype(np.float64)
        return np.asarray(
            energy * cycles.astype(np.float64) ** (1 if self.objective == "edp" else 2)
        )

    def first(self, energy: FloatArray, cycles: Array) -> int:
        """Which of some bounds `[B]` stands first, as `order` does."""
        return int(np.lexsort((cycles, energy, self.primary(energy, cycles)))[0])

    def limit(self, cycles: float) -> float:
        """The energy below which a mapping of so many cycles at least can be among the best.

        What is equal to within SLACK can be where it may win the tie: with less energy, and so more
        cycles, or of equal energies with fewer cycles.
        """
        worst = self._to_beat
        if worst is None:
            return math.inf
        energy, its = worst
        if self._kind == LATENCY:
            return math.inf if cycles < its else energy * (1 - SLACK) if cycles == its else 0.0
        if self._kind == ENERGY:
            return max(energy * (1 + SLACK), NOTHING) if cycles < its else energy * (1 - SLACK)
        if energy == 0:
            return NOTHING if cycles < its else 0.0
        tied = self._waits or cycles > its
        return float(self._equal(cycles) * (1 + SLACK if tied else 1 - SLACK))

    def _equal(self, cycles: Any) -> Any:
        """The energy at which mappings of so many cycles, or arrays of them, equal the worst."""
        assert self._to_beat is not None  # whoever calls has looked
        energy, its = self._to_beat
        share = its / cycles
        return energy * (share if self.objective == "edp" else share * share)

    def limits(self, cycles: Array | FloatArray) -> FloatArray:
        """`limit` for cycles `[...]`, rounded as that of each."""
        if self._to_beat is None:
            return np.full(cycles.shape, math.inf)
        energy, its = self._to_beat
        if self._kind == LATENCY:
            least = np.where(cycles == its, energy * (1 - SLACK), 0.0)
            return np.where(cycles < its, math.inf, least)
        if self._kind == ENERGY or energy == 0:
            faster = max(energy * (1 + SLACK), NOTHING)
            return np.where(cycles < its, faster, energy * (1 - SLACK))
        tied = self._waits | (cycles > its)
        return np.asarray(self._equal(cycles) * np.where(tied, 1 + SLACK, 1 - SLACK))

    def target(self, cycles: float) -> Target:
        """What mappings of so many cycles at least must be below, however many more they take."""
        worst, limit = self.to_beat, self.limit(cycles)
        if self._kind == LATENCY:
            return Target(limit, 0.0, math.inf if worst is None else worst[1])
        return Target(limit, float(POWERS[self.objective]), math.inf)

    def most_cycles(self, energy: float, cycles: float) -> float:
        """The cycles below which a mapping that needs such energy can be among the best.

        Args:
            energy: that it needs at least, pJ.
            cycles: that it takes at least.
        """
        if self._kind in (ENERGY, LATENCY) or energy <= 0:
            return math.inf
        if self._to_beat is None:
            return math.inf
        limit = self._equal(cycles) * (1 + SLACK)
        return float(cycles * (limit / energy) ** (1 / self.power))

    def most_sum(self, energy: float, cycles: float, rate: float) -> float:
        """The energy + rate x cycles below which a mapping can be among the best.

        Args:
            energy: that it needs at least, pJ.
            cycles: that it takes at least.
            rate: pJ per cycle.
        """
        slowest = self.most_cycles(energy, cycles)
        # The sum is largest at an end of the curve of equal objectives.
        return max(energy + rate * slowest, self.limit(cycles) + rate * cycles)

    def rate_for(self, outcomes: Sequence[tuple[float, int]]) -> float:
        """The rate at which energy and cycles together rule most out; 0: none does.

        Args:
            outcomes: energy, pJ, and cycles that the mappings of sets need at least.
        """
        if self._kind in (ENERGY, LATENCY):
            return 0.0
        least = min(outcomes, key=lambda outcome: self.order(*outcome))
        return Together.of(self.objective, *least).rate

    def together(self, rate: float) -> Sum:
        """What energy and cycles, added at a rate, say of mappings that could be among the best."""
        return Together(rate, self.power)

    def needs_cycles(self, cycles: int) -> bool:
        """Whether only more cycles rule a set out that takes so many at least: not by itself."""
        return False

    def too_slow(self, energies: FloatArray, cycles: FloatArray) -> npt.NDArray[np.bool_]:
        """Which sets of mappings cannot be among the best for their cycles.

        Args:
            energies: `[B]` that they need at least, pJ.
            cycles: `[B]` that they take at least.
        """
        worst = self.to_beat
        if worst is None or self._kind != LATENCY:
            return np.zeros(cycles.shape, np.bool_)
        slow: npt.NDArray[np.bool_] = cycles > worst[1]
        return slow

    def lose_ties(
        self, energies: FloatArray | float, slow: Array | FloatArray | float,
        least: FloatArray | float, cycles: Array | FloatArray | float,
    ) -> npt.NDArray[np.bool_]:  # fmt: skip
        """Which sets of mappings equal the worst of the best at most, and are no better otherwise.

        Args:
            energies: `[B]` that they need at least, pJ.
            slow: `[B]` cycles that they take at least.
            least: `[B]` energy at `cycles` that they need at least.
            cycles: that they take at least.
        """
        if self._to_beat is None or self._kind == LATENCY:
            return np.zeros(np.shape(least), np.bool_)
        energy, its = self._to_beat
        if self._kind == ENERGY:
            return np.asarray((least >= energy * (1 - SLACK)) & (slow >= its))
        tied = least >= self._equal(cycles) * (1 - SLACK)
        tied &= energies >= energy * (1 - SLACK)
        # Equal products of equal energies have equal cycles, unless the energy is none.
        return np.asarray(tied if energy else tied & (slow >= its))

    def ties(self, cycles: float) -> Ties | None:
        """What `lose_ties` and `too_slow` say, as numbers; None where they are no single ones.

        Args:
            cycles: that all mappings take at least.
        """
        if self._to_beat is None:
            return Ties(math.inf, 0.0, 0.0, math.inf)
        energy, its = self._to_beat
        if self._kind == LATENCY:
            return Ties(math.inf, 0.0, 0.0, its)
        if self._kind == ENERGY:
            return Ties(energy * (1 - SLACK), -math.inf, its, math.inf)
        equal = float(self._equal(cycles))
        slow = -math.inf if energy else its
        return Ties(equal * (1 - SLACK), energy * (1 - SLACK), slow, math.inf)

    def passes_by(self, energies: FloatArray, cycles: Array) -> npt.NDArray[np.bool_]:
        """Which sets of mappings cannot win though others that need more of the objective could.

        Args:
            energies: `[B]` that they need at least, pJ.
            cycles: `[B]` that they take at least.
        """
        return np.zeros(cycles.shape, np.bool_)

    def beats(self, energy: float, cycles: float, plain: float = 0.0) -> bool:
        """Whether a mapping with such bounds could be among the best.

        Args:
            energy: that at such cycles it needs at least, pJ.
            cycles: that it takes at least.
            plain: that it needs at least, pJ, whatever cycles it takes.
        """
        return energy < self.limit(cycles) and not self.lose_ties(plain, cycles, energy, cycles)

    def settles(self, energy: float, cycles: float) -> bool:
        """Whether nothing with bounds from these on, in `order`, could be among the best."""
        if self.to_beat is None or self.beats(energy, cycles):
            return False
        least = self.order(*self.to_beat)[0] * (1 + 2 * SLACK)
        return self._kind == LATENCY or self.order(energy, cycles)[0] > least

    def could_beat(
        self, energies: FloatArray, cycles: Array | FloatArray, plain: FloatArray | float = 0.0
    ) -> npt.NDArray[np.bool_]:
        """Which mappings with such bounds `[...]` could be among the best, as `beats` says."""
        lost = self.lose_ties(plain, cycles, energies, cycles)
        return np.asarray((energies < self.limits(cycles)) & ~lost)

    def take(self, codes: Codes) -> None:
        """Keeps of mappings `[B, D]` those that are among the best."""
        costs = LoopNestModel().evaluate(self._space, codes)
        could = costs.status == STATUS_OK
        if self.to_beat is not None:
            # Powers of arrays are rounded otherwise than those of numbers.
            most = self.order(*self.to_beat)[0] * (1 + SLACK)
            could &= self.primary(costs.energy_pj, costs.latency_cycles) <= most
            if self._kind == LATENCY:
                # Whole numbers: most of what is scored late is as fast as the worst, and no better.
                energy, its = self.to_beat
                could &= (costs.latency_cycles < its) | (costs.energy_pj < energy)
        for b in np.flatnonzero(could):
            energy, cycles = float(costs.energy_pj[b]), float(costs.latency_cycles[b])
            order, worst = self._snapped(energy, cycles), self.to_beat
            if worst is not None and order >= self._snapped(*worst):
                continue
            self._insert(order, energy, cycles, codes[b].copy())

    def _snapped(self, energy: float, cycles: float) -> tuple[float, float, float]:
        """As `order`; an objective that equals a known one, to within SLACK, is taken for it."""
        first, *others = self.order(energy, cycles)
        known = [entry.order[0] for entry in self._entries]
        if self._below is not None:
            known.append(self.order(*self._below)[0])
        for its in known:
            if abs(first - its) <= SLACK * its < math.inf:
                return its, others[0], others[1]
        return first, others[0], others[1]

    def _insert(
        self, order: tuple[float, float, float], energy: float, cycles: float, code: Codes
    ) -> None:
        tiling: Tiling = ()
        if self._most > 1:
            tiling = tiling_of(self._space.describe(code), self._groups)
            same = [i for i, entry in enumerate(self._entries) if entry.tiling == tiling]
            if same and self._entries[same[0]].order <= order:
                return
            for i in same:
                del self._entries[i]
        entry = _Entry(order, energy, cycles, code, tiling)
        bisect.insort(self._entries, entry, key=lambda one: one.order)
        del self._entries[self._most :]
        self._to_beat = self._entries[-1][1:3] if len(self._entries) == self._most else self._below

    def codes(self, most: int) -> Codes:
        """`[m, D]` the best mappings, best first, at most so many, one per tiling."""
        found = [entry.code for entry in self._entries[:most]]
        return np.array(found, np.int32).reshape(len(found), self._space.cardinality.size)
