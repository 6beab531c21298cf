"""What a mapping's cycles hold beside computing: passes through arrays, start-ups, waiting."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.feasibility import check_mapping
from costmodel.arrays.machine_tables import is_stationary
from costmodel.arrays.projections import PART_OF_INPUT
from costmodel.arrays.scratch import Scratch, scratch_of
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import lean
from costmodel.loop_nest.added_cycles import tiles_arriving, words_of_elements
from costmodel.loop_nest.temporal_reuse import list_loops, words_entering
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes


class Passes(NamedTuple):
    """What a mapping makes an array do."""

    level: str
    """The level above the elements."""
    stationary: tuple[str, ...]
    """Tensors of which elements hold a word while the others stream."""
    passes: int
    """One for every such word of an element."""
    loading: int
    """Cycles, of all passes; likewise the others."""
    filling: int
    draining: int


@lean
def count_words(
    tables: NestTables,
    scratch: Scratch,
    code: Codes,
    found: Array,
) -> None:
    """Fills `[L, T]` with words that come to elements of arrays, of a feasible mapping `[D]`."""
    check_mapping(tables, code, scratch.rows, scratch.kept, scratch.tile)
    loops = list_loops(tables, scratch, code)
    for level in range(found.shape[0]):
        for t in range(found.shape[1]):
            if tables.machine.turns[level, t] > 0:
                found[level, t] = words_of_elements(tables, scratch, level, t, loops)


class Transfers(NamedTuple):
    """What the tiles of a level take beside their words' way."""

    level: str
    startups: int
    """Cycles before tiles that come beside work."""
    waited: int
    """Cycles in which work waits for tiles, those before them included."""


@lean
def count_tiles(
    tables: NestTables,
    scratch: Scratch,
    code: Codes,
    tiles: Array,
    entering: Array,
) -> None:
    """Fills `[L, T]` each with tiles that come, and words that enter, of a feasible mapping."""
    check_mapping(tables, code, scratch.rows, scratch.kept, scratch.tile)
    loops = list_loops(tables, scratch, code)[0]
    for level in range(1, tiles.shape[0]):
        for t in range(tiles.shape[1]):
            outside = 0
            for outer in range(level):
                outside += scratch.kept[outer, t]
            if scratch.kept[level, t] and outside > 0:
                words = scratch.tile[level, t]
                tiles[level, t] = tiles_arriving(tables, scratch, level, t, loops)
                entering[level, t] = words_entering(tables, scratch, t, level, words, loops)


def transfers_of(space: MapSpace, code: Codes, fills: npt.NDArray[Any]) -> list[Transfers]:
    """Start-ups and waiting of a feasible mapping, of levels that have either, outermost first.

    Args:
        space: the map space, without remainders.
        code: `[D]`.
        fills: `[L, T]` values that enter levels, as they are counted.
    """
    if space.orders is not None:
        return transfers_of(*space.orders.one(code), fills)
    tables, machine = space.tables, space.tables.machine
    if not machine.asking:
        return []
    tiles, entering = np.zeros(machine.turns.shape, np.int64), np.zeros_like(machine.turns)
    count_tiles(tables, scratch_of(tables), code, tiles, entering)
    asked, single = machine.startup * tiles, machine.single > 0
    into = np.minimum(tables.bandwidth[:, 1], machine.shared)[:, None]
    out = np.minimum(tables.bandwidth[:, 0], machine.shared)[:, None]
    moved = asked + machine.words * np.where(tiles > 0, fills, 0) / into
    moved += (tables.part_kind != PART_OF_INPUT) * machine.words * entering / out
    found = []
    for place, level in enumerate(space.accelerator.levels):
        beside = int(asked[place][~single[place]].sum())
        waited = math.ceil(moved[place][single[place]].sum())
        if beside or waited:
            found.append(Transfers(level.name, beside, waited))
    return found


def passes_of(space: MapSpace, code: Codes) -> list[Passes]:
    """The passes of a feasible mapping through every array of its machine, outermost first.

    Args:
        space: the map space, without remainders.
        code: `[D]`.
    """
    machine, tables = space.accelerator, space.tables
    if not tables.machine.turning:
        return []
    if space.orders is not None:
        return passes_of(*space.orders.one(code))
    words = np.zeros(tables.machine.turns.shape, np.int64)
    count_words(tables, scratch_of(tables), code, words)
    found = []
    for position, level in enumerate(machine.levels):
        if level.array is None:
            continue
        roles = space.workload.roles
        names = list(itertools.compress(roles, is_stationary(level.array, roles)))
        count = int(sum(words[position, list(roles).index(name)] for name in names))
        width, height = level.width_height
        load, fill, drain = (count * one for one in level.array.parts(height, width))
        found.append(Passes(level.name, tuple(names), count, load, fill, drain))
    return found
