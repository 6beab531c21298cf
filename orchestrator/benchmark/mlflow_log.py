"""Benchmarks in MLflow: a parent run per benchmark, a child per searcher and workload.

There is a child per searcher over all workloads, too: a page that compares runs draws tens of them,
not thousands. While searches run the parent has numbers that a thread sends (`runs.mlflow_live`);
everything else is logged from the driver after them, in batches, so that tracking takes next to no
search time. A server that goes away is waited for, four minutes
by MLflow's own settings (MLFLOW_HTTP_REQUEST_MAX_RETRIES); what could not be sent lies in the run
folder, and the next call adds it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.benchmark.mlflow_children import Children
from orchestrator.comparison.many_runs import CURVES_FILE, RUNS_FILE
from orchestrator.comparison.page import FIGURES_FOLDER, REPORT_FILE
from orchestrator.comparison.results import Results, percent_name
from orchestrator.comparison.results_files import (
    CERTIFICATES_FOLDER,
    RECORDS_FILE,
    SUMMARY_FILE,
)
from orchestrator.runs.mlflow_client import connected, experiment_id, metric_name, remembered_run
from orchestrator.runs.mlflow_many import NOTE_TAG, log_finished
from orchestrator.runs.mlflow_record import log_metrics, log_params

RUNS_PER_PAGE = 1000


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
            tags=parent_tags(str(results.experiment.get("description", ""))),
        )
        finished = _finished_children(client, experiment, parent)
        children = Children(results, parent, folder)
        log_finished(client, experiment, children.missing(finished))
        _delete_unfinished(client, experiment, parent)
        if client.get_run(parent).info.status != "FINISHED":
            settings = {**results.experiment, **results.provenance}
            log_params(client, parent, {**settings, "optimum_proven": results.proven})
            _log_summary(client, parent, results)
            for name in (CURVES_FILE, SUMMARY_FILE, RECORDS_FILE, RUNS_FILE):
                # Runs from before there were records, or of a model without, have none, and few
                # runs are in the summary.
                if name in (CURVES_FILE, SUMMARY_FILE) or (folder / name).exists():
                    client.log_artifact(parent, str(folder / name))
            if (folder / CERTIFICATES_FOLDER).is_dir():
                client.log_artifacts(parent, str(folder / CERTIFICATES_FOLDER), CERTIFICATES_FOLDER)
            for file in (folder / REPORT_FILE, *sorted((folder / FIGURES_FOLDER).glob("*.png"))):
                if file.exists():
                    client.log_artifact(parent, str(file), "report")
            client.set_terminated(parent)
    return parent


def parent_tags(description: str) -> dict[str, str]:
    """What the run of a benchmark has from its beginning."""
    return {"mapspace.kind": "benchmark", NOTE_TAG: description}


def _finished_children(client: Any, experiment: str, parent: str) -> set[tuple[str, str]]:
    """Searcher and workload of children that are logged completely; others are deleted.

    The run of a method over all workloads has an empty workload.
    """
    finished: set[tuple[str, str]] = set()
    token = None
    while True:
        page = client.search_runs(
            [experiment],
            f"tags.`mlflow.parentRunId` = '{parent}'",
            max_results=RUNS_PER_PAGE,
            page_token=token,
        )
        for child in page:
            tags = child.data.tags
            own = (tags.get("mapspace.searcher", ""), tags.get("mapspace.workload", ""))
            if child.info.status == "FINISHED":
                finished.add(own)
            else:
                client.delete_run(child.info.run_id)
        token = page.token
        if not token:
            return finished


def _delete_unfinished(client: Any, experiment: str, parent: str) -> None:
    """Deletes empty children, made by requests that were answered too late and sent again.

    To be told of all children takes a server, and this process after it, 2 ms of each.
    """
    unfinished = f"tags.`mlflow.parentRunId` = '{parent}' AND attributes.status != 'FINISHED'"
    while page := client.search_runs([experiment], unfinished, max_results=RUNS_PER_PAGE):
        for child in page:
            client.delete_run(child.info.run_id)


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
