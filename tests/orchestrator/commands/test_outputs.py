"""Files that commands write beside their answer: looked at before any work, written after it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from commands import call

import mapspace as ms
from mapspace import storage
from mapspace.errors import MapspaceError

SMALL = "gemm:M=4,N=4,K=4"
# What each writes, and what its answer has.
COMMANDS: tuple[tuple[list[str], str, str], ...] = (
    (["search", SMALL, "--output", "x.jsonl"], "x.jsonl", "proven optimal"),
    (["search", SMALL, "--html", "x.html"], "x.html", "proven optimal"),
    (["search", "--network", "net.yaml", "--output", "x.jsonl"], "x.jsonl", "net"),
    (["search", "--network", "net.yaml", "--jointly", "--output", "x.jsonl"], "x.jsonl", "net"),
    (["pareto", SMALL, "--output", "x.jsonl"], "x.jsonl", "front"),
    (["pareto", SMALL, "--plot", "x.png"], "x.png", "front"),
    (["bypass", SMALL, "--output", "x.jsonl"], "x.jsonl", "bypass"),
    (["explain", "own.jsonl", "--html", "x.html"], "x.html", "energy"),
    (["diff", "own.jsonl", "own.jsonl", "--html", "x.html"], "x.html", "energy"),
    (["describe", "mm256", "--plot", "x.png"], "x.png", "DRAM"),
    (["space", SMALL, "--samples", "100", "--plot", "x.png"], "x.png", "mappings"),
    (
        ["tile", SMALL, "--model", "tiling", "--iterations", "50", "--output", "x.jsonl"],
        "x.jsonl",
        "cycles",
    ),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.yaml").write_text(f'layers: ["{SMALL}"]')
    ms.search(SMALL).save("own.jsonl")
    return tmp_path


@pytest.mark.parametrize(("command", "name", "said"), COMMANDS, ids=lambda value: str(value)[:60])
def test_an_answer_is_printed_even_if_its_file_cannot_be_written(
    command: list[str],
    name: str,
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As on a disk that is full when the work is done."""
    for method in ("write_text", "write_bytes"):
        real = getattr(Path, method)

        def write(path: Path, *content: Any, real: Any = real, **how: Any) -> Any:
            if name in path.name:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(path, *content, **how)

        monkeypatch.setattr(Path, method, write)
    assert call(*command, *(["--no-store"] if command[0] in ("search", "pareto") else [])) == 1
    printed = capsys.readouterr()
    assert said in printed.out
    assert f"Error: {name}: No space left on device." in printed.err


@pytest.mark.parametrize(("command", "name", "said"), COMMANDS, ids=lambda value: str(value)[:60])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    command: list[str],
    name: str,
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = f"/proc/{name}"
    assert call(*(there if part == name else part for part in command)) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.startswith(f"Error: {there}: expected a place that can be written")
    elsewhere = [f"nowhere/{name}" if part == name else part for part in command]
    assert call(*elsewhere) == 2
    assert "the folder nowhere does not exist" in capsys.readouterr().err
    dashed = ["-" if part == name else part for part in command]
    assert call(*dashed) == 2
    assert "got '-'" in capsys.readouterr().err
    assert not (folder / "-").exists()


def test_a_result_that_cannot_be_saved_is_an_error_of_ours(folder: Path) -> None:
    result = ms.search(SMALL)
    with pytest.raises(MapspaceError, match=r"nowhere/x.jsonl: cannot be written: No such file"):
        result.save("nowhere/x.jsonl")
    with pytest.raises(OSError, match=r"nowhere/x: cannot be written"):
        storage.write_atomically(folder / "nowhere/x", b"")
    result.save("x.jsonl")
    assert json.loads(Path("x.jsonl").read_text()) == result.record
