"""Builds a scheduled tiling with TVM, checks its result and times it, in this very process.

Needs the extra `tvm`. What is built here may crash or run for minutes:
`costmodel.tiling.measurement_process` calls it in a process that can be killed.
"""

from __future__ import annotations

import math
import time
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm

from costmodel.costs import STATUS_OK
from costmodel.tiling.loop_nest import DIMENSIONS, loops
from costmodel.tiling.measurement import (
    STATUS_BUILD_FAILED,
    STATUS_RUN_FAILED,
    STATUS_WRONG_RESULT,
    Measurement,
    Request,
    Settings,
)
from costmodel.tiling.tvm_schedule import schedule

Matrix = npt.NDArray[np.float32]


def target(name: str) -> Any:
    """The `tvm.target.Target` of a name in `TARGETS`; `llvm` uses all instructions of this machine.

    Without the instructions of the very processor LLVM would generate for the oldest one, which is
    several times slower.
    """
    if name == "llvm":
        processor = tvm.target.codegen.llvm_get_system_cpu()
        return tvm.target.Target({"kind": "llvm", "mcpu": processor, "num-cores": 1})
    return tvm.target.Target(name)


def missing(name: str) -> str | None:
    """Why a target cannot be measured here, None if it can."""
    if name == "cuda" and not tvm.cuda(0).exist:
        return "Target cuda: there is no NVIDIA GPU that TVM can use."
    return None


def measure(request: Request) -> Measurement:
    """Builds, checks and times one tiling; an error of TVM becomes a status.

    A crash or an endless run is the caller's to deal with.
    """
    settings = request.settings
    try:
        module = schedule(request.factors, request.splits, settings.target)
        executable = tvm.compile(module, target(settings.target)).jit()
    except Exception as error:
        return Measurement(STATUS_BUILD_FAILED, explanation=line(error))
    try:
        return timed(executable, sizes(request), settings)
    except Exception as error:
        return Measurement(STATUS_RUN_FAILED, explanation=line(error))


def timed(executable: Any, size: tuple[int, int, int], settings: Settings) -> Measurement:
    """Checks and times what was built of a product of this M, K and N, `main(A, B, C)`.

    The first run warms up and is the one whose result is checked.
    """
    on_gpu = settings.target == "cuda"
    device = tvm.cuda(0) if on_gpu else tvm.cpu(0)
    m, k, n = size
    a, b, expected = _operands(m, k, n)
    arguments = [tvm.runtime.tensor(matrix, device) for matrix in (a, b)]
    # Not a number until it is written, so that a result left out is noticed.
    arguments.append(tvm.runtime.tensor(np.full((m, n), np.nan, np.float32), device))
    device.sync()
    main = executable["main"]
    clock = time.perf_counter if on_gpu else time.process_time

    def run(times: int) -> float:
        started = clock()
        for _ in range(times):
            main(*arguments)
        device.sync()
        return clock() - started

    first = run(1)
    if settings.check and not np.array_equal(arguments[2].numpy(), expected):
        return Measurement(STATUS_WRONG_RESULT, explanation="the product differs from NumPy's")
    if first >= settings.repeat_seconds:
        return Measurement(STATUS_OK, (first,))
    times = 1
    while (spent := run(times)) < settings.min_repeat_seconds:
        times = max(2 * times, math.ceil(times * settings.min_repeat_seconds / max(spent, 1e-9)))
    repeats = max(1, min(settings.repeats, int(settings.repeat_seconds / spent)))
    return Measurement(STATUS_OK, tuple(run(times) / times for _ in range(repeats)))


def sizes(request: Request) -> tuple[int, int, int]:
    """M, K and N of a request."""
    trips: list[list[int]] = [[] for _ in DIMENSIONS]
    for loop in loops(request.splits):
        trips[loop.dimension].append(request.factors[loop.column])
    m, k, n = (math.prod(counts) for counts in trips)
    return m, k, n


@lru_cache(maxsize=2)
def _operands(m: int, k: int, n: int) -> tuple[Matrix, Matrix, Matrix]:
    """Two matrices and their product.

    They hold -1, 0 and 1: every partial sum up to K = 2^24 is exact in float32, so that any order
    of summation has to give the very same result.
    """
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return a, b, a @ b


def line(error: Exception) -> str:
    """The last line of an error that says something: TVM's begin with a stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no message'}"[:300]
