"""The exact search shares its time with the structured one, and keeps its budget."""

from __future__ import annotations

import io
import threading
import time
from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, known_optimum, workload
from costmodel.costs import Costs, Objective
from costmodel.exact_any.choice import load_compiled
from orchestrator.answers.request import Request
from orchestrator.search.one_workload import search
from searchers import Evaluator, make
from searchers.exact import ALONE_SECONDS, FIRST_SHARE, Exact
from searchers.structured import LONGEST_WALK, Structured

# 1.3e15 tilings: no machine that runs tests proves it within seconds.
LARGE = "cnn:N=64,K=1440,C=720,P=120,Q=60,R=4,S=4"
MAPPING_SECONDS = 1e-5
STEP_SECONDS = 0.05


def large(machine: str = "mm256") -> MapSpace:
    return MapSpace(workload(LARGE), accelerator(machine))


class Clock:
    """Seconds that pass where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Walking takes the clock's time, 10 us a mapping, and nothing else does."""
    found = Clock()
    walk = Structured.walk

    def timed(self: Structured, costs: Any, n: int) -> Any:
        codes, scores = walk(self, costs, n)
        found.now += MAPPING_SECONDS * len(codes)
        return codes, scores

    monkeypatch.setattr(Structured, "walk", timed)
    return found


def best_of(name: str, clock: Clock, seconds: float, **options: Any) -> tuple[float, Any]:
    clock.now = 0.0
    evaluator = Evaluator(LoopNestModel(), large(), seconds=seconds, clock=clock)
    searcher = make(name, evaluator.space, seed=3, **options)
    searcher.run(evaluator)
    return evaluator.best_loss, searcher


