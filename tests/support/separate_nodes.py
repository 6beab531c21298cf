"""A Ray cluster whose nodes have network namespaces and addresses of their own, on this machine.

A node whose link is taken down sends nothing and answers nothing, as one whose cable is cut: its
processes go on, and nobody is told.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from processes import descendants, kill, meanwhile, wait_for

# A node that is silent is given up after about five seconds, by default after most of a minute.
# (And by drivers, what `mapspace.ray_start.CLUSTER` says.)
HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "4",
}


def why_not_separate() -> str | None:
    """Why this process may make no network namespaces, in one line; None if it may."""
    name = f"ms-try-{os.getpid()}"
    try:
        made = _ip("netns", "add", name, check=False)
    except FileNotFoundError:
        return "there is no `ip` command"
    if made.returncode != 0:
        return f"no network namespaces: {made.stderr.strip()}"
    _ip("netns", "del", name)
    return None


class SeparateNodes:
    """A head that runs drivers and nodes that run tasks, each at its own address.

    Attributes:
        address: of the cluster.
        environment: what a driver needs to be let in.
    """

    def __init__(self, folder: Path, nodes: int = 2, *, cpus: int = 1) -> None:
        """Starts them.

        Args:
            folder: for what Ray writes, one folder per node.
            nodes: how many run tasks.
            cpus: tasks that each runs at once.
        """
        number = os.getpid()
        self._net = f"10.{1 + number // 250 % 250}.{number % 250}"
        self._bridge, self._prefix = f"msb{number % 10**7}", f"ms{number % 10**7}-"
        self._folder, self._cpus = folder, cpus
        self._numbers = itertools.count(2)
        self._raylets: dict[str, subprocess.Popen[bytes]] = {}
        self._changing = threading.Lock()
        self._port = 20_000 + number % 10_000
        self.address = f"{self._net}.1:{self._port}"
        # Drivers and nodes show it to each other.
        self.environment = {
            **{"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex},
            # The calls of these tests are short (docs/inside/faults.md).
            "RAY_grpc_client_keepalive_time_ms": "5000",
            "RAY_grpc_client_keepalive_timeout_ms": "5000",
        }
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self._net}.1/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        try:
            self.start_head()
            for _ in range(nodes):
                self.add()
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> list[str]:
        """Of the nodes that run tasks."""
        return [name for name in self._raylets if name]

    def start_head(self) -> None:
        """Starts the head, which runs no tasks."""
        self._start("", f"{self._net}.1", "--head", f"--port={self._port}", "--num-cpus=0")

    def kill_head(self) -> None:
        """Kills all processes of the head at once, as when a machine loses power."""
        self._kill(self._raylets.pop(""))

    def add(self) -> str:
        """Starts a node in a new namespace, and returns its name."""
        with self._changing:
            number = next(self._numbers)
            name = f"{self._prefix}{number}"
            outer = self._outer(name)
            _ip("netns", "add", name)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", outer, "master", self._bridge, "up")
            address = f"{self._net}.{number}"
            for command in (
                ("addr", "add", f"{address}/24", "dev", "eth0"),
                ("link", "set", "lo", "up"),
                ("link", "set", "eth0", "up"),
            ):
                _ip("-n", name, *command)
            self._start(name, address, f"--address={self.address}", f"--num-cpus={self._cpus}")
            return name

    def cut(self, name: str) -> None:
        """Takes the link of a node down: it vanishes for all others, while its processes go on."""
        _ip("-n", name, "link", "set", "eth0", "down")

    def remove(self, name: str) -> None:
        """Ends what still runs on a node, and its namespace."""
        raylet = self._raylets.pop(name)
        # Workers of a raylet that has ended are nobody's children.
        for process in _ip("netns", "pids", name).stdout.split():
            kill(int(process))
        raylet.wait()
        _ip("netns", "del", name)
        # What was to be sent keeps it for a while.
        _ip("link", "del", self._outer(name), check=False)

    def workers(self, *titles: str) -> dict[int, str]:
        """Nodes of the worker processes whose title starts with one of the titles."""
        return {
            process: name
            for name, raylet in list(self._raylets.items())
            for process, (_, title) in descendants(raylet.pid).items()
            if title.startswith(titles)
        }

    @contextlib.contextmanager
    def vanishing(
        self, every: float, *, when: Callable[[], Any] | None = None
    ) -> Iterator[list[float]]:
        """Cuts a node every so many seconds of the block; a new one takes its place at once.

        Args:
            every: seconds between two.
            when: waited for before the first.

        Yields:
            Of every node that was cut the seconds until the new one was there.
        """
        gone: list[float] = []
        over = threading.Event()

        def disturb() -> None:
            if when is not None:
                wait_for(lambda: when() or over.is_set())
            while not over.is_set():
                began, name = time.monotonic(), self.names[0]
                self.cut(name)
                self.add()
                gone.append(time.monotonic() - began)
                over.wait(every / 2)
                # Given up for lost by now: what it still does nobody waits for.
                self.remove(name)
                over.wait(max(0.0, began + every - time.monotonic()))

        with meanwhile(disturb):
            try:
                yield gone
            finally:
                over.set()

    def close(self) -> None:
        """Ends everything."""
        for name in list(self._raylets):
            if name:
                self.remove(name)
        if "" in self._raylets:
            self.kill_head()
        _ip("link", "del", self._bridge, check=False)

    def _start(self, name: str, address: str, *arguments: str) -> None:
        temporary = self._folder / (name or "head")
        temporary.mkdir(parents=True, exist_ok=True)
        inside = ["ip", "netns", "exec", name] if name else []
        ray = [str(Path(sys.executable).parent / "ray"), "start", "--block", *arguments]
        own = [f"--node-ip-address={address}", f"--temp-dir={temporary}"]
        if not name:
            own += ["--include-dashboard=false", "--disable-usage-stats"]
        path = temporary / "log"
        with path.open("wb") as log:
            self._raylets[name] = subprocess.Popen(
                [*inside, *ray, *own, "--object-store-memory=100000000"],
                stdout=log,
                stderr=log,
                env={**os.environ, **HEALTH, **self.environment},
                start_new_session=True,
            )
        # One after another: of several at once some give up while they start.
        wait_for(lambda: b"--block" in path.read_bytes(), 60)

    def _outer(self, name: str) -> str:
        """The end of a node's link that is on this machine's bridge."""
        return name.replace("ms", "msv", 1)

    def _kill(self, raylet: subprocess.Popen[bytes]) -> None:
        for process in (*descendants(raylet.pid), raylet.pid):
            kill(process)
        raylet.wait()


def _ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=check)
