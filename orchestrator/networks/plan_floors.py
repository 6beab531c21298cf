"""What every plan of a cascade takes at least, before anything is proven of its parts.

In a pass an operator does its work, and each word of its tensors passes the outermost level once,
or the shared buffer where it lies there. Numbers are floating-point ones, rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.cascades.cascade import Cascade
from costmodel.cascades.plans import Plan
from costmodel.exact_any.known import SLACK
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.bounds import floor
from costmodel.machines.levels import Level
from costmodel.machines.resident import shared_buffer
from costmodel.networks.moves import READ, UPDATE
from costmodel.problems.affine import Workload

Weight = Fraction | None

DOWN = 1 - 2.0**-40
"""Sums of so few terms are off by less."""


class _Facts(NamedTuple):
    """A part: its work, the words of its tensors by their roles, and what all lies inside, pJ."""

    macs: int
    words: tuple[tuple[str, int], ...]
    inside: float


class PlanFloors:
    """Lower bounds of all plans of a cascade."""

    def __init__(self, cascade: Cascade, machine: Accelerator, plans: Sequence[Plan]) -> None:
        """Counts them.

        Args:
            cascade: the layers.
            machine: what they run on.
            plans: how they can run.
        """
        self._cascade, self._machine = cascade, machine
        self._buffer = shared_buffer(machine)
        self._facts: dict[tuple[int, ...], list[_Facts]] = {}
        self._known: dict[tuple[object, ...], float] = {}
        sums = [self._sums(plan) for plan in plans]
        self.energies: npt.NDArray[np.float64] = np.array([energy for energy, _ in sums])
        self.cycles: npt.NDArray[np.float64] = np.array([cycles for _, cycles in sums])

    def values(self, weight: Weight) -> npt.NDArray[np.float64]:
        """`[P]` what the weighted sum of each plan is at least."""
        if weight is None:
            return self.cycles * DOWN
        return (self.energies + float(weight) * self.cycles) * DOWN

    def least(self, weight: Weight) -> Fraction:
        """What that of all plans is at least."""
        return Fraction(float(self.values(weight).min()))

    def once(self, side: int, factors: tuple[int, ...], roles: tuple[str, ...]) -> float:
        """Energy of the outermost level where a part's other tensors pass it once, pJ."""
        key = ("once", side, factors, roles)
        if key not in self._known:
            words = [one for one in self._of(side, factors).words if one[0] not in roles]
            self._known[key] = _charged(self._machine.levels[0], words)
        return self._known[key]

    def fewest(self, side: int, factors: tuple[int, ...], roles: tuple[str, ...]) -> int:
        """Cycles that a part takes at least: its MACs', and those of the outermost bandwidth."""
        key = ("fewest", side, factors, roles)
        if key not in self._known:
            facts, level = self._of(side, factors), self._machine.levels[0]
            cycles = facts.macs // self._machine.processing_elements
            words = [0, 0]
            for role, many in facts.words:
                if role not in roles:
                    words[role == "output"] += many
            for many, rate in (
                (words[0], level.read_bandwidth),
                (words[1], level.write_bandwidth),
                (sum(words), level.bandwidth),
            ):
                if rate is not None:
                    cycles = max(cycles, math.floor(many / Fraction(repr(float(rate)))))
            self._known[key] = cycles
        return int(self._known[key])

    def _sums(self, plan: Plan) -> tuple[float, float]:
        """Energy and cycles of a plan at least."""
        energy, cycles = 0.0, 0
        for side in range(len(plan.words)):
            roles = plan.roles(side)
            facts = self._of(side, plan.factors)
            energy += facts.macs * self._machine.mac_energy_pj * (1 - SLACK) + facts.inside
            energy += self.once(side, plan.factors, roles)
            inside = [one for one in facts.words if one[0] in roles]
            energy += _charged(self._buffer, inside)
            cycles += self.fewest(side, plan.factors, roles)
        return (
            plan.times * energy + float(plan.moves.energy),
            float(plan.times * cycles + plan.moves.cycles),
        )

    def _of(self, side: int, factors: tuple[int, ...]) -> _Facts:
        if factors not in self._facts:
            self._facts[factors] = [
                _Facts(
                    part.macs,
                    tuple(
                        (role, self.words_of(part, index))
                        for index, role in enumerate(part.roles.values())
                    ),
                    self._inside(part),
                )
                for part in self._cascade.parts(factors)
            ]
        return self._facts[factors][side]

    def _inside(self, part: Workload) -> float:
        """Energy of the levels inside the buffer, pJ, less what rounding does."""
        place = self._machine.levels.index(self._buffer) + 1
        return float(floor(part, self._machine).level_energy_pj[place:].sum()) * (1 - SLACK)

    @staticmethod
    def words_of(work: Workload, index: int) -> int:
        """Words of a tensor that are read at least: of an axis that slides the longer of two."""
        axes = work.tensors[index].axes
        return math.prod(max(work.dimensions[name] for name, _ in axis.terms) for axis in axes)


def _charged(level: Level, words: Sequence[tuple[str, int]]) -> float:
    """Energy of a level where words of inputs are read once, those of outputs updated once, pJ."""
    prices = level.energies
    return sum(
        -(-many // level.block_words) * prices[UPDATE if role == "output" else READ]
        for role, many in words
    )
