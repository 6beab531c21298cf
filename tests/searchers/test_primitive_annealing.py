"""Primitive lists and their annealing: the report's example by hand, laws, reachability."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ConfigError
from mapspace.testing.toy_space import ToySpace
from searchers import Evaluator, make
from searchers.compiled.primitive_list import (
    SEPARATOR,
    UNIFORMS_PER_MOVE,
    decode_all,
    encode_all,
    make_layout,
    propose,
    swap_merged,
)

# Two buffers, the inner one below a fan-out: three separators, as in the report's example.
MACHINE: dict[str, Any] = {
    "name": "small",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L2", "capacity_words": 40, "energy_pj": 6.0, "fanout": 4},
        {"name": "L1", "capacity_words": 8, "energy_pj": 1.0},
    ],
}


def convolution(r: int, p: int) -> Any:
    """The report's 1-D convolution, Output[p] += Weight[r] * Input[r + p]."""
    return workload(
        {
            "dimensions": {"R": r, "P": p},
            "tensors": {"Weights": ["R"], "Inputs": ["R + P"], "Outputs": ["P"]},
            "output": "Outputs",
        }
    )


TINY = MapSpace(convolution(2, 4), accelerator(MACHINE))
# Every kind of attribute that a list does not hold, and an order of spatial loops, which it holds.
HOPS = {"mesh": [16, 16], "fanout": 256, "hop_energy_pj": 0.1}
SPACES = {
    "nest": MapSpace(workload("resnet-conv4"), accelerator("mm256")),
    "banks": MapSpace(workload("alexnet-conv2"), accelerator("mindmappings")),
    "bypass": MapSpace(workload("mttkrp-0"), accelerator("mm256-bypass")),
    "mesh": MapSpace(
        workload("alexnet-conv4"),
        accelerator({"extends": "mm256", "name": "mesh", "levels": [{"name": "L2", **HOPS}]}),
    ),
}


def example() -> MapSpace:
    """The report's section 3: R = 12 and P = 10, primitives (R,2) (R,2) (R,3) (P,2) (P,5)."""
    return MapSpace(convolution(12, 10), accelerator("mm256"))


def decoded(space: MapSpace, lists: np.ndarray) -> np.ndarray:
    codes = np.zeros((len(lists), space.cardinality.size), np.int32)
    layout = make_layout(space.tables, space.cardinality)
    decode_all(space.tables, layout, np.asarray(lists, dtype=np.int64), codes)
    return codes


def encoded(space: MapSpace, codes: np.ndarray) -> np.ndarray:
    length = space.tables.prime_value.size + space.tables.slot_level.size - 1
    lists = np.zeros((len(codes), length), np.int64)
    layout = make_layout(space.tables, space.cardinality)
    encode_all(space.tables, layout, codes, lists)
    return lists


def shuffled(space: MapSpace, seed: int, count: int) -> np.ndarray:
    primes, slots = space.tables.prime_value.size, space.tables.slot_level.size
    base = np.concatenate([np.arange(primes), np.full(slots - 1, SEPARATOR)])
    return np.random.default_rng(seed).permuted(np.tile(base, (count, 1)), axis=1)


def test_the_reports_example_merges_by_hand() -> None:
    space = example()
    t = space.tables
    names = [space.workload.dimension_names[d] for d in t.prime_dimension]
    primitives = list(zip(names, t.prime_value.tolist(), strict=True))
    assert primitives == [("R", 2), ("R", 2), ("R", 3), ("P", 2), ("P", 5)]
    s = SEPARATOR
    # DRAM: R2 P2 P5 R3 and nothing after the separators but a loop of R in L1.
    nest = space.describe(decoded(space, np.array([[0, 3, 4, 2, s, s, s, 1]]))[0])
    assert [level.temporal for level in nest.levels] == [
        {"R": 6, "P": 10},
        {"R": 1, "P": 1},
        {"R": 2, "P": 1},
    ]
    # Average positions: R (0 + 3) / 2, P (1 + 2) / 2: equal, so in the workload's order.
    assert nest.levels[0].order == ("R", "P")
    # R (1 + 3) / 2 = 2, P (0 + 2) / 2 = 1: the loop of P is the outer one.
    nest = space.describe(decoded(space, np.array([[3, 0, 4, 2, s, s, s, 1]]))[0])
    assert nest.levels[0].order == ("P", "R")
    # Three against one: R (0 + 1 + 3) / 3 < P 2, although a primitive of R stands behind P's.
    nest = space.describe(decoded(space, np.array([[0, 1, 3, 2, s, s, s, 4]]))[0])
    assert nest.levels[0].temporal == {"R": 12, "P": 2}
    assert nest.levels[0].order == ("R", "P")
    # Behind the second separator loops run in parallel.
    nest = space.describe(decoded(space, np.array([[s, 4, s, 3, 2, s, 0, 1]]))[0])
    assert nest.levels[1].temporal == {"R": 1, "P": 5}
    assert nest.levels[1].spatial == {"R": 3, "P": 2}
    assert nest.levels[2].temporal == {"R": 4, "P": 1}


