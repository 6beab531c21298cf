"""What a benchmark's trial clocks, and how many threads its searchers have."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import pytest

import searchers
from costmodel import LoopNestModel
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate
from orchestrator.benchmark import search_trial
from orchestrator.benchmark.config import Benchmark, Plan, make_searcher, prepare
from orchestrator.benchmark.run import BenchmarkExperiment
from orchestrator.benchmark.search_trial import Searches, make_evaluator, pack_search, unpack_run
from searchers import Evaluator


def plan_of(**changes: Any) -> Plan:
    content = {
        "kind": "benchmark",
        "name": "small",
        "model": "loopnest",
        "accelerator": "mm256",
        "workloads": ["gemm-512"],
        "searchers": {"exact": {}, "random": {}},
        "seeds": [3],
        "seconds": 1.0,
        **changes,
    }
    return prepare(validate(Benchmark, content, "small"), "small")


def test_the_exact_searcher_of_a_trial_has_one_thread() -> None:
    plan = plan_of()
    space = plan.space("gemm-512")
    searcher = make_searcher(plan, plan.entry("exact"), space, seed=0)
    assert searcher.context.threads == 1
    more = plan_of(searchers={"exact": {"parameters": {"threads": 3}}})
    assert make_searcher(more, more.entry("exact"), space, seed=0).options.threads == 3


def test_the_making_of_a_searcher_is_on_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marvel's off-chip half, for one: it is found when the object is made."""
    plan, now = plan_of(), 0.0
    made = searchers.make

    def slow(*arguments: Any, **options: Any) -> Any:
        nonlocal now
        now += 0.75
        return made(*arguments, **options)

    monkeypatch.setattr(searchers, "make", slow)
    monkeypatch.setattr(search_trial, "_warm", set())
    monkeypatch.setattr(
        search_trial,
        "Evaluator",
        lambda *arguments, **options: Evaluator(*arguments, **{**options, "clock": lambda: now}),
    )
    searches = Searches(plan, "random", "gemm-512", [3, 4])
    searches.warm_up()
    assert now == 0.75
    for _ in range(2):
        assert searches.start_next()
        assert searches.evaluator.elapsed == 0.75
        # The clock stands until the search begins.
        now += 10.0
        assert searches.evaluator.elapsed == 0.75
        assert searches.evaluator.remaining > 0
        now += 0.2
        assert searches.evaluator.elapsed == pytest.approx(0.95)
        assert math.isinf(searches.evaluator.best_loss)
        searches.finish()


def test_preparation_beyond_the_budget_leaves_nothing() -> None:
    now = 0.0
    space = plan_of().space("gemm-512")
    evaluator = Evaluator(LoopNestModel(), space, seconds=1.0, clock=lambda: now)
    with evaluator.running():
        searcher = searchers.make("random", space, seed=0)
        now += 1.5
    searcher.run(evaluator)
    assert evaluator.result().best_code is None
    assert evaluator.result().iterations == 0


def test_only_the_first_warm_up_of_a_kind_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it loads stays; another machine, method or hyperparameter may need something else."""
    made: list[Evaluator] = []

    def noted(*arguments: Any, **options: Any) -> Evaluator:
        made.append(Evaluator(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(search_trial, "Evaluator", noted)
    monkeypatch.setattr(search_trial, "_warm", set())
    methods = {"genetic": {}, "smaller": {"name": "genetic", "parameters": {"population": 20}}}
    sizes = [f"gemm:M={size},N=64,K=64" for size in (64, 128)]
    for machine in ("mm256", "eyeriss"):
        plan = plan_of(accelerator=machine, workloads=sizes, searchers=methods)
        for method in methods:
            for workload in plan.workloads:
                Searches(plan, method, workload, [3]).warm_up()
    long = search_trial.WARM_UP_ITERATIONS
    assert [evaluator.iterations_used for evaluator in made] == [long, 1] * 4


def test_a_surrogate_warms_up_for_every_space(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make(plan: Plan, entry: Any, space: Any, **_: Any) -> Any:
        made.append(space.workload.name)
        return searchers.make("structured", space, seed=0)

    monkeypatch.setattr(search_trial, "make_searcher", make)
    monkeypatch.setattr(search_trial, "_warm", set())
    plan = plan_of()
    monkeypatch.setattr(searchers.searcher_class("random"), "USES", frozenset({"predictor"}))
    for _ in range(2):
        Searches(plan, "random", "gemm-512", [3]).warm_up()
    assert made == ["gemm-512"] * 2


def busy_for(seconds: float) -> None:
    """Computes for so long, on another thread and off this one's clock."""
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


