"""A run folder may come from anybody and lie anywhere: it is drawn, and nothing else happens."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import noisy_libraries
from sample_results import make_results

from mapspace.errors import ConfigError, DataError, MapspaceError
from mapspace.strict_yaml import validate
from orchestrator.benchmark import mlflow_log
from orchestrator.benchmark.config import Benchmark
from orchestrator.comparison.page import write_report
from orchestrator.comparison.results import Results
from orchestrator.comparison.results_files import save
from orchestrator.runs import mlflow_client
from orchestrator.runs.mlflow_client import open_mlflow

pytestmark = noisy_libraries


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with its own store; making one takes seconds."""
    folder = tmp_path_factory.mktemp("runs") / "made-up"
    folder.mkdir()
    results = make_results()
    save(results, folder)
    mlflow_log.log_results(results, folder, mlflow_client.default_uri(folder))
    return folder


@pytest.fixture
def moved(original: Path, tmp_path: Path) -> Iterator[Path]:
    """The folder somewhere else, and nothing where it was."""
    here = tmp_path / "elsewhere" / "moved"
    shutil.copytree(original, here)
    away = original.with_name("away")
    original.rename(away)
    yield here
    assert not original.exists()
    away.rename(original)


def artifacts(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "artifacts").rglob("*.html"))


def remember(folder: Path, **changes: Any) -> None:
    path = folder / mlflow_client.TRACKING_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_store_in_the_folder_is_remembered_without_its_place(original: Path) -> None:
    text = (original / mlflow_client.TRACKING_FILE).read_text()
    assert json.loads(text)["tracking_uri"] == "sqlite:///mlflow.db"
    assert str(original) not in text


