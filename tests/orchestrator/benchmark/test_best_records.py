"""The records that benchmarks and `tile` write: `evaluate` gives each the cost that was said."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import call

from mapspace.strict_yaml import validate
from orchestrator.benchmark.best_records import save_best
from orchestrator.benchmark.config import Benchmark, Plan, make_searcher, prepare
from orchestrator.benchmark.search_trial import make_evaluator, pack_result, unpack_run
from orchestrator.comparison.results import Run
from orchestrator.records.evaluate_records import scored


def plan_of(**changes: Any) -> Plan:
    content = {
        "kind": "benchmark",
        "name": "small",
        "workloads": ["gemm:M=4,N=6,K=8"],
        "searchers": {"random": {}, "genetic": {}},
        "seeds": [3, 4],
        "iterations": 60,
        **changes,
    }
    return prepare(validate(Benchmark, content, "small"), "small")


def runs_of(plan: Plan) -> list[Run]:
    """The searches of a benchmark, one after another in this process."""
    runs, model = [], plan.model()
    for entry in plan.benchmark.searchers:
        for name in plan.workloads:
            space = plan.space(name)
            for seed in plan.benchmark.seeds_of(entry):
                evaluator = make_evaluator(plan, model, space, entry)
                searcher = make_searcher(plan, entry, space, seed=seed, evaluator=evaluator)
                searcher.run(evaluator)
                packed = pack_result(evaluator.result(), searcher.failure)
                runs.append(unpack_run(packed, entry.label, name, seed))
    return runs


def value_of(result: dict[str, Any], objective: str) -> float:
    """What a record costs, in whatever keys its model has."""
    energy = result.get("energy_pj", result.get("energy_total"))
    cycles = result.get("cycles", result.get("runtime"))
    assert energy is not None
    assert cycles is not None
    return float({"edp": energy * cycles, "energy": energy, "latency": cycles}[objective])


LAYER = "cnn:N=1,K=4,C=4,P=6,Q=4,R=1,S=1"


@pytest.mark.parametrize(
    "changes",
    [
        {"workloads": ["gemm:M=4,N=6,K=8", LAYER], "seeds": [3, 4, 5]},
        {"accelerator": "eyeriss", "workloads": [LAYER], "objective": "energy"},
        {"model": "maestro", "workloads": [LAYER], "objective": "edp"},
        {"model": "tiling", "workloads": ["gemm:M=24,N=20,K=7"], "objective": "latency"},
    ],
    ids=["loopnest", "eyeriss", "maestro", "tiling"],
)
def test_what_evaluate_says_of_the_best_is_what_the_benchmark_said(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    plan = plan_of(**changes)
    runs = runs_of(plan)
    save_best(plan, runs, tmp_path)
    (records,) = scored(plan.benchmark.model, tmp_path / "best.jsonl")
    pairs = [(record["searcher"], record["layer"]) for record in records]
    labels = [entry.label for entry in plan.benchmark.searchers]
    assert pairs == [(label, name) for label in labels for name in plan.workloads]
    for record, pair in zip(records, pairs, strict=True):
        best = min((run for run in runs if (run.searcher, run.workload) == pair), key=loss_of)
        assert record["value"] == best.best_loss
        assert record["seed"] == best.seed
        found = value_of(record["result"], plan.benchmark.objective)
        assert found == pytest.approx(best.best_loss, rel=1e-9)


def loss_of(run: Run) -> float:
    return run.best_loss


def test_a_search_without_a_mapping_has_no_record(tmp_path: Path) -> None:
    plan = plan_of(searchers={"random": {}}, seeds=[3])
    (run,) = runs_of(plan)
    empty = replace(run, best_code=(), best_loss=math.inf)
    save_best(plan, [empty], tmp_path)
    assert (tmp_path / "best.jsonl").read_text() == ""


def test_the_best_tiling_is_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, again = tmp_path / "tiling.jsonl", tmp_path / "scored.jsonl"
    arguments = ("tile", "gemm:M=24,N=20,K=7", "--model", "tiling", "--iterations", "50", "--json")
    for _ in range(2):  # the second time it is written over
        assert call(*arguments, "--output", str(file)) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert call("evaluate", "--model", "tiling", str(file), "--output", str(again)) == 0
    record = json.loads(again.read_text())
    assert record["result"]["cycles"] == said["latency"]
    assert record["tiling"] == said["factors"]
    file.write_text("something else\n")
    assert call(*arguments, "--output", str(file)) == 2
    assert "expected a new file or one of records of tilings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tiling": {"M": [5], "K": [7], "N": [20]}}, "expected positive factors of M that mul"),
        ({"tiling": {"M": [24], "K": [7]}}, "tiling: missing N"),
        ({"workload": "gemm:M=24"}, "gemm"),
        ({"accelerator": "eyeriss"}, "only the registers"),
    ],
)
def test_a_wrong_record_of_a_tiling_is_one_line(
    changes: dict[str, Any], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = {"workload": "gemm:M=24,N=20,K=7", "tiling": {"M": [24], "K": [7], "N": [20]}}
    file = tmp_path / "tiling.jsonl"
    file.write_text(f"{json.dumps(right)}\n{json.dumps({**right, **changes})}\n")
    assert call("evaluate", "--model", "tiling", str(file)) == 2
    error = capsys.readouterr().err.strip()
    assert f"{file.name}:2: " in error
    assert why in error
    assert "\n" not in error
