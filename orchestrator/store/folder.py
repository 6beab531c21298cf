"""The store's folder: many writers at once, no lock; nothing that was written is ever changed.

```
store.json                        what this is
new/QUESTION/ID.json              a row, named by its content
rows/NAME.parquet                 many rows, sorted by question
certificates/ID.json              certificates as they are, named by their content
removed/NAME.json                 ids of rows that count no more
files/ADDRESS/NAME                files that were made (`orchestrator.store.made_files`)
```

Files appear whole or not at all, under names that nobody else gives. Rows are brought together by
writing them once more, then removing the files that they came from: whoever stops in between
leaves rows twice, which count once. A reader looks at single rows before Parquet files, so that it
sees every row at one of the two places; a file that goes while it looks makes it look again.
"""

from __future__ import annotations

import errno
import json
import math
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mapspace.bounded_reading import LARGEST_FILE, parse_json, read_bytes, read_json
from mapspace.errors import ConfigError, DataError, MapspaceError
from mapspace.extras import install, is_installed
from mapspace.storage import Place, file_sizes, folders, make_folder, write_atomically
from orchestrator.store.parquet import new_name, parquet_bytes, rows_in, rows_with
from orchestrator.store.rows import Row, content_id, read_row

FORMAT = "mapspace-store-1"
MARKER = "store.json"
NEW, ROWS, CERTIFICATES, REMOVED = "new", "rows", "certificates", "removed"
FILES = "files"
# So many rows at once are a Parquet file; fewer are files of their own.
MANY = 64
ATTEMPTS = 20

Say = Callable[[str], None]
Found = TypeVar("Found")


def warn(line: str) -> None:
    """Prints a line about the store for a person."""
    print(f"store: {line}", file=sys.stderr, flush=True)


