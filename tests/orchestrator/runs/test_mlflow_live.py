"""Numbers in a real MLflow store while a run goes on, and what becomes of its run there."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import call
from marks import noisy_libraries

from mapspace.storage import write_atomically
from orchestrator.runs import mlflow_client, mlflow_live
from orchestrator.runs.mlflow_client import connected, default_uri
from orchestrator.runs.mlflow_live import live_numbers, told_to_mlflow
from orchestrator.runs.progress_file import PROGRESS_FILE, Chart, Progress
from orchestrator.runs.progress_writer import curve

pytestmark = noisy_libraries

QUICK = {
    "kind": "benchmark",
    "name": "live",
    "workloads": ["gemm:M=4,N=4,K=256"],
    "searchers": {"random": {}, "annealing": {}},
    "seeds": 2,
    "iterations": 200,
}


def progress(done: int, best: float) -> Progress:
    chart = Chart(
        title="% above the proven optimum, mean of finished searches",
        across="evaluations",
        up="%",
        curves=(curve("annealing", [(1, 9.0), (100, best)]), curve("random", [])),
    )
    times: dict[str, Any] = {"started": 0.0, "updated": 0.0, "beat": 1.0}
    told = {"kind": "benchmark", "name": "x", "status": "running", "process": "p", **times}
    return Progress(version=1, **told, done=done, busy=1.5, charts=(chart,))


def client(uri: str) -> Any:
    """MLflow's own."""
    with connected(uri) as found:
        return found


def history(uri: str, metric: str) -> list[tuple[int, float]]:
    store = client(uri)
    experiment = store.get_experiment_by_name("x")
    runs = store.search_runs([experiment.experiment_id]) if experiment is not None else []
    entries = (one for run in runs for one in store.get_metric_history(run.info.run_id, metric))
    return [(one.step, one.value) for one in entries]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_live, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(mlflow_live, "EVERY_SECONDS", 0.05)


def test_numbers_of_progress() -> None:
    assert dict(live_numbers(progress(7, 2.5))) == {
        "live/done": 7,
        "live/failures": 0,
        "live/busy processors": 1.5,
        "live/percent above the proven optimum/annealing": 2.5,
    }


def test_a_run_is_told_while_it_goes_on_and_ends_killed_or_goes_on(
    tmp_path: Path, at_once: None
) -> None:
    uri, lines = default_uri(tmp_path), list[str]()
    metric = "live/percent above the proven optimum/annealing"

    def written(done: int, best: float) -> None:
        text = progress(done, best).model_dump_json(exclude_defaults=True)
        write_atomically(tmp_path / PROGRESS_FILE, text.encode())

    def told_until_interrupted() -> None:
        with told_to_mlflow(tmp_path, uri, "x", {"mapspace.kind": "benchmark"}, lines.append):
            until(lambda: (3, 8.0) in history(uri, metric))
            written(5, 4.0)
            until(lambda: (5, 4.0) in history(uri, metric))
            raise KeyboardInterrupt

    written(3, 8.0)
    with pytest.raises(KeyboardInterrupt):
        told_until_interrupted()
    (run,) = client(uri).search_runs(["1"])
    assert run.info.status == "KILLED"
    assert run.data.tags["mapspace.kind"] == "benchmark"
    with told_to_mlflow(tmp_path, uri, "x", {}, lines.append):
        written(6, 2.0)
        until(lambda: (6, 2.0) in history(uri, metric))
        written(7, 1.0)
        (again,) = client(uri).search_runs(["1"])
        assert (again.info.run_id, again.info.status) == (run.info.run_id, "RUNNING")
    # Once more at the end.
    assert history(uri, metric)[-1] == (7, 1.0)
    assert not lines
    assert "mlflow" not in {thread.name for thread in threading.enumerate()}


def test_a_server_that_is_away_holds_up_nothing(
    tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    lines = list[str]()
    with told_to_mlflow(tmp_path, "http://127.0.0.1:9", "x", {}, lines.append):
        until(lambda: bool(lines))
    assert lines[0].startswith("x: not told to MLflow while it runs: MLflow at http://127.0.0.1:9")


def test_a_benchmark_is_one_run_from_its_beginning(
    ray_runtime: None, tmp_path: Path, at_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder = tmp_path / "live.yaml", tmp_path / "run"
    file.write_text(yaml.safe_dump(QUICK))
    assert call("benchmark", file, "--output", folder, "--no-store") == 0
    capsys.readouterr()
    store = client(default_uri(folder))
    experiment = store.get_experiment_by_name("live").experiment_id
    found = store.search_runs([experiment], "tags.`mapspace.kind` = 'benchmark'")
    assert [run.info.status for run in found] == ["FINISHED"]
    metrics = found[0].data.metrics
    assert metrics["live/done"] == 4
    assert metrics["live/failures"] == metrics["live/busy processors"] == 0
    name = "percent above the proven optimum"
    for label in QUICK["searchers"]:
        final = metrics[f"percent_above_optimum/{label}"]
        assert metrics[f"live/{name}/{label}"] == pytest.approx(final, rel=1e-9, abs=0)
    # What was told by other names is not known any more.
    others = {n for n in metrics if n.startswith("live/percent") and name not in n}
    assert all(math.isnan(metrics[n]) for n in others)


def test_stores_are_made_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow's migrations keep what they do in a module: two threads spoil each other's."""
    inside, most = 0, 0

    def slowly(uri: str) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.1)
        inside -= 1

    monkeypatch.setattr(mlflow_client, "lay_out", slowly)
    # An address that no store is made for.
    threads = [
        threading.Thread(target=client, args=(f"http://127.0.0.1:{port}",)) for port in (8, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_two_threads_that_begin_together_have_one_run(tmp_path: Path) -> None:
    uri, runs = default_uri(tmp_path), list[str]()
    store = client(uri)
    together = threading.Barrier(2)

    def begin() -> None:
        together.wait()
        experiment = mlflow_client.experiment_id(store, "x", tmp_path, uri)
        runs.append(mlflow_client.remembered_run(store, experiment, tmp_path, uri, tags={}))

    threads = [threading.Thread(target=begin) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 2
    assert len(set(runs)) == 1
    assert store.get_run(runs[0]).info.lifecycle_stage == "active"


def test_an_experiment_that_another_process_made_just_now(tmp_path: Path) -> None:
    uri = default_uri(tmp_path)
    store = client(uri)
    made = mlflow_client.experiment_id(store, "x", tmp_path, uri)
    looks = iter([None])

    class Late:
        """Finds it at the second look only."""

        def get_experiment_by_name(self, name: str) -> Any:
            return next(looks, store.get_experiment_by_name(name))

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    assert mlflow_client.experiment_id(Late(), "x", tmp_path, uri) == made
