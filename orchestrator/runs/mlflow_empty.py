"""Empty MLflow stores in SQLite files, from a copy: MLflow takes seconds to make one.

For every new file it runs dozens of migrations, which come to the same tables every time. They
are run once for a version of MLflow, in the user's cache.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from mapspace.private_folder import private_folder, temporary_folder


def lay_out(tracking_uri: str, *, make: Callable[[Path], None] | None = None) -> None:
    """Puts an empty store where an address names a SQLite file and none is there.

    Where that cannot be done MLflow makes the store itself, as it would have.

    Args:
        tracking_uri: any store that MLflow knows.
        make: makes an empty store; None: MLflow's own migrations.
    """
    import mlflow
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    if not tracking_uri.startswith("sqlite:"):
        return
    with suppress(OSError, SQLAlchemyError, sqlite3.Error):
        database = make_url(tracking_uri).database
        if not database or database == ":memory:" or Path(database).exists():
            return
        source = _kept(f"empty-{mlflow.__version__}.db", make or _migrate)
        if source is not None:
            _copy(source, Path(database))


def _kept(name: str, make: Callable[[Path], None]) -> Path | None:
    """The empty store in the cache, made if it is not there or damaged."""
    import platformdirs

    usual = Path(platformdirs.user_cache_path("mapspace")) / "mlflow"
    folder = private_folder(usual) or temporary_folder("mlflow")
    if folder is None:
        return None
    kept = folder / name
    if not _is_whole(kept):
        part = folder / f".{uuid.uuid4().hex}.tmp"
        try:
            make(part)
            os.replace(part, kept)
        finally:
            part.unlink(missing_ok=True)
    return kept


def _copy(source: Path, target: Path) -> None:
    """Copies a file, whole or not at all, to where none is.

    Raises:
        OSError: there is one by now, or it cannot be written.
    """
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        part.write_bytes(source.read_bytes())
        # Unlike a replacement it fails where somebody else has made a store meanwhile.
        os.link(part, target)
    finally:
        part.unlink(missing_ok=True)


def _is_whole(file: Path) -> bool:
    """Whether a file is an undamaged SQLite database."""
    if not file.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
            return bool(database.execute("PRAGMA quick_check").fetchone() == ("ok",))
    except sqlite3.Error:
        return False


def _migrate(file: Path) -> None:
    """Lets MLflow make its tables, and nothing in them: no path of this call is kept."""
    from mlflow.store.db import utils

    engine = utils.create_sqlalchemy_engine_with_retry(f"sqlite:///{file}")
    try:
        utils._initialize_tables(engine)
    finally:
        engine.dispose()
