"""Imperfect map spaces for a searcher that moves prime factors: as perfect ones of larger sizes.

A factorisation with remainders is an exact one of a larger size, with its outermost loop made as
short as can be: 197 over 14 children and 15 steps is one of 210. So a round of chains takes larger
sizes and walks in their perfect space, where proposals know what a prime is; every mapping is
scored, and told, as the mapping with remainders that it stands for. A tile of a larger size is
never smaller, so that what fits there fits here.

Letters: n dimensions, S slots, D attributes of a code.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from costmodel.arrays.imperfect_tilings import (
    SMALL_PRIMES,
    last_passes,
    outermost_as_needed,
)
from costmodel.arrays.remainders import Remainders, fold_remainders, make_walk
from costmodel.arrays.tables import Array, NestTables
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from searchers.compiled.cost_function import CompiledCosts, ImperfectCosts
from searchers.compiled.structured_state import Hand, make_hand

# How much larger a size may be, and how many larger ones there are of a dimension.
_LARGER = 1.25
_MOST_SIZES = 8
# Shares of rounds in which a dimension keeps its size: one of small primes, another.
_KEPT = (0.75, 0.3)
# Share of rounds that start from the best sizes so far, with one dimension drawn anew.
_FROM_BEST = 0.6
# Share of rounds at the real sizes, whose mappings are scored twenty times as fast.
_REAL = 0.9


class Padded(NamedTuple):
    """A perfect space of larger sizes, and what its factorisations stand for.

    Attributes:
        space: of the larger sizes.
        hand: what proposals there are made of.
        tables: the factorisations with outermost loops as short as can be, row by row as in the
            space; sizes and tensors are the real ones.
        remainders: of these.
        place: `[rows]` where the row stands in the imperfect space, within its dimension; -1: it
            is none of it.
        exact: whether no size is larger, and the perfect model counts to the same bit.
    """

    space: MapSpace
    hand: Hand
    tables: NestTables
    remainders: Remainders
    place: Array
    exact: bool

    def codes_of(self, codes: Codes) -> tuple[Codes, Array]:
        """Codes `[B, D]` in the imperfect space, and the rows `[m]` of those that are in it."""
        n = self.tables.sizes.size
        places = self.place[codes[:, :n] + self.tables.row_start[:-1]]
        found = np.flatnonzero((places >= 0).all(axis=1))
        translated = codes.copy()
        translated[:, :n] = places
        return translated, found

    def costs(self, costs: CompiledCosts) -> CompiledCosts:
        """Compiled costs of codes of the perfect space, by its own model where that is exact."""
        if self.exact:
            return costs._replace(tables=self.space.tables, imperfect=None)
        return costs._replace(
            tables=self.tables,
            imperfect=ImperfectCosts(
                self.remainders, make_walk(self.tables, self.remainders), np.zeros(1), self.place
            ),
        )


class PaddedSizes:
    """Draws larger sizes, and lays out their spaces."""

    def __init__(self, space: MapSpace, outer_fill: float) -> None:
        """Takes the imperfect space and the option of `structured` that choices need."""
        self._space = space
        self._sizes = [larger_sizes(size) for size in space.tables.sizes.tolist()]
        self._places: list[dict[bytes, int]] = []
        starts = space.tables.row_start
        for d in range(len(self._sizes)):
            rows = space.tables.factors[starts[d] : starts[d + 1]]
            self._places.append({row.tobytes(): i for i, row in enumerate(rows)})
        # Energies of hops are summed in another order.
        self._has_network = any(
            level.hop_energy_pj or level.router_pj or level.ingress_pj
            for level in space.accelerator.levels
        )
        self._machine = space.accelerator.model_copy(update={"factors": "perfect"})
        self.lay_out = lru_cache(maxsize=32)(lambda sizes: self._lay_out(sizes, outer_fill))

    def draw(self, rng: np.random.Generator, best: list[int]) -> list[int]:
        """Sizes for a round: the real ones, drawn anew, or the best so far with another one."""
        if not best or rng.random() < _REAL:
            return [sizes[0] for sizes in self._sizes]
        drawn = [self._draw_size(rng, sizes) for sizes in self._sizes]
        if rng.random() < _FROM_BEST:
            chosen = int(rng.integers(len(drawn)))
            drawn = [*best[:chosen], drawn[chosen], *best[chosen + 1 :]]
        return drawn

    def _draw_size(self, rng: np.random.Generator, sizes: list[int]) -> int:
        kept = _KEPT[0] if _has_small_primes(sizes[0]) else _KEPT[1]
        if len(sizes) == 1 or rng.random() < kept:
            return sizes[0]
        return sizes[1 + int(rng.integers(len(sizes) - 1))]

    def _lay_out(self, sizes: tuple[int, ...], outer_fill: float) -> Padded:
        workload = self._space.workload
        dimensions = dict(zip(workload.dimension_names, sizes, strict=True))
        larger = MapSpace(workload.model_copy(update={"dimensions": dimensions}), self._machine)
        tables, real = larger.tables, self._space.tables
        factors, rests, place = [], [], []
        for d, size in enumerate(real.sizes.tolist()):
            given = tables.factors[tables.row_start[d] : tables.row_start[d + 1]]
            rows = outermost_as_needed(size, given)
            factors.append(rows)
            rests.append(last_passes(size, rows))
            place.append([self._places[d].get(row.tobytes(), -1) for row in rows])
        all_factors = np.concatenate(factors)
        within, remainders = fold_remainders(all_factors, np.concatenate(rests))
        return Padded(
            space=larger,
            hand=make_hand(tables, outer_fill),
            tables=real._replace(row_start=tables.row_start, factors=all_factors, within=within),
            remainders=remainders,
            place=np.concatenate([np.array(part, dtype=np.int64) for part in place]),
            exact=list(sizes) == real.sizes.tolist() and not self._has_network,
        )


def larger_sizes(size: int) -> list[int]:
    """A size, and the next larger ones that are products of small primes."""
    larger = [v for v in range(size + 1, int(size * _LARGER) + 1) if _has_small_primes(v)]
    return [size, *larger[:_MOST_SIZES]]


def _has_small_primes(size: int) -> bool:
    for prime in SMALL_PRIMES:
        while size % prime == 0:
            size //= prime
    return size == 1
