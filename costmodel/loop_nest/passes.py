"""How often arrays are loaded, filled and drained: words that come to an element, one by one."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from costmodel.arrays.feasibility import check_mapping
from costmodel.arrays.machine_tables import is_stationary
from costmodel.arrays.scratch import Scratch, scratch_of
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import lean
from costmodel.loop_nest.cost_kernel import words_of_elements
from costmodel.loop_nest.temporal_reuse import list_loops
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
