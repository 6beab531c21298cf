"""What MLflow gets of a run: parameters, series of numbers and files, in batches.

What could not be sent is sent by the next call, and what was sent is not sent again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.runs.mlflow_client import (
    METRICS_PER_CALL,
    PARAMS_PER_CALL,
    connected,
    experiment_id,
    remembered_run,
)
from orchestrator.runs.mlflow_database import MlflowDatabase
from orchestrator.runs.mlflow_many import param_texts


@dataclass(frozen=True)
class Record:
    """One run for MLflow.

    Attributes:
        content: tells its results from others of the experiment, which are another run.
        metrics: (name, value, step) of every number; what is not finite is left out.
        files: become artifacts.
        tables: columns of tables, by the name of their file.
    """

    content: str
    metrics: Iterable[tuple[str, float, int]] = ()
    files: tuple[Path, ...] = ()
    tables: Mapping[str, Mapping[str, list[Any]]] = field(default_factory=dict)


def log_run(settings: Any, record: Record, folder: Path, tracking_uri: str) -> str:
    """Logs a run, unless the same results are logged there already.

    Args:
        settings: the experiment as its file has it: parameters, name, kind and description.
        record: its results.
        folder: the run folder, which remembers the run.
        tracking_uri: any store that MLflow knows.

    Returns:
        The run's id.

    Raises:
        MapspaceError: the store cannot be reached or written.
    """
    tags = {"mapspace.kind": settings.kind, "mlflow.note.content": settings.description}
    with connected(tracking_uri) as client:
        experiment = experiment_id(client, settings.name, folder, tracking_uri)
        run = remembered_run(
            client, experiment, folder, tracking_uri, content=record.content, tags=tags
        )
        there = client.get_run(run).info
        if there.status == "FINISHED":
            return run
        log_params(client, run, _flat(settings.model_dump(mode="json")))
        # The time of the run, not now: sent again, they are the same entries.
        entries = [(*one, there.start_time) for one in record.metrics if math.isfinite(one[1])]
        log_metrics(client, run, entries)
        for name, columns in record.tables.items():
            # Sent again it would be appended.
            if all(file.path != name for file in client.list_artifacts(run)):
                client.log_table(run, dict(columns), name)
        for path in record.files:
            client.log_artifact(run, str(path))
        client.set_terminated(run)
    return run


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with those within others as `grid.L2.fanout`."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        within = value if isinstance(value, Mapping) else {}
        flat |= {f"{key}.{name}": one for name, one in within.items()} or {key: value}
    return flat


def log_params(client: Any, run: str, values: Mapping[str, Any]) -> None:
    """Sends parameters, as JSON where they are no text; what is empty is left out."""
    if isinstance(client, MlflowDatabase):
        client.add_params(run, param_texts(values))
        return
    from mlflow.entities import Param

    params = [Param(key, text) for key, text in param_texts(values).items()]
    for start in range(0, len(params), PARAMS_PER_CALL):
        client.log_batch(run, params=params[start : start + PARAMS_PER_CALL])


def log_metrics(client: Any, run: str, entries: Iterable[tuple[str, float, int, int]]) -> None:
    """Sends (name, value, step, timestamp in ms) of metrics."""
    if isinstance(client, MlflowDatabase):
        client.add_metrics(run, entries)
        return
    from mlflow.entities import Metric

    metrics = [Metric(name, value, timestamp, step) for name, value, step, timestamp in entries]
    for start in range(0, len(metrics), METRICS_PER_CALL):
        client.log_batch(run, metrics=metrics[start : start + METRICS_PER_CALL])


def digest(path: Path) -> str:
    """SHA-256 of a file, 16 digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
