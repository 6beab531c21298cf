"""The report of a Marvel study: figures, CSV tables, one self-contained page, and terminal text."""

from __future__ import annotations

import base64
import csv
import io
import os
import textwrap
from pathlib import Path

from orchestrator.marvel.document import Section, Table
from orchestrator.marvel.sections import sections
from orchestrator.marvel.tables import Study, load_study

PAGE_FILE = "marvel.html"
FIGURES_FOLDER, TABLES_FOLDER = "figures", "tables"
TEXT_WIDTH = 100

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ study.name }}</title>
<style>
body { margin: 0 auto; max-width: 1120px; padding: 36px 28px 64px; color: #1f2933;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
h1 { font-size: 28px; margin: 0 0 6px; }
h2 { font-size: 21px; margin: 44px 0 4px; }
h3 { font-size: 15px; margin: 26px 0 4px; }
p { max-width: 84ch; margin: 6px 0; }
.note { color: #697586; font-size: 14px; }
img { display: block; width: 100%; height: auto; margin: 18px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 0 5px 16px; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #e3e8ef; }
th:first-child, td:first-child { padding-left: 0; text-align: left; }
th { color: #697586; font-size: 12.5px; }
</style>
</head>
<body>
<h1>{{ study.name }}</h1>
<p>{{ study.description }}</p>
{% for section, images in parts %}
<h2>{{ section.heading }}</h2>
{% for note in section.notes %}<p class="note">{{ note }}</p>
{% endfor %}
{% for name, image in images %}
{% if images|length > 1 %}<h3>{{ name }}</h3>{% endif %}
<img src="data:image/png;base64,{{ image }}" alt="{{ name }}">
{% endfor %}
{% for table in section.tables %}
<h3>{{ table.title }}</h3>
<div class="scroll"><table>
<thead><tr>{% for cell in table.header %}<th>{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.cells() %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table></div>
{% endfor %}
{% endfor %}
</body>
</html>
"""


def write_marvel_report(folder: Path) -> Path:
    """Writes `figures/*.png`, `tables/*.csv` and the page into a study's run folder; the page.

    Raises:
        DataError: the folder holds no rows of a study, or a damaged one.
    """
    import jinja2

    study = load_study(folder)
    parts = [(section, _drawn(section, folder)) for section in sections(study)]
    for section, _ in parts:
        for table in section.tables:
            _write(folder / TABLES_FOLDER / f"{table.key}.csv", _csv(table))
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = folder / PAGE_FILE
    _write(page, environment.from_string(PAGE).render(study=study, parts=parts))
    return page


def marvel_text(folder: Path) -> str:
    """The tables of a study for a terminal, without the long ones.

    Raises:
        DataError: the folder holds no rows of a study, or a damaged one.
    """
    study: Study = load_study(folder)
    lines: list[str] = []
    for section in sections(study):
        lines += [section.heading.upper(), ""]
        for note in section.notes:
            lines += textwrap.wrap(note, TEXT_WIDTH)
        for table in section.tables:
            if table.brief:
                lines += ["", table.title, "", *_aligned(table)]
        lines += ["", ""]
    return "\n".join(lines).rstrip()


def _drawn(section: Section, folder: Path) -> list[tuple[str, str]]:
    """Draws the figures of a section: their names and contents as base64."""
    figures = folder / FIGURES_FOLDER
    figures.mkdir(exist_ok=True)
    images = []
    for name, draw in section.figures:
        path = figures / f"{name}.png"
        draw(path)
        images.append((name, base64.b64encode(path.read_bytes()).decode()))
    return images


def _csv(table: Table) -> str:
    """Numbers in full; a column without a name, or with one that came before, gets its place's."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names: list[str] = []
    for place, name in enumerate(table.header):
        names.append(name if name and name not in names else f"{name or 'column'} {place + 1}")
    writer.writerow(names)
    writer.writerows(table.rows)
    return text.getvalue()


def _aligned(table: Table) -> list[str]:
    """Columns of text to the left, of numbers to the right."""
    cells = [list(table.header), *table.cells()]
    widths = [max(len(row[column]) for row in cells) for column in range(len(table.header))]
    left = [shown == "{}" for shown in table.formats]
    return [
        "  ".join(
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in cells
    ]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