def test_merged_loops_change_places_by_hand() -> None:
    space = example()
    s = SEPARATOR
    layout = make_layout(space.tables, space.cardinality)
    code = decoded(space, np.array([[0, 3, 4, 2, s, s, s, 1]]))[0]
    tokens = np.zeros(8, np.int64)
    # Blocks: R2.3, P2.5, S, S, S, R2. Exchange 1 (the loop of P) and 5 (the last).
    swap_merged(space.tables, layout, code, tokens, np.array([0.0, 0.0, 1.5 / 6, 3.5 / 5]))
    t = space.tables
    loops = [(int(t.prime_dimension[p]), int(t.prime_value[p])) if p >= 0 else s for p in tokens]
    assert loops == [(0, 2), (0, 3), (0, 2), s, s, s, (1, 2), (1, 5)]


@pytest.mark.parametrize("name", SPACES)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_lists_and_codes_round_trip(name: str, seed: int) -> None:
    space = SPACES[name]
    codes = decoded(space, shuffled(space, seed, 8))
    space.check(codes)
    lists = encoded(space, codes)
    np.testing.assert_array_equal(decoded(space, lists), codes)
    # Merged lists are their own merged lists, and every primitive is there once.
    np.testing.assert_array_equal(encoded(space, decoded(space, lists)), lists)
    np.testing.assert_array_equal(np.sort(lists, axis=1), np.sort(shuffled(space, seed, 8), axis=1))


@pytest.mark.parametrize("name", SPACES)
def test_a_list_holds_all_that_costs_depend_on(name: str) -> None:
    """Any mapping and the one that its list stands for print and cost the same."""
    space = SPACES[name]
    codes = space.sample(np.random.default_rng(0), 200, feasible=True)
    lists = encoded(space, codes)
    again = codes.copy()
    decode_all(space.tables, make_layout(space.tables, space.cardinality), lists, again)
    model = LoopNestModel()
    np.testing.assert_array_equal(
        model.evaluate(space, codes).edp, model.evaluate(space, again).edp
    )
    for before, after in zip(codes[:40], again[:40], strict=True):
        assert str(space.describe(before)) == str(space.describe(after))


@settings(max_examples=25)
@given(
    name=st.sampled_from(sorted(SPACES)),
    seed=st.integers(0, 2**32 - 1),
    merged=st.sampled_from([0.0, 0.5, 1.0]),
    distinct=st.booleans(),
)
def test_moves_keep_products_and_feasibility(
    name: str, seed: int, merged: float, distinct: bool
) -> None:
    space = SPACES[name]
    rng = np.random.default_rng(seed)
    codes = space.sample(rng, 16, feasible=True)
    lists = encoded(space, codes)
    layout = make_layout(space.tables, space.cardinality)
    decode_all(space.tables, layout, lists, codes)
    before, lists_before = codes.copy(), lists.copy()
    uniforms = rng.random((16, 20, UNIFORMS_PER_MOVE))
    propose(space.tables, layout, lists, codes, uniforms, merged, distinct)
    space.check(codes)
    assert space.feasible(codes).all()
    np.testing.assert_array_equal(np.sort(lists, axis=1), np.sort(lists_before, axis=1))
    again = codes.copy()
    decode_all(space.tables, layout, lists, again)
    np.testing.assert_array_equal(again, codes)
    for code in codes:
        nest = space.describe(code)
        for d, size in space.workload.dimensions.items():
            factors = [level.temporal[d] * level.spatial.get(d, 1) for level in nest.levels]
            assert math.prod(factors) == size
    if distinct:
        assert (codes != before).any(axis=1).mean() > 0.5


