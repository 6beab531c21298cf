"""What a mapper's constraints leave of a map space, as the proof asks for it.

The constraints are those that `costmodel.map_space.constraint_reading` reads: least and most
factors per level and dimension, loops that stand innermost or outermost, places along width and
height, kept and bypassed tensors, a least share of units at work. They only take mappings away, so
that every bound still holds; what they forbid is left out where it is chosen, and of tiles that no
mapping has before that.

Letters: L levels, n dimensions, V vectors.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import LARGEST_COUNT
from costmodel.tile_chains.spatial import every_axes

Place = tuple[int, tuple[int, ...]]
"""What runs along a mesh's height, as bits, and the order of spatial loops, outermost first."""


@dataclass(frozen=True)
class Decision:
    """Something that mappings decide: a level holds a tensor or not, or spreads a dimension.

    Attributes:
        level: the level's position in the file.
        name: its name.
        tensor: the tensor's position; -1: it is about a dimension.
        held: whether the level holds the tensor.
        dimension: the position of the dimension that runs across the level's children; -1: it is
            about a tensor.
    """

    level: int
    name: str
    tensor: int = -1
    held: bool = True
    dimension: int = -1

    def among(self, space: MapSpace, keeps: tuple[int, ...]) -> bool:
        """Whether a choice `[L]` of kept tensors, in a space of one order, decides so."""
        level = space.accelerator.level_names.index(self.name)
        return self.tensor >= 0 and bool(keeps[level] >> self.tensor & 1) == self.held


class Rules:
    """The constraints of a space; without any, everything is allowed."""

    def __init__(self, space: MapSpace, without: Decision | None = None) -> None:
        """Notes the constraints of a map space.

        Args:
            space: the map space, of one order.
            without: what no mapping may decide; None: all are left that the constraints leave.
        """
        self._space = space
        self._all = space.constraints
        self._without = without

    def keeps(self, choices: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The choices `[L]` of kept tensors that are left."""
        without = self._without
        if without is not None:
            choices = [keeps for keeps in choices if not without.among(self._space, keeps)]
        rules = self._all
        if rules is None:
            return choices
        return [
            keeps
            for keeps in choices
            if all(
                held & must == must and not held & never
                for held, must, never in zip(keeps, rules.keep, rules.bypass, strict=True)
            )
        ]

    def vectors(self, level: int, rows: Array) -> Array:
        """The spatial factors `[V, n]` of a level that are left."""
        without = self._without
        if without is not None and without.dimension >= 0 and without.level == level:
            rows = rows[rows[:, without.dimension] == 1]
        if self._all is None:
            return rows
        return rows[[bool(self.arrangements(level, row)) for row in rows]]

    def arrangements(self, level: int, factors: Array) -> list[Place]:
        """Ways to lay spatial factors `[n]` on a level's mesh, one of those that are alike."""
        if self._all is None:
            return self.every_place(self._space, level, factors)
        moving = [d for d in range(factors.size) if factors[d] > 1]
        rules = self._all.spatial[level]
        if rules is None:
            return [] if moving else [(0, ())]
        if self._space.tables.machine.both[level]:
            # What may run along which axis the tables say, and `vectors` looks at it.
            within = zip(rules.least, factors.tolist(), rules.most, strict=True)
            return [(0, tuple(moving))] if all(a <= f <= b for a, f, b in within) else []
        found = [
            (height, order)
            for height in every_axes(self._space, level, factors)
            for order in itertools.permutations(moving)
            if rules.allows(factors.tolist(), order, height)
        ]
        return list({_nest(*place): place for place in reversed(found)}.values())

    @staticmethod
    def every_place(space: MapSpace, level: int, factors: Array) -> list[Place]:
        """As `arrangements`, without constraints."""
        moving = [d for d in range(factors.size) if factors[d] > 1]
        found: dict[tuple[int, ...], Place] = {}
        for height in every_axes(space, level, factors):
            along = [d for d in moving if (height >> d) & 1]
            across = [d for d in moving if not (height >> d) & 1]
            for outside in itertools.permutations(along):
                for inside in itertools.permutations(across):
                    found.setdefault((*outside, *inside), (height, (*outside, *inside)))
        return list(found.values())

    def enough_work(self, elements: Array) -> Array:
        """Whether so many elements `[A]` are a large enough share."""
        if self._all is None:
            return np.ones(elements.shape, np.bool_)
        return np.asarray(elements / self._all.units >= self._all.parallelism)

    def trips(self, levels: int) -> tuple[Array, Array]:
        """`[L, n]` the least and the most temporal factors of every level that are left."""
        shape = levels, self._space.tables.sizes.size
        least, most = np.ones(shape, np.int64), np.full(shape, LARGEST_COUNT)
        for level, rules in enumerate(() if self._all is None else self._all.temporal):
            least[level], most[level] = rules.least, rules.most
        return least, most

    def extents(self) -> tuple[Array, Array]:
        """`[L, n]` the least and the largest extents that a level's tile can have.

        They are the products of the factors inside, and leave those outside their share.
        """
        sizes = self._space.tables.sizes
        shape = self._space.tables.capacity.size, sizes.size
        low, high = np.ones(shape, np.int64), np.broadcast_to(sizes, shape).copy()
        if self._all is None:
            return low, high
        pairs = list(zip(self._all.temporal, self._all.spatial, strict=True))
        slots = [[rules for rules in pair if rules is not None] for pair in pairs]
        for d, size in enumerate(sizes.tolist()):
            for level in range(shape[0]):
                inside = [rules for listed in slots[level:] for rules in listed]
                outside = [rules for listed in slots[:level] for rules in listed]
                fewest, rest = (math.prod(r.least[d] for r in part) for part in (inside, outside))
                most, others = (math.prod(r.most[d] for r in part) for part in (inside, outside))
                low[level, d] = max(min(fewest, size + 1), -(-size // max(1, others)))
                high[level, d] = min(most, size // max(1, rest))
        return low, high

    def ranks(self) -> Array:
        """`[L, n]` loops of a lower rank stand inside those of a higher one."""
        shape = self._space.tables.capacity.size, self._space.tables.sizes.size
        ranks = np.zeros(shape, np.int64)
        for level, rules in enumerate(() if self._all is None else self._all.temporal):
            ranks[level] = len(rules.inner)
            ranks[level, list(rules.inner)] = np.arange(len(rules.inner))
            ranks[level, list(rules.outer)] = 1 + len(rules.inner) + np.arange(len(rules.outer))
        return ranks


def _nest(height: int, order: tuple[int, ...]) -> tuple[int, ...]:
    """Spatial loops as children are numbered: those along the height outside the others."""
    return tuple(sorted(order, key=lambda d: not (height >> d) & 1))
