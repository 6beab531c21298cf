"""A benchmark with a warm start: who begins from what, noted once, and another benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapspace as ms
from costmodel.loop_nest.model import LoopNestModel
from mapspace.errors import ConfigError, DataError
from mapspace.strict_yaml import validate
from orchestrator.benchmark import tune_runner
from orchestrator.benchmark.config import Benchmark, Plan, prepare
from orchestrator.benchmark.run import run_benchmark
from orchestrator.benchmark.warm_starts import WARM_FILE, warm_starts
from orchestrator.comparison.results import Results
from orchestrator.store.folder import Store

WORKLOAD = "gemm:M=32,N=8,K=8"
EXPERIMENT: dict[str, Any] = {
    "kind": "benchmark",
    "name": "warm",
    "workloads": [WORKLOAD],
    "searchers": {"random": {}, "genetic": {"parameters": {"population": 8, "offspring": 8}}},
    "seeds": 2,
    "iterations": 40,
    "proof_seconds": 0,
    "warm_start": True,
}


def plan_of(**changes: Any) -> Plan:
    return prepare(validate(Benchmark, {**EXPERIMENT, **changes}, "warm"), "warm")


def benchmark(folder: Path, store: Store | None, **changes: Any) -> Results:
    return run_benchmark(plan_of(**changes), folder, progress=lambda _: None, store=store)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_runner, "are_few", lambda *_: True)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "store")
    ms.search("gemm:M=16,N=8,K=8", store=found)
    return found


def test_who_can_begins_from_the_winners_and_others_anew(tmp_path: Path, store: Store) -> None:
    warm = benchmark(tmp_path / "warm", store)
    cold = benchmark(tmp_path / "cold", store, warm_start=False)
    for name, same in (("random", True), ("genetic", False)):
        for one, other in zip(warm.of(name, WORKLOAD), cold.of(name, WORKLOAD), strict=True):
            assert np.array_equal(one.loss, other.loss) == same
    assert warm.provenance["warm_start"] == {WORKLOAD: ["gemm:M=16,N=8,K=8"]}
    assert "warm_start" not in cold.provenance
    # Both seeds begin with the same mapping, which is a query.
    plan = plan_of()
    (begin,) = warm_starts(plan, tmp_path, store)[WORKLOAD]
    codes = np.array(begin.codes, np.int32)
    losses = LoopNestModel().evaluate(plan.space(WORKLOAD), codes).objective("edp")
    for run in warm.of("genetic", WORKLOAD):
        assert (run.evaluation[0], run.loss[0]) == (1, losses[0])
        assert run.iterations == 40
    # The store tells the two apart, and has both.
    again = benchmark(tmp_path / "again", store)
    for one, other in zip(warm.runs, again.runs, strict=True):
        assert np.array_equal(one.time, other.time)


def test_a_run_that_goes_on_begins_from_the_same(tmp_path: Path, store: Store) -> None:
    first = warm_starts(plan_of(), tmp_path, store)
    ms.search("gemm:M=32,N=8,K=16", store=store)
    assert warm_starts(plan_of(), tmp_path, store) == first
    assert warm_starts(plan_of(), tmp_path, None) == first
    (tmp_path / WARM_FILE).unlink()
    assert len(warm_starts(plan_of(), tmp_path, store)[WORKLOAD]) == 2


@pytest.mark.parametrize("damage", ["{", '{"workloads": {"x": 1}}', "codes"])
def test_damaged_notes_are_named(tmp_path: Path, store: Store, damage: str) -> None:
    warm_starts(plan_of(), tmp_path, store)
    file = tmp_path / WARM_FILE
    if damage == "codes":
        noted = json.loads(file.read_text())
        noted["workloads"][WORKLOAD][0]["codes"] = [[10**6] * 3]
        damage = json.dumps(noted)
    file.write_text(damage)
    with pytest.raises(DataError, match=WARM_FILE):
        warm_starts(plan_of(), tmp_path, store)


def test_it_needs_a_store_and_loop_nests_and_is_off_by_default(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="warm_start: takes its mappings from a store"):
        benchmark(tmp_path / "none", None)
    for changes in ({"host": "blocks"}, {"model": "maestro", "searchers": {"random": {}}}):
        with pytest.raises(ConfigError, match="warm_start: for model loopnest and host trials"):
            plan_of(**changes)
    # Runs of old files are the same runs.
    assert "warm_start" not in plan_of(warm_start=False).benchmark.model_dump()
    assert plan_of().benchmark.model_dump()["warm_start"]
