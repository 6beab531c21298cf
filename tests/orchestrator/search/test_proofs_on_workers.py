"""`search --workers`: a proof shared out over Ray, its certificate, and what is refused."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answer, call

from costmodel import MapSpace, accelerator, workload
from costmodel.exact.certificate import certify
from costmodel.exact.pool import Here
from costmodel.exact_any import pieces
from costmodel.exact_any import prover as any_prover
from costmodel.exact_any.shared_prover import SharedProver
from mapspace.errors import MapspaceError
from orchestrator.runs.ray_runtime import Tasks
from orchestrator.search.shared_proof import Given, OnRay, Problem, settle

PROBLEM = ("search", "gemm:M=64,N=48,K=32", "--accelerator", "eyeriss")


@pytest.mark.parametrize(
    ("machine", "workers", "more"),
    [
        ("eyeriss", ("1", "2", "4"), ()),
        ("mm256-bw-bypass", ("1", "2"), ()),
        ("mm256-bw-bypass", ("1", "2"), ("--top", "3")),
        ("eyeriss", ("1", "2"), ("--top", "3")),
    ],
)
def test_any_number_of_workers_writes_the_same_certificate(
    machine: str,
    workers: tuple[str, ...],
    more: tuple[str, ...],
    ray_runtime: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """But for the seconds that it took."""
    texts, problem = [], (*PROBLEM[:2], "--accelerator", machine, *more)
    for number in workers:
        output = tmp_path / f"{number}.jsonl"
        found = answer(capsys, *problem, "--workers", number, "--output", output)
        assert found["proven"]
        certificate = json.loads(output.with_suffix(".certificate.json").read_text())
        assert certificate.pop("seconds") > 0
        texts.append(json.dumps(certificate))
    assert len(set(texts)) == 1
    alone = answer(capsys, *problem)
    assert alone["edp"] == pytest.approx(found["edp"], rel=2e-12)
    values = [[one["edp"] for one in each.get("top") or []] for each in (alone, found)]
    assert values[0] == pytest.approx(values[1], rel=2e-12)
    assert call("verify", output.with_suffix(".certificate.json")) == 0


@pytest.mark.parametrize("machine", ["eyeriss", "mm256-bw-bypass"])
def test_a_shared_proof_that_was_stopped_goes_on(
    machine: str,
    ray_runtime: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shared by any number of workers, or alone: the same optimum, and shared the same file."""
    work = workload("cnn:N=1,K=32,C=16,P=14,Q=14,R=3,S=3")
    space = MapSpace(work, accelerator(machine))
    problem = Problem(work, space.accelerator, "edp", None)
    # Many pieces, so that it is stopped between two of them.
    monkeypatch.setattr(pieces, "MOST_WORK", 2000)
    pool: Any = Here(problem.prover())  # type: ignore[arg-type]
    prover: Any = SharedProver(space, pool)
    first = prover.space.sample(np.random.default_rng(0), 20, feasible=True)
    prover = type(prover)(space, pool, build=False)
    prover.offer(first)
    monkeypatch.setattr(any_prover, "STEP_SECONDS", 0.002)  # or one step is the whole proof
    while prover.progress() is None or not sum(prover.counts.values()):
        prover.step()
    held = tmp_path / "c.certificate.json"
    held.write_text(certify(prover, 1.5).text())
    assert not prover.finished
    texts = []
    for workers in ("1", "2"):
        output = tmp_path / f"{workers}.jsonl"
        found = answer(
            capsys, "search", "--continue", held, "--workers", workers, "--output", output
        )
        assert found["proven"]
        certificate = json.loads(output.with_suffix(".certificate.json").read_text())
        assert certificate.pop("seconds") > 1.5
        texts.append(json.dumps(certificate))
    assert texts[0] == texts[1]
    alone = answer(capsys, "search", "--continue", held)
    assert alone["edp"] == pytest.approx(found["edp"], rel=2e-12)


@pytest.mark.slow
def test_killed_workers_change_nothing(
    ray_runtime: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real ones: the certificate is that of this process alone."""
    space = MapSpace(workload("resnet-conv4"), accelerator("eyeriss"))
    problem = Problem(space.workload, space.accelerator, "edp", None)
    first = space.sample(np.random.default_rng(0), 2000, feasible=True)
    # Pieces of milliseconds, there and here.
    monkeypatch.setattr(pieces, "MOST_WORK", 100)

    def deadly(given: Given) -> Any:
        """Dies once before a piece, and once in the middle of another."""
        pieces.MOST_WORK = 100
        for number, piece, limit in given.pieces:
            # Below zero are those that are foreseen.
            flag = tmp_path / str(abs(number))
            if abs(number) in (3, 22) and not flag.exists():
                flag.touch()
                if abs(number) == 22:
                    next(given.problem.prover().settle(piece, limit), None)  # type: ignore[arg-type]
                os.kill(os.getpid(), signal.SIGKILL)
        return settle(given)

    killed = OnRay(problem, 2)
    killed._tasks = Tasks(deadly, [], cores=2)
    texts = []
    for pool in (Here(problem.prover()), killed):
        prover = SharedProver(space, pool)
        prover.offer(first)
        prover.run()
        assert len(prover.dealt) > 60
        texts.append(certify(prover, 1.0).text())
    assert sorted(flag.name for flag in tmp_path.iterdir()) == ["22", "3"]
    assert texts[0] == texts[1]


def test_workers_that_keep_dying_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = object.__new__(OnRay)
    pool._tasks = object.__new__(Tasks)
    monkeypatch.setattr(Tasks, "free", 0)
    monkeypatch.setattr(Tasks, "ready", lambda self, seconds: [(None, None)])
    with pytest.raises(MapspaceError, match="kept dying on a piece"):
        pool.ready(0.1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*PROBLEM, "--workers", "0"], "--workers: expected at least 1, got 0"),
        ([*PROBLEM, "--workers", "129"], "--workers: expected 1 to 128, got 129"),
        ([*PROBLEM, "--workers", "2", "--searcher", "genetic"], "not for genetic"),
        ([*PROBLEM, "--workers", "2", "--factors", "imperfect"], "since factors are imperfect"),
        (
            ["search", "--network", "alexnet", "--workers", "2"],
            "--workers is for a single WORKLOAD",
        ),
    ],
)
def test_misuse_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
