"""`ray job submit` against a head of its own, with a token: what it accepts, runs and says."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import call
from paths import ROOT
from processes import descendants, kill, wait_for

from orchestrator.benchmark.tune_runner import SEARCHES_FOLDER
from orchestrator.comparison import results_files
from orchestrator.runs import job
from orchestrator.runs.checkpoints import load_state

pytestmark = pytest.mark.every_part

RAY = str(Path(sys.executable).with_name("ray"))
START_SECONDS = 280
JOB_SECONDS = 280

GENERATE = {
    "kind": "generate",
    "name": "tiny",
    "problems": {"family": "cnn"},
    "rows": 4000,
    "mappings_per_problem": 100,
    "problems_per_shard": 10,
}


@dataclass(frozen=True)
class Head:
    """A running head: its ports, and the environment with the token that opens it."""

    port: int
    dashboard: str
    token: str
    environment: dict[str, str]

    def ray(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [RAY, *arguments],
            env={**self.environment, **changes},
            capture_output=True,
            text=True,
            timeout=JOB_SECONDS,
            check=False,
        )

    def submit(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of ours as a job and waits for it; its log is in the output."""
        job = [sys.executable, "-m", "orchestrator", *command]
        return self.ray("job", "submit", "--submission-id", name, "--", *job)

    def get(self, path: str, token: str | None = None, post: dict[str, str] | None = None) -> Any:
        """The answer of the job server, to JSON that is posted where there is any."""
        body = None if post is None else json.dumps(post).encode()
        request = urllib.request.Request(f"{self.dashboard}{path}", data=body)
        request.add_header("Content-Type", "application/json")
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def job(self, name: str) -> dict[str, Any]:
        return dict(self.get(f"/api/jobs/{name}", self.token))


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    # Not in pytest's folder: a socket's path may have 107 characters only.
    folder = Path(tempfile.mkdtemp(prefix="mapspace-"))
    token = uuid.uuid4().hex
    (folder / "token").write_text(token)
    port, dashboard, client, agent = free_ports(4)
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("RAY_")},
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{dashboard}",
    }
    started = Head(port, f"http://127.0.0.1:{dashboard}", token, environment)
    command = [RAY, "start", "--head", "--block", f"--temp-dir={folder / 'ray'}"]
    command += [f"--port={port}", f"--ray-client-server-port={client}"]
    command += ["--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
    # Other Rays of this machine may have the usual ports.
    command += [f"--dashboard-agent-listen-port={agent}", "--min-worker-port=0"]
    command += ["--max-worker-port=0", "--num-cpus=2", f"--object-store-memory={200 << 20}"]

    def start() -> subprocess.Popen[bytes]:
        with (folder / "log").open("w") as log:
            return subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    process = start()
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                # It answers before there is an agent that takes jobs.
                started.get("/api/jobs/", token, post={"entrypoint": "true"})
                break
            except OSError:
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.5)
                if process.poll() is not None:
                    # It gives its own processes half a minute, too little on a busy machine.
                    process = start()
        yield started
    finally:
        # Never `ray stop`, which ends every Ray of the machine.
        ours = descendants(process.pid)
        process.kill()
        process.wait(10)
        for left in ours:
            kill(left)
        shutil.rmtree(folder, ignore_errors=True)


