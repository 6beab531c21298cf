"""The first search of an installation: two processes share what there is to compile.

The proof's functions and the structured searcher's have little in common and take equally long.
Both processes write to the disk cache of `costmodel.compiled`, where the first finds the other's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np

from costmodel.accelerators import accelerator
from costmodel.compiled import cache_folder
from costmodel.loop_nest.map_space import MapSpace
from costmodel.loop_nest.model import LoopNestModel
from costmodel.workloads import gemm
from searchers.compiled.structured_moves import walk

_COMMAND = "from searchers.first_use import compile_structured; compile_structured()"


@contextmanager
def structured_compiled_beside() -> Iterator[None]:
    """While the block compiles the proof, another process compiles the structured searcher.

    Nothing happens where that is on disk already, or would not be kept there. If the other process
    fails, this one compiles the rest when it comes to that.
    """
    if not _worth_it():
        yield
        return
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _COMMAND],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as other:
        try:
            yield
        except BaseException:
            other.kill()
            raise


def _worth_it() -> bool:
    """Whether there is something to compile, a place to keep it, and a processor to spare."""
    if numba.config.DISABLE_JIT or cache_folder() is None or (os.cpu_count() or 1) < 2:
        return False
    dispatcher: Any = walk
    return not any(Path(dispatcher.stats.cache_path).glob("structured_moves.walk-*.nbi"))


def compile_structured() -> None:
    """Compiles what the structured searcher runs, for the disk cache."""
    from searchers.structured import Structured, StructuredOptions

    space = MapSpace(gemm(M=2, N=2, K=2), accelerator("mm256"))
    LoopNestModel().evaluate(space, space.sample(np.random.default_rng(0), 1))
    Structured(space, StructuredOptions(), seed=0)
