"""The page of security and limits says what the code holds, and names tests that are there."""

from __future__ import annotations

import importlib
import re

import pytest
from paths import ROOT

PAGE = (ROOT / "docs" / "guide" / "limits.md").read_text()
LIMITS = re.findall(r"^\| (.+) \| ([\d,]+)( \w+)? \| `([\w.]+)\.(\w+)` \|$", PAGE, re.MULTILINE)
PROMISES = re.findall(r"^\| (.+\.) \| (`test_.+`) \|$", PAGE, re.MULTILINE)
UNITS = {"": 1, " MiB": 1 << 20, " GiB": 1 << 30}


@pytest.mark.parametrize(("what", "number", "unit", "module", "name"), LIMITS)
def test_a_limit_is_what_the_page_says(
    what: str, number: str, unit: str, module: str, name: str
) -> None:
    said = int(number.replace(",", "")) * UNITS[unit]
    assert getattr(importlib.import_module(module), name) == said, what


@pytest.mark.parametrize(("promise", "tests"), PROMISES)
def test_a_promise_is_held_by_tests_that_are_there(promise: str, tests: str) -> None:
    there = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(\w+)`", tests):
        assert f"def {name}(" in there, promise


def test_every_row_is_read() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    # Three tables, each with a line of headings.
    assert len(LIMITS) + len(PROMISES) == len(rows) - 3
    assert len(LIMITS) > 25
    assert len(PROMISES) > 18
