"""What proofs of some machines say of all the others of a grid.

A machine that is at least as good in every figure has an optimum that is at most as high. So the
highest of the better machines' bounds holds for a machine, and the least of the worse machines'
mappings is one that it has at the most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from costmodel.costs import Objective
from orchestrator.design.machine_grid import Ranks
from orchestrator.sweep.proofs import Proof

# Sums and roots of floating-point numbers are off by less than this share.
ROUNDING = 1e-12


class Known:
    """What is known of one layer, by the machines that were proven."""

    def __init__(self, objective: Objective) -> None:
        """Nothing yet."""
        self._objective = objective
        self._ranks: list[Ranks] = []
        self._bounds: list[tuple[float, float]] = []
        # The same as arrays, made when they are next asked for.
        self._table = np.empty((0, 0), np.int64)
        self._values = np.empty((0, 2))

    def add(self, ranks: Ranks, proof: Proof) -> None:
        """Takes a machine's proof.

        Args:
            ranks: `[figures]` of the machine.
            proof: what became of it.
        """
        self._ranks.append(ranks)
        self._bounds.append(bounds_of(proof, self._objective))

    def between(self, ranks: Ranks) -> tuple[float, float]:
        """Between what the optimum of a machine lies: 0 and infinity where nothing is known."""
        if not self._ranks:
            return 0.0, math.inf
        if len(self._table) < len(self._ranks):
            self._table, self._values = np.array(self._ranks), np.array(self._bounds)
        better = (self._table >= ranks).all(axis=1)
        worse = (self._table <= ranks).all(axis=1)
        return (
            float(self._values[better, 0].max(initial=0.0)),
            float(self._values[worse, 1].min(initial=math.inf)),
        )


def bounds_of(proof: Proof, objective: Objective) -> tuple[float, float]:
    """What a proof says: no mapping's objective is less than the first, one has the second."""
    from costmodel.costs import objective_of

    if proof.status == "infeasible":
        return math.inf, math.inf
    value = math.inf
    if proof.energy_pj is not None and proof.latency_cycles is not None:
        value = float(objective_of(objective, proof.energy_pj, proof.latency_cycles))
    if proof.status == "proven":
        return value, value
    return proof.lower_bound or 0.0, value


def least_total(bounds: Sequence[float], counts: Sequence[int], objective: Objective) -> float:
    """What the objective of all layers together is at least, whatever mapping each of them gets.

    Energies and cycles add up, each layer as often as it occurs. For their products it is
    Hoelder's inequality: `sum(E) * sum(D) >= sum(sqrt(E * D))**2`, and with the square of the
    cycles the same with third roots.

    Args:
        bounds: of each layer's objective, pJ and cycles.
        counts: how often each occurs.
        objective: which.
    """
    power = {"energy": 1, "latency": 1, "edp": 2, "ed2p": 3}[objective]
    total = sum(count * bound ** (1 / power) for bound, count in zip(bounds, counts, strict=True))
    return float(total**power) * (1 - ROUNDING)