@pytest.mark.parametrize("seconds", [0.1, 0.3, 1.0])
def test_beside_the_proof_nothing_is_lost_on_a_walk_alone(
    seconds: float, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a thread of its own the structured searcher sees what it sees alone in the same time."""

    def step(self: Exact) -> None:
        # A step of the proof, which never ends up with anything, while the other thread walks.
        until = clock.now + STEP_SECONDS
        while clock.now < until and clock.now < seconds:
            time.sleep(1e-4)

    monkeypatch.setattr(Exact, "_step", step)
    ours, exact = best_of("exact", clock, seconds, threads=2)
    # The first proposal is asked for; of the last walk not all need be in time.
    theirs, _ = best_of("structured", clock, seconds - LONGEST_WALK * MAPPING_SECONDS)
    assert ours <= theirs
    assert exact._walk_seconds >= seconds


@pytest.mark.parametrize("seconds", [2.0, 4.0])
def test_with_one_thread_both_get_half(
    seconds: float, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = set()

    def step(self: Exact) -> None:
        workers.add(threading.current_thread())
        clock.now += STEP_SECONDS

    monkeypatch.setattr(Exact, "_step", step)
    ours, exact = best_of("exact", clock, seconds, threads=1)
    assert len(workers) == 1
    assert exact._walk_seconds == pytest.approx(seconds / 2, abs=2 * STEP_SECONDS)
    theirs, _ = best_of("structured", clock, seconds / 2 - 2 * STEP_SECONDS)
    assert ours <= theirs


def test_under_a_restriction_the_walk_is_that_of_a_machine_that_keeps_so(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(self: Exact) -> None:
        clock.now += STEP_SECONDS

    monkeypatch.setattr(Exact, "_step", step)
    layer = workload("cnn:N=1,K=64,C=64,P=56,Q=56,R=3,S=3")
    buffer = {
        "name": "L2", "energy_pj": 6.0, "capacity_words": 55_296,
        "fanout": 168, "mesh": [12, 14],
    }  # fmt: skip
    best = []
    for name, seconds, settled, more in (
        ("exact", 2.0, {}, {"keep": {"L2": ("Inputs", "Outputs")}, "threads": 1}),
        ("structured", 0.6, {"keep": ["input", "output"], "bypass": ["weight"]}, {}),
    ):
        levels = [
            {"name": "DRAM", "energy_pj": 200.0},
            {**buffer, **settled},
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 260},
        ]
        machine = {"name": "one", "mac_energy_pj": 1.0, "bypass": "searched", "levels": levels}
        clock.now = 0.0
        space = MapSpace(layer, accelerator(machine))
        evaluator = Evaluator(LoopNestModel(), space, seconds=seconds, clock=clock)
        make(name, space, seed=3, **more).run(evaluator)  # type: ignore[arg-type]
        best.append(evaluator.best_loss)
        code = evaluator.result().best_code
        assert code is not None
        assert space.describe(code).levels[1].keep == ("Inputs", "Outputs")
    assert best[0] < 1.1 * best[1]


def test_a_short_proof_is_left_nearly_alone(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: Exact) -> None:
        clock.now += STEP_SECONDS

    monkeypatch.setattr(Exact, "_step", step)
    _, exact = best_of("exact", clock, ALONE_SECONDS, threads=1)
    assert exact._walk_seconds <= FIRST_SHARE * ALONE_SECONDS + LONGEST_WALK * MAPPING_SECONDS


def test_slow_queries_are_no_part_of_a_proof() -> None:
    """Five seconds are a hundred queries of 50 ms: a proof asks for those of its own mappings."""
    layer, machine = workload("resnet-conv4"), accelerator("mm256")
    for threads in (1, 2):
        evaluator = Evaluator(
            LoopNestModel(), MapSpace(layer, machine), seconds=5.0, query_latency=0.05
        )
        exact = make("exact", evaluator.space, seed=0, threads=threads)
        exact.await_walk()  # type: ignore[attr-defined]
        exact.run(evaluator)
        assert evaluator.best_loss == known_optimum(layer, machine)
        assert evaluator.result().true_queries <= 20


@pytest.mark.parametrize("threads", [1, 2])
def test_of_a_long_proof_slow_queries_take_half(
    threads: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(self: Exact) -> None:
        clock.now += STEP_SECONDS

    monkeypatch.setattr(Exact, "_step", step)
    evaluator = Evaluator(LoopNestModel(), large(), seconds=5, query_latency=0.05, clock=clock)
    exact = make("exact", evaluator.space, seed=3, threads=threads)
    exact.run(evaluator)
    assert isinstance(exact, Exact)
    assert exact._walk_seconds == pytest.approx(2.5, abs=0.2)
    assert 40 <= evaluator.result().true_queries <= 60


def test_as_many_mappings_are_never_better_alone() -> None:
    """With the real proof: what the structured searcher finds first, the exact one has too."""
    space = large()
    evaluator = Evaluator(LoopNestModel(), space, seconds=1.0)
    exact = make("exact", space, seed=1)
    exact.run(evaluator)
    alone = Evaluator(LoopNestModel(), space, iterations=max(1, evaluator.iterations_used // 2))
    make("structured", space, seed=1).run(alone)
    assert evaluator.best_loss <= alone.best_loss
    # What was found is offered: the proof's own best is no worse.
    assert isinstance(exact, Exact)
    best = LoopNestModel().evaluate(space, exact.prover.codes(1)).edp[0]
    assert best <= evaluator.best_loss


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("objective", ["edp", "latency"])
def test_the_optimum_is_found_as_without_a_clock(threads: int, objective: Objective) -> None:
    space = MapSpace(workload("resnet-conv4"), accelerator("mm256-bypass"))
    found = []
    for budget in ({"seconds": 600.0}, {"iterations": 100_000}):
        evaluator = Evaluator(LoopNestModel(), space, objective=objective, **budget)  # type: ignore[arg-type]
        searcher = make("exact", space, seed=0, threads=threads, objective=objective)
        searcher.run(evaluator)
        assert isinstance(searcher, Exact)
        assert searcher.prover.finished
        assert searcher.lower_bound == pytest.approx(evaluator.best_loss, rel=1e-12)
        found.append(evaluator.best_loss)
    assert found[0] == found[1]


def test_iterations_of_a_deep_machine_follow_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of its proof lasted by time: on a busy host fewer mappings were proposed beside it."""
    monkeypatch.setattr("searchers.exact.STEP_PARTS", 4)
    space = MapSpace(workload("cnn:N=1,K=8,C=8,P=8,Q=8,R=3,S=3"), accelerator("eyeriss"))
    proposed = []
    for seconds in (1e-4, 60.0):
        monkeypatch.setattr("costmodel.exact_any.prover.STEP_SECONDS", seconds)
        exact, asked = make("exact", space, seed=3), list[list[int]]()
        while len(codes := exact.ask(100)):
            asked.extend(codes.tolist())
            exact.tell(LoopNestModel().evaluate(space, codes).edp)
        proposed.append(asked)
    assert len(proposed[0]) > 3
    assert proposed[0] == proposed[1]


def test_a_model_without_compiled_costs_is_asked(clock: Clock) -> None:
    class Another(LoopNestModel):
        def evaluate(self, space: Any, codes: Any, *, detail: bool = False) -> Costs:
            clock.now += 1e-3 * len(codes)
            return super().evaluate(space, codes, detail=detail)

    evaluator = Evaluator(Another(), large(), seconds=3.0, clock=clock)
    exact = make("exact", evaluator.space, seed=0, threads=2)
    exact.run(evaluator)
    assert evaluator.iterations_used > 100
    assert np.isfinite(evaluator.best_loss)


class _CompiledElsewhere:
    """Another process compiles the structured searcher, and is waited for or not."""

    awaited = False

    def __init__(self, *_: object) -> None:
        load_compiled()

    @property
    def structured_is_there(self) -> bool:
        return self.awaited

    def await_structured(self) -> None:
        type(self).awaited = True


@pytest.mark.parametrize("seconds", [None, 1.0])
def test_a_budget_of_time_begins_when_all_is_compiled(
    seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first search of an installation has its answer at once unless it has little time."""
    monkeypatch.setattr(_CompiledElsewhere, "awaited", False)
    monkeypatch.setattr("searchers.exact.FirstUse", _CompiledElsewhere)
    progress = io.StringIO()
    found = search(Request(workload="gemm:M=64,N=64,K=64", seconds=seconds), progress)
    assert found.proven
    assert _CompiledElsewhere.awaited == (seconds is not None)
    assert ("another process compiles" in progress.getvalue()) == (seconds is not None)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("machine", ["mm256", "mm256-bw-bypass"])
def test_half_a_second_is_kept_while_tables_are_built(machine: str, threads: int) -> None:
    """Its tables alone take seconds."""
    space = large(machine)
    searcher = make("exact", space, seed=0, threads=threads)
    # In processor seconds of all threads: what a busy machine takes longer for fails no test.
    evaluator = Evaluator(LoopNestModel(), space, seconds=0.5, clock=time.process_time)
    searcher.run(evaluator)
    assert evaluator.elapsed < 1.0
    assert np.isfinite(evaluator.best_loss)


def test_a_walk_that_the_time_cut_off_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Structured.walk
    monkeypatch.setattr(Structured, "walk", lambda self, costs, _: walk(self, costs, 0))
    evaluator = Evaluator(LoopNestModel(), large(), seconds=0.6)
    make("exact", evaluator.space, seed=0, threads=2).run(evaluator)
    assert evaluator.best_loss < float("inf")
