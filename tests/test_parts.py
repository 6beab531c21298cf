"""The pieces of a test run: together all of it, and no missing library hides a test."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import conftest
import pytest
from hypothesis import settings
from parts import in_part, part_of, read_stay

ALWAYS = [False, True, False, False, True, False, False, False]


@pytest.mark.parametrize("parts", [1, 3, 6, 20])
def test_the_parts_are_all_of_it_once(parts: int) -> None:
    kept = [in_part(ALWAYS, (number, parts)) for number in range(1, parts + 1)]
    times = [sum(column) for column in zip(*kept, strict=True)]
    assert times == [parts if every else 1 for every in ALWAYS]


def test_neighbours_fall_into_different_parts() -> None:
    assert in_part([False] * 5, (2, 3)) == [False, True, False, False, True]


@pytest.mark.parametrize("text", ["0/3", "4/3", "2", "a/b", "-1/2", "1/0", "1/2/3", ""])
def test_what_is_no_part_is_refused(text: str) -> None:
    assert part_of("2/6") == (2, 6)
    with pytest.raises(argparse.ArgumentTypeError, match="expected K/N with K from 1 to N, got"):
        part_of(text)


def test_a_line_says_how_many_cases_stay(tmp_path: Path) -> None:
    file = tmp_path / "in_turn.txt"
    file.write_text("# of long ones\ntests/a.py::test_b 3  # cases\n\ntests/c.py::Kind::test_d 0\n")
    assert read_stay(file) == {"tests/a.py::test_b": 3, "tests/c.py::Kind::test_d": 0}
    for line in ("tests/a.py::test_b", "tests/a.py::test_b many", "a 1\na 2"):
        file.write_text(line)
        with pytest.raises(ValueError, match="expected a test, once, and a number"):
            read_stay(file)


@pytest.mark.parametrize("case", range(4))
def test_more_cases_than_stay_are_slow(case: int, request: pytest.FixtureRequest) -> None:
    """This test stands in the table with 2."""
    assert (request.node.get_closest_marker("slow") is not None) == (case >= 2)


@pytest.mark.parametrize(
    ("required", "outcome"), [(True, pytest.fail.Exception), (False, pytest.skip.Exception)]
)
def test_a_library_that_must_be_there_is_no_reason_to_skip(
    required: bool, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    item: Any = SimpleNamespace(
        get_closest_marker=lambda name: name == "tvm",
        config=SimpleNamespace(getoption=lambda name: required),
    )
    with pytest.raises(outcome, match="TVM is not installed"):
        conftest.pytest_runtest_setup(item)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    conftest.pytest_runtest_setup(item)


def test_no_drawn_example_has_a_deadline() -> None:
    """On a busy machine an example takes any time: one profile says so for every test."""
    assert settings().deadline is None
