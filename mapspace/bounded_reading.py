"""Files that somebody else wrote: bounded reading of bytes, text, JSON, JSON lines and YAML.

Whatever a file holds, reading it ends soon, takes bounded memory and never overflows the stack of a
parser: size, length of a line, depth of brackets, digits of a number and what YAML's aliases expand
to have limits far above every honest file. What goes beyond is one line of an error, and so is what
is no file: nobody waits for a pipe, and nothing is read of a device.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn, Protocol, cast

import yaml

from mapspace.errors import ConfigError, DataError, MapspaceError

SMALL = 1 << 16
"""Bytes that are read of a file whatever size it says."""
LARGEST_FILE = 64 << 20
"""Bytes of a text: records, certificates, descriptions of machines."""

LARGEST_BINARY = 1 << 30
"""Bytes of what no person reads: weights, states of searches, a shard of data."""

LARGEST_UNPACKED = 4 << 30
"""Bytes that a compressed file of lines may hold."""

LONGEST_LINE = 16 << 20

MOST_BLANK = 1 << 20
"""Bytes of all lines of a file together that hold nothing: whoever wants records waits for them."""

DEEPEST = 100
LONGEST_NUMBER = 100

MOST_VALUES = 4_000_000
"""Values of a JSON text: an empty list takes 30 times the memory of its two brackets."""

MOST_NODES = 200_000
"""Values of a YAML text. What aliases stand for is counted each time: a small file could expand to
more than memory holds."""

_GZIP = b"\x1f\x8b"
_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"|([\[{])|[\]}]', re.DOTALL)
_LONG_NUMBER = re.compile(rf"[0-9]{{{LONGEST_NUMBER}}}")
# Quicker by far than Python's own, and the same events.
_Parser: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Readable(Protocol):
    """A file of object storage."""

    def read_start(self, most: int) -> bytes:
        """The content, or as much of its start."""
        ...


def read_bytes(
    path: Path | Readable, most: int = LARGEST_BINARY, kind: type[MapspaceError] = DataError
) -> bytes:
    """The content of a file of a bounded size.

    Args:
        path: a local path, or a file of object storage.
        most: bytes that it may have; no more are read.
        kind: the error to raise.

    Raises:
        FileNotFoundError: it is not there.
        kind: it cannot be read, is too large or no file; it is named.
    """
    try:
        if isinstance(path, Path):
            with open_file(path, kind) as file:
                # Before any of it is read, where the file says how large it is.
                size = os.fstat(file.fileno()).st_size
                # No more at a time: as much would be set aside. Of some files the size is unknown.
                some = min(most, max(size, SMALL)) + 1
                content = b"" if size > most else file.read(some)
                size = max(size, len(content))
        else:
            content = path.read_start(most + 1)
            size = len(content)
    except (FileNotFoundError, MapspaceError):
        raise
    except OSError as error:
        raise kind(f"{path}: cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise kind(f"{str(path)!r}: is no path: {error}.") from error
    if size > most:
        raise kind(f"{path}: expected at most {most:,} bytes.")
    return content


def check_file(path: Path, kind: type[MapspaceError] = ConfigError) -> None:
    """Refuses what is no file that can be read, as what it is.

    Raises:
        kind: there is no such file, it is a folder, a pipe or a device, or it cannot be opened.
    """
    try:
        with open_file(path, kind):
            pass
    except FileNotFoundError:
        raise kind(f"{path}: there is no such file.") from None
    except OSError as error:
        raise kind(f"{path}: cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        if isinstance(error, MapspaceError):
            raise
        raise kind(f"{str(path)!r}: is no path: {error}.") from error


@contextmanager
def open_file(path: Path, kind: type[MapspaceError] = DataError) -> Iterator[BinaryIO]:
    """A file that is open to be read.

    Raises:
        OSError: it cannot be opened.
        kind: it is a pipe or a device.
    """
    # Whoever opens a pipe otherwise waits until somebody writes to it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise kind(f"{path}: expected a file, found a pipe or a device.")
        yield file


def read_text(path: Path | Readable, kind: type[MapspaceError] = ConfigError) -> str:
    """The text of a file of at most `LARGEST_FILE` bytes.

    Args:
        path: a local path, or a file of object storage.
        kind: the error to raise.

    Raises:
        kind: the file is missing, cannot be read, is too large or no UTF-8; it is named.
    """
    try:
        content = read_bytes(path, LARGEST_FILE, kind)
    except FileNotFoundError as error:
        raise kind(f"{path}: cannot be read: {error.strerror or error}.") from error
    return _decoded(content, str(path), kind)


def read_json(path: Path | Readable, kind: type[MapspaceError] = ConfigError) -> Any:
    """The content of a JSON file.

    Args:
        path: a local path, or a file of object storage.
        kind: the error to raise.

    Raises:
        kind: the file cannot be read, or `parse_json` refuses it; it is named.
    """
    return parse_json(read_text(path, kind), str(path), kind)


def parse_json(text: str | bytes, where: str, kind: type[MapspaceError] = ConfigError) -> Any:
    """What a JSON text says.

    Args:
        text: the text.
        where: what the message starts with, such as the file's name.
        kind: the error to raise.

    Raises:
        kind: the text is no JSON (NaN and Infinity are none), too long, holds too many values, is
            nested too deeply, or has a number of too many digits.
    """
    if isinstance(text, bytes):
        text = _decoded(text, where, kind)
    if len(text) > MOST_VALUES and sum(map(text.count, "[{,")) > MOST_VALUES:
        raise kind(f"{where}: expected at most {MOST_VALUES:,} values.")
    _check_brackets(text, where, kind)
    # Called for every number, which would take half of the time.
    hook = _whole_number if _LONG_NUMBER.search(text) else None
    try:
        return json.loads(text, parse_int=hook, parse_constant=_no_number)
    except ValueError as error:
        raise kind(f"{where}: not JSON: {error}.") from None


def json_lines(path: Path, kind: type[MapspaceError] = ConfigError) -> Iterator[tuple[int, Any]]:
    """The values of a file of JSON lines, with the numbers of their lines, from 1.

    Empty lines are left out. No more than one line is held in memory.

    Args:
        path: the file, compressed if its name ends in `.gz`.
        kind: the error to raise.

    Raises:
        DataError: the file cannot be read or decompressed.
        kind: a name that ends in `.gz` of a file that is none; a line is too long or `parse_json`
            refuses it: `file:line: why`.
    """
    number, size, blank = 0, 0, 0
    try:
        with open_file(path, kind) as plain, _unpacked(plain, path, kind) as file:
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                size += len(line)
                where = f"{path}:{number}"
                if len(line) > LONGEST_LINE:
                    raise kind(f"{where}: expected at most {LONGEST_LINE:,} bytes in a line.")
                if file is not plain and size > LARGEST_UNPACKED:
                    raise kind(f"{where}: expected at most {LARGEST_UNPACKED:,} bytes, unpacked.")
                if line.strip():
                    yield number, parse_json(line, where, kind)
                    continue
                blank += len(line)
                if blank > MOST_BLANK:
                    raise kind(f"{where}: expected at most {MOST_BLANK:,} bytes of empty lines.")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(f"{path}: cannot be read: {reason}.") from error
        raise DataError(f"{path}:{number + 1}: the file is damaged ({reason}).") from error


def check_yaml(text: str, where: str) -> None:
    """Refuses a YAML text that a parser could choke on.

    Raises:
        ConfigError: it is nested too deeply, or its aliases contain themselves or stand for too
            much.
        yaml.YAMLError: it is no YAML.
    """
    nodes = 0
    known: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, Loader=_Parser):
        if isinstance(event, yaml.AliasEvent):
            place = _place(where, event)
            if any(event.anchor == anchor for anchor, _ in opened):
                raise ConfigError(f"{place}: the alias *{event.anchor} contains itself.")
            nodes += known.get(str(event.anchor), 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, nodes))
            nodes += 1
            if len(opened) > DEEPEST:
                raise ConfigError(
                    f"{_place(where, event)}: expected at most {DEEPEST} levels of nesting."
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                known[anchor] = nodes - before
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
        if nodes > MOST_NODES:
            raise ConfigError(
                f"{_place(where, event)}: expected at most {MOST_NODES:,} values, those that "
                "aliases stand for included."
            )


def _place(where: str, event: yaml.Event) -> str:
    mark = event.start_mark
    if mark is None:
        return where
    return f"{where}, line {mark.line + 1}, column {mark.column + 1}"


def _decoded(content: bytes, where: str, kind: type[MapspaceError]) -> str:
    if len(content) > LARGEST_FILE:
        raise kind(f"{where}: expected at most {LARGEST_FILE:,} bytes.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise kind(f"{where}: is not UTF-8 text (byte {error.start}).") from error


def _check_brackets(text: str, where: str, kind: type[MapspaceError]) -> None:
    """Refuses JSON that is nested so deeply that a parser would overflow its stack."""
    # No more levels than brackets: true of nearly every record, and quickly known.
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    depth = 0
    for match in _BRACKETS.finditer(text):
        if match[1]:
            depth += 1
            if depth > DEEPEST:
                raise kind(f"{where}: expected at most {DEEPEST} levels of nesting.")
        elif match[0][0] != '"':
            depth -= 1


def _whole_number(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"expected numbers of at most {LONGEST_NUMBER} digits")
    return int(digits)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _unpacked(file: BinaryIO, path: Path, kind: type[MapspaceError]) -> IO[bytes]:
    """What a file holds, unpacked if its name ends in `.gz`."""
    if path.suffix != ".gz":
        return file
    start = file.read(2)
    file.seek(0)
    if start not in (b"", _GZIP):
        raise kind(f"{path}: expected a gzip file, as its name says; it is none.")
    return cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=file))))
