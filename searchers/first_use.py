"""The first search of an installation: two processes share what there is to compile.

This one compiles the proof, another one the structured searcher. Both write to the disk cache of
`costmodel.compiled`, where each finds what the other made. The other one then goes on, with less
priority, to what deeper machines need: no later command compiles that.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numba

from costmodel.compiled import cache_folder
from costmodel.exact_any.choice import load_compiled
from costmodel.exact_any.orders import search_orders
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import gemm
from searchers.compiled.structured_walk import walk

_STRUCTURED_IS_THERE = b"structured\n"
# How much less it counts: somebody who needs what it compiles would wait for it, too.
BEHIND = 5
# Whom nobody waits for any more goes on: what it compiles is there the next time.
_STARTED: list[subprocess.Popen[bytes]] = []


class FirstUse:
    """Loads the proof, compiled here and in another process where it is not on disk.

    If the other process fails, this one compiles the rest when it comes to that.
    """

    def __init__(self) -> None:
        """Returns when the proof is loaded; the structured searcher may take longer."""
        self._other = _other_process()
        if self._other is None and _worth_it(search_orders):
            with _alone() as alone:
                if alone:
                    _start("compile_rest")
        load_compiled()

    @property
    def structured_is_there(self) -> bool:
        """Whether the structured searcher need not be waited for."""
        return self._other is None or self._other.awaits(seconds=0)

    def await_structured(self) -> None:
        """Returns when it need not be waited for any more."""
        if self._other is not None:
            self._other.awaits()


class _Other:
    """Another process that compiles the structured searcher."""

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._pipe = _start("compile_beside").stdout

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self._pipe is None

    def awaits(self, seconds: float | None = None) -> bool:
        """Whether the process has said that it is there, or has ended, within some seconds."""
        if not self._reading.acquire(blocking=seconds is None):
            return False  # another thread waits
        try:
            while self._pipe is not None:
                if not select.select([self._pipe], [], [], seconds)[0]:
                    return False
                if self._pipe.readline() in (b"", _STRUCTURED_IS_THERE):
                    self._pipe.close()
                    self._pipe = None
        finally:
            self._reading.release()
        return True


_others: list[_Other] = []


def _other_process() -> _Other | None:
    """Who compiles the structured searcher: one for all searches of this process; None: nobody."""
    if not _worth_it(walk):
        return None
    if not _others or _others[-1].is_done:
        _others.append(_Other())
    return _others[-1]


def _start(what: str) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    other = subprocess.Popen(
        [sys.executable, "-P", "-c", f"from searchers.first_use import {what}; {what}()"],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        # Ctrl-C in a terminal ends who waits: what is compiled is there the next time.
        start_new_session=True,
    )
    _STARTED.append(other)
    return other


def _worth_it(*dispatchers: Any) -> bool:
    """Whether one is to be compiled, with a place to keep it, and a processor to spare."""
    if numba.config.DISABLE_JIT or cache_folder() is None or (os.cpu_count() or 1) < 2:
        return False
    places = [(Path(each.stats.cache_path or ""), each.py_func.__name__) for each in dispatchers]
    return not all(any(folder.glob(f"*.{name}-*.nbi")) for folder, name in places)


@contextmanager
def _alone() -> Iterator[bool]:
    """Whether no other process compiles the rest; none does within the block."""
    folder = cache_folder()
    assert folder is not None  # `_worth_it` has looked
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield False
        return
    with (folder / "rest.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def compile_beside() -> None:
    """Compiles for the disk cache, and says on standard output what is there."""
    _compile_structured("mm256")
    with suppress(BrokenPipeError):  # who has asked has ended
        os.write(sys.stdout.fileno(), _STRUCTURED_IS_THERE)
    compile_rest()


def _compile_structured(machine: str) -> None:
    from searchers.structured import Structured, StructuredOptions

    space = MapSpace(gemm(M=2, N=2, K=2), accelerator(machine))
    Structured(space, StructuredOptions(), seed=0)


def compile_rest() -> None:
    """Compiles what proofs of any machine need, as long as nothing else needs the processor."""
    with _alone() as alone:
        if alone:
            os.nice(BEHIND)
            _compile_structured("eyeriss")  # whose moves are others, as of all deeper machines
            load_compiled()
