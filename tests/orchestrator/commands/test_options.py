"""What the command line refuses in one line before any work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import call

LAYER = "gemm:M=8,N=4,K=2"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line of a command that is refused before it says what it works on."""
    assert call(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


def accepted(*arguments: str) -> None:
    assert call(*arguments) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pareto", LAYER, "--plot", "x.xyz"), "x.xyz: expected a plot's name to end in .png"),
        (("space", LAYER, "--plot", "x.xyz"), "x.xyz: expected a plot's name to end in .png"),
        (("pareto", LAYER, "--plot", "no/x.png"), "the folder no does not exist"),
        (("pareto", LAYER, "--output", "no/x.jsonl"), "the folder no does not exist"),
        (("space", LAYER, "--seed", "-3"), "'--seed': -3 is not in the range x>=0"),
        (("search", LAYER, "--seed", "-3"), "'--seed': -3 is not in the range x>=0"),
        (("tile", LAYER, "--seed", "-3"), "'--seed': -3 is not in the range x>=0"),
        (
            ("search", "--network", "alexnet", "--accelerator", "mm256", "--accelerator=mm256-bw"),
            "--accelerator: expected once, got it twice",
        ),
        (
            ("sweep", "sweep-smoke", "--output", "a", "--output", "b"),
            "--output: expected once, got it twice",
        ),
    ],
)
def test_one_line_before_any_work(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, *arguments)


def test_options_for_several_values_are_given_several_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    accepted(
        "search", LAYER, "--accelerator", "mm256-bypass", "--keep", "L1=Z", "--keep", "L2=",
        "--json", "--json",
    )  # fmt: skip
    # A value may look like an option that comes again.
    assert "Unknown searcher '--seed'" in refused_late(
        capsys, "search", LAYER, "--searcher", "--seed", "--seed", "3"
    )


def refused_late(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The last line of a command that is refused."""
    capsys.readouterr()
    assert call(*arguments) == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    "content", ["my notes\n", "[1, 2]", '{"problem": 1}', '"text"', "null", "\x00\xff", "[" * 99999]
)
def test_a_foreign_file_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text(content)
    for command in ("search", "pareto"):
        message = refused(capsys, command, LAYER, "--output", str(notes))
        assert f"{notes}: expected a new file or one of mapping records" in message
    network = refused(capsys, "search", "--network", "alexnet", "--output", str(notes))
    assert "expected a new file" in network
    assert notes.read_text() == content
    assert "expected a file" in refused(capsys, "search", LAYER, "--output", str(tmp_path))


def test_a_foreign_certificate_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "best.certificate.json"
    notes.write_text('{"mine": true}')
    message = refused(capsys, "search", LAYER, "--output", str(tmp_path / "best.jsonl"))
    assert f"{notes}: expected a new file or one of a certificate" in message
    # An empty file holds nothing that could be lost.
    notes.write_text("")
    accepted("search", LAYER, "--output", str(tmp_path / "best.jsonl"))
    assert json.loads(notes.read_text())["proven"] is True


def test_files_of_ours_are_written_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = tmp_path / "best.jsonl"
    for _ in range(2):
        accepted("search", LAYER, "--output", str(best))
    accepted("pareto", LAYER, "--output", str(best))
    accepted("pareto", LAYER, "--output", str(best))
    front = best.read_text().splitlines()
    assert len(front) > 1
    # A device holds nothing that could be lost.
    accepted("pareto", LAYER, "--output", "/dev/null")
    scored = tmp_path / "scored.jsonl"
    for _ in range(2):
        accepted("evaluate", "--model", "loopnest", str(best), "--output", str(scored))
    assert len(scored.read_text().splitlines()) == len(front)


def test_pareto_says_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot, output = tmp_path / "front.png", tmp_path / "front.jsonl"
    accepted("pareto", "gemm-512", "--plot", str(plot), "--output", str(output))
    text = capsys.readouterr().out
    assert f"plot     {plot}\n" in text
    assert f"records  {output}, one per point\n" in text
    assert plot.read_bytes().startswith(b"\x89PNG")
    accepted("pareto", "gemm-512", "--json")
    points = json.loads(capsys.readouterr().out)["front"]
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert records == [point["record"] for point in points]
