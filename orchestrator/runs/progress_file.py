"""How a run stands: one small file in its folder, `progress.json`, of every kind of run alike.

Whoever looks on reads it and nothing else, so that looking disturbs no run.
"""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import Field

from mapspace.bounded_reading import parse_json, read_bytes
from mapspace.errors import DataError
from mapspace.storage import Place
from mapspace.strict_yaml import StrictModel, validate

PROGRESS_FILE = "progress.json"
# What a file holds at most; the rest is counted, so that it stays small however large the run is.
MOST_RUNNING, MOST_FAILURES, MOST_LINES = 64, 20, 20
MOST_POINTS, MOST_CURVES, MOST_ROWS, MOST_CELLS = 200, 64, 400, 64
LONGEST_TEXT = 400
LARGEST = 4 << 20
# A living run writes its file this often at least, in seconds; on object storage, that.
BEAT_SECONDS, REMOTE_BEAT_SECONDS = 5.0, 20.0
# Who has said nothing for so many beats is taken for dead.
SILENT_BEATS = 4

Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Status = Literal["running", "finished", "stopped", "interrupted", "failed"]


class Running(StrictModel):
    """A task that is under way."""

    name: Text
    since: Finite
    """Seconds after the beginning of the run."""


class Curve(StrictModel):
    """A line of a chart."""

    name: Text
    points: Annotated[tuple[tuple[Finite, Finite], ...], Field(max_length=MOST_POINTS)]
    colour: Text = ""
    """As `#rrggbb`; empty: whoever draws it chooses."""
    dashed: Annotated[tuple[Finite, ...], Field(max_length=8)] = ()
    """Lengths of dashes and gaps in widths of the line; none: a whole line."""


class Chart(StrictModel):
    """Curves so far."""

    title: Text
    across: Text
    """What the first number of every point is."""
    up: Text
    """What the second one is."""
    logarithmic: bool = False
    """Whether both axes show powers; what is not above 0 is then left out."""
    curves: Annotated[tuple[Curve, ...], Field(max_length=MOST_CURVES)]


class Grid(StrictModel):
    """A table so far; null where nothing is known yet."""

    title: Text
    header: Annotated[tuple[Text, ...], Field(max_length=MOST_CELLS)]
    rows: Annotated[
        tuple[
            Annotated[tuple[Text | Finite | None, ...], Field(max_length=MOST_CELLS)],
            ...,
        ],
        Field(max_length=MOST_ROWS),
    ]


class Progress(StrictModel):
    """How a run stands."""

    version: Literal[1]
    kind: Text
    name: Text
    status: Status
    """`stopped`: a limit of the user's was reached; the same command goes on from there."""
    process: Text
    """Which process runs it, and where."""
    started: Finite
    """When this call began, seconds since 1970."""
    updated: Finite
    """When this was written."""
    beat: Finite
    """A living run writes again after so many seconds, or earlier."""
    stage: Text = ""
    """What it is at."""
    unit: Text = ""
    """What is counted, in the plural."""
    done: Count = 0
    total: Count | None = None
    """Null where nobody knows."""
    before: Count = 0
    """How many of those that are done were there when this call began."""
    seconds_left: Finite | None = None
    """Estimate: as long for each of those left as for those that this call has done."""
    processors: Count | None = None
    """What the run may use; null: this process alone."""
    busy: Finite | None = None
    """How many of them have a task."""
    running: Annotated[tuple[Running, ...], Field(max_length=MOST_RUNNING)] = ()
    running_more: Count = 0
    """Tasks under way that are not listed."""
    failures: Count = 0
    failure_lines: Annotated[tuple[Text, ...], Field(max_length=MOST_FAILURES)] = ()
    """The last of them."""
    lines: Annotated[tuple[Text, ...], Field(max_length=MOST_LINES)] = ()
    """What the run said last."""
    reason: Text = ""
    """Why it has ended where it is not finished."""
    charts: Annotated[tuple[Chart, ...], Field(max_length=8)] = ()
    tables: Annotated[tuple[Grid, ...], Field(max_length=8)] = ()

    def silent(self, now: float | None = None) -> float | None:
        """For how many seconds a run that should be running has said nothing; None where it has."""
        if self.status != "running":
            return None
        silence = (time.time() if now is None else now) - self.updated
        return silence if silence > SILENT_BEATS * self.beat else None


def read_progress(folder: Place) -> Progress | None:
    """How the run in a folder stands; None where nothing says so.

    Raises:
        DataError: the file is damaged, or of another version; it is named.
        MapspaceError: a store is away.
    """
    path = folder / PROGRESS_FILE
    try:
        content = read_bytes(path, LARGEST)
    except FileNotFoundError:
        return None
    return validate(Progress, parse_json(content, str(path), DataError), str(path), DataError)
