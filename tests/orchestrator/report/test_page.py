"""The page of every kind of run: well formed, sufficient to itself, and readable anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_documents import DOCUMENTS

from orchestrator.report.document import LEFT, Cell, Document, Figure, Section, Table
from orchestrator.report.page import MOST_SHOWN, write_page

VOID = {"meta", "img", "br", "input", "wbr"}
ODD = '<script src="https://elsewhere/x.js"></script> & "O\'Brien" </td></table>'


class Page(HTMLParser):
    """Checks that tags are closed in their order, and collects what a page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self.names: list[str] = []
        self.titles: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            if name in ("src", "href", "action", "data"):
                self.references.append(value or "")
            elif name == "id":
                self.names.append(value or "")
            elif name == "title":
                self.titles.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def written(document: Document, folder: Path) -> str:
    figures = folder / "figures"
    drawn = write_page(document, folder / "page.html", figures)
    assert drawn == {
        figure.key: figures / f"{figure.key}.png"
        for section in document.sections
        for figure in section.figures
    }
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in drawn.values())
    assert {file.name for file in folder.iterdir()} == {"page.html", "figures"}
    return (folder / "page.html").read_text()


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_the_page_of_every_kind(kind: str, tmp_path: Path) -> None:
    document: Document = DOCUMENTS[kind](tmp_path, ODD)
    folder = tmp_path / "page"
    folder.mkdir()
    text = written(document, folder)
    page = Page(text)
    # Nothing from elsewhere, and nothing that runs.
    images = [name for name in page.references if name.startswith("data:image/png;base64,")]
    anchors = [name[1:] for name in page.references if name.startswith("#")]
    beside = [name for name in page.references if not name.startswith(("data:", "#"))]
    assert not [name for name in beside if ":" in name or name.startswith(("/", "."))]
    assert len(images) == page.tags.count("img") == sum(len(s.figures) for s in document.sections)
    style = text[text.index("<style>") : text.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style
    assert not {"script", "link", "iframe", "object", "embed", "form"} & set(page.tags)
    # Names are shown as they are.
    assert "elsewhere" in text
    assert "<script" not in text
    assert "&lt;script src=" in text
    # Every part is to be found from the table of contents.
    assert len(document.sections) > 1
    assert len(set(page.names)) == len(page.names)
    assert anchors == page.names
    # Dark where the reader's other windows are; in a narrow one tables scroll, not the page.
    assert re.search(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{[^}]*--page", style)
    assert re.search(r"@media \(max-width: \d+px\)", style)
    assert re.search(r"\.scroll \{[^}]*overflow-x: auto", style)
    assert len(
        re.findall(r'<div class="scroll(?: facts)?" tabindex="0"><table>', text)
    ) == page.tags.count("table")
    assert '<meta name="viewport" content="width=device-width' in text
    # A page is read by people: no number that is none.
    visible = re.sub(r"<style>.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL)
    assert not re.search(r"\b(nan|inf|None|NaT)\b", visible)


def nothing(_: Path) -> None:
    raise AssertionError


def page_of(*sections: Section) -> Callable[[Path], Page]:
    return lambda folder: Page(written(Document("title", "lead", sections), folder))


def test_one_section_needs_no_contents(tmp_path: Path) -> None:
    one = Section("one", ["Text with `code`."])
    assert "nav" not in page_of(one)(tmp_path).tags
    page = page_of(one, one)(tmp_path / "figures")
    assert page.references == ["#s1", "#s2"]
    assert page.tags.count("code") == 2


def test_what_is_cut_is_read_by_pointing_at_it(tmp_path: Path) -> None:
    long = "x" * (MOST_SHOWN + 1)
    table = Table("t", "", ("", ""), (LEFT, LEFT), [(long, long[1:]), (Cell(long), "short")])
    assert page_of(Section("one", [table]))(tmp_path).titles == [long, long]


def test_a_page_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("before")
    document = Document("title", "", [Section("one", [Figure("f", "figure", nothing)])])
    with pytest.raises(AssertionError):
        write_page(document, tmp_path / "page.html", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "before"


def test_a_lead_has_a_paragraph_per_line(tmp_path: Path) -> None:
    document = Document("title", "Who won.\nHow many.", [Section("one", ["text"])])
    assert '<p class="lead">Who won.</p>\n<p class="lead">How many.</p>' in written(
        document, tmp_path
    )
