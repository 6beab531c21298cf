"""Benchmarks on a real Ray: both hosts, one result, also after a driver was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.errors import ConfigError, ContractError, DataError, MapspaceError
from costmodel.loading import validate
from costmodel.loopnest import LoopNestModel
from costmodel.mapspace import MapSpace
from orchestrator import benchmark as host
from orchestrator.benchmark import run_benchmark
from orchestrator.experiment import Benchmark, Plan, make_searcher, prepare
from orchestrator.results import Results, load
from orchestrator.state import load_state
from orchestrator.trial import STATE_FILE, Searches, make_evaluator

pytestmark = [
    # Ray leaves sockets and files to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

# A driver whose checkpoints are close together, so that a test can kill it between two.
DRIVER = """
import sys
from orchestrator import benchmark
benchmark.CHECKPOINT_SECONDS = 0.2
from orchestrator.cli import main
main(sys.argv[1:])
"""


def experiment(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "benchmark",
        "name": "small",
        "workloads": ["gemm-512", "mttkrp-0"],
        "searchers": {"random": {}, "genetic": {}},
        "seeds": [3, 4],
        "iterations": 400,
        **changes,
    }


def plan_of(**changes: Any) -> Plan:
    return prepare(validate(Benchmark, experiment(**changes), "small"), "small")


def assert_undisturbed(results: Results, plan: Plan) -> None:
    """Every run equals a plain loop without Ray: what was found, when, and what was spent."""
    expected = [
        (entry, workload, seed)
        for entry in plan.benchmark.searchers
        for workload in plan.workloads
        for seed in plan.benchmark.seeds
    ]
    assert len(results.runs) == len(expected)
    for run, (entry, workload, seed) in zip(results.runs, expected, strict=True):
        assert (run.searcher, run.workload, run.seed) == (entry.label, workload, seed)
        space = MapSpace(plan.workloads[workload], plan.accelerator)
        evaluator = make_evaluator(plan, LoopNestModel(), space)
        make_searcher(plan, entry, space, seed=seed).run(evaluator)
        alone = evaluator.result()
        assert run.best_loss == alone.best_loss
        assert run.iterations == alone.iterations
        assert run.true_queries == alone.true_queries
        assert run.best_code == tuple(alone.best_code.tolist())  # type: ignore[union-attr]
        assert np.array_equal(run.evaluation, alone.curve_iteration)
        assert np.array_equal(run.loss, alone.curve_loss)


@pytest.mark.parametrize(
    "changes",
    [{"host": "trials"}, {"host": "trials", "seeds_per_trial": 1}, {"host": "blocks"}],
    ids=["trials", "trials-of-one-seed", "blocks"],
)
def test_a_host_changes_nothing(changes: dict[str, Any], tmp_path: Path, ray_runtime: None) -> None:
    plan = plan_of(**changes)
    results = run_benchmark(plan, tmp_path / "run")
    assert_undisturbed(results, plan)
    assert_undisturbed(load(tmp_path / "run"), plan)
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["curves.parquet", "experiment.json", "summary.json"]


def test_a_budget_of_time_is_kept(tmp_path: Path, ray_runtime: None) -> None:
    plan = plan_of(iterations=None, seconds=0.2, seeds=1, query_latency=1e-5)
    results = run_benchmark(plan, tmp_path)
    for run in results.runs:
        assert run.seconds == 0.2
        assert run.time.max() <= 0.2
        # 0.2 s at 10 us each are 20,000 queries; the searchers' own time comes on top.
        assert 0 < run.true_queries <= 20_000


def test_a_finished_benchmark_is_left_alone(tmp_path: Path, ray_runtime: None) -> None:
    plan = plan_of(searchers={"random": {}}, workloads=["gemm-512"], seeds=1)
    run_benchmark(plan, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    lines: list[str] = []
    run_benchmark(plan, tmp_path, progress=lines.append)
    assert lines == [f"small: already finished in {tmp_path}"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    other = plan_of(searchers={"random": {}}, workloads=["gemm-512"], seeds=2)
    with pytest.raises(ConfigError, match="holds another experiment"):
        run_benchmark(other, tmp_path)


def test_a_failure_is_one_line_and_can_be_tried_again(
    tmp_path: Path, ray_runtime: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray import tune

    plan = plan_of(searchers={"random": {}}, workloads=["gemm-512"], seeds=1)
    broken = Plan(plan.benchmark, plan.accelerator, {}, plan.surrogates)
    with_parameters = tune.with_parameters

    def lose_the_workload(*arguments: Any, **options: Any) -> Any:
        return with_parameters(*arguments, **{**options, "plan": broken})

    monkeypatch.setattr(tune, "with_parameters", lose_the_workload)
    with pytest.raises(MapspaceError, match=r"1 of 1 trials failed; the first: KeyError"):
        run_benchmark(plan, tmp_path)
    assert "KeyError" in (tmp_path / "errors.txt").read_text()
    monkeypatch.undo()
    assert_undisturbed(run_benchmark(plan, tmp_path), plan)


def kill_and_run_again(
    tmp_path: Path, ready: Callable[[Path], bool], **changes: Any
) -> tuple[Results, Plan]:
    """Kills a driver with SIGKILL as soon as its folder is `ready`, then runs it to its end."""
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(experiment(**changes)))
    folder = tmp_path / "run"
    command = [sys.executable, "-c", DRIVER, "benchmark", str(file), "--output", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not ready(folder):
        assert process.poll() is None, "the driver ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "summary.json").exists()
    plan = plan_of(**changes)
    lines: list[str] = []
    results = run_benchmark(plan, folder, progress=lines.append)
    assert lines[0] == "small: continuing"
    return results, plan


def test_a_killed_driver_of_trials_continues_exactly(tmp_path: Path, ray_runtime: None) -> None:
    def in_the_middle_of_a_search(folder: Path) -> bool:
        for path in folder.glob(f"tune/*/*/*/{STATE_FILE}"):
            try:
                current = load_state(path)["current"]
            except DataError:
                continue  # It is being replaced.
            if current is not None and current["evaluator"]["iterations_used"] > 0:
                return True
        return False

    changes = {
        "searchers": {"genetic": {}},
        "workloads": ["gemm-512"],
        "iterations": 10_000,
    }
    results, plan = kill_and_run_again(tmp_path, in_the_middle_of_a_search, **changes)
    assert_undisturbed(results, plan)


def test_a_killed_driver_of_blocks_continues_exactly(tmp_path: Path, ray_runtime: None) -> None:
    def in_the_middle_of_a_search(folder: Path) -> bool:
        for path in folder.glob("tune/*/searcher-state-*"):
            try:
                searches = load_state(path)["searches"]
            except DataError:
                continue  # It is being replaced.
            if any(search["evaluator"]["iterations_used"] > 200 for search in searches):
                return True
        return False

    changes = {
        "searchers": {"genetic": {}, "random": {}},
        "workloads": ["gemm-512"],
        "iterations": 1500,
        "host": "blocks",
        "block_size": 50,
    }
    results, plan = kill_and_run_again(tmp_path, in_the_middle_of_a_search, **changes)
    assert_undisturbed(results, plan)


@pytest.mark.parametrize("stop_after", [1, 3, 7])
def test_a_trial_continues_from_any_step(stop_after: int, tmp_path: Path) -> None:
    """What a trial saves is enough to continue exactly, without Ray."""
    plan = plan_of(searchers={"genetic": {}}, workloads=["gemm-512"], iterations=1000)

    steps = 0

    def after_step(_: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == stop_after:
            first.save(tmp_path / "state")
            raise KeyboardInterrupt

    def run(searches: Searches, after: Callable[[Any], None] | None = None) -> None:
        while searches.start_next():
            searches.searcher.run(searches.evaluator, after)
            searches.finish()

    first, second, undisturbed = (Searches(plan, "genetic", "gemm-512", [3, 4]) for _ in range(3))
    with pytest.raises(KeyboardInterrupt):
        run(first, after_step)
    second.load(tmp_path / "state")
    run(second)
    run(undisturbed)
    for a, b in zip(second.finished, undisturbed.finished, strict=True):
        assert a["best_loss"] == b["best_loss"]
        assert np.array_equal(a["curve_iteration"], b["curve_iteration"])
        assert np.array_equal(a["curve_loss"], b["curve_loss"])


def test_identity_covers_the_content(tmp_path: Path) -> None:
    same, other = plan_of(), plan_of(accelerator="mm256-bw")
    assert host.describe(same) == host.describe(plan_of())
    assert host.describe(same) != host.describe(other)
    weights = tmp_path / "weights"
    weights.write_bytes(b"1")
    first = host._digest(tmp_path)
    weights.write_bytes(b"2")
    assert host._digest(tmp_path) != first


def test_state_of_another_searcher_is_refused(tmp_path: Path) -> None:
    plan = plan_of(iterations=100)
    first = Searches(plan, "random", "gemm-512", [3])
    first.start_next()
    first.save(tmp_path / "state")
    second = Searches(plan, "genetic", "gemm-512", [3])
    second.load(tmp_path / "state")
    with pytest.raises(ContractError):
        second.start_next()
