"""Parts of a process's work in forks of it: each once, and its error is raised here."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mapspace import forks as module
from mapspace.forks import RestingThread, fork_map, side_by_side


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processors, and no other thread, whatever ran in this process before."""
    monkeypatch.setattr(module, "processors", lambda: 2)
    before = {*threading.enumerate()} - {threading.current_thread()}
    real = threading.enumerate
    monkeypatch.setattr(threading, "enumerate", lambda: [t for t in real() if t not in before])


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
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    side_by_side(parts(tmp_path))
    over.set()
    other.join()
    monkeypatch.setattr(module, "processors", lambda: 1)
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

    side_by_side([die, *parts(tmp_path)])
    assert all(here in own for own in writers(tmp_path))


def test_answers_come_in_order_and_something_else_is_done_here_meanwhile(two: None) -> None:
    done = list[int]()
    found = list(fork_map(lambda n: (n, os.getpid()), range(5), lambda: done.append(os.getpid())))
    assert [n for n, _ in found] == [*range(5)]
    assert done == [os.getpid()]
    assert os.getpid() not in {process for _, process in found}


def test_the_rest_of_a_killed_process_is_made_here_and_nothing_twice_in_the_answers(
    two: None,
) -> None:
    here = os.getpid()

    def answer(n: int) -> int:
        if n == 3 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    done = list[int]()
    assert list(fork_map(answer, range(6), lambda: done.append(1))) == [*range(6)]
    assert done == [1]


def test_a_fork_waits_until_a_resting_thread_rests(
    two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    works, over = threading.Event(), threading.Event()
    lock = threading.Lock()

    def work(at_work: threading.Lock) -> None:
        with at_work, lock:  # a fork now would have it locked for ever
            works.set()
            time.sleep(0.2)
        over.wait()

    def take(n: int) -> int:
        with lock:
            return os.getpid()

    thread = RestingThread(work, "test")
    thread.start()
    works.wait()
    monkeypatch.setattr(module, "WAIT_SECONDS", 60)
    assert os.getpid() not in set(fork_map(take, range(2)))
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
    with thread.at_work:  # it works for too long
        assert {*fork_map(take, range(2))} == {os.getpid()}
    over.set()
    thread.join()


def test_nobody_waits_for_parts_after_ctrl_c(two: None) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        side_by_side([partial(time.sleep, 100)] * 2, interrupt)
    assert time.monotonic() - began < 50
