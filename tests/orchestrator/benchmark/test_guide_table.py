"""The table that the guide to benchmarks shows is what its command prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from paths import ROOT

from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.benchmark.run import run_benchmark
from orchestrator.comparison.page import text_table
from orchestrator.runs.experiments import find_experiment, load_experiment


@pytest.mark.usefixtures("ray_runtime")
def test_the_guide_shows_the_table_of_smoke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    guide = (ROOT / "docs" / "guide" / "benchmarks.md").read_text()
    begun = guide.index("\nEDP, % above the proven optimum ") + 1
    shown = guide[begun : guide.index("```", begun)].splitlines()
    plan = prepare(load_experiment(find_experiment("smoke"), Benchmark), "smoke")
    assert text_table(run_benchmark(plan, tmp_path)).splitlines()[: len(shown)] == shown
