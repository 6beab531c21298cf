"""Compiled: cycles beside multiply-accumulates and ports: passes, start-ups, waiting for tiles.

Letters: L levels, T tensors.
"""

from __future__ import annotations

import numpy as np

from costmodel.arrays.projections import PART_OF_INPUT
from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import NestTables
from costmodel.compiled import part
from costmodel.loop_nest.temporal_reuse import words_entering


@part
def words_of_elements(
    tables: NestTables,
    scratch: Scratch,
    level: int,
    t: int,
    loops: tuple[int, int],
) -> int:
    """Words of tensor t that come to an element of the array below a level, one pass each.

    An element is an instance of the next level inwards that keeps the tensor; without such a level
    every multiply-accumulate takes a word of its own.
    """
    for inner in range(level + 1, tables.capacity.size):
        if scratch.kept[inner, t]:
            words: int = words_entering(tables, scratch, t, inner, scratch.tile[inner, t], loops[0])
            return words
    return loops[1]


@part
def turning(
    tables: NestTables,
    scratch: Scratch,
    loops: tuple[int, int],
) -> int:
    """Cycles in which arrays are loaded, filled and drained, pass after pass."""
    cycles = 0
    for level in range(tables.capacity.size):
        for t in range(tables.sliding.size):
            turn = tables.machine.turns[level, t]
            if turn > 0:
                cycles += turn * words_of_elements(tables, scratch, level, t, loops)
    return cycles


@part
def tiles_arriving(
    tables: NestTables,
    scratch: Scratch,
    level: int,
    t: int,
    loops: int,
) -> int:
    """How often another tile of tensor t comes to an instance of a level, the first one too."""
    for i in range(scratch.start[level], loops):
        if tables.relevant[t, scratch.dimension[i]]:
            tiles: int = scratch.outer[i]
            return tiles
    return 1


@part
def transfers(
    tables: NestTables,
    scratch: Scratch,
    steps: int,
    loops: int,
) -> tuple[float, float]:
    """Cycles of ports with start-ups of their tiles, and those that work waits for tiles.

    What comes to a level beside work takes its start-ups, one after another, and its ports; what
    work waits for is taken out of what ports move beside it.

    Args:
        tables: the map space.
        scratch: with the counts of a mapping; what levels take in beside work is left there.
        steps: cycles of the multiply-accumulates.
        loops: number of loops listed.
    """
    machine = tables.machine
    slowest, waited = 0.0, 0.0
    for level in range(1, tables.capacity.size):
        startups = 0
        into = min(tables.bandwidth[level, 1], machine.shared[level])
        out = min(tables.bandwidth[level, 0], machine.shared[level])
        for t in range(tables.sliding.size):
            outside = 0
            for outer in range(level):
                outside += scratch.kept[outer, t]
            if not scratch.kept[level, t] or outside == 0:
                continue
            asked = machine.startup[level, t] * tiles_arriving(tables, scratch, level, t, loops)
            if not machine.single[level, t]:
                startups += asked
                continue
            width = machine.words[level, t]
            fills = width * scratch.counts[1, level, t]
            waited += asked + fills / into
            if tables.part_kind[t] != PART_OF_INPUT:
                words = scratch.tile[level, t]
                leaving = words_entering(tables, scratch, t, level, words, loops)
                waited += width * leaving / out
            if machine.bounded[level]:
                scratch.writing[level] -= fills / steps
        if startups > 0:
            read, written = scratch.reading[level] * steps, scratch.writing[level] * steps
            port = max(
                written / tables.bandwidth[level, 1], (read + written) / machine.shared[level]
            )
            slowest = max(slowest, np.ceil(startups + port))
    return slowest, np.ceil(waited)


@part
def cycles_added(
    tables: NestTables,
    scratch: Scratch,
    steps: int,
    loops: tuple[int, int],
) -> tuple[float, float]:
    """Cycles of a mapping without its ports, and those that it waits for tiles beside others.

    Args:
        tables: the map space.
        scratch: with the counts of a mapping; what levels take in beside work is left there.
        steps: cycles of the multiply-accumulates.
        loops: how many loops are listed, and their trips.
    """
    machine, cycles = tables.machine, float(steps)
    if machine.turning:
        cycles += turning(tables, scratch, loops)
    if not machine.asking:
        return cycles, 0.0
    asked, waited = transfers(tables, scratch, steps, loops[0])
    # What every mapping waits is among the latencies.
    return max(cycles, asked), waited - machine.waited


def adds_cycles(tables: NestTables) -> bool | None:
    """True where a machine has passes, start-ups or single buffers, else None.

    For compiled code None is another type: what belongs to them is then not in it.
    """
    return True if tables.machine.turning or tables.machine.asking else None
