"""An MLflow store in a file is written without MLflow where its layout is the known one."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from marks import noisy_libraries

from mapspace.errors import MapspaceError
from orchestrator.runs.mlflow_client import connected, default_uri
from orchestrator.runs.mlflow_database import MlflowDatabase, open_database

pytestmark = noisy_libraries

LOG = """
import sys
from pathlib import Path
from orchestrator.runs.mlflow_client import connected, experiment_id, remembered_run
from orchestrator.runs.mlflow_many import FinishedRun, log_finished
from orchestrator.runs.mlflow_record import log_metrics, log_params
folder, uri = Path(sys.argv[1]), sys.argv[2]
with connected(uri) as client:
    experiment = experiment_id(client, "x", folder, uri)
    run = remembered_run(client, experiment, folder, uri, tags={})
    log_params(client, run, {"a": 1})
    log_metrics(client, run, [("m", 1.0, 0, 1)])
    log_finished(client, experiment, [FinishedRun("y", {}, {}, (("m", 1.0, 0, 1),), 1, 2)])
    client.log_artifact(run, __file__ if "__file__" in globals() else sys.argv[3], "report")
    client.set_terminated(run)
print("mlflow" in sys.modules, "sqlalchemy" in sys.modules)
"""


@pytest.fixture
def store(tmp_path: Path) -> str:
    uri = default_uri(tmp_path)
    with connected(uri) as client:
        assert isinstance(client, MlflowDatabase)
    return uri


def changed(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        for statement in statements:
            database.execute(statement)


def fail() -> Any:
    raise AssertionError("MLflow is not needed here")


def test_mlflow_is_not_imported(store: str, tmp_path: Path) -> None:
    artifact = tmp_path / "page.html"
    artifact.write_text("page")
    told = subprocess.run(
        [sys.executable, "-c", LOG, str(tmp_path), store, str(artifact)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["False", "False"]
    assert len([*tmp_path.glob("artifacts/*/artifacts/report/page.html")]) == 1


def test_a_store_of_another_layout_is_left_to_mlflow(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mlflow.db"
    assert open_database(store, fail) is not None
    (version,) = sqlite3.connect(file).execute("SELECT version_num FROM alembic_version").fetchone()
    changed(file, "UPDATE alembic_version SET version_num = 'another'")
    assert open_database(store, fail) is None
    changed(file, f"UPDATE alembic_version SET version_num = '{version}'")
    assert open_database(store, fail) is not None
    # What may stay empty is nobody's concern.
    changed(file, "ALTER TABLE runs ADD COLUMN more TEXT")
    assert open_database(store, fail) is not None
    changed(file, "CREATE TABLE other AS SELECT * FROM tags", "DROP TABLE tags")
    changed(file, "CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT, must TEXT NOT NULL)")
    assert open_database(store, fail) is None
    changed(file, "DROP TABLE tags", "ALTER TABLE other RENAME TO tags")
    assert open_database(store, fail) is not None
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    assert open_database(store, fail) is None


def test_other_stores_are_left_to_mlflow(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    foreign.write_text("no database")
    for uri in (
        f"sqlite:///{foreign}",
        "sqlite:///:memory:",
        "http://localhost:1",
        "postgresql://x",
    ):
        assert open_database(uri, fail) is None


def test_what_comes_again_changes_nothing_and_another_value_is_refused(store: str) -> None:
    with connected(store) as client:
        experiment = client.create_experiment("x", "file:///x")
        run = client.create_run(experiment, "r", {}).info.run_id
        for _ in range(2):
            client.add_params(run, {"a": "1"})
            client.add_metrics(run, [("m", 3.0, 2, 5), ("m", 7.0, 1, 9), ("m", 1.0, 2, 4)])
        with pytest.raises(MapspaceError, match=r"parameter 'a': expected '2', found '1'"):
            client.add_params(run, {"a": "2", "b": "3"})
        told = client.client.get_run(run).data
        # The last step counts, and of its entries the latest.
        assert (told.params, told.metrics) == ({"a": "1"}, {"m": 3.0})
        assert len(client.get_metric_history(run, "m")) == 3
        client.client.delete_experiment(experiment)
        with pytest.raises(MapspaceError, match="expected an experiment that is not deleted"):
            client.create_run(experiment, "r", {})


def test_runs_are_found_as_mlflow_finds_them(store: str) -> None:
    with connected(store) as client:
        experiment = client.create_experiment("x", "file:///x")
        made = [client.create_run(experiment, name, {"t": name[0]}) for name in ("a1", "a2", "b")]
        client.set_terminated(made[0].info.run_id)
        client.set_terminated(made[2].info.run_id, "KILLED")
        tagged = [f"tags.`t` = '{value}'" for value in "abc"]
        filters = [*tagged, *(f"{one} AND attributes.status != 'FINISHED'" for one in tagged)]
        found = [names(client.search_runs([experiment], one)) for one in filters]
        assert found == [["a1", "a2"], ["b"], [], ["a2"], ["b"], []]
        asked = [names(client.client.search_runs([experiment], one)) for one in filters]
        assert found == asked


def names(runs: Any) -> list[str]:
    return sorted(run.info.run_name for run in runs)


def test_a_store_that_cannot_be_written_is_one_line(store: str, tmp_path: Path) -> None:
    changed(tmp_path / "mlflow.db", "CREATE TRIGGER full BEFORE INSERT ON runs BEGIN SELECT "
            "RAISE(ABORT, 'disk full'); END")  # fmt: skip
    with connected(store) as client:
        experiment = client.create_experiment("x", "file:///x")
    with (
        pytest.raises(MapspaceError, match=r"MLflow at sqlite:.*: disk full Nothing is lost"),
        connected(store) as client,
    ):
        client.create_run(experiment, "r", {})
