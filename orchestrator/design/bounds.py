"""What proofs of some machines say of all the others of a grid.

A machine that is at least as good in every figure has an optimum that is at most as high. So the
highest of the better machines' bounds holds for a machine, and the least of the worse machines'
mappings is one that it has at the most.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from costmodel.costs import FloatArray
from orchestrator.design.aims import ROUNDING, Aim
from orchestrator.design.machine_grid import Ranks
from orchestrator.sweep.proofs import Proof


class Known:
    """What is known of one layer, by the machines that were proven."""

    def __init__(self, aims: Sequence[Aim]) -> None:
        """Nothing yet.

        Args:
            aims: what is proven of it.
        """
        self._aims = tuple(aims)
        self._ranks: list[Ranks] = []
        self._bounds: list[list[float]] = []
        self._points: list[tuple[float, float]] = []
        # The same as arrays, made when they are next asked for.
        self._arrays = np.empty((0, 0), np.int64), np.empty((0, 0)), np.empty((0, 2))

    def add(self, ranks: Ranks, aim: int, proof: Proof, clock_ghz: float) -> None:
        """Takes a machine's proof.

        Args:
            ranks: `[figures]` of the machine.
            aim: of what the proof is.
            proof: what became of it.
            clock_ghz: of the machine.
        """
        bounds = [0.0] * len(self._aims)
        bounds[aim] = self._aims[aim].bounds(proof, clock_ghz)[0]
        if bounds[aim] == math.inf:
            bounds = [math.inf] * len(self._aims)
        self._ranks.append(ranks)
        self._bounds.append(bounds)
        point = proof.energy_pj, proof.latency_cycles
        energy, cycles = (math.inf if one is None else float(one) for one in point)
        self._points.append((energy, cycles))

    def between(self, ranks: Ranks, aim: int, clock_ghz: float) -> tuple[float, float]:
        """Between what the least of a machine lies: 0 and infinity where nothing is known."""
        if not self._ranks:
            return 0.0, math.inf
        if len(self._arrays[0]) < len(self._ranks):
            self._arrays = np.array(self._ranks), np.array(self._bounds), np.array(self._points)
        table, bounds, points = self._arrays
        better = (table >= ranks).all(axis=1)
        worse = (table <= ranks).all(axis=1)
        energy, cycles = points[worse].T
        most = self._aims[aim].value(energy, cycles, clock_ghz).min(initial=math.inf)
        return self._least(bounds[better].max(axis=0, initial=0.0), aim), float(most)

    def _least(self, bounds: FloatArray, aim: int) -> float:
        """The highest bound on one aim by those on all.

        The least energy + rate x time is concave in the rate: it is not below the straight line
        between two rates, nor does it rise by less than the least time beyond the highest.
        """
        own, rate = float(bounds[aim]), float(self._aims[aim].rate)
        if not rate:
            return own
        told = [
            (float(one.rate), float(bound))
            for one, bound in zip(self._aims, bounds, strict=True)
            if one.objective == "energy"
        ]
        times = [
            float(bound)
            for one, bound in zip(self._aims, bounds, strict=True)
            if one.objective == "latency"
        ]
        below = [one for one in told if one[0] < rate]
        above = [one for one in told if one[0] > rate]
        found = [least + (rate - other) * time for (other, least) in below for time in times]
        found += [
            least + (most - least) * (rate - other) / (higher - other)
            for (other, least), (higher, most) in itertools.product(below, above)
        ]
        return max(own, *((1 - ROUNDING) * bound for bound in found if not math.isnan(bound)), 0.0)
