"""Measurements on disk, so that a rerun is free: one SQLite file that processes can share."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from costmodel.tiling.measurement import STATUS_RUN_FAILED, Measurement
from mapspace.errors import DataError

TABLE = """CREATE TABLE IF NOT EXISTS measurements (
    key TEXT PRIMARY KEY, status INTEGER NOT NULL, seconds TEXT NOT NULL, explanation TEXT NOT NULL,
    spent REAL NOT NULL
)"""
WAIT_SECONDS = 60.0


class Measurements(Protocol):
    """Where measurements are kept."""

    def find(self, keys: Sequence[str]) -> list[Measurement | None]:
        """What is known of keys `[B]`, None where nothing is."""
        ...

    def keep(self, key: str, measurement: Measurement) -> None:
        """Keeps one."""
        ...


class MeasurementCache:
    """Measurements by key.

    Args:
        path: the file; it and its folder are made when something is looked up first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, keys: Sequence[str]) -> list[Measurement | None]:
        """What is known of keys `[B]`, None where nothing is.

        Raises:
            DataError: the file cannot be read.
        """
        with self._open() as connection:
            rows = [
                connection.execute(
                    "SELECT status, seconds, explanation, spent FROM measurements WHERE key = ?",
                    (key,),
                ).fetchone()
                for key in keys
            ]
        return [
            None if row is None else Measurement(row[0], tuple(json.loads(row[1])), *row[2:])
            for row in rows
        ]

    def keep(self, key: str, measurement: Measurement) -> None:
        """Writes one measurement.

        What failed while running is not kept: the cause may be the machine's (memory ran out).

        Raises:
            DataError: the file cannot be written.
        """
        if measurement.status == STATUS_RUN_FAILED:
            return
        seconds = json.dumps(measurement.seconds)
        row = (key, measurement.status, seconds, measurement.explanation, measurement.spent)
        with self._open() as connection, connection:
            connection.execute("INSERT OR REPLACE INTO measurements VALUES (?, ?, ?, ?, ?)", row)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=WAIT_SECONDS)) as connection:
                connection.execute(TABLE)
                yield connection
        except (OSError, sqlite3.Error) as error:
            raise DataError(f"{self.path}: no cache of measurements: {error}") from error
