"""A table as text for a terminal: one writer for every command, in which rich does the aligning.

`line_width` is how wide everything is that people read; JSON, CSV, addresses and paths are not.
"""

from __future__ import annotations

import functools
import io
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from orchestrator.report.document import LEFT, Table

T = TypeVar("T")

# Paragraphs are no wider, also where a terminal is.
WIDTH = 100
# Narrower lines than this are left to the terminal.
LEAST_WIDTH = 40
# What a column of texts keeps at least where it is wrapped, and what columns are apart.
LEAST_TEXT, APART = 14, 2
# Labels of facts end before this place: what goes on below them does so beside them.
LABELS = 24
# Of more rows rich, which takes a millisecond for each, draws the first alone where none is broken.
MANY = 100
# No line of a table is broken by rich itself.
_UNBOUNDED = 100_000
# Rich's eight lines of a box, of which two are drawn: below the header, and between sections.
_RULES = "    \n    \n -- \n    \n -- \n    \n    \n    \n"


def line_width() -> int:
    """Characters of a line: as `COLUMNS` or the terminal says, 80 for a pipe or a file."""
    return max(LEAST_WIDTH, shutil.get_terminal_size().columns)


def table_lines(table: Table, *, width: int | None = None) -> list[str]:
    """The lines of a table without its title and note: header, rows and foot.

    A foot is set apart by a rule, and then so is the header. Where a line would be too wide names
    of columns are broken first, then texts; then the columns that find no place go on below, after
    the first one once more. Numbers stay whole.

    Args:
        table: the table; notes of cells are left out.
        width: characters of a line; None: as `line_width` says.
    """
    from rich.cells import cell_len

    width = line_width() if width is None else width
    header = [name.replace("\n", " ") for name in table.header]
    cells = table.cells()
    columns = [[cell_len(text) for text in column] for column in zip(*cells, strict=True)]
    bodies = [max(column, default=0) for column in columns] or [0] * len(header)
    widths = [max(body, cell_len(name)) for body, name in zip(bodies, header, strict=True)]
    if _whole(widths) > width:
        wanted = [max(body, _longest(name)) for body, name in zip(bodies, header, strict=True)]
        header = [_broken(name, most) for name, most in zip(header, wanted, strict=True)]
        widths = wanted
        texts = [place for place, shown in enumerate(table.formats) if shown == LEFT]
        whole = {place: _least([row[place] for row in cells]) for place in texts}
        # Words are broken where all columns then stand side by side, else for nothing.
        broken = _narrowed(widths, dict.fromkeys(texts, LEAST_TEXT), width)
        kept = _narrowed(widths, whole, width)
        widths = broken if _whole(broken) <= width < _whole(kept) else kept
    lines: list[str] = []
    for places in _blocks(widths, width):
        part = part_of(replace(table, header=tuple(header)), places)
        shown = [[row[place] for place in places] for row in cells]
        drawn = _drawn(part, [widths[place] for place in places], shown)
        lines += [*([""] if lines else []), *drawn]
    return lines


def wrapped(text: str, indent: str = "") -> list[str]:
    """The lines of a paragraph, at most `WIDTH` characters each."""
    most = min(WIDTH, line_width())
    return textwrap.wrap(text, most, initial_indent=indent, subsequent_indent=indent)


def fitted(text: str) -> str:
    """Text for people whose lines are no wider than the terminal; paths and commands stay whole."""
    width = line_width()
    return "\n".join(line for long in text.split("\n") for line in _fitted(long, width))


def labelled(label: str, text: str) -> str:
    """A label and what is to be copied: an address on a line of its own, or a shell's command.

    Args:
        label: with the spaces that follow it.
        text: an address, which has no spaces, or a command, whose lines a shell takes as one.
    """
    width = line_width()
    if len(label) + len(text) <= width:
        return label + text
    if " " not in text:
        return f"{label.rstrip()}\n{text}"
    lines, indent = [label.rstrip()], " " * len(label)
    for place, word in enumerate(map(shlex.quote, shlex.split(text))):
        gap = label[len(label.rstrip()) :] if place == 0 else " "
        if place and len(lines[-1] + gap + word + " \\") > width:
            lines[-1] += " \\"
            lines.append(indent + word)
        else:
            lines[-1] += gap + word
    return "\n".join(lines)


