"""The least energy of everything that enters tiles, for a box of spatial factors.

It is found over a grid of extents, one level after another from the outside;
docs/inside/proof-any-levels.md says why it is a bound. A *step* is the tile of all children of a
level; a tensor *rests* while no loop moves it, and then costs a price times the passes of all loops
outside its run.

Letters: L levels, n dimensions, T tensors; cells are arrays with an axis per dimension.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import NestTables
from costmodel.exact_imperfect.grid import FloatArray, Grid
from costmodel.exact_imperfect.prices import Box, Prices, whole_words

LOST = (0.0, 0.04, 0.13, 1 / 3)
"""Shares of a tensor's words, rounded up to one of these, that may rest longer than the others."""
_WIDEST = 6


class Operation:
    """What the chains of an operation have in common.

    Attributes:
        tables: the map space.
        grid: the cells.
        classes: tensors that rest under a loop (`rest`, bits) and the dimensions of such loops.
        windows: tensors of which only the first words of every place are certain, as bits.
        lost: per dimension, per cell, the share of the last pass that may be one step alone.
    """

    def __init__(self, tables: NestTables, grid: Grid) -> None:
        """Lays out the operation of a map space."""
        self.tables, self.grid = tables, grid
        found: dict[int, list[int]] = {}
        for d, size in enumerate(tables.sizes.tolist()):
            if size > 1:
                rest = sum(1 << t for t in range(tables.sliding.size) if not tables.relevant[t, d])
                found.setdefault(rest, []).append(d)
        self.classes = [(rest, tuple(dims)) for rest, dims in found.items()]
        self.windows = sum(
            1 << t for t in range(tables.sliding.size) if tables.sliding[t] or tables.tangled[t]
        )
        self.words = [float(whole_words(tables, t)) for t in range(tables.sliding.size)]
        self.lost = [self._lost(d) for d in range(tables.sizes.size)]

    def _lost(self, d: int) -> FloatArray:
        size, low, high = int(self.tables.sizes[d]), self.grid.low[d], self.grid.high[d]
        share = np.where(
            3 * high <= size, high, np.where(3 * low >= size, size - 2 * low, size / 3)
        )
        if self.tables.truly:
            share = np.full(len(low), float(size))
        return self.grid.along(d, np.clip(share / size, 0.0, 1.0))

    def passes(self, t: int, extents: list[npt.NDArray[np.int64]], least: FloatArray) -> FloatArray:
        """Passes over the dimensions that do not move tensor t, at least, per cell.

        Args:
            t: the tensor.
            extents: per dimension and interval, the most that one pass covers.
            least: `[n]` instances that each make one.
        """
        found = np.ones([1] * len(self.grid.shape))
        for d, size in enumerate(self.tables.sizes.tolist()):
            if self.tables.relevant[t, d] or size == 1:
                continue
            if self.tables.truly:
                times = np.full(len(extents[d]), least[d])
            else:
                times = np.maximum(-(-size // np.minimum(extents[d], size)), least[d])
            found = found * self.grid.along(d, times)
        return found


class Chain:
    """The chain of one box, for one set of kept tensors."""

    def __init__(
        self, operation: Operation, free: list[FloatArray], prices: Prices, box: Box
    ) -> None:
        """Takes what is known of a box; `least` does the work.

        Args:
            operation: the operation.
            free: per level, 0 in cells that its kept tensors fit, else inf.
            prices: of the box.
            box: the spatial factors.
        """
        self._op, self._free, self._prices, self._box = operation, free, prices, box
        tables, grid = operation.tables, operation.grid
        self._levels, self._tensors = len(free), tables.sliding.size
        n = tables.sizes.size
        self._start, self._stop, self._reach, self._valid = [], [], [], []
        for level in range(self._levels):
            low, high = box.low[level], box.high[level]
            steps = [np.minimum(low[d] * grid.low[d], tables.sizes[d]) for d in range(n)]
            reach = [np.minimum(high[d] * grid.high[d], tables.sizes[d]) for d in range(n)]
            self._start.append([grid.cell(d, steps[d]) for d in range(n)])
            self._stop.append([grid.cell(d, reach[d]) for d in range(n)])
            self._reach.append(reach)
            # All children have work, so that all but the last one's are covered.
            beyond = np.zeros([1] * n)
            for d in range(n):
                too_far = (low[d] - 1) * grid.low[d] >= tables.sizes[d]
                beyond = beyond + grid.along(d, np.where(too_far, np.inf, 0.0))
            self._valid.append(beyond)
        self._settled: list[FloatArray] = []
        self._resting: dict[tuple[int, int, float], FloatArray] = {}
        # Asked for many times each.
        self._once = cache(self._cost_once)
        self._moving = cache(self._cost_moving)
        self._nothing_outside = cache(self._cost_of_nothing)
        self._class_cost = cache(self._cost_of_class)

    def least(self) -> float:
        """Energy of all words that enter tiles, pJ, at least; inf if no tiles fit."""
        outside = np.full(self._op.grid.shape, np.inf)
        outside[(-1,) * outside.ndim] = 0.0
        for level in range(self._levels):
            if level > 0:
                outside = self._boundary(level)
            for d in range(outside.ndim):
                outside = _from_above(outside, d)
            self._settled.append(outside)
        last = self._levels - 1
        first = tuple(int(starts[0]) for starts in self._start[last])
        found = float(self._settled[last][first])
        # What is asked for many times refers to the chain, which would outlive its use.
        del self._once, self._moving, self._nothing_outside, self._class_cost
        return found

    def _step(self, level: int, cells: FloatArray, t: int = -1) -> FloatArray:
        """What a table of a level's steps says to the tiles of its children.

        Args:
            level: the level.
            cells: the table, already the least of all larger cells but along dimensions that move
                tensor t.
            t: the tensor; -1: of all larger cells.
        """
        for d in range(cells.ndim):
            start, stop = self._start[level][d], self._stop[level][d]
            most = int((stop - start).max())
            if t < 0 or not self._op.tables.relevant[t, d] or most == 0:
                cells = np.take(cells, start, axis=d)
            elif most > _WIDEST:
                cells = np.take(_from_above(cells, d), start, axis=d)
            else:
                found = np.take(cells, start, axis=d)
                for more in range(1, most + 1):
                    further = np.take(cells, np.minimum(start + more, stop), axis=d)
                    found = np.minimum(found, further)
                cells = found
        return cells

    def _price(self, level: int, t: int) -> float:
        return float(self._prices.price[level, t]) * self._op.words[t]

    def _spread(self, level: int, t: int) -> float:
        """Children of a level, at least, that hold copies of what tensor t has there."""
        alone = self._op.tables.relevant[t] == 0
        return float(math.prod(self._box.low[level][alone].tolist()))

    def _copies(self, level: int, t: int) -> float:
        """Instances of a level, at least, that hold copies of a word of tensor t."""
        alone = self._op.tables.relevant[t] == 0
        return float(math.prod(self._prices.outer_low[level][alone].tolist()))

    def _cost_once(self, level: int, t: int) -> FloatArray | float:
        """What the tiles of a level cost at least, of tensor t."""
        price = self._price(level, t) * self._copies(level, t)
        if price == 0 or not (self._op.windows >> t) & 1:
            return price
        tables, grid = self._op.tables, self._op.grid
        if tables.tangled[t]:
            return 0.0
        cost = np.full([1] * len(grid.shape), price)
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            dims = tables.term_dimension[tables.term_start[axis] : tables.term_start[axis + 1]]
            if len(dims) > 1:
                copies = math.prod(self._prices.outer_low[level][dims].tolist())
                cost = cost * grid.width(tables, axis) * (1.0 if tables.truly else copies)
        return cost

    def _cost_moving(self, level: int, t: int, dims: tuple[int, ...]) -> FloatArray | float:
        """What tensor t costs at least where the innermost loop outside a tile moves it."""
        price = self._price(level, t)
        once = self._once(level, t)
        if price == 0 or (self._op.windows >> t) & 1:
            return once
        outer = self._prices.outer_low[level - 1].astype(np.float64)
        times = self._op.passes(t, self._reach[level - 1], outer) * self._spread(level - 1, t)
        lost = self._lost(dims)
        return (1 - lost) * price * times + lost * once

    def _lost(self, dims: tuple[int, ...]) -> FloatArray:
        found = np.zeros([1] * len(self._op.grid.shape))
        for d in dims:
            found = np.maximum(found, self._op.lost[d])
        return found

    def _moving_dims(self, t: int) -> tuple[int, ...]:
        moving = np.flatnonzero(self._op.tables.relevant[t] * (self._op.tables.sizes > 1))
        return tuple(int(d) for d in moving)

    def _rests(self, level: int, t: int, price: float) -> FloatArray:
        """A level's steps, where tensor t rests outside them and costs a price per pass."""
        key = (level, t, price)
        if key in self._resting:
            return self._resting[key]
        outer = self._prices.outer_low[level].astype(np.float64)
        times = self._op.passes(t, self._op.grid.high, outer)
        found = np.minimum(price * times + self._settled[level], self._across(level, t, price))
        for d in range(found.ndim):
            if not self._op.tables.relevant[t, d]:
                found = _from_above(found, d)
        self._resting[key] = self._step(level, found, t)
        return self._resting[key]

    def _across(self, level: int, t: int, price: float) -> FloatArray:
        """A level's tiles, where tensor t goes on resting outside them, at a price per pass."""
        if level == 0:
            found = np.full(self._op.grid.shape, np.inf)
            found[(-1,) * found.ndim] = price
            return found
        own, spread = self._price(level, t), self._spread(level - 1, t)
        lost = max(float(self._op.lost[d].max()) for d in self._moving_dims(t) or (0,))
        further = spread * (price + own * (1 - lost))
        ending = own * lost * self._copies(level, t)
        least = self._nothing_outside(level) + price * self._copies(level, t)
        for rest, dims in self._op.classes:
            if (rest >> t) & 1:
                base = self._class_cost(level, rest, dims, t) + ending
                least = np.minimum(least, base + self._rests(level - 1, t, further))
        return least + self._free[level]

    def _cost_of_class(
        self, level: int, rest: int, dims: tuple[int, ...], followed: int
    ) -> FloatArray:
        """What tensors cost at least, but for the one that is followed; inf without such a loop."""
        sizes, outer = self._op.tables.sizes, self._prices.outer_low[level - 1]
        grid, box = self._op.grid, self._box
        cost = np.full([1] * len(grid.shape), np.inf)
        for d in dims:
            covered = box.low[level - 1, d] * grid.low[d] * outer[d]
            cost = np.minimum(cost, grid.along(d, np.where(covered < sizes[d], 0.0, np.inf)))
        for t in range(self._tensors):
            if t == followed:
                continue
            if (rest >> t) & 1:
                cost = cost + self._once(level, t)
            else:
                cost = cost + self._moving(level, t, dims)
        return cost

    def _cost_of_nothing(self, level: int) -> FloatArray:
        """A level's tiles where no loop is left outside them."""
        grid = self._op.grid
        cost = self._valid[level - 1]
        for d, size in enumerate(self._op.tables.sizes.tolist()):
            reach = self._reach[level - 1][d] * self._prices.outer_high[level - 1, d]
            cost = cost + grid.along(d, np.where(reach >= size, 0.0, np.inf))
        for t in range(self._tensors):
            cost = cost + self._once(level, t)
        return cost + self._step(level - 1, self._settled[level - 1])

    def _boundary(self, level: int) -> FloatArray:
        """A level's tiles: the least cost of everything that enters them and tiles outside."""
        least = self._nothing_outside(level)
        settled = self._step(level - 1, self._settled[level - 1])
        for rest, dims in self._op.classes:
            bound = self._class_cost(level, rest, dims, -1) + settled
            for t in range(self._tensors):
                price = self._price(level, t)
                if (rest >> t) & 1 and price > 0 and not (self._op.windows >> t) & 1:
                    others = self._class_cost(level, rest, dims, t)
                    bound = np.maximum(bound, others + self._at_rest(level, t, price))
            least = np.minimum(least, bound)
        return least + self._free[level] + self._valid[level - 1]

    def _at_rest(self, level: int, t: int, price: float) -> FloatArray:
        """What tensor t and everything outside a level's steps cost, where t rests."""
        lost = self._lost(self._moving_dims(t))
        spread, once = self._spread(level - 1, t), self._once(level, t)
        found = np.full([1] * lost.ndim, np.inf)
        before = -1.0
        for share in LOST if not self._op.tables.truly else (1.0,):
            here = np.where((lost > before) & (lost <= share + 1e-12), 0.0, np.inf)
            before = share + 1e-12
            if np.isfinite(here).any():
                outside = self._rests(level - 1, t, price * spread * (1 - share))
                found = np.minimum(found, here + outside + share * once)
        return found


def _from_above(cells: FloatArray, axis: int) -> FloatArray:
    """The least of a cell and all larger ones along an axis."""
    found = cells.copy()
    # A view; `np.minimum.accumulate` takes many times as long along short axes.
    rows = found.swapaxes(0, axis)
    for k in range(len(rows) - 2, -1, -1):
        np.minimum(rows[k], rows[k + 1], out=rows[k])
    return found
