"""Empty MLflow stores in SQLite files, from a copy: MLflow takes seconds to make one.

For every new file it runs dozens of migrations, which come to the same tables every time. They
are run once for a version of MLflow, in the user's cache: 1.8 s of processor time, not 4.3.
"""

from __future__ import annotations

import os
import re
import sqlite3
import uuid
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path

from mapspace.private_folder import private_folder, temporary_folder


def lay_out(tracking_uri: str) -> None:
    """Puts an empty store where an address names a SQLite file and none is there.

    Where that cannot be done MLflow makes the store itself, as it would have.
    """
    named = re.fullmatch(r"sqlite:///([^?]+)", tracking_uri)
    if named is None or named[1] == ":memory:" or Path(named[1]).exists():
        return
    target = Path(named[1])
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    with suppress(OSError, sqlite3.Error):
        kept = _kept()
        if kept is None:
            return
        try:
            part.write_bytes(kept.read_bytes())
            # Unlike a replacement it fails where somebody else has made a store meanwhile.
            os.link(part, target)
        finally:
            part.unlink(missing_ok=True)


def _kept() -> Path | None:
    """The empty store in the cache, made if it is not there or damaged."""
    import platformdirs

    usual = Path(platformdirs.user_cache_path("mapspace")) / "mlflow"
    folder = private_folder(usual) or temporary_folder("mlflow")
    if folder is None:
        return None
    kept = folder / f"empty-{version('mlflow')}.db"
    if not _is_whole(kept):
        part = folder / f".{uuid.uuid4().hex}.tmp"
        try:
            _make(part)
            os.replace(part, kept)
        finally:
            part.unlink(missing_ok=True)
    return kept


def _make(file: Path) -> None:
    """`mlflow db upgrade`: the tables and nothing in them, no path of this call either."""
    from mlflow.db import upgrade
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    assert upgrade.callback is not None
    try:
        upgrade.callback(f"sqlite:///{file}")
    except (MlflowException, SQLAlchemyError) as error:
        raise sqlite3.Error(str(error)) from error


def _is_whole(file: Path) -> bool:
    """Whether a file is an undamaged SQLite database."""
    if not file.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
            return bool(database.execute("PRAGMA quick_check").fetchone() == ("ok",))
    except sqlite3.Error:
        return False
