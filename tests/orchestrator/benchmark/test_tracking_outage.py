"""A real MLflow server that dies while a benchmark is logged: nothing is lost, nothing doubled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from marks import noisy_libraries
from mlflow_server import Server, content, serving
from processes import wait_for
from sample_results import make_results

from mapspace.errors import MapspaceError
from orchestrator.benchmark import mlflow_children, mlflow_log
from orchestrator.comparison.results_files import save
from orchestrator.runs import mlflow_client

pytestmark = [
    # A server takes a quarter of a minute to start, and it is started three times.
    pytest.mark.slow,
    noisy_libraries,
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as server:
        yield server


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
