"""What processes that were killed have left: the next one sweeps it, of this user's dead ones only.

A process is known by its number and the moment of its start, so that nothing is taken for dead, or
for alive, because a number came again.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RAY = "ray"
MARK = "of-mapspace"
_NAME = "mapspace-{name}-{owner}-"


def owner() -> str:
    """This process, as `is_dead` knows it."""
    return f"{os.getpid()}.{_started(os.getpid())}"


def is_dead(told: str) -> bool:
    """Whether the process that said so of itself has ended."""
    number, _, started = told.partition(".")
    return number.isdecimal() and _started(int(number)) != started


def _started(process: int) -> str:
    """When a process started, in ticks since the machine did; nothing of one that is not there."""
    with suppress(OSError):
        # The name before it is in brackets and may hold anything.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    return ""


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """A temporary folder; what earlier processes that were killed left of that name goes.

    Args:
        name: what it is for, in letters.
    """
    _sweep_scratch(name)
    prefix = _NAME.format(name=name, owner=owner())
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@functools.cache
def _sweep_scratch(name: str) -> None:
    for left in Path(tempfile.gettempdir()).glob(_NAME.format(name=name, owner="*") + "*"):
        if _is_ours(left) and is_dead(left.name.split("-")[2]):
            shutil.rmtree(left, ignore_errors=True)


def mark_session(name: str) -> None:
    """Says in the folder of a session of Ray that this process has started it.

    Args:
        name: the session's.
    """
    for folder in _ray_folders():
        with suppress(OSError):
            if (folder / name).is_dir():
                (folder / name / MARK).write_text(owner())


def sweep_sessions() -> None:
    """Ends what is left of sessions whose process was killed, and removes their folders.

    Ray's agents would work on for up to 100 s, and its folders stay for ever.
    """
    gone = [
        session
        for folder in _ray_folders()
        for session in folder.glob("session_*")
        if _is_ours(session) and is_dead(_marked(session))
    ]
    if not gone:
        return
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if _is_ours(process) and any(f"{one}/".encode() in words for one in gone):
                os.kill(int(process.name), signal.SIGKILL)
    for session in gone:
        shutil.rmtree(session, ignore_errors=True)


def _ray_folders() -> list[Path]:
    """Where Ray keeps its sessions."""
    places = (os.environ.get("RAY_TMPDIR"), tempfile.gettempdir(), "/tmp")
    return [Path(place) / RAY for place in dict.fromkeys(filter(None, places))]


def _marked(session: Path) -> str:
    with suppress(OSError, ValueError):
        return (session / MARK).read_text()[:64]
    return ""


def _is_ours(path: Path) -> bool:
    """Whether this user has made a folder, which is no link."""
    with suppress(OSError):
        return path.lstat().st_uid == os.getuid() and path.is_dir() and not path.is_symlink()
    return False
