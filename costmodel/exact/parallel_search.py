"""Searches units with several threads; what comes out does not depend on how many there are.

A turn of it is short whatever the units are: what a turn does not finish is in flight, and the next
one goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.exact.branch_and_bound import prove_units
from costmodel.exact.objective import INFINITE, is_below
from costmodel.exact.spatial_factors import arrange
from costmodel.exact.structures import Problem, Vectors
from costmodel.exact.workspace import (
    BLOCKS,
    FRESH,
    STAGE,
    Found,
    Work,
    make_work,
    nothing_found,
)

# Blocks of units that are searched against the same limit, whatever the number of threads.
LANES = 4

# The fields of a lane's `Found` that a saved state holds.
_HELD = ("energy", "cycles", "rows", "limit", "counts")


def thread_count(threads: int | None) -> int:
    """How many threads work at a time; None: one per processor, at most four."""
    return min(LANES, threads or os.cpu_count() or 1)


@dataclass
class Lane:
    """A block of units in flight.

    Attributes:
        found: its best mappings.
        work: its working memory.
        unit: the unit in hand.
        way: with hops, the arrangement of its vector in hand.
        end: past the block's last unit.
    """

    found: Found
    work: Work
    unit: int
    way: int
    end: int


class Walk:
    """Searches units block by block: four blocks at a time, each against the limit as it was.

    Attributes:
        block: units per block; it adapts to how much work units turn out to be.
        threads: how many blocks are worked on at a time.
    """

    def __init__(
        self,
        problem: Problem,
        unit_vector: Array,
        unit_set: Array,
        threads: int | None,
    ) -> None:
        """Prepares one working memory per block.

        Args:
            problem: the problem.
            unit_vector: `[U]` the vector of each unit.
            unit_set: `[U]` the tensors that its element buffers keep, as bits.
            threads: how many work at a time; None: one per processor, at most four.
        """
        self._problem = problem
        tables = problem.tables
        self._unit_vector, self._unit_set = unit_vector, unit_set
        self._works = [make_work(tables) for _ in range(LANES)]
        self.threads = thread_count(threads)
        # Hops are counted for every element tile anew, over all elements.
        self._tile_cost = max(1, tables.fanout // 4) if tables.half_hop else 1
        self._halt = np.zeros(1, np.int64)
        self._arranged: dict[int, Vectors] = {}
        self._lanes: list[Lane] = []
        self._spent = 0
        self.block = 1

    def search(self, begin: int, end: int, bounds: int, found: Found) -> int:
        """Searches units from `begin` on for mappings below the limit, for one turn.

        Args:
            begin: the first unit.
            end: past the last one.
            bounds: how many bounds the four blocks should come to; a turn ends after about so many
                tiles, finished or not.
            found: the best mappings and the limit; updated.

        Returns:
            The unit that is next; `begin` while its blocks are in flight.
        """
        if not self._lanes:
            self._deal(begin, end, found)
        for lane in self._lanes:
            lane.found.ticks[0] = max(1, bounds // (LANES * self._tile_cost))
            limit = int(found.limit[0]), int(found.limit[1])
            if is_below(found.kind, *limit, int(lane.found.limit[0]), int(lane.found.limit[1])):
                lane.found.limit[:] = limit
        busy = [lane for lane in self._lanes if lane.unit < lane.end]
        if self.threads == 1 or len(busy) == 1:
            for lane in busy:
                self._search_lane(lane)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                for future in [pool.submit(self._search_lane, lane) for lane in busy]:
                    future.result()
        for lane in busy:
            self._spent += int(lane.found.counts.sum())
            merge(found, lane.found)
            lane.found.energy[:] = lane.found.cycles[:] = INFINITE
            lane.found.counts[:] = 0
        if any(lane.unit < lane.end for lane in self._lanes):
            return begin
        following = self._lanes[-1].end
        if self._spent < bounds // 2:
            self.block *= 2
        elif self._spent > 2 * bounds and self.block > 1:
            self.block //= 2
        self.forget()
        return following

    def halt(self) -> None:
        """Ends the turn that another thread is in as soon as it can; the next one goes on."""
        self._halt[0] = 1

    def go_on(self) -> None:
        """Lets the next turn take its time again."""
        self._halt[0] = 0

    def forget(self) -> None:
        """Drops the blocks in flight."""
        self._lanes = []
        self._spent = 0

    def state(self) -> list[dict[str, Any]]:
        """The blocks in flight, as copies."""
        return [
            {
                "unit": lane.unit,
                "way": lane.way,
                "end": lane.end,
                "found": {name: getattr(lane.found, name).copy() for name in _HELD},
                "work": _copies(lane.work),
            }
            for lane in self._lanes
        ]

    def load(self, state: Sequence[Mapping[str, Any]], spent: int, found: Found) -> None:
        """Goes on with the blocks of `state()`, `spent` bounds into them."""
        self.forget()
        self._spent = spent
        for index, saved in enumerate(state):
            lane = self._lane(
                index, int(saved["unit"]), int(saved["end"]), found, way=int(saved["way"])
            )
            for name in _HELD:
                getattr(lane.found, name)[...] = saved["found"][name]
            _fill(lane.work, saved["work"])
            self._lanes.append(lane)

    @property
    def places(self) -> tuple[tuple[int, int, int], ...]:
        """The blocks in flight: the unit each is in, its arrangement, and past its last unit."""
        return tuple((lane.unit, lane.way, lane.end) for lane in self._lanes)

    def begin_at(self, places: Sequence[tuple[int, int, int]], found: Found) -> None:
        """Goes on with the blocks at `places` of another walk; units in work begin anew."""
        self.forget()
        for index, (unit, way, end) in enumerate(places):
            lane = self._lane(index, unit, end, found, way)
            lane.work.paused[STAGE] = FRESH
            self._lanes.append(lane)

    def enter(self, unit: int, end: int, found: Found) -> Lane:
        """A block by itself, which begins anew; only what is below the limit is looked for."""
        lane = self._lane(0, unit, end, found)
        lane.work.paused[STAGE] = FRESH
        return lane

    def go_on_in(self, lane: Lane, tiles: int) -> None:
        """Searches a block for about so many tiles, finished or not."""
        lane.found.ticks[0] = max(1, tiles // self._tile_cost)
        self._search_lane(lane)

    @property
    def spent(self) -> int:
        """Bounds computed for the blocks in flight."""
        return self._spent

    def _deal(self, begin: int, end: int, found: Found) -> None:
        starts = [min(end, begin + lane * self.block) for lane in range(LANES + 1)]
        for index in range(LANES):
            if starts[index] < starts[index + 1]:
                lane = self._lane(index, starts[index], starts[index + 1], found)
                lane.work.paused[STAGE] = FRESH
                self._lanes.append(lane)

    def _lane(self, index: int, unit: int, end: int, found: Found, way: int = 0) -> Lane:
        best = nothing_found(found.kind, self._problem.tables.sizes.size, found.energy.size)
        best.limit[:] = found.limit
        return Lane(best._replace(halt=self._halt), self._works[index], unit, way, end)

    def _search_lane(self, lane: Lane) -> None:
        if not self._problem.tables.half_hop:
            lane.unit = prove_units(
                self._problem, self._unit_vector, self._unit_set, lane.unit, lane.end, lane.found,
                lane.work,
            )  # fmt: skip
            return
        # Where a hop costs energy, a unit is all the ways to lay its vector on the mesh.
        while lane.unit < lane.end:
            v = int(self._unit_vector[lane.unit])
            ways = self._arranged.get(v)
            if ways is None:
                ways = arrange(self._problem, v, self._halt)
                if ways is None:
                    return
                self._arranged[v] = ways
            count = ways.elements.size
            sets = np.full(count, self._unit_set[lane.unit])
            lane.way = prove_units(
                self._problem._replace(vectors=ways), np.arange(count), sets, lane.way, count,
                lane.found, lane.work,
            )  # fmt: skip
            if lane.way < count:
                return
            lane.unit += 1
            lane.way = 0


def _copies(memory: Any) -> dict[str, Any]:
    """The arrays of nested named tuples."""
    return {
        name: _copies(value) if isinstance(value, tuple) else value.copy()
        for name, value in memory._asdict().items()
    }


def _fill(memory: Any, saved: Mapping[str, Any]) -> None:
    """Overwrites the arrays of nested named tuples with what `_copies` took of them."""
    for name, value in memory._asdict().items():
        if isinstance(value, tuple):
            _fill(value, saved[name])
        else:
            value[...] = saved[name]


def merge(found: Found, lane: Found) -> None:
    """Puts what a block found among the best; of one tiling the better order stays."""
    found.counts[:] += lane.counts
    held, offered = found.energy.size, lane.energy.size
    tiling = [*range(3 * (found.rows.shape[1] // BLOCKS)), -4, -3]
    for i in range(offered):
        if lane.energy[i] >= INFINITE:
            break
        outcome = int(lane.energy[i]), int(lane.cycles[i])
        equal = (found.rows[:, tiling] == lane.rows[i, tiling]).all(axis=1)
        same = np.flatnonzero(equal & (found.energy < INFINITE))
        last = int(same[0]) if same.size else held - 1
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
