"""A table as Markdown, for pages of text."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.report.document import LEFT, Cell, Table


def markdown_lines(table: Table) -> list[str]:
    """The lines of a table without its title and note: header, rows and foot.

    Args:
        table: the table; the best of its kind is bold.
    """
    names = [name.replace("\n", " ") for name in table.header]
    lines = [_line(names), _line("---" if shown == LEFT else "---:" for shown in table.formats)]
    lines += [_line(map(_text, row)) for row in [*table.body(), *table.ends()]]
    return [line.replace("|  |", "| |") for line in lines]


def _text(cell: Cell) -> str:
    text = str(cell.value).replace("|", "\\|")
    return f"**{text}**" if cell.strong and text else text


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"
