"""What dies while a surrogate trains or a benchmark runs: the result is an undisturbed one's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from marks import noisy_libraries
from processes import Nodes, driver, kill, press_control_c, wait_for
from safetensors.torch import load_file

from mapspace.strict_yaml import validate
from orchestrator.benchmark import run as run_module
from orchestrator.benchmark.config import Benchmark, Plan, prepare
from orchestrator.benchmark.run import run_benchmark
from orchestrator.benchmark.search_trial import Searches, finished_runs, run_trial
from orchestrator.comparison.results import Results
from orchestrator.runs.checkpoints import load_state
from orchestrator.training.train import PROGRESS_FILE, TrainConfig, run_train
from surrogate.shards import Dataset
from surrogate.training import fit

pytestmark = [
    pytest.mark.faults,
    # Several drivers each, on cores that others may use.
    pytest.mark.timeout(600),
    noisy_libraries,
]

VIEWS, CHECKPOINT_VIEWS = 20_480, 2_048


@pytest.fixture(scope="module")
def training(small_data: Path) -> tuple[TrainConfig, dict[str, torch.Tensor]]:
    """A training run, and the weights of the plain loop without Ray."""
    config = TrainConfig.model_validate(
        {
            "kind": "train",
            "name": "small",
            "data": str(small_data),
            "views": VIEWS,
            "held_out_problems": 8,
            "checkpoint_views": CHECKPOINT_VIEWS,
            "seed": 2,
        }
    )
    torch.set_num_threads(1)
    return config, dict(fit(Dataset(config.data), config.options()).network.state_dict())


def views_so_far(folder: Path) -> int:
    path = folder / PROGRESS_FILE
    try:
        return int(json.loads(path.read_text())["views"])
    except FileNotFoundError:
        return 0


def assert_same_weights(folder: Path, expected: dict[str, torch.Tensor]) -> None:
    found = load_file(folder / "surrogate.safetensors")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0)
    assert sorted(path.name for path in folder.iterdir()) == [
        "curve.json",
        "progress.json",
        "surrogate.json",
        "surrogate.safetensors",
        "train.json",
    ]


def test_training_survives_a_killed_worker_and_a_removed_node(
    nodes: Nodes, tmp_path: Path, training: tuple[TrainConfig, dict[str, torch.Tensor]]
) -> None:
    config, expected = training
    folder = tmp_path / "run"
    killed: list[int] = []

    def after_the_worker() -> Any:
        at_work = nodes.workers("ray::RayTrainWorker")
        if not at_work or views_so_far(folder) == 0:
            return None
        if not killed:
            killed.append(views_so_far(folder))
            kill(next(iter(at_work)))
            return None
        return views_so_far(folder) > killed[0] and next(iter(at_work.values()))

    with nodes.removing(after_the_worker):
        run_train(config, folder)
    assert_same_weights(folder, expected)


def test_training_continues_after_control_c_and_after_its_driver_was_killed(
    nodes: Nodes, tmp_path: Path, training: tuple[TrainConfig, dict[str, torch.Tensor]]
) -> None:
    config, expected = training
    file, folder, errors = tmp_path / "small.yaml", tmp_path / "run", tmp_path / "errors"
    file.write_text(config.model_dump_json())
    command = ("train", str(file), "--output", str(folder))
    with driver(*command, errors=errors, address=nodes.address) as process:
        wait_for(lambda: views_so_far(folder))
        assert press_control_c(process) == 130
    assert errors.read_text().splitlines()[-1].startswith("Error: interrupted; the same command")
    interrupted = views_so_far(folder)
    with driver(*command, errors=errors, address=nodes.address) as process:
        wait_for(lambda: views_so_far(folder) > interrupted)
        kill(process.pid)
        process.wait()
    assert interrupted < views_so_far(folder) < VIEWS
    run_train(config, folder)
    assert_same_weights(folder, expected)


BENCHMARK: dict[str, Any] = {
    "kind": "benchmark",
    "name": "small",
    "workloads": ["gemm-512", "mttkrp-0"],
    "searchers": {"genetic": {}},
    "seeds": [3],
    "iterations": 20_000,
}


def plan_of() -> Plan:
    return prepare(validate(Benchmark, BENCHMARK, "small"), "small")


@pytest.fixture(scope="module")
def searches() -> list[dict[str, Any]]:
    """The results of the benchmark's searches without Ray."""
    plan = plan_of()
    finished = []
    for workload in plan.workloads:
        alone = Searches(plan, "genetic", workload, [3])
        while alone.start_next():
            alone.searcher.run(alone.evaluator)
            alone.finish()
        finished += alone.finished
    return finished


def assert_same_searches(results: Results, expected: list[dict[str, Any]]) -> None:
    """Every search once, with the same curve over iterations, the best mapping and the count."""
    assert len(results.runs) == len(expected)
    for run, alone in zip(results.runs, expected, strict=True):
        assert run.best_code == tuple(alone["best_code"])
        assert run.best_loss == alone["best_loss"]
        assert (run.iterations, run.true_queries) == (alone["iterations"], alone["true_queries"])
        assert np.array_equal(run.evaluation, alone["curve_iteration"])
        assert np.array_equal(run.loss, alone["curve_loss"])


