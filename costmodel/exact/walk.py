"""Searches units with several threads; what comes out does not depend on how many there are."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from costmodel.exact.branch import prove_units
from costmodel.exact.objective import INFINITE, is_below
from costmodel.exact.spatial import arrange
from costmodel.exact.state import BLOCKS, Found, OuterTables, make_work, nothing_found
from costmodel.exact.tables import ProofTables
from costmodel.exact.tiles import Vectors
from costmodel.nest import Array

# Blocks of units that are searched against the same limit, whatever the number of threads.
LANES = 4


class Walk:
    """Searches units block by block: four blocks at a time, each against the limit as it was.

    Attributes:
        block: units per block; it adapts to how much work units turn out to be.
    """

    def __init__(
        self,
        tables: ProofTables,
        outer: OuterTables,
        vectors: Vectors,
        unit_vector: Array,
        unit_set: Array,
        threads: int | None,
    ) -> None:
        """Prepares one working memory per block.

        Args:
            tables: the problem.
            outer: least outer costs.
            vectors: spatial vectors.
            unit_vector: `[U]` the vector of each unit.
            unit_set: `[U]` the tensors that its element buffers keep, as bits.
            threads: how many work at a time; None: one per processor, at most four.
        """
        self._tables, self._outer, self._vectors = tables, outer, vectors
        self._unit_vector, self._unit_set = unit_vector, unit_set
        self._works = [make_work(tables) for _ in range(LANES)]
        self._threads = min(LANES, threads or os.cpu_count() or 1)
        self._arranged: dict[int, Vectors] = {}
        self.block = 1

    def search(self, begin: int, end: int, bounds: int, found: Found) -> int:
        """Searches units from `begin` on for mappings below the limit.

        Args:
            begin: the first unit.
            end: past the last one.
            bounds: how many bounds the four blocks should come to.
            found: the best mappings and the limit; updated.

        Returns:
            The unit that is next.
        """
        starts = [min(end, begin + lane * self.block) for lane in range(LANES + 1)]
        lanes = []
        for _ in range(LANES):
            lane = nothing_found(found.kind, self._tables.sizes.size, found.energy.size)
            lane.limit[:] = found.limit
            lanes.append(lane)
        jobs = [
            partial(self._search_block, starts[i], starts[i + 1], lanes[i], i)
            for i in range(LANES)
            if starts[i] < starts[i + 1]
        ]
        if self._threads == 1 or len(jobs) == 1:
            for job in jobs:
                job()
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                for future in [pool.submit(job) for job in jobs]:
                    future.result()
        spent = 0
        for lane in lanes:
            spent += int(lane.counts.sum())
            _merge(found, lane)
        if spent < bounds // 2:
            self.block *= 2
        elif spent > 2 * bounds and self.block > 1:
            self.block //= 2
        return starts[-1]

    def _search_block(self, begin: int, end: int, lane: Found, index: int) -> None:
        work = self._works[index]
        if not self._tables.half_hop:
            prove_units(
                self._tables, self._outer, self._vectors, self._unit_vector, self._unit_set,
                begin, end, lane, work,
            )  # fmt: skip
            return
        # Where a hop costs energy, a unit is all the ways to lay its vector on the mesh.
        for unit in range(begin, end):
            v = int(self._unit_vector[unit])
            ways = self._arranged.get(v)
            if ways is None:
                ways = self._arranged[v] = arrange(self._tables, self._vectors, v)
            count = ways.elements.size
            sets = np.full(count, self._unit_set[unit])
            prove_units(
                self._tables, self._outer, ways, np.arange(count), sets, 0, count, lane, work
            )


def _merge(found: Found, lane: Found) -> None:
    """Puts what a block found among the best; of one tiling the better order stays."""
    found.counts[:] += lane.counts
    held = found.energy.size
    tiling = [*range(3 * (found.rows.shape[1] // BLOCKS)), -4, -3]
    for i in range(held):
        if lane.energy[i] >= INFINITE:
            break
        outcome = int(lane.energy[i]), int(lane.cycles[i])
        same = [
            j
            for j in range(held)
            if found.energy[j] < INFINITE and (found.rows[j, tiling] == lane.rows[i, tiling]).all()
        ]
        last = same[0] if same else held - 1
        if not is_below(found.kind, *outcome, int(found.energy[last]), int(found.cycles[last])):
            continue
        place = last
        while place > 0 and is_below(
            found.kind, *outcome, int(found.energy[place - 1]), int(found.cycles[place - 1])
        ):
            place -= 1
        for array, value in (
            (found.energy, outcome[0]),
            (found.cycles, outcome[1]),
            (found.rows, lane.rows[i]),
        ):
            array[place + 1 : last + 1] = array[place:last].copy()
            array[place] = value
    worst = int(found.energy[-1]), int(found.cycles[-1])
    if is_below(found.kind, *worst, int(found.limit[0]), int(found.limit[1])):
        found.limit[:] = worst
