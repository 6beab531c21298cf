"""An MLflow store in a SQLite file, written without MLflow, whose import takes two seconds.

The calls are those of MLflow's client that runs need most, and they leave the same rows in the same
tables. A file is written so where its layout is that of the MLflow which is installed, and where
nothing else is needed to fill a row of it; what is asked for besides goes to MLflow's own client.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mapspace.errors import MapspaceError
from orchestrator.runs.mlflow_empty import empty_store, sqlite_file

Row = Mapping[str, Any]

# What is written of MLflow's tables; a column that is none of these must not need a value.
COLUMNS = {
    "experiments": (
        *("name", "artifact_location", "lifecycle_stage", "creation_time", "last_update_time"),
    ),
    "runs": (
        *("run_uuid", "name", "source_type", "source_name", "entry_point_name", "user_id"),
        *("status", "start_time", "end_time", "source_version", "lifecycle_stage"),
        *("experiment_id", "artifact_uri"),
    ),
    "tags": ("key", "value", "run_uuid"),
    "params": ("key", "value", "run_uuid"),
    "metrics": ("key", "value", "is_nan", "step", "timestamp", "run_uuid"),
    "latest_metrics": ("key", "value", "is_nan", "step", "timestamp", "run_uuid"),
}
# How long another process that writes is waited for, s.
WAIT_SECONDS = 30.0
GREATEST = 1.7976931348623157e308
NAME_TAG = "mlflow.runName"
KNOWN_FILTER = re.compile(r"tags\.`([^`]+)` = '([^']*)'( AND attributes\.status != 'FINISHED')?")


@dataclass(frozen=True)
class _Experiment:
    """An experiment, with the names that MLflow's client gives its parts."""

    experiment_id: str
    name: str
    artifact_location: str
    lifecycle_stage: str


@dataclass(frozen=True)
class _Info:
    run_id: str
    run_name: str
    status: str
    start_time: int
    end_time: int | None
    artifact_uri: str
    experiment_id: str


@dataclass(frozen=True)
class _Data:
    tags: dict[str, str]


@dataclass(frozen=True)
class _Run:
    info: _Info
    data: _Data


class _Found(list[_Run]):
    """Runs, all of them: there is no further page."""

    token = None


