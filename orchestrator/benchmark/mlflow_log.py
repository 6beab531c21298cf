"""Benchmarks in MLflow: a parent run per benchmark, a child per searcher and workload.

Every child has the mean best-so-far as a metric with the evaluation as `step` and the search time
as `timestamp`, so that MLflow's comparison page draws the iso-iteration chart over *Step* and the
iso-time chart over *Time (Relative)*. Everything is logged from the driver after the searches, in
batches, so that tracking takes no search time. A server that goes away is waited for, four minutes
by MLflow's own settings (MLFLOW_HTTP_REQUEST_MAX_RETRIES); what could not be sent lies in the run
folder, and the next call adds it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.comparison.page import REPORT_FILE
from orchestrator.comparison.results import Results, percent_name
from orchestrator.comparison.results_files import (
    CERTIFICATES_FOLDER,
    CURVES_FILE,
    RECORDS_FILE,
    SUMMARY_FILE,
)
from orchestrator.runs.mlflow_client import connected, experiment_id, metric_name, remembered_run
from orchestrator.runs.mlflow_record import log_metrics, log_params


def log_results(results: Results, folder: str | Path, tracking_uri: str) -> str:
    """Logs a benchmark, or adds what an interrupted call has left out.

    Args:
        results: what to log.
        folder: the run folder; its files become the parent's artifacts, and it remembers the
            parent run.
        tracking_uri: any store that MLflow knows.

    Returns:
        The parent run's id.

    Raises:
        MapspaceError: the store cannot be reached or written.
    """
    folder = Path(folder)
    with connected(tracking_uri) as client:
        experiment = experiment_id(client, str(results.experiment["name"]), folder, tracking_uri)
        parent = remembered_run(
            client,
            experiment,
            folder,
            tracking_uri,
            tags={
                "mapspace.kind": "benchmark",
                "mlflow.note.content": str(results.experiment.get("description", "")),
            },
        )
        finished = _finished_children(client, experiment, parent)
        for searcher in results.searchers:
            for workload in results.workloads:
                if (searcher, workload) not in finished:
                    _log_child(client, experiment, parent, results, searcher, workload)
        # A request that was answered too late and sent again has made an empty child.
        _finished_children(client, experiment, parent)
        if client.get_run(parent).info.status != "FINISHED":
            settings = {**results.experiment, **results.provenance}
            log_params(client, parent, {**settings, "optimum_proven": results.proven})
            _log_summary(client, parent, results)
            for name in (CURVES_FILE, SUMMARY_FILE, RECORDS_FILE):
                # Runs from before there were records, or of a model without, have none.
                if name != RECORDS_FILE or (folder / name).exists():
                    client.log_artifact(parent, str(folder / name))
            if (folder / CERTIFICATES_FOLDER).is_dir():
                client.log_artifacts(parent, str(folder / CERTIFICATES_FOLDER), CERTIFICATES_FOLDER)
            if (folder / REPORT_FILE).exists():
                client.log_artifact(parent, str(folder / REPORT_FILE), "report")
            client.set_terminated(parent)
    return parent


def _finished_children(client: Any, experiment: str, parent: str) -> set[tuple[str, str]]:
    """Children that are logged completely; what is incomplete is deleted."""
    finished = set()
    children = client.search_runs(
        [experiment], f"tags.`mlflow.parentRunId` = '{parent}'", max_results=10_000
    )
    for child in children:
        if child.info.status == "FINISHED":
            tags = child.data.tags
            finished.add((tags["mapspace.searcher"], tags["mapspace.workload"]))
        else:
            client.delete_run(child.info.run_id)
    return finished


def _log_child(
    client: Any, experiment: str, parent: str, results: Results, searcher: str, workload: str
) -> None:
    started = round(time.time() * 1000)
    child = client.create_run(
        experiment,
        start_time=started,
        run_name=f"{searcher} / {workload}",
        tags={
            "mlflow.parentRunId": parent,
            "mapspace.searcher": searcher,
            "mapspace.workload": workload,
        },
    ).info.run_id
    entry = next(e for e in results.experiment["searchers"] if e["label"] == searcher)
    budget = {
        key: results.experiment[key]
        for key in ("iterations", "seconds", "query_latency", "seeds", "accelerator", "host")
    }
    parameters = {f"parameters.{key}": value for key, value in entry["parameters"].items()}
    entry = {key: value for key, value in entry.items() if key != "parameters"}
    log_params(
        client,
        child,
        {**entry, **parameters, "workload": workload, **budget, **_bound_params(results, workload)},
    )
    metrics = [
        (name, value, step, started + round(1000 * seconds))
        for name, value, seconds, step in _curve_metrics(results, searcher, workload)
    ]
    # Relative time counts from a metric's first entry, which must be the start of the search for
    # every method alike: an entry without a value, that no chart draws.
    origin = {name: (name, math.nan, 0, started) for name, *_ in metrics}
    # A last point, so that single numbers show in MLflow's tables.
    end = max((timestamp for *_, timestamp in metrics), default=started)
    final = _final_metrics(results, searcher, workload)
    log_metrics(
        client,
        child,
        [
            *origin.values(),
            *metrics,
            *((name, value, 0, end) for name, value in final.items()),
        ],
    )
    client.set_terminated(child, end_time=end)


def _bound_params(results: Results, workload: str) -> dict[str, Any]:
    """What the per cent of a workload are above."""
    bounds = results.bounds[workload]
    known = {"optimum": bounds.optimum} if bounds.proven else {"lower_bound": bounds.reference}
    return {**known, "optimum_proven": bounds.proven}


def _curve_metrics(
    results: Results, searcher: str, workload: str
) -> Iterable[tuple[str, float, float, int]]:
    """(name, value, seconds, evaluation) of the mean best-so-far over a grid of the budget."""
    axis = results.primary_axis
    runs = results.of(searcher, workload)
    objective = results.experiment["objective"]
    grid = results.grid(workload, axis)
    end = max(run.iterations if axis == "evaluation" else run.seconds for run in runs)
    grid = np.unique(np.append(grid[grid < end], end))
    curve = results.curve(searcher, workload, axis, grid)
    above = results.curve_above(searcher, workload, axis, grid)
    # How far the other axis has come, on average over the seeds, at every point of the grid.
    own = "evaluation" if axis == "evaluation" else "time"
    other = "time" if axis == "evaluation" else "evaluation"
    along = np.mean(
        [
            np.interp(
                grid,
                np.concatenate([[0.0], getattr(run, own)]),
                np.concatenate([[0.0], getattr(run, other)]),
            )
            for run in runs
        ],
        axis=0,
    )
    seconds, evaluations = (along, grid) if axis == "evaluation" else (grid, along)
    bounds = results.bounds[workload]
    percent = percent_name(bounds.proven, bounds.measured)
    for index in range(len(grid)):
        mean = float(curve.mean[index])
        if not np.isfinite(mean):
            continue
        place = (float(seconds[index]), round(float(evaluations[index])))
        yield f"normalised_{objective}", mean, *place
        yield percent, 100 * float(above.mean[index]), *place


def _final_metrics(results: Results, searcher: str, workload: str) -> dict[str, float]:
    final = results.final(searcher, workload)
    runs = results.of(searcher, workload)
    values = {
        "final": float(final.mean),
        "final_low": float(final.low),
        "final_high": float(final.high),
        "mean_iterations": float(np.mean([run.iterations for run in runs])),
        "mean_true_queries": float(np.mean([run.true_queries for run in runs])),
        "mean_surrogate_queries": float(np.mean([run.surrogate_queries for run in runs])),
        "mean_seconds": float(np.mean([run.seconds for run in runs])),
    }
    lost = results.fruitless(searcher, workload).count
    if lost:
        values["found_nothing"] = float(lost)
    return {name: value for name, value in values.items() if np.isfinite(value)}


def _log_summary(client: Any, parent: str, results: Results) -> None:
    # Not now: sent again, it is the same entry.
    now = client.get_run(parent).info.start_time
    metrics = []
    for searcher in results.searchers:
        overall = results.overall(searcher)
        # Where a run found nothing there is neither.
        if np.isfinite(overall):
            name, percent = metric_name(searcher), 100 * results.overall_above(searcher)
            metrics.append((f"normalised/{name}", overall, 0, now))
            above = percent_name(results.proven, results.measured)
            metrics.append((f"{above}/{name}", percent, 0, now))
    log_metrics(client, parent, metrics)
