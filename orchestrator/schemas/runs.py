"""What commands print that list, keep and run: `list`, `results`, `report`, experiments."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from orchestrator.schemas.costs import JsonRecord

ListAnswer = dict[str, dict[str, str]]
"""A sentence by name, by kind of thing."""
ResultsAnswer = list[dict[str, Any]]
"""A row each; its keys are the query's."""


class RowsAnswer(TypedDict):
    """Rows of a query, whose keys are the query's."""

    rows: list[dict[str, Any]]


class RemovedAnswer(TypedDict):
    """How many results count no more."""

    removed: int


class ClearedAnswer(TypedDict):
    """What `results gc` has done.

    Attributes:
        rows: rows that were brought together.
        removed: rows that are gone as they count no more.
        certificates: certificates that are gone as no row names them.
        damaged: damaged files that are gone.
        leftovers: files that are gone as somebody began and did not finish them.
    """

    rows: int
    removed: int
    certificates: int
    damaged: int
    leftovers: int


class RecordsAnswer(TypedDict):
    """Mapping records, each with its `result`."""

    records: list[JsonRecord]


class SweepAnswer(TypedDict):
    """A row per machine and operation, and a row per machine; columns are those of its tables."""

    points: list[dict[str, Any]]
    machines: list[dict[str, Any]]


class ReportAnswer(TypedDict):
    """Where the page is."""

    page: str


class TextAnswer(TypedDict):
    """A file for another tool, or of another tool's.

    Attributes:
        text: what is in it.
        output: where it was written; null: nowhere.
    """

    text: str
    output: str | None


class RunAnswer(TypedDict):
    """What an experiment came to.

    Attributes:
        output: the run folder, with all results.
        page: its page; null where it has none.
        mlflow: the store that it is logged to; null where there is none.
        from_store: whether this call took everything from the store of results.
        seconds: of this call.
    """

    kind: str
    name: str
    output: str
    page: str | None
    mlflow: str | None
    from_store: bool
    seconds: float
