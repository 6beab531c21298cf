"""The first search of an installation: two processes share what there is to compile.

One half is the proof's largest function. Another process takes the rest of the proof and then the
structured searcher. Both write to the disk cache of `costmodel.compiled`, where the first finds
what the other made.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from costmodel.accelerators import accelerator
from costmodel.compiled import cache_folder
from costmodel.exact.loading import compile_search, compile_tables, load_compiled
from costmodel.map_space.map_space import MapSpace
from costmodel.workloads import gemm
from searchers.compiled.structured_walk import walk

_COMMAND = "from searchers.first_use import compile_beside; compile_beside()"
_PROOF_IS_THERE = b"proof"
# Whom nobody waits for any more goes on: what it compiles is there the next time.
_STARTED: list[subprocess.Popen[bytes]] = []


class FirstUse:
    """Loads the proof, compiled here and in another process where it is not on disk.

    If the other process fails, this one compiles the rest when it comes to that.
    """

    def __init__(self, load: Callable[[], None] | None = None) -> None:
        """Returns when the proof is loaded; the structured searcher may take longer.

        Args:
            load: loads another proof than that for three levels.
        """
        self._other = _start() if _worth_it() else None
        if load is not None:
            load()
            return
        if self._other is not None:
            compile_search()
            assert self._other.stdout is not None  # it is a pipe
            self._other.stdout.readline()
        load_compiled()

    @property
    def structured_is_there(self) -> bool:
        """Whether the structured searcher need not be waited for."""
        if self._other is not None and self._other.poll() is not None:
            self.await_structured()
        return self._other is None

    def await_structured(self) -> None:
        """Returns when it need not be waited for any more."""
        if self._other is not None:
            self._other.communicate()
            self._other = None


def _start() -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    other = subprocess.Popen(
        [sys.executable, "-P", "-c", _COMMAND],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    _STARTED.append(other)
    return other


def _worth_it() -> bool:
    """Whether there is something to compile, a place to keep it, and a processor to spare."""
    if numba.config.DISABLE_JIT or cache_folder() is None or (os.cpu_count() or 1) < 2:
        return False
    dispatcher: Any = walk
    return not any(Path(dispatcher.stats.cache_path).glob("structured_walk.walk-*.nbi"))


def compile_beside() -> None:
    """Compiles for the disk cache, and says on standard output when the proof's half is there."""
    from searchers.structured import Structured, StructuredOptions

    compile_tables()
    sys.stdout.buffer.write(_PROOF_IS_THERE + b"\n")
    sys.stdout.buffer.flush()
    space = MapSpace(gemm(M=2, N=2, K=2), accelerator("mm256"))
    Structured(space, StructuredOptions(), seed=0)
