"""Compiled: what is certain of the cost of a chain of tiles, as a few lines.

A chain of tiles is chosen from the MACs outwards. Each line is one choice of which tensors rest
where, a cost so far, and the prices that those which still rest will pay per trip outside their
runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled import part
from costmodel.compiled.by_reference import by_reference
from costmodel.compiled.laid_out import rows_laid_out
from costmodel.tile_chains.tiles import FloatArray

MOST_LINES = 32


@by_reference
class Lines(NamedTuple):
    """At most MOST_LINES lines, and how many there are in number `[1]`.

    tensor: the one that rests, -1 if none; cost so far; price per trip; other: one that rests
    beside it as the second of a pair, -1 if none, and other_price; dims: dimensions over which the
    innermost loop outside may run, as bits, 0 for any.
    """

    tensor: Array
    cost: FloatArray
    price: FloatArray
    other: Array
    other_price: FloatArray
    dims: Array
    number: Array


class Line(NamedTuple):
    """A line, as `Lines` say."""

    tensor: int
    cost: float
    price: float
    other: int
    other_price: float
    dims: int


def room_for_lines(levels: int) -> tuple[Lines, Array, Array]:
    """Room for the lines of a chain of tiles.

    Those in the slot outside the MACs are there: nothing rests, and nothing is paid.

    Returns:
        Lines to take others like them up by, and `[L + 1]` where those at the boundary of a level's
        tile lie, and those in the slot outside it.
    """
    count = 2 * (levels + 1)
    shape = count, MOST_LINES
    lines = Lines(
        np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape), np.full(shape, -1),
        np.zeros(shape), np.zeros(shape, np.int64), np.zeros((count, 1), np.int64),
    )  # fmt: skip
    lines.number[-1] = 1
    lines.tensor[-1, 0] = -1
    like, addresses = rows_laid_out(lines)
    return like, addresses[: levels + 1], addresses[levels + 1 :]


@part
def line_at(
    lines: Lines,
    m: int,
) -> Line:
    """One of the lines."""
    return Line(
        lines.tensor[m], lines.cost[m], lines.price[m],
        lines.other[m], lines.other_price[m], lines.dims[m],
    )  # fmt: skip


@part
def line_in(
    line: Line,
    dims: int,
) -> Line:
    """The line where loops over some dimensions alone may stand next."""
    return Line(line.tensor, line.cost, line.price, line.other, line.other_price, dims)


@part
def _same_rest(
    lines: Lines,
    m: int,
    line: Line,
) -> bool:
    same: bool = (
        lines.tensor[m] == line.tensor
        and lines.other[m] == line.other
        and lines.dims[m] == line.dims
    )
    return same


@part
def _put(
    lines: Lines,
    m: int,
    line: Line,
) -> None:
    lines.tensor[m], lines.cost[m], lines.price[m] = line.tensor, line.cost, line.price
    lines.other[m], lines.other_price[m], lines.dims[m] = line.other, line.other_price, line.dims


@part
def add_line(
    lines: Lines,
    line: Line,
) -> None:
    """Adds a line unless another is nowhere worse; where there is no room, all become one."""
    count = lines.number[0]
    for m in range(count):
        if (
            _same_rest(lines, m, line)
            and lines.cost[m] <= line.cost
            and lines.price[m] <= line.price
            and lines.other_price[m] <= line.other_price
        ):
            return
    kept = 0
    for m in range(count):
        if (
            _same_rest(lines, m, line)
            and lines.cost[m] >= line.cost
            and lines.price[m] >= line.price
            and lines.other_price[m] >= line.other_price
        ):
            continue
        _put(lines, kept, line_at(lines, m))
        kept += 1
    if kept == MOST_LINES:
        # Below all: the least cost of any line, and no price.
        cheapest = line.cost
        for m in range(kept):
            cheapest = min(cheapest, lines.cost[m])
        kept = 0
        line = Line(-1, cheapest, 0.0, -1, 0.0, 0)
    _put(lines, kept, line)
    lines.number[0] = kept + 1
