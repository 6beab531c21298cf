"""Storage by URI, against a real S3 API on localhost: every command, and what goes wrong."""

from __future__ import annotations

import gzip
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer
from pyarrow.fs import FileSelector
from safetensors.torch import load

import surrogate
from costmodel.errors import ConfigError, DataError, MapspaceError
from orchestrator import lock, results
from orchestrator.benchmark import describe, run_benchmark
from orchestrator.cli import cli
from orchestrator.experiment import Plan, load_benchmark, prepare
from orchestrator.generate import GenerateConfig, generate
from orchestrator.lock import claimed
from orchestrator.results import Results
from orchestrator.sweep import sweep
from orchestrator.sweep_config import load_sweep
from orchestrator.sweep_plan import prepare_sweep
from orchestrator.train import TrainConfig, run_train
from surrogate.predictor import SHIPPED
from surrogate.shards import Dataset, ShardEntry
from surrogate.storage import (
    RemotePath,
    download,
    file_sizes,
    make_folder,
    place,
    remove_folder,
    write_atomically,
)
from surrogate.training import fit

pytestmark = [
    # Ray leaves sockets and files to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """HOST:PORT of an S3 server."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    request = urllib.request.Request(f"http://{host}:{port}/bucket", method="PUT")
    with urllib.request.urlopen(request):
        yield f"{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, request: pytest.FixtureRequest) -> RemotePath:
    """A folder of its own for every test."""
    found = place(f"s3://bucket/{request.node.name}?scheme=http&endpoint_override={endpoint}")
    assert isinstance(found, RemotePath)
    return found


@pytest.fixture
def quick_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lock, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.05)


def post(url: str, content: bytes) -> None:
    request = urllib.request.Request(url, content, {"Content-Type": "text/plain"})
    with urllib.request.urlopen(request):
        pass


def data_config(**changes: object) -> GenerateConfig:
    content = {
        "kind": "generate",
        "name": "test",
        "problems": {"family": "mttkrp"},
        "rows": 120,
        "mappings_per_problem": 10,
        "problems_per_shard": 3,
    }
    return GenerateConfig.model_validate({**content, **changes})


# Places


def test_a_place_is_a_path_or_a_uri() -> None:
    assert place("a/b") == Path("a/b")
    assert place("file:///a/b%20c") == Path("/a/b c")
    remote = place("s3://bucket/a/b/?region=x")
    assert remote == RemotePath("s3", "bucket/a/b", "region=x")
    assert str(remote / "c d.json") == "s3://bucket/a/b/c%20d.json?region=x"
    assert (remote / "c.json").name == "c.json"
    assert (remote / "c.json").parent == remote
    assert (remote / "c.json").with_suffix(".bin") == remote / "c.bin"
    assert place(remote) is remote.resolve()


@given(st.lists(st.text("abc %?#&=+-_.", min_size=1).filter(lambda n: n.strip(".")), min_size=1))
def test_every_remote_path_survives_its_own_text(names: list[str]) -> None:
    path = RemotePath("gs", "bucket", "retry_limit_seconds=5")
    for name in names:
        path = path / name
    assert place(str(path)) == path
    assert pickle.loads(pickle.dumps(path)) == path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://host/x", "expected a path or a URI of s3, gs, file"),
        ("s3:///x", "got no bucket"),
        ("file://host/x", "file:///PATH"),
        ("s3://../b", "without empty parts"),
        ("s3://bucket/a/../../b", "without empty parts"),
        ("s3://bucket/a//b", "without empty parts"),
        ("s3://bucket/%2e%2e/b", "without empty parts"),
    ],
)
def test_a_wrong_uri_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        place(text)


def test_credentials_in_a_uri_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="no credentials in a URI") as caught:
        place("s3://key:topsecret@bucket/a")
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "", "/x", "."])
def test_a_name_does_not_lead_out_of_its_folder(name: str) -> None:
    with pytest.raises(ConfigError, match="without empty parts"):
        RemotePath("s3", "bucket/a") / name


# Reading and writing