def work(plan: Plan, sleep: float, busy: float) -> Evaluator:
    """A trial's evaluator after some sleep and some work on another thread."""
    evaluator = make_evaluator(plan, LoopNestModel(), plan.space("gemm-512"))
    with evaluator.running():
        time.sleep(sleep)
        worker = threading.Thread(target=busy_for, args=(busy,))
        worker.start()
        worker.join()
    return evaluator


def test_a_search_is_timed_by_its_own_processor_time() -> None:
    """With that of its threads; others that use the machine are not on the clock."""
    plan = plan_of(query_latency=5.0)
    assert plan.benchmark.clock == "processor"
    evaluator = work(plan, sleep=0.3, busy=0.2)
    assert 0.2 <= evaluator.elapsed < 0.3
    assert evaluator.seconds_left == pytest.approx(1 - evaluator.elapsed)
    evaluator.virtual_seconds += 5.0
    evaluator._spent += 5.0
    run = unpack_run(pack_search(plan, evaluator, None), "random", "gemm-512", 0)
    assert run.processor_seconds == pytest.approx(evaluator.elapsed - 5.0)
    assert run.wall_seconds is not None
    assert run.wall_seconds >= 0.5


def test_by_the_wall_a_search_is_timed_as_a_user_waits() -> None:
    plan = plan_of(clock="wall")
    evaluator = work(plan, sleep=0.3, busy=0.1)
    assert evaluator.elapsed >= 0.4
    run = unpack_run(pack_search(plan, evaluator, None), "random", "gemm-512", 0)
    assert run.wall_seconds == evaluator.elapsed
    assert run.processor_seconds is not None
    assert 0.1 <= run.processor_seconds < 0.3


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"host": "blocks"}, "host: blocks"),
        ({"host": "pool", "workers": 2}, "host: pool"),
        (
            {"searchers": {"p": {"name": "ppo", "parameters": {"runners": 2}}}},
            r"searchers\.p\.parameters\.runners",
        ),
        ({"model": "tvm", "workloads": ["gemm-512"], "objective": "latency"}, "model: tvm"),
    ],
    ids=["blocks", "pool", "runners", "tvm"],
)
def test_where_others_answer_the_wall_is_the_clock(changes: dict[str, Any], why: str) -> None:
    content = {
        "kind": "benchmark",
        "name": "small",
        "workloads": ["gemm-512"],
        "searchers": {"random": {}},
        "iterations": 10,
        **changes,
    }
    assert validate(Benchmark, content, "small").clock == "wall"
    with pytest.raises(ConfigError, match=f"clock: expected wall with {why}, .*got processor"):
        validate(Benchmark, {**content, "clock": "processor"}, "small")


def test_a_folder_from_before_goes_on_by_the_wall_alone() -> None:
    by_wall, mine = (BenchmarkExperiment(plan_of(clock=c)) for c in ("wall", "processor"))
    before = by_wall.identity()
    del before["experiment"]["clock"]
    assert by_wall.other_run(before) == ""
    assert "clock: wall" in mine.other_run(before)
    assert "clock: wall" in mine.other_run(by_wall.identity())
    assert mine.other_run(mine.identity()) == ""
    other = {**before, "experiment": {**before["experiment"], "seeds": [4]}}
    for experiment in (by_wall, mine):
        assert "another experiment" in experiment.other_run(other)
    assert "another experiment" in by_wall.other_run(mine.identity())
