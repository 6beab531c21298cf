"""Where nearly everything is read from the store, the few searches left are made right here."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapspace import forks
from mapspace.strict_yaml import validate
from orchestrator.benchmark import few_searches, search_trial, tune_runner
from orchestrator.benchmark.config import Benchmark, Plan, make_searcher, prepare
from orchestrator.benchmark.few_searches import FEW_SECONDS, are_few
from orchestrator.benchmark.run import BenchmarkExperiment, run_benchmark
from orchestrator.benchmark.search_trial import make_evaluator
from orchestrator.benchmark.stored_runs import searches_of
from orchestrator.comparison.results import Run
from orchestrator.runs.limits import LimitReachedError, Limits
from orchestrator.store.folder import Store

EXPERIMENT: dict[str, Any] = {
    "kind": "benchmark",
    "name": "few",
    "workloads": ["gemm:M=64,N=32,K=16"],
    "searchers": {"random": {}, "genetic": {}},
    "seeds": 2,
    "iterations": 150,
    "proof_seconds": 0,
}


def plan_of(**changes: Any) -> Plan:
    return prepare(validate(Benchmark, {**EXPERIMENT, **changes}, "few"), "few")


def run_of(plan: Plan, label: str, seed: int, seconds: float) -> Run:
    (workload,) = plan.workloads
    nothing = np.zeros(1, np.int64)
    shape = (nothing, np.zeros(1), np.ones(1))
    return Run(label, workload, seed, 1.0, (), 1, 1, 0, seconds, *shape, counted=nothing)


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Ray, and nothing is forked."""
    monkeypatch.setattr(tune_runner, "quiet_tune", None)
    monkeypatch.setattr(forks, "processors", lambda: 1)


@pytest.fixture
def store(tmp_path: Path, without_ray: None, monkeypatch: pytest.MonkeyPatch) -> Store:
    """One with the searches of two seeds."""
    found = Store(tmp_path / "store")
    with monkeypatch.context() as patch:
        patch.setattr(tune_runner, "are_few", lambda *_: True)
        run_benchmark(plan_of(), tmp_path / "first", store=found, progress=lambda _: None)
    return found


def test_new_searches_are_made_here_and_the_others_read_bit_for_bit(
    tmp_path: Path, store: Store
) -> None:
    plan, lines = plan_of(seeds=3), list[str]()
    first = run_benchmark(plan_of(), tmp_path / "first", progress=lambda _: None)
    second = run_benchmark(plan, tmp_path / "second", store=store, progress=lines.append)
    assert any("4 of 6 searches are in the store" in line for line in lines)
    assert any("the other 2 are made in this process" in line for line in lines)
    before = {(run.searcher, run.seed): run for run in first.runs}
    for run in second.runs:
        if run.seed < 2:
            was = before[run.searcher, run.seed]
            for name in (field.name for field in fields(Run)):
                assert np.array_equal(getattr(run, name), getattr(was, name)), name
            continue
        # What a search alone comes to.
        entry, space, model = plan.entry(run.searcher), plan.space(run.workload), plan.model()
        evaluator = make_evaluator(plan, model, space, entry)
        make_searcher(plan, entry, space, seed=2, evaluator=evaluator).run(evaluator)
        alone = evaluator.result()
        assert np.array_equal(run.loss, alone.curve_loss)
        assert np.array_equal(run.evaluation, alone.curve_iteration)
    # They are kept, too: now nothing is left.
    lines.clear()
    run_benchmark(plan, tmp_path / "third", store=store, progress=lines.append)
    assert any("6 of 6 searches are in the store" in line for line in lines)


