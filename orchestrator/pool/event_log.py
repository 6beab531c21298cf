"""The event log of a search on a pool: what was asked and told, in order, one JSON line each.

The first line says what search it is. A search is decided by its seed and the order of these
events, so nothing else is kept of it: who repeats them has the same search, bit for bit, and can go
on with it.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

from pydantic import Field

from mapspace.bounded_reading import parse_json, read_bytes
from mapspace.errors import DataError
from mapspace.storage import own_path
from mapspace.strict_yaml import StrictModel, validate

FORMAT = "mapspace-events-1"


class Outcome(NamedTuple):
    """What came back of a query.

    Attributes:
        ticket: of the query.
        energy_pj: energy in pJ, inf where the mapping cannot run.
        latency_cycles: cycles, likewise.
        status: as in `Costs.status`.
        excess: as in `Costs.excess`.
        why: why there are no costs, of a query that failed; else empty.
    """

    ticket: int
    energy_pj: float
    latency_cycles: float
    status: int
    excess: int
    why: str = ""


class _Told(StrictModel):
    """One outcome; an infinite cost is null."""

    ticket: Annotated[int, Field(ge=0)]
    energy_pj: float | None
    latency_cycles: float | None
    status: int
    excess: int
    why: str = ""


class Event(StrictModel):
    """One line: either `asked` or `told`."""

    seconds: float
    """Of the search's clock."""
    wanted: int = 0
    """Queries that were wanted."""
    asked: tuple[tuple[int, ...], ...] = ()
    """Those that came: ticket, then code."""
    told: tuple[_Told, ...] = ()
    """Answers, in the order in which the search learnt of them."""

    @property
    def outcomes(self) -> list[Outcome]:
        """The answers."""
        return [
            Outcome(
                told.ticket,
                math.inf if told.energy_pj is None else told.energy_pj,
                math.inf if told.latency_cycles is None else told.latency_cycles,
                told.status,
                told.excess,
                told.why,
            )
            for told in self.told
        ]


class EventLog:
    """Writes events as they happen."""

    def __init__(self, file: IO[str] | None) -> None:
        """Appends to an open file; None: nothing is kept."""
        self._file = file

    def head(self, search: Mapping[str, Any]) -> None:
        """The first line: what search this is."""
        self._write({"format": FORMAT, "search": search})

    def asked(self, seconds: float, wanted: int, queries: list[list[int]]) -> None:
        """Queries that a search gave."""
        self._write({"seconds": seconds, "wanted": wanted, "asked": queries})

    def told(self, seconds: float, outcomes: list[Outcome]) -> None:
        """Answers that it was told."""
        rows = [
            {
                **outcome._asdict(),
                "energy_pj": _finite(outcome.energy_pj),
                "latency_cycles": _finite(outcome.latency_cycles),
            }
            for outcome in outcomes
        ]
        self._write({"seconds": seconds, "told": rows})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def read_events(path: Path) -> tuple[dict[str, Any], Iterator[Event], int]:
    """What a log says.

    Args:
        path: the log; a last line that was cut off is left out.

    Returns:
        What search it is, its events, and the bytes that whole lines take.

    Raises:
        DataError: it is no log of events, or a line is damaged; it is named.
    """
    content = read_bytes(path)
    whole = content[: content.rfind(b"\n") + 1]
    lines = whole.decode(errors="replace").splitlines()
    head = parse_json((lines or [""])[0].encode(), f"{path}: line 1", DataError)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise DataError(f"{path}: expected a log of events ({FORMAT}) in line 1.")
    search = head.get("search")
    if not isinstance(search, dict):
        raise DataError(f"{path}: line 1: expected what search it is.")

    def events() -> Iterator[Event]:
        for number, line in enumerate(lines[1:], 2):
            where = f"{path}: line {number}"
            yield validate(Event, parse_json(line.encode(), where, DataError), where, DataError)

    return search, events(), len(whole)


Kept = tuple[dict[str, Any], Iterator[Event]]
"""What search a log says, and its events."""


@contextlib.contextmanager
def open_events(path: Path) -> Iterator[tuple[IO[str], Kept | None]]:
    """A log, opened to be gone on with, and what it holds; None where there is none yet.

    Raises:
        DataError: as `read_events`.
        OSError: the file cannot be opened.
    """
    there, size = None, 0
    own_path(path.parent, path.name)
    if path.is_file() and path.stat().st_size:
        head, events, size = read_events(path)
        there = (head, events)
    with path.open("r+" if there else "w") as file:
        # What a last line was cut off of goes.
        file.truncate(size)
        file.seek(size)
        yield file, there


def differing(head: Mapping[str, Any], what: Mapping[str, Any]) -> str:
    """In which points a log's search is another one than what is searched; empty: in none."""
    said = json.loads(json.dumps(what))
    return ", ".join(sorted(key for key in {*head, *said} if head.get(key) != said.get(key)))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
