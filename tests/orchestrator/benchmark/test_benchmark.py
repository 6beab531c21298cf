"""Benchmarks on a real Ray: both hosts, one result, also after a driver was killed."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import noisy_libraries
from processes import DRIVER
from sample_results import make_results

from costmodel.exact.certificate import read_certificate
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ConfigError, DataError, MapspaceError
from mapspace.strict_yaml import validate
from orchestrator.benchmark import run as host
from orchestrator.benchmark import tune_runner
from orchestrator.benchmark.config import Benchmark, Plan, make_searcher, prepare
from orchestrator.benchmark.run import run_benchmark
from orchestrator.benchmark.search_trial import Searches, make_evaluator, run_trial
from orchestrator.comparison.page import text_table
from orchestrator.comparison.results import Bounds, Results
from orchestrator.comparison.results_files import load
from orchestrator.runs.checkpoints import load_state
from orchestrator.store.address import SURROGATE_FILES, content_digest

pytestmark = noisy_libraries


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
        for seed in plan.benchmark.seeds_of(entry)
    ]
    assert len(results.runs) == len(expected)
    for run, (entry, workload, seed) in zip(results.runs, expected, strict=True):
        assert (run.searcher, run.workload, run.seed) == (entry.label, workload, seed)
        space = MapSpace(plan.workloads[workload], plan.accelerator)
        evaluator = make_evaluator(plan, LoopNestModel(), space, entry)
        make_searcher(plan, entry, space, seed=seed).run(evaluator)
        alone = evaluator.result()
        assert run.best_loss == alone.best_loss
        assert run.iterations == alone.iterations
        assert run.true_queries == alone.true_queries
        assert run.best_code == tuple(alone.best_code.tolist())  # type: ignore[union-attr]
        assert np.array_equal(run.evaluation, alone.curve_iteration)
        assert np.array_equal(run.loss, alone.curve_loss)
        assert np.array_equal(run.counted, alone.curve_counted)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "trials"},
        {"host": "trials", "seeds_per_trial": 1, "concurrency": 1},
        {"host": "blocks"},
    ],
    ids=["trials", "trials-of-one-seed", "blocks"],
)
def test_a_host_changes_nothing(changes: dict[str, Any], tmp_path: Path, ray_runtime: None) -> None:
    plan = plan_of(searchers={"random": {}, "genetic": {"iterations": 300}}, **changes)
    results = run_benchmark(plan, tmp_path / "run")
    assert {run.iterations for run in results.runs} == {300, 400}
    assert_undisturbed(results, plan)
    assert_undisturbed(load(tmp_path / "run"), plan)
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == [
        "best.jsonl",
        "certificates",
        "curves.parquet",
        "experiment.json",
        "progress.json",
        "summary.json",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"host": "trials"}, {"host": "blocks"}, {"host": "pool", "workers": 2}],
    ids=["trials", "blocks", "pool"],
)
def test_a_host_changes_nothing_for_agents(
    changes: dict[str, Any], tmp_path: Path, ray_runtime: None
) -> None:
    """RLlib drives its own loop, in a worker of Tune or beside it; seeds may be a method's own."""
    agents = {"ppo": {}, "ddpg": {"seeds": [3], "parameters": {"warmup_episodes": 8}}}
    plan = plan_of(searchers=agents, workloads=["gemm-512"], iterations=700, **changes)
    results = run_benchmark(plan, tmp_path / "run")
    assert_undisturbed(results, plan)
    assert [len(results.of(name, "gemm-512")) for name in agents] == [2, 1]


@pytest.mark.slow
def test_remote_runners_have_processors_or_are_refused(tmp_path: Path, ray_runtime: None) -> None:
    searchers = {"ppo": {"parameters": {"runners": 1, "environments": 8}}}
    plan = plan_of(searchers=searchers, workloads=["gemm-512"], seeds=1, iterations=300)
    assert_undisturbed(run_benchmark(plan, tmp_path / "trials"), plan)
    blocks = plan_of(searchers=searchers, workloads=["gemm-512"], host="blocks")
    with pytest.raises(ConfigError, match=r"searchers.ppo.parameters.runners: expected 0"):
        run_benchmark(blocks, tmp_path / "blocks")


def test_a_budget_of_time_is_kept(tmp_path: Path, ray_runtime: None) -> None:
    plan = plan_of(iterations=None, seconds=0.2, seeds=1, query_latency=1e-5, concurrency=1)
    results = run_benchmark(plan, tmp_path)
    for run in results.runs:
        assert run.seconds == 0.2
        assert run.time.max() <= 0.2
        # 0.2 s at 10 us each are 20,000 queries; the searchers' own time comes on top.
        assert 0 < run.true_queries <= 20_000


