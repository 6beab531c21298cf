"""Timeloop's mapper: random tilings, and of each the loop orders that differ.

The mapper's `algorithm` as its sources have it, `random-pruned` or `hybrid` (A. Parashar et al.,
"Timeloop: a systematic approach to DNN accelerator evaluation", ISPASS 2019, section 4.5, has the
map space): a random index factorisation; then of its loop orders those that differ, as loops of one
trip change nothing, so many at random or all one after another; and of each every choice of mesh
axes, kept tensors and banks. The defaults are those of `random-pruned`.

Left open by the sources: factorisations that no mapping fits are not drawn, as whether a mapping
fits costs no query here, and one whose mappings were all visited is drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes, Losses
from searchers.base import Searcher
from searchers.options import Count, Options, Presets, Sources

# Mappings of a tiling that are looked at together.
_AT_ONCE = 256


class TimeloopOptions(Options):
    """Hyperparameters of Timeloop's mapper."""

    PRESETS: ClassVar[Presets] = {
        "mapper": {"algorithm": "hybrid", "victory": 500},
    }
    SOURCES: ClassVar[Sources] = {
        "mapper": "Timeloop's mapper where its file says nothing: hybrid, victory-condition 500",
    }

    algorithm: Literal["random-pruned", "hybrid"] = "random-pruned"
    """`random-pruned` for some loop orders of a tiling at random, `hybrid` for all of them."""
    permutations: Count = 16
    """Loop orders of a tiling, at most, that `random-pruned` looks at
    (max-permutations-per-if-visit)."""
    victory: Count | None = None
    """Exhausted after so many consecutive mappings that are no better than the best before them
    (victory-condition); null: never."""


class Timeloop(Searcher):
    """Visits tilings at random, and of each some loop orders with all that is left to choose."""

    OPTIONS = TimeloopOptions
    SPACES = (MapSpace,)
    EXHAUSTIBLE = True  # by its victory condition
    options: TimeloopOptions
    space: MapSpace
    STATE: ClassVar[tuple[str, ...]] = (
        "_tiling",
        "_place",
        "_visits",
        "_salt",
        "_best_loss",
        "_stale",
    )

    def __init__(self, space: MapSpace, options: TimeloopOptions, *, seed: int) -> None:
        """Prepares the search; see `Searcher`."""
        super().__init__(space, options, seed=seed)
        kinds = np.array(space.attribute_kinds)
        self._orders = np.flatnonzero(kinds == "order")
        # Changed one after another, the last first: what Timeloop calls bypass and spatial splits.
        self._others = np.flatnonzero((kinds != "order") & (kinds != "tiling"))
        # A mapping `[D]` of the tiling, the next of its mappings, and how many there are to visit.
        self._tiling: Codes = np.empty(0, np.int32)
        self._place, self._visits, self._salt = 0, 0, 0
        self._best_loss, self._stale = math.inf, 0

    def _ask(self, n: int) -> Codes:
        if self.options.victory is not None:
            n = min(n, self.options.victory - self._stale)
        if n <= 0:
            return np.empty((0, len(self.space.cardinality)), np.int32)
        while True:
            if self._place >= self._visits:
                self._begin()
            codes = self._mappings(range(self._place, min(self._place + _AT_ONCE, self._visits)))
            fits = np.flatnonzero(self.space.feasible(codes))[:n]
            # What does not fit is passed by; what there was no room for comes next.
            self._place += len(codes) if len(fits) < n else int(fits[-1]) + 1
            if len(fits):
                return codes[fits]

    def _tell(self, codes: Codes, losses: Losses) -> None:
        for loss in losses.tolist():
            better = loss < self._best_loss
            self._stale = 0 if better else self._stale + 1
            self._best_loss = min(self._best_loss, loss)

    def _begin(self) -> None:
        """Draws a tiling, and says how many of its mappings are visited."""
        self._tiling = self.space.sample(self.rng, 1, feasible=True)[0]
        self._place, self._salt = 0, int(self.rng.integers(2**32))
        orders = math.prod(math.factorial(len(loop)) for loop in self._loops())
        if self.options.algorithm == "random-pruned":
            orders = min(orders, self.options.permutations)
        self._visits = orders * math.prod(map(int, self.space.cardinality[self._others]))

    def _loops(self) -> list[list[int]]:
        """Per level whose order is an attribute the dimensions that loop there."""
        names = self.space.workload.dimension_names
        levels = self.space.describe(self._tiling).levels
        # Of buffers side by side the attributes are called by their place in the nest.
        trips = {level.name: level.temporal for level in levels}
        called = [self.space.attribute_names[place].partition(".")[2] for place in self._orders]
        own = [
            trips[name] if name in trips else levels[place].temporal
            for place, name in enumerate(called)
        ]
        return [[d for d, name in enumerate(names) if one.get(name, 1) > 1] for one in own]

    def _mappings(self, places: range) -> Codes:
        """`[n, D]` the tiling's mappings at some places, the loop orders slowest."""
        codes = np.repeat(self._tiling[None], len(places), axis=0)
        rest = np.arange(places.start, places.stop)
        for attribute in self._others[::-1]:
            rest, codes[:, attribute] = np.divmod(rest, int(self.space.cardinality[attribute]))
        loops = self._loops()
        numbers, rows = np.unique(rest, return_inverse=True)
        dimensions = len(self.space.workload.dimension_names)
        for attribute, loop, digits in zip(
            self._orders,
            loops,
            zip(*self._chosen(numbers.tolist(), loops), strict=True),
            strict=True,
        ):
            ranks = [_rank(_permutation(digit, loop), dimensions) for digit in digits]
            codes[:, attribute] = np.array(ranks)[rows]
        return codes

    def _chosen(self, numbers: list[int], loops: list[list[int]]) -> list[list[int]]:
        """Per number of a loop order its place among those of every level."""
        counts = [math.factorial(len(loop)) for loop in loops]
        drawn = self.options.algorithm == "random-pruned"
        if not drawn or math.prod(counts) <= self.options.permutations:
            return [_digits(number, counts) for number in numbers]
        # The same ones whenever they are asked for: they belong to this visit of the tiling.
        rng = np.random.default_rng(self._salt)
        orders = rng.integers(counts, size=(self.options.permutations, len(counts)))
        return [[int(digit) for digit in orders[number]] for number in numbers]


def _digits(number: int, counts: Sequence[int]) -> list[int]:
    """A number in digits of so many values each, the last one fastest."""
    digits = []
    for count in reversed(counts):
        number, digit = divmod(number, count)
        digits.append(digit)
    return digits[::-1]


def _permutation(place: int, loops: Sequence[int]) -> list[int]:
    """The order of some dimensions at a place of the lexicographic list, outermost first."""
    left, found = list(loops), []
    for count in range(len(left), 0, -1):
        first, place = divmod(place, math.factorial(count - 1))
        found.append(left.pop(first))
    return found


def _rank(loops: Sequence[int], dimensions: int) -> int:
    """The lexicographic index of an order of all dimensions that begins with some of them."""
    left, rank = list(range(dimensions)), 0
    for dimension in [*loops, *(d for d in range(dimensions) if d not in loops)]:
        rank += left.index(dimension) * math.factorial(len(left) - 1)
        left.remove(dimension)
    return rank
