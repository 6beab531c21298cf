"""Limits of a call: a run that reaches one stops, says what is missing, and goes on later."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from commands import call
from data_configs import data_config

import mapspace as ms
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate
from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.benchmark.run import BenchmarkExperiment
from orchestrator.runs import limits as of_runs
from orchestrator.runs.limits import LimitReachedError, Limits
from orchestrator.runs.progress_file import read_progress
from orchestrator.training.generate import GenerateExperiment

HOUR = 3600.0


def test_hours_and_core_hours_are_counted_from_the_beginning() -> None:
    began = time.monotonic() - 0.5 * HOUR
    assert Limits(_began=began).reached(1000) == ""
    assert Limits(hours=0.4, _began=began).reached(1) == "0.4 hours"
    assert Limits(hours=0.6, _began=began).reached(1000) == ""
    # Half an hour on four processors is two core-hours, busy or not.
    limits = Limits(core_hours=1.9, _began=began)
    assert limits.reached(3) == ""
    assert limits.reached(4) == "1.9 core-hours on 4 processors"
    assert [Limits(cores=cores).of(4) for cores in (None, 2, 9)] == [4, 2, 4]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--hours", 0), ("--hours", -1), ("--hours", "nan"), ("--core-hours", "inf"), ("--cores", 0)],
)
def test_a_limit_is_above_0(option: str, value: object, capsys: Any) -> None:
    assert call("benchmark", "smoke", option, value) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(rf"Error: {option}: expected .*, got ", line)
    with pytest.raises(ConfigError):
        Limits(hours=float("nan"))


@pytest.mark.parametrize("command", ["sweep", "design"])
def test_to_look_at_a_grid_takes_of_the_same_hours(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A grid may be of a hundred thousand machines, each of which is built and looked at."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(of_runs, "PATIENCE_SECONDS", 0.0)
    grid = {"clock_ghz": [n / 1000 for n in range(1, 9001)]}
    asked = {"kind": command, "name": "long", "base": "mm256", "grid": grid}
    Path("long.yaml").write_text(json.dumps({**asked, "workloads": ["gemm:M=4,N=4,K=4"]}))
    message = "stopped after 1e-05 hours, when [0-9,]+ .* had been looked at and nothing was begun"
    assert call(command, "long.yaml", "--hours", "1e-5") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)
    assert [path.name for path in tmp_path.iterdir()] == ["long.yaml"]
    with pytest.raises(LimitReachedError, match=message):
        getattr(ms, command)("long.yaml", hours=1e-5)


def test_any_kind_stops_between_two_tasks_and_goes_on(tmp_path: Path) -> None:
    limits = Limits(hours=1e-9)
    config = data_config()
    first = GenerateExperiment(config, execute=map, limits=limits)
    message = r"stopped after 1e-09 hours with 1 of \d+ shards; the same command goes on"
    with pytest.raises(LimitReachedError, match=message):
        first.run(tmp_path)
    progress = read_progress(tmp_path)
    assert progress is not None
    assert (progress.status, progress.done) == ("stopped", 1)
    # What was there before counts.
    with pytest.raises(LimitReachedError, match=message.replace("1 of", "2 of")):
        GenerateExperiment(config, execute=map, limits=limits).run(tmp_path)
    progress = read_progress(tmp_path)
    assert progress is not None
    assert progress.done == 2
    rest = GenerateExperiment(config, execute=map).run(tmp_path)
    assert rest.kept == 2
    # What ends with its last task has reached no limit.
    done = GenerateExperiment(config, execute=map, limits=limits).run(tmp_path)
    assert done.written == 0


@pytest.mark.slow
@pytest.mark.parametrize("host", ["trials", "blocks"])
def test_a_benchmark_stops_and_goes_on(host: str, tmp_path: Path, ray_runtime: None) -> None:
    content = {
        "kind": "benchmark",
        "name": "limited",
        "accelerator": "mm256",
        "workloads": ["gemm:M=64,N=64,K=64"],
        "searchers": {"random": {}, "annealing": {}},
        "seeds": 2,
        "iterations": 200,
        "host": host,
    }
    plan = prepare(validate(Benchmark, content, "limited"), "limited")
    limits = Limits(hours=1e-9)
    message = r"1e-09 hours; \d searches are missing: .* on gemm.*; the same command goes on\."
    with pytest.raises(LimitReachedError, match=message):
        BenchmarkExperiment(plan, limits=limits).run(tmp_path / "run")
    progress = read_progress(tmp_path / "run")
    assert progress is not None
    assert progress.status == "stopped"
    assert "searches are missing" in progress.reason
    assert not (tmp_path / "run" / "summary.json").exists()
    continued = BenchmarkExperiment(plan).run(tmp_path / "run")
    whole = BenchmarkExperiment(plan).run(tmp_path / "whole")
    found = [[(one.best_loss, one.best_code) for one in done.runs] for done in (continued, whole)]
    assert found[0] == found[1]
    progress = read_progress(tmp_path / "run")
    assert progress is not None
    assert (progress.status, progress.done, progress.total) == ("finished", 4, 4)
