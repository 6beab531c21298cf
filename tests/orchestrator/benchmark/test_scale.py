"""What the driver costs where hundreds of simulated workers search; results are those of one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

BENCH = ROOT / "tests/benchmarks/bench_scale.py"


def measured(folder: Path, workers: int, searches: int) -> dict[str, Any]:
    """In a process of its own: Tune's actors are simulated there."""
    given = ["--searches", str(searches), "--workers", str(workers)]
    said = subprocess.run(
        [sys.executable, str(BENCH), *given], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


@pytest.mark.slow
def test_hundreds_of_workers_find_what_one_finds(tmp_path: Path) -> None:
    many, one = (measured(tmp_path, workers, 10_000) for workers in (512, 1))
    assert (many["losses"], many["curves"]) == (one["losses"], one["curves"])
    # Two sizes, since Ray's start is the same for both. The bar is 0.3 ms; twice that, as other
    # tests may run beside.
    more = measured(tmp_path, 512, 60_000)
    spent = [run["driver_ms_per_search"] * run["searches"] for run in (many, more)]
    assert (spent[1] - spent[0]) / 50_000 < 0.6
    # Six times as many searches, whose curves alone would be 110 MiB.
    assert more["most_memory_mib"] < many["most_memory_mib"] + 60
