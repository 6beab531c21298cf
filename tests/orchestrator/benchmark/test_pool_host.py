"""`host: pool`: searches of a benchmark on evaluators of their own, on the real Ray."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapspace as ms
from mapspace.errors import ConfigError, DataError
from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.benchmark.pool_trial import pooled_searches
from orchestrator.benchmark.search_trial import finished_runs, run_trial
from orchestrator.comparison.page import write_report
from orchestrator.comparison.results import Run
from orchestrator.pool.event_log import read_events

SIMULATOR = """#!/bin/sh
echo >> {folder}/calls
awk '{{ steps *= $2; words += steps * $3 / 16 }}
    END {{ if (words > 1e9) exit 3; print "cycles:", steps + words, "energy:", 0.2 * words + 1 }}' \
    steps=1 words=0 mapping.txt
"""
SETTINGS: dict[str, Any] = {
    "files": {
        "mapping.txt": "{% for level in levels %}{{ level.name }} "
        "{{ level.temporal | map(attribute='factor') | product }} "
        "{{ level.tiles.values() | sum }}\n{% endfor %}"
    },
    "costs": {
        "energy_pj": {"regex": "energy: ([0-9.e+]+)"},
        "latency_cycles": {"regex": "cycles: ([0-9.e+]+)"},
    },
    "infeasible": {"exit_codes": [3]},
}
EXPERIMENT: dict[str, Any] = {
    "kind": "benchmark",
    "name": "pool",
    "model": "command",
    "measurement": {"simulator": "simulator.yaml"},
    "accelerator": "eyeriss",
    "workloads": ["gemm:M=64,N=64,K=64"],
    "searchers": {"random": {}, "genetic": {}},
    "seeds": 2,
    "iterations": 24,
    "host": "pool",
    "workers": 2,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A simulator, which notes that it was called."""
    script = tmp_path / "simulator.sh"
    script.write_text(SIMULATOR.format(folder=tmp_path))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "simulator.yaml").write_text(json.dumps({"run": [str(script)], **SETTINGS}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


def trial(folder: Path, states: str, **change: Any) -> list[Run]:
    """The runs of a trial of two searches, by the function that Tune runs."""
    plan = prepare(Benchmark.model_validate({**EXPERIMENT, **change}), "test")
    (name,) = plan.workloads
    task = {"searcher": "genetic", "workload": name, "seeds": [0, 1], "file": "0.npz"}
    place = folder / states / "searches"
    place.mkdir(parents=True, exist_ok=True)
    run_trial({"task": task}, plan, place, 1000.0, make=pooled_searches)
    runs = finished_runs(place / "0.npz", task)
    assert runs is not None
    return runs


def same(one: Run, other: Run) -> bool:
    """Whether two runs are the same bit for bit."""
    arrays = ("evaluation", "time", "loss", "counted")
    return (one.best_loss, one.best_code, one.seconds) == (
        other.best_loss,
        other.best_code,
        other.seconds,
    ) and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)


@pytest.mark.usefixtures("ray_runtime")
def test_curves_come_again_from_the_logs_alone(folder: Path) -> None:
    runs = trial(folder, "run")
    assert [run.iterations for run in runs] == [24, 24]
    assert all(0 < run.best_loss < float("inf") for run in runs)
    asked = calls(folder)
    assert 24 <= asked <= 2 * 24
    logs = [folder / "run" / "events" / f"0-{seed}.jsonl" for seed in (0, 1)]
    for seed, log in enumerate(logs):
        head, events, _ = read_events(log)
        assert (head["searcher"], head["seed"], head["workers"]) == ("genetic", seed, 2)
        assert sum(len(event.told) for event in events) == 24
    shutil.copytree(folder / "run" / "events", folder / "again" / "events")
    again = trial(folder, "again")
    assert calls(folder) == asked
    assert all(map(same, runs, again))
    (folder / "again" / "searches" / "0.npz").unlink()
    with pytest.raises(DataError, match="holds another search: "):
        trial(folder, "again", iterations=20)
    # One that was cut off in the middle goes on.
    lines = logs[1].read_text().splitlines(keepends=True)
    shutil.copytree(folder / "run" / "events", folder / "cut" / "events")
    cut = folder / "cut" / "events" / logs[1].name
    cut.write_text("".join(lines[:20]) + lines[20][:9])
    first, second = trial(folder, "cut")
    assert same(first, runs[0])
    assert second.iterations == 24
    assert asked < calls(folder) <= asked + 24
    _, events, _ = read_events(cut)
    assert sum(len(event.told) for event in events) == 24


@pytest.mark.usefixtures("ray_runtime")
def test_a_budget_of_seconds_ends_in_the_middle_of_a_query(folder: Path) -> None:
    """What is out then is not waited for, and does not come back in the next search."""
    (folder / "own.py").write_text(SLEEPS)
    own = {"model": "python", "measurement": {"call": "own.py:cost"}}
    runs = trial(folder, "run", **own, iterations=None, seconds=0.7)
    assert all(run.seconds == 0.7 for run in runs)
    assert all(0 < run.iterations <= 14 for run in runs)
    for seed in (0, 1):
        _, events, _ = read_events(folder / "run" / "events" / f"0-{seed}.jsonl")
        *_, last = list(events)
        assert last.seconds >= 0.7
        assert not last.told


SLEEPS = """
import time

def cost(mapping):
    time.sleep(0.1)
    return {"energy_pj": 1.0 + mapping.dims["M"], "latency_cycles": 2.0}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("ray_runtime")
def test_a_whole_benchmark(folder: Path) -> None:
    result = ms.benchmark(EXPERIMENT, folder / "run", store=None)
    assert len(result.frame) == 4
    assert (result.frame["iterations"] == 24).all()
    assert not (folder / "run" / "searches").exists()
    assert len(list((folder / "run" / "events").iterdir())) == 4
    asked = calls(folder)
    assert 24 <= asked <= 4 * 24
    # A folder that has its logs alone comes to the same curves.
    again = folder / "again"
    shutil.copytree(folder / "run" / "events", again / "events")
    shutil.copy(folder / "run" / "experiment.json", again / "experiment.json")
    ms.benchmark(EXPERIMENT, again, store=None)
    assert calls(folder) == asked
    curves = [(one / "curves.parquet").read_bytes() for one in (folder / "run", again)]
    assert curves[0] == curves[1]
    assert "2 evaluators, out of order" in write_report(again).read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workers": None}, "host pool needs to know how many evaluators"),
        ({"host": "trials"}, "workers, query_seconds: for host pool only; got trials"),
        ({"query_latency": 0.1}, "query_latency: not for host pool"),
        ({"warm_start": True}, "warm_start: for model loopnest and host trials only"),
        ({"workers": 0}, "workers"),
    ],
)
def test_misuse_is_one_line(change: dict[str, Any], words: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=words) as found:
        ms.benchmark({**EXPERIMENT, **change}, folder / "run")
    assert len(str(found.value).splitlines()) == 1