def test_files_are_written_read_listed_and_removed(bucket: RemotePath, tmp_path: Path) -> None:
    for folder in (bucket, tmp_path / "local"):
        make_folder(folder)
        assert not (folder / "x").exists()
        assert file_sizes(folder) == {}
        write_atomically(folder / "x", b"old")
        write_atomically(folder / "x", b"new content")
        make_folder(folder / "below")
        write_atomically(folder / "below" / "y", b"y")
        assert (folder / "x").read_bytes() == b"new content"
        assert (folder / "x").read_text() == "new content"
        assert (folder / "x").exists()
        assert folder.is_dir()
        assert (folder / "below").is_dir()
        assert not (folder / "x").is_dir()
        assert file_sizes(folder) == {"x": 11}
        (folder / "x").unlink()
        (folder / "x").unlink(missing_ok=True)
        with pytest.raises(FileNotFoundError):
            (folder / "x").unlink()
        with pytest.raises(FileNotFoundError):
            (folder / "x").read_bytes()
        if isinstance(folder, RemotePath):
            download(folder, tmp_path / "copy", lambda name: name.startswith("below/"))
            assert (tmp_path / "copy" / "below" / "y").read_bytes() == b"y"
        remove_folder(folder)
        remove_folder(folder)
        assert not (folder / "below" / "y").exists()