def iterations_so_far(folder: Path) -> int:
    """Of all searches, as their states in the run folder have them."""
    total = 0
    for path in folder.glob("searches/*.npz"):
        state = load_state(path)
        total += sum(int(run["iterations"]) for run in state["finished"])
        if state["current"] is not None:
            total += int(state["current"]["evaluator"]["iterations_used"])
    return total


def test_a_benchmark_survives_a_killed_worker_and_a_removed_node(
    nodes: Nodes,
    tmp_path: Path,
    searches: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_module, "CHECKPOINT_SECONDS", 0.2)
    killed: list[int] = []

    def after_the_worker() -> Any:
        at_work = nodes.workers("ray::ImplicitFunc")
        reached = iterations_so_far(tmp_path)
        if not at_work or reached == 0:
            return None
        if not killed:
            killed.append(reached)
            kill(next(iter(at_work)))
            return None
        return reached > killed[0] and next(iter(at_work.values()))

    with nodes.removing(after_the_worker):
        results = run_benchmark(plan_of(), tmp_path)
    assert_same_searches(results, searches)


def test_a_benchmark_continues_after_control_c_and_after_its_driver_was_killed(
    nodes: Nodes, tmp_path: Path, searches: list[dict[str, Any]]
) -> None:
    file, folder, errors = tmp_path / "small.yaml", tmp_path / "run", tmp_path / "errors"
    file.write_text(json.dumps(BENCHMARK))
    command = ("benchmark", str(file), "--output", str(folder))
    with driver(*command, errors=errors, address=nodes.address) as process:
        wait_for(lambda: iterations_so_far(folder))
        assert press_control_c(process) == 130
    assert errors.read_text().splitlines()[-1].startswith("Error: interrupted; the same command")
    interrupted = iterations_so_far(folder)
    with driver(*command, errors=errors, address=nodes.address) as process:
        wait_for(lambda: iterations_so_far(folder) > interrupted)
        kill(process.pid)
        process.wait()
    assert not (folder / "summary.json").exists()
    lines: list[str] = []
    results = run_benchmark(plan_of(), folder, progress=lines.append)
    assert any(line.startswith("small: continuing") for line in lines)
    # What was proven before the kill is read.
    assert sum(line.endswith("proven before") for line in lines) == len(plan_of().workloads)
    assert_same_searches(results, searches)


# A disk that only the processes of this script see; the kernel takes it away with them.
SMALL_DISK = 'mount -t tmpfs -o size=32k none "$1" && exec "$2" -c "$3" "$1" "$4" "$5"'
FILL_IT = """
import json, shutil, subprocess, sys
from pathlib import Path
from mapspace.strict_yaml import validate
from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.runs.checkpoints import load_state
from orchestrator.benchmark.search_trial import run_trial

disk, (plan, task), result = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
plan = prepare(validate(Benchmark, plan, "small"), "small")
try:
    run_trial({"task": task}, plan, disk, 0.0)
except OSError as error:
    print(error)
print([file.name for file in disk.iterdir()], len(load_state(disk / "0.npz")["finished"]))
subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
run_trial({"task": task}, plan, disk, 0.0)
shutil.copy(disk / "0.npz", result)
"""


def test_a_trial_continues_when_a_full_disk_has_space_again(tmp_path: Path) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this system lets nobody mount a small disk")
    seeds = list(range(6))
    settings = BENCHMARK | {"workloads": ["gemm-512"], "seeds": seeds, "iterations": 300}
    task = {"searcher": "genetic", "workload": "gemm-512", "seeds": seeds, "file": "0.npz"}
    for folder in ("disk", "alone"):
        (tmp_path / folder).mkdir()
    arguments = [str(tmp_path / "disk"), sys.executable, FILL_IT, json.dumps([settings, task])]
    said = subprocess.run(
        [*alone, "sh", "-c", SMALL_DISK, "sh", *arguments, str(tmp_path / "0.npz")],
        stdout=subprocess.PIPE, text=True, timeout=240, check=True,
    ).stdout.splitlines()  # fmt: skip
    full = tmp_path / "disk" / "0.npz"
    assert said[0] == f"{full}: cannot be written: No space left on device."
    # The state before is whole, and nothing is half there.
    names, finished = said[1].rsplit(" ", 1)
    assert names == "['0.npz']"
    assert 0 < int(finished) < len(seeds)
    plan = prepare(validate(Benchmark, settings, "small"), "small")
    run_trial({"task": task}, plan, tmp_path / "alone", 5.0)
    for found, expected in zip(
        finished_runs(tmp_path / "0.npz", task) or [],
        finished_runs(tmp_path / "alone" / "0.npz", task) or [],
        strict=True,
    ):
        assert (found.best_loss, found.best_code) == (expected.best_loss, expected.best_code)
        assert found.evaluation.tolist() == expected.evaluation.tolist()
        assert found.loss.tolist() == expected.loss.tolist()
