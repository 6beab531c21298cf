"""Training, benchmarks, sweeps and files at URIs of a real S3 API, against local ones."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from commands import call
from marks import noisy_libraries
from safetensors.torch import load

import surrogate
from mapspace.errors import ConfigError, DataError
from mapspace.storage import RemotePath, file_sizes, write_atomically
from orchestrator.benchmark.config import Benchmark, Plan, prepare
from orchestrator.benchmark.run import describe, run_benchmark
from orchestrator.benchmark.search_trial import Searches, finished_runs, run_trial
from orchestrator.cli import cli
from orchestrator.comparison import results_files
from orchestrator.comparison.results import Results
from orchestrator.runs import job
from orchestrator.runs.experiments import load_experiment
from orchestrator.runs.lock import claimed
from orchestrator.runs.mlflow_client import connected, default_uri
from orchestrator.sweep.config import Sweep
from orchestrator.sweep.plan import prepare_sweep
from orchestrator.sweep.run import sweep
from orchestrator.training.train import TrainConfig, run_train
from surrogate.predictor import SHIPPED
from surrogate.shards import Dataset
from surrogate.training import fit

pytestmark = noisy_libraries


# Surrogates


@pytest.mark.slow
def test_training_from_a_uri_to_a_uri_equals_training_on_local_files(
    small_data: Path, bucket: RemotePath, tmp_path: Path, ray_runtime: None, quick_locks: None
) -> None:
    for name in file_sizes(small_data):
        write_atomically(bucket / "data" / name, (small_data / name).read_bytes())
    config = {
        "kind": "train",
        "name": "test",
        "data": str(bucket / "data"),
        "views": 8192,
        "held_out_problems": 5,
        "checkpoint_views": 4096,
    }
    experiment = tmp_path / "train.yaml"
    experiment.write_text(json.dumps(config))
    output = bucket / "surrogate"
    cli.main(["train", str(experiment), "--output", str(output)], standalone_mode=False)
    assert sorted(file_sizes(output)) == [
        "curve.json",
        "progress.json",
        "surrogate.json",
        "surrogate.safetensors",
        "train.json",
        "training.html",
        "training.png",
    ]
    options = TrainConfig.model_validate(config).options()
    torch.set_num_threads(1)
    expected = fit(Dataset(small_data), options).network.state_dict()
    found = load((output / "surrogate.safetensors").read_bytes())
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert surrogate.load(str(output)).card.training["views"] == 8192
    # A finished run is left alone, another one refused.
    before = (output / "surrogate.json").read_bytes()
    run_train(TrainConfig.model_validate(config), output)
    assert (output / "surrogate.json").read_bytes() == before
    with pytest.raises(ConfigError, match=r"s3://.* holds another training run .*options"):
        run_train(TrainConfig.model_validate({**config, "seed": 3}), output)
    write_atomically(output / "surrogate.safetensors", b"rubbish")
    with pytest.raises(DataError, match=r"s3://.*surrogate\.safetensors.* is damaged"):
        surrogate.load(str(output))
    (bucket / "data" / "shard-00001.parquet").unlink()
    with pytest.raises(DataError, match=r"shard-00001\.parquet.*the file is missing"):
        run_train(TrainConfig.model_validate(config), bucket / "again")


# Benchmarks


def benchmark_file(folder: Path, **changes: object) -> Path:
    content = {
        "kind": "benchmark",
        "name": "small",
        "workloads": ["gemm:M=4,N=4,K=256"],
        "searchers": {"random": {}, "genetic": {}},
        "seeds": 2,
        "iterations": 300,
        "block_size": 100,
        **changes,
    }
    path = folder / "small.yaml"
    path.write_text(json.dumps(content))
    return path


def prepared(path: Path) -> Plan:
    return prepare(load_experiment(path, Benchmark), str(path))


def assert_equal_runs(ours: Results, theirs: Results) -> None:
    assert ours.bounds.keys() == theirs.bounds.keys()
    for a, b in zip(ours.runs, theirs.runs, strict=True):
        assert (a.searcher, a.workload, a.seed) == (b.searcher, b.workload, b.seed)
        assert (a.best_loss, a.best_code, a.iterations) == (b.best_loss, b.best_code, b.iterations)
        assert a.evaluation.tolist() == b.evaluation.tolist()
        assert a.loss.tolist() == b.loss.tolist()


@pytest.mark.parametrize("host", ["trials", pytest.param("blocks", marks=pytest.mark.slow)])
def test_a_remote_benchmark_equals_a_local_one(
    host: str, bucket: RemotePath, tmp_path: Path, ray_runtime: None, quick_locks: None
) -> None:
    searchers = {"random": {}, "genetic": {}} if host == "trials" else {"genetic": {}}
    # One worker there, two here.
    alone = benchmark_file(tmp_path, host=host, searchers=searchers, concurrency=1)
    local = run_benchmark(prepared(alone), tmp_path / "run")
    file = benchmark_file(tmp_path, host=host, searchers=searchers)
    remote = run_benchmark(prepared(file), str(bucket))
    assert_equal_runs(remote, local)
    assert_equal_runs(results_files.load(str(bucket)), local)
    names = ["best.jsonl", "curves.parquet", "experiment.json", "progress.json", "summary.json"]
    assert sorted(file_sizes(bucket)) == names
    assert (bucket / "best.jsonl").read_bytes() == (tmp_path / "run" / "best.jsonl").read_bytes()
    assert not (bucket / "searches").exists()
    certificates = file_sizes(bucket / "certificates")
    assert certificates.keys() == file_sizes(tmp_path / "run" / "certificates").keys() != set()
    lines: list[str] = []
    run_benchmark(prepared(file), bucket, progress=lines.append)
    assert lines == [f"small: already finished in {bucket}"]
    (bucket / "summary.json").unlink()
    with pytest.raises(ConfigError, match=r"s3://.*holds another experiment"):
        run_benchmark(prepared(benchmark_file(tmp_path, seeds=3)), bucket)


def test_a_trial_continues_from_its_state_at_a_uri(bucket: RemotePath, tmp_path: Path) -> None:
    plan = prepared(benchmark_file(tmp_path, seeds=[3], iterations=1000))
    (name,) = plan.workloads
    task = {"searcher": "genetic", "workload": name, "seeds": [3], "file": "0.npz"}
    first = Searches(plan, "genetic", name, [3])
    first.start_next()

    def stop(_: object) -> None:
        if first.evaluator.iterations_used >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.searcher.run(first.evaluator, stop)
    first.save(bucket / "0.npz")
    assert finished_runs(bucket / "0.npz", task) is None
    run_trial({"task": task}, plan, bucket, 0.0)
    (tmp_path / "alone").mkdir()
    run_trial({"task": task}, plan, tmp_path / "alone", 5.0)
    for found, alone in zip(
        finished_runs(bucket / "0.npz", task) or [],
        finished_runs(tmp_path / "alone" / "0.npz", task) or [],
        strict=True,
    ):
        assert (found.best_loss, found.best_code) == (alone.best_loss, alone.best_code)
        assert found.evaluation.tolist() == alone.evaluation.tolist()
        assert found.loss.tolist() == alone.loss.tolist()
        # What was searched before is not searched again.
        assert found.iterations == alone.iterations == 1000
    write_atomically(bucket / "0.npz", b"rubbish")
    with pytest.raises(DataError, match=r"s3://.*0\.npz.*: the state file is damaged"):
        run_trial({"task": task}, plan, bucket, 0.0)


def test_benchmark_and_report_commands_take_a_uri(
    bucket: RemotePath,
    tmp_path: Path,
    ray_runtime: None,
    quick_locks: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    file = benchmark_file(tmp_path, searchers={"random": {}}, iterations=50)
    cli.main(["benchmark", str(file), "--output", str(bucket)], standalone_mode=False)
    printed = capsys.readouterr().out
    assert f"results  {bucket}" in printed
    copy = tmp_path / "runs" / "remote" / "s3" / bucket.key
    assert (copy / "mlflow.db").exists()
    assert file_sizes(bucket).keys() == {
        *("best.jsonl", "curves.parquet", "experiment.json", "mlflow.db", "mlflow.json"),
        *("progress.json", "report.html", "summary.json"),
    }
    # On another machine, where that of the job is gone: what it needs comes from the URI.
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    cli.main(["report", str(bucket)], standalone_mode=False)
    told = capsys.readouterr()
    assert "has moved; its MLflow store finds its artifacts again" in told.err
    page = Path(told.out.strip())
    with connected(default_uri(page.parent)) as client:
        (parent,) = client.search_runs(["1"], "tags.`mapspace.kind` = 'benchmark'")
        logged = {file.path for file in client.list_artifacts(parent.info.run_id, "report")}
    assert "report/report.html" in logged
    assert page == Path("runs") / "remote" / "s3" / bucket.key / "report.html"
    assert (bucket / "report.html").read_bytes() == page.read_bytes()
    assert len(file_sizes(bucket / "figures")) == 4
    assert 'href="certificates/' in page.read_text()
    with pytest.raises(ConfigError, match="holds no finished benchmark"):
        cli.main(["report", str(bucket / "certificates")], standalone_mode=False)


@pytest.mark.slow
def test_a_killed_driver_of_a_remote_benchmark_continues_exactly(
    bucket: RemotePath, tmp_path: Path, ray_runtime: None, quick_locks: None
) -> None:
    file = benchmark_file(tmp_path, searchers={"genetic": {}}, seeds=2, iterations=100_000)
    code = (
        "import sys\n"
        "from orchestrator.benchmark import run\n"
        "run.CHECKPOINT_SECONDS = 0.2\n"
        "from orchestrator.cli import main\n"
        "main(['benchmark', sys.argv[1], '--output', sys.argv[2]])"
    )
    driver = subprocess.Popen([sys.executable, "-c", code, str(file), str(bucket)], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 180

        state = bucket / "searches" / "0.npz"
        while not state.exists():
            assert driver.poll() is None, "the driver ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        driver.kill()
        driver.wait()
    assert not (bucket / "summary.json").exists()
    lines: list[str] = []
    plan = prepared(file)
    continued = run_benchmark(plan, bucket, progress=lines.append)
    assert any(line.startswith("small: continuing") for line in lines)
    assert any(line.endswith("proven before") for line in lines)
    assert_equal_runs(continued, run_benchmark(plan, tmp_path / "undisturbed"))
    assert not (bucket / "searches").exists()
    assert not (bucket / ".lock").exists()


@pytest.mark.parametrize("kind", ["train", "generate"])
def test_what_a_job_left_at_a_uri_is_brought_home_but_for_data_sets(
    kind: str,
    bucket: RemotePath,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As of a job that ended well; `tests/cluster/test_jobs.py` has real ones."""

    async def followed(*_: object) -> str:
        return "SUCCEEDED"

    class Client:
        def get_job_info(self, name: str) -> Any:
            return SimpleNamespace(message="")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job, "_submitted", lambda *_: Client())
    monkeypatch.setattr(job, "_followed", followed)
    write_atomically(bucket / "deep" / "surrogate.json", b"{}")
    of_kind = {"train": {"data": "/data"}, "generate": {"problems": {"family": "cnn"}, "rows": 1}}
    file = tmp_path / "x.yaml"
    file.write_text(json.dumps({"kind": kind, "name": "x", **of_kind[kind]}))
    assert call("submit", file, "--output", bucket, "--json") == 0
    here = json.loads(capsys.readouterr().out)["here"]
    assert (here is None) == (kind == "generate")
    if here is not None:
        assert here == f"runs/remote/s3/{bucket.key}"
        assert (tmp_path / here / "deep" / "surrogate.json").read_bytes() == b"{}"


