"""A sweep in MLflow: one run, in which points are steps of a metric and rows of a table.

A thousand runs would take minutes to log and nobody would open them. The run holds the settings as
parameters, the counts and the best as metrics, two series over the architectures (their area and
objective, by rising area) and two over the Pareto front, and the run folder's files as artifacts.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import time
from pathlib import Path
from typing import Any

from costmodel.errors import MapspaceError
from orchestrator.sweep_report import FIGURE_FILE, PAGE_FILE, front_table
from orchestrator.sweep_results import ARCHITECTURES_FILE, RESULTS_FILE, SweepResults
from orchestrator.tracking import (
    LONGEST_PARAM,
    METRICS_PER_CALL,
    PARAMS_PER_CALL,
    TRACKING_FILE,
    experiment_id,
)

FRONT_TABLE = "front.json"


def log_sweep(results: SweepResults, folder: Path, tracking_uri: str) -> str:
    """Logs a sweep, unless the same results are logged there already.

    Args:
        results: what to log.
        folder: the run folder; its files become artifacts, and it remembers the run.
        tracking_uri: any store that MLflow knows.

    Returns:
        The run's id.

    Raises:
        MapspaceError: the store cannot be reached or written.
    """
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient
    from sqlalchemy.exc import SQLAlchemyError

    # It tells of every step of making a new store.
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    digest = hashlib.sha256((folder / ARCHITECTURES_FILE).read_bytes()).hexdigest()[:16]
    try:
        client = MlflowClient(tracking_uri=tracking_uri)
        known = _logged_before(client, folder, tracking_uri, digest)
        if known is not None:
            return known
        run = _log(client, results, folder, tracking_uri)
    except (MlflowException, SQLAlchemyError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise MapspaceError(f"MLflow at {tracking_uri}: {reason}") from error
    content = {"tracking_uri": tracking_uri, "parent": run, "digest": digest}
    partial = folder / f".{TRACKING_FILE}.partial"
    partial.write_text(json.dumps(content) + "\n")
    os.replace(partial, folder / TRACKING_FILE)
    return run


def _logged_before(client: Any, folder: Path, tracking_uri: str, digest: str) -> str | None:
    """The run that the folder remembers, if it holds these results in this store."""
    from mlflow.exceptions import MlflowException

    path = folder / TRACKING_FILE
    if not path.exists():
        return None
    known = json.loads(path.read_text())
    if known["tracking_uri"] != tracking_uri or known.get("digest") != digest:
        return None
    try:
        return str(client.get_run(known["parent"]).info.run_id)
    except MlflowException:
        return None  # The store was removed: log anew.


def _log(client: Any, results: SweepResults, folder: Path, tracking_uri: str) -> str:
    sweep = results.plan.sweep
    run = client.create_run(
        experiment_id(client, sweep.name, folder, tracking_uri),
        run_name=folder.resolve().name,
        tags={"mapspace.kind": "sweep", "mlflow.note.content": sweep.description},
    )
    run_id = str(run.info.run_id)
    _log_params(client, run_id, results)
    _log_metrics(client, run_id, results)
    header, rows = front_table(results)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    client.log_table(run_id, columns, FRONT_TABLE)
    for name in (RESULTS_FILE, ARCHITECTURES_FILE, FIGURE_FILE, PAGE_FILE):
        client.log_artifact(run_id, str(folder / name))
    client.set_terminated(run_id)
    return run_id


def _log_params(client: Any, run: str, results: SweepResults) -> None:
    from mlflow.entities import Param

    sweep = results.plan.sweep.model_dump(mode="json", exclude={"description", "kind"})
    grid = sweep.pop("grid") or {}
    area = sweep.pop("area")
    values = {
        **sweep,
        **{f"grid.{key}": axis for key, axis in grid.items()},
        **{f"area.{key}": weight for key, weight in area.items()},
    }
    params = [
        Param(key, text[:LONGEST_PARAM])
        for key, value in values.items()
        if value not in (None, "", {}, [])
        for text in [value if isinstance(value, str) else json.dumps(value)]
    ]
    for start in range(0, len(params), PARAMS_PER_CALL):
        client.log_batch(run, params=params[start : start + PARAMS_PER_CALL])


def _log_metrics(client: Any, run: str, results: SweepResults) -> None:
    from mlflow.entities import Metric

    points, column = results.points, results.objective_column
    by_area = results.architectures.sort_values("area", kind="stable")
    values = [
        ("points", float(len(points)), 0),
        ("architectures", float(len(by_area)), 0),
        ("front_size", float(len(results.front)), 0),
        *((f"points_{name}", float(n), 0) for name, n in points["status"].value_counts().items()),
        ("proof_seconds", float(points["seconds"].sum()), 0),
        ("largest_gap", float(points["gap"].fillna(0).max()), 0),
        (f"best_{column}", float(by_area[column].min()), 0),
    ]
    for series, rows in (("architecture", by_area), ("front", results.front)):
        for name in ("area", column):
            values += [
                (f"{series}_{name}", float(value), step) for step, value in enumerate(rows[name])
            ]
    now = round(time.time() * 1000)
    metrics = [
        Metric(name, value, now, step) for name, value, step in values if math.isfinite(value)
    ]
    for start in range(0, len(metrics), METRICS_PER_CALL):
        client.log_batch(run, metrics=metrics[start : start + METRICS_PER_CALL])