# Four rows by four columns, summed over 256 shared by 256 elements: every word enters every level
# once, and 4096 MACs take 16 cycles. DRAM moves 1024 + 1024 + 16 words; L2 is written 1024 + 1024,
# reads as many and is written 16; L1 is written 2 x 1024, reads 2 x 4096 words, updates 4096 sums
# and reads them, but not the first one of an element.
SMALL = "gemm:M=4,N=4,K=256"
SMALL_ENERGY = 200 * 2064 + 2.2 * 4112 + 1.12 * (2 * 5120 + 2 * 4096 - 16 * 256) + 1.0 * 4096


@pytest.mark.parametrize(("objective", "cycles"), [("edp", 16), ("energy", 1), ("ed2p", 256)])
def test_per_cent_above_an_optimum_known_by_hand(
    objective: str, cycles: int, tmp_path: Path, ray_runtime: None
) -> None:
    lines: list[str] = []
    searchers = {"random": {}}
    plan = plan_of(workloads=[SMALL], searchers=searchers, objective=objective, iterations=100)
    run_benchmark(plan, tmp_path, progress=lines.append)
    results = load(tmp_path)
    bounds = results.bounds[SMALL]
    assert bounds.proven
    assert bounds.optimum == pytest.approx(SMALL_ENERGY * cycles, rel=1e-14)
    certificate = read_certificate(tmp_path / str(bounds.certificate))
    assert certificate.objective == objective
    assert certificate.value == bounds.optimum
    first, second = (run.best_loss for run in results.of("random", SMALL))
    expected = math.sqrt(first * second) / (SMALL_ENERGY * cycles) - 1
    assert results.above("random", SMALL).mean == pytest.approx(expected, abs=1e-9)
    # At 1 GHz; people read joules and seconds.
    unit, scale = {"edp": ("J s", 1e-21), "energy": ("mJ", 1e-9), "ed2p": ("J s^2", 1e-30)}[
        objective
    ]
    said = f"optimum {SMALL_ENERGY * cycles * scale:.6g} {unit}, proven in"
    assert any(said in line for line in lines), lines
    assert f"proven optimum, {unit}" in text_table(results)


def test_what_cannot_be_proven_still_runs_and_is_marked(tmp_path: Path, ray_runtime: None) -> None:
    lines: list[str] = []
    machine = "mindmappings-released"
    plan = plan_of(accelerator=machine, workloads=["gemm-512"], searchers={"random": {}}, seeds=1)
    results = run_benchmark(plan, tmp_path, progress=lines.append)
    assert not (tmp_path / "certificates").exists()
    bounds = results.bounds["gemm-512"]
    assert not bounds.proven
    assert "bypasses what overflows" in bounds.note
    assert any(bounds.note in line for line in lines)
    table = text_table(load(tmp_path))
    assert "gemm-512 (at most)" in table
    assert bounds.note.rstrip(".") in table


def test_a_search_below_the_optimum_is_an_error_of_ours() -> None:
    results = make_results()
    host._check_bounds(results)
    impossible = {**results.bounds, "left": Bounds(10.0, 15.0, 20.001)}
    with pytest.raises(MapspaceError, match=r"left: expected no EDP below 20\.001.* found 20\.0"):
        host._check_bounds(replace(results, bounds=impossible))


def test_overhead_is_what_is_left_of_the_processors_time() -> None:
    # 2 x 230 s less 414 s are 46 s.
    assert host.overhead(3200, 414.0, 230.0, 2) == (
        "3,200 searches: 414.0 s of search in 230.0 s on 2 processors; 10.0 % overhead"
    )
    # Of a smoke test it would be nearly all, which is how long Ray takes.
    assert host.overhead(8, 0.5, 11.1, 2) == (
        "8 searches: 0.5 s of search in 11.1 s on 2 processors; the rest is start-up"
    )


def test_a_finished_benchmark_is_left_alone(tmp_path: Path, ray_runtime: None) -> None:
    plan = plan_of(searchers={"random": {}}, workloads=["gemm-512"], seeds=1)
    said: list[str] = []
    spent = run_benchmark(plan, tmp_path, progress=said.append).provenance
    (run,) = load(tmp_path).runs
    assert spent["search_seconds"] == run.wall_seconds
    assert run.seconds == run.processor_seconds
    assert spent["elapsed_seconds"] * spent["processors"] > spent["search_seconds"]
    assert any(line.startswith("small: 1 searches: ") for line in said)
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
    with_parameters, tries = tune.with_parameters, tune.FailureConfig

    def lose_the_workload(*arguments: Any, **options: Any) -> Any:
        return with_parameters(*arguments, **{**options, "plan": broken})

    monkeypatch.setattr(tune, "with_parameters", lose_the_workload)
    # Every further try starts a worker for seconds.
    monkeypatch.setattr(tune, "FailureConfig", lambda max_failures: tries(min(1, max_failures)))
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
    deadline = time.monotonic() + 180  # the first proof on an installation compiles for a minute
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
    assert any(line.startswith("small: continuing") for line in lines)
    # What was proven before the kill is read.
    assert sum(line.endswith("proven before") for line in lines) == len(plan.workloads)
    return results, plan


