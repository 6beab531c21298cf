"""A real MLflow server that dies while a benchmark is logged: nothing is lost, nothing doubled."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from marks import noisy_libraries
from processes import wait_for
from sample_results import make_results

from mapspace.errors import MapspaceError
from orchestrator.benchmark import mlflow_children, mlflow_log
from orchestrator.comparison.results import Results
from orchestrator.comparison.results_files import save
from orchestrator.runs import mlflow_client

pytestmark = [
    # A server takes a quarter of a minute to start, and it is started three times.
    pytest.mark.slow,
    noisy_libraries,
]


class Server:
    """`mlflow server` on SQLite, on a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Starts it; it is ready later."""
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{self.folder / 'store.db'}"]
        command += ["--artifacts-destination", str(self.folder / "artifacts")]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def die(self) -> None:
        """SIGKILL for it and its workers."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    server = Server(tmp_path)
    server.begin()
    try:
        wait_for(server.ready)
        yield server
    finally:
        server.die()


@contextmanager
def before_child(
    number: int, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Acts in the middle of logging, before the metrics of a child are sent."""
    original, calls = mlflow_children._curve_metrics, 0

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            act()
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(mlflow_children, "_curve_metrics", counted)
        yield


def content(results: Results, uri: str) -> dict[str, Any]:
    """Everything that a store holds of a benchmark, without ids and times of the day."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(results.experiment["name"])
    found: dict[str, Any] = {}
    for run in client.search_runs([experiment.experiment_id], max_results=1000):
        metrics = {
            key: [
                (point.step, point.timestamp - run.info.start_time, repr(point.value))
                for point in client.get_metric_history(run.info.run_id, key)
            ]
            for key in run.data.metrics
        }
        files = [file.path for file in client.list_artifacts(run.info.run_id)]
        assert run.info.run_name not in found
        found[run.info.run_name] = (run.info.status, run.data.params, metrics, files)
    return found


def test_a_server_that_dies_twice_holds_everything_once_in_the_end(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = make_results(name="outage")
    folder = tmp_path / "run"
    folder.mkdir()
    save(results, folder)

    # It stays away for longer than is waited: one clear line.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    with (
        before_child(3, server.die, monkeypatch),
        pytest.raises(MapspaceError, match=r"the same command sends what is missing") as caught,
    ):
        mlflow_log.log_results(results, folder, server.uri)
    assert "\n" not in str(caught.value)
    server.begin()
    wait_for(server.ready)

    # It comes back while it is waited for.
    def die_and_come_back() -> None:
        server.die()
        threading.Timer(3, server.begin).start()

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "10")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
    with before_child(2, die_and_come_back, monkeypatch):
        logged = mlflow_log.log_results(results, folder, server.uri)
    assert mlflow_log.log_results(results, folder, server.uri) == logged
    assert logged.compare.startswith(f"{server.uri}/#/compare-runs?")

    undisturbed = tmp_path / "undisturbed" / "run"
    undisturbed.mkdir(parents=True)
    save(results, undisturbed)
    local = mlflow_client.default_uri(undisturbed)
    mlflow_log.log_results(results, undisturbed, local)
    assert content(results, server.uri) == content(results, local)
