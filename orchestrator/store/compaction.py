"""Brings the rows of a store together, and throws away what counts no more.

Rows are written once more before the files that they came from are removed, and a file that could
not be read is never removed for that. Several may do so at once: what two of them write twice
counts once, as a row is named by its content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mapspace.arrow_columns import column
from mapspace.errors import MapspaceError
from mapspace.extras import is_installed
from mapspace.storage import Place, file_ages, file_sizes, folders
from orchestrator.store.folder import ATTEMPTS, CERTIFICATES, NEW, REMOVED, ROWS, Store, read_ids
from orchestrator.store.made_files import nameless
from orchestrator.store.parquet import parquet_bytes, row_groups, schema, table_bytes
from orchestrator.store.rows import Row, read_row

# Parquet files below so many bytes are brought together once there are so many of them.
SMALL_BYTES, SMALL_FILES = 32 << 20, 8
# Questions with files of their own that are brought together without being asked to, and small
# Parquet files likewise: a search that runs for hours writes one every few seconds.
CROWDED, CROWDED_SMALL = 1000, 64
# What nobody names is left alone for so long: somebody may be about to name it.
GRACE_SECONDS = 3600.0


@dataclass
class Cleared:
    """What was done.

    Attributes:
        rows: rows that were brought together.
        removed: rows that are gone as they count no more.
        certificates: certificates that are gone as no row names them.
        damaged: damaged files that are gone.
        leftovers: files that are gone as somebody began and did not finish them.
    """

    rows: int = 0
    removed: int = 0
    certificates: int = 0
    damaged: int = 0
    leftovers: int = 0

    def to_dict(self) -> dict[str, int]:
        """As JSON has it."""
        return asdict(self)


def tidy(store: Store) -> None:
    """Brings rows together where there are many files; a line says why it cannot."""
    if not isinstance(store.place, Path) or not is_installed("pyarrow"):
        return
    try:
        sizes = file_sizes(store.place / ROWS).values()
        small = sum(size < SMALL_BYTES for size in sizes)
        if small >= CROWDED_SMALL or len(folders(store.place / NEW)) >= CROWDED:
            compact(store)
    except (OSError, MapspaceError) as error:
        store.tell(f"{store.place}: its rows cannot be brought together: {error}")


def compact(store: Store) -> Cleared:
    """Brings single rows together in a Parquet file, and small Parquet files in a larger one.

    Raises:
        OSError: it cannot be written.
        MapspaceError: likewise.
    """
    removed = store.removed()
    single: dict[str, Row] = {}
    for question in folders(store.place / NEW):
        with suppress(FileNotFoundError):  # somebody else brings these together
            single |= dict(store.single(question))
    sizes = file_sizes(store.place / ROWS)
    names = [path.rpartition("/")[2] for path in store.listed(ROWS, ".parquet")]
    small = [name for name in names if sizes.get(name, 0) < SMALL_BYTES]
    tables = {}
    if len(small) + bool(single) >= SMALL_FILES:
        for name in small:
            with suppress(FileNotFoundError):
                table = store.read(f"{ROWS}/{name}", _table)
                if table is not None:
                    tables[f"{ROWS}/{name}"] = table
    return _rewrite(store, single, tables, removed)


def clear(store: Store, *, grace: float = GRACE_SECONDS) -> Cleared:
    """Brings rows together, and removes what counts no more: `mapspace results gc`.

    Args:
        store: the store.
        grace: how old a file that nobody names must be to be removed, s.

    Raises:
        OSError: the store cannot be read or written.
        MapspaceError: likewise.
    """
    done = compact(store)
    removed = store.removed()
    seen = _look(store, removed)
    gone: set[int] = set()
    for path in seen.outdated:
        table = _read(store, path, _table, [])
        if table is not None:
            _rewrite(store, {}, {path: table}, removed)
            gone |= removed & set(table["id"].to_pylist())
    done.removed += len(gone)
    for path in seen.damaged:
        store.file(path).unlink(missing_ok=True)
    done.damaged = len(seen.damaged)
    for path in _old(store, CERTIFICATES, ".json", grace):
        if path.rpartition("/")[2] not in seen.certificates:
            store.file(path).unlink(missing_ok=True)
            done.certificates += 1
    # Somebody may have read a row before it counted no more, and write it once more.
    for path in _old(store, REMOVED, ".json", grace):
        if not seen.ids & set(_read(store, path, read_ids, []) or ()):
            store.file(path).unlink(missing_ok=True)
    for folder in ("", ROWS, CERTIFICATES, REMOVED, *_new_folders(store)):
        for path in _old(store, folder, ".tmp", grace):
            store.file(path).unlink(missing_ok=True)
            done.leftovers += 1
    for path, age in nameless(store):
        if age >= grace:
            store.file(path).unlink(missing_ok=True)
            done.leftovers += 1
    _remove_empty(store)
    return done


@dataclass
class _Seen:
    """What a store's rows name, and what is to be done about their files."""

    certificates: set[str] = field(default_factory=set)
    ids: set[int] = field(default_factory=set)
    outdated: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def _look(store: Store, removed: set[int]) -> _Seen:
    """Looks at every row: single ones first, as readers do, and again where a file has gone.

    Raises:
        MapspaceError: files keep going.
    """
    for _ in range(ATTEMPTS):
        # Whoever brings rows together has moved some to where was looked already.
        with suppress(FileNotFoundError):
            return _look_once(store, removed)
    raise MapspaceError(f"{store.place}: its files keep changing.")


