"""What words cost at least in a box of spatial factors, where loops have remainders.

A box is an interval of factors per fan-out and dimension. Of everything that rises with a factor
the lower end counts, of everything that falls with one the upper end.

Letters: L levels, n dimensions, T tensors.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from costmodel.arrays.machine_tables import prices_of_values
from costmodel.arrays.projections import GROUPS_PER_AXIS, GROUPS_PER_CHILD, PART_OF_INPUT
from costmodel.arrays.tables import Array, NestTables
from costmodel.exact_imperfect.grid import FloatArray


class Box(NamedTuple):
    """Spatial factors between two ends: low and high `[L, n]` below every level."""

    low: Array
    high: Array


class Prices(NamedTuple):
    """Least energies in a box.

    price `[L, T]` pJ per word that enters the tiles of a level, of all its instances; fixed pJ that
    no tile decides; cycles that there are at least; outer_low and outer_high `[L + 1, n]` products
    of the factors outside a level.
    """

    price: FloatArray
    fixed: float
    cycles: int
    outer_low: Array
    outer_high: Array


def _products(factors: Array) -> Array:
    found = np.ones((len(factors) + 1, factors.shape[1]), np.int64)
    found[1:] = np.cumprod(factors, axis=0)
    return found


def whole_words(tables: NestTables, t: int) -> int:
    """Words of a tensor that enter every level: one per place of axes that are one dimension."""
    words = 1
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        if tables.term_start[axis + 1] - tables.term_start[axis] == 1:
            words *= int(tables.sizes[tables.term_dimension[tables.term_start[axis]]])
    return words


def _served(tables: NestTables, level: int, t: int, high: Array) -> float:
    """Children of a level, at most, that one read of a word of tensor t serves."""
    kind = tables.grouping[level, t]
    if kind == GROUPS_PER_CHILD:
        return 1.0
    served = math.prod(high[tables.relevant[t] == 0].tolist())
    if kind != GROUPS_PER_AXIS:
        return float(served)
    shared = float(served)
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        dims = tables.term_dimension[tables.term_start[axis] : tables.term_start[axis + 1]]
        # Sums of steps are at least as many as if all steps were equal.
        shared *= math.prod(high[dims].tolist()) / (1 + int((high[dims] - 1).sum()))
    return shared


def _first_words(tables: NestTables, t: int, box: Box, outer_high: Array, level: int) -> float:
    """Words of an output, at most, that the instances of a level are the first to see."""
    words = float(tables.words[t])
    for d in range(tables.sizes.size):
        if not tables.relevant[t, d]:
            words *= outer_high[level, d]
            continue
        size, more = int(tables.sizes[d]), 1.0
        for f in range(level):
            # All children count as the first, which may have more than its share.
            for s in range(max(2, int(box.low[f, d])), int(box.high[f, d]) + 1):
                more = max(more, s * ((size - 1) // (s - 1)) / size)
        words *= more
    return words


@lru_cache(maxsize=1 << 18)
def _fewest_trips(spans: tuple[tuple[int, int, int], ...], room: int) -> int:
    """The least product of ceil(size / factor), factors between two ends and of a product <= room.

    Args:
        spans: per dimension its size, and the least and the largest factor.
        room: what the product may be; the least factors have room.
    """
    if not spans:
        return 1
    (size, low, high), *others = spans
    left = math.prod(span[1] for span in others)
    least = -1
    factor = low
    while factor <= min(high, room // left):
        trips = -(-size // factor)
        found = trips * _fewest_trips(tuple(others), room // factor)
        least = found if least < 0 else min(least, found)
        # The next factor that needs fewer trips.
        factor = -(-size // (trips - 1)) if trips > 1 else high + 1
    return least


def least_cycles(tables: NestTables, box: Box) -> int:
    """Cycles of the products of all temporal factors, and the latencies, at least."""
    rooms = np.minimum(box.high.prod(axis=1), tables.fanout)
    low = np.minimum(box.low.prod(axis=0), tables.sizes).tolist()
    high = np.minimum(box.high.prod(axis=0), tables.sizes).tolist()
    spans = [span for span in zip(tables.sizes.tolist(), low, high, strict=True) if span[0] > 1]
    trips = _fewest_trips(tuple(spans), math.prod(rooms.tolist()))
    cycles = max(trips * int(tables.machine.cycles_per_mac), _transfer_cycles(tables))
    return cycles + int(tables.machine.waiting)


def _transfer_cycles(tables: NestTables) -> int:
    """Cycles in which every word passes the outermost level once, at least."""
    machine = tables.machine
    kept = int(machine.always_kept[0])
    if tables.keep_column[0] < 0:
        kept = ~int(machine.never_kept[0])
    words = [0.0, 0.0]
    for t in range(tables.sliding.size):
        # Of tensors whose axes share a dimension it is not known which words there are.
        if (kept >> t) & 1 and not tables.tangled[t]:
            moved = whole_words(tables, t) * machine.words[0, t]
            words[int(tables.part_kind[t] != PART_OF_INPUT)] += moved
    cycles = max(
        words[0] / tables.bandwidth[0, 0],
        words[1] / tables.bandwidth[0, 1],
        sum(words) / machine.shared[0],
    )
    return int(cycles * (1 - 1e-9))


def prices(
    tables: NestTables, keeps: tuple[int, ...], box: Box, *, sure: bool = False
) -> Prices | None:
    """The least energies of a box.

    Of an output the words that are seen first are not read; where factors differ much within a box,
    more of them might be than are read at least, and it is better to charge no reads there.

    Args:
        tables: the map space.
        keeps: `[L]` kept tensors of every level, as bits.
        box: the factors.
        sure: charge no reads and fills of outputs that the first words may outweigh.

    Returns:
        The prices; None where `sure` makes no difference.
    """
    machine, levels = tables.machine, len(keeps)
    outer_low, outer_high = _products(box.low), _products(box.high)
    rooms = np.minimum(box.high.prod(axis=1), tables.fanout)
    most = np.concatenate([[1], np.cumprod(rooms)])[:levels]
    share = np.minimum(1.0, machine.clusters / most)
    action = prices_of_values(machine)
    price = np.zeros((levels, tables.sliding.size))
    fixed = float(tables.macs) * float(tables.mac_energy)
    cycles, dropped = least_cycles(tables, box), False
    instances = outer_low.prod(axis=1)
    fixed += float((machine.leakage * instances).sum()) * cycles
    for t in range(tables.sliding.size):
        output = tables.part_kind[t] != PART_OF_INPUT
        kept = [level for level in range(levels) if (keeps[level] >> t) & 1]
        alone = tables.relevant[t] == 0
        for place, level in enumerate(kept):
            filled = share[level] * (action[level, t, 1] + machine.address[level])
            child = kept[place + 1] if place + 1 < len(kept) else levels
            served = math.prod(_served(tables, f, t, box.high[f]) for f in range(level, child))
            read = action[level, t, 0] + machine.address[level] + output * action[level, t, 2]
            if output:
                first = _first_words(tables, t, box, outer_high, level)
                filling = place > 0 and not machine.charged
                entering = whole_words(tables, t) * float(outer_low[level, alone].prod())
                asked = float(tables.macs) / served
                if child < levels:
                    asked = whole_words(tables, t) * float(outer_low[child, alone].prod()) / served
                if sure and first > 1.5 * min(asked, entering if filling else asked):
                    dropped = True
                    filled, read = 0.0 if filling else filled, read - action[level, t, 0]
                else:
                    fixed -= first * (share[level] * action[level, t, 0] + filling * filled)
            if place > 0:
                price[level, t] += filled
            per_word = share[level] * read / served
            if child < levels:
                price[child, t] += per_word
            else:
                fixed += float(tables.macs) * per_word
    if sure and not dropped:
        return None
    return Prices(price, fixed, cycles, outer_low, outer_high)
