"""Workers of the tests' Ray are forks of one process that has imported the libraries.

Ray starts `setup_worker.py`, which imports Ray to become `default_worker.py`, which imports it
again: 1.1 s of a processor for a worker, before Tune takes another second, and PyTorch two. The
tests start more than a hundred, most of them for an actor that lives for tenths of a second. A fork
does what Ray's worker does, and of this project it imports nothing before it is asked. Where a
worker shall have other settings Ray's own way is taken, as it is by every process that tests start.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ray_worker import address

# What workers import besides this project.
LIBRARIES = (
    "ray.tune",
    "ray.train.torch",
    "torch",
    "pandas",
    "pyarrow.parquet",
    "numba",
    "scipy.special",
    "pydantic",
)
# What Ray sets for a worker that no import reads.
OF_A_WORKER = (
    "PYTHONBREAKPOINT",
    "RAY_CLIENT_MODE",
    "RAY_LD_PRELOAD_ON_WORKERS",
    "RAY_WARN_BLOCKING_GET_INSIDE_ASYNC",
)
# Arrow's allocator starts a thread of its own, which a fork would be without.
ONE_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
MESSAGE_BYTES = 1 << 17


class Forks:
    """Makes the workers of a Ray that this process starts forks."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Comes before Ray starts."""
        from ray._private import ray_constants

        # Ray joins it to the folder of its own scripts.
        ray_constants.SETUP_WORKER_FILENAME = str(Path(__file__).with_name("ray_worker.py"))

    def serve(self) -> None:
        """Comes when Ray has started: libraries read of which node and job a worker is."""
        import ray

        self.end()
        node = ray._private.worker._global_node
        raylet = node.all_processes["raylet"][0].process.pid
        own = {"RAY_RAYLET_PID": str(raylet), "RAY_JOB_ID": ray.get_runtime_context().get_job_id()}
        # It ends with its input, so with this process. Who asks before it has imported all waits.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(address(own))
            listening.listen(64)
            self._server = subprocess.Popen(
                [sys.executable, __file__, str(listening.fileno())],
                stdin=subprocess.PIPE,
                env={**os.environ, **own, **ONE_THREAD},
                pass_fds=[listening.fileno()],
            )

    def end(self) -> None:
        """Comes before Ray ends, or the workers would see it end first."""
        if self._server is not None:
            assert self._server.stdin is not None
            self._server.stdin.close()
            self._server.wait()
            self._server = None


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What libraries may read when they are imported."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("RAY_", "TUNE_", "OMP_", "PYTHON")) and name not in OF_A_WORKER
    }


def _serve() -> None:
    listening = socket.socket(fileno=int(sys.argv[1]))
    for name in LIBRARIES:
        importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(f"expected one thread to fork from, got {threads}")
    gc.collect()
    gc.freeze()
    # Nobody asks how a fork has ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        asking, _ = listening.accept()
        message, files, _, _ = socket.recv_fds(asking, MESSAGE_BYTES, 3)
        wanted = json.loads(message)
        if _settings(wanted["environment"]) != _settings(os.environ):
            asking.close()
        elif os.fork() == 0:
            listening.close()
            asking.send(b"started")
            asking.close()
            _become(wanted, files)
            return
        asking.close()
        for file in files:
            os.close(file)


def _become(wanted: Mapping[str, Any], files: list[int]) -> None:
    """Does what `default_worker.py` does, as the process that Ray would have started."""
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # What is drawn without a seed is each worker's own.
    np.random.seed()  # noqa: NPY002
    signal.pthread_sigmask(signal.SIG_SETMASK, wanted["blocked"])
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv = wanted["options"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    _serve()
