"""A real MLflow server, on SQLite or on a PostgreSQL of its own, and what a store holds."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from processes import wait_for

from orchestrator.comparison.results import Results


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Server:
    """`mlflow server`, on a free port of this machine."""

    def __init__(self, folder: Path, store: str | None = None) -> None:
        """Does not start it.

        Args:
            folder: for artifacts, and the database of a server on SQLite.
            store: the database's address; None: SQLite.
        """
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self.store = store or f"sqlite:///{folder / 'store.db'}"
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Starts it; it is ready later."""
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", self.store]
        command += ["--artifacts-destination", str(self.folder / "artifacts")]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            start_new_session=True,
        )

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def die(self) -> None:
        """SIGKILL for it and its workers."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def content(results: Results, uri: str) -> dict[str, Any]:
    """Everything that a store holds of a benchmark, without ids and times of the day."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(results.experiment["name"])
    found: dict[str, Any] = {}
    for run in client.search_runs([experiment.experiment_id], max_results=1000):
        metrics = {
            key: [
                (point.step, point.timestamp - run.info.start_time, repr(point.value))
                for point in client.get_metric_history(run.info.run_id, key)
            ]
            for key in run.data.metrics
        }
        files = [file.path for file in client.list_artifacts(run.info.run_id)]
        assert run.info.run_name not in found
        found[run.info.run_name] = (run.info.status, run.data.params, metrics, files)
    return found


def postgresql_programs() -> Path | None:
    """Where PostgreSQL's own programs are, where its driver for Python is there, too."""
    if importlib.util.find_spec("psycopg") is None:
        return None
    known = shutil.which("pg_ctl")
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *([Path(known).parent] if known else [])]
    needed = ("initdb", "pg_ctl", "createdb")
    return next((f for f in folders if all((f / name).exists() for name in needed)), None)


@contextlib.contextmanager
def postgresql(programs: Path) -> Iterator[str]:
    """The address of an empty database, of a PostgreSQL that ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="ms-pg-"))
    # It does not run as root.
    other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if other:
        shutil.chown(folder, "postgres")
    port = free_port()

    def call(program: str, *arguments: str) -> None:
        command = [*other, str(programs / program), *arguments]
        # Its output would be held open by the server.
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)

    data = str(folder / "data")
    try:
        call("initdb", "--username=mlflow", "--auth=trust", "--no-sync", "-D", data)
        options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off"
        call("pg_ctl", "start", "-w", "-D", data, "-l", str(folder / "log"), "-o", options)
        try:
            call("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "mlflow", "mlflow")
            yield f"postgresql+psycopg://mlflow@127.0.0.1:{port}/mlflow"
        finally:
            call("pg_ctl", "stop", "-D", data, "-m", "immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def serving(folder: Path, store: str | None = None) -> Iterator[Server]:
    """A server that answers, ended with the block."""
    server = Server(folder, store)
    server.begin()
    try:
        wait_for(server.ready)
        yield server
    finally:
        server.die()