def test_what_object_storage_refuses_is_one_clear_line(
    endpoint: str, bucket: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = RemotePath("s3", "nowhere/a", bucket.query)
    with pytest.raises(ConfigError, match=r"nowhere/a\?.*: there is no such bucket"):
        make_folder(nowhere)
    with pytest.raises(MapspaceError, match="cannot be written: there is no such bucket"):
        write_atomically(nowhere / "x", b"")
    with pytest.raises(ConfigError, match="query parameter"):
        _ = RemotePath("s3", "bucket/a", "endpont=localhost").filesystem
    # From now on the server knows who may do what, and this account may do nothing.
    reset = f"http://{endpoint}/moto-api/reset-auth"
    post(reset, b"0")
    try:
        for action in (
            lambda: (bucket / "x").read_bytes(),
            lambda: write_atomically(bucket / "x", b""),
            lambda: file_sizes(bucket),
        ):
            with pytest.raises(MapspaceError, match="no permission; the credentials") as caught:
                action()
            assert "\n" not in str(caught.value)
    finally:
        post(reset, b"inf")
    assert not (bucket / "x").exists()


def test_an_endpoint_that_does_not_answer_is_one_clear_line() -> None:
    dead = RemotePath("s3", "bucket/a", "scheme=http&endpoint_override=127.0.0.1:1")
    with pytest.raises(MapspaceError, match=r"127\.0\.0\.1:1: .*endpoint cannot be reached"):
        make_folder(dead)


def test_an_object_cannot_be_copied_out_of_the_folder(
    endpoint: str, bucket: RemotePath, tmp_path: Path
) -> None:
    url = f"http://{endpoint}/{bucket.key}/below/..%2F..%2Fevil"
    with urllib.request.urlopen(urllib.request.Request(url, b"x", method="PUT")):
        pass
    with pytest.raises(ConfigError, match=r"without empty parts, '\.' and '\.\.'"):
        download(bucket, tmp_path / "a" / "b", lambda name: True)
    assert not list(tmp_path.rglob("evil"))


def test_google_storage_is_opened_without_waiting_for_ever() -> None:
    path = place("gs://bucket/a/b")
    assert isinstance(path, RemotePath)
    assert path.filesystem.type_name == "gcs"
    _, (options,) = path.filesystem.__reduce__()
    assert options["retry_time_limit"] == timedelta(seconds=60)


# Data sets


def test_a_remote_data_set_equals_a_local_one_and_is_repaired(
    bucket: RemotePath, tmp_path: Path, quick_locks: None
) -> None:
    local = generate(data_config(), tmp_path, execute=map)
    first = generate(data_config(rows=60), bucket, execute=map)
    assert (first.written, first.kept) == (2, 0)
    more = generate(data_config(), bucket, execute=map)
    assert (more.written, more.kept) == (2, 2)
    assert more.manifest.shards == local.manifest.shards
    for shard in local.manifest.shards:
        assert (bucket / shard.file).read_bytes() == (tmp_path / shard.file).read_bytes()
    assert file_sizes(bucket) == file_sizes(tmp_path)

    write_atomically(bucket / "shard-00001.parquet", b"PAR1 rubbish")
    (bucket / "shard-00003.parquet").unlink()
    with pytest.raises(DataError, match=r"s3://.*shard-00001\.parquet.* is damaged"):
        Dataset(bucket).read(1)
    repaired = generate(data_config(), bucket, execute=map)
    assert (repaired.written, repaired.kept) == (2, 2)
    assert "shard-00001.parquet" in repaired.damaged[0]
    assert "(the file is missing)" in repaired.damaged[1]
    assert file_sizes(bucket) == file_sizes(tmp_path)
    ours, theirs = Dataset(str(bucket)).read(3), Dataset(tmp_path).read(3)
    assert ours.inputs.tobytes() == theirs.inputs.tobytes()
    with pytest.raises(ConfigError, match=r"another data set .*seed"):
        generate(data_config(seed=1), bucket, execute=map)


def test_an_interrupted_remote_run_continues(bucket: RemotePath, quick_locks: None) -> None:
    def interrupted(
        function: Callable[[int], ShardEntry], indices: Sequence[int]
    ) -> Iterator[ShardEntry]:
        yield from map(function, indices[:2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(data_config(), bucket, execute=interrupted)
    continued = generate(data_config(), bucket, execute=map)
    assert (continued.written, continued.kept) == (2, 2)


def test_the_command_takes_an_experiment_and_writes_a_data_set_at_uris(
    bucket: RemotePath,
    tmp_path: Path,
    ray_runtime: None,
    quick_locks: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = RemotePath("s3", "bucket/experiments/data.yaml", bucket.query)
    write_atomically(experiment, data_config().model_dump_json().encode())
    cli.main(["generate", str(experiment), "--output", str(bucket)], standalone_mode=False)
    assert Dataset(bucket).manifest.rows == 120
    assert sorted(file_sizes(bucket)) == [
        "manifest.json",
        *(f"shard-0000{index}.parquet" for index in range(4)),
    ]


# Surrogates


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
    assert sorted(file_sizes(output)) == ["surrogate.json", "surrogate.safetensors", "train.json"]
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
    return prepare(load_benchmark(path), str(path))


def assert_equal_runs(ours: Results, theirs: Results) -> None:
    assert ours.bounds.keys() == theirs.bounds.keys()
    for a, b in zip(ours.runs, theirs.runs, strict=True):
        assert (a.searcher, a.workload, a.seed) == (b.searcher, b.workload, b.seed)
        assert (a.best_loss, a.best_code, a.iterations) == (b.best_loss, b.best_code, b.iterations)
        assert a.evaluation.tolist() == b.evaluation.tolist()
        assert a.loss.tolist() == b.loss.tolist()


@pytest.mark.parametrize("host", ["trials", "blocks"])
def test_a_remote_benchmark_equals_a_local_one(
    host: str, bucket: RemotePath, tmp_path: Path, ray_runtime: None, quick_locks: None
) -> None:
    searchers = {"random": {}, "genetic": {}} if host == "trials" else {"genetic": {}}
    file = benchmark_file(tmp_path, host=host, searchers=searchers)
    local = run_benchmark(prepared(file), tmp_path / "run")
    remote = run_benchmark(prepared(file), str(bucket))
    assert_equal_runs(remote, local)
    assert_equal_runs(results.load(str(bucket)), local)
    assert sorted(file_sizes(bucket)) == ["curves.parquet", "experiment.json", "summary.json"]
    assert not (bucket / "tune").exists()
    certificates = file_sizes(bucket / "certificates")
    assert certificates.keys() == file_sizes(tmp_path / "run" / "certificates").keys() != set()
    lines: list[str] = []
    run_benchmark(prepared(file), bucket, progress=lines.append)
    assert lines == [f"small: already finished in {bucket}"]
    (bucket / "summary.json").unlink()
    with pytest.raises(ConfigError, match=r"s3://.*holds another experiment"):
        run_benchmark(prepared(benchmark_file(tmp_path, seeds=3)), bucket)


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
        *("curves.parquet", "experiment.json", "mlflow.json", "summary.json")
    }
    # On another machine, with the tracking server gone: what it needs comes from the URI.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (bucket / "mlflow.json").unlink()
    cli.main(["report", str(bucket)], standalone_mode=False)
    page = Path(capsys.readouterr().out.strip())
    assert page == Path("runs") / "remote" / "s3" / bucket.key / "report.html"
    assert (bucket / "report.html").read_bytes() == page.read_bytes()
    assert len(file_sizes(bucket / "figures")) == 3
    assert 'href="certificates/' in page.read_text()
    with pytest.raises(ConfigError, match="holds no finished benchmark"):
        cli.main(["report", str(bucket / "certificates")], standalone_mode=False)


def test_a_killed_driver_of_a_remote_benchmark_continues_exactly(
    bucket: RemotePath, tmp_path: Path, ray_runtime: None, quick_locks: None
) -> None:
    file = benchmark_file(tmp_path, searchers={"genetic": {}}, seeds=1, iterations=10_000)
    code = (
        "import sys\n"
        "from orchestrator import benchmark\n"
        "benchmark.CHECKPOINT_SECONDS = 0.2\n"
        "from orchestrator.cli import main\n"
        "main(['benchmark', sys.argv[1], '--output', sys.argv[2]])"
    )
    driver = subprocess.Popen([sys.executable, "-c", code, str(file), str(bucket)], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 180

        def under_way() -> bool:
            found = bucket.filesystem.get_file_info(
                FileSelector(f"{bucket.key}/tune", recursive=True, allow_not_found=True)
            )
            names = {entry.base_name for entry in found}
            return {"searches.npz", "tuner.pkl"} <= names

        while not under_way():
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
    assert "small: continuing" in lines
    assert any(line.endswith("proven before") for line in lines)
    assert_equal_runs(continued, run_benchmark(plan, tmp_path / "undisturbed"))
    assert not (bucket / "tune").exists()
    assert not (bucket / ".lock").exists()


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


# Two runs at one place


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_a_second_run_is_refused_and_told_who_is_there(
    remote: bool, bucket: RemotePath, tmp_path: Path, quick_locks: None
) -> None:
    folder = bucket if remote else tmp_path / "data"

    def while_another_starts(
        function: Callable[[int], ShardEntry], indices: Sequence[int]
    ) -> Iterator[ShardEntry]:
        for index in indices:
            yield function(index)
            with pytest.raises(ConfigError, match=rf"another run writes here \(process {here} on"):
                generate(data_config(), folder, execute=map)

    here = os.getpid()
    made = generate(data_config(rows=60), folder, execute=while_another_starts)
    assert made.written == 2
    assert sorted(file_sizes(folder)) == [
        *("manifest.json", "shard-00000.parquet", "shard-00001.parquet")
    ]
    assert generate(data_config(rows=60), folder, execute=map).kept == 2


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


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_the_lock_of_a_killed_run_does_not_stay(
    remote: bool, bucket: RemotePath, tmp_path: Path, quick_locks: None
) -> None:
    folder = bucket if remote else tmp_path
    code = (
        "import os, signal, sys\n"
        "from orchestrator.lock import claimed\n"
        "from surrogate.storage import place\n"
        "with claimed(place(sys.argv[1])):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(folder)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (folder / ".lock").exists()
    with claimed(folder):
        assert str(os.getpid()) in (folder / ".lock").read_text()
    assert not (folder / ".lock").exists()


def test_a_run_that_stalled_finds_its_folder_taken(bucket: RemotePath, quick_locks: None) -> None:
    with claimed(bucket) as claim:
        claim.check()
        deadline = time.monotonic() + 30
        # Like a living run: once is not enough where this one is just about to write.
        while not claim.lost and time.monotonic() < deadline:
            write_atomically(bucket / ".lock", b'{"token": "of another run"}')
            time.sleep(0.1)
        with pytest.raises(MapspaceError, match="another run has taken the folder over"):
            claim.check()
    # It is not this run's to remove.
    assert (bucket / ".lock").exists()


def test_of_two_that_start_in_the_same_moment_one_goes_on(
    bucket: RemotePath, quick_locks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.5)
    start = threading.Barrier(2)
    outcomes: list[str] = []

    def run() -> None:
        start.wait()
        try:
            with claimed(bucket):
                outcomes.append("in")
                time.sleep(0.5)
        except ConfigError:
            outcomes.append("refused")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["in", "refused"]


# Sweeps


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
    plan = prepare_sweep(load_sweep(file), str(file))
    local = sweep(plan, tmp_path / "local", execute=map)
    monkeypatch.chdir(tmp_path)
    cli.main(["sweep", str(file), "--output", str(bucket)], standalone_mode=False)
    assert file_sizes(bucket).keys() == {
        *("architectures.csv", "mlflow.json", "pareto.png"),
        *("results.parquet", "sweep.html", "sweep.json"),
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
