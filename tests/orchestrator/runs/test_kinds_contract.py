"""What every kind of run keeps to: one owner of a folder, resume, URIs, one record in MLflow."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commands import answer, call, printed
from marks import noisy_libraries

from mapspace.errors import ConfigError
from mapspace.storage import RemotePath
from orchestrator.runs.kinds import kind, kind_names
from orchestrator.runs.lock import claimed
from orchestrator.runs.mlflow_client import ARTIFACTS_FOLDER, DATABASE_FILE, TRACKING_FILE
from orchestrator.runs.progress_file import Progress, read_progress
from orchestrator.runs.tables_file import TABLES_FILE
from orchestrator.schemas.published import schema

pytestmark = noisy_libraries

# Those that train take a minute where others take seconds.
SLOW_WHERE_IT_TRAINS = [
    pytest.param(name, marks=pytest.mark.slow) if "{data}" in str(kind(name).quick) else name
    for name in kind_names()
]

# The first run in a folder, of which the others get copies: name of the kind -> folder.
Finished = Callable[[str], Path]


def content_of(name: str, data: Path, /, **changes: Any) -> dict[str, Any]:
    """The small experiment of a kind, on a data set."""
    text = json.dumps(dict(kind(name).quick)).replace("{data}", str(data))
    return {**json.loads(text), **changes}


def written(folder: Path, content: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "experiment.yaml"
    path.write_text(json.dumps(content))
    return path


def files(folder: Path) -> dict[str, bytes]:
    """What a run folder holds, but for its MLflow store."""
    return {
        name: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not (name := path.relative_to(folder).as_posix()).startswith(
            (DATABASE_FILE, ARTIFACTS_FOLDER, TRACKING_FILE)
        )
    }


@pytest.fixture(scope="module")
def finished(
    small_data: Path, tmp_path_factory: pytest.TempPathFactory, ray_runtime: None
) -> Finished:
    """Runs of all kinds, made when they are asked for, each logged to a store beside it."""
    folder = tmp_path_factory.mktemp("finished")
    done: set[str] = set()

    def run(name: str) -> Path:
        if name not in done:
            file, said = written(folder / f"{name}-file", content_of(name, small_data)), StringIO()
            with redirect_stdout(said):
                options = (
                    "--tracking-uri",
                    store(folder),
                    "--store",
                    kept(folder / name),
                    "--json",
                )
                assert run_in(name, file, folder / name, *options) == 0
            (folder / f"{name}.json").write_text(said.getvalue())
            done.add(name)
        return folder / name

    return run


def store(folder: Path) -> str:
    return f"sqlite:///{folder / 'store.db'}"


def kept(folder: Path) -> Path:
    """The store of results that a kind's first run feeds."""
    return folder.with_suffix(".kept")


def run_in(name: str, file: Path, folder: object, *more: str) -> int:
    return call(kind(name).command, file, "--output", folder, *more)


@pytest.mark.parametrize("name", kind_names())
def test_it_ends_with_a_summary_and_closing_lines(
    name: str, finished: Finished, small_data: Path, tmp_path: Path, capsys: Any
) -> None:
    folder = finished(name)
    capsys.readouterr()
    file = written(tmp_path, content_of(name, small_data))
    assert run_in(name, file, folder, "--tracking-uri", store(folder.parent)) == 0
    lines = capsys.readouterr().out.splitlines()
    page = [f"page     {folder / kind(name).page}"] if kind(name).page else []
    shown = ["curves", "compare"] if name == "benchmark" else ["run"]
    told = lines[-1 - len(shown) :]
    assert lines[: -len(told)][-1 - len(page) :] == [f"results  {folder}", *page]
    assert [line.split()[0] for line in told] == ["MLflow", *shown]
    assert all(line.split()[1].startswith("http://127.0.0.1:5000/#/") for line in told[1:])
    assert all((folder / file).is_file() for file in filter(None, [kind(name).page]))
    assert (folder / kind(name).file).is_file()
    assert not (folder / ".lock").exists()


@pytest.mark.parametrize("name", kind_names())
def test_what_it_prints_as_json_is_what_the_schema_says(name: str, finished: Finished) -> None:
    folder = finished(name)
    found = json.loads(folder.with_suffix(".json").read_text())
    jsonschema.validate(found, schema(kind(name).command))
    assert (found["kind"], found["output"]) == (name, str(folder))
    assert Path(found["page"]).is_file() if kind(name).page else found["page"] is None


@pytest.mark.parametrize("name", kind_names())
def test_what_has_tables_as_data_can_be_kept_beside_pages(
    name: str, finished: Finished, tmp_path: Path, capsys: Any
) -> None:
    folder = finished(name)
    if not (folder / TABLES_FILE).exists():
        assert name not in {"marvel", "training-study"}
        return
    capsys.readouterr()
    assert call("report", folder, "--keep", tmp_path / "kept") == 0
    assert capsys.readouterr().out == f"{folder / kind(name).page}\n"
    (file,) = (tmp_path / "kept").iterdir()
    assert file.read_bytes() == (folder / TABLES_FILE).read_bytes()
    content = json.loads(file.read_text())
    assert content["experiment"]["kind"] == name
    assert all(table["rows"] for table in content["tables"].values())


