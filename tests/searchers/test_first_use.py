"""The first search of an installation: who compiles what, and who waits for whom."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from paths import ROOT

from costmodel.exact_any.choice import FUNCTIONS
from searchers import first_use
from searchers.first_use import FirstUse
from searchers.gradient import Gradient

STRUCTURED = first_use._STRUCTURED_IS_THERE


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], FirstUse]]:
    """A first use whose other process runs some code; this one has all there is to load."""
    started = list[subprocess.Popen[bytes]]()

    def make(code: str) -> FirstUse:
        def start(what: str) -> subprocess.Popen[bytes]:
            words = [
                sys.executable,
                "-c",
                f"import os, sys\nsay = lambda line: os.write(1, line)\n{code}",
            ]
            pipe = subprocess.PIPE
            started.append(subprocess.Popen(words, stdin=pipe, stdout=pipe, bufsize=0))
            return started[-1]

        monkeypatch.setattr(first_use, "_start", start)
        monkeypatch.setattr(first_use, "_worth_it", lambda *_: True)
        monkeypatch.setattr(first_use, "_others", [])
        monkeypatch.setattr(first_use, "load_compiled", lambda: None)
        found = FirstUse()
        found.go_on = started[0].stdin  # type: ignore[attr-defined]
        return found

    yield make
    for process in started:
        process.communicate()


def go_on(use: FirstUse) -> None:
    use.go_on.write(b"\n")  # type: ignore[attr-defined]


Beside = Callable[[str], FirstUse]


def test_structured_is_there_when_the_other_says_so(beside: Beside) -> None:
    wait = "sys.stdin.readline()"
    code = f"{wait}; say(b'more\\n'); {wait}; say({STRUCTURED!r}); {wait}; print('ended')"
    use = beside(code)
    assert not use.structured_is_there
    go_on(use)
    assert not use.structured_is_there
    go_on(use)
    use.await_structured()  # though it has not ended
    assert use.structured_is_there


def test_many_searches_share_the_other_process(beside: Beside) -> None:
    """Of one process: each search would start another one while that is still compiling."""
    wait = "sys.stdin.readline()"
    first = beside(f"{wait}; {wait}; say({STRUCTURED!r}); {wait}")
    others = [FirstUse() for _ in range(3)]
    assert {id(use._other) for use in others} == {id(first._other)}
    go_on(first)
    go_on(first)
    for use in (*others, first):
        use.await_structured()
        assert use.structured_is_there


def test_who_fails_is_not_waited_for(beside: Beside) -> None:
    use = beside("sys.exit(1)")
    use.await_structured()
    assert use.structured_is_there


def test_one_process_alone_compiles_the_rest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(first_use, "cache_folder", lambda: tmp_path)
    loaded = list[str]()
    monkeypatch.setattr(first_use, "load_compiled", lambda: loaded.append("proof"))
    monkeypatch.setattr(first_use, "_compile_structured", loaded.append)
    monkeypatch.setattr(os, "nice", lambda _: None)
    with first_use._alone() as alone:
        assert alone
        first_use.compile_rest()
    assert loaded == []
    first_use.compile_rest()
    assert loaded == ["eyeriss", "proof"]


def test_an_interruption_in_a_terminal_leaves_the_other_process_alone() -> None:
    other = first_use._start("compile_rest")
    group = os.getpgid(other.pid)
    other.kill()
    other.communicate()
    assert group == other.pid != os.getpgid(0)


COUNTS = """
from numba.core import event
from costmodel.exact_any.choice import load_compiled
class Counts(event.Listener):
    def on_start(self, event):
        global count
        count += 1
    def on_end(self, event): pass
count = 0
event.register("numba:compile", Counts())
load_compiled()
print(count)
"""


def with_cache(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(folder), "PYTHONPATH": str(ROOT)}


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_counter_has_about_the_right_total(tmp_path: Path) -> None:
    words = [sys.executable, "-c", COUNTS]
    done = subprocess.run(words, env=with_cache(tmp_path), capture_output=True, text=True)
    assert int(done.stdout) == pytest.approx(FUNCTIONS, rel=0.2), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_gradient_search_has_a_total_that_it_keeps_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "orchestrator", "search", "gemm:M=64,N=64,K=64"]
    command += ["--searcher", "gradient", "--iterations", "300", "--no-store"]
    done = subprocess.run(command, env=with_cache(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"([\d,]+) of about ([\d,]+) functions", done.stderr)
    assert said
    # With what bounds the result, which was compiled behind the search without a word.
    most = Gradient.functions + FUNCTIONS
    assert {total for _, total in said} == {str(most)}
    assert int(said[-1][0]) > 0.8 * Gradient.functions


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_second_machine_compiles_nothing(tmp_path: Path) -> None:
    """What a search on another machine needs is compiled behind the first one."""
    command = [sys.executable, "-m", "orchestrator", "search", "gemm:M=8,N=4,K=2", "--no-store"]
    first = subprocess.run(command, env=with_cache(tmp_path), capture_output=True, text=True)
    assert "compiling" in first.stderr
    until = time.monotonic() + 1000
    while not list(tmp_path.rglob("orders.search_orders-*.nbi")):
        assert time.monotonic() < until
        time.sleep(0.5)
    time.sleep(5)  # that is written last, and then its process ends
    words = [*command, "--accelerator", "eyeriss"]
    second = subprocess.run(words, env=with_cache(tmp_path), capture_output=True, text=True)
    assert second.returncode == 0
    assert "compiling" not in second.stderr
