"""The MLflow store of a run: its address, and the run that a folder remembers.

A server that goes away is waited for, four minutes by MLflow's own settings
(MLFLOW_HTTP_REQUEST_MAX_RETRIES); what could not be sent lies in the run folder, and the next call
adds it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import shutil
import sqlite3
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from pydantic import Field

from mapspace.bounded_reading import read_json
from mapspace.errors import DataError, MapspaceError
from mapspace.storage import write_atomically
from mapspace.strict_yaml import StrictModel, shown, validate
from orchestrator.runs.mlflow_empty import lay_out

TRACKING_FILE = "mlflow.json"

DATABASE_FILE = "mlflow.db"

ARTIFACTS_FOLDER = "artifacts"

# How a folder remembers a store that lies in it, or in the folder of several runs around it: such a
# store moves with its folder. Any other is another's.
OWN_STORE = f"sqlite:///{DATABASE_FILE}"

SHARED_STORE = f"sqlite:///../{DATABASE_FILE}"

# A run's tag that its folder knows before the run is made: a request that is sent again because its
# answer was lost is recognised by it.
KEY_TAG = "mapspace.key"

# How MLflow's pages show an experiment: with runs and metrics, where they would show prompts.
KIND_TAG, CLASSICAL = "mlflow.experimentKind", "custom_model_development"

# Where the command of `open_mlflow` shows a store.
SHOWN_AT = "http://127.0.0.1:5000"


# Its modules import each other, and what brings a database to MLflow's layout keeps what it does in
# its module: of two threads that begin at once, one finds half of either. Both would make the
# experiment that is not there yet, too, and a run in it.
_beginning = threading.RLock()


def default_uri(folder: str | Path) -> str:
    """A SQLite file in a run folder."""
    return f"sqlite:///{(Path(folder) / DATABASE_FILE).resolve()}"


class Remembered(StrictModel):
    """What a folder remembers of its run."""

    tracking_uri: Annotated[str, Field(strict=True, min_length=1)]
    """`OWN_STORE`, `SHARED_STORE` or the address of another's store."""
    content: Annotated[str, Field(strict=True)] = ""
    """What the run is about."""
    key: Annotated[str, Field(strict=True, pattern="^[0-9a-f]{32}$")] | None = None
    """The value of the run's `KEY_TAG`; null in folders from before there was one."""
    parent: Annotated[str, Field(strict=True, pattern="^[0-9A-Za-z_-]{1,64}$")] | None = None
    """The run's id."""


def attach(folder: str | Path, files: Sequence[Path], *, tracking_uri: str | None = None) -> None:
    """Adds files, such as a report, to the parent run that a run folder remembers, if it does.

    A folder may come from anybody. So only its own store, or the one around it, is opened unasked,
    and only where that keeps its files in these folders.

    Args:
        folder: the run folder.
        files: what to add.
        tracking_uri: the store to send them to; None: the folder's own.

    Raises:
        MapspaceError: the store is another's, cannot be reached or written, has no such run or
            keeps its files elsewhere.
        DataError: what the folder remembers is damaged.
    """
    folder = Path(folder)
    known = _known(folder)
    if known is None or known.parent is None:
        return
    if tracking_uri is not None:
        with connected(tracking_uri) as client:
            for file in files:
                client.log_artifact(known.parent, str(file), artifact_path="report")
        return
    store = {OWN_STORE: folder, SHARED_STORE: folder.parent}.get(known.tracking_uri)
    if store is None:
        raise MapspaceError(
            f"{folder}: the run is logged at {shown(known.tracking_uri)}, and an address that a "
            "folder brings along is not contacted unasked: name it as the tracking URI to add the "
            "report there."
        )
    if not (store / DATABASE_FILE).is_file():
        raise MapspaceError(f"{folder}: its MLflow store {store / DATABASE_FILE} is missing.")
    _follow(store / DATABASE_FILE, folder, known.parent)
    with connected(default_uri(store)) as client:
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        # Of what was looked at: the client may know it from another place of the folder.
        uri = str(client.get_run(known.parent).info.artifact_uri)
        _check_artifacts(uri, (folder, store))
        for file in files:
            get_artifact_repository(uri).log_artifact(str(file), "report")


