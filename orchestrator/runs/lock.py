"""One run at a time writes to a folder; a second one is refused and told who is there.

On a local or NFS folder the system's file lock decides, which ends with its process. Object storage
has no locks: there the owner rewrites a small object every few seconds, and who finds one watches
whether it changes. Clocks of different machines are never compared.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from mapspace.bounded_reading import LARGEST_FILE, parse_json, read_bytes
from mapspace.errors import ConfigError, MapspaceError
from mapspace.storage import Place, RemotePath, make_folder

LOCK_FILE = ".lock"
BEAT_SECONDS = 5.0
# Who has not rewritten the object for so long is dead.
SILENT_SECONDS = 20.0
# Longer than a write takes: of two that start in the same moment the last to write wins.
SETTLE_SECONDS = 1.0
POLL_SECONDS = 0.5
RETRY_SECONDS = 0.1
# What a file system says that does not implement locks.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class Claim:
    """What `claimed` gives: whether the folder is still this run's."""

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self.lost = False

    def check(self) -> None:
        """Looks whether another run has taken the folder over, which only a stalled one loses.

        Raises:
            MapspaceError: If one has.
        """
        if self.lost:
            raise MapspaceError(
                f"{self._folder}: another run has taken the folder over while this one stalled."
            )


@contextlib.contextmanager
def claimed(folder: Place) -> Iterator[Claim]:
    """Makes a folder and keeps other runs out of it for the length of a block.

    Raises:
        ConfigError: If another run writes there; the message says which and since when.
        MapspaceError: If the folder cannot be reached.
    """
    make_folder(folder)
    with _file_lock(folder) if isinstance(folder, Path) else _object_lock(folder) as claim:
        yield claim


def _owner(token: str = "") -> dict[str, str]:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    return {"owner": owner, "since": since, "token": token}


def _refusal(folder: Place, content: bytes) -> ConfigError:
    try:
        there = parse_json(content, LOCK_FILE)
        who = " ".join(f"{there['owner']}, since {there['since']}".split())
    except (ValueError, KeyError, TypeError):
        who = "it has not said which"
    return ConfigError(
        f"{folder}: another run writes here ({who}): wait until it has ended, or give another "
        "--output."
    )


@contextlib.contextmanager
def _file_lock(folder: Path) -> Iterator[Claim]:
    path = folder / LOCK_FILE

    def sign(file: int) -> None:
        os.ftruncate(file, 0)
        os.write(file, json.dumps(_owner()).encode())

    # Long enough to try again where the run before removes its file in this moment.
    lock = FileLock(path, timeout=RETRY_SECONDS, fallback_to_soft=False, on_acquired=sign)
    try:
        lock.acquire(poll_interval=RETRY_SECONDS / 10)
    except Timeout:
        raise _refusal(folder, _read(path)) from None
    except OSError as error:
        if error.errno in NO_LOCKS:
            raise ConfigError(
                f"{folder}: its file system has no locks ({error.strerror}); mount it with them."
            ) from error
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}.") from error
    try:
        yield Claim(folder)
    finally:
        # While it is locked: who waits for it then sees that it guards nothing any more.
        path.unlink(missing_ok=True)
        lock.release()


@contextlib.contextmanager
def _object_lock(folder: RemotePath) -> Iterator[Claim]:
    path = folder / LOCK_FILE
    _wait_for_silence(folder, path)
    owner = _owner(uuid.uuid4().hex)
    token = owner["token"]
    path.write_bytes(_beat(owner, 0))
    time.sleep(SETTLE_SECONDS)
    there = _read(path)
    if _token(there) != token:
        raise _refusal(folder, there)
    claim = Claim(folder)
    stop = threading.Event()

    def beat() -> None:
        number = 0
        while not stop.wait(BEAT_SECONDS):
            number += 1
            # A store that is away for a moment is no reason to give up.
            with contextlib.suppress(MapspaceError):
                claim.lost = _token(_read(path)) not in (token, "")
                if claim.lost:
                    return
                path.write_bytes(_beat(owner, number))

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield claim
    finally:
        stop.set()
        thread.join()
        # Whatever ended the block matters more than a lock that is left: it falls silent.
        with contextlib.suppress(MapspaceError):
            if _token(_read(path)) == token:
                path.unlink(missing_ok=True)


def _wait_for_silence(folder: RemotePath, path: RemotePath) -> None:
    """Returns when no living run holds the lock.

    Raises:
        ConfigError: If one does.
    """
    first = _read(path)
    deadline = time.monotonic() + SILENT_SECONDS
    while first and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        now = _read(path)
        if not now:
            return
        if now != first:
            raise _refusal(folder, now)


def _beat(owner: dict[str, str], number: int) -> bytes:
    return json.dumps({**owner, "beat": number}).encode()


def _read(path: Place) -> bytes:
    try:
        return read_bytes(path, LARGEST_FILE)
    except FileNotFoundError:
        return b""


def _token(content: bytes) -> str:
    try:
        return str(parse_json(content, LOCK_FILE)["token"])
    except (ValueError, KeyError, TypeError):
        return ""
