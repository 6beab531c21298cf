"""Files that somebody else wrote: bounded reading of text, JSON, JSON lines and YAML.

Whatever a file holds, reading it ends soon, takes bounded memory and never overflows the stack of a
parser: size, length of a line, depth of brackets, digits of a number and what YAML's aliases expand
to have limits far above every honest file. What goes beyond is one line of an error.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol, cast

import yaml

from mapspace.errors import ConfigError, DataError, MapspaceError

LARGEST_FILE = 256 << 20
LONGEST_LINE = 16 << 20
DEEPEST = 100
LONGEST_NUMBER = 100
# What aliases stand for is counted each time: a small file could expand to more than memory holds.
MOST_NODES = 1_000_000

_GZIP = b"\x1f\x8b"
_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"|([\[{])|[\]}]', re.DOTALL)
_LONG_NUMBER = re.compile(rf"[0-9]{{{LONGEST_NUMBER}}}")
# Quicker by far than Python's own, and the same events.
_Parser: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Readable(Protocol):
    """What has content: a path, or a file of object storage."""

    def read_bytes(self) -> bytes:
        """The whole content."""
        ...


def read_text(path: Readable, kind: type[MapspaceError] = ConfigError) -> str:
    """The text of a file of at most `LARGEST_FILE` bytes.

    Args:
        path: a local path, or a file of object storage.
        kind: the error to raise.

    Raises:
        kind: the file is missing, cannot be read, is too large or no UTF-8; it is named.
    """
    try:
        if isinstance(path, Path):
            with path.open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
        else:
            content = path.read_bytes()
    except OSError as error:
        raise kind(f"{path}: cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise kind(f"{str(path)!r}: is no path: {error}.") from error
    return _decoded(content, str(path), kind)


def read_json(path: Readable, kind: type[MapspaceError] = ConfigError) -> Any:
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
        kind: the text is no JSON (NaN and Infinity are none), too long, or nested too deeply, or
            has a number of too many digits.
    """
    if isinstance(text, bytes):
        text = _decoded(text, where, kind)
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
    number = 0
    try:
        with _opened(path, kind) as file:
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                where = f"{path}:{number}"
                if len(line) > LONGEST_LINE:
                    raise kind(f"{where}: expected at most {LONGEST_LINE:,} bytes in a line.")
                if line.strip():
                    yield number, parse_json(line, where, kind)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
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


def _opened(path: Path, kind: type[MapspaceError]) -> IO[bytes]:
    if path.suffix != ".gz":
        return path.open("rb")
    with path.open("rb") as file:
        if file.read(2) not in (b"", _GZIP):
            raise kind(f"{path}: expected a gzip file, as its name says; it is none.")
    return cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb"))))
