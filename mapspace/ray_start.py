"""How a process gets its Ray: the one that runs, a cluster's, or a small embedded one."""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mapspace.errors import ConfigError, MapspaceError
from mapspace.left_behind import mark_session, sweep_sessions

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
    # Every report of a training, with its checkpoint, waits for the next look: 2 s by default.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.1",
    # After half a second by default a worker is given back for the next task, and on another node
    # it takes a tenth of a second to get one again.
    "RAY_worker_lease_timeout_milliseconds": "5000",
}
# What an embedded Ray reads besides: no provider takes this machine back, so nobody need watch.
EMBEDDED: Mapping[str, str] = {"RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0"}
# Ray takes 30 % of the memory by default. Only figures and codes pass through it, never data sets.
OBJECT_STORE_BYTES = 512 << 20


def start_ray(address: str | None = None, *, cpus: int | None = None, needed: int = 1) -> bool:
    """Connects this process to Ray, unless it is connected.

    Args:
        address: A cluster to attach to; None: `RAY_ADDRESS` (set for what `ray job submit`
            starts), or else an embedded Ray on this machine.
        cpus: Tasks that an embedded Ray runs at once; None: one per core.
        needed: Processors that must be free together, or the caller would wait for ever. An
            embedded Ray that starts here has at least so many. A cluster with an address is not
            asked: it may grow.

    Returns:
        Whether this call has started or attached Ray, so that the caller may shut it down.

    Raises:
        ConfigError: There is no cluster at the address, it refuses the token, or the Ray that
            runs in this process already has too few processors.
        MapspaceError: It does not start, or not in time.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    for name, value in {**ENVIRONMENT, **(EMBEDDED if address == "local" else {})}.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        there = int(ray.cluster_resources().get("CPU", 0))
        if address == "local" and there < needed:
            raise ConfigError(
                f"expected a Ray with {needed} processors, got one with {there}, started in this "
                "process before; `ray.shutdown()` ends it, and the next start has enough."
            )
        return False
    if address.startswith(("http://", "https://")):
        raise ConfigError(
            f"RAY_ADDRESS: expected HOST:PORT of a cluster, got {address!r}, a job server; give "
            "that to `ray job submit` as RAY_API_SERVER_ADDRESS."
        )
    before = signal.getsignal(signal.SIGTERM)
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address == "local":
            _keep_token_private()
            sweep_sessions()
            ray.init(
                address="local",
                num_cpus=max(cpus or os.cpu_count() or 1, needed),
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                **quiet,
            )
            if ray.is_initialized():
                mark_session(ray.get_runtime_context().get_session_name())
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, ray.exceptions.AuthenticationError) as error:
        raise ConfigError(f"Ray at {address!r}: {str(error).splitlines()[0]}") from error
    except Exception as error:
        # Ray has no class of its own for a start that fails or takes too long.
        if type(error) not in (Exception, RuntimeError, TimeoutError):
            raise
        first = str(error).strip().partition("\n")[0]
        raise MapspaceError(f"Ray at {address!r} does not start: {first}") from error
    _handle_again(before)
    return True


def _keep_token_private() -> None:
    """Makes the token that an embedded Ray asks for, or keeps what is there from other users.

    Ray listens on every interface, runs whatever comes with the token, and writes it where any user
    of the machine can read it.
    """
    given = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    mode = os.environ.get("RAY_AUTH_MODE", "token").lower()
    if mode != "token" or any(os.environ.get(name) for name in given):
        return
    path = Path.home() / ".ray" / "auth_token"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            # Named once it is whole, and never in the place of one that a Ray beside has just made.
            with tempfile.NamedTemporaryFile("w", dir=path.parent) as made:
                made.write(secrets.token_hex(32))
                made.flush()
                with suppress(FileExistsError):
                    os.link(made.name, path)
        # What may be read through a link is its owner's choice.
        for entry in (path.parent, path):
            if not entry.is_symlink() and entry.stat().st_mode & 0o077:
                entry.chmod(entry.stat().st_mode & 0o700)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be kept from other users: {error.strerror}.") from error


def stop_ray() -> None:
    """Ends what `start_ray` has started, or leaves the cluster."""
    import ray

    before = signal.getsignal(signal.SIGTERM)
    ray.shutdown()
    _handle_again(before)


def _handle_again(handler: Any) -> None:
    """Puts a handler of SIGTERM back: Ray takes the signal for itself, then leaves none.

    A job that is stopped would end with lines of C++, or without a word.
    """
    if callable(handler) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
