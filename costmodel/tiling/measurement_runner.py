"""Measures tilings on this machine: one process that can be killed, one core at a time."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

from costmodel.tiling.measurement import Measurement, Request
from mapspace.errors import ConfigError, MapspaceError
from mapspace.extras import install
from mapspace.private_folder import temporary_folder

Execute = Callable[[Sequence[Request]], Iterable[tuple[int, Measurement]]]
"""Measures requests `[B]` and yields (row, measurement) in the order in which they are done."""

ONE_THREAD = {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
POLL_SECONDS = 0.002


def tvm_version() -> str:
    """Version of the installed TVM.

    Raises:
        ConfigError: there is none.
    """
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        raise ConfigError(
            f"Measuring tilings needs TVM, which is not installed: {install('tvm')}"
        ) from None


def hardware_name(target: str) -> str:
    """The processor, or for `cuda` the first GPU, as the operating system calls it."""
    if target == "cuda":
        for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
            return _field(path, "Model")
        return "unknown GPU"
    return _field(Path("/proc/cpuinfo"), "model name")


def _field(path: Path, name: str) -> str:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "?")


@contextmanager
def without_torch() -> Iterator[None]:
    """For the first import of TVM, which imports PyTorch where it can: seconds and 200 MB.

    Only for processes that have not imported it.
    """
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]


@lru_cache(maxsize=1)
def _lock_folder() -> Path:
    """A folder that nobody else can put links into; once per process, as it may be a new one."""
    folder = temporary_folder("cores")
    if folder is None:
        raise MapspaceError("No lock can be had: the temporary folder cannot be written.")
    return folder


@contextmanager
def free_core() -> Iterator[int]:
    """A core on which no other measurement of this user runs; waits until there is one.

    The lock is the operating system's, so that it holds between processes and ends with them.

    Raises:
        MapspaceError: there is no folder for the locks.
    """
    folder = _lock_folder()
    cores = sorted(os.sched_getaffinity(0))
    while True:
        for core in cores:
            with (folder / str(core)).open("a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield core
                return
        time.sleep(POLL_SECONDS)


class Runner:
    """One worker process, started at the first request and ended by `close`."""

    def __init__(self) -> None:
        self._worker: subprocess.Popen[str] | None = None

    def measure(self, request: Request) -> Measurement:
        """Measures one tiling on a core of its own; what fails is a status.

        Raises:
            ConfigError: TVM cannot be imported, or the target's hardware is not here.
            MapspaceError: the worker itself, which only waits, has died.
        """
        self._begin()
        with free_core() as core:
            started = time.perf_counter()
            answer = self._ask({"core": core, "request": request.to_json()})
            spent = time.perf_counter() - started
        return Measurement.from_json({**answer, "spent": spent})

    def _begin(self) -> None:
        if self._worker is None:
            self._worker = _start()
            self._read(self._worker)

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._worker is not None
        assert self._worker.stdin is not None
        self._worker.stdin.write(json.dumps(question) + "\n")
        self._worker.stdin.flush()
        return self._read(self._worker)

    def _read(self, worker: subprocess.Popen[str]) -> dict[str, Any]:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        if not line:
            self.close()
            raise MapspaceError("The process that measures tilings ended unexpectedly.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            self.close()
            raise ConfigError(answer["error"])
        return answer

    def close(self) -> None:
        """Ends the process, and what it is measuring."""
        if self._worker is None:
            return
        worker, self._worker = self._worker, None
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.communicate()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _start() -> subprocess.Popen[str]:
    root = str(Path(__file__).parent.parent.parent)
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "costmodel.tiling.measurement_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
        # A group of its own: Ctrl-C reaches the searcher alone, and the group can be killed.
        start_new_session=True,
    )


class LocalRunners:
    """Measures batches with several workers, each on a core of its own.

    Args:
        workers: tilings measured at once. One is the most repeatable: cores share the outer cache
            and the memory.
    """

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise ConfigError(f"workers must be at least 1, got {workers}.")
        self._runners = [Runner() for _ in range(workers)]

    def __call__(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        """Measures requests `[B]`; yields (row, measurement) as they are done."""
        free = list(self._runners)

        def task(request: Request) -> Measurement:
            runner = free.pop()
            try:
                return runner.measure(request)
            finally:
                free.append(runner)

        with ThreadPoolExecutor(len(free)) as pool:
            rows = {pool.submit(task, request): row for row, request in enumerate(requests)}
            try:
                for done in as_completed(rows):
                    yield rows[done], done.result()
            except BaseException:
                for future in rows:
                    future.cancel()
                self.close()
                raise

    def close(self) -> None:
        """Ends the workers; the next batch starts new ones."""
        for runner in self._runners:
            runner.close()
