"""The least energy + weight x cycles of a map space: a supporting line of its front, proven.

A cycle's weight is leakage of the outermost level, of which there is one instance: the least energy
of that machine is the least weighted sum of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from costmodel.costs import Objective
from costmodel.exact.face import AnyProof
from costmodel.exact_any.choice import FIRST_MAPPINGS, make_prover
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ConfigError

STEP = Fraction(1, 2**20)
"""Weights that are whole multiples of it are not rounded, pJ per cycle."""


class Point(NamedTuple):
    """A mapping: its energy, pJ, its cycles and its code `[D]`."""

    energy: Fraction
    cycles: int
    code: Codes


class Line(NamedTuple):
    """What is certain of a weighted sum: energy + weight x cycles is at least `bound`, pJ.

    point is the best mapping that the proof found, None before the first; without a weight the sum
    is of cycles alone.
    """

    weight: Fraction | None
    bound: Fraction
    point: Point | None
    proven: bool

    def sum_of(self, point: Point) -> Fraction:
        """The weighted sum of a mapping."""
        if self.weight is None:
            return Fraction(point.cycles)
        return point.energy + self.weight * point.cycles


class LeastSum:
    """A proof of the least energy + weight x cycles that can be stopped, and goes on."""

    def __init__(
        self,
        space: MapSpace,
        weight: Fraction | None,
        known: Sequence[Point] = (),
    ) -> None:
        """Begins nothing yet.

        Args:
            space: a map space that can be proven.
            weight: pJ per cycle, at least 0; None: the fewest cycles.
            known: mappings of the space that nothing worse is looked for than.

        Raises:
            ConfigError: the space cannot be proven.
        """
        self._space, self._weight = space, weight
        self._prover = _prover(space, weight)
        first = space.sample(np.random.default_rng(0), FIRST_MAPPINGS, feasible=True)
        self._prover.offer(np.concatenate([*(point.code[None] for point in known), first]))

    def run(self, seconds: float | None = None) -> Line:
        """Goes on, and says what is certain.

        Args:
            seconds: the most that it may take; None: however long.

        Raises:
            ConfigError: the space has no feasible mapping.
        """
        prover, weight = self._prover, self._weight
        prover.run(seconds)
        found = prover.codes(1)
        point = point_of(self._space, found[0]) if len(found) else None
        energy, cycles = prover.lower_outcome
        # The weight is in the energy.
        bound = Fraction(cycles) if weight is None else energy * prover.unit_pj
        line = Line(weight, bound, point, prover.finished)
        if prover.finished and point is not None:
            return line._replace(bound=line.sum_of(point))
        return line


def least_sum(
    space: MapSpace,
    weight: Fraction | None,
    *,
    known: Sequence[Point] = (),
    seconds: float | None = None,
) -> Line:
    """Proves the least energy + weight x cycles, or gets as far as the time allows.

    The arguments are those of `LeastSum`, the errors too.
    """
    return LeastSum(space, weight, known).run(seconds)


def point_of(space: MapSpace, code: Codes) -> Point:
    """The energy and the cycles of a mapping `[D]`, exact to a unit of the proof.

    Raises:
        ConfigError: it is not feasible.
    """
    prover = make_prover(space, build=False)
    outcome = prover.outcomes(code[None])[0]
    if outcome is None:
        raise ConfigError("its mapping is not feasible on this machine.")
    return Point(outcome[0] * prover.unit_pj, outcome[1], code)


def _prover(space: MapSpace, weight: Fraction | None) -> AnyProof:
    """The prover of a sum."""
    objective: Objective = "latency" if weight is None else "energy"
    if weight:
        machine = space.accelerator
        outer = machine.levels[0]
        leaking = outer.model_copy(update={"leakage_pj": outer.leakage_pj + float(weight)})
        machine = machine.model_copy(update={"levels": (leaking, *machine.levels[1:])})
        space = MapSpace(space.workload, machine)
    return make_prover(space, objective=objective, build=False)
