"""LOMA: every order of the loops in time, each given to the memories from the innermost.

The loops are the prime factors of what is not spread over the elements; where there are more than a
limit, the two least of the dimension with most are taken together until there are not. When all
orders of a spread were visited, another one is drawn.

Source: A. Symons, L. Mei and M. Verhelst, "LOMA: fast auto-scheduling on DNN accelerators through
loop-order-based memory allocation", AICAS 2021, section III; the limit is that of ZigZag's
examples (`loma_lpf_limit`). Left open here: ZigZag's tensors of a level have loops of their own,
ours share them; it takes what is spread as given, here it is the best of some draws.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes, Losses
from searchers.base import Searcher
from searchers.options import Count, Options, Presets, Sources
from searchers.shared.nest_edits import Loop, allocated, best_spread, temporal_loops
from searchers.shared.perfect_only import refuse_remainders

# Orders that are allotted at a time: each takes milliseconds.
_AT_ONCE = 16


class LomaOptions(Options):
    """Hyperparameters of LOMA."""

    PRESETS: ClassVar[Presets] = {"paper": {"loops": 7}}
    SOURCES: ClassVar[Sources] = {"paper": "LOMA (AICAS 2021), ZigZag's released settings"}

    loops: Annotated[Count, Field(le=20)] = 7
    """The most loops that are ordered (loma_lpf_limit)."""
    draws: Count = 1000
    """Mappings at random of which that gives the spread that uses most elements."""


class Loma(Searcher):
    """Goes through the orders of one spread after another's."""

    OPTIONS = LomaOptions
    SPACES = (MapSpace,)
    BLACK_BOX = False
    options: LomaOptions
    space: MapSpace
    STATE: ClassVar[tuple[str, ...]] = ("_spread", "_place")

    def __init__(self, space: MapSpace, options: LomaOptions, *, seed: int) -> None:
        """Draws the first spread; see `Searcher`."""
        super().__init__(space, options, seed=seed)
        refuse_remainders(space, type(self).__name__)
        self._begin()

    def _begin(self) -> None:
        self._spread: Codes = best_spread(self.space, self.rng, self.options.draws)
        self._place = 0

    def _ask(self, n: int) -> Codes:
        found: list[Codes] = []
        while not found:
            mapping = self.space.describe(self._spread)
            loops = merged(temporal_loops(mapping), self.options.loops)
            count, first = orders_of(loops), self._place
            while len(found) < min(n, _AT_ONCE) and self._place < count:
                code = allocated(self.space, mapping, order_at(loops, self._place))
                self._place += 1
                if code is not None:
                    found.append(code)
            if self._place >= count:
                if not found and not first:  # nothing fits beside it: as it was drawn
                    found.append(self._spread)
                self._begin()
        return np.stack(found)

    def _tell(self, codes: Codes, losses: Losses) -> None:
        pass


def merged(loops: Sequence[Loop], most: int) -> list[Loop]:
    """At most so many loops, sorted: the two least of the dimension with most become one."""
    left = sorted(loops)
    while len(left) > most:
        counts = Counter(name for name, _ in left)
        name = max(counts, key=lambda one: counts[one])
        if counts[name] < 2:
            break
        one, two = [loop for loop in left if loop[0] == name][:2]
        left.remove(one)
        left.remove(two)
        left = sorted([*left, (name, one[1] * two[1])])
    return left


def orders_of(loops: Sequence[Loop]) -> int:
    """How many orders of loops differ."""
    return math.factorial(len(loops)) // math.prod(map(math.factorial, Counter(loops).values()))


def order_at(loops: Sequence[Loop], place: int) -> list[Loop]:
    """The order at a place of the sorted list of all that differ, 0 for the loops sorted."""
    left, found = sorted(loops), list[Loop]()
    while left:
        for loop in dict.fromkeys(left):
            rest = [*left]
            rest.remove(loop)
            count = orders_of(rest)
            if place < count:
                break
            place -= count
        found.append(loop)
        left = rest
    return found
