"""Divisors of an operation's sizes: the lattice of its tiles, and the credits of its axes.

Letters: n dimensions, X axes of all tensors.

A tile is an *index vector* `[n]`: per dimension the position of its extent among the divisors of
the dimension. The *lattice* is all of them; its cells are numbered with `stride`.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np

from costmodel.arrays.tables import NestTables, prime_factors
from costmodel.map_space.map_space import MapSpace


def projections(tables: NestTables) -> dict[str, Any]:
    """The fields on sizes and on what of them indexes every axis, which all tables have alike."""
    names = (
        "sizes", "relevant", "axis_start", "term_start", "term_dimension", "term_coefficient",
        "axis_of", "coefficient_of", "sliding",
    )  # fmt: skip
    return {name: getattr(tables, name) for name in names}


def divisors_of(number: int) -> list[int]:
    """All divisors, ascending."""
    divisors = [1]
    for prime, group in itertools.groupby(prime_factors(number)):
        powers = [prime**exponent for exponent in range(len(list(group)) + 1)]
        divisors = [divisor * power for divisor in divisors for power in powers]
    return sorted(divisors)


def count_cells(sizes: list[int]) -> int:
    """Cells of the lattice of an operation's tiles."""
    return math.prod(len(divisors_of(size)) for size in sizes)


def lattice(sizes: list[int]) -> dict[str, Any]:
    """The fields of `Shape` on divisors."""
    return dict(_lattice(tuple(sizes)))


@lru_cache(maxsize=8)
def _lattice(sizes: tuple[int, ...]) -> dict[str, Any]:
    """Likewise: all orders of buffers side by side have the same ones."""
    divisors: list[int] = []
    multiples: list[int] = []
    covers: list[int] = []
    divisor_start, multiple_start, cover_start = [0], [0], [0]
    for size in sizes:
        own = divisors_of(size)
        primes = set(prime_factors(size))
        for i, low in enumerate(own):
            above = [j for j in range(i, len(own)) if own[j] % low == 0]
            multiples += above
            covers += [j for j in above if own[j] // low in primes]
            multiple_start.append(len(multiples))
            cover_start.append(len(covers))
        divisors += own
        divisor_start.append(len(divisors))
    counts = np.diff(divisor_start)
    stride = np.ones(len(sizes), dtype=np.int64)
    stride[:-1] = np.cumprod(counts[::-1])[::-1][1:]
    return {
        "divisor_start": np.array(divisor_start, dtype=np.int64),
        "divisors": np.array(divisors, dtype=np.int64),
        "multiple_start": np.array(multiple_start, dtype=np.int64),
        "multiples": np.array(multiples, dtype=np.int64),
        "cover_start": np.array(cover_start, dtype=np.int64),
        "covers": np.array(covers, dtype=np.int64),
        "stride": stride,
        "cells": int(counts.prod()),
    }


def credit_layout(space: MapSpace) -> dict[str, Any]:
    """Where the credit table of each axis of several terms lies: (1 + terms) x its own lattice."""
    t = space.tables
    axes = t.term_start.size - 1
    start = np.full(axes, -1, dtype=np.int64)
    cells = np.zeros(axes, dtype=np.int64)
    stride = np.zeros(t.term_dimension.size, dtype=np.int64)
    used = 0
    for axis in range(axes):
        terms = range(t.term_start[axis], t.term_start[axis + 1])
        if len(terms) < 2:
            continue
        count = 1
        for k in reversed(terms):
            stride[k] = count
            count *= len(divisors_of(int(t.sizes[t.term_dimension[k]])))
        start[axis], cells[axis] = used, count
        used += (1 + len(terms)) * count
    return {"credit_start": start, "credit_cells": cells, "credit_stride": stride}