def _follow(database: Path, folder: Path, run: str) -> None:
    """Tells a store that was moved with its run folder where the folder's artifacts lie now.

    MLflow keeps their absolute address and has no call that changes it.
    """
    here = (folder / ARTIFACTS_FOLDER).resolve()
    if not here.is_dir():
        return
    new = here.as_uri()
    try:
        with closing(sqlite3.connect(database)) as connection, connection:
            found = connection.execute(
                "SELECT e.experiment_id, e.artifact_location FROM experiments e "
                "JOIN runs r ON r.experiment_id = e.experiment_id WHERE r.run_uuid = ?",
                (run,),
            ).fetchone()
            if found is None or found[1] == new:
                return
            experiment, old = found
            if not str(old).endswith(f"/{ARTIFACTS_FOLDER}"):
                return
            connection.execute(
                "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?",
                (new, experiment),
            )
            connection.execute(
                "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) "
                "WHERE experiment_id = ? AND substr(artifact_uri, 1, ?) = ?",
                (new, len(old) + 1, experiment, len(old) + 1, f"{old}/"),
            )
        print(f"{folder}: has moved; its MLflow store finds its artifacts again", file=sys.stderr)
    except sqlite3.Error as error:
        raise MapspaceError(f"{database}: cannot be read as an MLflow store: {error}.") from error


def _check_artifacts(uri: str, folders: Sequence[Path]) -> None:
    """Refuses a store that would write elsewhere than into these folders."""
    parts = urlsplit(uri)
    path = Path(unquote(parts.path)).resolve()
    if parts.scheme not in ("", "file") or not any(
        path.is_relative_to(folder.resolve()) for folder in folders
    ):
        raise MapspaceError(
            f"{folders[0]}: its MLflow store keeps artifacts at {shown(uri)}, outside of the "
            "folder; nothing was sent there."
        )


@contextmanager
def connected(tracking_uri: str) -> Iterator[Any]:
    """MLflow's client of a store, for the length of a block.

    Raises:
        MapspaceError: the store cannot be reached or written, after MLflow's own retries.
    """
    try:
        with _beginning:
            client = _client(tracking_uri)
        yield client
    except _failures() as error:
        reason = str(error).strip().splitlines()[0]
        raise MapspaceError(
            f"MLflow at {tracking_uri}: {reason} Nothing is lost: the same command sends what is "
            "missing."
        ) from error


def _client(tracking_uri: str) -> Any:
    """MLflow's client of a store; its import takes two seconds."""
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    # MLflow would tell its makers of every command.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow.tracking import MlflowClient

    # It tells of every step of making a new store.
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    lay_out(tracking_uri)
    return MlflowClient(tracking_uri=tracking_uri)


def _failures() -> tuple[type[Exception], ...]:
    """What a store raises that cannot be reached or written."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return (OSError, MlflowException, SQLAlchemyError)


def metric_name(text: str) -> str:
    """A metric's name with only the characters that every MLflow version allows."""
    return re.sub(r"[^\w./ -]+", "", text).strip()


def experiment_id(client: Any, name: str, folder: Path, tracking_uri: str) -> str:
    """The MLflow experiment of a name, made if there is none; artifacts lie in the run folder."""
    # A local store would put artifacts under the working directory, wherever that happens to be.
    location = None
    if tracking_uri.startswith("sqlite:"):
        location = (folder / ARTIFACTS_FOLDER).resolve().as_uri()
    with _beginning:
        found = client.get_experiment_by_name(name)
        if found is None:
            try:
                tags = {KIND_TAG: CLASSICAL}
                return str(client.create_experiment(name, artifact_location=location, tags=tags))
            except _failures():
                # Another process made it just now.
                found = client.get_experiment_by_name(name)
                if found is None:
                    raise
    if KIND_TAG not in found.tags:
        client.set_experiment_tag(found.experiment_id, KIND_TAG, CLASSICAL)
    return str(found.experiment_id)


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
    with _beginning:
        path = folder / TRACKING_FILE
        stored = _stored_uri(tracking_uri, folder)
        known = _known(folder)
        if (
            known is None
            or known.key is None
            or (known.tracking_uri, known.content) != (stored, content)
        ):
            known = Remembered(tracking_uri=stored, content=content, key=uuid.uuid4().hex)
            _remember(path, known)
        elif known.parent is not None and stored in (OWN_STORE, SHARED_STORE):
            store = folder if stored == OWN_STORE else folder.parent
            _follow(store / DATABASE_FILE, folder, known.parent)
        query = f"tags.`{KEY_TAG}` = '{known.key}'"
        order = ["attributes.start_time ASC"]
        if not client.search_runs([experiment], query, order_by=order):
            client.create_run(
                experiment, run_name=folder.resolve().name, tags={**tags, KEY_TAG: known.key}
            )
        # More than one where the store made a run but its answer did not arrive.
        first, *others = client.search_runs([experiment], query, order_by=order)
        for run in others:
            client.delete_run(run.info.run_id)
        parent = str(first.info.run_id)
        if known.parent != parent:
            _remember(path, known.model_copy(update={"parent": parent}))
        return parent


