"""What a proof reads: divisor lattices, projections, energies in units, the keep sets allowed.

Letters: n dimensions, T tensors, L = 3 levels, X axes of all tensors, K outer keep sets.

A tile is an *index vector* `[n]`: per dimension the position of its extent among the divisors of
the dimension. The *lattice* is all of them; its cells are numbered with `stride`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array, NestTables, prime_factors
from costmodel.compiled.by_reference import by_reference
from costmodel.exact.energy_units import EnergyUnits, energy_units
from costmodel.exact.restriction import check_names
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ConfigError

LEVELS = 3
DRAM, BUFFER, ELEMENT = 0, 1, 2

# Cells of the lattice beyond which the tables over it would not fit in a few gigabytes.
MOST_CELLS = 40_000_000

# Children of the shared buffer beyond which the proof's scratch memory would not: a word for each.
MOST_ELEMENTS = 2**26


@by_reference
class ProofTables(NamedTuple):
    """A map space as the compiled proof reads it.

    Divisors:
        sizes `[n]`; divisor_start `[n + 1]` into divisors, ascending per dimension; multiple_start
        into multiples: per divisor the positions (within its dimension) of the divisors that it
        divides, itself first; cover_start into covers: those that are a prime times it;
        stride `[n]` and cells of the lattice.

    Tensors, as in `NestTables`:
        relevant, axis_start, term_start, term_dimension, term_coefficient, axis_of,
        coefficient_of, sliding, output, output_words, macs.

    Axes of several terms:
        credit_start `[X]` into the credit tables, -1 for axes of one term; credit_cells `[X]`
        cells of the lattice of the axis's own dimensions; credit_stride, per term, its strides.

    Machine:
        mac_energy, energy `[L]`, half_hop (below the buffer) in units; bandwidth `[L, 2]` words per
        cycle read and written, inf without limit; limited 1 where any is finite; capacity `[L]`
        words (-1: unbounded); banks and bank_words `[L]` (0: unbanked); fanout; mesh `[2]`; orders
        `[n!, n]` of spatial loops, outermost first.

    Keep sets (bit t: tensor t is kept):
        inner_sets: those of the element buffers; outer_sets `[K]`: those of the shared buffer.
    """

    sizes: Array
    divisor_start: Array
    divisors: Array
    multiple_start: Array
    multiples: Array
    cover_start: Array
    covers: Array
    stride: Array
    cells: int
    relevant: Array
    axis_start: Array
    term_start: Array
    term_dimension: Array
    term_coefficient: Array
    axis_of: Array
    coefficient_of: Array
    sliding: Array
    output: int
    output_words: int
    macs: int
    credit_start: Array
    credit_cells: Array
    credit_stride: Array
    mac_energy: int
    energy: Array
    half_hop: int
    bandwidth: npt.NDArray[np.float64]
    limited: int
    capacity: Array
    banks: Array
    bank_words: Array
    fanout: int
    mesh: Array
    orders: npt.NDArray[np.int8]
    inner_sets: Array
    outer_sets: Array


def why_not(space: MapSpace) -> str | None:
    """Why the exact search cannot treat a map space, in one line; None if it can."""
    levels = space.accelerator.levels
    name = space.accelerator.name
    if len(levels) != LEVELS:
        return f"{name} has {len(levels)} memory levels; the exact search is for {LEVELS}."
    if any(space.workload.bits_by_tensor):
        return f"{space.workload.name} has tensors of bits; the exact search is for words."
    if levels[DRAM].fanout > 1 or levels[ELEMENT].fanout > 1:
        return f"{name} fans out elsewhere than below its second level; the exact search does not."
    if space.orders is not None:
        return (
            f"{name} has buffers side by side; the exact search for {LEVELS} levels has one order."
        )
    if space.constraints is not None:
        return f"the mapper has constraints on {name}; the exact search does not know them."
    further = space.accelerator.further_key
    if further is not None:
        return f"{name} has {further}; the exact search does not know it."
    if space.accelerator.overflow != "invalid":
        return f"{name} bypasses what overflows; the exact search needs overflow: invalid."
    if space.tables.machine.classed:
        return (
            f"{name} has a network with hops that tensors may pass on their way past a level; "
            "the exact search counts hops between levels that hold them."
        )
    if levels[BUFFER].fanout > MOST_ELEMENTS:
        return (
            f"{name} has {levels[BUFFER].fanout:.3g} elements below {levels[BUFFER].name}; "
            f"the exact search is for at most {MOST_ELEMENTS:.3g}."
        )
    cells = count_cells(space.workload.sizes.tolist())
    if cells > MOST_CELLS:
        return (
            f"{space.workload.name} has {cells:.3g} tiles per level; "
            f"the exact search holds tables of at most {MOST_CELLS:.3g}."
        )
    try:
        energy_units(space.workload, space.accelerator)
    except ConfigError as error:
        return str(error)
    return None


def build_proof_tables(
    space: MapSpace, keep: Mapping[str, Sequence[str]] | None = None
) -> tuple[ProofTables, EnergyUnits]:
    """Lays out a map space for the proof.

    Args:
        space: the map space.
        keep: the tensors that a level keeps, for levels where that is not searched.

    Raises:
        ConfigError: the exact search cannot treat it (`why_not` says why), or `keep` names what
            does not exist or cannot be chosen.
    """
    problem = why_not(space)
    if problem is not None:
        raise ConfigError(problem)
    units = energy_units(space.workload, space.accelerator)
    t = space.tables
    sizes: list[int] = t.sizes.tolist()
    levels = space.accelerator.levels
    tables = ProofTables(
        **lattice(sizes),
        **projections(t),
        output=t.output,
        output_words=t.output_words,
        macs=t.macs,
        **credit_layout(space),
        mac_energy=units.mac,
        energy=np.array(units.levels, dtype=np.int64),
        half_hop=units.half_hops[BUFFER],
        bandwidth=t.bandwidth,
        limited=int(np.isfinite(t.bandwidth).any()),
        capacity=t.capacity,
        banks=np.array([level.banks or 0 for level in levels], dtype=np.int64),
        bank_words=t.bank_words,
        fanout=levels[BUFFER].fanout,
        mesh=t.mesh[BUFFER],
        orders=t.orders,
        inner_sets=keep_sets(space, ELEMENT, keep or {}),
        outer_sets=keep_sets(space, BUFFER, keep or {}),
    )
    return tables, units


def keep_sets(space: MapSpace, level: int, keep: Mapping[str, Sequence[str]]) -> Array:
    """The sets of tensors that a level may keep, as bits.

    Args:
        space: the map space.
        level: BUFFER or ELEMENT.
        keep: the tensors that a level keeps, for levels where that is not searched.

    Raises:
        ConfigError: an unknown level or tensor, or a choice that the machine does not leave open.
    """
    check_names(space, keep)
    names, tensors = space.accelerator.level_names, space.workload.tensor_names
    everything = 2 ** len(tensors) - 1
    searched = space.accelerator.bypass == "searched"
    if names[level] in keep:
        chosen = sum(1 << tensors.index(tensor) for tensor in set(keep[names[level]]))
        if chosen != everything and not searched:
            raise ConfigError(
                f"keep.{names[level]}: {space.accelerator.name} keeps every tensor there; "
                "bypass: searched in its file leaves the choice open."
            )
        return np.array([chosen], dtype=np.int64)
    return np.arange(everything + 1) if searched else np.array([everything], dtype=np.int64)


def projections(tables: NestTables) -> dict[str, Any]:
    """The fields on sizes and on what of them indexes every axis, which all tables have alike."""
    names = (
        "sizes", "relevant", "axis_start", "term_start", "term_dimension", "term_coefficient",
        "axis_of", "coefficient_of", "sliding",
    )  # fmt: skip
    return {name: getattr(tables, name) for name in names}


def divisors_of(number: int) -> list[int]:
    """All divisors, ascending."""
    divisors = [1]
    for prime, group in itertools.groupby(prime_factors(number)):
        powers = [prime**exponent for exponent in range(len(list(group)) + 1)]
        divisors = [divisor * power for divisor in divisors for power in powers]
    return sorted(divisors)


def count_cells(sizes: list[int]) -> int:
    """Cells of the lattice of an operation's tiles."""
    return math.prod(len(divisors_of(size)) for size in sizes)