def test_a_moved_folder_keeps_its_store(
    moved: Path, original: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_report(moved)
    told = f"{moved}: has moved; its MLflow store finds its artifacts again\n"
    assert capsys.readouterr().err == told
    assert artifacts(moved) == ["report.html"]
    write_report(moved)
    assert capsys.readouterr().err == ""


def test_so_does_one_from_before_stores_were_relative(
    moved: Path, original: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remember(moved, tracking_uri=f"sqlite:///{original / 'mlflow.db'}")
    write_report(moved)
    assert "has moved" in capsys.readouterr().err
    assert artifacts(moved) == ["report.html"]
    # And a benchmark that is continued there finds its run again.
    before = json.loads((moved / mlflow_client.TRACKING_FILE).read_text())["parent"]
    again = mlflow_log.log_results(make_results(), moved, mlflow_client.default_uri(moved))
    assert again.run == before


def test_a_store_that_writes_elsewhere_is_refused(
    moved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    shutil.rmtree(moved / "artifacts")
    with sqlite3.connect(moved / "mlflow.db") as connection:
        connection.execute("UPDATE experiments SET artifact_location = ?", (outside.as_uri(),))
        connection.execute(
            "UPDATE runs SET artifact_uri = ? || '/' || run_uuid", (outside.as_uri(),)
        )
    page = write_report(moved)
    assert page.is_file()
    assert not outside.exists()
    assert "keeps artifacts at" in capsys.readouterr().err


class Listener:
    """A server that counts who asks."""

    def __init__(self) -> None:
        asked = self.asked = list[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_error(404)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def test_a_server_is_contacted_only_where_it_is_named(
    tmp_path: Path,
    listener: Listener,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    save(make_results(), tmp_path)
    remembered = {"tracking_uri": listener.uri, "key": "0" * 32, "parent": "a" * 32}
    (tmp_path / mlflow_client.TRACKING_FILE).write_text(json.dumps(remembered))
    page = write_report(tmp_path)
    assert page.is_file()
    assert listener.asked == []
    warning = capsys.readouterr().err
    assert listener.uri in warning
    assert warning.count("\n") == 1
    write_report(tmp_path, tracking_uri=listener.uri)
    assert listener.asked, "the server that was named"
    assert capsys.readouterr().err.startswith(f"Warning: MLflow at {listener.uri}")


@pytest.mark.parametrize(
    "changes",
    [
        {"parent": "x' OR 1=1"},
        {"key": "'"},
        {"tracking_uri": 3},
        {"other": 1},
        {"tracking_uri": ""},
    ],
    ids=str,
)
def test_what_a_folder_remembers_is_checked(tmp_path: Path, changes: dict[str, Any]) -> None:
    known = {"tracking_uri": "sqlite:///mlflow.db", "key": "0" * 32, "parent": "a" * 32}
    (tmp_path / mlflow_client.TRACKING_FILE).write_text(json.dumps({**known, **changes}))
    with pytest.raises(DataError, match=rf"{mlflow_client.TRACKING_FILE}: {next(iter(changes))}: "):
        mlflow_client.attach(tmp_path, [])


def test_no_store_is_made_for_a_folder_that_lost_its_own(tmp_path: Path) -> None:
    known = {"tracking_uri": "sqlite:///mlflow.db", "key": "0" * 32, "parent": "a" * 32}
    (tmp_path / mlflow_client.TRACKING_FILE).write_text(json.dumps(known))
    with pytest.raises(MapspaceError, match=r"its MLflow store .*mlflow\.db is missing"):
        mlflow_client.attach(tmp_path, [])
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize(
    "name", ["../../evil", "/tmp/evil", ".hidden", "a/b", "nul\0", "two\nlines"]
)
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    save(make_results(name=name), folder)
    with pytest.raises(DataError, match=r"summary\.json: experiment\.name: expected a name that"):
        write_report(folder)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "a",
        "b",
        "curves.parquet",
        "summary.json",
    ]
    data = {
        "kind": "benchmark",
        "name": name,
        "workloads": ["resnet-conv4"],
        "searchers": {"random": {}},
        "seeds": 1,
        "iterations": 5,
    }
    with pytest.raises(ConfigError, match="x: name: expected a name that"):
        validate(Benchmark, data, "x")


def renamed(results: Results, names: dict[str, str]) -> Results:
    """The same results of workloads and searchers with other names."""

    def new(name: str) -> str:
        return names.get(name, name)

    searchers = [
        {**entry, "label": new(entry["label"])} for entry in results.experiment["searchers"]
    ]
    return dataclasses.replace(
        results,
        experiment={**results.experiment, "searchers": searchers},
        bounds={new(name): bounds for name, bounds in results.bounds.items()},
        runs=tuple(
            dataclasses.replace(run, searcher=new(run.searcher), workload=new(run.workload))
            for run in results.runs
        ),
    )


def test_dollars_in_names_are_no_formulas(tmp_path: Path) -> None:
    odd = r"a$\frac{$b"
    results = renamed(
        make_results(name=r"x$\frac{$"), {"left": odd, "annealing": odd + "1", "random": r"\$_$"}
    )
    save(results, tmp_path)
    page = write_report(tmp_path)
    assert odd in page.read_text()
    assert (tmp_path / "figures" / r"x$\frac{$-final.png").stat().st_size > 1000


def test_numbers_of_logarithmic_axes_stay_formulas(tmp_path: Path) -> None:
    """What is drawn where there is no `$` in a name is what Matplotlib itself draws."""
    from matplotlib.figure import Figure
    from matplotlib.image import imread

    from orchestrator.report.figure_style import plain_figure

    pictures = []
    for figure in (plain_figure(3, 2), Figure(figsize=(3, 2), layout="constrained")):
        panel = figure.subplots()
        panel.loglog([1, 1e6], [1, 1e6])
        panel.set_title("no formula")
        figure.savefig(tmp_path / "x.png")
        # Ours may have no alpha: nothing of it is transparent.
        pictures.append(imread(tmp_path / "x.png")[..., :3])
    assert (pictures[0] == pictures[1]).all()


def test_names_on_ticks_are_drawn_as_they_are() -> None:
    from orchestrator.report.figure_style import plain_figure

    figure = plain_figure(3, 2)
    panel = figure.subplots()
    panel.set_yticks(np.arange(2), [r"$\frac{$", "5 $"])
    figure.savefig("/dev/null", format="png")
    assert [label.get_text() for label in panel.get_yticklabels()] == [r"\$\frac{\$", r"5 \$"]
    figure.savefig("/dev/null", format="png")
    assert [label.get_text() for label in panel.get_yticklabels()] == [r"\$\frac{\$", r"5 \$"]


def test_the_line_that_opens_mlflow_is_for_a_shell() -> None:
    uri = "sqlite:////tmp/my runs/a; touch x/mlflow.db"
    words = shlex.split(open_mlflow(uri))
    assert words[-2:] == ["--backend-store-uri", uri]
    assert words[2:4] == ["ui", "--workers"]
