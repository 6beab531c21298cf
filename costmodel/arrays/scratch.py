"""Working memory of the compiled passes.

Letters: n dimensions, L levels, T tensors, C classes of multicasts.
"""

from __future__ import annotations

import math
import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled.by_reference import by_reference
from mapspace.errors import ConfigError

_latest = threading.local()

MOST_CHILDREN = 2**22
"""Children of one instance, each counted apart: a mapping on more of them would take seconds."""


def most_children(tables: NestTables) -> int:
    """Children below one instance that a mapping may use at most."""
    # Where fan-outs limit products, one of them may take what others leave.
    return int(tables.machine.mesh[-1, 0] if tables.machine.cumulative else tables.fanout.max())


def most_classes(children: int) -> int:
    """Different sizes of groups that a number of children can be divided into: 1 + 2 + 3 ..."""
    return math.isqrt(2 * children) + 1


@by_reference
class Scratch(NamedTuple):
    """Working memory of the compiled pass; one per call, so that calls may run in parallel.

    Per mapping: rows `[n]` its factorisation rows; kept and tile `[L, T]`; the temporal loops above
    the innermost level, innermost first, as dimension, trips, step `[n * L]` and outer
    `[n * L + 1]`, with start `[L]`; moved `[n]` displacements. Per level `[L]`: above, the
    instances in use, and spread, the children of one; accesses, reading and writing, the traffic of
    one instance; part, the words of an output that an instance is the first to see. counts
    `[3, L, T]` reads, fills and updates
    of one instance, where they are asked for; charges `[2, L, T]` the energy of levels and
    addresses. For networks: classes `[C, 4]` children that share a tile, how many such groups,
    their words and hops; factor and inside `[n]`, the spatial factors and the extents of a child;
    per instance below a level: children, and served, 1 where a neighbour serves it; per column of
    the mesh: lowest and highest.
    """

    rows: Array
    kept: npt.NDArray[np.uint8]
    tile: Array
    start: Array
    dimension: Array
    trips: Array
    step: Array
    outer: Array
    moved: Array
    above: Array
    spread: Array
    accesses: Array
    reading: npt.NDArray[np.float64]
    writing: npt.NDArray[np.float64]
    part: Array
    counts: Array
    charges: npt.NDArray[np.float64]
    classes: npt.NDArray[np.float64]
    factor: Array
    inside: Array
    children: Array
    served: Array
    lowest: Array
    highest: Array


def make_scratch(tables: NestTables) -> Scratch:
    """Working memory for a map space.

    Raises:
        ConfigError: a level has too many children, or all have where they are judged together.
    """
    n, levels, tensors = tables.sizes.size, tables.capacity.size, tables.sliding.size
    elements = most_children(tables)
    if elements > MOST_CHILDREN:
        judged = f"levels[{int(tables.fanout.argmax())}].fanout: {elements:.3g} children of one"
        if tables.machine.cumulative:
            judged = f"levels: fan-outs are judged together, and {elements:.3g} elements of one"
        raise ConfigError(
            f"{judged} instance cannot be counted apart; at most {MOST_CHILDREN:,} can."
        )
    return Scratch(
        rows=np.zeros(n, np.int64),
        kept=np.zeros((levels, tensors), np.uint8),
        tile=np.zeros((levels, tensors), np.int64),
        start=np.zeros(levels, np.int64),
        dimension=np.zeros(n * levels, np.int64),
        trips=np.zeros(n * levels, np.int64),
        step=np.zeros(n * levels, np.int64),
        outer=np.zeros(n * levels + 1, np.int64),
        moved=np.zeros(max(n, tables.term_start.size - 1), np.int64),
        above=np.zeros(levels, np.int64),
        spread=np.zeros(levels, np.int64),
        accesses=np.zeros(levels, np.int64),
        reading=np.zeros(levels),
        writing=np.zeros(levels),
        part=np.zeros(levels, np.int64),
        counts=np.zeros((3, levels, tensors), np.int64),
        charges=np.zeros((2, levels, tensors)),
        classes=np.zeros((most_classes(elements), 4)),
        factor=np.zeros(n, np.int64),
        inside=np.zeros(n, np.int64),
        children=np.zeros(elements, np.int64),
        served=np.zeros(elements, np.int64),
        lowest=np.zeros(elements, np.int64),
        highest=np.zeros(elements, np.int64),
    )


def scratch_of(tables: NestTables) -> Scratch:
    """This thread's working memory for a map space; what it held before is overwritten.

    Making it anew took most of the time of a call with one mapping.
    """
    made: tuple[NestTables, Scratch] | None = getattr(_latest, "made", None)
    if made is None or made[0] is not tables:
        made = _latest.made = (tables, make_scratch(tables))
    return made[1]
