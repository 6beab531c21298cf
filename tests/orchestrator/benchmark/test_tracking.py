"""Benchmarks in a real MLflow store on SQLite: what is logged, and that logging continues."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from marks import noisy_libraries
from sample_results import make_results

from mapspace.errors import MapspaceError
from orchestrator.benchmark import mlflow_children, mlflow_log
from orchestrator.comparison.page import draw_report
from orchestrator.comparison.results_files import CERTIFICATES_FOLDER, save
from orchestrator.runs import mlflow_client, mlflow_many

pytestmark = noisy_libraries

# Of a cost model whose mappings are no loop nests.
RECORD = {"searcher": "annealing", "layer": "left", "seed": 0, "tiling": [1, 2]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    # Making the database takes seconds: once for all tests, which log under their own names.
    return mlflow_client.default_uri(tmp_path_factory.mktemp("store"))


def client(uri: str) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=uri)


def children(uri: str, parent: str) -> dict[str, Any]:
    connection = client(uri)
    experiment = connection.get_run(parent).info.experiment_id
    of_one = f"tags.`mlflow.parentRunId` = '{parent}' AND tags.`mapspace.level` = 'search'"
    found = connection.search_runs([experiment], of_one)
    names = [run.info.run_name for run in found]
    assert len(names) == len(set(names))
    return dict(zip(names, found, strict=True))


def logged(folder: Path, uri: str, name: str) -> tuple[Any, str]:
    results = make_results(name=name)
    folder.mkdir(exist_ok=True)
    save(results, folder)
    (folder / CERTIFICATES_FOLDER).mkdir(exist_ok=True)
    (folder / CERTIFICATES_FOLDER / "left.json").write_text("{}")
    return results, mlflow_log.log_results(results, folder, uri)


WAYS = ("file", "rows", "client")


def choose(way: str, patch: pytest.MonkeyPatch) -> None:
    """How runs come into the store: without MLflow, as rows of its tables, as into a server."""
    if way != "file":
        patch.setattr(mlflow_client, "open_database", lambda uri, mlflows_own: None)
    if way == "client":
        patch.setattr(mlflow_many, "_own_tables", lambda client: None)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose(request.param, monkeypatch)
    return str(request.param)


def test_a_parent_and_a_child_per_searcher_and_workload(
    store: str, tmp_path: Path, way: str
) -> None:
    results, parent = logged(tmp_path / "run", store, f"structure-{way}")
    runs = children(store, parent)
    expected = [f"{s} / {w}" for s in results.searchers for w in results.workloads]
    assert sorted(runs) == sorted(expected)
    assert all(run.info.status == "FINISHED" for run in runs.values())
    run = runs["annealing / left"]
    assert run.data.params["preset"] == "paper"
    assert run.data.params["iterations"] == "100"
    assert run.data.metrics["final"] == pytest.approx(6.0)
    assert run.data.metrics["percent_above_optimum"] == pytest.approx(200.0)
    assert run.data.params["optimum"] == "20.0"
    assert run.data.params["optimum_proven"] == "true"
    other = runs["annealing / right"]
    assert other.data.metrics["percent_above_lower_bound"] == pytest.approx(400.0)
    assert "percent_above_optimum" not in other.data.metrics
    assert other.data.params["lower_bound"] == "80.0"
    assert other.data.params["optimum_proven"] == "false"
    top = client(store).get_run(parent)
    assert top.info.status == "FINISHED"
    assert top.data.metrics["normalised/gradient visited"] == pytest.approx(6**0.5)
    assert top.data.params["optimum_proven"] == "false"
    percent = top.data.metrics["percent_above_lower_bound/annealing"]
    assert percent == pytest.approx(100 * (15**0.5 - 1))
    assert "made up for a test" in top.data.tags["mlflow.note.content"]
    artifacts = {file.path for file in client(store).list_artifacts(parent)}
    assert artifacts == {"certificates", "curves.parquet", "summary.json"}
    files = client(store).list_artifacts(parent, "certificates")
    assert [file.path for file in files] == ["certificates/left.json"]


def test_the_page_and_its_figures_are_artifacts_of_the_parent(store: str, tmp_path: Path) -> None:
    results = make_results(name="drawn")
    save(results, tmp_path)
    _, drawn = draw_report({tmp_path: results}, tmp_path)
    parent = mlflow_log.log_results(results, tmp_path, store)
    found = {file.path for file in client(store).list_artifacts(parent, "report")}
    assert found == {"report/report.html", *(f"report/{file.name}" for file in drawn.values())}
    assert "report/drawn-final.png" in found


def test_all_ways_leave_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    monkeypatch.setattr(mlflow_children, "_now", lambda: 1_700_000_000_000)
    for way in WAYS:
        folder = tmp_path / way / "run"
        folder.mkdir(parents=True)
        results = make_results(name="same")
        save(results, folder)
        (folder / "best.jsonl").write_text(json.dumps(RECORD) + "\n")
        (folder / CERTIFICATES_FOLDER).mkdir()
        (folder / CERTIFICATES_FOLDER / "left.json").write_text("{}")
        store = mlflow_client.default_uri(folder)
        with monkeypatch.context() as patch:
            choose(way, patch)
            parent = mlflow_log.log_results(results, folder, store)
        found.append(content(store, tmp_path / way, parent))
    assert len(found[0]) == 10
    assert found[0] == found[1] == found[2]
    assert found[0]["annealing / left"][1][-1] == ["best.json"]


def content(uri: str, folder: Path, parent: str) -> dict[str, Any]:
    """What MLflow's client says of every run, but for ids, places and times of the day."""
    connection = client(uri)
    runs = {}
    for run in connection.search_runs([connection.get_run(parent).info.experiment_id]):
        key = run.info.run_id
        hidden = {"mlflow.parentRunId": parent, "mapspace.key": ""}
        tags = {name: hidden.get(name, value) for name, value in run.data.tags.items()}
        history = {
            metric: sorted(
                repr((one.value, one.step, one.timestamp - run.info.start_time))
                for one in connection.get_metric_history(key, metric)
            )
            for metric in run.data.metrics
        }
        info = dict(run.info)
        assert info.pop("end_time") >= run.info.start_time
        del info["start_time"]
        artifacts = sorted(file.path for file in connection.list_artifacts(key))
        shown = (info, run.data.params, repr(run.data.metrics), history, artifacts)
        text = json.dumps([tags, shown])
        for place, name in ((parent, "PARENT"), (key, "RUN"), (str(folder), "FOLDER")):
            text = text.replace(place, name)
        runs[run.info.run_name] = json.loads(text)
    return runs


