"""Empty MLflow stores in SQLite files, from a copy: MLflow takes seconds to make one.

For every new file it runs dozens of migrations, which come to the same tables every time. They
are run once for a version of MLflow, in the user's cache.
"""

from __future__ import annotations

import os
import re
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mapspace.private_folder import private_folder, temporary_folder


def lay_out(tracking_uri: str, *, make: Callable[[Path], None] | None = None) -> None:
    """Puts an empty store where an address names a SQLite file and none is there.

    Where that cannot be done MLflow makes the store itself, as it would have.

    Args:
        tracking_uri: any store that MLflow knows.
        make: makes an empty store; None: MLflow's own migrations.
    """
    database = sqlite_file(tracking_uri)
    if database is None or database.exists():
        return
    with suppress(OSError, sqlite3.Error):
        source = empty_store(make)
        if source is not None:
            _copy(source, database)


def sqlite_file(tracking_uri: str) -> Path | None:
    """The file that an address such as `sqlite:////home/me/mlflow.db` names; None for others."""
    found = re.fullmatch(r"sqlite:///([^?]+)", tracking_uri)
    return Path(found[1]) if found and found[1] != ":memory:" else None


def empty_store(make: Callable[[Path], None] | None = None) -> Path | None:
    """An empty store in the layout of the MLflow that is installed, which is not to be written.

    Args:
        make: makes one where none is kept; None: MLflow's own migrations.

    Returns:
        None where MLflow is not installed, or there is no place of the user's own.

    Raises:
        OSError: it cannot be written.
        sqlite3.Error: it cannot be made.
    """
    try:
        installed = version("mlflow")
    except PackageNotFoundError:
        return None
    return _kept(f"empty-{installed}.db", make or _migrate)


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
    from mlflow.exceptions import MlflowException
    from mlflow.store.db import utils
    from sqlalchemy.exc import SQLAlchemyError

    engine = utils.create_sqlalchemy_engine_with_retry(f"sqlite:///{file}")
    try:
        utils._initialize_tables(engine)
    except (MlflowException, SQLAlchemyError) as error:
        raise sqlite3.Error(str(error)) from error
    finally:
        engine.dispose()
