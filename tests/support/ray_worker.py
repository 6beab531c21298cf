"""What the tests' Ray starts instead of its `setup_worker.py`: it asks `ray_forks.py` for a worker.

Imports as little as it can. Where nobody answers it becomes the worker itself; where a worker shall
be in another environment than this one, Ray's own script.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path

# `typing` costs as much as all the others.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# What a worker's environment is that only sets variables.
PLAIN = {"command_prefix": [], "override_worker_entrypoint": None, "java_jars": []}


def address(environment: Mapping[str, str]) -> str:
    """Where the process listens that starts workers of a job on a node; a name that no file has."""
    return f"\0mapspace-tests-{environment['RAY_RAYLET_PID']}-{environment['RAY_JOB_ID']}"


def start(given: list[str]) -> None:
    """Has a worker started, or becomes one."""
    context: dict[str, Any] = {}
    options = []
    for option in given:
        name, _, value = option.partition("=")
        if name == "--serialized-runtime-env-context":
            context = json.loads(value)
        elif name != "--language":
            options.append(option)
    more = context.get("env_vars", {})
    if "$" in str(more) or any(context.get(key, value) != value for key, value in PLAIN.items()):
        own = str(Path(given[0]).with_name("setup_worker.py"))
        os.execv(sys.executable, [sys.executable, own, *given])
    os.environ.update(more)
    if not forked(options):
        os.execv(sys.executable, [sys.executable, *options])


def forked(options: list[str]) -> bool:
    """Whether the process that listens has started a worker with these options."""
    wanted = {
        "options": options,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "blocked": [int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    }
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
            there.connect(address(os.environ))
            socket.send_fds(there, [json.dumps(wanted).encode()], [0, 1, 2])
            return there.recv(16) == b"started"
    except OSError:
        return False


if __name__ == "__main__":
    start(sys.argv[1:])