# The same with Ctrl-C and on a cluster that stays is among the faults.
@pytest.mark.slow
def test_a_killed_driver_of_trials_continues_exactly(tmp_path: Path, ray_runtime: None) -> None:
    def in_the_middle_of_the_second_search(folder: Path) -> bool:
        finished, under_way = folder / "searches/0.npz", folder / "searches/1.npz"
        if not under_way.exists():
            return False
        current = load_state(under_way)["current"]
        return current is not None and load_state(finished)["current"] is None

    # The first of the two is finished before the second one starts.
    changes = {
        "searchers": {"random": {}, "genetic": {}},
        "workloads": ["gemm-512"],
        "seeds": 1,
        # A second on a fast machine: five states are written, of which one must be seen.
        "iterations": 40_000,
        "concurrency": 1,
    }
    results, plan = kill_and_run_again(tmp_path, in_the_middle_of_the_second_search, **changes)
    assert_undisturbed(results, plan)


@pytest.mark.slow
def test_a_killed_driver_of_blocks_continues_exactly(tmp_path: Path, ray_runtime: None) -> None:
    def in_the_middle_of_a_search(folder: Path) -> bool:
        path = folder / "searches/blocks.npz"
        return path.exists() and any(
            search["evaluator"]["iterations_used"] > 200 for search in load_state(path)["searches"]
        )

    changes = {
        "searchers": {"genetic": {}, "random": {}},
        "workloads": ["gemm-512"],
        "iterations": 1500,
        "host": "blocks",
        "block_size": 50,
    }
    results, plan = kill_and_run_again(tmp_path, in_the_middle_of_a_search, **changes)
    assert_undisturbed(results, plan)


def test_a_finished_trial_is_not_run_again(
    tmp_path: Path, ray_runtime: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(workloads=["gemm-512"], seeds=[3], iterations=100, proof_seconds=0.0)
    states = tmp_path / "searches"
    states.mkdir()
    for file, searcher in (("0.npz", "random"), ("1.npz", "genetic")):
        task = {"searcher": searcher, "workload": "gemm-512", "seeds": [3], "file": file}
        run_trial({"task": task}, plan, states, 5.0)
    # No two searches take the same time: these are the ones that were kept.
    seconds = [load_state(states / file)["finished"][0]["seconds"] for file in ("0.npz", "1.npz")]
    (tmp_path / "half" / "searches").mkdir(parents=True)
    shutil.copy(states / "0.npz", tmp_path / "half" / "searches")
    lines: list[str] = []
    half = run_benchmark(plan, tmp_path / "half", progress=lines.append)
    assert "small: continuing; 1 of 2 trials are finished" in lines
    assert half.runs[0].seconds == seconds[0]
    assert "search_seconds" not in half.provenance
    assert half.runs[1].seconds != seconds[1]
    assert_undisturbed(half, plan)
    # Killed between the last search and the results: nothing is left for Tune.
    monkeypatch.setattr(tune_runner, "fit", lambda *_, **__: pytest.fail("searches again"))
    whole = run_benchmark(plan, tmp_path)
    assert [run.seconds for run in whole.runs] == seconds
    assert not states.exists()


def test_states_that_are_not_the_trials_own_are_refused(tmp_path: Path, ray_runtime: None) -> None:
    plan = plan_of(searchers={"random": {}}, workloads=["gemm-512"], seeds=1)
    states = tmp_path / "searches"
    states.mkdir()
    (states / "0.npz").write_bytes(b"rubbish")
    with pytest.raises(DataError, match=r"searches/0\.npz: the state file is damaged"):
        run_benchmark(plan, tmp_path)
    Searches(plan, "random", "gemm-512", [7]).save(states / "0.npz")
    with pytest.raises(DataError, match=r"0\.npz: expected the state of .*\[0\].* got .*\[7\]"):
        run_benchmark(plan, tmp_path)


def test_a_node_that_does_not_see_the_run_folder_says_so(tmp_path: Path) -> None:
    task = {"searcher": "random", "workload": "gemm-512", "seeds": [3], "file": "0.npz"}
    with pytest.raises(ConfigError, match=r"elsewhere: not there on a node .* all of them share"):
        run_trial({"task": task}, plan_of(), tmp_path / "elsewhere", 5.0)
    assert not (tmp_path / "elsewhere").exists()


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
    # A longer proof is no other experiment.
    assert host.describe(same) == host.describe(plan_of(proof_seconds=0.0))
    weights = tmp_path / "weights"
    weights.write_bytes(b"1")
    first = content_digest(tmp_path)
    weights.write_bytes(b"2")
    assert content_digest(tmp_path) != first
    # Of a trained surrogate what was noted while it was trained is none.
    for name in SURROGATE_FILES:
        (tmp_path / name).write_bytes(b"3")
    trained = content_digest(tmp_path)
    (tmp_path / "progress.json").write_bytes(b"4")
    assert content_digest(tmp_path) == trained
    (tmp_path / "surrogate.safetensors").write_bytes(b"5")
    assert content_digest(tmp_path) != trained
