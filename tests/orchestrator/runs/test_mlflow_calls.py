"""What a server of MLflow has of a run that was sent as requests: all that its client sends."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from marks import noisy_libraries

from mapspace.errors import MapspaceError
from orchestrator.runs import mlflow_many
from orchestrator.runs.mlflow_calls import Example, OfClient, Requests, calls_of
from orchestrator.runs.mlflow_client import connected, load_mlflow
from orchestrator.runs.mlflow_many import FinishedRun, log_finished

pytestmark = noisy_libraries

METRICS = (
    ("loss", math.nan, 0, 1_000),
    ("loss", 3.5, 1, 1_100),
    ("loss", 2, 7, 1_200),
    ("per cent/above", math.inf, 0, 1_200),
    ("below", -math.inf, 0, 1_200),
    ("tiny", 5e-324, 3, 1_300),
)
TOKENS = ("first", "first", "second", "second")
MANY = tuple(("many", float(step), step, 1_000 + step) for step in range(1_100))
RUNS = (
    FinishedRun("of all / kinds", {"a.b": "ü"}, {"p": 1, "q": "text"}, METRICS, 1_000, 1_300),
    FinishedRun("long", {}, {f"p{i}": i for i in range(120)}, MANY, 1_000, 2_200, {"a.txt": "b"}),
    FinishedRun("empty", {}, {}, (), 1_000, 1_000),
)


class Heard:
    """MLflow's own server in a thread of this process, which notes what it is asked."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.calls: list[tuple[str, str]] = []
        self.told: list[tuple[str, str]] = []

    def __call__(self, environ: dict[str, Any], start: Any) -> Any:
        self.calls.append((environ["PATH_INFO"], environ.get("HTTP_CONNECTION", "")))
        self.told.append((environ.get("HTTP_AUTHORIZATION", ""), environ["HTTP_USER_AGENT"]))
        return self._app(environ, start)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Heard]]:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    load_mlflow()
    from mlflow.server import app, handlers
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from werkzeug.serving import make_server

    artifacts = (tmp_path / "artifacts").as_uri()
    store = SqlAlchemyStore(f"sqlite:///{tmp_path / 'server.db'}", artifacts)
    monkeypatch.setattr(handlers, "_get_tracking_store", lambda *_, **__: store)
    heard = Heard(app)
    there = make_server("127.0.0.1", 0, heard, threaded=True)
    thread = threading.Thread(target=there.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{there.server_port}", heard
    there.shutdown()
    thread.join()
    there.server_close()


def content(uri: str, experiment: str) -> dict[str, Any]:
    """All that a store holds of runs, but for their ids."""
    from mlflow.tracking import MlflowClient

    found, client = {}, MlflowClient(uri)
    for run in client.search_runs([experiment]):
        key = run.info.run_id
        history = {
            name: [
                (repr(one.value), one.step, one.timestamp)
                for one in client.get_metric_history(key, name)
            ]
            for name in run.data.metrics
        }
        tags = {name: value for name, value in run.data.tags.items() if name != "mlflow.user"}
        files = [file.path for file in client.list_artifacts(key)]
        info = (run.info.status, run.info.start_time, run.info.end_time, run.info.user_id)
        found[run.info.run_name] = (info, run.data.params, tags, history, files)
    return found


def test_requests_leave_what_the_client_leaves(
    server: tuple[str, Heard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, heard = server
    there = []
    with connected(uri) as client:
        for way in (OfClient, calls_of):
            monkeypatch.setattr(mlflow_many, "calls_of", way)
            experiment = client.create_experiment(way.__name__)
            heard.calls.clear()
            log_finished(client, experiment, RUNS)
            calls = list(heard.calls)
            there.append(content(f"sqlite:///{tmp_path / 'server.db'}", experiment))
    assert there[0] == there[1]
    assert {*there[1]} == {run.name for run in RUNS}
    info, params, _, history, _ = there[1]["of all / kinds"]
    assert info[0] == "FINISHED"
    assert params == {"p": "1", "q": "text"}
    assert [value for value, *_ in history["loss"]] == ["nan", "3.5", "2.0"]
    assert len(there[1]["long"][3]["many"]) == 1_100
    assert len(there[1]["long"][1]) == 120
    # Two calls for a run without content; one more for a hundred parameters and 1,000 numbers each.
    assert [path.rsplit("/")[-1] for path, _ in sorted(calls)].count("log-batch") == 1 + 3
    # A run's last request gives its connection away, no other one does.
    assert [how for path, how in calls if path.endswith("update")] == ["close"] * 3
    assert "close" not in {how for path, how in calls if not path.endswith("update")}


def test_encrypted_connections_are_kept() -> None:
    class Store:
        """As much of MLflow's as is asked for."""

        def get_host_creds(self) -> Any:
            from mlflow.utils.rest_utils import MlflowHostCreds

            return MlflowHostCreds("https://away")

    told = []
    requests = Requests(Store())
    requests._post = lambda *told_now: told.append(told_now)  # type: ignore[assignment,method-assign]
    requests.end("run", 5)
    assert told == [("update", {"run_id": "run", "status": "FINISHED", "end_time": 5}, {})]


def test_every_request_has_what_mlflow_adds(
    server: tuple[str, Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that changes in between, as a token does that has run out."""
    from mlflow.utils import rest_utils

    uri, heard = server
    by_mlflow = []
    original = rest_utils.http_request

    def counted(creds: Any, path: str, *arguments: Any, **named: Any) -> Any:
        by_mlflow.append(path)
        return original(creds, path, *arguments, **named)

    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "first")
    with connected(uri) as client:
        experiment = client.create_experiment("x")
        calls = calls_of(client)
        heard.told.clear()
        monkeypatch.setattr(rest_utils, "http_request", counted)
        run = calls.begin(experiment, "r", {}, 1).run
        calls.log(run, [("p", "1")], [])
        monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "second")
        calls.log(run, [("q", "1")], [])
        calls.end(run, 2)
    assert [token for token, _ in heard.told] == [f"Bearer {word}" for word in TOKENS]
    assert {agent.split("/")[0] for _, agent in heard.told} == {"mlflow-python-client"}
    assert [path.rsplit("/")[-1] for path in by_mlflow] == ["create", "log-batch"]


@pytest.mark.parametrize("changed", [{"auth": "kubernetes"}, {"aws_sigv4": True}, {}])
def test_signed_requests_and_those_sent_on_are_no_example(changed: dict[str, Any]) -> None:
    from mlflow.utils.rest_utils import MlflowHostCreds
    from requests import PreparedRequest, Response

    creds = MlflowHostCreds("http://there", **changed)
    answer = Response()
    answer.request = PreparedRequest()
    answer.request.prepare_url("http://there/api", None)
    assert (Example.of(creds, answer) is None) == bool(changed)
    answer.history = [Response()]
    assert Example.of(creds, answer) is None


def test_proxies_and_certificates_are_those_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.utils.rest_utils import MlflowHostCreds
    from requests import PreparedRequest, Response

    monkeypatch.setenv("HTTPS_PROXY", "http://between:8080")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "7")
    sent = []
    answer = Response()
    answer.connection = SimpleNamespace(  # type: ignore[attr-defined]
        send=lambda request, **how: sent.append((request, how))
    )
    answer.request = PreparedRequest()
    answer.request.prepare("POST", "https://there/first", {"X-Own": "kept"}, json={"a": 1})
    creds = MlflowHostCreds("https://there/", server_cert_path="ca.pem", client_cert_path="me.pem")
    example = Example.of(creds, answer)
    assert example is not None
    example.sent("/api/second", {"b": "ü"}, {"Connection": "close"})
    example.sent("/api/third", {}, {})
    ((second, how), (third, _)) = sent
    assert (second.url, second.method) == ("https://there/api/second", "POST")
    assert json.loads(second.body) == {"b": "ü"}
    assert int(second.headers["Content-Length"]) == len(second.body)
    assert (second.headers["X-Own"], second.headers["Connection"]) == ("kept", "close")
    assert how["proxies"]["https"] == "http://between:8080"
    assert (how["verify"], how["cert"], how["timeout"]) == ("ca.pem", "me.pem", 7)
    assert "Connection" not in third.headers
    assert answer.request.url == "https://there/first"


def test_a_refusal_is_an_error(server: tuple[str, Heard]) -> None:
    uri, _ = server
    with (
        pytest.raises(MapspaceError, match="No Experiment with id=77"),
        connected(uri) as client,
    ):
        log_finished(client, "77", RUNS)
