"""Mappings of a problem, all of them or some at random, in plain Python.

A *shape* is a tiling's factors: per dimension one factor for every place of a loop, the temporal
loops of each level and the spatial loops where it fans out.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from costmodel.independent.counting import Orders, Tiling
from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload

Shape = tuple[tuple[int, ...], ...]


def factorisations(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a product of so many factors, in order."""
    if parts == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for rest in factorisations(number // first, parts - 1):
                yield (first, *rest)


def primes(number: int) -> list[int]:
    """Prime factors with multiplicity, ascending."""
    found, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found + ([number] if number > 1 else [])


@dataclass
class Mappings:
    """The mappings of a workload on a machine, or those of them that keep what was fixed.

    Attributes:
        workload: the operation.
        accelerator: the machine.
        keep: tensors kept by level, where that was fixed; None: as the machine has it.
    """

    workload: Workload
    accelerator: Accelerator
    keep: Mapping[str, Sequence[str]] | None = None
    _places: list[tuple[int, bool]] = field(init=False)
    _keep_choices: list[list[frozenset[int]]] = field(init=False)

    def __post_init__(self) -> None:
        self._keep_choices = self._list_keep_choices()
        self._places = [
            (index, spatial)
            for index, level in enumerate(self.accelerator.levels)
            for spatial in ((False, True) if level.fanout > 1 else (False,))
        ]

    def shapes(self) -> Iterator[Shape]:
        """Every shape."""
        sizes = self.workload.dimensions.values()
        every = [list(factorisations(size, len(self._places))) for size in sizes]
        return itertools.product(*every)

    def shape_count(self) -> int:
        """How many shapes there are."""
        places = len(self._places)
        return math.prod(
            math.comb(exponent + places - 1, places - 1)
            for size in self.workload.dimensions.values()
            for _, group in itertools.groupby(primes(size))
            for exponent in [len(list(group))]
        )

    def random_shape(self, rng: random.Random) -> Shape:
        """A shape at random; how much lies at each place varies widely."""
        weights = [rng.random() ** 3 for _ in self._places]
        shape = []
        for size in self.workload.dimensions.values():
            factors = [1] * len(self._places)
            for prime in primes(size):
                factors[rng.choices(range(len(factors)), weights)[0]] *= prime
            shape.append(tuple(factors))
        return tuple(shape)

    def shape_of(self, tiling: Tiling) -> Shape:
        """The shape of a tiling."""
        rows = [
            (tiling.spatial if spatial else tiling.temporal)[index]
            for index, spatial in self._places
        ]
        return tuple(zip(*rows, strict=True))

    def neighbours(self, shape: Shape) -> Iterator[Shape]:
        """The shapes that differ by one prime factor at another place."""
        for d, factors in enumerate(shape):
            for source, target in itertools.permutations(range(len(factors)), 2):
                for prime in dict.fromkeys(primes(factors[source])):
                    moved = list(factors)
                    moved[source] //= prime
                    moved[target] *= prime
                    yield (*shape[:d], tuple(moved), *shape[d + 1 :])

    def keep_choices(self) -> list[list[frozenset[int]]]:
        """Per level the sets of tensors that it may keep."""
        return self._keep_choices

    def _list_keep_choices(self) -> list[list[frozenset[int]]]:
        names = self.workload.tensor_names
        every = frozenset(range(len(names)))
        choices = []
        for index, level in enumerate(self.accelerator.levels):
            always, never = self._named(level.keep), self._named(level.bypass)
            if self.keep is not None and level.name in self.keep:
                kept = frozenset(names.index(name) for name in self.keep[level.name])
                choices.append([kept])
            elif index and self.accelerator.bypass == "searched":
                choices.append(
                    [
                        always | frozenset(chosen)
                        for count in range(len(names), -1, -1)
                        for chosen in itertools.combinations(sorted(every - always - never), count)
                    ]
                )
            else:
                choices.append([every - never])
        return choices

    def _named(self, names: Sequence[str]) -> frozenset[int]:
        """The tensors that names or roles stand for."""
        roles = self.workload.roles.items()
        return frozenset(
            t for t, (tensor, role) in enumerate(roles) if tensor in names or role in names
        )

    def keeps_all(self, kept: Sequence[frozenset[int]]) -> bool:
        """Whether every tensor is kept at some level."""
        return len(frozenset().union(*kept)) == len(self.workload.tensors)

    def tilings(self, shape: Shape) -> Iterator[Tiling]:
        """Every tiling of a shape, feasible or not: kept tensors and places on the mesh."""
        base = self._bare(shape)
        arrangements = [
            list(self._arrangements(index, base.spatial[index]))
            for index in range(len(self.accelerator.levels))
        ]
        for kept in filter(self.keeps_all, itertools.product(*self.keep_choices())):
            for arranged in itertools.product(*arrangements):
                yield replace(
                    base,
                    keep=kept,
                    spatial_order=tuple(order for order, _ in arranged),
                    upwards=tuple(up for _, up in arranged),
                )

    def random_tiling(self, rng: random.Random, shape: Shape) -> Tiling:
        """A tiling of a shape at random."""
        base = self._bare(shape)
        arranged = [
            rng.choice(list(self._arrangements(index, spatial)))
            for index, spatial in enumerate(base.spatial)
        ]
        kept = tuple(rng.choice(choices) for choices in self.keep_choices())
        while not self.keeps_all(kept):
            kept = tuple(rng.choice(choices) for choices in self.keep_choices())
        return replace(
            base,
            keep=kept,
            spatial_order=tuple(order for order, _ in arranged),
            upwards=tuple(up for _, up in arranged),
        )

    def _bare(self, shape: Shape) -> Tiling:
        n, levels = len(shape), len(self.accelerator.levels)
        rows = dict(zip(self._places, zip(*shape, strict=True), strict=True))
        ones = (1,) * n
        return Tiling(
            tuple(rows[index, False] for index in range(levels)),
            tuple(rows.get((index, True), ones) for index in range(levels)),
            (frozenset(),) * levels,
            (tuple(range(n)),) * levels,
            (frozenset(),) * levels,
        )

    def _arrangements(
        self, index: int, factors: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], frozenset[int]]]:
        """Orders of the spatial loops, and which run upwards, that can make a difference."""
        level = self.accelerator.levels[index]
        loops = [d for d, factor in enumerate(factors) if factor > 1]
        still = [d for d, factor in enumerate(factors) if factor == 1]
        upwards: list[frozenset[int]] = [frozenset()]
        # Along both axes it makes no difference what runs upwards: hops are free there.
        both = self.accelerator.takes_both_axes(level)
        if level.mesh is not None and level.mesh[1] > 1 and not both:
            upwards = [
                frozenset(chosen)
                for count in range(len(loops) + 1)
                for chosen in itertools.combinations(loops, count)
            ]
        for up in upwards:
            # Loops along the height stand outside those along the width.
            parts = [d for d in loops if d in up], [d for d in loops if d not in up]
            orders: Iterator[tuple[Sequence[int], ...]] = iter([parts])
            if level.hop_energy_pj or level.router_pj or self.accelerator.link_transfers:
                orders = itertools.product(*map(itertools.permutations, parts))
            for tall, wide in orders:
                yield (*tall, *wide, *still), up


def loops_that_turn(tiling: Tiling, *, last: bool) -> list[list[int]]:
    """Per level the dimensions whose orders can make a difference.

    Args:
        tiling: the tiling.
        last: whether those of the innermost level can: where MACs hand words to each other.
    """
    rows = [[d for d, trips in enumerate(row) if trips > 1] for row in tiling.temporal]
    return rows if last else [*rows[:-1], []]


def order_count(tiling: Tiling, *, last: bool = False) -> int:
    """How many orders of temporal loops can make a difference."""
    return math.prod(math.factorial(len(row)) for row in loops_that_turn(tiling, last=last))


def every_order(tiling: Tiling, *, last: bool = False) -> Iterator[Orders]:
    """All orders of the temporal loops that turn."""
    return itertools.product(*map(itertools.permutations, loops_that_turn(tiling, last=last)))


def random_orders(tiling: Tiling, rng: random.Random, *, last: bool = False) -> Orders:
    """Orders of the temporal loops at random."""
    return tuple(tuple(rng.sample(row, len(row))) for row in loops_that_turn(tiling, last=last))