def _known(folder: Path) -> Remembered | None:
    """What a folder remembers of its run, with the store as it is to be found now.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / TRACKING_FILE
    if not path.exists():
        return None
    known = validate(Remembered, read_json(path, DataError), str(path), DataError)
    # Folders from before stores were relative: where they had it, it lies now.
    if re.fullmatch(rf"sqlite:////.*/{re.escape(DATABASE_FILE)}", known.tracking_uri):
        for relative, store in ((OWN_STORE, folder), (SHARED_STORE, folder.parent)):
            if (store / DATABASE_FILE).is_file():
                return known.model_copy(update={"tracking_uri": relative})
    return known


def _stored_uri(tracking_uri: str, folder: Path) -> str:
    """How a folder remembers a store."""
    if tracking_uri == default_uri(folder):
        return OWN_STORE
    return SHARED_STORE if tracking_uri == default_uri(folder.resolve().parent) else tracking_uri


def _remember(path: Path, known: Remembered) -> None:
    write_atomically(path, known.model_dump_json(exclude_none=True).encode())


def open_mlflow(uri: str) -> str:
    """The command that shows an MLflow store in a browser of this machine."""
    if _is_server(uri):
        return uri
    command = shutil.which("mlflow") or str(Path(sys.executable).with_name("mlflow"))
    where = urlsplit(SHOWN_AT)
    # One worker and no job runners: it starts in seconds and takes a tenth of the memory.
    return (
        f"MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false {shlex.quote(command)} ui --workers 1 "
        f"--host {where.hostname} --port {where.port} --backend-store-uri {shlex.quote(uri)}"
    )


def run_page(tracking_uri: str, experiment: str, run: str) -> str:
    """The address of MLflow's page of a run."""
    return _address(tracking_uri, f"experiments/{experiment}/runs/{run}", {})


def compare_page(tracking_uri: str, experiment: str, runs: Sequence[str]) -> str:
    """The address of MLflow's page that compares runs: parameters, numbers and tags in a row."""
    listed = {"runs": [*runs], "experiments": [experiment]}
    asked = {name: json.dumps(ids, separators=(",", ":")) for name, ids in listed.items()}
    return _address(tracking_uri, "compare-runs", asked)


def curves_page(tracking_uri: str, experiment: str, tags: Mapping[str, str], metric: str) -> str:
    """The address of MLflow's page of the charts of runs, the least of a metric first.

    Args:
        tracking_uri: the store.
        experiment: the id of the experiment there.
        tags: which runs.
        metric: what they are sorted by.
    """
    asked = {
        "searchFilter": " AND ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items()),
        "orderByKey": f"metrics.`{metric}`",
        "orderByAsc": "true",
        "compareRunsMode": "CHART",
    }
    return _address(tracking_uri, f"experiments/{experiment}/runs", asked)


def _address(tracking_uri: str, page: str, asked: Mapping[str, str]) -> str:
    """Of a page of MLflow's, among those for training, not for prompts."""
    base = (tracking_uri if _is_server(tracking_uri) else SHOWN_AT).rstrip("/")
    query = urlencode({**asked, "workflowType": "machine_learning"}, quote_via=quote)
    return f"{base}/#/{page}?{query}"


def _is_server(uri: str) -> bool:
    return uri.startswith(("http://", "https://"))
