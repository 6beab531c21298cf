"""A benchmark on an MLflow server on PostgreSQL: what is there, and the view that opens first."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from marks import noisy_libraries
from mlflow_server import content, postgresql, postgresql_programs, serving
from sample_results import make_results

from orchestrator.benchmark import mlflow_log
from orchestrator.comparison.results_files import save
from orchestrator.runs import mlflow_client

pytestmark = [pytest.mark.slow, noisy_libraries]


def test_postgresql_holds_what_sqlite_holds_and_the_addresses_open_it(tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    programs = postgresql_programs()
    if programs is None:
        pytest.skip("there is no PostgreSQL here, or no psycopg")
    results = make_results(name="both")
    local, remote = tmp_path / "local" / "run", tmp_path / "remote" / "run"
    for folder in (local, remote):
        folder.mkdir(parents=True)
        save(results, folder)
    own = mlflow_client.default_uri(local)
    mlflow_log.log_results(results, local, own)
    with postgresql(programs) as database, serving(tmp_path, database) as server:
        logged = mlflow_log.log_results(results, remote, server.uri)
        assert mlflow_log.log_results(results, remote, server.uri) == logged
        assert content(results, server.uri) == content(results, own)
        assert logged.compare.startswith(f"{server.uri}/#/compare-runs?")
        place, _, query = logged.curves.partition("?")
        experiment = place.split("/")[-2]
        assert place == f"{server.uri}/#/experiments/{experiment}/runs"
        asked = dict(parse_qsl(query))
        order = f"{asked['orderByKey']} ASC"
        connection = MlflowClient(server.uri)
        shown = connection.search_runs([experiment], asked["searchFilter"], order_by=[order])
        above = [run.data.metrics[asked["orderByKey"].split("`")[1]] for run in shown]
        assert len(above) == len(results.searchers)
        assert above == sorted(above)
