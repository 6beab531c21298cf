"""Searches replayed at other latencies: by hand, and against searches that really had them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_results import make_results, make_run
from slow_model import Clock, SlowModel

from mapspace.testing.toy_space import ToyModel, ToySpace
from orchestrator.benchmark.search_trial import pack_result, unpack_run
from orchestrator.comparison.latency_figure import black_boxes, maps_of, span
from orchestrator.comparison.latency_replay import (
    Bill,
    Method,
    above_after,
    applies,
    best_of,
    break_even,
    counted_queries,
    deployable,
    end_after,
    moments,
    reach,
)
from orchestrator.comparison.results import Bounds, Results, Run
from orchestrator.comparison.results_files import load, save
from searchers import Evaluator

pytestmark = pytest.mark.filterwarnings("error")

SPACE = ToySpace()


def two_methods() -> Results:
    """On one problem whose optimum is 10: one asks 1, 3, 10 true queries, the other a surrogate."""
    true = make_run("random", "left", 0, [(1, 0.5, 40.0), (3, 1.0, 20.0), (10, 2.0, 10.0)])
    learned = replace(
        make_run("gradient", "left", 0, [(8, 1.0, 20.0), (50, 4.0, 11.0), (60, 5.0, 11.0)]),
        true_queries=4,
        surrogate_queries=56,
        counted=np.array([1, 3, 4]),
    )
    searchers = [
        {"name": name, "label": name, "preset": None, "parameters": {}}
        for name in ("random", "gradient")
    ]
    return replace(
        make_results(searchers=searchers),
        bounds={"left": Bounds(10.0, 10.0, 10.0)},
        runs=(true, learned),
    )


def test_moments_by_hand() -> None:
    results = two_methods()
    true, learned = results.runs
    assert moments(results, true, [0.0, 2.0]).tolist() == [[0.5, 1.0, 2.0], [2.5, 7.0, 22.0]]
    assert moments(results, learned, [2.0]).tolist() == [[3.0, 10.0, 13.0]]
    # Recorded with half a second per query, of which the own time is what is left.
    slow = replace(results, experiment={**results.experiment, "query_latency": 0.5})
    assert moments(slow, learned, [0.0, 2.0]).tolist() == [[0.5, 2.5, 3.0], [2.5, 8.5, 11.0]]


def test_what_is_above_after_a_time_by_hand() -> None:
    results = two_methods()
    times = [0.4, 3.0, 7.0, 22.0, 1e9]
    assert above_after(results, Method("random"), [2.0], times)[0].tolist() == pytest.approx(
        [math.inf, 3.0, 1.0, 0.0, 0.0]
    )
    assert above_after(results, Method("gradient"), [2.0], times)[0].tolist() == pytest.approx(
        [math.inf, 1.0, 1.0, 0.1, 0.1]
    )
    assert end_after(results, Method("random"), [0.0, 2.0]).tolist() == [2.0, 22.0]
    methods = [Method("random"), Method("gradient")]
    winner, least = best_of(results, methods, [2.0], times)
    assert winner.tolist() == [[-1, 1, 0, 0, 0]]
    assert least[0, 1:].tolist() == pytest.approx([1.0, 1.0, 0.0, 0.0])


def test_means_are_over_seeds_and_problems() -> None:
    results = make_results()
    # The optimum of left is 20, the reference of right 80; the finals' means are 60 and 400.
    share = above_after(results, Method("annealing"), [0.0], [0.001, 1.0])
    assert share[0, 0] == math.inf
    assert share[0, 1] == pytest.approx(results.overall_above("annealing"))
    assert share[0, 1] == pytest.approx(math.sqrt(3.0 * 5.0) - 1)


def test_a_bill_by_hand() -> None:
    results = two_methods()
    bills = {"left": Bill(rows=100, training_seconds=50.0)}
    assert bills["left"].seconds([0.0, 2.0]).tolist() == pytest.approx([50.0005, 250.0005])
    billed = Method("gradient", problems=10)
    # 25.00005 s are due before the points at 3, 10 and 13 s.
    times = [28.0, 28.01, 35.01]
    assert above_after(results, billed, [2.0], times, bills)[0].tolist() == pytest.approx(
        [math.inf, 1.0, 0.1]
    )
    assert end_after(results, billed, [2.0], bills).tolist() == pytest.approx([38.00005])


def test_when_a_share_is_reached_and_when_a_bill_is_saved() -> None:
    results = two_methods()
    half = reach(results, Method("gradient"), [0.0, 2.0], 1.0)
    assert (half.seconds.tolist(), half.reached) == ([1.0, 3.0], 1.0)
    never = reach(results, Method("gradient"), [2.0], 0.01)
    assert (never.seconds.tolist(), never.reached) == ([math.inf], 0.0)
    bills = {"left": Bill(rows=0, training_seconds=40.0)}
    # To 100 %: 1 s against 1 s without latency, 3 s against 7 s with 2 s per query.
    even = break_even(results, "gradient", ["random"], [0.0, 2.0], 1.0, bills)
    assert even.tolist() == [math.inf, 10.0]
    assert break_even(results, "gradient", ["random"], [2.0], 0.01, bills)[0] == math.inf
    assert np.isnan(break_even(results, "random", ["gradient"], [2.0], 0.01, bills)[0])


def test_half_of_the_searches_have_to_get_there() -> None:
    results = make_results()
    # Left ends at 40 and 90 for an optimum of 20, right at 400 for a reference of 80.
    found = reach(results, Method("annealing"), [0.0], 4.0)
    assert found.reached == 1.0
    assert found.seconds[0] == pytest.approx(0.5)
    few = reach(results, Method("annealing"), [0.0], 1.0)
    assert (few.seconds[0], few.reached) == (math.inf, 0.25)


def search(steps: list[tuple[int, int, int, bool]], latency: float) -> Run:
    """A search of (seconds of computation, true queries, surrogate queries, counted) steps."""
    clock = Clock()
    evaluator = Evaluator(
        SlowModel(clock, 0.5), SPACE, iterations=10_000, clock=clock, query_latency=latency
    )
    rng = np.random.default_rng(0)
    for seconds, rows, asked, counted in steps:
        assert evaluator.remaining > 0
        clock.now += seconds
        codes = SPACE.sample(rng, rows) if rows else np.empty((0, len(SPACE.cardinality)), np.int32)
        evaluator(codes, surrogate_queries=asked, counted=counted)
    again = Evaluator(ToyModel(), SPACE, iterations=10_000, clock=Clock())
    again.load_state_dict(evaluator.state_dict())
    return unpack_run(pack_result(again.result(), None), "random", "left", 0)


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 5), st.booleans()),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40)
@given(steps=STEPS, recorded=st.sampled_from([0.0, 0.25]), latency=st.sampled_from([0.0, 1.0, 8.0]))
def test_a_replay_is_the_search_that_had_the_latency(
    steps: list[tuple[int, int, int, bool]], recorded: float, latency: float
) -> None:
    run, real = search(steps, recorded), search(steps, latency)
    results = make_results(query_latency=recorded)
    assert np.array_equal(run.loss, real.loss)
    np.testing.assert_allclose(moments(results, run, [latency])[0], real.time, atol=1e-9)
    at_its_own = moments(results, run, [recorded])[0]
    np.testing.assert_allclose(at_its_own, run.time, atol=1e-9)
    paid = sum(rows for _, rows, _, counted in steps if counted)
    assert counted_queries(run)[-1] == paid
    assert (np.diff(counted_queries(run)) >= 0).all()


def test_counted_queries_survive_and_old_files_say_what_they_can(tmp_path: Path) -> None:
    results = two_methods()
    true, learned = results.runs
    save(replace(results, runs=(replace(true, counted=true.evaluation), learned)), tmp_path)
    assert [counted_queries(run).tolist() for run in load(tmp_path).runs] == [
        [1, 3, 10],
        [1, 3, 4],
    ]
    # Without the column: no surrogate, or nothing but a surrogate, leaves no doubt; both does.
    save(results, tmp_path)
    old = load(tmp_path)
    assert old.runs[0].counted is None
    assert counted_queries(old.runs[0]).tolist() == [1, 3, 10]
    only = replace(old.runs[1], surrogate_queries=60)
    assert counted_queries(only).tolist() == [0, 0, 0]
    assert not applies(old)
    assert applies(results)
    seen = replace(results, runs=(true, only))
    assert applies(seen)
    assert not deployable(seen, "gradient")
    assert deployable(results, "gradient")


def test_no_replay_where_time_is_the_budget_or_queries_are_measured() -> None:
    assert not applies(make_results(seconds=1.0, iterations=None))
    measured = Bounds(10.0, 10.0, None, 10.0, measured=True)
    assert not applies(replace(make_results(), bounds={"left": measured, "right": measured}))


def test_the_maps_compare_like_with_like() -> None:
    results = two_methods()
    assert black_boxes(results) == ["random", "gradient"]
    bills = {"left": Bill(1, 1.0)}
    shown = [[method.problems for method in methods] for _, methods in maps_of(results, bills)]
    assert shown == [[None, None], [None, None], [None, 1000]]
    assert [len(methods) for _, methods in maps_of(results, {})] == [2, 2]


def test_spans() -> None:
    assert [span(s) for s in (1e-6, 0.0123, 60.0, 3600.0, 5400.0, 86400.0 * 200)] == [
        "1 µs",
        "12.3 ms",
        "1 min",
        "1 h",
        "1.5 h",
        "200 d",
    ]
