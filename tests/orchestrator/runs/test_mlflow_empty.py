"""A new MLflow store is a copy of an empty one, and never in the way of one that is there."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import platformdirs
import pytest
from marks import noisy_libraries

from orchestrator.runs import mlflow_empty
from orchestrator.runs.mlflow_client import connected
from orchestrator.runs.mlflow_empty import lay_out

pytestmark = noisy_libraries


def tables(file: Path) -> list[tuple[str, list[str]]]:
    """Names, and the lines of what made each: migrations write constraints in any order."""
    with closing(sqlite3.connect(file)) as database:
        found: list[tuple[str, str | None]] = database.execute(
            "SELECT name, sql FROM sqlite_master ORDER BY name"
        ).fetchall()
    lines = ((name, (sql or "").splitlines()) for name, sql in found)
    return [(name, sorted(line.strip(" ,\t") for line in text)) for name, text in lines]


def write(file: Path, text: str) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(f"CREATE TABLE made (what TEXT DEFAULT '{text}')")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache/mapspace/mlflow"


@pytest.mark.slow
def test_a_copy_has_the_tables_that_mlflow_makes(tmp_path: Path, cache: Path) -> None:
    from mlflow.tracking import MlflowClient

    own, copied = tmp_path / "own.db", tmp_path / "copied.db"
    MlflowClient(tracking_uri=f"sqlite:///{own}").search_experiments()
    for file in (copied, tmp_path / "another.db"):
        with connected(f"sqlite:///{file}") as client:
            client.create_experiment("mine")
            assert [entry.name for entry in client.search_experiments()] == ["mine", "Default"]
        assert tables(file) == tables(own)
    (kept,) = cache.iterdir()
    # Nothing of a run folder is in it.
    with closing(sqlite3.connect(kept)) as database:
        assert database.execute("SELECT count(*) FROM experiments").fetchone() == (0,)


def test_it_is_made_once_and_anew_where_it_is_damaged(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def make(file: Path) -> None:
        made.append(file)
        write(file, f"{len(made)}")

    monkeypatch.setattr(mlflow_empty, "_make", make)
    for name in ("a.db", "b.db"):
        lay_out(f"sqlite:///{tmp_path / name}")
    assert len(made) == 1
    assert tables(tmp_path / "a.db") == tables(tmp_path / "b.db")
    (kept,) = cache.iterdir()
    kept.write_bytes(b"x" * kept.stat().st_size)
    lay_out(f"sqlite:///{tmp_path / 'c.db'}")
    assert "'2'" in tables(tmp_path / "c.db")[0][1][0]


def test_what_is_there_stays_and_what_cannot_be_made_is_left_to_mlflow(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there.db"

    def meanwhile(file: Path) -> None:
        write(file, "empty")
        there.write_text("another's")

    monkeypatch.setattr(mlflow_empty, "_make", meanwhile)
    lay_out(f"sqlite:///{there}")
    assert there.read_text() == "another's"
    lay_out(f"sqlite:///{there}")
    assert there.read_text() == "another's"

    def fail(file: Path) -> None:
        raise OSError("full")

    for entry in cache.iterdir():
        entry.unlink()
    monkeypatch.setattr(mlflow_empty, "_make", fail)
    lay_out(f"sqlite:///{tmp_path / 'none.db'}")
    assert not (tmp_path / "none.db").exists()
    for uri in ("http://localhost:1", "sqlite:///:memory:", "sqlite:///"):
        lay_out(uri)
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["there.db"]