@pytest.mark.parametrize("name", kind_names())
def test_a_second_folder_is_filled_from_the_store(
    name: str, finished: Finished, small_data: Path, tmp_path: Path, capsys: Any
) -> None:
    folder = finished(name)
    first = json.loads(folder.with_suffix(".json").read_text())
    assert first["from_store"] is False
    file, there = written(tmp_path / "file", content_of(name, small_data)), tmp_path / "again"
    capsys.readouterr()
    assert run_in(name, file, there, "--store", kept(folder), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    # A study of Marvel's is computed anew.
    assert found["from_store"] is (name != "marvel")
    for part in kind(name).kept or ("manifest.json", "shard-00000.parquet"):
        if (folder / part).exists():
            assert (there / part).read_bytes() == (folder / part).read_bytes()


@pytest.mark.parametrize("name", kind_names())
def test_it_tells_how_it_stands(name: str, finished: Finished, capsys: Any) -> None:
    folder = finished(name)
    progress = read_progress(folder)
    assert progress is not None
    assert (progress.kind, progress.name, progress.status) == (name, "quick", "finished")
    assert progress.started <= progress.updated
    assert not progress.running
    assert progress.stage
    if progress.total is not None:
        assert progress.before < progress.done == progress.total
    (shown,) = answer(capsys, "watch", folder)["runs"]
    assert shown["words"] == kind(name).words
    assert Progress.model_validate({key: shown[key] for key in Progress.model_fields}) == progress
    assert f"{folder}: {name} quick, finished after " in printed(capsys, "watch", folder, "--once")


@pytest.mark.parametrize("name", kind_names())
def test_a_finished_run_is_left_alone_and_not_logged_again(
    name: str, finished: Finished, small_data: Path, tmp_path: Path
) -> None:
    from mlflow.tracking import MlflowClient

    folder = finished(name)
    client = MlflowClient(tracking_uri=store(folder.parent))

    def logged() -> set[str]:
        experiments = [found.experiment_id for found in client.search_experiments()]
        runs = client.search_runs(experiments, f"tags.`mapspace.kind` = '{name}'")
        assert [run.info.status for run in runs] == ["FINISHED"]
        return {run.info.run_id for run in runs}

    before, runs = files(folder), logged()
    file = written(tmp_path, content_of(name, small_data))
    assert run_in(name, file, folder, "--tracking-uri", store(folder.parent)) == 0
    assert files(folder) == before
    assert logged() == runs


@pytest.mark.parametrize("name", kind_names())
def test_another_experiment_in_the_folder_is_refused(
    name: str, finished: Finished, small_data: Path, tmp_path: Path, capsys: Any
) -> None:
    folder = finished(name)
    before = files(folder)
    file = written(tmp_path, content_of(name, small_data, **kind(name).other))
    capsys.readouterr()
    assert run_in(name, file, folder) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: {folder}: ")
    assert "choose another --output" in line
    assert files(folder) == before


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
@pytest.mark.parametrize("name", kind_names())
def test_a_second_run_is_refused_while_one_holds_the_folder(
    name: str,
    remote: bool,
    bucket: RemotePath,
    small_data: Path,
    tmp_path: Path,
    quick_locks: None,
    capsys: Any,
) -> None:
    folder = bucket if remote else tmp_path / "run"
    file = written(tmp_path, content_of(name, small_data))
    with claimed(folder):
        assert run_in(name, file, folder) == 2
        error = capsys.readouterr().err
        assert f"another run writes here (process {os.getpid()} on " in error
    assert not (folder / kind(name).file).exists()


@pytest.mark.parametrize("name", kind_names())
def test_a_wrong_key_names_its_path(
    name: str, small_data: Path, tmp_path: Path, capsys: Any
) -> None:
    file = written(tmp_path, content_of(name, small_data, descriptin="x"))
    assert run_in(name, file, tmp_path / "run") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: {file}: descriptin: unknown key; did you mean description")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", kind_names())
def test_another_commands_kind_is_refused(
    name: str, small_data: Path, tmp_path: Path, capsys: Any
) -> None:
    own = kind(name).command
    file = written(tmp_path, content_of(name, small_data))
    for command in sorted({kind(other).command for other in kind_names()} - {own}):
        assert call(command, file, "--output", tmp_path / "run") == 2
        (line,) = capsys.readouterr().err.splitlines()
        expected = " or ".join(other for other in kind_names() if kind(other).command == command)
        assert f"kind: expected {expected}, got {name!r}: that is run by `mapspace {own}`" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", SLOW_WHERE_IT_TRAINS)
def test_a_killed_run_continues(
    name: str, finished: Finished, small_data: Path, tmp_path: Path, ray_runtime: None, capsys: Any
) -> None:
    folder = tmp_path / "run"
    file = written(tmp_path, content_of(name, small_data))
    code = "import sys; from orchestrator.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, kind(name).command, str(file), "--output", str(folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    driver = subprocess.Popen(command, start_new_session=True, **quiet)  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + 180
        while not (folder / kind(name).file).exists():
            assert driver.poll() is None, "the driver ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert run_in(name, file, folder) == 0
    assert files(folder).keys() == files(finished(name)).keys()
    capsys.readouterr()


@pytest.mark.parametrize("name", SLOW_WHERE_IT_TRAINS)
def test_its_folder_may_be_a_uri(
    name: str,
    bucket: RemotePath,
    finished: Finished,
    small_data: Path,
    tmp_path: Path,
    ray_runtime: None,
    quick_locks: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, content_of(name, small_data))
    more = ("--tracking-uri", store(tmp_path))
    for _ in range(2):
        assert run_in(name, file, bucket, *more) == 0
        assert f"results  {bucket}" in capsys.readouterr().out
    local = finished(name)
    for path in files(local):
        assert (bucket / path).exists(), path
    assert (bucket / TRACKING_FILE).exists()
    assert not (bucket / ".lock").exists()
    # Another machine, with no copy of what was drawn or logged.
    shutil.rmtree(tmp_path / "runs", ignore_errors=True)
    assert run_in(name, file, bucket, *more) == 0


def test_a_kind_that_there_is_not_is_named() -> None:
    with pytest.raises(ConfigError, match=r"Unknown kind 'sweeps'.*sweep"):
        kind("sweeps")
