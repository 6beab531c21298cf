"""Every link within the documentation leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import call
from paths import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub and MkDocs give a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
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


# What differs from one run to the next: times, queries and bounds asked for by then.
VARYING = re.compile(r"[\d.,]+(?= s  )|[\d,]+(?= (?:iterations|bounds))")


def test_the_first_example_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    commands = blocks[0].splitlines()
    (line,) = [line for line in commands if line.startswith("mapspace search")]
    words = line.replace("best.jsonl", str(tmp_path / "best.jsonl")).split()[1:]
    assert call(*words) == 0
    output = capsys.readouterr()
    said = [VARYING.sub("n", line).split() for line in (output.err + output.out).splitlines()]
    shown = [line for line in blocks[1].splitlines() if line and line != "..."]
    assert len(shown) > 12
    for line in shown:
        assert VARYING.sub("n", line).split() in said, line


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "index.md":
            assert f"]({page.relative_to(ROOT / 'docs').as_posix()})" in index, page
