"""Exact comparison of objectives in compiled code.

An outcome is an energy in whole units and a number of whole cycles, both below 2^62. Objectives
are compared as whole numbers of up to 186 bits, so ties are ties and "proven" has no tolerance.
"""

from __future__ import annotations

import itertools

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import lean, part
from costmodel.costs import FloatArray, Objective
from mapspace.errors import ConfigError, ContractError

EDP, ENERGY, LATENCY, ED2P = range(4)
KINDS: dict[str, int] = {"edp": EDP, "energy": ENERGY, "latency": LATENCY, "ed2p": ED2P}

WEIGHTED = 4
"""From here on a kind is energy + weight x cycles, the weight in shares of SCALE of a unit."""

SCALE = 2**16

MOST_WEIGHT = 2**60
"""Weights are below it, so that a kind is a whole number that compiled code holds."""

INFINITE = 2**62
"""Stands for the energy of what is not allowed; larger than any energy."""

_DIGIT = 31
_MASK = 2**31 - 1


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


def weighted_kind(weight: int) -> int:
    """The kind of energy + weight x cycles.

    Args:
        weight: in shares of SCALE of a unit of energy.

    Raises:
        ContractError: it is negative or not below MOST_WEIGHT.
    """
    if not 0 <= weight < MOST_WEIGHT:
        raise ContractError(f"Expected a weight from 0 to below 2^60, got {weight}.")
    return WEIGHTED + weight


def value(kind: int, energy: int, cycles: int) -> int:
    """The objective as a Python integer (units, cycles)."""
    if kind == ENERGY:
        return energy
    if kind == LATENCY:
        return cycles
    if kind >= WEIGHTED:
        return energy * SCALE + (kind - WEIGHTED) * cycles
    return energy * cycles if kind == EDP else energy * cycles * cycles


def rank(kind: int, energy: int, cycles: int) -> tuple[int, int, int]:
    """Orders outcomes from best to worst as `is_below` does: the objective, then what breaks ties.

    Less energy breaks the ties of all objectives but energy, whose ties go to fewer cycles.
    """
    return value(kind, energy, cycles), energy, cycles


def in_exact_order(
    kind: int, order: Array, floors: FloatArray, energy: Array, cycles: Array
) -> Array:
    """Repairs an order by rounded floors where rounding may have swapped neighbours.

    Args:
        kind: the objective.
        order: `[n]` outcomes sorted by their floors.
        floors: `[n]` objectives of the outcomes, rounded.
        energy: `[n]` their energies in units.
        cycles: `[n]` their cycles.
    """
    ranked = floors[order]
    close = ranked[1:] <= ranked[:-1] * (1 + 1e-14)
    differs = (energy[order][1:] != energy[order][:-1]) | (cycles[order][1:] != cycles[order][:-1])
    if not (close & differs).any():
        return order
    edges = [0, *(np.flatnonzero(~close) + 1).tolist(), len(order)]
    for begin, end in itertools.pairwise(edges):
        order[begin:end] = sorted(
            order[begin:end].tolist(),
            key=lambda unit: rank(kind, int(energy[unit]), int(cycles[unit])),
        )
    return order


@part
def _product(
    a: int,
    b: int,
    c: int,
) -> tuple[int, int, int, int, int, int]:
    """A * b * c for factors below 2^62, as digits to base 2^31, highest first."""
    a0, a1, b0, b1, c0, c1 = a & _MASK, a >> _DIGIT, b & _MASK, b >> _DIGIT, c & _MASK, c >> _DIGIT
    # Every sum stays below 2^63: two products of digits and a carry.
    x = a0 * b0
    p0 = x & _MASK
    x = a0 * b1 + (x >> _DIGIT)
    y = a1 * b0 + (x & _MASK)
    p1 = y & _MASK
    x = a1 * b1 + (x >> _DIGIT) + (y >> _DIGIT)
    p2 = x & _MASK
    p3 = x >> _DIGIT
    x = p0 * c0
    q0 = x & _MASK
    x = p1 * c0 + (x >> _DIGIT)
    y = p0 * c1 + (x & _MASK)
    q1 = y & _MASK
    x = p2 * c0 + (x >> _DIGIT)
    z = p1 * c1 + (x & _MASK) + (y >> _DIGIT)
    q2 = z & _MASK
    x = p3 * c0 + (x >> _DIGIT)
    y = p2 * c1 + (x & _MASK) + (z >> _DIGIT)
    q3 = y & _MASK
    x = p3 * c1 + (x >> _DIGIT) + (y >> _DIGIT)
    return x >> _DIGIT, x & _MASK, q3, q2, q1, q0


@part
def _is_lighter(
    weight: int,
    energy: int,
    cycles: int,
    limit_energy: int,
    limit_cycles: int,
) -> bool:
    """Whether energy + weight x cycles is below a limit's, exactly; less energy breaks ties."""
    if energy < limit_energy and cycles <= limit_cycles:
        return True
    if energy >= limit_energy and cycles >= limit_cycles:
        return False
    # One of the two is less, the other more: what is saved against what is spent.
    saves_energy = energy < limit_energy
    energies = limit_energy - energy if saves_energy else energy - limit_energy
    times = cycles - limit_cycles if saves_energy else limit_cycles - cycles
    of_energy = _product(energies, SCALE, 1)
    of_time = _product(weight, times, 1)
    if of_energy == of_time:
        return saves_energy
    return of_energy > of_time if saves_energy else of_time > of_energy


@lean
def is_below(
    kind: int,
    energy: int,
    cycles: int,
    limit_energy: int,
    limit_cycles: int,
) -> bool:
    """Whether an outcome beats a limit: a smaller objective, exactly, or an equal one and less.

    Energy breaks ties and latency those of energy, so that the best mapping for one is not
    wasteful in the other. What is at least as large in both costs never beats: bounds may prune.
    """
    if kind == ENERGY:
        return energy < limit_energy or (energy == limit_energy and cycles < limit_cycles)
    if kind == LATENCY:
        return cycles < limit_cycles or (cycles == limit_cycles and energy < limit_energy)
    if kind >= WEIGHTED:
        return _is_lighter(kind - WEIGHTED, energy, cycles, limit_energy, limit_cycles)
    # Exact arithmetic is needed only where rounding could decide.
    ours = float(energy) * float(cycles)
    its = float(limit_energy) * float(limit_cycles)
    if kind == ED2P:
        ours *= cycles
        its *= limit_cycles
    if ours < its * (1 - 1e-14):
        return True
    if ours > its * (1 + 1e-14):
        return False
    third, its_third = (cycles, limit_cycles) if kind == ED2P else (1, 1)
    product = _product(energy, cycles, third)
    its_product = _product(limit_energy, limit_cycles, its_third)
    if product == its_product:
        return energy < limit_energy or (energy == limit_energy and cycles < limit_cycles)
    return product < its_product


@part
def energy_threshold(
    kind: int,
    cycles: int,
    limit_energy: int,
    limit_cycles: int,
) -> int:
    """The least energy that does not beat a limit at so many cycles: prune what is not below it."""
    low, high = 0, INFINITE
    while low < high:
        middle = (low + high) >> 1
        if is_below(kind, middle, cycles, limit_energy, limit_cycles):
            low = middle + 1
        else:
            high = middle
    return low
