"""Sweeps as they run: proofs that survive an interruption, files, tracking."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from commands import call
from paths import EXPERIMENTS
from sweeps import OTHER, SMALL, content_for, plan_for

from costmodel import MapSpace, workload
from costmodel.exact_any.choice import prove
from costmodel.exact_any.choice import prove as prove_any
from costmodel.loop_nest.records import record_code
from mapspace.errors import ConfigError, MapspaceError
from orchestrator.runs.command import run_experiment
from orchestrator.runs.experiments import load_experiment
from orchestrator.runs.mlflow_client import default_uri
from orchestrator.runs.ray_runtime import fan_out
from orchestrator.store.folder import Store
from orchestrator.sweep.config import Sweep
from orchestrator.sweep.plan import Layer, SweepPlan, prepare_sweep
from orchestrator.sweep.proofs import Problem, Proof, read_proof_files
from orchestrator.sweep.report import text_summary, write_sweep_report
from orchestrator.sweep.run import Chunk, SweepExperiment, sweep


def proofs_in(folder: Path) -> dict[str, Proof]:
    return read_proof_files(sorted((folder / "proofs").glob("*.jsonl")))


def test_points_are_what_prove_says_and_totals_add_them(tmp_path: Path) -> None:
    plan = plan_for()
    results = sweep(plan, tmp_path, execute=map)
    assert list(results.points["status"].unique()) == ["proven"]
    table = pd.read_parquet(tmp_path / "results.parquet")
    assert len(table) == 12
    for row in table.to_dict("records"):
        machine = plan.architectures[row["point"] // 2].accelerator
        space = MapSpace(workload([SMALL, OTHER][row["point"] % 2]), machine)
        certificate = prove(space)
        assert row["energy_pj"] == certificate.energy_pj
        assert row["latency_cycles"] == certificate.latency_cycles
        assert row["edp"] == pytest.approx(certificate.value, rel=1e-12)
        assert (row["lower_bound"], row["gap"]) == (certificate.lower_bound, 0.0)
        assert row["L1.capacity_words"] == machine.levels[2].capacity_words
        assert row["processing_elements"] == machine.processing_elements
        code = record_code(space, json.loads(row["record"]))
        assert space.feasible(code[None, :]).all()
    first = results.architectures.iloc[0]
    assert first["energy_pj"] == table["energy_pj"][:2].sum()
    assert first["latency_cycles"] == table["latency_cycles"][:2].sum()
    assert first["edp"] == first["energy_pj"] * first["latency_cycles"]


def test_a_layer_counts_as_often_as_it_occurs(tmp_path: Path) -> None:
    content = content_for(grid={"L2.fanout": [16]}, workloads=[SMALL])
    plan = prepare_sweep(Sweep.model_validate(content), "x.yaml")
    thrice = SweepPlan(plan.sweep, plan.architectures, (Layer(workload(SMALL), 3),))
    once = sweep(plan, tmp_path, execute=map).architectures.iloc[0]
    total = sweep(thrice, tmp_path, execute=map).architectures.iloc[0]
    assert total["energy_pj"] == 3 * once["energy_pj"]
    assert total["edp"] == pytest.approx(9 * once["edp"])


def test_equal_problems_are_proven_once(tmp_path: Path) -> None:
    machines = ["mm256", {"extends": "mm256", "name": "twin"}]
    layers = [SMALL, {"name": "same", "gemm": {"M": 16, "N": 16, "K": 16}}]
    plan = plan_for(grid=None, accelerators=machines, workloads=layers)
    results = sweep(plan, tmp_path, execute=map)
    assert len(results.points) == 4
    assert len(proofs_in(tmp_path)) == 1
    assert results.points["edp"].nunique() == 1
    assert "4 points (1 distinct): 4 proven" in text_summary(results)
    # Of two equal architectures one is on the front.
    assert list(results.front["architecture"]) == ["mm256"]


def test_an_interrupted_sweep_continues_where_it_was(tmp_path: Path) -> None:
    def interrupted(
        function: Callable[[Chunk], list[Proof]], chunks: Sequence[Chunk]
    ) -> Iterator[list[Proof]]:
        yield function(chunks[0])
        raise KeyboardInterrupt

    plan = plan_for()
    with pytest.raises(KeyboardInterrupt):
        sweep(plan, tmp_path, execute=interrupted)
    before = proofs_in(tmp_path)
    assert 0 < len(before) < 12
    # What a killed worker left half written is passed over.
    torn = next((tmp_path / "proofs").glob("*.jsonl"))
    torn.write_text(torn.read_text() + '{"key": "torn')
    asked: list[str] = []

    def recording(
        function: Callable[[Chunk], list[Proof]], chunks: Sequence[Chunk]
    ) -> Iterator[list[Proof]]:
        asked.extend(problem.key for chunk in chunks for problem in chunk)
        return map(function, chunks)

    continued = sweep(plan, tmp_path, execute=recording)
    assert len(asked) == 12 - len(before)
    assert not before.keys() & set(asked)
    undisturbed = sweep(plan, tmp_path / "other", execute=map)
    figures = ["architecture", "workload", "energy_pj", "latency_cycles", "status"]
    pd.testing.assert_frame_equal(continued.points[figures], undisturbed.points[figures])
    asked.clear()
    sweep(plan, tmp_path, execute=recording)
    assert not asked
    # A larger grid proves what is new only.
    sweep(plan_for(workloads=[SMALL, OTHER, "gemm:M=4,N=4,K=4"]), tmp_path, execute=recording)
    assert len(asked) == 6


def test_a_killed_worker_loses_only_the_proof_at_work(tmp_path: Path, ray_runtime: None) -> None:
    marker = tmp_path / "killed"
    plan = plan_for()
    lines: list[int] = []

    def dies_after(function: Callable[[Chunk], list[Proof]]) -> Callable[[Chunk], list[Proof]]:
        def wrapped(chunk: Chunk) -> list[Proof]:
            answers = function(chunk)
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return answers

        return wrapped

    def execute(
        function: Callable[[Chunk], list[Proof]], chunks: Sequence[Chunk]
    ) -> Iterator[list[Proof]]:
        return fan_out(dies_after(function), chunks)

    results = sweep(plan, tmp_path, execute=execute)
    assert marker.exists()
    assert results.points["proven"].all()
    for path in (tmp_path / "proofs").glob("*.jsonl"):
        lines += [1 for line in path.read_text().splitlines() if line]
    assert len(lines) == 12  # The second try found the first one's proofs.


def test_workers_that_keep_dying_are_an_error(ray_runtime: None) -> None:
    def dies(chunk: Chunk) -> list[Proof]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []

    with pytest.raises(MapspaceError, match="died 1 times on the same points"):
        list(fan_out(dies, [()], retries=0, what="points"))


def test_a_point_without_a_mapping_is_data(tmp_path: Path) -> None:
    plan = plan_for(grid={"L1.capacity_words": [2, 16]}, workloads=[SMALL])
    results = sweep(plan, tmp_path, execute=map)
    row = results.points.iloc[0]
    assert (row["status"], row["proven"]) == ("infeasible", False)
    assert "L1 holds 2 words" in row["reason"]
    assert np.isnan(results.architectures["edp"].iloc[0])
    assert list(results.architectures["front"]) == [0, 1]
    assert "1 infeasible" in text_summary(results)
    nothing = sweep(
        plan_for(grid={"L1.capacity_words": [2]}, workloads=[SMALL]), tmp_path / "b", execute=map
    )
    assert "No accelerator has a mapping for every workload." in text_summary(nothing)
    assert write_sweep_report(nothing, tmp_path / "b").exists()


def test_a_proof_that_runs_out_of_time_is_data_and_tried_again_with_more(tmp_path: Path) -> None:
    hard: dict[str, Any] = {
        "base": "mm256-bw",
        "grid": {"L1.capacity_words": [2048], "L2.fanout": [64]},
        "workloads": ["vgg16-conv3_2"],
    }
    first = sweep(plan_for(**hard, seconds_per_point=0.001), tmp_path, execute=map)
    row = first.points.iloc[0]
    assert (row["status"], row["proven"]) == ("time_limit", False)
    # A search finds a mapping where the proof has none yet, so the gap is known.
    assert 0 < row["lower_bound"] < row["edp"]
    assert row["lower_bound"] * (1 + row["gap"]) == pytest.approx(row["edp"])
    # The same time again would tell nothing new.
    again = sweep(plan_for(**hard, seconds_per_point=0.001), tmp_path, execute=map)
    assert again.points["seconds"].iloc[0] == row["seconds"]
    second = sweep(plan_for(**hard, seconds_per_point=60.0), tmp_path, execute=map)
    assert second.points["status"].iloc[0] == "proven"
    assert row["lower_bound"] <= second.points["edp"].iloc[0] <= row["edp"]
    assert write_sweep_report(first, tmp_path).exists()


def test_a_problem_too_large_for_a_proof_is_data(tmp_path: Path) -> None:
    large = {
        "dimensions": dict.fromkeys("ABCDE", 1440),
        "tensors": {"X": ["A", "B", "C"], "Y": ["C", "D", "E"], "Z": ["A", "E"]},
        "output": "Z",
        "name": "large",
    }
    plan = plan_for(grid={"L2.fanout": [16]}, workloads=[SMALL, large])
    results = sweep(plan, tmp_path, execute=map)
    assert list(results.points["status"]) == ["proven", "unsupported"]
    assert results.points["reason"].iloc[1]


def test_any_key_of_a_real_machine_is_swept(tmp_path: Path) -> None:
    """And proven; any key and unit may be an axis. What no proof treats is searched."""
    plan = plan_for(
        base="gemmini",
        grid={
            "Scratchpad.capacity_bytes": [512, 65536],
            "Scratchpad.block_words": [1, 4],
            "DRAM.energy_pj": [{"read": 64.0, "fill": 64.0, "update": 90.0}],
        },
        workloads=["gemm:M=16,N=32,K=24"],
        energy_scaling="none",
    )
    points = sweep(plan, tmp_path, execute=map).points
    assert list(points["status"]) == ["proven"] * 4
    assert points["edp"].nunique() > 1
    first = plan.architectures[0].accelerator
    least = prove_any(MapSpace(workload("gemm:M=16,N=32,K=24"), first)).value
    assert points["edp"].iloc[0] == pytest.approx(least, rel=1e-12)
    plan = plan_for(
        base="gemmini", grid={"factors": ["imperfect"]}, workloads=["gemm:M=16,N=32,K=24"]
    )
    points = sweep(plan, tmp_path / "imperfect", execute=map).points
    assert list(points["status"]) == ["searched"]
    assert not points["proven"].any()
    assert (points["lower_bound"] * (1 + points["gap"])).to_numpy() == pytest.approx(points["edp"])
    assert points["edp"].iloc[0] > 0
    scaled = plan_for(
        base="simba",
        grid={"GlobalBuffer.capacity_words": [16384]},
        workloads=["gemm:M=16,N=32,K=24"],
        energy_scaling="sqrt",
    )
    energies = scaled.architectures[0].accelerator.levels[1].energies
    assert energies == (0.33, 0.36, 0.36)


def test_proofs_of_an_older_folder_are_used_and_its_results_replaced(tmp_path: Path) -> None:
    """A folder whose results are of a version that knew no seconds and no bits."""
    plan = plan_for(grid={"L2.fanout": [4]}, workloads=[SMALL])
    sweep(plan, tmp_path, execute=map)
    experiment = json.loads((tmp_path / "sweep.json").read_text())
    del experiment["experiment"]["limits"]
    (tmp_path / "sweep.json").write_text(json.dumps(experiment))
    table = pd.read_csv(tmp_path / "architectures.csv")
    old = table.drop(columns=["edp_js", "latency_s", "power_w", "within_limits"])
    old.rename(columns={"area_bits": "area"}).to_csv(tmp_path / "architectures.csv", index=False)

    def unasked(
        function: Callable[[Chunk], list[Proof]], chunks: Sequence[Chunk]
    ) -> Iterator[list[Proof]]:
        raise AssertionError

    results = sweep(plan, tmp_path, execute=unasked)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "architectures.csv"), table)
    assert results.best is not None


# MLflow's own queries use what SQLAlchemy has deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_sweep_from_file_to_mlflow(
    tmp_path: Path, ray_runtime: None, capsys: pytest.CaptureFixture[str]
) -> None:
    from mlflow.tracking import MlflowClient

    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(content_for(name="mine", objective="energy")))
    folder = tmp_path / "run"
    lines: list[str] = []
    run_experiment(str(file), folder, command="sweep", echo=lines.append)
    text, *closing = lines
    assert "12 points (12 distinct): 12 proven" in text
    assert "energy, mJ" in text
    assert closing[:2] == [f"results  {folder}", f"page     {folder / 'sweep.html'}"]
    page = (folder / "sweep.html").read_text()
    assert 'href="front.jsonl"' in page
    assert page.count("data:image/png;base64,") == 1
    table = pd.read_csv(folder / "architectures.csv")
    client = MlflowClient(tracking_uri=default_uri(folder))
    experiment = client.get_experiment_by_name("mine")
    runs = client.search_runs([experiment.experiment_id])
    assert [run.info.status for run in runs] == ["FINISHED"]
    data = runs[0].data
    assert data.params["grid.L2.fanout"] == "[4, 8, 16]"
    assert (data.metrics["points"], data.metrics["points_proven"]) == (12.0, 12.0)
    assert data.metrics["best_energy_pj"] == table["energy_pj"].min()
    assert len(client.get_metric_history(runs[0].info.run_id, "architecture_area_bits")) == 6
    files = {artifact.path for artifact in client.list_artifacts(runs[0].info.run_id)}
    assert files == {
        "results.parquet", "architectures.csv", "pareto.png", "sweep.html", "front.json",
        "front.jsonl",
    }  # fmt: skip
    # The same results are not logged twice.
    assert call("sweep", str(file), "--output", str(tmp_path / "run")) == 0
    assert text in capsys.readouterr().out
    assert len(client.search_runs([experiment.experiment_id])) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "benchmark"}, "kind: expected sweep, got 'benchmark'"),
        ({"grids": {}}, "grids: unknown key; did you mean grid"),
        ({"name": "../x"}, "name: expected a name that a file can have"),
        ({"grid": None}, "expected either a grid or a list of accelerators"),
        ({"accelerators": ["mm256"]}, "expected either a grid or a list of accelerators"),
        ({"grid": None, "accelerators": ["mm256"], "base": "mm256"}, "base: goes with a grid"),
        ({"grid": {"L1.capacity_words": []}}, "expected 1 or more entries"),
        ({"grid": {"L1.capacity_words": [16, 16]}}, "L1.capacity_words: 16 is given twice"),
        ({"grid": {"L3.fanout": [1]}}, "grid: L3.fanout: Unknown level 'L3'"),
        ({"grid": {"L2.fan_out": [1]}}, "Unknown key 'fan_out'; did you mean fanout"),
        ({"grid": {"processing_elements": [1]}}, "Unknown key 'processing_elements'"),
        ({"grid": {"L2.fanout": [0]}}, "L2.fanout=0: levels[L2].fanout: expected at least 1"),
        ({"grid": {"L2.fanout": list(range(1, 60_001))}}, "at most 100,000 points, got 120,000"),
        ({"grid": {"L1.energy_pj": [1.0]}, "energy_scaling": "sqrt"}, "sets the energies"),
        ({"workloads": [SMALL, "gem-512"]}, "workloads: Unknown workload 'gem-512'"),
        ({"workloads": [{"network": "resnet"}]}, "Unknown network 'resnet'"),
        ({"workloads": [{"network": "vgg16", "n": 1}]}, "workloads: n: unknown key"),
        ({"workloads": [{"network": "vgg16", "weight": 0}]}, "weight: expected at least 1, got 0"),
        ({"workloads": ["gemm-512", "gemm_512"]}, "the name 'gemm-512' is given twice"),
        ({"base": "tpu"}, "Unknown accelerator 'tpu'"),
        ({"area": {"levels": {"DRAM": 1.0}}}, "area: levels: Unknown level 'DRAM'"),
        ({"area": {"word": -1.0}}, "area.word: expected at least 0, got -1.0"),
        ({"limits": {"power": 2.0}}, "limits.power: unknown key; did you mean power_w"),
        ({"limits": {"power_w": 0.0}}, "limits.power_w: expected more than 0"),
        ({"objective": "area"}, "objective: expected"),
    ],
)
def test_a_wrong_file_is_one_clear_line(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(content_for(**changes)))
    with pytest.raises(ConfigError) as caught:
        run_experiment(str(path), tmp_path / "out", command="sweep")
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_another_sweep_in_the_folder_is_refused(tmp_path: Path) -> None:
    sweep(plan_for(grid={"L2.fanout": [4]}, workloads=[SMALL]), tmp_path, execute=map)
    with pytest.raises(ConfigError, match="expected the sweep 'new', found 'test'"):
        sweep(plan_for(name="new"), tmp_path, execute=map)


@pytest.mark.parametrize(
    ("name", "points"), [("sweep-smoke", 12), ("sweep-buffers", 1000), ("sweep-eyeriss", 1000)]
)
def test_shipped_experiments_are_valid(name: str, points: int) -> None:
    path = EXPERIMENTS / f"{name}.yaml"
    plan = prepare_sweep(load_experiment(path, Sweep), str(path))
    assert plan.sweep.name == name
    assert len(plan.architectures) * len(plan.layers) == points


def test_what_was_proven_before_is_read_from_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    proven: list[Problem] = []

    def counted(task: Any, chunks: Any) -> Iterator[Any]:
        for chunk in chunks:
            proven.extend(chunk)
            yield task(chunk)

    first = sweep(plan_for(workloads=[SMALL]), tmp_path / "first", execute=counted, store=store)
    assert len(proven) == 6
    second = sweep(plan_for(), tmp_path / "second", execute=counted, store=store)
    assert len(proven) == 12
    assert {problem.workload.name for problem in proven[6:]} == {OTHER}
    shared = second.points[second.points["workload"] == SMALL].reset_index(drop=True)
    for column in ("energy_pj", "latency_cycles", "status"):
        assert list(shared[column]) == list(first.points[column])
    # What a run says of where its answers are from.
    for plan, counts in ((plan_for(workloads=[SMALL]), (6, 0)), (plan_for(), (12, 0))):
        again = SweepExperiment(plan, execute=counted, store=store)
        lines: list[str] = []
        again.say = lines.append
        again.run(tmp_path / f"again-{counts[0]}")
        assert (again.taken, again.made) == counts
        assert f"test: {counts[0]} of them are in the store" in lines
    wider = SweepExperiment(
        plan_for(workloads=[SMALL, "gemm:M=4,N=4,K=4"]), execute=counted, store=store
    )
    wider.run(tmp_path / "wider")
    assert (wider.taken, wider.made) == (6, 6)
    del proven[12:]
    # A run whose folder knows them needs the store no more.
    sweep(plan_for(), tmp_path / "second", execute=counted)
    assert len(proven) == 12
