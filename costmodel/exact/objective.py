"""Objectives of outcomes, as whole numbers."""

from __future__ import annotations

from costmodel.costs import Objective
from mapspace.errors import ConfigError

EDP, ENERGY, LATENCY, ED2P = range(4)
KINDS: dict[str, int] = {"edp": EDP, "energy": ENERGY, "latency": LATENCY, "ed2p": ED2P}

INFINITE = 2**62
"""Stands for the energy of what is not allowed; larger than any energy."""

Outcome = tuple[int, int]
"""Energy in whole units and cycles of a mapping, or of a bound, both below 2^62."""


def objective_kind(objective: Objective | str) -> int:
    """The number of an objective in compiled code.

    Raises:
        ConfigError: it is none that the proof can treat.
    """
    if objective not in KINDS:
        raise ConfigError(
            "The exact search needs an objective that never falls when energy or latency rises: "
            f"{', '.join(KINDS)}; got {objective!r}."
        )
    return KINDS[objective]


def value(kind: int, energy: int, cycles: int) -> int:
    """The objective as a Python integer (units, cycles)."""
    if kind == ENERGY:
        return energy
    if kind == LATENCY:
        return cycles
    return energy * cycles if kind == EDP else energy * cycles * cycles


def rank(kind: int, energy: int, cycles: int) -> tuple[int, int, int]:
    """Orders outcomes from best to worst: by the objective, then by what breaks ties.

    Less energy breaks the ties of all objectives but energy, whose ties go to fewer cycles.
    """
    return value(kind, energy, cycles), energy, cycles
