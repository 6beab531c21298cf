"""What tensors cost at least per level, where loops may have remainders: lemma 10.

Everything is counted over all instances of a level together, so that spatial factors of relevant
dimensions cancel: what the instances hold makes up the tensor at least once.

Letters: L levels, n dimensions, T tensors; arrays over cells have n axes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from costmodel.arrays.machine_tables import prices_of_values
from costmodel.arrays.projections import PART_OF_INPUT
from costmodel.arrays.tables import Array
from costmodel.exact_imperfect.cells import Cells
from costmodel.exact_imperfect.grid import FloatArray
from costmodel.exact_imperfect.spreads import LONGEST, Spread, least_cycles
from costmodel.map_space.map_space import MapSpace

MOVES_ALL = -1
"""As the axis along which a tensor moves first: none of its windows slides."""
ANY_AXIS = -2
"""Likewise: it is not known along which."""


def fewest_sums(counts: list[int], coefficients: list[int]) -> int:
    """Distinct sums of so many multiples of coefficients, of each at least so many.

    Of any sets of integers there are as many as with all coefficients 1; next to each other words
    of one dimension fill the gaps between those of the other.
    """
    found = 1 + sum(count - 1 for count in counts)
    if len(counts) == 2:
        for (n, a), (m, c) in itertools.permutations(zip(counts, coefficients, strict=True)):
            if c == 1:
                found = max(found, (n - 1) * min(a, m) + m)
    return found


@dataclass(frozen=True)
class Ends:
    """Products of spatial factors outside every level `[L + 1, n]`."""

    low: Array
    high: Array


class Charges:
    """The costs of a map space of one order with some kept tensors and spatial factors.

    Attributes:
        kept: per tensor the levels that keep it, outermost first.
        fixed: pJ that no tile decides.
    """

    def __init__(
        self, space: MapSpace, keeps: tuple[int, ...], spread: Spread, cells: Cells
    ) -> None:
        """Works out what is the same for all tiles.

        Args:
            space: the map space.
            keeps: `[L]` kept tensors of every level, as bits.
            spread: the spatial factors.
            cells: the tiles.
        """
        self.tables, self.cells, self.spread = space.tables, cells, spread
        self.levels, self.tensors = len(keeps), int(self.tables.sliding.size)
        self.sizes = self.tables.sizes
        self.ends = Ends(*spread.outside())
        self.kept = [
            [level for level in range(self.levels) if (keeps[level] >> t) & 1]
            for t in range(self.tensors)
        ]
        self._price(space)
        machine = self.tables.machine
        working = self.ends.low.prod(axis=1)
        leaking = float((machine.leakage * working).sum()) * least_cycles(space, spread)
        self.fixed = float(self.tables.macs) * float(self.tables.mac_energy) + leaking
        self.fixed += sum(self._of_macs(t) for t in range(self.tensors))

    def _price(self, space: MapSpace) -> None:
        """Sets pJ per word of all instances together `[L, T]`: clusters share an access."""
        machine = self.tables.machine
        action = prices_of_values(machine)
        instances = [1]
        for level in range(self.levels - 1):
            part = Spread(self.spread.least[: level + 1], self.spread.most[: level + 1])
            instances.append(_elements_within(space, part))
        share = np.minimum(1.0, machine.clusters / np.array(instances))
        self.address = machine.address * share
        action = action * share[:, None, None]
        self.read, self.update = action[:, :, 0], action[:, :, 2]
        self.fill = action[:, :, 1] + self.address[:, None]

    def is_output(self, t: int) -> bool:
        """Whether a tensor is produced."""
        return int(self.tables.part_kind[t]) != PART_OF_INPUT

    def is_moved(self, t: int, d: int) -> bool:
        """Whether a tensor depends on a dimension."""
        return bool(self.tables.relevant[t, d])

    def first_axis(self, t: int, d: int) -> int:
        """The window of a tensor that slides along a dimension; MOVES_ALL if none does."""
        axis = int(self.tables.axis_start[t] + self.tables.axis_of[t, d])
        return axis if len(self._terms(axis)) > 1 else MOVES_ALL

    def _terms(self, axis: int) -> list[int]:
        tables = self.tables
        terms = tables.term_dimension[tables.term_start[axis] : tables.term_start[axis + 1]]
        return [d for d in terms.tolist() if self.sizes[d] > 1]

    def _axes(self, t: int) -> list[int]:
        return list(range(int(self.tables.axis_start[t]), int(self.tables.axis_start[t + 1])))

    def _coefficients(self, axis: int) -> list[int]:
        row = self.tables.axis_coefficient[axis]
        return [abs(int(row[d])) for d in self._terms(axis)]

    def tile(self, t: int) -> FloatArray:
        """Words of a tensor's tile in every cell, at least."""
        tables, found = self.tables, np.ones((1,) * len(self.sizes))
        for axis in self._axes(t):
            extent = np.ones((1,) * len(self.sizes))
            for k in range(tables.term_start[axis], tables.term_start[axis + 1]):
                d = int(tables.term_dimension[k])
                more = abs(int(tables.term_coefficient[k])) * (self.cells.low[d] - 1)
                extent = extent + self.cells.along(d, more.astype(np.float64))
            found = found * extent
        return found

    def _factor(self, d: int, base: int, boundary: int) -> FloatArray:
        """`[m]` passes over an irrelevant dimension in all instances of level `base`.

        Args:
            d: the dimension.
            base: the level whose instances count.
            boundary: the level whose tile ends the run.
        """
        low, high, size = self.ends.low[:, d], self.ends.high[:, d], int(self.sizes[d])
        extent = self.cells.high[d]
        between = slice(min(base, boundary), max(base, boundary))
        if base >= boundary:
            ratio = float(self.spread.least[between, d].prod())
        else:
            ratio = 1 / float(self.spread.most[between, d].prod())
        whole = extent.astype(np.float64)
        if self.tables.truly and base > boundary:
            # The last tile may leave instances idle: the whole dimension's block is longer.
            whole[-1] *= LONGEST
        found = np.maximum(self._at_work(d, base), ratio * size / whole)
        if not self.tables.truly:
            # All instances count as the first one, which has its share rounded up.
            found = np.maximum(found, low[base] * (-(-size // (high[boundary] * extent))))
        return found

    def _at_work(self, d: int, base: int) -> float:
        """Instances of a level, along a dimension, that have work at all: at least."""
        several = int(self.ends.low[base, d])
        if not self.tables.truly:
            return several
        # Behind two fan-outs the last group may lack some; the first one of either is whole.
        whole = int(self.spread.least[:base, d].max(initial=1))
        return max(whole, several / LONGEST)

    def _still(self, t: int) -> list[int]:
        return [d for d in range(len(self.sizes)) if not self.is_moved(t, d)]

    def _passes(self, t: int, base: int, boundary: int) -> tuple[FloatArray, FloatArray]:
        """Passes over irrelevant dimensions, and those beyond the first of every instance."""
        still = self._still(t)
        one = np.ones((1,) * len(self.sizes))
        factors = [self.cells.along(d, self._factor(d, base, boundary)) for d in still]
        every = reduce(np.multiply, factors, one)
        if self.tables.truly:
            # The fewer instances work the more is left, but each of them passes once.
            most = [float(self.ends.high[base, d]) for d in still]
            fewer = [np.minimum(f, high) for f, high in zip(factors, most, strict=True)]
            return every, every - reduce(np.multiply, fewer, one)
        trips = reduce(
            np.multiply,
            (
                self.cells.along(
                    d,
                    (
                        -(-self.sizes[d] // (self.ends.high[boundary, d] * self.cells.high[d]))
                    ).astype(np.float64),
                )
                for d in still
            ),
            one,
        )
        first = float(self.ends.low[base, still].prod()), float(self.ends.high[base, still].prod())
        more = np.maximum(first[0] * (trips - 1), every - first[1])
        return every, more

    def charge(
        self, t: int, level: int, boundary: int, first_axis: int, lost: FloatArray
    ) -> FloatArray:
        """What enters a kept level costs, pJ, and the reads that hand it down.

        Args:
            t: the tensor.
            level: the level; it keeps the tensor, and so does one outside.
            boundary: the level whose tile ends the run; `level` where the tensor moves at once.
            first_axis: the window that slides first.
            lost: the share of passes that may rest in last passes.
        """
        parent = self.kept[t][self.kept[t].index(level) - 1]
        alone = first_axis == ANY_AXIS
        entering = self._words(t, level, level, first_axis, alone)
        handed = self._words(t, level, parent, first_axis, alone)
        found = np.zeros((1,) * len(self.sizes))
        still = self._still(t)
        for price, elided, base, words in (
            (self.fill[level, t], self._elides_fills(t), level, entering),
            (self.read[parent, t], self.is_output(t), parent, handed),
            (self._handing(t, parent), False, parent, handed),
        ):
            every, more = self._passes(t, base, boundary)
            once = math.prod(self._at_work(d, base) for d in still)
            passes = more * (1 - lost) if elided else every * (1 - lost) + once * lost
            found = found + price * words * passes
        return found

    def _handing(self, t: int, parent: int) -> float:
        price = self.address[parent] + (self.update[parent, t] if self.is_output(t) else 0.0)
        return float(price)

    def _elides_fills(self, t: int) -> bool:
        return self.is_output(t) and not self.tables.machine.charged

    def _words(self, t: int, level: int, base: int, first_axis: int, alone: bool) -> FloatArray:
        """Words of a tensor that all instances of `base` see in one pass over it, at least."""
        found = np.ones((1,) * len(self.sizes))
        windows = []
        for axis in self._axes(t):
            terms = self._terms(axis)
            if len(terms) > 1:
                windows.append(axis)
            else:
                found = found * math.prod(int(self.sizes[d]) for d in terms)
        sliding = {axis: self._window(axis, level, base, None) for axis in windows}
        if alone or not windows:
            return reduce(np.multiply, sliding.values(), found)
        whole = {axis: self._window(axis, level, base, self.cells) for axis in windows}
        choices = [
            reduce(np.multiply, (sliding[a] if a == first else whole[a] for a in windows), found)
            for first in ([first_axis] if first_axis != ANY_AXIS else windows)
        ]
        return reduce(np.minimum, choices)

    def _window(self, axis: int, level: int, base: int, cells: Cells | None) -> FloatArray:
        """Words along a window: all instances' together; without cells, each of them once."""
        terms, coefficients = self._terms(axis), self._coefficients(axis)
        low, high = self.ends.low[:, terms], self.ends.high[:, terms]
        sizes = [int(self.sizes[d]) for d in terms]
        share = [-(-size // int(most)) for size, most in zip(sizes, high[level], strict=True)]
        between = self.spread.most[base:level][:, terms].prod(axis=0)
        several = self.spread.least[base:level][:, terms].prod(axis=0)
        groups = int(several.prod()) if (between > 1).sum() <= 1 else 1 + int((several - 1).sum())
        spread_apart = (high[level] > 1).sum() > 1
        once = (
            1 + sum(one - 1 for one in share) if spread_apart else fewest_sums(share, coefficients)
        )
        times = int(low[base].prod()) * groups
        least = float(fewest_sums(sizes, coefficients))
        # Instances with less work than others overlap less: of those each word counts once.
        apart = self.tables.truly and bool((high[level] > 1).any())
        if not apart:
            least = max(least, float(times * once))
        found = np.full((1,) * len(self.sizes), least)
        if cells is None or apart:
            return found
        corners = []
        for ends in itertools.product((0, 1), repeat=len(terms)):
            trips = [self._trips(d, level, end > 0) for d, end in zip(terms, ends, strict=True)]
            every = reduce(np.multiply, trips)
            words = every * (1 - sum(coefficients))
            for i, coefficient in enumerate(coefficients):
                others = [trips[k] for k in range(len(terms)) if k != i]
                words = words + coefficient * share[i] * reduce(np.multiply, others)
            corners.append(words)
        whole: FloatArray = np.maximum(found, times * reduce(np.minimum, corners))
        return whole

    def _trips(self, d: int, level: int, most: bool) -> FloatArray:
        """Passes of one instance of a level over a dimension: at least, or at most."""
        size = int(self.sizes[d])
        if most:
            trips = np.floor(LONGEST * size / (self.ends.low[level, d] * self.cells.low[d]))
            found = np.maximum(1, trips)
        else:
            found = (-(-size // (self.ends.high[level, d] * self.cells.high[d]))).astype(np.float64)
        return self.cells.along(d, found)

    def lost(self, level: int, boundary: int, dims: list[int], longest: Array) -> FloatArray:
        """Share of a tensor's words whose loop may rest in last passes.

        A loop over one of `dims` that moves it may have one pass only in the last pass of those
        further out; there must be a temporal loop of the dimension outside its own.

        Args:
            level: the level that the tensor enters.
            boundary: the level whose tile ends the run.
            dims: the dimensions that the first loop outside the run may have.
            longest: `[n]` the largest extents of a tile of the level.
        """
        found = np.zeros((1,) * len(self.sizes))
        if level < 2 or boundary < 1:
            return found
        for d in dims:
            low, high = self._trips(d, boundary, False), self._trips(d, boundary, True)
            if self.tables.truly:
                # An instance of its own may have the short last pass.
                high = high * self.ends.high[boundary, d]
            # Rests one pass of three or more, where the tile itself ends the run; else the loops
            # outside the boundary are all that is known.
            fewest = 2 if boundary == level else 1
            share = np.where(high > fewest, 1 / np.maximum(3, low), 0.0)
            covered = -(-int(self.sizes[d]) // int(self.ends.high[level, d]))
            found = np.maximum(found, np.minimum(share, min(1.0, int(longest[d]) / covered)))
        return found

    def _of_macs(self, t: int) -> float:
        """What the MACs read of the innermost level that keeps a tensor costs, pJ."""
        level = self.kept[t][-1]
        most = self.spread.most[level:].prod(axis=0)
        least = self.spread.least[level:].prod(axis=0)
        words, first = 1.0, 1.0
        for d in self._still(t):
            words *= max(self._at_work(d, level), self.sizes[d] / most[d])
        for axis in self._axes(t):
            terms = self._terms(axis)
            if (most[terms] > 1).sum() <= 1:
                words *= math.prod(int(self.sizes[d]) for d in terms)
                first *= math.prod(int(self.sizes[d]) for d in terms)
                continue
            words *= math.prod(max(self._at_work(d, level), self.sizes[d] / most[d]) for d in terms)
            if not self.tables.truly:
                words *= 1 + int((least[terms] - 1).sum())
        found = words * float(self.read[level, t] + self._handing(t, level))
        if self.is_output(t):
            first *= float(self.ends.high[level, self._still(t)].prod())
            found -= min(words, first) * float(self.read[level, t])
        return found


def _elements_within(space: MapSpace, part: Spread) -> int:
    """Instances inside some of the fan-outs, at most."""
    found = 1
    for level in range(len(part.most)):
        if space.tables.spatial_slot[level] >= 0:
            along = math.prod(part.most[level].tolist())
            found *= min(int(space.tables.fanout[level]), along)
    return found
