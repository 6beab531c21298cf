"""Every link within the documentation leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from paths import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")
# Pages that only the site has: tests/test_options_documented.py.
ONLY_SITE = re.compile(r"<!-- site: .*? -->")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub and MkDocs give a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(ONLY_SITE.sub("", page.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, anchor = link.partition("#")
        there = page.parent / target if target else page
        assert there.exists(), f"{link}: there is no such file"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{link}: there is no such heading"


FILE = re.compile(
    r"\b((?:costmodel|deploy|docs|mapspace|orchestrator|searchers|surrogate|tests)/"
    r"[\w./-]+\.(?:py|md|yaml|json|ipynb))\b"
)
YOURS = {"searchers/yours.py", "tests/test_promises.py"}  # to be written by the reader
NAMING = [*PAGES, *ROOT.glob("*.yaml"), *(ROOT / "deploy").rglob("*.yaml"), ROOT / "Makefile"]


@pytest.mark.parametrize("page", NAMING, ids=[str(page.relative_to(ROOT)) for page in NAMING])
def test_files_that_a_page_names_are_there(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # of other times
    for name in FILE.findall(LINK.sub("", page.read_text())):
        assert name in YOURS or (ROOT / name).exists(), f"{name}: there is no such file"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "index.md":
            assert f"]({page.relative_to(ROOT / 'docs').as_posix()})" in index, page


LONGEST = 1500
# Pages that are longer; one that is made shorter leaves the list, none joins it.
LONGER = {"inside/proof-any-levels.md"}
# All pages together.
MOST_WORDS = 45_000
IN_DOCS = sorted((ROOT / "docs").rglob("*.md"))


def test_all_pages_together_can_be_read() -> None:
    assert sum(len(page.read_text().split()) for page in IN_DOCS) <= MOST_WORDS


@pytest.mark.parametrize("page", IN_DOCS, ids=[page.stem for page in IN_DOCS])
def test_a_page_is_short_and_says_what_it_is_for(page: Path) -> None:
    text = page.read_text()
    if page.relative_to(ROOT / "docs").as_posix() in LONGER:
        return
    assert len(text.split()) <= LONGEST
    title, first = text.split("\n\n")[:2]
    assert title.startswith("# ")
    # A sentence: no heading, table, list, code or picture.
    assert re.match(r"(?!```)[\w`\[*\"]", first), first
