"""What a report is made of: sections of paragraphs, tables and figures, without any markup.

A document is data. `page` makes the web page of it, `text_table` the text for a terminal.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

NOTHING = "\N{EN DASH}"
# The formats of a column of text: the only one that is aligned to the left, and any other.
LEFT, RIGHT = "{}", "{:>}"
Value = str | float | None


@dataclass(frozen=True)
class Cell:
    """A cell that says more than its value.

    Attributes:
        value: text, or a number that the column's format shows.
        note: a second line in small print, on a page only.
        strong: whether it is set in bold: the best of its kind.
        muted: whether it is a reference rather than a result.
        swatch: the colour `#rrggbb` of what it names in the figures; empty: none.
        link: a file beside the page; empty: none.
    """

    value: Value
    note: str = ""
    strong: bool = False
    muted: bool = False
    swatch: str = ""
    link: str = ""


Row = tuple[Value | Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table whose numbers keep their precision until they are shown.

    Attributes:
        key: its file's name.
        title: one line; empty: none.
        header: names of the columns; all of them empty: none is shown.
        formats: how each column's numbers are shown, such as `{:.2f}`; `LEFT` and `RIGHT` align
            texts.
        rows: cells; None and nan are shown as a dash.
        foot: rows of totals or references, set apart from the others.
        note: what its reader must know.
        brief: whether it is part of the report for a terminal.
    """

    key: str
    title: str
    header: tuple[str, ...]
    formats: tuple[str, ...]
    rows: Sequence[Row]
    foot: Sequence[Row] = ()
    note: str = ""
    brief: bool = True

    def body(self) -> list[list[Cell]]:
        """The rows, every value as text."""
        return [self._shown(row) for row in self.rows]

    def ends(self) -> list[list[Cell]]:
        """The rows of the foot, every value as text."""
        return [self._shown(row) for row in self.foot]

    def cells(self) -> list[list[str]]:
        """The values of the rows and of the foot as text."""
        return [[str(cell.value) for cell in row] for row in [*self.body(), *self.ends()]]

    def csv(self) -> str:
        """The values in full; a column whose name is missing or not its own gets its place's."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names: list[str] = []
        for place, name in enumerate(self.header):
            names.append(name if name and name not in names else f"{name or 'column'} {place + 1}")
        writer.writerow(names)
        writer.writerows([_cell(cell).value for cell in row] for row in [*self.rows, *self.foot])
        return text.getvalue()

    def _shown(self, row: Row) -> list[Cell]:
        return [
            replace(cell, value=_text(cell.value, shown))
            for cell, shown in zip(map(_cell, row), self.formats, strict=True)
        ]


@dataclass(frozen=True)
class Figure:
    """A figure, drawn when the page is written.

    Attributes:
        key: its file's name, without the suffix.
        title: one line, also what is read out in its place.
        draw: draws it into a PNG file.
        caption: what it shows.
        narrow: whether it would be too large at a page's full width.
    """

    key: str
    title: str
    draw: Callable[[Path], None]
    caption: str = ""
    narrow: bool = False


@dataclass(frozen=True)
class Section:
    """A heading and what follows it: paragraphs (texts, `code` between backticks), figures, tables.

    Attributes:
        heading: one line.
        blocks: in the order of reading.
    """

    heading: str
    blocks: Sequence[str | Table | Figure]

    @property
    def notes(self) -> list[str]:
        """Its paragraphs."""
        return [block for block in self.blocks if isinstance(block, str)]

    @property
    def parts(self) -> list[Table | Figure]:
        """What has titles; a single one is what the heading says, and needs none."""
        return [*self.tables, *self.figures]

    @property
    def tables(self) -> list[Table]:
        """Its tables."""
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def figures(self) -> list[Figure]:
        """Its figures."""
        return [block for block in self.blocks if isinstance(block, Figure)]


@dataclass(frozen=True)
class Document:
    """A page: its title, what it is about or comes to, a paragraph per line, and its sections."""

    title: str
    lead: str
    sections: Sequence[Section]


def sizes_text(sizes: Sequence[int]) -> str:
    """A tile, or bounds, as text."""
    return " ".join(map(str, sizes))


def _cell(value: Value | Cell) -> Cell:
    return value if isinstance(value, Cell) else Cell(value)


def _text(value: Value, shown: str) -> str:
    if isinstance(value, str):
        return value
    return NOTHING if value is None or math.isnan(value) else shown.format(value)
