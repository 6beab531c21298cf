"""What MLflow gets of a run: parameters, series of numbers and files, in batches.

What could not be sent is sent by the next call, and what was sent is not sent again.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.runs.mlflow_client import connected, experiment_id, remembered_run, run_page
from orchestrator.runs.ray_runtime import code_version

Entry = tuple[str, float, int, int]
"""Name, value, step and timestamp in ms of a metric."""

# What MLflow's tables hold of a parameter, a tag and a name.
LONGEST_PARAM, LONGEST_TAG, LONGEST_NAME = 6000, 8000, 250
NOTE_TAG = "mlflow.note.content"


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


@dataclass(frozen=True)
class FinishedRun:
    """A run as it ends up in MLflow.

    Attributes:
        name: what the list of runs calls it.
        tags: what it can be searched for.
        params: as JSON where they are no text; what is empty is left out.
        metrics: every number.
        started: ms since 1970.
        ended: ms since 1970.
        texts: artifacts, by their names.
    """

    name: str
    tags: Mapping[str, str]
    params: Mapping[str, Any]
    metrics: tuple[Entry, ...]
    started: int
    ended: int
    texts: Mapping[str, str] = field(default_factory=dict)


def log_run(settings: Any, record: Record, folder: Path, tracking_uri: str) -> str:
    """Logs a run, unless the same results are logged there already.

    Args:
        settings: the experiment as its file has it: parameters, name, kind and description.
        record: its results.
        folder: the run folder, which remembers the run.
        tracking_uri: any store that MLflow knows.

    Returns:
        The address of its page.

    Raises:
        MapspaceError: the store cannot be reached or written.
    """
    tags = {
        "mapspace.kind": settings.kind,
        NOTE_TAG: settings.description,
        **origin_tags(settings.kind, settings.name, code_version()),
    }
    with connected(tracking_uri) as client:
        experiment = experiment_id(client, settings.name, folder, tracking_uri)
        run = remembered_run(
            client, experiment, folder, tracking_uri, content=record.content, tags=tags
        )
        there = client.get_run(run).info
        if there.status != "FINISHED":
            # The time of the run, not now: sent again, they are the same entries.
            entries = [(*one, there.start_time) for one in record.metrics if math.isfinite(one[1])]
            log_numbers(client, run, _flat(settings.model_dump(mode="json")), entries)
            for name, columns in record.tables.items():
                # Sent again it would be appended.
                if all(file.path != name for file in client.list_artifacts(run)):
                    client.log_table(run, dict(columns), name)
            for path in record.files:
                client.log_artifact(run, str(path))
            client.set_terminated(run)
        return run_page(tracking_uri, experiment, run)


def log_finished(client: Any, experiment: str, run: FinishedRun) -> str:
    """Logs a run that is over.

    Args:
        client: of the store.
        experiment: the id of the experiment there.
        run: what of.

    Returns:
        Its id.
    """
    tags = {name: text[:LONGEST_TAG] for name, text in run.tags.items()}
    made = client.create_run(
        experiment, start_time=run.started, tags=tags, run_name=run.name[:LONGEST_NAME]
    ).info.run_id
    log_numbers(client, made, run.params, run.metrics)
    for name, text in run.texts.items():
        client.log_text(made, text, name)
    client.set_terminated(made, end_time=run.ended)
    return str(made)


def log_numbers(
    client: Any, run: str, params: Mapping[str, Any], entries: Iterable[Entry] = ()
) -> None:
    """Sends parameters, as JSON where they are no text, and numbers; what is empty is left out."""
    from mlflow.entities import Metric, Param

    client.log_batch(
        run,
        params=[
            Param(key, (value if isinstance(value, str) else json.dumps(value))[:LONGEST_PARAM])
            for key, value in params.items()
            if value not in (None, "", {}, []) and key != "description"
        ],
        metrics=[Metric(name, value, when, step) for name, value, step, when in entries],
    )


def origin_tags(kind: str, name: str, made: Mapping[str, Any]) -> dict[str, str]:
    """Who logs a run, which command, and at which commit: columns of MLflow's list of runs.

    Args:
        kind: of the experiment.
        name: its name.
        made: what computed it, with its commit if that is known.
    """
    tags = {"mlflow.source.type": "LOCAL", "mlflow.source.name": f"mapspace {kind} {name}"}
    if made.get("commit"):
        tags["mlflow.source.git.commit"] = str(made["commit"])
    try:
        return {"mlflow.user": getpass.getuser(), **tags}
    except (KeyError, OSError):  # a user without a name, as in some containers
        return tags


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with those within others as `grid.L2.fanout`."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        within = value if isinstance(value, Mapping) else {}
        flat |= {f"{key}.{name}": one for name, one in within.items()} or {key: value}
    return flat


def digest(path: Path) -> str:
    """SHA-256 of a file, 16 digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
