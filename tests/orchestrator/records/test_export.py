"""`mapspace export`: records, workloads and Timeloop's files in the words of other tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import answer, call, printed
from paths import GOLDEN

import mapspace as ms

SETS = GOLDEN / "timeloop-imports"
SMALL = "gemm:M=8,N=6,K=4"
Capture = pytest.CaptureFixture[str]


def inputs(name: str) -> list[str]:
    return [str(path) for path in sorted((SETS / name / "input").iterdir())]


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("best") / "best.jsonl"
    ms.search(SMALL, top=2).save(file)
    return file


def test_a_record_costs_the_same_as_timeloops_file(best: Path, capsys: Capture) -> None:
    file = best.with_name("all.yaml")
    assert printed(capsys, "export", best, "--output", file) == ""
    result = answer(capsys, "evaluate", "--timeloop", file)
    (scored, _) = ms.evaluate(best)
    assert result["energy_pj"] == pytest.approx(scored["result"]["energy_pj"], rel=1e-12)
    assert result["cycles"] == scored["result"]["cycles"]
    assert file.read_text() == ms.to_timeloop(json.loads(best.read_text().splitlines()[0])).text


def test_every_form_of_a_record(best: Path, capsys: Capture) -> None:
    assert printed(capsys, "export", best, "--as", "map").startswith("\nDRAM [ A:32 (32) B:24 (24)")
    assert "Z[m][n] += A[m][k] * B[k][n]\n" in printed(capsys, "export", best, "--as", "pseudo")
    assert "Z[m][n] += A[m][k] * B[k][n];" in printed(capsys, "export", best, "--as", "c")
    first, second = (printed(capsys, "export", best, "--record", n, "--as", "map") for n in (1, 2))
    assert first != second


def test_a_machine_is_searched_alike_where_its_rules_are_constraints(
    tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "machine.yaml"
    machine = ("--accelerator", "tpu16x16")
    printed(capsys, "export", SMALL, *machine, "--output", file)
    ours = answer(capsys, "search", SMALL, *machine)
    theirs = answer(capsys, "search", "--timeloop", file)
    assert ours["proven"]
    assert theirs["proven"]
    assert theirs["edp"] == pytest.approx(ours["edp"], rel=1e-12)


def test_timeloops_own_files_are_joined(tmp_path: Path, capsys: Capture) -> None:
    files = inputs("ispass04-cp")
    file = tmp_path / "joined.yaml"
    printed(capsys, "export", "--timeloop", *files, "--output", file)
    together = answer(capsys, "evaluate", "--timeloop", file)
    assert together == answer(capsys, "evaluate", "--timeloop", *files)
    text = printed(capsys, "export", "--timeloop", *files, "--as", "map")
    assert text == (SETS / "ispass04-cp" / "model.map.txt").read_text()


def test_what_is_left_out_is_said(capsys: Capture) -> None:
    assert call("export", SMALL, "--accelerator", "mindmappings") == 2
    assert "mindmappings.levels: banks: Timeloop's files have no place" in capsys.readouterr().err
    assert call("export", SMALL, "--accelerator", "mindmappings", "--lenient") == 0
    assert capsys.readouterr().err == "left out: mindmappings.levels: banks\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SMALL, "--as", "c"), "--as c is of a mapping: give a record"),
        ((SMALL, "--record", "1"), "--record is for a file of records"),
        ((SMALL, "more"), "unexpected extra argument"),
        (("none.jsonl",), "none.jsonl: there is no such file"),
        (("gemm-51",), "Unknown workload 'gemm-51'"),
        (("BEST", "--accelerator", "mm256"), "--accelerator is for a workload"),
        (("BEST", "--record", "3"), "expected at least 3 records"),
        (("--timeloop", "a.yaml", "--record", "1"), "not for --timeloop"),
        ((SMALL, "--output", "nowhere/file.yaml"), "the folder nowhere does not exist"),
    ],
)
def test_misuse_is_one_line(
    arguments: tuple[str, ...], message: str, best: Path, capsys: Capture
) -> None:
    capsys.readouterr()
    assert call("export", *(best if word == "BEST" else word for word in arguments)) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
