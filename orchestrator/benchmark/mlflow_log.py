"""Benchmarks in MLflow: a parent run, a child per searcher, and per searcher and workload.

While searches run the parent has numbers that a thread sends (`runs.mlflow_live`); everything else
is logged from the driver after them, so that tracking takes no search time. A server that goes away
is waited for, four minutes by MLflow's own settings (MLFLOW_HTTP_REQUEST_MAX_RETRIES); what could
not be sent lies in the run folder, and the next call adds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from orchestrator.benchmark.mlflow_children import Children, Pair, in_percent
from orchestrator.comparison.conclusion import conclusion
from orchestrator.comparison.many_runs import CURVES_FILE, RUNS_FILE
from orchestrator.comparison.page import FIGURES_FOLDER, REPORT_FILE
from orchestrator.comparison.results import Results, percent_name
from orchestrator.comparison.results_files import (
    CERTIFICATES_FOLDER,
    RECORDS_FILE,
    SUMMARY_FILE,
)
from orchestrator.runs.mlflow_client import (
    compare_page,
    connected,
    curves_page,
    experiment_id,
    metric_name,
    remembered_run,
)
from orchestrator.runs.mlflow_record import (
    LONGEST_TAG,
    NOTE_TAG,
    Entry,
    log_finished,
    log_numbers,
    origin_tags,
)

RUNS_PER_PAGE = 1000


class Logged(NamedTuple):
    """A benchmark in MLflow.

    Attributes:
        run: its run's id.
        curves: the address of the page with the curves of all methods.
        compare: that of the page which compares their runs.
    """

    run: str
    curves: str
    compare: str


def log_results(results: Results, folder: str | Path, tracking_uri: str) -> Logged:
    """Logs a benchmark, or adds what an interrupted call has left out.

    Args:
        results: what to log.
        folder: the run folder; its files become the parent's artifacts, and it remembers the
            parent run.
        tracking_uri: any store that MLflow knows.

    Returns:
        Where it is.

    Raises:
        MapspaceError: the store cannot be reached or written.
    """
    folder, name = Path(folder), str(results.experiment["name"])
    tags = parent_tags(name, str(results.experiment.get("description", "")), results.provenance)
    with connected(tracking_uri) as client:
        experiment = experiment_id(client, name, folder, tracking_uri)
        parent = remembered_run(client, experiment, folder, tracking_uri, tags=tags)
        finished = _finished_children(client, experiment, parent)
        children = Children(results, parent, folder)
        for key, run in children.missing({*finished}):
            finished[key] = log_finished(client, experiment, run)
        _delete_unfinished(client, experiment, parent)
        if client.get_run(parent).info.status != "FINISHED":
            _log_parent(client, parent, results, folder, tags)
    level = {"mlflow.parentRunId": parent, "mapspace.level": children.level}
    percent = percent_name(results.proven, results.measured)
    methods = [finished[key] for key in children.methods]
    return Logged(
        parent,
        curves_page(tracking_uri, experiment, level, percent),
        compare_page(tracking_uri, experiment, methods),
    )


def parent_tags(name: str, description: str, made: Mapping[str, Any]) -> dict[str, str]:
    """What the run of a benchmark has from its beginning."""
    origin = origin_tags("benchmark", name, made)
    return {"mapspace.kind": "benchmark", NOTE_TAG: description, **origin}


def _log_parent(
    client: Any, parent: str, results: Results, folder: Path, tags: Mapping[str, str]
) -> None:
    """What is known of the whole once it is over: a verdict, numbers, files."""
    settings = {
        **results.experiment,
        **results.provenance,
        "accelerator": results.experiment["accelerator"],
        "accelerator_hash": results.provenance.get("accelerator"),
        "optimum_proven": results.proven,
    }
    settings.pop("hyperparameters", None)  # its children have them
    log_numbers(
        client,
        parent,
        settings,
        # Not now: sent again, it is the same entry.
        _summary(results, client.get_run(parent).info.start_time),
    )
    for name in (CURVES_FILE, SUMMARY_FILE, RECORDS_FILE, RUNS_FILE):
        # Runs from before there were records, or of a model without, have none, and few
        # runs are in the summary.
        if name in (CURVES_FILE, SUMMARY_FILE) or (folder / name).exists():
            client.log_artifact(parent, str(folder / name))
    if (folder / CERTIFICATES_FOLDER).is_dir():
        client.log_artifacts(parent, str(folder / CERTIFICATES_FOLDER), CERTIFICATES_FOLDER)
    drawn = [folder / REPORT_FILE, *sorted((folder / FIGURES_FOLDER).glob("*.png"))]
    drawn = [file for file in drawn if file.exists()]
    for file in drawn:
        client.log_artifact(parent, str(file), "report")
    note = _note(results, [f"report/{file.name}" for file in drawn])
    for name, text in {**tags, NOTE_TAG: note}.items():
        client.set_tag(parent, name, text[:LONGEST_TAG])
    client.set_terminated(parent)


def _note(results: Results, artifacts: Sequence[str]) -> str:
    """What MLflow shows as the description of a benchmark, as Markdown.

    Args:
        results: of it.
        artifacts: the page and pictures, by their paths among the run's.
    """
    percent = percent_name(results.proven, results.measured)
    rows = [
        f"| {label} | {' | '.join(f'{value:.4g}' for _, value in in_percent(found))} |"
        for label in results.searchers
        for found in [results.overall_interval(label, above=True)]
    ]
    parts = [
        str(results.experiment.get("description", "")),
        f"**Verdict.** {conclusion(results)}" if conclusion(results) else "",
        "\n".join([f"| method | {percent} | low | high |", "|---|---|---|---|", *rows]),
        f"Artifacts: {', '.join(f'`{name}`' for name in artifacts)}" if artifacts else "",
    ]
    return "\n\n".join(filter(None, parts))


def _finished_children(client: Any, experiment: str, parent: str) -> dict[Pair, str]:
    """Children that are logged completely, by searcher and workload; others are deleted.

    The run of a method over all workloads has an empty workload.
    """
    finished: dict[Pair, str] = {}
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
                finished[own] = child.info.run_id
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


def _summary(results: Results, now: int) -> Iterator[Entry]:
    """Where every method ends over all workloads, with its interval."""
    percent = percent_name(results.proven, results.measured)
    for searcher in results.searchers:
        overall, name = results.overall(searcher), metric_name(searcher)
        # Where a run found nothing there is neither.
        if np.isfinite(overall):
            yield f"normalised/{name}", overall, 0, now
            for end, value in in_percent(results.overall_interval(searcher, above=True)):
                yield f"{percent}{end}/{name}", value, 0, now
