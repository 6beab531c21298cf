"""Finished runs on their way to an MLflow server: how many calls, how many at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from paths import ROOT

from orchestrator.runs import mlflow_many
from orchestrator.runs.mlflow_calls import OfClient
from orchestrator.runs.mlflow_many import SENDERS, FinishedRun, log_finished


class Server:
    """MLflow's client as far as a run needs it; counts calls."""

    tracking_uri = "http://127.0.0.1:1"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: Counter[str] = Counter()
        self.ended: list[str] = []
        self.most_ended = threading.Event()

    def create_run(self, experiment: str, *, run_name: str, **_: Any) -> Any:
        self.calls["create"] += 1
        if run_name == "refused":
            raise OSError("refused")
        where = (self.folder / run_name).as_uri()
        return SimpleNamespace(info=SimpleNamespace(run_id=run_name, artifact_uri=where))

    def log_batch(self, run: str, **_: Any) -> None:
        self.calls["batch"] += 1
        if run == "slow":
            assert self.most_ended.wait(30)

    def set_terminated(self, run: str, **_: Any) -> None:
        self.calls["end"] += 1
        self.ended.append(run)
        if len(self.ended) == 2 * SENDERS:
            self.most_ended.set()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(mlflow_many, "_own_tables", lambda client: None)
    monkeypatch.setattr(mlflow_many, "calls_of", OfClient)
    return Server(tmp_path)


def runs(*names: str) -> list[FinishedRun]:
    metrics = (("m", 1.0, 0, 1),)
    return [FinishedRun(name, {}, {"p": 1}, metrics, 1, 2, {"a.txt": name}) for name in names]


def test_a_run_takes_three_calls_and_its_artifacts(server: Server, tmp_path: Path) -> None:
    log_finished(server, "0", runs("one", "two"))
    assert server.calls == {"create": 2, "batch": 2, "end": 2}
    assert (tmp_path / "two" / "a.txt").read_text() == "two"


def test_a_slow_run_does_not_hold_up_the_others(server: Server) -> None:
    others = [f"run-{number}" for number in range(2 * SENDERS)]
    log_finished(server, "0", runs("slow", *others))
    assert server.ended[-1] == "slow"


def test_nothing_is_begun_after_an_error(server: Server) -> None:
    others = [f"run-{number}" for number in range(40)]
    with pytest.raises(OSError, match="refused"):
        log_finished(server, "0", runs("refused", *others))
    # What was under way has ended, and no more was begun than could be before the answer.
    assert len(server.ended) == server.calls["create"] - 1
    assert len(server.ended) < len(others)


def test_mlflow_tells_nobody_of_a_command() -> None:
    """In a process of its own: MLflow is silent where it recognises a test."""
    script = (
        "from orchestrator.runs.mlflow_client import load_mlflow; load_mlflow()\n"
        "from mlflow.telemetry.utils import is_telemetry_disabled as off; print(off())"
    )
    hints = ("PYTEST", "CI", "GITHUB", "DO_NOT_TRACK", "MLFLOW")
    own = {name: value for name, value in os.environ.items() if not name.startswith(hints)}
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=own, capture_output=True, text=True
    )
    assert told.stdout.strip() == "True", told.stderr
