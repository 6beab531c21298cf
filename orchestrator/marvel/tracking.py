"""A Marvel study in MLflow: one run, in which layers are steps of a metric.

The settings are parameters. Per accelerator there are four series over its layers (runtime and
energy of Marvel's mapping of the whole layer, off-chip cost, search time); the run folder's rows
and page are artifacts. A study that is logged again makes another run.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costmodel.errors import MapspaceError
from orchestrator.marvel.config import MarvelStudy
from orchestrator.marvel.values import Result
from orchestrator.tracking import (
    LONGEST_PARAM,
    METRICS_PER_CALL,
    experiment_id,
)


def log_study(
    study: MarvelStudy, rows: Sequence[Result], folder: Path, files: Sequence[Path], uri: str
) -> str:
    """Logs a study.

    Args:
        study: its settings.
        rows: what was found.
        folder: the run folder.
        files: become artifacts.
        uri: any store that MLflow knows.

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
    try:
        client = MlflowClient(tracking_uri=uri)
        run = client.create_run(
            experiment_id(client, study.name, folder, uri),
            run_name=folder.resolve().name,
            tags={"mapspace.kind": "marvel", "mlflow.note.content": study.description},
        )
        run_id = str(run.info.run_id)
        _log_values(client, run_id, study, rows)
        for path in files:
            client.log_artifact(run_id, str(path))
        client.set_terminated(run_id)
    except (MlflowException, SQLAlchemyError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise MapspaceError(f"MLflow at {uri}: {reason}") from error
    return run_id


def _log_values(client: Any, run: str, study: MarvelStudy, rows: Sequence[Result]) -> None:
    from mlflow.entities import Metric, Param

    settings = study.model_dump(mode="json", exclude={"kind", "description"})
    params = [
        Param(key, (value if isinstance(value, str) else json.dumps(value))[:LONGEST_PARAM])
        for key, value in settings.items()
    ]
    client.log_batch(run, params=params)
    now, steps, metrics = round(time.time() * 1000), dict[str, int](), []
    for row in rows:
        if row["failure"]:
            continue
        machine = row["accelerator"]
        step = steps[machine] = steps.get(machine, -1) + 1
        values = {
            "runtime_cycles": row["whole"]["runtime"],
            "energy": row["whole"]["energy"],
            "off_chip_cost": row["off_chip"]["cost"],
            "search_seconds": row["off_chip"]["seconds"] + row["on_chip"]["seconds"],
        }
        metrics += [Metric(f"{machine}/{key}", value, now, step) for key, value in values.items()]
    for start in range(0, len(metrics), METRICS_PER_CALL):
        client.log_batch(run, metrics=metrics[start : start + METRICS_PER_CALL])
