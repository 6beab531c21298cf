"""The report of a Marvel study: figures, CSV tables, one self-contained page, and terminal text."""

from __future__ import annotations

from pathlib import Path

from mapspace.storage import own_path, write_atomically
from orchestrator.marvel.numbers import load_study
from orchestrator.marvel.sections import sections
from orchestrator.report.document import Document
from orchestrator.report.page import write_page
from orchestrator.report.text_table import table_lines, wrapped

PAGE_FILE = "marvel.html"
FIGURES_FOLDER, TABLES_FOLDER = "figures", "tables"


def write_marvel_report(folder: Path) -> Path:
    """Writes `figures/*.png`, `tables/*.csv` and the page into a study's run folder; the page.

    Raises:
        DataError: the folder holds no rows of a study, or a damaged one.
    """
    study = load_study(folder)
    document = Document(study.name, study.description, sections(study))
    tables, page = own_path(folder, TABLES_FOLDER), folder / PAGE_FILE
    tables.mkdir(exist_ok=True)
    for section in document.sections:
        for table in section.tables:
            write_atomically(tables / f"{table.key}.csv", table.csv().encode())
    write_page(document, page, folder / FIGURES_FOLDER)
    return page


def marvel_text(folder: Path) -> str:
    """The tables of a study for a terminal, without the long ones.

    Raises:
        DataError: the folder holds no rows of a study, or a damaged one.
    """
    lines: list[str] = []
    for section in sections(load_study(folder)):
        lines += [section.heading.upper(), ""]
        for note in section.notes:
            lines += wrapped(note)
        for table in section.tables:
            if table.brief:
                lines += ["", table.title, "", *table_lines(table)]
        lines += ["", ""]
    return "\n".join(lines).rstrip()
