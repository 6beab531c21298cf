"""Peers run beside a benchmark's searches; a script stands for TVM's process and answers."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from mapspace.errors import MapspaceError
from orchestrator.benchmark import metaschedule
from orchestrator.benchmark.config import Benchmark, Plan, prepare
from orchestrator.benchmark.external_tuners import entries, run_peers
from orchestrator.benchmark.reference_optima import best_measured

# Four trials a second apart; what it was asked is noted beside it. A file `broken` makes it fail.
SCRIPT = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
with (here / "asked").open("a") as asked:
    print(sys.argv[-1], file=asked)
best = float("inf")
for trial, latency in enumerate([3e-3, 5e-3, 2e-3, 4e-3], 1):
    best = min(best, latency)
    print(json.dumps(dict(trial=trial, seconds=float(trial), latency=latency, best=best,
                          explanation="")))
    if (here / "broken").exists():
        print(json.dumps(dict(error="out of luck")))
"""


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the script that runs instead of Python with TVM."""
    script = tmp_path / "process" / "python"
    script.parent.mkdir()
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setattr(metaschedule, "tvm_version", lambda: "0")
    monkeypatch.setattr(sys, "executable", str(script))
    return script.parent


def plan_of(**changes: Any) -> Plan:
    settings = {
        "kind": "benchmark",
        "name": "small",
        "model": "tvm",
        "objective": "latency",
        "peers": ["metaschedule"],
        "workloads": ["gemm:M=8,N=6,K=4"],
        "searchers": {"random": {}},
        "seeds": [3, 7],
        "iterations": 4,
        **changes,
    }
    return prepare(Benchmark.model_validate(settings), "here")


def asked(process: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (process / "asked").read_text().splitlines()]


def test_a_peer_has_the_benchmarks_budget_and_is_not_run_again(
    process: Path, tmp_path: Path
) -> None:
    plan, lines = plan_of(), list[str]()
    runs = run_peers(plan, tmp_path / "run", lines.append)
    requests = [(it["size"], it["trials"], it["seed"]) for it in asked(process)]
    assert requests == [([8, 4, 6], 4, 3), ([8, 4, 6], 4, 7)]
    assert [run.seed for run in runs] == [3, 7]
    assert len(lines) == 2
    for run in runs:
        assert run.searcher == entries(plan)[0]["label"] == "metaschedule"
        assert (run.best_loss, run.iterations, run.seconds) == (2e-3, 4, 4.0)
        # Where it improved, and the end.
        assert run.evaluation.tolist() == [1, 3, 4]
        assert run.time.tolist() == [1.0, 3.0, 4.0]
        assert run.loss.tolist() == [3e-3, 2e-3, 2e-3]
    again = run_peers(plan, tmp_path / "run", lines.append)
    assert len(asked(process)) == 2
    assert [run.loss.tolist() for run in again] == [run.loss.tolist() for run in runs]


def test_a_peer_ends_with_the_time(process: Path, tmp_path: Path) -> None:
    plan = plan_of(seeds=[3], iterations=None, seconds=2.5)
    [run] = run_peers(plan, tmp_path / "run", print)
    assert run.evaluation.tolist() == [1, 2]
    assert run.loss.tolist() == [3e-3, 3e-3]


def test_a_peer_without_a_trial_in_time_found_nothing(process: Path, tmp_path: Path) -> None:
    plan, lines = plan_of(seeds=[3], iterations=None, seconds=0.5), list[str]()
    [run] = run_peers(plan, tmp_path / "run", lines.append)
    assert (run.best_loss, run.iterations, run.seconds) == (math.inf, 0, 0.0)
    assert run.loss.tolist() == [math.inf]
    assert "found nothing" in lines[0]
    with pytest.raises(MapspaceError, match="none of 1 searches found one within its budget"):
        best_measured([run], run.workload)


def test_a_failed_peer_is_named_and_tried_again(process: Path, tmp_path: Path) -> None:
    (process / "broken").touch()
    with pytest.raises(MapspaceError, match="MetaSchedule failed: out of luck"):
        run_peers(plan_of(), tmp_path / "run", print)
    (process / "broken").unlink()
    assert len(run_peers(plan_of(), tmp_path / "run", print)) == 2
