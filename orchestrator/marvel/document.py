"""What a report is made of: sections of notes, figures and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NOTHING = "\N{EN DASH}"
Cell = str | float | None


@dataclass(frozen=True)
class Table:
    """A table whose numbers keep their precision until they are shown.

    Attributes:
        key: its file's name.
        title: one line.
        header: names of the columns.
        formats: how each column's numbers are shown, such as `{:.2f}`.
        rows: cells; None and nan are shown as a dash.
        brief: whether it is part of the report for a terminal.
    """

    key: str
    title: str
    header: tuple[str, ...]
    formats: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    brief: bool = True

    def cells(self) -> list[list[str]]:
        """The rows as text."""
        return [
            [_text(cell, shown) for cell, shown in zip(row, self.formats, strict=True)]
            for row in self.rows
        ]


@dataclass(frozen=True)
class Section:
    """A heading, what to know, figures (file name and drawing) and tables."""

    heading: str
    notes: list[str]
    tables: list[Table]
    figures: list[tuple[str, Callable[[Path], None]]] = field(default_factory=list)


def _text(cell: Cell, shown: str) -> str:
    if isinstance(cell, str):
        return cell
    return NOTHING if cell is None or math.isnan(cell) else shown.format(cell)


def sizes_text(sizes: Sequence[int]) -> str:
    """A tile, or bounds, as text."""
    return " ".join(map(str, sizes))
