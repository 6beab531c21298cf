"""Files that take long to make, shards of data and trained surrogates, by what decides them.

```
files/ADDRESS/SHA256       a file, named by its content
files/ADDRESS/made.json    the files' own names, and what is said of them; written last
```

ADDRESS is of all that decides the files. Where two make the same at once, both write what they
have, and the one whose `made.json` came last counts: it names the files that it wrote itself.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from mapspace.bounded_reading import LARGEST_FILE, parse_json, read_bytes
from mapspace.errors import DataError, MapspaceError
from mapspace.storage import Place, file_ages, folders, write_atomically
from mapspace.strict_yaml import StrictModel, validate
from orchestrator.store.canonical import digest
from orchestrator.store.folder import FILES, Store

MADE = "made.json"
# No separators: what is taken out of a store stays in the folder that it is taken to.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Made(StrictModel):
    """What lies at an address."""

    format: Literal[1] = 1
    """Version of this layout."""
    what: str
    """For people, such as a shard of data."""
    files: Annotated[dict[Name, Sha256], Field(min_length=1, max_length=64)]
    """Checksums by the names that the files have where they are used."""
    said: dict[str, Any]
    """What else is known of them, as JSON types."""
    stored: float
    """When, in seconds since 1970."""


def keep_files(
    store: Store, content: Mapping[str, Any], what: str, files: Iterable[Place], said: Any = None
) -> bool:
    """Keeps files under the address of what decides them.

    Args:
        store: the store.
        content: all that decides the files, as JSON types.
        what: for people.
        files: whole files, told apart by their names.
        said: what else is known of them, as JSON types.

    Returns:
        Whether that could be done; else a line says why not.
    """
    folder = _folder(content)
    try:
        store.begin()
        sums = {}
        for file in files:
            found = read_bytes(file)
            sums[file.name] = hashlib.sha256(found).hexdigest()
            there = store.file(f"{folder}/{sums[file.name]}")
            if not there.exists():
                store.write(f"{folder}/{sums[file.name]}", found)
        made = Made(what=what, files=sums, said=said or {}, stored=time.time())
        store.write(f"{folder}/{MADE}", made.model_dump_json().encode())
    except (OSError, MapspaceError) as error:
        store.tell(f"{store.place}: cannot be written, so nothing is kept: {error}")
        return False
    return True


def take_files(store: Store, content: Mapping[str, Any], folder: Place) -> Made | None:
    """Copies the files of an address into a folder, each whole or not at all.

    Args:
        store: the store.
        content: all that decides the files, as JSON types.
        folder: takes them; the last one that `keep_files` was given comes last.

    Returns:
        What they are; None where there are none, or one is damaged, which a line says.
    """
    path = f"{_folder(content)}/{MADE}"
    try:
        made = store.read(path, _read)
        if made is None:
            return None
        for name, checksum in made.files.items():
            file = store.file(f"{_folder(content)}/{checksum}")
            found = store.read(f"{_folder(content)}/{checksum}", _checked)
            if found is None:
                file.unlink(missing_ok=True)
                return None
            write_atomically(folder / name, found)
    except FileNotFoundError:
        return None
    except (OSError, MapspaceError) as error:
        store.tell(f"{store.place}: nothing is taken from it: {error}")
        return None
    return made


def nameless(store: Store) -> Iterator[tuple[str, float]]:
    """Files that no `made.json` names, with their ages in seconds."""
    for address in folders(store.place / FILES):
        folder = f"{FILES}/{address}"
        ages = file_ages(store.file(folder))
        try:
            made = store.read(f"{folder}/{MADE}", _read) if MADE in ages else None
        except FileNotFoundError:
            made = None
        named = {MADE, *(made.files.values() if made is not None else ())}
        for name, age in ages.items():
            if name not in named:
                yield f"{folder}/{name}", age


def _folder(content: Mapping[str, Any]) -> str:
    return f"{FILES}/{digest(content)[:32]}"


def _read(file: Place) -> Made:
    content = parse_json(read_bytes(file, LARGEST_FILE), str(file), DataError)
    return validate(Made, content, str(file), DataError)


def _checked(file: Place) -> bytes:
    """The content of a file that its name must fit."""
    found = read_bytes(file)
    if hashlib.sha256(found).hexdigest() != file.name:
        raise DataError(f"{file}: the file is damaged (its content is not what its name says).")
    return found
