"""From the rows of a proof to mappings, and from mappings to exact outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.costs import STATUS_OK
from costmodel.exact.energy_units import EnergyUnits
from costmodel.exact.problem import BUFFER, DRAM, ELEMENT, ProofTables
from costmodel.exact.workspace import (
    BLOCKS,
    EXTRA,
    INNER_SET,
    OUTER_SET,
    SPATIAL_AXES,
    SPATIAL_ORDER,
)
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space import moves
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ConfigError

Outcome = tuple[int, int]
"""Energy in whole units and cycles of a mapping, or of a bound."""


def code_of(space: MapSpace, proof: ProofTables, row: Array) -> Codes:
    """The code `[D]` of a mapping that the proof found.

    Args:
        space: its map space.
        proof: the proof's tables.
        row: `[5n + 4]` as `costmodel.exact.workspace` lays it out.
    """
    tables = space.tables
    n = tables.sizes.size
    spatial, extent, middle = row[:n], row[n : 2 * n], row[2 * n : 3 * n]
    factors = np.ones((n, tables.slot_level.size), np.int64)
    factors[:, tables.temporal_slot[ELEMENT]] = extent
    if tables.spatial_slot[BUFFER] >= 0:
        factors[:, tables.spatial_slot[BUFFER]] = spatial
    factors[:, tables.temporal_slot[BUFFER]] = middle // (extent * spatial)
    factors[:, tables.temporal_slot[DRAM]] = tables.sizes // middle
    code = np.zeros(space.cardinality.size, np.int32)
    for d in range(n):
        code[d] = moves.find_row(tables, d, factors[d]) - tables.row_start[d]
    for level, block in ((BUFFER, 3), (DRAM, 4)):
        order = np.ascontiguousarray(row[block * n : (block + 1) * n][::-1])
        code[tables.order_column[level]] = moves.order_index(order)
    for column, block in (
        (tables.spatial_order_column[BUFFER], SPATIAL_ORDER),
        (tables.spatial_axis_column[BUFFER], SPATIAL_AXES),
    ):
        if column >= 0:
            code[column] = row[BLOCKS * n + block]
    for level, block, tile in ((ELEMENT, INNER_SET, extent), (BUFFER, OUTER_SET, middle)):
        kept = int(row[BLOCKS * n + block])
        if tables.keep_column[level] >= 0:
            code[tables.keep_column[level]] = kept
        if tables.banks_column[level] >= 0:
            code[tables.banks_column[level]] = _allocation(space, proof, level, kept, tile)
    return code


def readable_rows(space: MapSpace, rows: Sequence[Sequence[int]]) -> Array:
    """`[B, 5n + 4]` rows of a file that `code_of` can read.

    Args:
        space: the map space.
        rows: what the file says; entries are at least 0.

    Raises:
        ConfigError: one of them is no row of the space.
    """
    sizes, n = space.tables.sizes, space.tables.sizes.size
    for row in rows:
        found = np.array(row, np.int64)
        good = len(row) == BLOCKS * n + EXTRA and bool((found[: 3 * n] > 0).all())
        if good:
            spatial, extent, middle = found[:n], found[n : 2 * n], found[2 * n : 3 * n]
            good = bool((extent <= sizes).all() and (spatial <= sizes).all())
            good = good and not (sizes % middle).any() and not (middle % (extent * spatial)).any()
            orders = found[3 * n : BLOCKS * n].reshape(2, n)
            good = good and bool((np.sort(orders, axis=1) == np.arange(n)).all())
            good = good and bool((found[BLOCKS * n :] < 2**31).all())
        if not good:
            raise ConfigError("progress.best: expected mappings of the problem.")
    return np.array(rows, np.int64)


def _allocation(space: MapSpace, proof: ProofTables, level: int, kept: int, extent: Array) -> int:
    """The bank allocation that holds the tiles of these extents; spare banks go to the last."""
    workload = space.workload
    sizes = dict(zip(workload.dimension_names, extent.tolist(), strict=True))
    words = int(proof.bank_words[level])
    banks = []
    for t, tensor in enumerate(workload.tensors):
        tile = 1
        for axis in tensor.axes:
            tile *= 1 + sum(factor * (sizes[name] - 1) for name, factor in axis.terms)
        banks.append(-(-tile // words) if (kept >> t) & 1 else 1)
    banks[-1] += int(proof.banks[level]) - sum(banks)
    return moves.allocation_row(space.tables, level, np.array(banks))


def exact_outcomes(space: MapSpace, units: EnergyUnits, codes: Codes) -> list[Outcome | None]:
    """Energy in units and cycles of mappings `[B, D]` by the cost model; None where infeasible.

    The model's counts are integers; only its sum of energies is rounded, so it is done again here.
    """
    costs = LoopNestModel().evaluate(space, codes, detail=True)
    detail = costs.detail
    assert detail is not None  # it was asked for
    counts = detail.reads + detail.fills + detail.updates
    levels = (counts * detail.instances[:, :, None]).sum(axis=2)
    outcomes: list[Outcome | None] = []
    for b in range(len(codes)):
        if costs.status[b] != STATUS_OK:
            outcomes.append(None)
            continue
        energy = space.workload.macs * units.mac
        for words, per_word in zip(levels[b].tolist(), units.levels, strict=True):
            energy += words * per_word
        for hops in detail.network_energy_pj[b].tolist():
            energy += round(Fraction(hops) / units.unit_pj)
        outcomes.append((energy, int(costs.latency_cycles[b])))
    return outcomes
