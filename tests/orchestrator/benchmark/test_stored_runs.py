"""Searches of a benchmark that were made before are read, bit for bit; the others are made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import noisy_libraries
from sample_results import make_run

from mapspace.errors import DataError
from mapspace.strict_yaml import validate
from orchestrator.benchmark import tune_runner
from orchestrator.benchmark.config import Benchmark, Plan, prepare
from orchestrator.benchmark.run import run_benchmark
from orchestrator.benchmark.stored_runs import (
    KNOWN_FILE,
    Questions,
    keep_runs,
    known_runs,
    searches_of,
)
from orchestrator.comparison.results import Bounds, Run
from orchestrator.store.folder import ROWS, Store
from orchestrator.store.sql import Database

pytestmark = noisy_libraries
EXPERIMENT: dict[str, Any] = {
    "kind": "benchmark",
    "name": "small",
    "workloads": ["gemm-512", "mttkrp-0"],
    "searchers": {"random": {}, "genetic": {}},
    "seeds": [3, 4],
    "iterations": 300,
}


def plan_of(**changes: Any) -> Plan:
    return prepare(validate(Benchmark, {**EXPERIMENT, **changes}, "small"), "small")


def by_search(runs: Sequence[Run]) -> dict[Any, Run]:
    return {(run.searcher, run.workload, run.seed): run for run in runs}


def assert_equal(one: Run, other: Run) -> None:
    """Bit for bit, times included."""
    for name in (field.name for field in fields(Run)):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tasks that Tune is given."""
    given: list[Any] = []
    real = tune_runner._tasks

    def tasks(plan: Plan, searches: Any) -> Any:
        given.extend(searches)
        return real(plan, searches)

    monkeypatch.setattr(tune_runner, "_tasks", tasks)
    return given


