"""Which map spaces the proof on any hierarchy can treat, and its unit of energy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from costmodel.arrays.machine_tables import prices_of_values
from costmodel.exact.objective import Outcome
from costmodel.exact_any.assignments import MOST_ASSIGNMENTS, MOST_SPREADS, Spreads
from costmodel.exact_any.busiest import fewest_cycles
from costmodel.exact_any.known import SLACK
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.bounds import floor
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import LARGEST_COUNT, Workload
from costmodel.tile_chains.lattice import count_cells
from costmodel.tile_chains.links import has_links, windowed
from costmodel.tile_chains.rules import Rules
from costmodel.tile_chains.shape import MOST_CELLS
from costmodel.tile_chains.spatial import count_keeps

MOST_KEEPS = 100_000
"""Sets of kept tensors that are listed: six levels of a product with all of it open are 32,768."""

MOST_ENERGY = 2.0**500
"""pJ; times the square of 2^62 cycles it is still a number."""


def why_not_any(space: MapSpace) -> str | None:
    """Why no proof is possible on any hierarchy, in one line; None if one is."""
    name = space.accelerator.name
    if space.tables.imperfect:
        return f"{name} has factors: imperfect; of loops with remainders there is a bound only."
    if space.accelerator.overflow != "invalid":
        return f"{name} bypasses what overflows; the exact search needs overflow: invalid."
    if not space.tables.machine.always_kept[0] and space.tables.machine.cumulative:
        return f"{name} is judged as timeloop-model does; the exact search looks at each fan-out."
    if has_links(space) and windowed(space)[-1]:
        return f"The output of {space.workload.name} has windows, not proven with link transfers."
    largest = _largest_energy(space)
    if largest >= MOST_ENERGY:
        return (
            f"Energies of {space.workload.name} on {name} may come to {largest:.3g} pJ; "
            f"the exact search is for less than {MOST_ENERGY:.3g}."
        )
    return why_too_slow(space.workload, space.accelerator) or why_too_large(space)


def why_too_large(space: MapSpace) -> str | None:
    """Why the proof on any hierarchy has no room for a map space, in one line; None if it has."""
    name = space.accelerator.name
    cells = count_cells(space.tables.sizes.tolist())
    if cells > MOST_CELLS:
        return (
            f"{space.workload.name} has {cells:.3g} tiles per level; "
            f"the exact search on this machine holds tables of at most {MOST_CELLS:.3g}."
        )
    if many := why_too_many_keeps(space):
        return many
    spreads = assignments = 0
    for one in (space,) if space.orders is None else space.orders.spaces:
        count, kept = Spreads(one, Rules(one)).count(), count_keeps(one)
        # Those with one set of kept tensors take a tenth of the room.
        spreads += count // 10 if kept == 1 else count
        assignments += count * kept
    if spreads > MOST_SPREADS or assignments > MOST_ASSIGNMENTS:
        return (
            f"{name} spreads {space.workload.name} in up to {assignments:.3g} ways; "
            f"the exact search lists at most {MOST_ASSIGNMENTS:.3g}, of {MOST_SPREADS:.3g} spatial "
            "factors."
        )
    return None


def why_too_many_keeps(space: MapSpace) -> str | None:
    """Why not even bounds have room for all sets of kept tensors, in one line; None if they do."""
    count = max(map(count_keeps, (space,) if space.orders is None else space.orders.spaces))
    if count <= MOST_KEEPS:
        return None
    return (
        f"{space.accelerator.name} leaves open {count:.3g} ways to keep the tensors of "
        f"{space.workload.name}; the exact search looks at {MOST_KEEPS:,} at most."
    )


def energy_unit(space: MapSpace) -> Fraction:
    """A power of two, pJ, in which all energies of a map space are below 2^61 units.

    Energies are floating-point sums; whole multiples of so small a unit tell them apart.
    """
    return Fraction(2) ** (math.ceil(math.log2(max(_largest_energy(space), 1e-9))) - 60)


def floor_outcome(space: MapSpace, unit_pj: Fraction) -> Outcome:
    """What is certain of all mappings before anything is bounded: energy in units, and cycles."""
    least = floor(space.workload, space.accelerator)
    cycles = int(least.latency_cycles)
    if not space.tables.imperfect:
        cycles = max(cycles, fewest_cycles(space))
    return math.floor(Fraction(least.energy_pj * (1 - SLACK)) / unit_pj), cycles


def _most_accesses(workload: Workload) -> int:
    """What each kind of access (reads, fills, updates) at a level cannot exceed, in words.

    Per multiply-accumulate and tensor there is at most one, times the overlap of its axes.
    """
    widths = math.prod(
        sum(factor for _, factor in axis.terms)
        for tensor in workload.tensors[:-1]
        for axis in tensor.axes
    )
    return workload.macs * widths * len(workload.tensors)


def why_too_slow(workload: Workload, accelerator: Accelerator) -> str | None:
    """Why cycles may take more than 62 bits, in one line; None if they do not.

    That is where a level's bandwidth is so low that all words that could pass it take longer, or
    passes through an array are so long.
    """
    words = 3 * _most_accesses(workload)
    turns = sum(
        sum(level.array.parts(*level.width_height[::-1]))
        for level in accelerator.levels
        if level.array
    )
    if turns and words * turns >= LARGEST_COUNT:
        return (
            f"An array of {accelerator.name} takes {turns:,} cycles a pass; for {workload.name} "
            f"with {workload.macs:.3g} multiply-accumulates the cycles may not fit 64-bit integers."
        )
    for level in accelerator.levels:
        for key in ("read_bandwidth", "write_bandwidth", "bandwidth"):
            bandwidth = getattr(level, key)
            if bandwidth is not None and words >= LARGEST_COUNT * Fraction(bandwidth):
                return (
                    f"{level.name} of {accelerator.name} has a {key} of {bandwidth:g} words per "
                    f"cycle; for {workload.name} with {workload.macs:.3g} multiply-accumulates "
                    f"the cycles may not fit 64-bit integers. From {words / LARGEST_COUNT:.3g} "
                    "words per cycle on they do."
                )
    return None


def _largest_energy(space: MapSpace) -> float:
    """What no mapping needs more of, pJ; infinite beyond what floats hold."""
    tables, machine = space.tables, space.tables.machine
    tensors = int(tables.sliding.size)
    with np.errstate(over="ignore"):
        most = prices_of_values(machine).max(axis=1).sum()
        per_word = float(most + machine.action.sum() + machine.address.sum())
        network = float((machine.router + machine.ingress + tables.hop_energy).sum())
        leaking = float((machine.leakage * machine.mesh[:, 0]).sum())
    overlap = math.prod(
        int(tables.term_coefficient[start:end].sum())
        for start, end in zip(tables.term_start[:-1], tables.term_start[1:], strict=True)
    )
    accesses = float(tables.macs) * tensors * max(1, overlap)
    fanout = float(tables.fanout.max())
    largest = accesses * (per_word + 4 * fanout * network) + tables.macs * tables.mac_energy
    per_mac = float(machine.cycles_per_mac) + float(machine.turns.sum())
    cycles = float(tables.macs) * per_mac + float(machine.waiting)
    return largest + cycles * leaking
