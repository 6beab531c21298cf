"""A sweep in MLflow: one run, in which points are steps of a metric and rows of a table.

A thousand runs would take minutes to log and nobody would open them. The run holds the settings as
parameters, the counts and the best as metrics, two series over the architectures (their area and
objective, by rising area) and two over the Pareto front, and the run folder's files as artifacts.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from orchestrator.sweep_report import FIGURE_FILE, PAGE_FILE, front_table
from orchestrator.sweep_results import ARCHITECTURES_FILE, RESULTS_FILE, SweepResults
from orchestrator.tracking import (
    LONGEST_PARAM,
    METRICS_PER_CALL,
    PARAMS_PER_CALL,
    connected,
    experiment_id,
    remembered_run,
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
    digest = hashlib.sha256((folder / ARCHITECTURES_FILE).read_bytes()).hexdigest()[:16]
    sweep = results.plan.sweep
    with connected(tracking_uri) as client:
        run = remembered_run(
            client,
            experiment_id(client, sweep.name, folder, tracking_uri),
            folder,
            tracking_uri,
            # Other results, such as those with more time for proofs, are another run.
            content=digest,
            tags={"mapspace.kind": "sweep", "mlflow.note.content": sweep.description},
        )
        if client.get_run(run).info.status != "FINISHED":
            _log(client, run, results, folder)
    return run


def _log(client: Any, run: str, results: SweepResults, folder: Path) -> None:
    _log_params(client, run, results)
    _log_metrics(client, run, results)
    header, rows = front_table(results)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    # Sent again it would be appended.
    if all(file.path != FRONT_TABLE for file in client.list_artifacts(run)):
        client.log_table(run, columns, FRONT_TABLE)
    for name in (RESULTS_FILE, ARCHITECTURES_FILE, FIGURE_FILE, PAGE_FILE):
        client.log_artifact(run, str(folder / name))
    client.set_terminated(run)


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
    # Not now: sent again, they are the same entries.
    now = client.get_run(run).info.start_time
    metrics = [
        Metric(name, value, now, step) for name, value, step in values if math.isfinite(value)
    ]
    for start in range(0, len(metrics), METRICS_PER_CALL):
        client.log_batch(run, metrics=metrics[start : start + METRICS_PER_CALL])