class MlflowDatabase:
    """MLflow's client for a SQLite file."""

    def __init__(self, tracking_uri: str, file: Path, mlflows_own: Callable[[], Any]) -> None:
        """Opens nothing yet.

        Args:
            tracking_uri: the store's address.
            file: where that is.
            mlflows_own: makes MLflow's own client of it.
        """
        self.tracking_uri = tracking_uri
        self.file = file
        self._mlflows_own = mlflows_own

    def __getattr__(self, name: str) -> Any:
        """What is not here is asked of MLflow's own client."""
        return getattr(self.client, name)

    @cached_property
    def client(self) -> Any:
        """MLflow's own, whose import takes two seconds."""
        return self._mlflows_own()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is written, or nothing."""
        with closing(sqlite3.connect(self.file, timeout=WAIT_SECONDS)) as database, database:
            database.execute("PRAGMA foreign_keys = ON")
            yield database

    def get_experiment_by_name(self, name: str) -> _Experiment | None:
        """The experiment of a name; None where there is none."""
        return self._experiment("name", name)

    def get_experiment(self, experiment_id: str) -> _Experiment | None:
        """An experiment by its id."""
        return self._experiment("experiment_id", int(experiment_id))

    def _experiment(self, column: str, value: Any) -> _Experiment | None:
        with self._opened() as database:
            found = database.execute(
                "SELECT experiment_id, name, artifact_location, lifecycle_stage FROM experiments "
                f"WHERE {column} = ?",
                (value,),
            ).fetchone()
        return None if found is None else _Experiment(str(found[0]), *found[1:])

    def create_experiment(self, name: str, artifact_location: str | None = None) -> str:
        """Makes an experiment; its id. Where artifacts usually lie, MLflow knows."""
        if artifact_location is None:
            return str(self.client.create_experiment(name))
        now = _now()
        row = (name, artifact_location, "active", now, now)
        with self._opened() as database:
            made = database.execute(_insert("experiments"), row).lastrowid
        return str(made)

    def create_run(self, experiment_id: str, run_name: str, tags: Mapping[str, str]) -> _Run:
        """Makes a run that has begun.

        Raises:
            MapspaceError: the experiment is not there any more.
        """
        experiment = self.get_experiment(experiment_id)
        if experiment is None or experiment.lifecycle_stage != "active":
            raise MapspaceError(
                f"MLflow at {self.tracking_uri}: expected an experiment that is not deleted, found "
                f"{experiment.name if experiment else experiment_id!r}."
            )
        key = uuid.uuid4().hex
        row = run_row(key, run_name, experiment, start=_now())
        all_tags = {**tags, NAME_TAG: run_name}
        self.insert({"runs": [row], "tags": [pair_row(key, *tag) for tag in all_tags.items()]})
        return self.get_run(key)

    def insert(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Writes rows of tables by their names, all of them in one transaction."""
        with self._opened() as database:
            for table, found in rows.items():
                names = COLUMNS[table]
                values = ([row[name] for name in names] for row in found)
                database.executemany(_insert(table), values)

    def get_run(self, run_id: str) -> _Run:
        """A run with its tags.

        Raises:
            MapspaceError: there is none.
        """
        found = self._runs("runs.run_uuid = ?", (run_id,))
        if not found:
            raise MapspaceError(f"MLflow at {self.tracking_uri}: has no run {run_id}.")
        return found[0]

    def search_runs(
        self, experiment_ids: Sequence[str], filter_string: str = "", **more: Any
    ) -> Any:
        """Runs of an experiment that have a tag, or only those that did not finish.

        The first that began comes first.
        """
        asked = KNOWN_FILTER.fullmatch(filter_string)
        if asked is None or len(experiment_ids) != 1:
            return self.client.search_runs(experiment_ids, filter_string, **more)
        name, value, unfinished = asked.groups()
        return self._runs(
            "runs.experiment_id = ? AND runs.lifecycle_stage = 'active' AND EXISTS (SELECT 1 FROM "
            "tags t WHERE t.run_uuid = runs.run_uuid AND t.key = ? AND t.value = ?)"
            f"{' AND runs.status != ?' if unfinished else ''}",
            (int(experiment_ids[0]), name, value, *(["FINISHED"] if unfinished else [])),
        )

    def _runs(self, which: str, values: Sequence[Any]) -> _Found:
        with self._opened() as database:
            runs = database.execute(
                "SELECT run_uuid, name, status, start_time, end_time, artifact_uri, "
                "CAST(experiment_id AS TEXT) "
                f"FROM runs WHERE {which} ORDER BY start_time, rowid",
                values,
            ).fetchall()
            tags: dict[str, dict[str, str]] = {}
            for run, key, value in database.execute(
                "SELECT tags.run_uuid, tags.key, tags.value FROM tags JOIN runs "
                f"ON runs.run_uuid = tags.run_uuid WHERE {which}",
                values,
            ):
                tags.setdefault(run, {})[key] = value
        return _Found(_Run(_Info(*row), _Data(tags.get(row[0], {}))) for row in runs)

    def delete_run(self, run_id: str) -> None:
        """Marks a run as one that counts no more."""
        self._set(run_id, lifecycle_stage="deleted", deleted_time=_now())

    def update_run(self, run_id: str, status: str) -> None:
        """Says how a run stands."""
        self._set(run_id, status=status)

    def set_terminated(self, run_id: str, status: str = "FINISHED") -> None:
        """Says how a run ended, now."""
        self._set(run_id, status=status, end_time=_now())

    def _set(self, run_id: str, **values: Any) -> None:
        named = ", ".join(f"{name} = ?" for name in values)
        with self._opened() as database:
            database.execute(
                f"UPDATE runs SET {named} WHERE run_uuid = ?", (*values.values(), run_id)
            )

    def add_params(self, run_id: str, params: Mapping[str, str]) -> None:
        """Adds parameters to a run.

        Raises:
            MapspaceError: one of them has another value there.
        """
        with self._opened() as database:
            there = dict(
                database.execute("SELECT key, value FROM params WHERE run_uuid = ?", (run_id,))
            )
            for key, value in params.items():
                if there.get(key, value) != value:
                    raise MapspaceError(
                        f"MLflow at {self.tracking_uri}: run {run_id}: parameter {key!r}: expected "
                        f"{value!r}, found {there[key]!r}."
                    )
            new = (pair_row(run_id, *one) for one in params.items() if one[0] not in there)
            database.executemany(_insert("params"), ([*row.values()] for row in new))

    def add_metrics(self, run_id: str, entries: Iterable[tuple[str, float, int, int]]) -> None:
        """Adds (name, value, step, timestamp in ms) of metrics; the same entry twice is one."""
        rows = [[*row.values()] for row in metric_rows(run_id, entries)]
        with self._opened() as database:
            database.executemany(_insert("metrics", "OR IGNORE "), rows)
            database.executemany(
                f"{_insert('latest_metrics')} ON CONFLICT (key, run_uuid) DO UPDATE SET "
                "value = excluded.value, is_nan = excluded.is_nan, step = excluded.step, "
                "timestamp = excluded.timestamp WHERE (excluded.step, excluded.timestamp, "
                "excluded.value) > (step, timestamp, value)",
                rows,
            )

    def log_artifact(self, run_id: str, local_path: str, artifact_path: str = "") -> None:
        """Copies a file to where a run's artifacts are."""
        folder = artifact_folder(self.get_run(run_id).info.artifact_uri)
        if folder is None:
            self.client.log_artifact(run_id, local_path, artifact_path or None)
            return
        target = folder / artifact_path
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(local_path, target / Path(local_path).name)

    def log_artifacts(self, run_id: str, local_dir: str, artifact_path: str = "") -> None:
        """Copies what is in a folder to where a run's artifacts are."""
        folder = artifact_folder(self.get_run(run_id).info.artifact_uri)
        if folder is None:
            self.client.log_artifacts(run_id, local_dir, artifact_path or None)
            return
        shutil.copytree(local_dir, folder / artifact_path, dirs_exist_ok=True)