def test_a_single_exchange_swaps_two_entries() -> None:
    """Without merged moves and free ones, a list differs in no or two places."""
    space = SPACES["nest"]
    rng = np.random.default_rng(3)
    codes = space.sample(rng, 300, feasible=True)
    lists = encoded(space, codes)
    layout = make_layout(space.tables, space.cardinality)
    decode_all(space.tables, layout, lists, codes)
    before = lists.copy()
    propose(
        space.tables, layout, lists, codes, rng.random((300, 20, UNIFORMS_PER_MOVE)), 0.0, False
    )
    differing = (lists != before).sum(axis=1)
    # Exchanged separators leave a list as it is.
    assert set(np.unique(differing)) <= {0, 2}
    assert (differing == 2).mean() > 0.9


@pytest.mark.parametrize("options", [{}, {"preset": "paper", "restart": True}])
def test_every_mapping_is_reachable(options: dict[str, Any]) -> None:
    """Hot chains come through every feasible nest of a small space, loops of one trip aside."""
    everything = np.array(list(itertools.product(*map(range, TINY.cardinality))), dtype=np.int32)
    feasible = everything[TINY.feasible(everything)]
    expected = {str(TINY.describe(code)) for code in feasible}
    assert 20 < len(expected) < 400
    hot = {"initial_temperature": 1e30, "cooling_factor": 1.0, "length": 10**6, "chains": 64}
    searcher = make("primitive-annealing", TINY, seed=0, **{**options, **hot})
    seen: set[tuple[int, ...]] = set()
    for _ in range(200):
        codes = searcher.ask(64)
        seen.update(map(tuple, codes.tolist()))
        searcher.tell(np.ones(len(codes)))
    assert {str(TINY.describe(np.array(code))) for code in seen} == expected


def test_the_papers_run_ends_after_1000_mappings() -> None:
    space = SPACES["nest"]
    evaluator = Evaluator(LoopNestModel(), space, iterations=5000)
    searcher = make("primitive-annealing", space, seed=0, preset="paper")
    searcher.run(evaluator)
    assert evaluator.result().iterations == 1000
    assert len(searcher.ask(10)) == 0


def test_cooling_in_steps_freezes_the_chain() -> None:
    """At first what is worse is accepted, at the end only what is no worse."""
    space = SPACES["nest"]
    searcher = make(
        "primitive-annealing",
        space,
        seed=0,
        chains=1,
        initial=1,
        length=10**6,
        initial_temperature=100.0,
        cooling_period=50,
        cooling_factor=0.1,
    )
    held = [math.inf]
    model = LoopNestModel()
    for _ in range(1000):
        losses = model.evaluate(space, searcher.ask(1)).edp
        searcher.tell(losses)
        held.append(float(searcher._losses[0]))  # type: ignore[attr-defined]
    rises = np.diff(held[1:]) > 0
    assert rises[:50].sum() > 10
    assert rises[800:].sum() == 0


def test_few_queries_go_far() -> None:
    """Ratios after 3,000 queries to the optimum, proven in `test_optima.py`."""
    space = SPACES["nest"]
    ratios = []
    for seed in range(4):
        evaluator = Evaluator(LoopNestModel(), space, iterations=3000)
        make("primitive-annealing", space, seed=seed).run(evaluator)
        ratios.append(evaluator.best_loss / 7.925256936939848e16)
    assert min(ratios) > 1 - 1e-9
    assert np.exp(np.mean(np.log(ratios))) < 1.03


def test_bad_values_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs a MapSpace, got ToySpace"):
        make("primitive-annealing", ToySpace(), seed=0)
    mistakes: tuple[tuple[str, Any], ...] = (
        ("chains", 0),
        ("start", "greedy"),
        ("initial", 0),
        ("length", 0),
        ("initial_temperature", 0.0),
        ("initial_temperature", math.inf),
        ("cooling_period", 0),
        ("cooling_factor", 1.5),
        ("merged", -0.1),
    )
    for name, value in mistakes:
        with pytest.raises(ConfigError, match=f"Hyperparameter {name} must be|{name}: expected"):
            make("primitive-annealing", TINY, seed=0, **{name: value})


def test_workloads_of_one_and_primes() -> None:
    """No primitive to move, and a dimension that cannot be split."""
    for problem in ("gemm:M=1,N=1,K=1", "gemm:M=7,N=1,K=1"):
        space = MapSpace(workload(problem), accelerator("mm256"))
        evaluator = Evaluator(LoopNestModel(), space, iterations=60)
        make("primitive-annealing", space, seed=0).run(evaluator)
        assert evaluator.result().iterations == 60
        assert np.isfinite(evaluator.best_loss)
