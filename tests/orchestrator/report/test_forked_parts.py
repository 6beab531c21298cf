"""Parts of a process's work in forks of it: each once, and its error is raised here."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from orchestrator.report import side_by_side as module
from orchestrator.report.side_by_side import side_by_side


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processors, and no other thread, whatever ran in this process before."""
    monkeypatch.setattr(module, "_processors", lambda: 2)
    monkeypatch.setattr(threading, "active_count", lambda: 1)


def note(path: Path) -> None:
    """Adds a line with the process that writes it."""
    with path.open("a") as file:
        file.write(f"{os.getpid()}\n")


def parts(folder: Path) -> list[Callable[[], None]]:
    return [partial(note, folder / str(place)) for place in range(5)]


def writers(folder: Path) -> list[list[int]]:
    return [[int(line) for line in (folder / str(n)).read_text().split()] for n in range(5)]


def test_every_part_is_made_once_by_another_process(tmp_path: Path, two: None) -> None:
    side_by_side(parts(tmp_path))
    found = writers(tmp_path)
    assert [len(own) for own in found] == [1] * 5
    assert os.getpid() not in {own for (own,) in found}


def test_one_processor_and_another_thread_make_them_here(
    tmp_path: Path, two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    side_by_side(parts(tmp_path))
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(module, "_processors", lambda: 1)
    side_by_side(parts(tmp_path))
    assert writers(tmp_path) == [[os.getpid()] * 2] * 5


def test_an_error_is_raised_here(tmp_path: Path, two: None) -> None:
    def fail() -> None:
        raise ValueError("no colour")

    with pytest.raises(ValueError, match="no colour"):
        side_by_side([*parts(tmp_path), fail])


def test_what_a_killed_process_left_is_made_here(tmp_path: Path, two: None) -> None:
    here = os.getpid()

    def die() -> None:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)

    side_by_side([*parts(tmp_path), die])
    assert all(here in own for own in writers(tmp_path))