@dataclass
class Store:
    """A place where answers are kept.

    Attributes:
        place: the folder, a path or a URI.
        say: takes a line where something cannot be read or written.
    """

    place: Place
    say: Say = warn
    _said: set[str] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Looks whether this is a store, or can become one.

        Raises:
            ConfigError: it holds something else, or a store of another version.
        """
        marker = self.place / MARKER
        if not marker.exists():
            if isinstance(self.place, Path) and self.place.exists() and not self.place.is_dir():
                raise ConfigError(f"{self.place}: expected a folder for a store, found a file.")
            there = [*file_sizes(self.place), *folders(self.place)]
            # Another process may be making it: the marker first, of which a part has such a name.
            if all(name.startswith(f".{MARKER}.") for name in there):
                return
            if not marker.exists():
                raise ConfigError(
                    f"{self.place}: expected a store or an empty folder, found other files."
                )
        found = read_json(marker)
        name = found.get("format") if isinstance(found, dict) else None
        if name != FORMAT:
            raise ConfigError(
                f"{marker}: expected a store of format {FORMAT!r}, got {name!r}; name another one "
                "with --store or MAPSPACE_STORE, or leave it out with --no-store."
            )
        # All of a bucket's objects would be listed.
        if isinstance(self.place, Path):
            self._name_strangers(self.place)
            self._name_strangers(self.place / NEW)

    def rows(self, questions: Collection[str]) -> list[Row]:
        """All rows that answer some questions, each once; a line says what cannot be read."""
        asked = sorted(questions)
        return self._found(lambda: self._rows(asked, lambda file: list(rows_in(file, asked))))

    def rows_with(self, **equal: str) -> list[Row]:
        """All rows whose columns have some texts, as `rows`: `rows_with(objective="edp")`."""

        def found() -> Iterator[Row]:
            questions = folders(self.place / NEW)
            for row in self._rows(questions, lambda file: list(rows_with(file, equal))):
                if all(getattr(row, name) == text for name, text in equal.items()):
                    yield row

        return self._found(found)

    def _found(self, look: Callable[[], Iterable[Row]]) -> list[Row]:
        try:
            for _ in range(ATTEMPTS):
                # Whoever brings rows together removes what was listed here.
                with suppress(FileNotFoundError):
                    removed = self.removed()
                    found = {row.id: row for row in look()}
                    return [row for row in found.values() if row.id not in removed]
            raise MapspaceError("its files keep changing.")
        except (OSError, MapspaceError) as error:
            self.tell(f"{self.place}: nothing is taken from it: {error}")
            return []

    def add(self, rows: Sequence[Row], certificates: Iterable[str] = ()) -> bool:
        """Keeps rows, and the certificates that they name.

        Args:
            rows: the rows.
            certificates: texts of certificates.

        Returns:
            Whether that could be done; else a line says why not.
        """
        try:
            self.begin()
            for text in certificates:
                content = text.encode()
                self.write(f"{CERTIFICATES}/{content_id(content)}.json", content)
            if len(rows) >= MANY and is_installed("pyarrow"):
                self.write_parquet(parquet_bytes(rows))
            else:
                for row in rows:
                    self.write(f"{NEW}/{row.question}/{row.name}.json", row.text().encode())
        except (OSError, MapspaceError) as error:
            self.tell(f"{self.place}: cannot be written, so nothing is kept: {error}")
            return False
        return True

    def where(self, row: Row) -> str:
        """For people: where a row is, and when it was found."""
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(row.stored))
        return f"{self.place}, found on {when}"

    def certificate(self, row: Row) -> str:
        """The text of a row's certificate.

        Raises:
            DataError: it is missing or damaged.
        """
        file = self.place / CERTIFICATES / str(row.certificate)
        try:
            content = read_bytes(file, LARGEST_FILE)
        except OSError as error:
            raise DataError(f"{file}: cannot be read: {error.strerror or error}.") from error
        if f"{content_id(content)}.json" != row.certificate:
            raise DataError(f"{file}: the file is damaged (its content is not what its name says).")
        return content.decode()

    def removed(self) -> set[int]:
        """Ids of rows that count no more."""
        found: set[int] = set()
        for path in self.listed(REMOVED, ".json"):
            # One goes after its rows have gone: these are read after it.
            with suppress(FileNotFoundError):
                found.update(self.read(path, read_ids) or ())
        return found

    def remove(self, ids: Sequence[int]) -> None:
        """Lets rows count no more."""
        self.begin()
        self.write(f"{REMOVED}/{uuid.uuid4().hex}.json", json.dumps(sorted(ids)).encode())

    def write_parquet(self, content: bytes) -> None:
        """Writes a Parquet file of rows under a name that nobody else gives."""
        self.write(f"{ROWS}/{new_name(content)}", content)

    def listed(self, folder: str, suffix: str) -> list[str]:
        """Paths in the store of a folder's files; what is none of the store's is named."""
        found = []
        for name in sorted(file_sizes(self.place / folder)):
            if name.endswith(suffix) and not name.startswith("."):
                found.append(f"{folder}/{name}")
            elif not name.endswith(".tmp"):
                self._name_stranger(self.file(f"{folder}/{name}"))
        return found

    def _name_strangers(self, folder: Path) -> None:
        """Names the files of a folder of folders."""
        for name in sorted(file_sizes(folder)):
            if name != MARKER and not name.endswith(".tmp"):
                self._name_stranger(folder / name)

    def _name_stranger(self, file: Place) -> None:
        self.tell(f"{file}: is none of the store's files; it is left alone.")

    def read(self, path: str, how: Callable[[Place], Found]) -> Found | None:
        """What a file holds; None where it is damaged, which a line says.

        Raises:
            FileNotFoundError: it is not there any more.
        """
        try:
            return how(self.file(path))
        except FileNotFoundError:
            raise
        except DataError as error:
            self.tell(f"{error} What it held is computed anew.")
            return None

    def file(self, path: str) -> Place:
        """The file of a path in the store."""
        found = self.place
        for part in path.split("/"):
            found = found / part
        return found

    def single(self, question: str) -> Iterator[tuple[str, Row]]:
        """The rows of a question that have files of their own, with their paths."""
        for path in self.listed(f"{NEW}/{question}", ".json"):
            row = self.read(path, read_row)
            if row is not None:
                yield path, row

    def tell(self, line: str) -> None:
        """Says a line, once."""
        if line not in self._said:
            self._said.add(line)
            self.say(line)

    def write(self, path: str, content: bytes) -> None:
        """Writes a file whole, in a folder that is made if it is not there."""
        file = self.file(path)
        for _ in range(ATTEMPTS):
            make_folder(file.parent)
            try:
                write_atomically(file, content)
                return
            except OSError as error:
                # Whoever brings rows together may remove the folder in between.
                if error.errno != errno.ENOENT:
                    raise
        raise MapspaceError(f"{file}: its folder keeps vanishing.")

    def _rows(self, questions: Sequence[str], read: Callable[[Place], list[Row]]) -> Iterator[Row]:
        """The single rows of some questions, then what is read of every Parquet file."""
        there = set(folders(self.place / NEW)) if len(questions) > 1 else set(questions)
        for question in filter(there.__contains__, questions):
            for _, row in self.single(question):
                yield row
        paths = self.listed(ROWS, ".parquet")
        if paths and not is_installed("pyarrow"):
            self.tell(
                f"{self.place}: {len(paths)} of its files need pyarrow: {install('store')}; what "
                "they hold is computed anew."
            )
            return
        for path in paths:
            # In a list: a damaged file counts for nothing, as a whole.
            yield from self.read(path, read) or ()

    def begin(self) -> None:
        """Says in the folder what it is, where nothing does."""
        marker = self.place / MARKER
        if not marker.exists():
            make_folder(self.place)
            write_atomically(marker, (json.dumps({"format": FORMAT}) + "\n").encode())


def rank(row: Row) -> tuple[bool, float, float]:
    """The best row first: a proven one, then the least value, then the earliest."""
    return not row.proven, math.inf if row.value is None else row.value, row.stored


def read_ids(file: Place) -> list[int]:
    """The ids of a file of rows that count no more.

    Raises:
        DataError: it is damaged.
    """
    found = parse_json(read_bytes(file, LARGEST_FILE), str(file), DataError)
    if not isinstance(found, list) or not all(type(entry) is int for entry in found):
        raise DataError(f"{file}: expected a list of ids.")
    return found
