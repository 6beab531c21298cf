"""Evaluators that are Ray actors: killed, hanging, failing; and `search --simulator --workers`."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call

from costmodel import Costs, LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ConfigError
from orchestrator.pool.event_log import EventLog
from orchestrator.pool.scheduler import PoolSearch, run
from searchers import Evaluator, make
from searchers.queries import Query

SPACE = MapSpace(workload("gemm:M=32,N=32,K=32"), accelerator("mm256"))

OWN = """
import os, pathlib, signal, time
HERE = pathlib.Path(__file__).parent

def cost(mapping):
    inner = mapping.factors["L1"]["temporal"]
    words = inner["M"] * inner["K"] + inner["K"] * inner["N"] + inner["M"] * inner["N"]
    with open(HERE / "calls", "a") as file:
        file.write("x")
    return {"energy_pj": float(words), "latency_cycles": 4096.0 / inner["K"]}

def infeasible(mapping):
    return None

def nan(mapping):
    return float("nan"), 1.0

def sometimes(mapping):
    found = cost(mapping)
    if found["energy_pj"] > 200:
        raise ValueError("too large")
    return found

def dies(mapping):
    # Twice in all, whoever runs it.
    for number in range(2):
        try:
            os.close(os.open(HERE / f"death {number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
    return cost(mapping)

def hangs(mapping):
    try:
        os.close(os.open(HERE / "hung", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return cost(mapping)
    time.sleep(600)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_runtime: None) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def searched(
    capsys: pytest.CaptureFixture[str], name: str, *arguments: Any, code: int = 0
) -> dict[str, Any]:
    budget = () if "--iterations" in arguments else ("--iterations", "12")
    asked = ("search", "gemm:M=32,N=32,K=32", "--simulator", f"own.py:{name}", "--workers", "2")
    assert call(*asked, "--searcher", "genetic", *budget, *arguments, "--json") == code
    said = capsys.readouterr()
    if code:
        assert said.err.count("\n") == 1, said.err
        return {"error": said.err}
    found: dict[str, Any] = json.loads(said.out)
    return found


@pytest.mark.slow
def test_killed_evaluators_cost_their_own_queries(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = searched(capsys, "dies")
    assert (own / "death 0").exists()
    assert (own / "death 1").exists()
    assert found["iterations"] == 12
    assert found["failures"] == 0
    assert len((own / "calls").read_text()) <= 12  # nothing that was answered is asked again


@pytest.mark.slow
def test_a_query_that_hangs_is_given_up(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = searched(capsys, "hangs", "--query-seconds", "3")
    assert found["failures"] == 1
    assert found["last_failure"] == "no answer within 3 s."
    assert found["iterations"] == 12


@pytest.mark.slow
def test_failures_are_data_and_hopeless_ones_one_line(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = searched(capsys, "sometimes", "--iterations", "40")
    assert 0 < found["failures"] < 40
    assert "ValueError: too large" in found["last_failure"]
    assert "finite number" in searched(capsys, "nan", "--iterations", "40", code=2)["error"]
    assert "No mapping ran" in searched(capsys, "infeasible", code=1)["error"]


@pytest.mark.slow
def test_the_same_command_goes_on_from_its_events(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = searched(capsys, "cost", "--events", "events.jsonl")
    asked = len((own / "calls").read_text())
    again = searched(capsys, "cost", "--events", "events.jsonl")
    assert again == first
    assert len((own / "calls").read_text()) == asked
    lines = (own / "events.jsonl").read_text().splitlines(keepends=True)
    (own / "events.jsonl").write_text("".join(lines[:12]))
    assert searched(capsys, "cost", "--events", "events.jsonl")["iterations"] == 12
    error = searched(capsys, "cost", "--events", "events.jsonl", "--seed", "1", code=2)["error"]
    assert "another search: seed differ" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--simulator", "nothing.py:cost"], "no file nothing.py"),
        (["--simulator", "own.py:nothing"], "has no nothing"),
        (["--simulator", "no_such_module:cost"], "cannot be imported"),
        (["--simulator", "nothing.yaml"], "nothing.yaml"),
        (["--simulator", "own.py:cost", "--workers", "0"], "at least 1"),
        (["--simulator", "gpus.yaml"], "each needs 4 GPU, and Ray has 0"),
        (["--simulator", "own.py:cost", "--query-seconds", "0"], "more than 0"),
        (["--simulator", "own.py:cost", "--islands", "2"], "--islands is for the model"),
        (["--simulator", "own.py:cost", "--pad"], "--pad is for the model"),
        (["--simulator", "own.py:cost", "--top", "2"], "--top is for the model"),
        (["--simulator", "own.py:cost", "--gap", "1%"], "--gap is for the model"),
        (["--simulator", "own.py:cost", "--html", "x.html"], "--html is for the model"),
    ],
)
def test_misuse_is_one_line(
    arguments: list[str], words: str, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own / "gpus.yaml").write_text("{call: 'own.py:cost', gpus: 4}")
    assert call("search", "gemm:M=32,N=32,K=32", *arguments) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_an_actor_that_is_killed_from_outside(ray_runtime: None) -> None:
    """The process of an evaluator is killed while it works: the search ends as it would have."""
    import ray

    from orchestrator.pool.actors import Evaluators

    class Slow(LoopNestModel):
        def evaluate(self, space: Any, codes: Any, *, detail: bool = False) -> Any:
            Path(f"/tmp/pool-{mark}-{os.getpid()}").touch()
            time.sleep(0.2)
            return super().evaluate(space, codes, detail=detail)

    mark = os.getpid()
    pool = Evaluators(lambda: (Slow(), SPACE), 2)
    search = PoolSearch(
        make("genetic", SPACE, seed=0, population=8),
        lambda model, clock: Evaluator(model, SPACE, iterations=30, clock=clock),
        EventLog(None),
    )
    killed: list[int] = []
    tell = search.tell

    def tell_and_kill(outcomes: Any, seconds: float) -> None:
        tell(outcomes, seconds)
        if search.evaluator.iterations_used == 10 and not killed:
            (file, *_) = Path("/tmp").glob(f"pool-{mark}-*")
            killed.append(int(file.name.split("-")[-1]))
            os.kill(killed[0], signal.SIGKILL)

    search.tell = tell_and_kill  # type: ignore[method-assign]
    run(search, pool)
    pool.close()
    for file in Path("/tmp").glob(f"pool-{mark}-*"):
        file.unlink()
    assert killed
    assert pool.deaths <= 1
    assert search.result().iterations == 30
    assert search.failures == 0
    assert np.isfinite(search.result().best_loss)
    assert ray.is_initialized()


def test_one_that_is_started_anew_late_in_a_search_is_waited_for(
    ray_runtime: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long ago it came first: the only evaluator hangs at one query and dies at another."""
    from orchestrator.pool import actors

    class Fails:
        def evaluate(self, space: Any, codes: Any, *, detail: bool = False) -> Costs:
            one = np.ones(1)
            if (codes == hung).all():
                time.sleep(600)
            if (codes == deadly).all() and not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return Costs(one, one, np.zeros(1, np.int32), np.zeros(1, np.int64))

    hung, deadly = codes = SPACE.sample(np.random.default_rng(0), 2, feasible=True)
    pool = actors.Evaluators(lambda: (Fails(), SPACE), 1, query_seconds=5.0)
    pool.gather()
    real, late = time.monotonic, actors.START_SECONDS + 1
    monkeypatch.setattr(actors.time, "monotonic", lambda: real() + late)
    answers = []
    for ticket, code in enumerate(codes):
        pool.submit(Query(ticket, code))
        found: Any = ()
        while not found:
            found = pool.wait()
        answers.append(found[0].energy_pj)
    pool.close()
    assert answers == [np.inf, 1.0]
    assert pool.deaths == 1


def test_no_evaluators_is_refused(ray_runtime: None) -> None:
    from orchestrator.pool.actors import Evaluators

    with pytest.raises(ConfigError, match="at least 1"):
        Evaluators(lambda: (LoopNestModel(), SPACE), 0)
    with pytest.raises(ConfigError, match="each needs 99 CPU"):
        Evaluators(lambda: (LoopNestModel(), SPACE), 1, cpus=99)