def test_a_method_is_a_run_over_all_workloads(store: str, tmp_path: Path) -> None:
    _, parent = logged(tmp_path / "run", store, "methods")
    connection = client(store)
    experiment = connection.get_run(parent).info.experiment_id
    found = connection.search_runs([experiment], "tags.`mapspace.level` = 'method'")
    runs = {run.data.tags["mapspace.searcher"]: run for run in found}
    assert runs.keys() == {"annealing", "gradient (visited)", "random"}
    run = runs["annealing"]
    assert run.info.run_name == "annealing / all"
    # By hand: three times the optimum on the left, five times the bound on the right.
    above = 100 * (15**0.5 - 1)
    assert run.data.metrics["percent_above_lower_bound"] == pytest.approx(above)
    name = "percent_above_lower_bound_by_workload"
    history = {one.step: one.value for one in connection.get_metric_history(run.info.run_id, name)}
    assert history[0] != 0  # nan: where relative times begin
    assert history[1] == pytest.approx(400)
    name = "percent_above_lower_bound_by_per_mille_of_budget"
    history = {one.step: one.value for one in connection.get_metric_history(run.info.run_id, name)}
    assert history[1000] == pytest.approx(above)
    # After 10 % of its budget: twice as much.
    assert history[100] == pytest.approx(100 * (2 * 15**0.5 - 1))
    assert "287 % above the optimum or a lower bound" in run.data.tags["mlflow.note.content"]