@pytest.mark.slow
def test_what_was_searched_is_read_and_the_rest_is_searched(
    tmp_path: Path, ray_runtime: None, trials: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    first = run_benchmark(plan_of(), tmp_path / "first", store=store)
    assert len(trials) == 8
    assert by_search(first.runs).keys() == set(searches_of(plan_of()))
    # One seed more, a workload less, and a label of one's own.
    more = {"seeds": [3, 4, 5], "workloads": ["gemm-512"]}
    searchers = {"random": {}, "mine": {"name": "genetic"}}
    trials.clear()
    lines: list[str] = []
    plan = plan_of(**more, searchers=searchers)
    second = run_benchmark(plan, tmp_path / "second", store=store, progress=lines.append)
    assert trials == [("random", "gemm-512", 5), ("mine", "gemm-512", 5)]
    assert any("4 of 6 searches are in the store" in line for line in lines)
    assert any("gemm-512: optimum" in line and "read from the store" in line for line in lines)
    before = by_search(first.runs)
    for (label, name, seed), run in by_search(second.runs).items():
        if seed < 5:
            was = before["genetic" if label == "mine" else label, name, seed]
            assert_equal(run, replace(was, searcher=label))
    assert second.bounds["gemm-512"].optimum == first.bounds["gemm-512"].optimum
    # Everything is known: Ray is not even started.
    monkeypatch.setattr(tune_runner, "quiet_tune", None)
    third = run_benchmark(plan, tmp_path / "third", store=store)
    for one, other in zip(second.runs, third.runs, strict=True):
        assert_equal(one, other)
    counted = Database(store).ask("SELECT kind, count(*) FROM searches GROUP BY kind")
    assert counted.rows == [("run", 10)]


@pytest.mark.slow
def test_blocks_and_trials_answer_for_each_other(tmp_path: Path, ray_runtime: None) -> None:
    store = Store(tmp_path / "store")
    small = {"workloads": ["gemm-512"], "searchers": {"random": {}}, "proof_seconds": 0}
    blocks = plan_of(**small, host="blocks", block_size=50)
    first = run_benchmark(blocks, tmp_path / "blocks", store=store)
    # Blocks are timed by the wall.
    trials = plan_of(**small, clock="wall")
    second = run_benchmark(trials, tmp_path / "trials", store=store)
    for one, other in zip(first.runs, second.runs, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize(
    "changes",
    [
        {"iterations": 301},
        {"objective": "energy"},
        {"accelerator": "tiny3"},
        {"query_latency": 0.1},
        {"clock": "wall"},
        {"searchers": {"random": {}, "genetic": {"parameters": {"population": 20}}}},
        {"iterations": None, "seconds": 1.0},
        {"workloads": ["gemm:M=512,N=512,K=256", "mttkrp-0"]},
    ],
    ids=str,
)
def test_what_decides_a_run_is_in_its_address(changes: dict[str, Any]) -> None:
    first, second = plan_of(), plan_of(**changes)

    def addresses(plan: Plan) -> set[str]:
        questions = Questions(plan)
        return {questions.of(search).address for search in searches_of(plan)}

    assert len(addresses(first)) == 8
    same = addresses(first) & addresses(second)
    # What is not changed stays the same search.
    assert len(same) == (4 if {"searchers", "workloads"} & changes.keys() else 0)


def test_a_row_says_how_far_a_search_is_above_what_is_known(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    ends = [("random", "gemm-512", 12.0), ("random", "mttkrp-0", 10.0)]
    ends.append(("genetic", "gemm-512", 10.0 * (1 + 1e-15)))
    counted = np.ones(1, np.int64)
    runs = [
        replace(make_run(label, workload, 3, [(1, 0.1, end)]), counted=counted)
        for label, workload, end in ends
    ]
    proven, bounded = Bounds(5.0, 6.0, 10.0), Bounds(5.0, 6.0, None, 8.0)
    keep_runs(plan_of(), runs, store, {"gemm-512": proven, "mttkrp-0": bounded})
    rows = {(row.method, row.workload): row for row in store.rows_with(kind="run")}
    told = {key: (row.value, row.lower_bound, row.gap, row.proven) for key, row in rows.items()}
    assert told["random", "gemm-512"] == (12.0, 10.0, pytest.approx(0.2), False)
    assert told["random", "mttkrp-0"] == (10.0, 8.0, pytest.approx(0.25), False)
    assert told["genetic", "gemm-512"][1:] == (10.0, 0.0, True)
    # Where nothing is known, that is null.
    keep_runs(plan_of(), [replace(runs[0], seed=4)], store)
    (blank,) = [row for row in store.rows_with(kind="run") if row.seed == 4]
    assert (blank.lower_bound, blank.gap, blank.proven) == (None, None, False)


def test_keys_are_those_of_the_whole_question() -> None:
    """Written once per method and workload, with each seed put in."""
    for plan in (plan_of(), plan_of(seeds=[-0, 1, 10**15], objective="energy")):
        questions = Questions(plan)
        for search in searches_of(plan):
            whole = questions.of(search)
            assert questions.keys_of(search) == (whole.question, whole.address)


def test_what_takes_part_in_no_search_is_not_in_it() -> None:
    first = Questions(plan_of())
    changes = {"name": "other", "seeds": [4], "proof_seconds": 3.0, "concurrency": 1}
    second = Questions(plan_of(**changes, description="x", seeds_per_trial=1))
    search = ("random", "gemm-512", 4)
    assert first.of(search) == second.of(search)


def test_a_run_that_goes_on_has_the_same_searches_left(tmp_path: Path) -> None:
    """Whatever others have stored since it began."""
    store = Store(tmp_path / "store")
    run = known_runs(plan_of(), tmp_path / "empty", store)
    assert run == []
    folder = tmp_path / "states"
    folder.mkdir()
    (folder / "0.npz").write_bytes(b"a state")
    assert known_runs(plan_of(), folder, store) == []
    (folder / KNOWN_FILE).write_text(json.dumps({"rows": [["random", "gemm-512", 3]]}))
    with pytest.raises(DataError, match=KNOWN_FILE):
        known_runs(plan_of(), folder, None)


def test_a_damaged_store_costs_its_searches_alone(
    tmp_path: Path, ray_runtime: None, trials: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "store")
    small = {"workloads": ["gemm-512"], "searchers": {"random": {}}, "proof_seconds": 0}
    plan = plan_of(**small, seeds=64, concurrency=1)
    first = run_benchmark(plan, tmp_path / "first", store=store)
    again = run_benchmark(plan, tmp_path / "again", store=store)
    assert len(trials) == 64
    for one, other in zip(first.runs, again.runs, strict=True):
        assert_equal(one, other)
    (parquet,) = (tmp_path / "store" / ROWS).iterdir()
    parquet.write_bytes(parquet.read_bytes()[:-9])
    trials.clear()
    second = run_benchmark(plan, tmp_path / "second", store=Store(tmp_path / "store"))
    assert len(trials) == 64
    assert parquet.name in capsys.readouterr().err
    for one, other in zip(first.runs, second.runs, strict=True):
        assert np.array_equal(one.loss, other.loss)
