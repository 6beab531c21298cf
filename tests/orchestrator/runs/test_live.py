"""Live progress: what is said while a search is prepared, and what its last line is."""

from __future__ import annotations

import io
import time

import numba
import pytest

from costmodel import MapSpace, accelerator, workload
from orchestrator.runs.live import COMPILING, Live
from searchers import make


def test_compiling_is_said_when_something_compiles() -> None:
    stream = io.StringIO()
    live = Live(stream)
    with live.preparing("loading", seconds=60.0):
        for offset in (1, 2):
            numba.njit(lambda number, offset=offset: number + offset)(1)
    assert stream.getvalue() == f"{COMPILING}\n"


def test_the_counter_says_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.runs.live.LOG_WAIT", 0.01)
    stream = io.StringIO()
    with Live(stream).preparing("loading", seconds=60.0, functions=9):
        numba.njit(lambda number: number * 3 + 1)(1)
        until = time.monotonic() + 30
        while "functions" not in stream.getvalue() and time.monotonic() < until:
            time.sleep(0.001)
    assert "1 of about 9 functions" in stream.getvalue()


def test_what_is_compiled_already_is_only_loaded() -> None:
    space = MapSpace(workload("gemm:M=4,N=4,K=4"), accelerator("mm256"))
    make("exact", space, seed=0)
    stream = io.StringIO()
    with Live(stream).preparing("loading", seconds=60.0):
        make("exact", space, seed=0)
    assert stream.getvalue() == ""


def test_what_takes_long_without_compiling_is_named() -> None:
    stream = io.StringIO()
    with Live(stream).preparing("importing it", seconds=0.0):
        until = time.monotonic() + 30
        while not stream.getvalue() and time.monotonic() < until:
            time.sleep(0.001)
    assert stream.getvalue() == "importing it\n"


def test_the_last_line_is_not_said_twice() -> None:
    stream = io.StringIO()
    live = Live(stream)
    live.update(lambda: "first")
    live.update(lambda: "first")
    live.end()
    assert stream.getvalue() == "first\n"
    live.update(lambda: "second")
    live.end()
    assert stream.getvalue() == "first\nsecond\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_that_changes_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    stream = Terminal()
    Live(stream).update(lambda: "x" * 200)
    assert stream.getvalue() == f"\r{'x' * 49}\x1b[K"
    logged = io.StringIO()
    Live(logged).update(lambda: "x" * 200)
    assert logged.getvalue() == f"{'x' * 200}\n"
