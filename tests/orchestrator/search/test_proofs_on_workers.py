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
from costmodel.exact_any import pieces
from costmodel.exact_any.pieces import Here
from costmodel.exact_any.shared_prover import SharedProver
from mapspace.errors import MapspaceError
from orchestrator.runs.ray_runtime import Tasks
from orchestrator.search.shared_proof import Given, OnRay, Problem, settle

PROBLEM = ("search", "gemm:M=64,N=48,K=32", "--accelerator", "eyeriss")


def test_any_number_of_workers_writes_the_same_certificate(
    ray_runtime: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for the seconds that it took."""
    texts = []
    for workers in ("1", "2", "4"):
        output = tmp_path / f"{workers}.jsonl"
        found = answer(capsys, *PROBLEM, "--workers", workers, "--output", output)
        assert found["proven"]
        certificate = json.loads(output.with_suffix(".certificate.json").read_text())
        assert certificate.pop("seconds") > 0
        texts.append(json.dumps(certificate))
    assert texts[0] == texts[1] == texts[2]
    alone = answer(capsys, *PROBLEM)
    assert alone["edp"] == pytest.approx(found["edp"], rel=2e-12)
    assert call("verify", output.with_suffix(".certificate.json")) == 0


@pytest.mark.slow
def test_killed_workers_change_nothing(
    ray_runtime: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real ones: the certificate is that of this process alone."""
    space = MapSpace(workload("resnet-conv4"), accelerator("eyeriss"))
    problem = Problem(space.workload, space.accelerator, "edp", None)
    first = space.sample(np.random.default_rng(0), 2000, feasible=True)
    # Pieces of milliseconds, there and here.
    monkeypatch.setattr(pieces, "MOST_WORK", 2000)

    def deadly(given: Given) -> Any:
        """Dies once before a piece, and once in the middle of another."""
        pieces.MOST_WORK = 2000
        flag = tmp_path / str(given.number)
        if given.piece and given.number in (3, 40) and not flag.exists():
            flag.touch()
            if given.number == 40:
                next(given.problem.prover().settle(given.piece, given.limit), None)
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
    assert sorted(flag.name for flag in tmp_path.iterdir()) == ["3", "40"]
    assert texts[0] == texts[1]


def test_workers_that_keep_dying_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = object.__new__(OnRay)
    pool._tasks, pool._first = object.__new__(Tasks), None
    monkeypatch.setattr(Tasks, "ready", lambda self, seconds: [(None, None)])
    with pytest.raises(MapspaceError, match="kept dying on a piece"):
        pool.ready(0.1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*PROBLEM, "--workers", "0"], "--workers: expected at least 1, got 0"),
        ([*PROBLEM, "--workers", "129"], "--workers: expected 1 to 128, got 129"),
        ([*PROBLEM, "--workers", "2", "--top", "3"], "is for the best tiling alone"),
        ([*PROBLEM, "--workers", "2", "--searcher", "genetic"], "not for genetic"),
        (
            ["search", PROBLEM[1], "--workers", "2"],
            "on mm256 with gemm:M=64,N=48,K=32 the proof for three levels",
        ),
        ([*PROBLEM, "--workers", "2", "--factors", "imperfect"], "since factors are imperfect"),
        (
            ["search", "--continue", "some.certificate.json", "--workers", "2"],
            "a shared proof begins anew",
        ),
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
