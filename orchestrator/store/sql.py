"""Questions to a store in SQL: views of its rows, and nothing else that DuckDB could do."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapspace.errors import ConfigError, DataError, MapspaceError
from mapspace.storage import folders, opened
from orchestrator.store.folder import ATTEMPTS, NEW, ROWS, Store
from orchestrator.store.parquet import check_description, row_groups, schema
from orchestrator.store.rows import COLUMNS

if TYPE_CHECKING:
    from mapspace.storage import Place
    from orchestrator.store.rows import Row

# What makes an answer again is for no view.
SHOWN = ("id", *(name for name in COLUMNS if name not in ("payload", "stored")))
# `stored` as a moment; every other column as it is.
SELECTED = ", ".join([*SHOWN, "make_timestamp((stored * 1000000)::BIGINT) AS stored"])
VIEWS = {
    "results": "true",
    "searches": "kind IN ('search', 'run')",
    "proofs": "certificate IS NOT NULL OR kind = 'front'",
}
# What an answer may take; whoever asks may be an agent, or have slipped.
MOST_ROWS, MOST_TEXT, MOST_SECONDS, MOST_MEMORY = 1_000_000, 256 << 20, 60.0, "2GB"
# No limit of memory counts the texts that they make, and no interruption ends them.
UNBOUNDED = frozenset(
    {"repeat", "lpad", "rpad", "list_resize", "array_resize", "printf", "format", "bar"}
)
# So other ways to make them, such as to replace a letter by many again and again, find no room.
MOST_ADDRESSES = 3 << 30
# Functions that make a table out of nothing but their arguments.
HARMLESS = frozenset({"generate_series", "range", "unnest"})


@dataclass(frozen=True)
class Answer:
    """What a question comes to.

    Attributes:
        columns: their names.
        rows: their values.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def objects(self) -> list[dict[str, Any]]:
        """An object per row, for JSON."""
        return [dict(zip(self.columns, map(_plain, row), strict=True)) for row in self.rows]


