"""What a simulator has answered in a benchmark is not simulated again, and counts all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from paths import ROOT

import mapspace as ms
from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.benchmark.pool_trial import pooled_searches
from orchestrator.benchmark.search_trial import finished_runs, run_trial
from orchestrator.comparison.results import Run
from orchestrator.store.compaction import compact
from orchestrator.store.folder import NEW, ROWS, Store

SIMULATOR = """
import os, signal, time

HERE = FOLDER

def cost(mapping):
    with open(HERE + "/calls", "a") as calls:
        calls.write("x")
    if os.path.exists(HERE + "/deadly") and os.path.getsize(HERE + "/calls") >= 20:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    steps, words = 1, 0
    for level in mapping.levels:
        for loop in level["temporal"]:
            steps *= loop["factor"]
        words += steps * sum(level["tiles"].values())
    if words % 7 == 0:
        return None
    if os.path.exists(HERE + "/failing") and words % 5 == 0:
        raise ValueError("it fails now")
    return {"energy_pj": 2.0 * words + steps, "latency_cycles": steps}
"""
EXPERIMENT: dict[str, Any] = {
    "kind": "benchmark",
    "name": "own",
    "model": "python",
    "measurement": {"call": "own.py:cost"},
    "accelerator": "eyeriss",
    "workloads": ["gemm:M=64,N=64,K=64"],
    "searchers": {"random": {}, "genetic": {}, "structured": {}},
    "seeds": 2,
    "iterations": 40,
}
POOL: dict[str, Any] = {"host": "pool", "workers": 2}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A simulator, which notes that it was called."""
    (tmp_path / "own.py").write_text(SIMULATOR.replace("FOLDER", repr(str(tmp_path))))
    (tmp_path / "calls").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trial(
    states: str, store: Path | None, searcher: str = "genetic", **change: Any
) -> tuple[list[Run], int]:
    """The runs of a trial of two searches, by the function that Tune runs; the calls of it."""
    plan = prepare(Benchmark.model_validate({**EXPERIMENT, **change}), "test")
    (name,) = plan.workloads
    task = {"searcher": searcher, "workload": name, "seeds": [0, 1], "file": "0.npz"}
    place = Path(states).resolve() / "searches"
    place.mkdir(parents=True, exist_ok=True)
    before = os.path.getsize("calls")
    run_trial(
        {"task": task}, plan, place, 1000.0,
        make=pooled_searches if plan.benchmark.host == "pool" else None,
        store=None if store is None else Store(store),
    )  # fmt: skip
    runs = finished_runs(place / "0.npz", task)
    assert runs is not None
    return runs, os.path.getsize("calls") - before


def same(some: list[Run], others: list[Run]) -> bool:
    """Whether curves and counts are the same bit for bit; seconds are those of the machine."""
    names = ("evaluation", "loss", "counted", "best_code", "iterations", "true_queries")
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for one, other in zip(some, others, strict=True)
        for name in (*names, "best_loss", "surrogate_queries", "failure")
    )


@pytest.mark.parametrize("searcher", ["random", "genetic", "structured"])
def test_an_answer_of_the_store_counts_as_a_query(searcher: str, folder: Path) -> None:
    store = folder / "store"
    alone, calls = trial("alone", None, searcher)
    first, made = trial("first", store, searcher)
    assert calls == made >= 30
    assert [*store.rglob("*.parquet"), *store.rglob(f"{NEW}/*/*.json")]
    for states in ("second", "third"):
        again, none = trial(states, store, searcher)
        assert none == 0, "nothing is simulated again"
        assert same(alone, first)
        assert same(alone, again)
        assert [run.iterations for run in again] == [40, 40]
        compact(Store(store))
    assert [*(store / ROWS).iterdir()]
    # Another method asks some of the same mappings, and is told the same.
    other, some = trial("other", store, "annealing", searchers={"annealing": {}})
    assert 0 < some <= trial("without", None, "annealing", searchers={"annealing": {}})[1]
    assert same(other, trial("besides", None, "annealing", searchers={"annealing": {}})[0])