def lattice(sizes: list[int]) -> dict[str, Any]:
    """The fields of `ProofTables` on divisors."""
    return dict(_lattice(tuple(sizes)))


@lru_cache(maxsize=8)
def _lattice(sizes: tuple[int, ...]) -> dict[str, Any]:
    """Likewise: all orders of buffers side by side have the same ones."""
    divisors: list[int] = []
    multiples: list[int] = []
    covers: list[int] = []
    divisor_start, multiple_start, cover_start = [0], [0], [0]
    for size in sizes:
        own = divisors_of(size)
        primes = set(prime_factors(size))
        for i, low in enumerate(own):
            above = [j for j in range(i, len(own)) if own[j] % low == 0]
            multiples += above
            covers += [j for j in above if own[j] // low in primes]
            multiple_start.append(len(multiples))
            cover_start.append(len(covers))
        divisors += own
        divisor_start.append(len(divisors))
    counts = np.diff(divisor_start)
    stride = np.ones(len(sizes), dtype=np.int64)
    stride[:-1] = np.cumprod(counts[::-1])[::-1][1:]
    return {
        "divisor_start": np.array(divisor_start, dtype=np.int64),
        "divisors": np.array(divisors, dtype=np.int64),
        "multiple_start": np.array(multiple_start, dtype=np.int64),
        "multiples": np.array(multiples, dtype=np.int64),
        "cover_start": np.array(cover_start, dtype=np.int64),
        "covers": np.array(covers, dtype=np.int64),
        "stride": stride,
        "cells": int(counts.prod()),
    }


def credit_layout(space: MapSpace) -> dict[str, Any]:
    """Where the credit table of each axis of several terms lies: (1 + terms) x its own lattice."""
    t = space.tables
    axes = t.term_start.size - 1
    start = np.full(axes, -1, dtype=np.int64)
    cells = np.zeros(axes, dtype=np.int64)
    stride = np.zeros(t.term_dimension.size, dtype=np.int64)
    used = 0
    for axis in range(axes):
        terms = range(t.term_start[axis], t.term_start[axis + 1])
        if len(terms) < 2:
            continue
        count = 1
        for k in reversed(terms):
            stride[k] = count
            count *= len(divisors_of(int(t.sizes[t.term_dimension[k]])))
        start[axis], cells[axis] = used, count
        used += (1 + len(terms)) * count
    return {"credit_start": start, "credit_cells": cells, "credit_stride": stride}
