"""Folders of this user alone, for files that are trusted when they are read again."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from pathlib import Path


def private_folder(path: Path) -> Path | None:
    """Makes a folder that nobody but this user can write to, or finds it so.

    Args:
        path: the folder; the ones above it are made too.

    Returns:
        Its true path; None where it cannot be made or written, belongs to somebody else, or where
        somebody else could put another one in its place.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = path.resolve()
        state = path.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
            return None
        if stat.S_IMODE(state.st_mode) & 0o077:
            path.chmod(0o700)
    except OSError:
        return None
    if not all(_kept_by_owner(above) for above in path.parents):
        return None
    return path if os.access(path, os.W_OK | os.X_OK) else None


def _kept_by_owner(folder: Path) -> bool:
    """Whether only this user or the system can rename what lies in a folder."""
    state = folder.stat()
    if state.st_uid not in (0, os.getuid()):
        return False
    others_write = stat.S_IMODE(state.st_mode) & 0o022
    return not others_write or bool(state.st_mode & stat.S_ISVTX)


def temporary_folder(name: str) -> Path | None:
    """A private folder in the system's temporary one that later processes of this user find again.

    Args:
        name: what it is for.

    Returns:
        The folder; a new one that ends with this process where somebody else holds the name, None
        where even that cannot be had.
    """
    shared = private_folder(Path(tempfile.gettempdir()) / f"mapspace-{os.getuid()}" / name)
    if shared is not None:
        return shared
    try:
        own = tempfile.mkdtemp(prefix=f"mapspace-{name}-")
    except OSError:
        return None
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)