def test_more_iterations_simulate_what_is_new(folder: Path) -> None:
    store = folder / "store"
    trial("random", store, "random")
    begun = os.path.getsize("calls")
    _, made = trial("first", store)
    longer, new = trial("second", store, iterations=60)
    alone, every = trial("alone", None, iterations=60)
    assert same(longer, alone)
    assert 0 < new <= every - made
    assert begun > 0
    # `search` and `evaluate` read the same answers.
    before = os.path.getsize("calls")
    options = ("--simulator", "own.py:cost", "--searcher", "random", "--iterations", "40")
    what = ("search", EXPERIMENT["workloads"][0], "--accelerator", "eyeriss", *options)
    assert call(*what, "--seed", "0", "--store", store) == 0
    assert os.path.getsize("calls") == before


def test_time_as_a_budget_leaves_the_store_alone(folder: Path) -> None:
    store = folder / "store"
    budget: dict[str, Any] = {"iterations": None, "seconds": 0.2}
    _, made = trial("first", store, "random", **budget)
    assert made > 0
    assert not store.exists() or not [*store.rglob("*.json"), *store.rglob("*.parquet")]
    trial("known", store, "random")
    _, again = trial("second", store, "random", **budget)
    assert again > 0, "what the store knows would be more queries in the same time"


def test_what_failed_is_tried_again_and_does_not_end_the_search(folder: Path) -> None:
    store = folder / "store"
    Path("failing").touch()
    first, made = trial("first", store, "random")
    assert all(run.best_loss < float("inf") for run in first)
    again, failed = trial("second", store, "random")
    assert same(first, again)
    assert 0 < failed < made
    Path("failing").unlink()
    whole, new = trial("third", store, "random")
    assert new == failed
    assert same(whole, trial("alone", None, "random")[0])


def test_a_damaged_answer_is_named_and_simulated_anew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = folder / "store"
    first, made = trial("first", store, "random")
    compact(Store(store))
    (file,) = (store / ROWS).iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    capsys.readouterr()
    again, anew = trial("second", store, "random")
    assert str(file) in capsys.readouterr().err
    assert anew == made
    assert same(first, again)


def test_who_is_killed_has_kept_its_answers(folder: Path) -> None:
    """By the system, between two answers: what was written by then is read."""
    store, code = folder / "store", (
        "import sys; sys.path[:0] = sys.argv[2:];"
        "from pathlib import Path;"
        "import orchestrator.pool.stored_answers as answers; answers.WRITE_SECONDS = 0.0;"
        "from test_stored_answers import trial; trial('killed', Path(sys.argv[1]))"
    )  # fmt: skip
    Path("deadly").touch()
    there = [str(Path(__file__).parent), str(ROOT / "tests" / "support")]
    killed = subprocess.run(
        [sys.executable, "-c", code, str(store), *there], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    Path("deadly").unlink()
    spent = os.path.getsize("calls")
    assert spent == 20
    runs, rest = trial("anew", store)
    alone, every = trial("alone", None)
    assert same(runs, alone)
    # The answer of the last call was never given.
    assert rest == every - (spent - 1)


@pytest.mark.usefixtures("ray_runtime")
def test_a_pool_reads_where_the_order_of_answers_is_nothing(folder: Path) -> None:
    store = folder / "store"
    first, made = trial("first", store, "random", **POOL)
    again, none = trial("second", store, "random", **POOL)
    assert made >= 30
    assert none == 0
    assert same(first, again)
    # Who is told every answer at once would be told known ones sooner than a pool can.
    _, made = trial("third", store, "genetic", **POOL)
    _, anew = trial("fourth", store, "genetic", **POOL)
    assert min(made, anew) > 30
    # But its answers are kept for others.
    rows = Store(store).rows_with(kind="evaluation")
    assert len(rows) > made


@pytest.mark.usefixtures("ray_runtime")
def test_a_whole_benchmark(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = {**EXPERIMENT, "searchers": {"random": {}, "structured": {}}, "iterations": 20}
    store = folder / "store"
    first = ms.benchmark(few, folder / "first", store=store).frame
    spent = os.path.getsize("calls")
    assert call("results", "rm", "--kind", "run", "--store", store) == 0
    # Who answers is nothing to the rest: one worker is started instead of two.
    few["concurrency"] = 1
    again = ms.benchmark(few, folder / "again", store=store).frame
    assert os.path.getsize("calls") == spent
    ms.benchmark(few, folder / "alone", store=False)
    assert os.path.getsize("calls") == 2 * spent
    columns = [name for name in first.columns if "second" not in name]
    assert first[columns].equals(again[columns])
