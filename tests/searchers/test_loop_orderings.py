"""GAMMA, LOMA, SALSA and FactorFlow: what they visit, counted by hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import searchers
from costmodel import LoopNestModel, MapSpace
from searchers.base import Searcher
from searchers.factorflow import FactorFlow
from searchers.gamma import Gamma, _spread
from searchers.loma import Loma, merged, order_at, orders_of
from searchers.salsa import Salsa
from searchers.shared.nest_edits import (
    allocated,
    best_spread,
    code_of,
    factor_moves,
    placed,
    temporal_loops,
)

LAYER = "cnn:N=1,K=8,C=8,P=4,Q=2,R=1,S=1"
# A row of two elements; a tile of 8 words fits inside.
ROW = {
    "name": "row",
    "clock_ghz": 1.0,
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 100.0, "fanout": 2},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 8},
    ],
}


def run(searcher: Searcher, space: MapSpace, queries: int) -> list[float]:
    """The losses of a search, in order."""
    told: list[float] = []
    while len(told) < queries:
        codes = searcher.ask(queries - len(told))
        losses = LoopNestModel().evaluate(space, codes).edp
        searcher.tell(losses)
        told += losses.tolist()
    return told


def unspread(space: MapSpace) -> np.ndarray:
    """A code without anything spread and all loops outside."""
    mapping = space.describe(space.sample(np.random.default_rng(0), 1, feasible=True)[0])
    whole = {
        name: math.prod(
            level.temporal[name] * level.spatial.get(name, 1) for level in mapping.levels
        )
        for name in mapping.levels[0].temporal
    }
    levels = []
    for place, level in enumerate(mapping.levels):
        temporal = whole if place == 0 else dict.fromkeys(whole, 1)
        spatial = dict.fromkeys(level.spatial, 1)
        levels.append(replace(level, temporal=temporal, spatial=spatial))
    code = code_of(space, replace(mapping, levels=tuple(levels)))
    assert code is not None
    return code


def test_every_order_of_loops_once() -> None:
    loops = [("M", 2), ("K", 2), ("M", 2), ("K", 3)]
    listed = [tuple(order_at(loops, place)) for place in range(orders_of(loops))]
    assert listed == sorted({*itertools.permutations(loops)})
    assert len(listed) == 12


def test_the_two_least_loops_of_the_dimension_with_most_become_one() -> None:
    loops = [("M", 2), ("M", 2), ("M", 3), ("K", 5), ("K", 2)]
    assert merged(loops, 5) == sorted(loops)
    assert merged(loops, 4) == [("K", 2), ("K", 5), ("M", 3), ("M", 4)]
    assert merged(loops, 3) in ([("K", 10), ("M", 3), ("M", 4)], [("K", 2), ("K", 5), ("M", 12)])
    assert merged([("K", 2), ("M", 3)], 1) == [("K", 2), ("M", 3)]  # nothing is left to merge


def test_levels_take_from_the_innermost_loop_on_what_fits() -> None:
    space = MapSpace("gemm:M=4,N=4,K=4", ROW)
    mapping = space.describe(unspread(space))
    loops = [("M", 2), ("K", 2), ("M", 2), ("N", 2), ("N", 2), ("K", 2)]
    assert sorted(temporal_loops(mapping)) == sorted(loops)
    # M 2, K 2: 4 of A, 2 of B, 2 of Z are 8 words; M 2 more would be 8 + 2 + 4.
    code = allocated(space, mapping, loops)
    assert code is not None
    outside, inside = space.describe(code).levels
    assert inside.temporal == {"M": 2, "N": 1, "K": 2}
    assert outside.temporal == {"M": 2, "N": 4, "K": 2}
    assert [name for name in inside.order if inside.temporal[name] > 1] == ["K", "M"]
    assert list(outside.order) == ["K", "N", "M"]
    # K first: 2 of A, 2 of B, 1 of Z; K again: 4, 4, 1 are too many.
    code = allocated(space, mapping, [("K", 2), ("K", 2), *[("M", 2)] * 2, *[("N", 2)] * 2])
    assert code is not None
    assert space.describe(code).levels[1].temporal == {"M": 1, "N": 1, "K": 2}


def test_one_factor_moves() -> None:
    space = MapSpace("gemm:M=6,N=2,K=1", ROW)
    mapping = space.describe(unspread(space))
    found = [tuple(moved.levels[1].temporal.values()) for moved in factor_moves(mapping)]
    names = list(mapping.levels[1].temporal)
    wanted = [{"M": 2}, {"M": 3}, {"N": 2}]
    assert sorted(found) == sorted(
        tuple({"M": 1, "N": 1, "K": 1, **one}[name] for name in names) for one in wanted
    )


def test_the_spread_that_uses_most() -> None:
    space = MapSpace("gemm:M=4,N=4,K=4", ROW)
    spread = space.describe(best_spread(space, np.random.default_rng(1), 200))
    assert math.prod(spread.levels[0].spatial.values()) == 2


def test_loma_visits_every_order_of_a_spread() -> None:
    space = MapSpace("gemm:M=4,N=2,K=2", ROW)
    searcher = searchers.make("loma", space, seed=0, draws=50)
    assert isinstance(searcher, Loma)
    loops = temporal_loops(space.describe(searcher._spread))
    wanted = [allocated(space, space.describe(searcher._spread), order_at(loops, place))
              for place in range(orders_of(loops))]  # fmt: skip
    first = searcher._spread
    codes = searcher.ask(1000)
    searcher.tell(np.ones(len(codes)))
    np.testing.assert_array_equal(codes, [code for code in wanted if code is not None])
    assert searcher._place == 0
    assert space.feasible(searcher._spread[None])[0]
    assert first.shape == searcher._spread.shape


def test_salsa_accepts_by_share_and_begins_anew() -> None:
    space = MapSpace(LAYER, "mm256")
    searcher = searchers.make("salsa", space, seed=0, horizon=60, draws=50)
    assert isinstance(searcher, Salsa)
    run(searcher, space, 1)
    before, kept = searcher._loss, searcher._order
    searcher.ask(5)
    searcher.tell(np.array([1000 * before]))  # exp(-0.999 / 0.05) is 2e-9
    assert searcher._loss == before
    np.testing.assert_array_equal(searcher._order, kept)
    searcher.ask(5)
    searcher.tell(np.array([before / 2]))
    assert searcher._loss == before / 2
    run(searcher, space, 57)
    assert searcher._step == 60
    run(searcher, space, 1)
    assert searcher._step == 1


def test_factorflow_descends_to_where_no_factor_gains() -> None:
    space = MapSpace("resnet-conv4", "mm256")
    searcher = searchers.make("factorflow", space, seed=3, draws=100)
    assert isinstance(searcher, FactorFlow)
    losses = []
    while True:
        here = searcher._here
        told = run(searcher, space, len(searcher._moves))
        if math.isinf(searcher._loss):
            break
        assert searcher._loss == min(told)  # the best of all moves
        losses.append(searcher._loss)
    assert len(losses) > 3
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == len(losses)
    moves = [code_of(space, move) for move in factor_moves(space.describe(here))]
    around = np.stack([code for code in moves if code is not None])
    assert LoopNestModel().evaluate(space, around).edp.min() >= losses[-1]


def test_a_generation_of_gamma_keeps_its_elite_and_breeds_the_best() -> None:
    space = MapSpace(LAYER, "mm256")
    none = dict.fromkeys(("crossover", "reorder", "mutation", "parallel", "growth", "ageing"), 0.0)
    searcher = searchers.make("gamma", space, seed=0, population=10, elite=0.2, parents=0.3, **none)
    assert isinstance(searcher, Gamma)
    first = searcher.ask(10)
    searcher.tell(np.arange(10.0)[::-1])
    # Without operators children are copies of the three best, the elite is the two best.
    np.testing.assert_array_equal(searcher._living, first[[9, 8]])
    best = {tuple(space.code(space.describe(code))) for code in first[7:]}
    assert {tuple(code) for code in searcher._children} <= best
    assert len(searcher._children) == 10


def test_what_gamma_spreads_stays_whole() -> None:
    space = MapSpace(LAYER, "mm256")
    mapping = space.describe(space.sample(np.random.default_rng(2), 1, feasible=True)[0])
    level = next(level for level in mapping.levels if level.spatial)
    whole = level.temporal["K"] * level.spatial["K"]
    for factor in (1, whole):
        other = _spread(level, "K", factor)
        assert (other.spatial["K"], other.temporal["K"]) == (factor, whole // factor)
    searcher = searchers.make("gamma", space, seed=0)
    assert isinstance(searcher, Gamma)
    for _ in range(50):
        more, less = searcher._more_spread(level), searcher._less_spread(level)
        for name in level.temporal:
            product = level.temporal[name] * level.spatial[name]
            assert more.temporal[name] * more.spatial[name] == product
            assert less.temporal[name] * less.spatial[name] == product
        assert math.prod(more.spatial.values()) >= math.prod(level.spatial.values())
        assert math.prod(less.spatial.values()) <= math.prod(level.spatial.values())


@pytest.mark.parametrize("name", ["gamma", "salsa", "loma", "factorflow"])
def test_they_are_better_than_draws_on_the_papers_machine(name: str) -> None:
    space = MapSpace(LAYER, "mm256")
    found = min(run(searchers.make(name, space, seed=0), space, 600))
    drawn = space.sample(np.random.default_rng(7), 600, feasible=True)
    assert found <= np.quantile(LoopNestModel().evaluate(space, drawn).edp, 0.01)


def test_what_a_level_holds_stays() -> None:
    space = MapSpace(LAYER, "mm256")
    mapping = space.describe(space.sample(np.random.default_rng(2), 1, feasible=True)[0])
    again = placed(mapping, [[], [], temporal_loops(mapping)])
    assert [level.spatial for level in again.levels] == [level.spatial for level in mapping.levels]
    assert [level.keep for level in again.levels] == [level.keep for level in mapping.levels]
