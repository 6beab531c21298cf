"""What traffic costs: the model's energy and cycles as linear forms in the words that enter tiles.

For a tensor, *inner* words enter the element buffers (per instance), *outer* words the shared
buffer. Which of them count, and what one word costs, depends on where the tensor is kept: the four
cases below. Energies are whole units.

Letters: n dimensions, T tensors, levels 0 (DRAM), 1 (shared buffer), 2 (element buffers).
"""

from __future__ import annotations

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import part
from costmodel.exact.problem import BUFFER, DRAM, ELEMENT, ProofTables
from costmodel.exact.structures import Unit
from costmodel.exact.traffic_bounds import tile_words
from costmodel.exact.workspace import Charges, Spread
from costmodel.loop_nest.spatial_groups import count_different

KEPT_NOWHERE, KEPT_BUFFER, KEPT_ELEMENT, KEPT_BOTH = range(4)


@part
def case_of(
    t: int,
    inner_set: int,
    outer_set: int,
) -> int:
    """Where tensor t is kept, as one of the four cases."""
    return 2 * ((inner_set >> t) & 1) + ((outer_set >> t) & 1)


@part
def outer_charge(
    tables: ProofTables,
    t: int,
) -> int:
    """Energy of one outer word of a tensor that the shared buffer keeps."""
    crossings = 2 if t == tables.output else 1
    charge: int = crossings * tables.energy[DRAM] + tables.energy[BUFFER]
    return charge


@part
def fill_charges(
    tables: ProofTables,
    unit: Unit,
    spread: Spread,
    charges: Charges,
) -> None:
    """Fills what a spatial vector fixes: the fixed charges and those of inner words.

    Args:
        tables: the problem.
        unit: the spatial vector.
        spread: the groups and hops of the tile in hand.
        charges: filled, but for the base.
    """
    cycles, elements, reduction = unit.cycles, unit.elements, unit.reduction
    groups, hops = spread.groups, spread.hops
    fixed, inner_charge = charges.fixed, charges.inner
    dram, buffer, element = tables.energy[DRAM], tables.energy[BUFFER], tables.energy[ELEMENT]
    full = tables.output_words
    for t in range(tables.sliding.size):
        served = cycles * groups[t]
        if t == tables.output:
            # Updates, and reads of what was there before, except the first time.
            fixed[t, KEPT_NOWHERE] = (2 * served - full) * dram
            fixed[t, KEPT_BUFFER] = (2 * served - 2 * full) * buffer - full * dram
            at_elements = 2 * (cycles * elements - full * reduction) * element
            fixed[t, KEPT_ELEMENT] = at_elements - full * dram
            fixed[t, KEPT_BOTH] = at_elements - 2 * full * buffer - full * dram
            inner_charge[t, KEPT_ELEMENT] = elements * element + 2 * groups[t] * dram
            inner_charge[t, KEPT_BOTH] = elements * element + 2 * groups[t] * buffer
        else:
            fixed[t, KEPT_NOWHERE] = served * dram
            fixed[t, KEPT_BUFFER] = served * buffer
            fixed[t, KEPT_ELEMENT] = cycles * elements * element
            fixed[t, KEPT_BOTH] = cycles * elements * element
            inner_charge[t, KEPT_ELEMENT] = elements * element + groups[t] * dram
            inner_charge[t, KEPT_BOTH] = elements * element + groups[t] * buffer
        for case in (KEPT_NOWHERE, KEPT_BUFFER):
            fixed[t, case] += cycles * hops[t]
            inner_charge[t, case] = 0
        for case in (KEPT_ELEMENT, KEPT_BOTH):
            inner_charge[t, case] += hops[t]


@part
def count_groups(
    tables: ProofTables,
    t: int,
    spatial: Array,
    extent: Array,
    offsets: Array,
) -> int:
    """Distinct tiles of tensor t among the elements; `offsets` `[fanout]` is scratch."""
    groups = 1
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        count = 1
        spread = 0
        offsets[0] = 0
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            d = tables.term_dimension[k]
            if spatial[d] == 1:
                continue
            spread += 1
            shift = tables.term_coefficient[k] * extent[d]
            for x in range(1, spatial[d]):
                for i in range(count):
                    offsets[x * count + i] = offsets[i] + x * shift
            count *= spatial[d]
        if spread < 2:
            groups *= count
            continue
        groups *= count_different(offsets, count)
    return groups