def test_a_benchmark_takes_a_surrogate_at_a_uri(bucket: RemotePath, tmp_path: Path) -> None:
    for file in SHIPPED.glob("mttkrp-mm256.*"):
        name = file.name.replace("mttkrp-mm256", "surrogate")
        write_atomically(bucket / name, file.read_bytes())
        (tmp_path / name).write_bytes(file.read_bytes())
    changes = {"workloads": ["mttkrp-0"], "searchers": {"gradient": {}}}
    plan = prepared(benchmark_file(tmp_path, surrogates={"mttkrp": str(bucket)}, **changes))
    other = tmp_path / "other"
    other.mkdir()
    for name in ("surrogate.json", "surrogate.safetensors"):
        (tmp_path / name).rename(other / name)
    local = prepared(benchmark_file(tmp_path, surrogates={"mttkrp": str(other)}, **changes))
    digests = [describe(found)["provenance"]["surrogates"] for found in (plan, local)]
    assert digests[0] == digests[1]
    with pytest.raises(ConfigError, match=r"s3://.*nothing\?.*no such file or folder"):
        prepared(benchmark_file(tmp_path, surrogates={"mttkrp": str(bucket / "nothing")}))


# Single files


def test_commands_read_and_write_single_files_at_uris(
    bucket: RemotePath, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> None:
        cli.main(list(arguments), standalone_mode=False)

    found, scored = bucket / "found.json", bucket / "scored.jsonl.gz"
    run("search", "gemm:M=4,N=4,K=256", "--seconds", "30", "--output", str(found))
    run("verify", str(bucket / "found.certificate.json"))
    assert "holds" in capsys.readouterr().out
    run("evaluate", "--model", "loopnest", str(found), "--output", str(scored))
    after = json.loads(gzip.decompress(scored.read_bytes()))
    # Counted by hand in test_benchmark: 16 cycles.
    assert after.pop("result")["cycles"] == 16
    assert after == json.loads(found.read_text())
    for command in (("verify",), ("evaluate", "--model", "loopnest")):
        with pytest.raises(ConfigError, match=r"^s3://.*nothing\?.*there is no such file"):
            run(*command, str(bucket / "nothing"))


# Sweeps


@pytest.mark.slow
def test_a_remote_sweep_equals_a_local_one_and_continues(
    bucket: RemotePath,
    tmp_path: Path,
    ray_runtime: None,
    quick_locks: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = {
        "kind": "sweep",
        "name": "small",
        "base": "mm256",
        "grid": {"L2.fanout": [4, 16]},
        "workloads": ["gemm:M=4,N=4,K=8", "gemm:M=2,N=4,K=8"],
    }
    file = tmp_path / "sweep.yaml"
    file.write_text(json.dumps(content))
    plan = prepare_sweep(load_experiment(file, Sweep), str(file))
    local = sweep(plan, tmp_path / "local", execute=map)
    monkeypatch.chdir(tmp_path)
    cli.main(["sweep", str(file), "--output", str(bucket)], standalone_mode=False)
    assert file_sizes(bucket).keys() == {
        *("architectures.csv", "front.jsonl", "mlflow.db", "mlflow.json", "pareto.png"),
        *("progress.json", "results.parquet", "sweep.html", "sweep.json"),
    }
    table = (bucket / "architectures.csv").read_text()
    assert table == local.architectures.to_csv(index=False)
    # What is proven is read.
    again = sweep(plan, bucket, execute=lambda function, chunks: pytest.fail("proves again"))
    assert again.architectures.equals(local.architectures)
    with pytest.raises(ConfigError, match="expected the sweep 'other', found 'small'"):
        sweep(
            replace(plan, sweep=plan.sweep.model_copy(update={"name": "other"})),
            bucket,
            execute=map,
        )


def test_every_command_keeps_others_out(
    bucket: RemotePath, small_data: Path, tmp_path: Path, quick_locks: None
) -> None:
    train = TrainConfig(kind="train", name="x", data=str(small_data), held_out_problems=5)
    plan = prepared(benchmark_file(tmp_path))
    for folder in (bucket, tmp_path / "run"):
        with claimed(folder):
            with pytest.raises(ConfigError, match="another run writes here"):
                run_train(train, folder)
            with pytest.raises(ConfigError, match="another run writes here"):
                run_benchmark(plan, folder)
