"""The three calls that a finished run takes of an MLflow store, as they cost least.

MLflow's client makes messages of what it sends, text of those and objects of that text again, and
looks at every number on the way: more processor time than the call itself. To a server the same
requests go as JSON that is written once. MLflow's own function sends the first, with its addresses,
credentials and retries; what it has found out for that holds for the next ones. Sources: MLflow's
REST API, https://mlflow.org/docs/latest/rest-api.html: "Create Run", "Log Batch", "Update Run".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Point = tuple[str, float, int, int]
"""Name, value, step, timestamp in ms."""

PATH = "/api/2.0/mlflow/runs/"


class Begun(NamedTuple):
    """A run that was made: its id, and where its artifacts belong."""

    run: str
    artifacts: str


class Calls(Protocol):
    """What a run takes."""

    def begin(self, experiment: str, name: str, tags: Mapping[str, str], started: int) -> Begun:
        """Makes a run that began at a time, ms since 1970."""

    def log(self, run: str, params: Sequence[tuple[str, str]], points: Sequence[Point]) -> None:
        """Adds parameters and numbers, as many as a server takes at once."""

    def end(self, run: str, ended: int) -> None:
        """Says that a run finished, and when."""


def calls_of(client: Any) -> Calls:
    """The calls of MLflow's client: requests where it speaks to a server of MLflow's."""
    from mlflow.store.tracking.rest_store import RestStore

    store = client._tracking_client.store
    # One that is derived from it may send something else.
    return Requests(store) if type(store) is RestStore else OfClient(client)


class OfClient:
    """The calls by MLflow's client, for any store."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def begin(self, experiment: str, name: str, tags: Mapping[str, str], started: int) -> Begun:
        """See `Calls`."""
        made = self._client.create_run(experiment, start_time=started, run_name=name, tags=tags)
        return Begun(made.info.run_id, made.info.artifact_uri)

    def log(self, run: str, params: Sequence[tuple[str, str]], points: Sequence[Point]) -> None:
        """See `Calls`."""
        from mlflow.entities import Metric, Param

        metrics = [Metric(name, value, when, step) for name, value, step, when in points]
        self._client.log_batch(run, metrics=metrics, params=[Param(*one) for one in params])

    def end(self, run: str, ended: int) -> None:
        """See `Calls`."""
        self._client.set_terminated(run, end_time=ended)


class Requests:
    """The calls to a server."""

    def __init__(self, store: Any) -> None:
        """Sends nothing yet.

        Args:
            store: MLflow's store of a server, which knows its address and credentials.
        """
        self._store = store
        self._example: Example | None = None

    def begin(self, experiment: str, name: str, tags: Mapping[str, str], started: int) -> Begun:
        """See `Calls`."""
        made = self._post(
            "create",
            {
                "experiment_id": experiment,
                "user_id": "unknown",
                "start_time": started,
                "run_name": name,
                "tags": _pairs(tags.items()),
            },
        )["run"]["info"]
        return Begun(made["run_id"], made["artifact_uri"])

    def log(self, run: str, params: Sequence[tuple[str, str]], points: Sequence[Point]) -> None:
        """See `Calls`."""
        metrics = [
            {"key": name, "value": _number(value), "timestamp": when, "step": step}
            for name, value, step, when in points
        ]
        self._post("log-batch", {"run_id": run, "params": _pairs(params), "metrics": metrics})

    def end(self, run: str, ended: int) -> None:
        """See `Calls`."""
        told = {"run_id": run, "status": "FINISHED", "end_time": ended}
        # Whichever worker of the server is idle takes a new connection; one that stays keeps its
        # worker, which may be everybody's. Encrypted ones cost more to make than that, and mostly
        # end at a proxy that shares requests out.
        plain = self._store.get_host_creds().host.startswith("http://")
        self._post("update", told, {"Connection": "close"} if plain else {})

    def _post(
        self, call: str, content: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> Any:
        """The answer to a request.

        Raises:
            MlflowException: there is none, after MLflow's own retries, or it is a refusal.
            OSError: there is none, after as many.
        """
        from mlflow.utils.rest_utils import http_request, verify_rest_response

        creds = self._store.get_host_creds()
        path, more = f"{PATH}{call}", {**(headers or {})}
        example = self._example
        if example is not None and example.creds == vars(creds):
            response = example.sent(path, content, more)
        else:
            response = http_request(creds, path, "POST", json=content, extra_headers=more)
            self._example = None if more else Example.of(creds, response)
        return verify_rest_response(response, path).json()


@dataclass(frozen=True)
class Example:
    """A request that was answered, after which others to the same server are made.

    MLflow looks for proxies, certificates and the machine it runs on before each: two thirds of the
    processor time that sending took.

    Attributes:
        creds: what it was sent with.
        response: its answer, which has the request and MLflow's connections, with their retries.
        settings: proxies and certificates.
    """

    creds: Mapping[str, Any]
    response: Any
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, creds: Any, response: Any) -> Example | None:
        """After an answer; None where every request is signed, or was sent on elsewhere."""
        from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_TIMEOUT
        from requests import Session

        if creds.auth or creds.aws_sigv4 or response.history:
            return None
        settings = Session().merge_environment_settings(
            response.request.url, {}, False, creds.verify, creds.client_cert_path
        )
        timeout = MLFLOW_HTTP_REQUEST_TIMEOUT.get()
        return cls(dict(vars(creds)), response, {**settings, "timeout": timeout})

    def sent(self, path: str, content: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        """The answer to another request."""
        request = self.response.request.copy()
        request.url = f"{self.creds['host'].rstrip('/')}{path}"
        request.headers.update(headers)
        request.prepare_body(None, None, json=content)
        return self.response.connection.send(request, **self.settings)


def _pairs(pairs: Any) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in pairs]


def _number(value: float) -> float | str:
    """A number as Protocol Buffers have it in JSON, which has none that is not finite."""
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
