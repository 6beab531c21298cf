"""Drivers as processes of their own, a cluster of several nodes, and what can be done to both."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

# Checkpoints close together, so that a test can hit between two of them.
DRIVER = """
import sys
from orchestrator.benchmark import run
run.CHECKPOINT_SECONDS = 0.2
from orchestrator.cli import main
main(sys.argv[1:])
"""


def wait_for(condition: Callable[[], object], seconds: float = 280) -> None:
    """Polls a condition; an error when it does not come true.

    The limit is against hanging, just below that of a whole test: on a busy machine a driver may
    take minutes to start.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.02)


def descendants(root: int) -> dict[int, tuple[int, str]]:
    """Parents and titles of the processes below a process, zombies left out."""
    parents, titles = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_text()
                state, parent = (entry / "stat").read_text().rpartition(") ")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                titles[int(entry.name)], parents[int(entry.name)] = title, int(parent)
    found = {}
    for process, title in titles.items():
        above = parents.get(process, 0)
        while above not in (0, root):
            above = parents.get(above, 0)
        if above == root:
            found[process] = (parents[process], title)
    return found


def kill(process: int) -> None:
    """SIGKILL, also where the process has just ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


@contextlib.contextmanager
def driver(
    *arguments: str,
    errors: Path,
    address: str | None = None,
    more: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """`mapspace ARGUMENTS` in a process group of its own, killed where the block leaves it.

    Args:
        arguments: of the command line.
        errors: the file that gets standard error.
        address: of a Ray cluster; None: an embedded one.
        more: of its environment.
    """
    environment = {**os.environ, **(more or {})}
    if address is not None:
        environment["RAY_ADDRESS"] = address
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def press_control_c(process: subprocess.Popen[bytes]) -> int:
    """Sends what a terminal sends, to the whole process group, and returns the exit code."""
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(60)


@contextlib.contextmanager
def meanwhile(disturb: Callable[[], None]) -> Iterator[None]:
    """Disturbs what the block does; its failure fails the test."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            disturb()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failures:
        raise failures[0]


class Nodes:
    """A head that runs drivers and two nodes of one core that run tasks, on this machine."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        for _ in range(2):
            self.cluster.add_node(num_cpus=1)
        self.address = str(self.cluster.address)

    def workers(self, *titles: str) -> dict[int, Any]:
        """Nodes of the worker processes whose title starts with one of the titles."""
        raylets = {
            node.all_processes["raylet"][0].process.pid: node for node in self.cluster.worker_nodes
        }
        return {
            process: raylets[parent]
            for process, (parent, title) in descendants(os.getpid()).items()
            if parent in raylets and title.startswith(titles)
        }

    @contextlib.contextmanager
    def removing(self, when: Callable[[], Any]) -> Iterator[None]:
        """Kills all processes of a node in the middle of the block; starts another one after it.

        Args:
            when: polled; answers with the node, or with nothing as long as it is too early.
        """

        def remove() -> None:
            found: list[Any] = []
            wait_for(lambda: found.extend(filter(None, [when()])) or found)
            # All at once, as when a machine loses power, and only then in Ray's books.
            raylet = found[0].all_processes["raylet"][0].process.pid
            for process in (*descendants(raylet), raylet):
                kill(process)
            self.cluster.remove_node(found[0], allow_graceful=False)

        with meanwhile(remove):
            yield
        # Ray starts nodes in the main thread only.
        self.cluster.add_node(num_cpus=1)