class Database:
    """The rows of a store as views of DuckDB."""

    def __init__(self, store: Store) -> None:
        """Opens the store.

        Raises:
            MapspaceError: it cannot be read.
        """
        self._store = store
        self._left_out: set[str] = set()
        self._files: list[Place] = []
        self._open()

    def ask(self, sql: str, values: Sequence[Any] = ()) -> Answer:
        """The answer to one SELECT statement over the views.

        Args:
            sql: the statement.
            values: of its parameters.

        Raises:
            ConfigError: it is something else, or wrong; one line says what.
        """
        import duckdb

        check(self._database, sql)
        wrong = (duckdb.ProgrammingError, duckdb.DataError, duckdb.PermissionException)
        while True:
            try:
                with self._in_time(), _in_memory():
                    found = self._database.execute(sql, list(values))
                    return Answer(tuple(part[0] for part in found.description), _rows(found))
            except (MemoryError, duckdb.OutOfMemoryException):
                raise ConfigError(
                    f"SQL: expected a statement that takes at most {MOST_MEMORY}; ask for less."
                ) from None
            except duckdb.InterruptException:
                raise ConfigError(
                    f"SQL: expected a statement of at most {MOST_SECONDS:g} s; ask for less."
                ) from None
            except duckdb.Error as error:
                # A file that was opened and cannot be read on: named, left out, asked again.
                damaged = not isinstance(error, wrong) and self._leave_out_damaged()
                if not (damaged or self._has_changed()):
                    raise ConfigError(f"SQL: {_line(error)}") from None
            self._open()

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Ends what takes too long."""
        timer = threading.Timer(MOST_SECONDS, self._database.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            # It holds the database, which must not be left to a thread that outlives Python.
            timer.join()

    def _open(self) -> None:
        for _ in range(ATTEMPTS):
            # Whoever brings rows together removes what was listed.
            with suppress(FileNotFoundError):
                self._open_listed()
                return
        raise MapspaceError(f"{self._store.place}: its files keep changing.")

    def _open_listed(self) -> None:
        import duckdb

        self._database = database = duckdb.connect(":memory:")
        database.execute(f"SET memory_limit = '{MOST_MEMORY}'")
        database.execute("SET temp_directory = ''")
        removed = self._store.removed()
        single = list(self._single())
        paths = [p for p in self._store.listed(ROWS, ".parquet") if p not in self._left_out]
        sources = []
        if single:
            database.register("single", _table(single))
            sources.append(f"SELECT {SELECTED} FROM single")
        self._files = files = [self._store.file(p) for p in paths if self._is_readable(p)]
        if files and isinstance(self._store.place, Path):
            listed = ", ".join(_quoted(str(file)) for file in files)
            database.execute(f"SET allowed_paths = [{listed}]")
            sources.append(f"SELECT {SELECTED} FROM read_parquet([{listed}])")
        elif files:
            database.register("remote", _dataset(files))
            sources.append(f"SELECT {SELECTED} FROM remote")
        if not sources:
            database.register("nothing", _table([]))
            sources.append(f"SELECT {SELECTED} FROM nothing")
        database.execute(f"CREATE VIEW every_row AS {' UNION ALL '.join(sources)}")
        try:
            count, different = database.execute(
                "SELECT count(*), count(DISTINCT id) FROM every_row"
            ).fetchone()
        except duckdb.Error as error:
            if not (self._has_changed() or self._leave_out_damaged()):
                raise MapspaceError(f"{self._store.place}: {_line(error)}") from error
            raise FileNotFoundError from error  # to be listed anew
        # Whoever brought rows together and was stopped has left some twice.
        once = " QUALIFY row_number() OVER (PARTITION BY id) = 1" if count > different else ""
        database.execute("CREATE TABLE removed (id BIGINT)")
        if removed:
            database.executemany("INSERT INTO removed VALUES (?)", [[entry] for entry in removed])
        gone = "id NOT IN (SELECT id FROM removed)" if removed else "true"
        for name, which in VIEWS.items():
            database.execute(
                f"CREATE VIEW {name} AS SELECT * FROM every_row WHERE ({which}) AND {gone}{once}"
            )
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")

    def _single(self) -> Iterator[Row]:
        for question in folders(self._store.place / NEW):
            for _, row in self._store.single(question):
                yield row

    def _is_readable(self, path: str) -> bool:
        """Whether a Parquet file has the columns of a store; else it is named, and left out."""
        import duckdb

        file = self._store.file(path)
        if not isinstance(file, Path):
            return not self._checked(path)
        try:
            with opened(file) as source:
                check_description(file, source)
            found = self._database.execute(
                "DESCRIBE SELECT * FROM read_parquet(?)", [str(file)]
            ).fetchall()
            if [column[0] for column in found] == ["id", *COLUMNS]:
                return True
            why = f"{file}: expected the columns of a store, found other ones."
        except duckdb.Error as error:
            if not file.exists():
                raise FileNotFoundError from error
            why = f"{file}: the file is damaged ({_line(error)})."
        except DataError as error:
            why = str(error)
        self._store.tell(f"{why} It is left out.")
        self._left_out.add(path)
        return False

    def _has_changed(self) -> bool:
        """Whether a file that was opened is there no more."""
        return not all(file.exists() for file in self._files)

    def _leave_out_damaged(self) -> bool:
        """Whether Parquet files cannot be read to their ends; each is named, and left out."""
        paths = self._store.listed(ROWS, ".parquet")
        damaged = {path for path in paths if self._checked(path)}
        self._left_out |= damaged
        return bool(damaged)

    def _checked(self, path: str) -> bool:
        """Whether a Parquet file is damaged, which a line says."""
        if path in self._left_out:
            return False
        return self._store.read(path, lambda file: sum(1 for _ in row_groups(file))) is None


@contextmanager
def _in_memory() -> Iterator[None]:
    """Leaves this process no more than MOST_ADDRESSES beyond what it has, on Linux."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + MOST_ADDRESSES
    tighter = before == resource.RLIM_INFINITY or most < before
    try:
        if tighter:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def check(database: Any, sql: str) -> None:
    """Refuses what is not one SELECT over views.

    Raises:
        ConfigError: one line says what it is.
    """
    found = json.loads(database.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()[0])
    if found["error"]:
        message = " ".join(str(found["error_message"]).split())
        if message.startswith("Only SELECT"):
            message = "expected one SELECT statement over the views " + ", ".join(VIEWS)
        raise ConfigError(f"SQL: {message}.")
    if len(found["statements"]) != 1:
        raise ConfigError(f"SQL: expected one SELECT statement, got {len(found['statements'])}.")
    for name, is_table in _functions(found):
        if is_table and name not in HARMLESS:
            raise ConfigError(f"SQL: {name}: only the views {', '.join(VIEWS)} can be read.")
        if name in UNBOUNDED:
            raise ConfigError(f"SQL: {name}: expected no function that makes texts or lists long.")


def _functions(node: Any, is_table: bool = False) -> Iterator[tuple[str, bool]]:
    """Names of the functions of a statement, and whether it reads them as tables."""
    if isinstance(node, dict):
        if "function_name" in node:
            yield str(node["function_name"]).lower(), is_table
        for key, part in node.items():
            # Of a table alone; whatever else comes to have one is refused, too.
            yield from _functions(part, key == "function")
    elif isinstance(node, list):
        for part in node:
            yield from _functions(part)


def _rows(found: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer, which DuckDB makes as they are fetched.

    Raises:
        ConfigError: there are too many, or too long ones.
    """
    rows: list[tuple[Any, ...]] = []
    text = 0
    while some := found.fetchmany(10_000):
        rows += some
        text += sum(len(value) for row in some for value in row if isinstance(value, str | bytes))
        if len(rows) > MOST_ROWS or text > MOST_TEXT:
            raise ConfigError(
                f"SQL: expected at most {MOST_ROWS:,} rows and {MOST_TEXT:,} characters; ask for "
                "less, as with LIMIT."
            )
    return rows


def _table(rows: Sequence[Row]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(
        [{"id": row.id, **row.model_dump()} for row in rows], schema=schema()
    )


def _dataset(files: Sequence[Any]) -> Any:
    import pyarrow.dataset as ds

    return ds.dataset(
        [file.key for file in files], filesystem=files[0].filesystem, format="parquet"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _line(error: Exception) -> str:
    """What DuckDB says, in one line; the second one points at a place."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__


def _plain(value: Any) -> Any:
    """A value of DuckDB as JSON has it; NaN and infinities are null, moments text (UTC)."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    return str(value)