def test_a_limit_ends_them_and_the_same_command_goes_on(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(seeds=4)
    reached = iter(["", "1 hours"])
    with monkeypatch.context() as patch:
        patch.setattr(Limits, "reached", lambda *_: next(reached))
        with pytest.raises(LimitReachedError, match=r"genetic on .* \(2\)"):
            BenchmarkExperiment(plan, store=store, limits=Limits(hours=1)).run(tmp_path / "run")
    made = list[str]()
    real = few_searches.run_here

    def run_here(plan: Plan, tasks: Any, *rest: Any) -> None:
        made.extend(task["searcher"] for task in tasks)
        real(plan, tasks, *rest)

    monkeypatch.setattr(tune_runner, "run_here", run_here)
    found = BenchmarkExperiment(plan, store=store).run(tmp_path / "run")
    assert made == ["genetic"]
    assert len(found.runs) == 8


def test_few_is_what_takes_less_time_than_ray_takes_to_start() -> None:
    plan = plan_of(seeds=10)
    left = [search for search in searches_of(plan) if search[2] >= 5]
    labels = ("random", "genetic")

    def known(seconds: float) -> list[Run]:
        return [run_of(plan, label, seed, seconds) for label in labels for seed in range(5)]

    assert len(left) == 10
    assert are_few(plan, known(FEW_SECONDS / 10), left)
    assert not are_few(plan, known(1.01 * FEW_SECONDS / 10), left)
    # Of every fork so much, but no more forks than are made.
    assert are_few(plan, known(2 * FEW_SECONDS / 10), left, 2)
    assert not are_few(plan, known(2.01 * FEW_SECONDS / 10), left, 2)
    assert not are_few(plan, known(1.01 * forks.MOST_PROCESSES * FEW_SECONDS / 10), left, 64)
    # Nobody knows what another method takes, and seconds of a budget are those of a worker.
    assert not are_few(plan, known(0.0)[:5], left)
    assert not are_few(plan_of(seeds=10, iterations=None, seconds=1.0), known(0.0), left)
    blocks = replace(plan, benchmark=plan.benchmark.model_copy(update={"host": "blocks"}))
    assert not are_few(blocks, known(0.0), left)


def test_they_are_made_on_all_processors_and_a_limit_ends_all_of_them(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "processors", lambda: 2)
    monkeypatch.setattr(few_searches, "processors", lambda: 2)
    here, real = threading.current_thread(), threading.enumerate
    # Whatever ran in this process before.
    mine = [here, *(thread for thread in real() if thread is not here)]
    monkeypatch.setattr(
        threading, "enumerate", lambda: [t for t in real() if t is here or t not in mine]
    )
    plan, makers = plan_of(seeds=4), tmp_path / "makers"
    trial = search_trial.run_trial

    def run_trial(*given: Any) -> Any:
        with makers.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return trial(*given)

    monkeypatch.setattr(search_trial, "run_trial", run_trial)
    found = run_benchmark(plan, tmp_path / "run", store=store, progress=lambda _: None)
    assert len(found.runs) == 8
    assert str(os.getpid()) not in makers.read_text().split()
    alone = run_benchmark(plan, tmp_path / "alone", store=store, progress=lambda _: None)
    for run, again in zip(found.runs, alone.runs, strict=True):
        assert np.array_equal(run.loss, again.loss)
    began = time.monotonic()
    monkeypatch.setattr(Limits, "reached", lambda *_: "1 hours" if time.monotonic() > began else "")
    with pytest.raises(LimitReachedError, match="searches are missing"):
        BenchmarkExperiment(plan_of(seeds=6), store=store).run(tmp_path / "limited")


def test_the_trials_of_a_method_are_made_by_one_process_where_there_are_enough() -> None:
    tasks = [
        {"searcher": name, "file": f"{name} {n}"} for n in range(2) for name in ("a", "b", "c")
    ]
    groups = few_searches._groups(tasks, 2)
    assert [[task["file"] for task in group] for group in groups] == [
        ["a 0", "a 1"],
        ["b 0", "b 1"],
        ["c 0", "c 1"],
    ]
    assert few_searches._groups(tasks, 3) == [[task] for task in tasks]
    many = [{"searcher": name, "file": n} for name in ("a", "b", "c") for n in range(5)]
    groups = few_searches._groups(many, 2)
    assert [[task["file"] for task in group] for group in groups] == 3 * [[0, 2, 4], [1, 3]]