def write(path: Path, content: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return str(path)


def failure(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_data_surrogate_and_benchmark_as_jobs(head: Head, small_data: Path, tmp_path: Path) -> None:
    """One after the other on the cluster, with the same data set as without one."""
    data, surrogate, run = (tmp_path / name for name in ("data", "surrogate", "run"))
    experiment = write(tmp_path / "generate.yaml", GENERATE)
    done = head.submit("generate", "generate", experiment, "--output", str(data))
    assert done.returncode == 0, failure(done)
    shards = [
        json.loads((folder / "manifest.json").read_text())["shards"]
        for folder in (data, small_data)
    ]
    assert shards[0] == shards[1]

    experiment = write(
        tmp_path / "train.yaml",
        {
            "kind": "train",
            "name": "tiny",
            "data": str(data),
            "views": 8192,
            "held_out_problems": 5,
        },
    )
    done = head.submit("train", "train", experiment, "--output", str(surrogate))
    assert done.returncode == 0, failure(done)

    experiment = write(
        tmp_path / "benchmark.yaml",
        {
            "kind": "benchmark",
            "name": "tiny",
            "workloads": ["cnn:N=2,K=32,C=32,P=7,Q=7,R=3,S=3"],
            "searchers": {"random": {}, "gradient": {}},
            "surrogates": {"cnn": str(surrogate)},
            "seeds": 2,
            "iterations": 200,
            "proof_seconds": 0,
        },
    )
    done = head.submit("benchmark", "benchmark", experiment, "--output", str(run))
    assert done.returncode == 0, failure(done)
    found = results_files.load(run).runs
    assert [(entry.searcher, entry.seed, entry.iterations) for entry in found] == [
        (searcher, seed, 200) for searcher in ("random", "gradient") for seed in (0, 1)
    ]
    assert f"results  {run}" in done.stdout
    for name in ("generate", "train", "benchmark"):
        assert head.job(name)["status"] == "SUCCEEDED"
        # Set once a driver has attached: none of them started a Ray of its own.
        assert head.job(name)["job_id"] is not None
    assert str(run) in head.ray("job", "logs", "benchmark").stdout


@pytest.mark.slow
def test_a_failing_job_says_why_in_one_line(head: Head, tmp_path: Path) -> None:
    experiment = write(tmp_path / "wrong.yaml", {**GENERATE, "rowz": 1})
    done = head.submit("wrong", "generate", experiment, "--output", str(tmp_path / "data"))
    assert done.returncode != 0
    job = head.job("wrong")
    assert (job["status"], job["driver_exit_code"]) == ("FAILED", 2)
    log = head.ray("job", "logs", "wrong")
    assert [line for line in failure(log).splitlines() if "rowz" in line] == [
        f"Error: {experiment}: rowz: unknown key; did you mean rows? Known keys: kind, name, "
        "description, problems, accelerator, rows, mappings_per_problem, problems_per_shard, seed."
    ]
    assert "Traceback" not in failure(log)


@pytest.mark.slow
def test_a_searcher_that_needs_ray_uses_the_cluster(head: Head) -> None:
    done = head.submit("ppo", "search", "gemm:M=32,N=32,K=32", "--searcher=ppo", "--iterations=64")
    assert done.returncode == 0, failure(done)
    assert head.job("ppo")["job_id"] is not None


@pytest.mark.slow
def test_a_job_is_stopped_and_continued(head: Head, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = {
        "kind": "benchmark",
        "name": "stopped",
        "workloads": ["gemm:M=32,N=32,K=32"],
        "searchers": {"random": {}},
        "seeds": 2,
        "seconds": 12,
        "proof_seconds": 0,
    }
    experiment = write(tmp_path / "benchmark.yaml", settings)
    command = [sys.executable, "-m", "orchestrator", "benchmark", experiment, "--output", str(run)]
    arguments = ["job", "submit", "--no-wait", "--submission-id", "stopped", "--", *command]
    assert head.ray(*arguments).returncode == 0
    states = run / SEARCHES_FOLDER
    wait_for(lambda: list(states.glob("*.npz")), JOB_SECONDS)
    # What `ray job stop` sends; on a busy machine that command starts for longer than this runs.
    assert head.get("/api/jobs/stopped/stop", head.token, post={}) == {"stopped": True}
    wait_for(lambda: head.job("stopped")["status"] == "STOPPED")
    log = head.get("/api/jobs/stopped/logs", head.token)["logs"]
    last = "Error: interrupted; the same command continues what is resumable."
    assert log.splitlines()[-1] == last
    assert not (run / "summary.json").exists()
    [state] = [load_state(path) for path in states.glob("*.npz")]
    assert state["current"] is not None
    kept = state["current"]["evaluator"]
    assert kept["seconds"] > 0
    done = head.submit("continued", "benchmark", experiment, "--output", str(run))
    assert done.returncode == 0, failure(done)
    assert "stopped: continuing" in failure(done)
    first, second = results_files.load(run).runs
    assert (first.seed, second.seed) == (0, 1)
    # No two searches improve at the same moments: what was found before the stop was not searched
    # again.
    points = len(kept["curve_seconds"])
    assert first.time[:points].tolist() == kept["curve_seconds"].tolist()
    assert first.loss[:points].tolist() == kept["curve_loss"].tolist()


@pytest.mark.slow
def test_an_experiment_is_submitted_followed_stopped_and_continued(
    head: Head, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings = {
        "kind": "benchmark",
        "name": "followed",
        "accelerator": "beside.yaml",
        "workloads": ["gemm:M=32,N=32,K=32"],
        "searchers": {"random": {}},
        "seeds": 2,
        "seconds": 6,
        "proof_seconds": 0,
    }
    experiment = write(tmp_path / "benchmark.yaml", settings)
    write(tmp_path / "beside.yaml", {"extends": "mm256", "name": "beside"})
    command = [sys.executable, "-m", "orchestrator", "submit", experiment, f"--output={run}"]

    def submitted(name: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, "--id", name], env=head.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    follower = submitted("followed-1")
    wait_for(lambda: list((run / SEARCHES_FOLDER).glob("*.npz")), JOB_SECONDS)
    assert head.get("/api/jobs/followed-1/stop", head.token, post={}) == {"stopped": True}
    said, errors = follower.communicate(timeout=JOB_SECONDS)
    assert follower.returncode == 1
    first, *_, last = errors.splitlines()
    assert first.startswith(
        f"job followed-1 at {head.dashboard}: mapspace benchmark benchmark.yaml"
    )
    again = "the same command continues what is resumable."
    assert last == f"Error: job followed-1 was stopped; {again}"
    assert "followed: searchers x workloads x seeds = 1 x 1 x 2" in said
    command.append("--json")
    said, errors = submitted("followed-2").communicate(timeout=JOB_SECONDS)
    answer = {"job": "followed-2", "output": str(run), "here": None, "page": None}
    assert json.loads(said) == {**answer, "from_store": False}
    assert "followed: continuing" in errors
    assert f"results  {run}" in errors
    assert len(results_files.load(run).runs) == 2


@pytest.mark.slow
def test_nothing_is_told_without_the_token(head: Head, tmp_path: Path) -> None:
    for token in (None, "wrong"):
        for path in ("/api/version", "/api/jobs/"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                head.get(path, token)
            refused.value.close()
            assert refused.value.code in (401, 403)
    wrong = tmp_path / "token"
    wrong.write_text("wrong")
    done = head.ray("job", "submit", "--", "true", RAY_AUTH_TOKEN_PATH=str(wrong))
    assert done.returncode != 0
    assert "Authentication" in failure(done)
    # A driver from outside: one line, and no cluster of its own instead.
    address = f"127.0.0.1:{head.port}"
    known = {"RAY_ADDRESS": address, "RAY_AUTH_TOKEN_PATH": str(wrong)}
    done = generate_from_outside(tmp_path, {**head.environment, **known})
    assert done.returncode == 2, done.stderr
    assert f"Error: Ray at {address!r}:" in done.stderr


def generate_from_outside(
    folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs a driver that is no job."""
    experiment = write(folder / "generate.yaml", GENERATE)
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", "generate", experiment, f"--output={folder / 'd'}"],
        env=environment, capture_output=True, text=True, timeout=JOB_SECONDS, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"kind": "other"}, (), "kind: expected benchmark"),
        ({"rowz": 1}, (), "rowz: unknown key"),
        ({}, ("--output=runs/x",), "expected a URI, or an absolute path that all nodes share"),
        ({}, ("--address=http://127.0.0.1:9",), "Ray at 'http://127.0.0.1:9': "),
    ],
)
def test_what_cannot_be_submitted_is_one_line(
    changes: dict[str, Any],
    options: tuple[str, ...],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    experiment = write(tmp_path / "generate.yaml", {**GENERATE, **changes})
    given = {"--output": f"--output={tmp_path / 'x'}", "--address": "--address=http://127.0.0.1:1"}
    given |= {option.partition("=")[0]: option for option in options}
    assert call("submit", experiment, *given.values()) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_control_c_leaves_the_job_alone_and_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def pressed(client: object, name: str, echo: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "_submitted", lambda *_: None)
    monkeypatch.setattr(job, "_followed", pressed)
    experiment, at = write(tmp_path / "generate.yaml", GENERATE), "http://127.0.0.1:8265"
    assert (
        call("submit", experiment, f"--output={tmp_path / 'x'}", "--id=a", "--address", at) == 130
    )
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith(f"job a at {at}: mapspace generate generate.yaml")
    assert last == (
        f"Error: interrupted; job a goes on: `ray job logs --follow --address {at} a` shows it, "
        f"`ray job stop --address {at} a` ends it, and then the same command continues what is "
        "resumable."
    )


def test_the_address_of_a_job_server_is_no_cluster(tmp_path: Path) -> None:
    address = "http://127.0.0.1:8265"
    done = generate_from_outside(tmp_path, {**os.environ, "RAY_ADDRESS": address})
    assert done.returncode == 2
    assert "RAY_API_SERVER_ADDRESS" in done.stderr.splitlines()[-1]