@part
def least_groups(
    tables: ProofTables,
    t: int,
    spatial: Array,
) -> int:
    """At least as many distinct tiles as the longest spatial loop along each axis makes."""
    groups = 1
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        longest = 1
        for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
            longest = max(longest, spatial[tables.term_dimension[k]])
        groups *= longest
    return groups


@part
def fill_base(
    tables: ProofTables,
    charges: Charges,
    inner_set: int,
) -> None:
    """Fills the base, the energy whatever the loops are, from the fixed charges."""
    for k in range(tables.outer_sets.size):
        charges.base[k] = tables.macs * tables.mac_energy
        for t in range(tables.sliding.size):
            charges.base[k] += charges.fixed[t, case_of(t, inner_set, tables.outer_sets[k])]


@part
def fits(
    tables: ProofTables,
    level: int,
    kept: int,
    extent: Array,
) -> bool:
    """Whether the tiles of the kept tensors, with these extents `[n]`, fit a level."""
    if tables.capacity[level] < 0:
        return True
    used = 0
    for t in range(tables.sliding.size):
        words = tile_words(tables, t, extent) if (kept >> t) & 1 else 0
        if tables.bank_words[level] > 0:
            used += max(1, -(-words // tables.bank_words[level]))
        else:
            used += words
    room: int = tables.banks[level] if tables.bank_words[level] > 0 else tables.capacity[level]
    return used <= room


@part
def level_traffic(
    tables: ProofTables,
    unit: Unit,
    t: int,
    case: int,
    groups: int,
    inner_words: int,
    outer_words: int,
    traffic: Array,
) -> None:
    """Adds tensor t's words read and written per instance of each level to traffic `[3, 2]`.

    Args:
        tables: the problem.
        unit: the spatial vector.
        t: the tensor.
        case: where it is kept.
        groups: distinct tiles among the elements.
        inner_words: words entering an element buffer.
        outer_words: words entering the shared buffer.
        traffic: takes the words.
    """
    is_output = t == tables.output
    full = tables.output_words
    cycles, first_time = unit.cycles, unit.first_time
    entering = cycles
    if case in (KEPT_ELEMENT, KEPT_BOTH):
        traffic[ELEMENT, 0] += cycles - (first_time if is_output else 0)
        traffic[ELEMENT, 1] += inner_words
        if is_output:
            traffic[ELEMENT, 1] += cycles - first_time
        entering = inner_words
    served = entering * groups
    if case in (KEPT_BUFFER, KEPT_BOTH):
        traffic[BUFFER, 0] += served - (full if is_output else 0)
        traffic[BUFFER, 1] += outer_words
        if is_output:
            traffic[BUFFER, 1] += served - full
        served = outer_words
    traffic[DRAM, 0] += served - (full if is_output else 0)
    if is_output:
        traffic[DRAM, 1] += served


@part
def least_cycles(
    tables: ProofTables,
    traffic: Array,
    cycles: int,
) -> int:
    """A lower bound on the cycles that the model gives traffic of at least so much `[3, 2]`.

    The model divides in floating point and rounds up: its quotients are true ones up to a factor
    of 1 +- 2e-15, so a shade less than the true quotient, rounded up, is never too much.
    """
    slowest = cycles
    for level in range(3):
        for way in range(2):
            if traffic[level, way] > 0 and tables.bandwidth[level, way] < np.inf:
                needed = traffic[level, way] / tables.bandwidth[level, way] * (1 - 1e-14)
                slowest = max(slowest, int(np.ceil(needed)))
    return slowest


@part
def model_cycles(
    tables: ProofTables,
    traffic: Array,
    cycles: int,
) -> int:
    """The cycles that the model gives traffic `[T, 3, 2]`, by its own sequence of roundings."""
    slowest = cycles
    for level in range(3):
        slowdown = 1.0
        for way in range(2):
            rate = 0.0
            for t in range(tables.sliding.size):
                rate += traffic[t, level, way] / cycles
            if rate > 0:
                slowdown = min(slowdown, tables.bandwidth[level, way] / rate)
        slowest = max(slowest, int(np.ceil(cycles / slowdown)))
    return slowest
