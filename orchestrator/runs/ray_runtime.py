"""How Ray is started, and how tasks are fanned out over it.

Without an address a small embedded Ray runs on this machine for as long as a command needs it.
`RAY_ADDRESS` (set for what `ray job submit` starts) or an explicit address attaches to a running
cluster.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from mapspace.errors import ConfigError, MapspaceError

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# What Ray and its workers read before anything of this project runs. Values that the user has set
# win.
ENVIRONMENT: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Two threads per process on two cores are eight times slower than one.
    "OMP_NUM_THREADS": "1",
    # Silences a warning about a future default that concerns tasks without GPUs.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # No metrics are read: the exporter would only cost memory.
    "RAY_enable_metrics_collection": "0",
    "RAY_TRAIN_V2_ENABLED": "1",
}
# Ray takes 30 % of the memory by default. Only figures and codes pass through it, never data sets.
OBJECT_STORE_BYTES = 512 << 20
POLL_SECONDS = 0.1
# An autoscaled cluster grows while tasks wait for it.
RECOUNT_SECONDS = 1.0


@contextmanager
def ray_runtime(address: str | None = None, *, cpus: int | None = None) -> Iterator[None]:
    """Ray for the length of a block; one that is running already is used and left running.

    Args:
        address: A cluster to attach to; None: `RAY_ADDRESS`, or else an embedded Ray.
        cpus: Tasks that an embedded Ray runs at once; None: one per core.

    Raises:
        ConfigError: If there is no cluster at the address, or it refuses the token.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address.startswith(("http://", "https://")):
        raise ConfigError(
            f"RAY_ADDRESS: expected HOST:PORT of a cluster, got {address!r}, a job server; give "
            "that to `ray job submit` as RAY_API_SERVER_ADDRESS."
        )
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address == "local":
            ray.init(
                address="local",
                num_cpus=cpus or os.cpu_count() or 1,
                object_store_memory=OBJECT_STORE_BYTES,
                **quiet,
            )
        else:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, ray.exceptions.AuthenticationError) as error:
        raise ConfigError(f"Ray at {address!r}: {str(error).splitlines()[0]}") from error
    try:
        yield
    finally:
        ray.shutdown()


def fan_out(
    function: Callable[[Item], Answer],
    items: Sequence[Item],
    *,
    retries: int = 3,
    what: str = "task",
) -> Iterator[Answer]:
    """Applies a function to every item on Ray tasks of one core; answers come as they are ready.

    Ray is started for it where none is running. A task whose worker dies is tried again on another
    one; the others do not notice.

    Args:
        function: What to run; importable on the workers. It answers with something, never None.
        items: Its arguments.
        retries: How often one item's worker may die.
        what: What an item is, for the error.

    Raises:
        MapspaceError: As the function raised it, or if workers keep dying.
        OSError: As the function raised it.
    """
    with ray_runtime():
        for _, answer in completed(function, items, retries=retries):
            if answer is None:
                raise MapspaceError(
                    f"A worker process died {retries + 1} times on the same {what} (out of "
                    "memory?). The same command tries again."
                )
            yield answer


def completed(
    function: Callable[[Item], Answer],
    items: Iterable[Item],
    *,
    retries: int = 3,
    stop: Callable[[], bool] | None = None,
) -> Iterator[tuple[Item, Answer | None]]:
    """Applies a function to every item on Ray tasks of one core; answers come as they are ready.

    Nothing is cancelled when the caller stops: where a task ends in the moment of its cancellation
    Ray 2.60 aborts the driver ("Tried to complete task that was not pending"). Few tasks are under
    way instead, and they end with the driver.

    Args:
        function: What to run; importable on the workers.
        items: Its arguments.
        retries: How often one item's worker may die.
        stop: Looked at a few times a second; when it is true no more answers are waited for.

    Yields:
        Items with their answers; None where workers kept dying on an item.

    Raises:
        MapspaceError: As the function raised it.
        OSError: As the function raised it.
    """
    import ray

    @ray.remote(num_cpus=1, max_retries=retries)
    def task(item: Item) -> Answer:
        return function(item)

    deaths = (
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.NodeDiedError,
        ray.exceptions.OutOfMemoryError,
    )
    waiting = iter(items)
    pending: dict[ray.ObjectRef, Item] = {}
    window, counted = 0, -RECOUNT_SECONDS
    while True:
        if time.monotonic() - counted >= RECOUNT_SECONDS:
            # One more per core than runs, so that no core waits for the driver.
            window = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
            counted = time.monotonic()
        for item in itertools.islice(waiting, max(0, window - len(pending))):
            pending[task.remote(item)] = item
        if not pending or (stop is not None and stop()):
            return
        timeout = None if stop is None else POLL_SECONDS
        for reference in ray.wait(list(pending), num_returns=1, timeout=timeout)[0]:
            item = pending.pop(reference)
            try:
                answer = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, (MapspaceError, OSError)):
                    raise error.cause from None
                raise
            except deaths:
                yield item, None
            else:
                yield item, answer


def code_version() -> dict[str, str]:
    """Version of the package, and the commit where it runs from a git checkout.

    `-changed` marks a commit whose cost model or surrogate differs from what ran.
    """
    found = {"mapspace": version("mapspace")}
    root = Path(__file__).parent.parent.parent
    git = ["git", "-C", str(root)]
    try:
        commit = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False
        )
        changes = subprocess.run(
            [*git, "status", "--porcelain", "--", "costmodel", "surrogate/*.py"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return found
    if commit.returncode == 0:
        dirty = "-changed" if changes.stdout.strip() else ""
        found["commit"] = commit.stdout.strip() + dirty
    return found
