"""Seeded runs ask what they asked and find what they found; defaults are what they were.

Only searchers whose codes no library and no network decides, and spaces whose losses every
processor computes alike. `python tests/support/pinned.py` writes it all anew.
"""

from __future__ import annotations

from typing import Any

import pytest
from pinned import defaults, read, search, searches

RUNS = read("searches")
DEFAULTS = dict(read("defaults"))


@pytest.mark.parametrize(
    "run",
    RUNS,
    ids=[f"{i}-{run['case']['searcher']}-{run['case']['space']}" for i, run in enumerate(RUNS)],
)
def test_a_seed_gives_the_run_that_it_gave(run: dict[str, Any]) -> None:
    assert search(run["case"]) == run["found"]


def test_the_file_holds_the_runs_that_the_command_writes() -> None:
    assert [run["case"] for run in RUNS] == list(searches())


@pytest.mark.parametrize("name", sorted({*DEFAULTS, *defaults()}))
def test_defaults_are_what_they_were(name: str) -> None:
    assert defaults()[name] == DEFAULTS[name]
