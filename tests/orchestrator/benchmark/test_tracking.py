"""Benchmarks in a real MLflow store on SQLite: what is logged, and that logging continues."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from marks import noisy_libraries
from sample_results import make_results

from mapspace.errors import MapspaceError
from orchestrator.benchmark import mlflow_children, mlflow_log
from orchestrator.comparison.page import draw_report
from orchestrator.comparison.results_files import CERTIFICATES_FOLDER, save
from orchestrator.runs import mlflow_client

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
    return results, mlflow_log.log_results(results, folder, uri).run


def test_a_parent_and_a_child_per_searcher_and_workload(store: str, tmp_path: Path) -> None:
    results, parent = logged(tmp_path / "run", store, "structure")
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
    parent = mlflow_log.log_results(results, tmp_path, store).run
    found = {file.path for file in client(store).list_artifacts(parent, "report")}
    assert found == {"report/report.html", *(f"report/{file.name}" for file in drawn.values())}
    assert "report/drawn-final.png" in found


def test_a_childs_artifacts_are_its_best_mapping_and_certificate(
    store: str, tmp_path: Path
) -> None:
    (tmp_path / "best.jsonl").write_text(json.dumps(RECORD) + "\n")
    _, parent = logged(tmp_path, store, "texts")
    found = client(store).list_artifacts(children(store, parent)["annealing / left"].info.run_id)
    assert [file.path for file in found] == ["best.json"]


def methods(uri: str, parent: str) -> dict[str, Any]:
    """The runs over all workloads, by the labels of methods."""
    connection = client(uri)
    of_one = f"tags.`mlflow.parentRunId` = '{parent}' AND tags.`mapspace.level` = 'method'"
    found = connection.search_runs([connection.get_run(parent).info.experiment_id], of_one)
    return {run.data.tags["mapspace.searcher"]: run for run in found}


def history(uri: str, run: Any, metric: str) -> dict[int, float]:
    """What a metric was at its steps."""
    found = client(uri).get_metric_history(run.info.run_id, metric)
    return {one.step: one.value for one in found}


def test_a_method_is_a_run_over_all_workloads(store: str, tmp_path: Path) -> None:
    _, parent = logged(tmp_path / "run", store, "methods")
    runs = methods(store, parent)
    assert runs.keys() == {"annealing", "gradient (visited)", "random"}
    run = runs["annealing"]
    assert run.info.run_name == "annealing / all"
    # By hand: three times the optimum on the left, five times the bound on the right.
    above = 100 * (15**0.5 - 1)
    assert run.data.metrics["percent_above_lower_bound"] == pytest.approx(above)
    by_workload = history(store, run, "percent_above_lower_bound_by_workload")
    assert by_workload[1] == pytest.approx(400)
    # 40 and 90 on the left: their logarithms are 0.81 apart, and Student's t for one is 12.71.
    half = 12.7062 * math.log(90 / 40) / 2 / 2
    low, high = (run.data.metrics[f"percent_above_lower_bound_{end}"] for end in ("low", "high"))
    assert low == 0
    assert high == pytest.approx(100 * (15**0.5 * math.exp(half) - 1), rel=1e-4)
    assert "287 % above the optimum or a lower bound" in run.data.tags["mlflow.note.content"]
    assert runs["gradient (visited)"].data.params["parameters.chains"] == "2"
    # One seed is at the left optimum after 50 queries, the other spends its 100 and never is.
    sure = runs["gradient (visited)"].data.metrics
    assert sure["sure/queries_until_within_1_percent"] == 150
    # 40 and 90 over 20, twice 400 over 80: the middle ones are 4.5 and 5.
    assert run.data.metrics["sure/middle_half"] == pytest.approx(100 * (22.5**0.5 - 1))
    assert "sure/queries_until_within_1_percent" not in run.data.metrics


@pytest.mark.parametrize(("unit", "at_ten", "end"), [("query", 10, 100), ("ms", 100, 1000)])
def test_a_methods_curves_are_over_queries_and_over_milliseconds(
    store: str, tmp_path: Path, unit: str, at_ten: int, end: int
) -> None:
    _, parent = logged(tmp_path / "run", store, f"curves-{unit}")
    run = methods(store, parent)["annealing"]
    curve = history(store, run, f"percent_above_lower_bound_by_{unit}")
    # By hand: from 10 queries on, a tenth of a second, twice as much as from 50 on.
    twice, once = (100 * (factor * 15**0.5 - 1) for factor in (2, 1))
    assert curve[end] == pytest.approx(once)
    assert curve[max(curve)] == curve[end]
    for step, value in curve.items():
        if step >= at_ten:
            assert value == pytest.approx(twice if step < end / 2 else once)


def test_a_benchmark_says_what_it_comes_to_and_who_made_it(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    results = make_results(name="glance")
    results = replace(results, provenance={**results.provenance, "commit": "0123abc"})
    save(results, tmp_path)
    draw_report({tmp_path: results}, tmp_path)
    logged = mlflow_log.log_results(results, tmp_path, store)
    connection = client(store)
    for run in connection.search_runs([connection.get_run(logged.run).info.experiment_id]):
        tags = run.data.tags
        assert tags["mlflow.user"] == "ada"
        assert tags["mlflow.source.name"] == "mapspace benchmark glance"
        assert tags["mlflow.source.git.commit"] == "0123abc"
    top = connection.get_run(logged.run).data
    note = top.tags["mlflow.note.content"]
    assert note.startswith(
        "Numbers made up for a test.\n\n**Verdict.** After 100 iterations gradient"
    )
    assert "| annealing | 287.3 | 0 | " in note
    assert "`report/glance-final.png`" in note
    assert top.params["accelerator"] == "mm256"
    assert top.metrics["percent_above_lower_bound_high/annealing"] > 287.3


@pytest.mark.parametrize("workloads", [("left", "right"), ("left",)])
def test_the_addresses_are_of_this_benchmarks_methods(
    store: str, tmp_path: Path, workloads: tuple[str, ...]
) -> None:
    results = make_results(name=f"address-{len(workloads)}")
    kept = tuple(run for run in results.runs if run.workload in workloads)
    results = replace(results, runs=kept)
    save(results, tmp_path)
    logged = mlflow_log.log_results(results, tmp_path, store)
    several = len(workloads) > 1
    runs = methods(store, logged.run) if several else children(store, logged.run)
    connection = client(store)
    experiment = connection.get_run(logged.run).info.experiment_id
    place, _, query = logged.compare.partition("?")
    assert place == "http://127.0.0.1:5000/#/compare-runs"
    asked = dict(parse_qsl(query))
    assert asked.pop("workflowType") == "machine_learning"
    ids = [
        runs[f"{label}{'' if several else ' / left'}"].info.run_id for label in results.searchers
    ]
    asked = {key: json.loads(value) for key, value in asked.items()}
    assert asked == {"runs": ids, "experiments": [experiment]}
    place, _, query = logged.curves.partition("?")
    assert place == f"http://127.0.0.1:5000/#/experiments/{experiment}/runs"
    asked = dict(parse_qsl(query))
    order = f"{asked['orderByKey']} ASC"
    shown = connection.search_runs([experiment], asked["searchFilter"], order_by=[order])
    first, *others = [run.data.tags["mapspace.searcher"] for run in shown]
    assert first == "gradient (visited)"
    # They end alike on the left.
    assert sorted(others) == ["annealing", "random"]
    # Of an experiment without it MLflow shows prompts and traces.
    assert connection.get_experiment(experiment).tags["mlflow.experimentKind"] == (
        "custom_model_development"
    )


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


def test_of_many_pairs_methods_alone_are_runs(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_children, "MOST_PAIRS", 5)
    results, parent = logged(tmp_path / "many", store, "many")
    assert not children(store, parent)
    assert {*methods(store, parent)} == {*results.searchers}


def test_under_a_budget_of_time_the_grid_is_time(store: str, tmp_path: Path) -> None:
    results = make_results(name="time", seconds=1.0, iterations=None)
    save(results, tmp_path)
    parent = mlflow_log.log_results(results, tmp_path, store).run
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
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
            logged(tmp_path / "run", store, "interrupted")
    _, parent = logged(tmp_path / "run", store, "interrupted")
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
