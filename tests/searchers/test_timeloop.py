"""Timeloop's mapper: what it visits of a tiling, and when it ends."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest

import searchers
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from searchers.base import Searcher
from searchers.timeloop import _digits, _permutation, _rank

LAYER = "cnn:N=1,K=8,C=8,P=4,Q=2,R=1,S=1"


def nest(space: MapSpace, code: Codes) -> tuple[object, ...]:
    """What of a mapping is not a loop of one trip."""
    return tuple(
        (
            level.name,
            tuple((name, level.temporal[name]) for name in level.order if level.temporal[name] > 1),
            tuple(level.spatial_loops),
            level.keep,
        )
        for level in space.describe(code).levels
    )


def visited(searcher: Searcher, count: int) -> npt.NDArray[np.int32]:
    """The first mappings that it proposes, all of them told the same loss."""
    found = []
    while sum(map(len, found)) < count:
        codes = searcher.ask(100)
        searcher.tell(np.ones(len(codes)))
        if not len(codes):
            break
        found.append(codes)
    return np.concatenate(found)[:count]


def tilings(space: MapSpace, codes: Codes) -> list[tuple[int, ...]]:
    kinds = np.array(space.attribute_kinds)
    return [tuple(map(int, row)) for row in codes[:, kinds == "tiling"]]


@pytest.mark.parametrize("machine", ["mm256", "mm256-bypass"])
def test_of_a_tiling_every_order_that_differs_is_visited_once(machine: str) -> None:
    space = MapSpace(LAYER, machine)
    codes = visited(searchers.make("timeloop", space, seed=3, algorithm="hybrid"), 4000)
    pairs = zip(tilings(space, codes), codes, strict=True)
    runs = [[code for _, code in own] for _, own in itertools.groupby(pairs, lambda one: one[0])]
    whole = runs[:-1]  # the last may go on
    assert len(whole) > 3
    seen = set()
    for run in whole:
        nests = [nest(space, code) for code in run]
        assert len(set(nests)) == len(nests)
        levels = space.describe(run[0]).levels
        orders = math.prod(
            math.factorial(sum(factor > 1 for factor in level.temporal.values()))
            for level in levels
        )
        kept = {tuple(level.keep for level in space.describe(code).levels) for code in run}
        assert len(run) == orders * len(kept)
        seen.add(len(run))
    assert len(seen) > 1


def test_so_many_orders_of_a_tiling_at_random() -> None:
    space = MapSpace("resnet-conv4", "mm256")
    codes = visited(searchers.make("timeloop", space, seed=0), 320)
    runs = [len(list(own)) for _, own in itertools.groupby(tilings(space, codes))]
    assert runs == [16] * 20
    few = visited(searchers.make("timeloop", space, seed=0, permutations=3), 30)
    assert [len(list(own)) for _, own in itertools.groupby(tilings(space, few))] == [3] * 10


def test_it_ends_where_nothing_better_comes() -> None:
    searcher = searchers.make("timeloop", MapSpace("gemm-512", "mm256"), seed=0, victory=50)
    assert len(visited(searcher, 1000)) == 51  # the first one is better than none
    assert len(searcher.ask(10)) == 0


def test_orders_in_digits() -> None:
    assert [_digits(number, [2, 3]) for number in range(6)] == [
        [0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2],
    ]  # fmt: skip
    listed = [_permutation(place, [4, 5, 7]) for place in range(6)]
    assert listed == [list(order) for order in itertools.permutations([4, 5, 7])]
    every = list(itertools.permutations(range(4)))
    assert [_rank(order, 4) for order in every] == list(range(24))
    # The others follow in their own order.
    assert every[_rank([2, 0], 4)] == (2, 0, 1, 3)


def test_buffers_in_any_order_have_their_own_loops() -> None:
    space = MapSpace("gemm:M=12,N=10,K=8", {"extends": "mm256", "tiles": "apart"})
    codes = visited(searchers.make("timeloop", space, seed=0), 100)
    assert space.feasible(codes).all()
    assert len({nest(space, code) for code in codes}) == len(codes)
