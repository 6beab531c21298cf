"""Many finished runs for MLflow at once.

Through its client a run takes three transactions and many look-ups, and 10,000 runs an hour. In a
store of SQL that this process has opened itself they are rows instead, of MLflow's own tables,
hundreds of runs in a transaction: a batch is there whole or not at all. A server gets a few at a
time.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.runs.mlflow_calls import Calls, calls_of
from orchestrator.runs.mlflow_client import LONGEST_PARAM, METRICS_PER_CALL, PARAMS_PER_CALL
from orchestrator.runs.mlflow_database import (
    MlflowDatabase,
    artifact_folder,
    metric_rows,
    pair_row,
    run_row,
)

Item = TypeVar("Item")

RUNS_PER_BATCH = 200
# Runs that are sent to a server at a time: most of their time it waits for its disk and for us.
SENDERS = 4
# What MLflow's tables hold of a tag and of a name.
LONGEST_TAG, LONGEST_NAME = 8000, 250
NOTE_TAG = "mlflow.note.content"


@dataclass(frozen=True)
class FinishedRun:
    """A run as it ends up in MLflow.

    Attributes:
        name: what the list of runs calls it.
        tags: what it can be searched for.
        params: as JSON where they are no text; what is empty is left out.
        metrics: (name, value, step, timestamp in ms) of every number.
        started: ms since 1970.
        ended: ms since 1970.
        texts: artifacts, by their names.
    """

    name: str
    tags: Mapping[str, str]
    params: Mapping[str, Any]
    metrics: tuple[tuple[str, float, int, int], ...]
    started: int
    ended: int
    texts: Mapping[str, str] = field(default_factory=dict)


def log_finished(client: Any, experiment: str, runs: Iterable[FinishedRun]) -> None:
    """Logs runs.

    Args:
        client: of the store.
        experiment: the id of the experiment there.
        runs: made one by one as they are sent.
    """
    store = _own_tables(client)
    if store is None:
        _send_all(client, experiment, runs)
        return
    for batch in _batches(runs, RUNS_PER_BATCH):
        _insert(store, client.get_experiment(experiment), batch)


def param_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as MLflow takes them; what is empty, and descriptions, are left out."""
    return {
        key: (value if isinstance(value, str) else json.dumps(value))[:LONGEST_PARAM]
        for key, value in values.items()
        if value not in (None, "", {}, []) and key != "description"
    }


def _batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def _own_tables(client: Any) -> Any | None:
    """The store where it is SQL, and this process writes to it; None for a server."""
    if isinstance(client, MlflowDatabase):
        return client
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = client._tracking_client.store
    return store if isinstance(store, SqlAlchemyStore) else None


def _insert(store: Any, experiment: Any, runs: Iterable[FinishedRun]) -> None:
    rows: dict[str, list[Mapping[str, Any]]] = {
        table: [] for table in ("runs", "tags", "params", "metrics", "latest_metrics")
    }
    for run in runs:
        key = uuid.uuid4().hex
        row = run_row(key, run.name[:LONGEST_NAME], experiment, start=run.started, end=run.ended)
        _write_texts(row["artifact_uri"], run.texts)
        rows["runs"].append(row)
        rows["tags"] += [pair_row(key, *one) for one in _tags(run).items()]
        rows["params"] += [pair_row(key, *one) for one in param_texts(run.params).items()]
        metrics = [*metric_rows(key, (one for one in run.metrics if not math.isinf(one[1])))]
        latest: dict[str, Mapping[str, Any]] = {}
        for row in metrics:
            name = row["key"]
            if name not in latest or _order(row) > _order(latest[name]):
                latest[name] = row
        rows["metrics"] += metrics
        rows["latest_metrics"] += latest.values()
    if isinstance(store, MlflowDatabase):
        store.insert(rows)
        return
    from mlflow.store.tracking.dbmodels.models import SqlRun

    with store.ManagedSessionMaker(read_only=False) as session:
        for table, found in rows.items():
            if found:
                session.execute(SqlRun.metadata.tables[table].insert(), found)


def _order(row: Mapping[str, Any]) -> tuple[int, int, float]:
    """Of a metric's entries MLflow's tables show the last by this."""
    return row["step"], row["timestamp"], row["value"]


def _tags(run: FinishedRun) -> dict[str, str]:
    cut = {name: text[:LONGEST_TAG] for name, text in run.tags.items()}
    return {**cut, "mlflow.runName": run.name[:LONGEST_NAME]}


def _write_texts(artifacts: str, texts: Mapping[str, str], tracking_uri: str | None = None) -> None:
    """Writes artifacts of a run to where its store keeps them."""
    if not texts:
        return
    target = artifact_folder(artifacts)
    if target is None:
        import tempfile

        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        with tempfile.TemporaryDirectory() as folder:
            for name, text in texts.items():
                (Path(folder) / name).write_text(text)
            get_artifact_repository(artifacts, tracking_uri).log_artifacts(folder)
        return
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (target / name).write_text(text)


def _send_all(client: Any, experiment: str, runs: Iterable[FinishedRun]) -> None:
    """Sends runs, a few at a time; those under way end before an error does."""
    calls = calls_of(client)
    under_way: set[Future[None]] = set()
    with ThreadPoolExecutor(SENDERS) as senders:
        for run in runs:
            if len(under_way) == SENDERS:
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for one in done:
                    one.result()
            under_way.add(senders.submit(_send, calls, client.tracking_uri, experiment, run))
    for one in under_way:
        one.result()


def _send(calls: Calls, tracking_uri: str, experiment: str, run: FinishedRun) -> None:
    """Sends a run in as few calls as MLflow has: its server takes a hundredth of a second each."""
    made = calls.begin(experiment, run.name[:LONGEST_NAME], _tags(run), run.started)
    params = [*param_texts(run.params).items()]
    first, *rest = [*_batches(params, PARAMS_PER_CALL)] or [[]]
    points = iter(run.metrics)
    some = [*islice(points, METRICS_PER_CALL - len(first))]
    if first or some:
        calls.log(made.run, first, some)
    for more in rest:
        calls.log(made.run, more, [])
    for some in _batches(points, METRICS_PER_CALL):
        calls.log(made.run, [], some)
    # The client would ask where they belong.
    _write_texts(made.artifacts, run.texts, tracking_uri)
    calls.end(made.run, run.ended)