def test_more_children_than_a_page_holds(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of later pages are neither logged again nor left unfinished."""
    monkeypatch.setattr(mlflow_log, "RUNS_PER_PAGE", 4)
    _, parent = logged(tmp_path / "run", store, "pages")
    before = {run.info.run_id for run in children(store, parent).values()}
    assert len(before) == 6
    connection = client(store)
    last = connection.search_runs(
        [connection.get_run(parent).info.experiment_id], f"tags.`mlflow.parentRunId` = '{parent}'"
    )[-1]
    connection.update_run(last.info.run_id, status="RUNNING")
    logged(tmp_path / "run", store, "pages")
    runs = children(store, parent)
    assert last.info.run_id not in {run.info.run_id for run in runs.values()}
    assert len(before & {run.info.run_id for run in runs.values()}) >= 5
    assert all(run.info.status == "FINISHED" for run in runs.values())


def test_tags_and_descriptions_can_be_searched(store: str, tmp_path: Path) -> None:
    _, parent = logged(tmp_path / "run", store, "searched")
    connection = client(store)
    experiment = connection.get_run(parent).info.experiment_id
    query = (
        "tags.`mapspace.workload` = 'left' AND tags.`mapspace.optimum_proven` = 'true' "
        "AND metrics.percent_above_optimum <= 200"
    )
    found = {run.info.run_name for run in connection.search_runs([experiment], query)}
    # By hand: three, one and a half and three times the optimum of 20.
    assert found == {"annealing / left", "gradient (visited) / left", "random / left"}
    query = "tags.`mlflow.note.content` LIKE '%ends 200 % above the proven optimum%'"
    found = {run.info.run_name for run in connection.search_runs([experiment], query)}
    assert found == {"annealing / left", "random / left"}


def test_steps_are_evaluations_and_timestamps_are_search_time(store: str, tmp_path: Path) -> None:
    _, parent = logged(tmp_path / "run", store, "axes")
    run = children(store, parent)["annealing / left"]
    history = client(store).get_metric_history(run.info.run_id, "normalised_edp")
    points = {metric.step: metric for metric in history}
    # Time is counted from here, for every method alike.
    assert math.isnan(points[0].value)
    assert points[0].timestamp == run.info.start_time
    assert points[1].value == pytest.approx(90.0)
    assert points[100].value == pytest.approx(6.0)
    assert points[100].timestamp - run.info.start_time == 1000
    assert points[1].timestamp - run.info.start_time == 10
    above = client(store).get_metric_history(run.info.run_id, "percent_above_optimum")
    assert {metric.step for metric in above} == set(points)
    assert above[-1].value == pytest.approx(200.0)


def test_of_many_children_one_curve_is_enough_for_both(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, few = logged(tmp_path / "few", store, "few")
    monkeypatch.setattr(mlflow_children, "FEW_RUNS", 5)
    monkeypatch.setattr(mlflow_children, "FEW_POINTS", mlflow_children.POINTS)
    _, many = logged(tmp_path / "many", store, "many")
    connection = client(store)
    before, now = children(store, few), children(store, many)
    assert before.keys() == now.keys()
    for name, run in now.items():
        metrics = run.data.metrics
        assert metrics == pytest.approx(before[name].data.metrics)
        percent = next(key for key in metrics if key.startswith("percent_above"))
        curve = connection.get_metric_history(run.info.run_id, percent)
        (end,) = connection.get_metric_history(run.info.run_id, "normalised_edp")
        assert len(curve) > 2
        # The curve that is left out, from the one that is there and both ends.
        both = connection.get_metric_history(before[name].info.run_id, "normalised_edp")
        known = {point.step: point.value for point in both}
        factor = end.value / (100 + metrics[percent])
        made = {point.step: factor * (100 + point.value) for point in curve[1:]}
        assert made == pytest.approx({step: known[step] for step in made})


def test_under_a_budget_of_time_the_grid_is_time(store: str, tmp_path: Path) -> None:
    results = make_results(name="time", seconds=1.0, iterations=None)
    save(results, tmp_path)
    parent = mlflow_log.log_results(results, tmp_path, store)
    run = children(store, parent)["random / right"]
    history = client(store).get_metric_history(run.info.run_id, "normalised_edp")
    assert history[-1].timestamp - run.info.start_time == 1000
    assert history[-1].step == 100
    assert [metric.step for metric in history] == sorted(metric.step for metric in history)


def test_logging_again_adds_nothing(store: str, tmp_path: Path) -> None:
    _, parent = logged(tmp_path / "run", store, "twice")
    before = {run.info.run_id for run in children(store, parent).values()}
    _, again = logged(tmp_path / "run", store, "twice")
    assert again == parent
    assert {run.info.run_id for run in children(store, parent).values()} == before


def test_interrupted_logging_is_completed(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    original, calls = mlflow_children._curve_metrics, 0

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(mlflow_children, "_curve_metrics", counted)
        with pytest.raises(KeyboardInterrupt):
            logged(tmp_path / "run", store, f"interrupted-{way}")
    _, parent = logged(tmp_path / "run", store, f"interrupted-{way}")
    runs = children(store, parent)
    assert len(runs) == 6
    assert all(run.info.status == "FINISHED" for run in runs.values())
    assert all("final" in run.data.metrics for run in runs.values())


def test_runs_that_a_repeated_request_has_made_twice_are_removed(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may make a run and die before it answers: the client asks again."""
    from mlflow.tracking import MlflowClient

    original = MlflowClient.create_run

    def twice(self: Any, *arguments: Any, **named: Any) -> Any:
        original(self, *arguments, **named)
        return original(self, *arguments, **named)

    with monkeypatch.context() as patch:
        choose("client", patch)
        patch.setattr(MlflowClient, "create_run", twice)
        patch.setattr(mlflow_log, "RUNS_PER_PAGE", 4)
        results, parent = logged(tmp_path / "run", store, "repeated")
    connection = client(store)
    experiment = connection.get_run(parent).info.experiment_id
    found = connection.search_runs([experiment])
    expected = {f"{s} / {w}" for s in results.searchers for w in (*results.workloads, "all")}
    assert sorted(run.info.run_name for run in found) == sorted({"run", *expected})
    assert all(run.info.status == "FINISHED" for run in found)


def test_a_report_is_attached(store: str, tmp_path: Path) -> None:
    _, parent = logged(tmp_path / "run", store, "attached")
    page = tmp_path / "run" / "report.html"
    page.write_text("page")
    mlflow_client.attach(tmp_path / "run", [page], tracking_uri=store)
    found = [file.path for file in client(store).list_artifacts(parent, "report")]
    assert found == ["report/report.html"]
    # Without a parent run there is nothing to do.
    mlflow_client.attach(tmp_path, [page])


def test_a_store_that_cannot_be_opened_is_one_clear_error(tmp_path: Path) -> None:
    results = make_results()
    save(results, tmp_path)
    with pytest.raises(MapspaceError, match="MLflow at nonsense://x"):
        mlflow_log.log_results(results, tmp_path, "nonsense://x")


@pytest.mark.parametrize(
    ("label", "name"),
    [("gradient (visited)", "gradient visited"), ("a/b-c.d e_f", "a/b-c.d e_f"), ("é!", "é")],
)
def test_metric_names_hold_only_what_is_allowed(label: str, name: str) -> None:
    assert mlflow_client.metric_name(label) == name
