"""Of many searches results go from the trials' files to their own, a pair at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapspace.errors import MapspaceError
from mapspace.strict_yaml import validate
from orchestrator.benchmark import run as run_module
from orchestrator.benchmark import tune_runner
from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.benchmark.made_runs import MadeRuns
from orchestrator.benchmark.run import run_benchmark
from orchestrator.comparison import results_files
from orchestrator.comparison.many_runs import ManyRuns
from orchestrator.comparison.results import Results, Run
from orchestrator.store.folder import Store
from orchestrator.store.sql import Database

EXPERIMENT: dict[str, Any] = {
    "kind": "benchmark",
    "name": "many",
    "workloads": ["gemm:M=64,N=32,K=16", "gemm:M=8,N=8,K=8"],
    "searchers": {"random": {}, "genetic": {}},
    "seeds": 4,
    "seeds_per_trial": 3,
    "iterations": 120,
    "proof_seconds": 0,
}


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_runner, "are_few", lambda *_: True)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few count as many."""
    for module in (tune_runner, run_module, results_files):
        monkeypatch.setattr(module, "MOST_IN_MEMORY", 5)
    monkeypatch.setattr(tune_runner, "KEPT_AT_ONCE", 3)


def benchmark(folder: Path, store: Store | None = None) -> Results:
    plan = prepare(validate(Benchmark, EXPERIMENT, "many"), "many")
    return run_benchmark(plan, folder, progress=lambda _: None, store=store)


def assert_equal(one: Run, other: Run, *names: str) -> None:
    for name in ("searcher", "workload", "seed", "loss", "evaluation", "counted", *names):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.best_code == other.best_code


def test_results_are_those_of_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = benchmark(tmp_path / "few")
    store = Store(tmp_path / "store")
    for module in (tune_runner, run_module, results_files):
        monkeypatch.setattr(module, "MOST_IN_MEMORY", 5)
    monkeypatch.setattr(tune_runner, "KEPT_AT_ONCE", 3)
    found = benchmark(tmp_path / "many", store)
    assert isinstance(few.runs, tuple)
    assert isinstance(found.runs, ManyRuns)
    for one, other in zip(found.runs, few.runs, strict=True):
        assert_equal(one, other)
    assert not (tmp_path / "many" / "searches").exists()
    best = (tmp_path / "many" / "best.jsonl").read_text()
    assert best == (tmp_path / "few" / "best.jsonl").read_text()
    # All are kept, and what is read from there is the same again, times included.
    assert Database(store).ask("SELECT count(*) FROM searches").rows == [(16,)]
    again = benchmark(tmp_path / "again", store)
    for one, other in zip(again.runs, found.runs, strict=True):
        assert_equal(one, other, "time", "seconds")


def test_whoever_is_killed_while_they_are_written_loses_nothing(
    tmp_path: Path, many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Run] = []
    real = MadeRuns.of

    def broken(self: MadeRuns, pair: tuple[str, str]) -> list[Run]:
        if len(seen) > 5:
            raise KeyboardInterrupt
        seen.extend(real(self, pair))
        return seen[-4:]

    with monkeypatch.context() as patch:
        patch.setattr(MadeRuns, "of", broken)
        with pytest.raises(KeyboardInterrupt):
            benchmark(tmp_path)
    assert {file.name for file in tmp_path.glob("*.parquet")} == set()
    left = tmp_path / ".runs.parquet.1-abcd.tmp"
    left.write_text("of a process that was killed")
    with monkeypatch.context() as patch:
        patch.setattr(tune_runner, "run_here", None)  # nothing is searched again
        found = benchmark(tmp_path)
    assert not left.exists()
    for one, other in zip(found.runs, seen, strict=False):
        assert_equal(one, other, "time", "seconds")


def test_a_result_that_is_gone_is_named(tmp_path: Path) -> None:
    made = MadeRuns()
    task = {"searcher": "random", "workload": "w", "seeds": [1, 2], "file": "0.npz"}
    made.add_trial(tmp_path / "0.npz", task)
    assert len(made) == 2
    with pytest.raises(MapspaceError, match=r"0\.npz: there is no such state file"):
        list(made.batches(1))