def _look_once(store: Store, removed: set[int]) -> _Seen:
    seen = _Seen()
    for question in folders(store.place / NEW):
        for path in store.listed(f"{NEW}/{question}", ".json"):
            row = store.read(path, read_row)
            if row is None:
                seen.damaged.append(path)
            else:
                seen.certificates.add(str(row.certificate))
    for path in store.listed(ROWS, ".parquet"):
        table = store.read(path, _table)
        if table is None:
            seen.damaged.append(path)
            continue
        ids = set(table["id"].to_pylist())
        seen.ids |= ids
        if removed & ids:
            seen.outdated.append(path)
        seen.certificates.update(filter(None, table["certificate"].to_pylist()))
    return seen


def _rewrite(
    store: Store, single: dict[str, Row], tables: dict[str, Any], removed: set[int]
) -> Cleared:
    """Writes rows once more, without those that count no more, and removes where they were."""
    import pyarrow as pa

    if not single and not tables:
        return Cleared()
    parts = list(tables.values())
    if single:
        parts.append(_table_of(parquet_bytes(single.values())))
    merged = pa.concat_tables(parts)
    first: dict[int, int] = {}
    for position, row_id in enumerate(merged["id"].to_pylist()):
        first.setdefault(row_id, position)
    places = [place for row_id, place in first.items() if row_id not in removed]
    kept = merged.take(column(places, pa.int64()))
    if kept.num_rows:
        store.write_parquet(table_bytes(kept))
    for path in (*single, *tables):
        store.file(path).unlink(missing_ok=True)
    _remove_empty(store)
    return Cleared(rows=kept.num_rows, removed=len(first) - kept.num_rows)


def _read(store: Store, path: str, how: Callable[[Place], Any], damaged: list[str]) -> Any:
    """What a file holds; None where it is gone, or damaged, which is noted."""
    try:
        found = store.read(path, how)
    except FileNotFoundError:
        return None
    if found is None:
        damaged.append(path)
    return found


def _table(file: Place) -> Any:
    import pyarrow as pa

    return pa.concat_tables([schema().empty_table(), *row_groups(file)])


def _table_of(content: bytes) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.read_table(pa.BufferReader(content))


def _old(store: Store, folder: str, suffix: str, grace: float) -> Iterator[str]:
    """Files of a folder that are older than that."""
    ages = file_ages(store.file(folder) if folder else store.place)
    for name, age in sorted(ages.items()):
        if name.endswith(suffix) and age >= grace and (folder or suffix == ".tmp"):
            yield f"{folder}/{name}" if folder else name


def _new_folders(store: Store) -> list[str]:
    return [f"{NEW}/{question}" for question in folders(store.place / NEW)]


def _remove_empty(store: Store) -> None:
    """Removes the folders of questions that have no file any more; object storage has none."""
    if isinstance(store.place, Path):
        for folder in _new_folders(store):
            with suppress(OSError):  # somebody writes to it
                (store.place / folder).rmdir()