def _fitted(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    label = re.match(r"\s*(?:\S+(?: \S+)*)?\s{2,}(?=\S)", line)
    indent = len(line) - len(line.lstrip()) + 2
    if label is not None and len(label[0]) > indent and len(label[0]) <= LABELS:
        indent = len(label[0])
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * min(indent, width // 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _whole(widths: Sequence[int]) -> int:
    return sum(widths) + APART * (len(widths) - 1)


def _longest(name: str) -> int:
    """The longest part of a column's name that is not broken."""
    return max((len(part.rstrip()) for part in _pieces(name)), default=0)


def _pieces(name: str) -> list[str]:
    """A name ends a line after a space, a point or a low line."""
    return re.findall(r"[^ ._]*[ ._]*", name)


def _broken(name: str, most: int) -> str:
    """A name in lines of at most so many characters."""
    lines = [""]
    for piece in _pieces(name):
        if len((lines[-1] + piece).rstrip()) > most:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _least(texts: Sequence[str]) -> int:
    """What a column of texts keeps, so that no word but one longer than a label is broken."""
    words = (word for text in texts for word in text.split())
    return max(LEAST_TEXT, min(LABELS, max(map(len, words), default=0)))


def _narrowed(widths: Sequence[int], least: Mapping[int, int], width: int) -> list[int]:
    """Takes from the widest texts what a line is too long, as far as they have it."""
    found = list(widths)
    while _whole(found) > width:
        wide = [place for place in least if found[place] > least[place]]
        if not wide:
            break
        found[max(wide, key=lambda place: found[place])] -= 1
    return found


def _blocks(widths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Columns that stand beside each other, the first one in each of the blocks."""
    block = [0] if widths else []
    for place in range(1, len(widths)):
        if len(block) > 1 and _whole([widths[one] for one in (*block, place)]) > width:
            yield block
            block = [0]
        block.append(place)
    yield block


def part_of(table: Table, places: Sequence[int]) -> Table:
    """Some columns of a table."""

    def chosen(row: Sequence[T]) -> tuple[T, ...]:
        return tuple(row[place] for place in places)

    return replace(
        table,
        header=chosen(table.header),
        formats=chosen(table.formats),
        rows=[chosen(row) for row in table.rows],
        foot=[chosen(row) for row in table.foot],
    )


def _drawn(table: Table, widths: Sequence[int], cells: Sequence[Sequence[str]]) -> list[str]:
    """The lines of columns of so many characters.

    Args:
        table: header, formats, and how many rows and feet there are.
        widths: of the columns.
        cells: of the rows and of the foot, as text.
    """
    rows = len(table.rows)
    if rows <= MANY or not all(map(functools.partial(_is_plain, widths), cells[:rows])):
        return _drawn_by_rich(table, widths, cells, rows)
    lines = _drawn_by_rich(table, widths, [cells[0], *cells[rows:]], 1)
    # Header and rule stand above the first row, whose line is the one before the foot's rule.
    place = len(lines) - 1 if not table.foot else _first_row(table)
    sides = ["<" if shown == LEFT else ">" for shown in table.formats]
    form = (" " * APART).join(
        f"{{:{side}{most}}}" for side, most in zip(sides, widths, strict=True)
    )
    lines[place : place + 1] = [form.format(*row).rstrip() for row in cells[:rows]]
    return lines


def _is_plain(widths: Sequence[int], row: Sequence[str]) -> bool:
    """Whether a row is one line, of characters that take one place each."""
    from rich.cells import cell_len

    return all(
        cell_len(text) == len(text) <= most and text.isprintable()
        for text, most in zip(row, widths, strict=True)
    )


def _first_row(table: Table) -> int:
    """Lines above the first row of a table that has a foot: those of the header, and a rule."""
    tall = max((name.count("\n") + 1 for name in table.header), default=0)
    return tall + 1 if any(table.header) else 0


def _drawn_by_rich(
    table: Table, widths: Sequence[int], cells: Sequence[Sequence[str]], rows: int
) -> list[str]:
    """As `_drawn`; so many of the cells' rows are no foot."""
    from rich.box import Box
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    ruled = bool(table.foot)
    grid = Grid(
        box=Box(_RULES, ascii=True) if ruled else None,
        show_header=any(table.header),
        show_edge=False,
        pad_edge=False,
        # Two spaces between columns, of which a box has one for itself.
        padding=(0, 1 if ruled else APART, 0, 0),
    )
    tall = max((name.count("\n") for name in table.header), default=0)
    for name, shown, most in zip(table.header, table.formats, widths, strict=True):
        above = "\n" * (tall - name.count("\n"))
        side: Literal["left", "right"] = "left" if shown == LEFT else "right"
        grid.add_column(
            Text(above + name), justify=side, min_width=most, max_width=most, overflow="fold"
        )
    for place, row in enumerate(cells):
        grid.add_row(*map(Text, row), end_section=place + 1 == rows and ruled)
    console = Console(file=io.StringIO(), width=_UNBOUNDED, color_system=None, legacy_windows=False)
    with console.capture() as written:
        console.print(grid)
    return [line.rstrip() for line in written.get().splitlines()]
