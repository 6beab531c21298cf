"""A table as text for a terminal: one writer for every command, in which rich does the aligning."""

from __future__ import annotations

import io
import textwrap

from orchestrator.report.document import LEFT, Table

# As wide as texts for people are here, also where a terminal is wider.
WIDTH = 100
# No line of a table is broken: where a terminal is narrower, it wraps, and every figure is there.
_UNBOUNDED = 100_000
# Rich's eight lines of a box, of which two are drawn: below the header, and between sections.
_RULES = "    \n    \n -- \n    \n -- \n    \n    \n    \n"


def table_lines(table: Table, *, width: int | None = None) -> list[str]:
    """The lines of a table without its title and note: header, rows and foot.

    A foot is set apart by a rule, and then so is the header.

    Args:
        table: the table; notes of cells are left out.
        width: characters of a line, in which the last column goes on below itself; None: any.
    """
    from rich.box import Box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    texts = table.cells()
    ruled = bool(table.foot)
    grid = Grid(
        box=Box(_RULES, ascii=True) if ruled else None,
        show_header=any(table.header),
        show_edge=False,
        pad_edge=False,
        # Two spaces between columns, of which a box has one for itself.
        padding=(0, 1 if ruled else 2, 0, 0),
    )
    for name, shown in zip(table.header, table.formats, strict=True):
        justify = "left" if shown == LEFT else "right"
        grid.add_column(Text(name.replace("\n", " ")), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    if width is not None and texts:
        *others, _ = zip(*texts, strict=True)
        before = sum(max(map(cell_len, column)) + 2 for column in others)
        grid.columns[-1].no_wrap = False
        grid.columns[-1].max_width = max(width // 2, width - before)
    for place, row in enumerate(texts):
        grid.add_row(*map(Text, row), end_section=place + 1 == len(table.rows) and ruled)
    console = Console(file=io.StringIO(), width=_UNBOUNDED, color_system=None, legacy_windows=False)
    with console.capture() as written:
        console.print(grid)
    return [line.rstrip() for line in written.get().splitlines()]


def wrapped(text: str, indent: str = "") -> list[str]:
    """The lines of a paragraph, at most `WIDTH` characters each."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