def open_database(tracking_uri: str, mlflows_own: Callable[[], Any]) -> MlflowDatabase | None:
    """The store of an address, where it is a SQLite file that can be written without MLflow.

    Args:
        tracking_uri: any store that MLflow knows.
        mlflows_own: makes MLflow's own client of it.

    Returns:
        None where MLflow itself has to open it: it is of another kind or layout.
    """
    file = sqlite_file(tracking_uri)
    # With workspaces an experiment belongs to one.
    if file is None or not file.is_file() or os.environ.get("MLFLOW_ENABLE_WORKSPACES"):
        return None
    with suppress(OSError, sqlite3.Error):
        empty = empty_store()
        layout = None if empty is None else _layout(empty)
        if layout is not None and _layout(file) == layout:
            return MlflowDatabase(tracking_uri, file, mlflows_own)
    return None


def _layout(file: Path) -> str | None:
    """The version of a file's tables; None where they need what is not known here.

    Raises:
        sqlite3.Error: it is no store.
    """
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
        for table, columns in COLUMNS.items():
            there = {
                name: needed and default is None and not key
                for _, name, _, needed, default, key in database.execute(
                    f"PRAGMA table_info({table})"
                )
            }
            missing = {*columns} - there.keys()
            if missing or any(needed for name, needed in there.items() if name not in columns):
                return None
        (version,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(version)


def run_row(key: str, name: str, experiment: Any, *, start: int, end: int | None = None) -> Row:
    """A run as a row of MLflow's table; finished where it has an end, ms since 1970."""
    return {
        "run_uuid": key,
        "name": name,
        "source_type": "UNKNOWN",
        "source_name": "",
        "entry_point_name": "",
        "user_id": "unknown",
        "status": "RUNNING" if end is None else "FINISHED",
        "start_time": start,
        "end_time": end,
        "source_version": "",
        "lifecycle_stage": "active",
        "experiment_id": int(experiment.experiment_id),
        "artifact_uri": f"{experiment.artifact_location}/{key}/artifacts",
    }


def pair_row(run: str, key: str, value: str) -> Row:
    """A tag or a parameter as a row of MLflow's tables."""
    return {"key": key, "value": value, "run_uuid": run}


def metric_rows(run: str, entries: Iterable[tuple[str, float, int, int]]) -> Iterator[Row]:
    """(name, value, step, timestamp in ms) as rows of MLflow's tables, the same entry once."""
    for name, value, step, timestamp in {repr(entry): entry for entry in entries}.values():
        empty = math.isnan(value)
        yield {
            "key": name,
            "value": 0.0 if empty else min(max(value, -GREATEST), GREATEST),
            "is_nan": empty,
            "step": step,
            "timestamp": timestamp,
            "run_uuid": run,
        }


def artifact_folder(uri: str) -> Path | None:
    """Where artifacts of an address lie, if they lie in this file system."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") else None


def _insert(table: str, how: str = "") -> str:
    names = COLUMNS[table]
    marks = ", ".join("?" * len(names))
    return f"INSERT {how}INTO {table} ({', '.join(names)}) VALUES ({marks})"


def _now() -> int:
    return round(1000 * time.time())
