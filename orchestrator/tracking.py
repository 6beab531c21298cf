"""Benchmarks in MLflow: a parent run per benchmark, a child per searcher and workload.

Every child has the mean best-so-far as a metric with the evaluation as `step` and the search time
as `timestamp`, so that MLflow's comparison page draws the iso-iteration chart over *Step* and the
iso-time chart over *Time (Relative)*. Everything is logged from the driver after the searches, in
batches, so that tracking takes no search time. A server that goes away is waited for, four minutes
by MLflow's own settings (MLFLOW_HTTP_REQUEST_MAX_RETRIES); what could not be sent lies in the run
folder, and the next call adds it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.errors import MapspaceError
from orchestrator.proofs import CERTIFICATES_FOLDER
from orchestrator.results import CURVES_FILE, SUMMARY_FILE, Results, percent_name
from surrogate.storage import write_atomically

TRACKING_FILE = "mlflow.json"
DATABASE_FILE = "mlflow.db"
ARTIFACTS_FOLDER = "artifacts"

# The server refuses more metrics or parameters in one call.
METRICS_PER_CALL = 1000
PARAMS_PER_CALL = 100
LONGEST_PARAM = 6000
# A run's tag that its folder knows before the run is made: a request that is sent again because its
# answer was lost is recognised by it.
KEY_TAG = "mapspace.key"


def default_uri(folder: str | Path) -> str:
    """A SQLite file in a run folder."""
    return f"sqlite:///{(Path(folder) / DATABASE_FILE).resolve()}"


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
            _log_params(client, parent, {**settings, "optimum_proven": results.proven})
            _log_summary(client, parent, results)
            for name in (CURVES_FILE, SUMMARY_FILE):
                client.log_artifact(parent, str(folder / name))
            if (folder / CERTIFICATES_FOLDER).is_dir():
                client.log_artifacts(parent, str(folder / CERTIFICATES_FOLDER), CERTIFICATES_FOLDER)
            client.set_terminated(parent)
    return parent


def attach(folder: str | Path, files: Sequence[Path]) -> None:
    """Adds files, such as a report, to the parent run that a run folder remembers, if it does.

    Raises:
        MapspaceError: the store cannot be reached or written.
    """
    known = _known(Path(folder))
    if "parent" not in known:
        return
    with connected(known["tracking_uri"]) as client:
        for file in files:
            client.log_artifact(known["parent"], str(file), artifact_path="report")


@contextmanager
def connected(tracking_uri: str) -> Iterator[Any]:
    """An MLflow client for the length of a block.

    Raises:
        MapspaceError: the store cannot be reached or written, after MLflow's own retries.
    """
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient
    from sqlalchemy.exc import SQLAlchemyError

    # It tells of every step of making a new store.
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    try:
        yield MlflowClient(tracking_uri=tracking_uri)
    except (MlflowException, SQLAlchemyError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise MapspaceError(
            f"MLflow at {tracking_uri}: {reason} Nothing is lost: the same command sends what is "
            "missing."
        ) from error


def metric_name(text: str) -> str:
    """A metric's name with only the characters that every MLflow version allows."""
    return re.sub(r"[^\w./ -]+", "", text).strip()


def experiment_id(client: Any, name: str, folder: Path, tracking_uri: str) -> str:
    """The MLflow experiment of a name, made if there is none; artifacts lie in the run folder."""
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    # A local store would put artifacts under the working directory, wherever that happens to be.
    location = None
    if tracking_uri.startswith("sqlite:"):
        location = (folder / ARTIFACTS_FOLDER).resolve().as_uri()
    return str(client.create_experiment(name, artifact_location=location))


def remembered_run(
    client: Any,
    experiment: str,
    folder: Path,
    tracking_uri: str,
    *,
    tags: dict[str, str],
    content: str = "",
) -> str:
    """The run that a folder remembers, or a new one that it remembers from now on.

    Args:
        client: of the store.
        experiment: the id of the experiment there.
        folder: the run folder.
        tracking_uri: the store; in another one there is a run of its own.
        tags: what a new run gets.
        content: what the run is about; another content is another run.

    Returns:
        The run's id.
    """
    path = folder / TRACKING_FILE
    about = {"tracking_uri": tracking_uri, "content": content}
    known = _known(folder)
    if "key" not in known or any(known.get(name) != value for name, value in about.items()):
        known = {**about, "key": uuid.uuid4().hex}
        write_atomically(path, json.dumps(known).encode())
    query = f"tags.`{KEY_TAG}` = '{known['key']}'"
    order = ["attributes.start_time ASC"]
    if not client.search_runs([experiment], query, order_by=order):
        client.create_run(
            experiment, run_name=folder.resolve().name, tags={**tags, KEY_TAG: known["key"]}
        )
    # More than one where the store made a run but its answer did not arrive.
    first, *others = client.search_runs([experiment], query, order_by=order)
    for run in others:
        client.delete_run(run.info.run_id)
    parent = str(first.info.run_id)
    if known.get("parent") != parent:
        write_atomically(path, json.dumps({**known, "parent": parent}).encode())
    return parent


def _known(folder: Path) -> dict[str, str]:
    """What a folder remembers of its run."""
    path = folder / TRACKING_FILE
    return dict(json.loads(path.read_text())) if path.exists() else {}


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
    from mlflow.entities import Metric

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
    _log_params(
        client,
        child,
        {**entry, **parameters, "workload": workload, **budget, **_bound_params(results, workload)},
    )
    metrics = [
        Metric(name, value, started + round(1000 * seconds), step)
        for name, value, seconds, step in _curve_metrics(results, searcher, workload)
    ]
    # Relative time counts from a metric's first entry, which must be the start of the search for
    # every method alike: an entry without a value, that no chart draws.
    origin = {metric.key: Metric(metric.key, math.nan, started, 0) for metric in metrics}
    metrics = [*origin.values(), *metrics]
    # A last point, so that single numbers show in MLflow's tables.
    end = max(metric.timestamp for metric in metrics) if metrics else started
    metrics += [
        Metric(name, value, end, 0)
        for name, value in _final_metrics(results, searcher, workload).items()
    ]
    for start in range(0, len(metrics), METRICS_PER_CALL):
        client.log_batch(child, metrics=metrics[start : start + METRICS_PER_CALL])
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
    return {name: value for name, value in values.items() if np.isfinite(value)}


def _log_summary(client: Any, parent: str, results: Results) -> None:
    from mlflow.entities import Metric

    # Not now: sent again, it is the same entry.
    now = client.get_run(parent).info.start_time
    metrics = []
    for searcher in results.searchers:
        overall = results.overall(searcher)
        # Where a run found nothing there is neither.
        if np.isfinite(overall):
            name, percent = metric_name(searcher), 100 * results.overall_above(searcher)
            metrics.append(Metric(f"normalised/{name}", overall, now, 0))
            metrics.append(
                Metric(f"{percent_name(results.proven, results.measured)}/{name}", percent, now, 0)
            )
    client.log_batch(parent, metrics=metrics)


def _log_params(client: Any, run: str, values: dict[str, Any]) -> None:
    from mlflow.entities import Param

    params = [
        Param(key, text[:LONGEST_PARAM])
        for key, value in values.items()
        if value not in (None, "", {}, []) and key != "description"
        for text in [value if isinstance(value, str) else json.dumps(value)]
    ]
    for start in range(0, len(params), PARAMS_PER_CALL):
        client.log_batch(run, params=params[start : start + PARAMS_PER_CALL])
