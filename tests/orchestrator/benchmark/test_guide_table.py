"""The table that README and the guide to benchmarks show is what its command prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from paths import ROOT

from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.benchmark.run import run_benchmark
from orchestrator.comparison.page import text_table
from orchestrator.runs.experiments import find_experiment, load_experiment


@pytest.mark.usefixtures("ray_runtime")
def test_pages_show_the_table_of_smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    plan = prepare(load_experiment(find_experiment("smoke"), Benchmark), "smoke")
    printed = text_table(run_benchmark(plan, tmp_path)).splitlines()
    for page in ("README.md", "docs/guide/benchmarks.md"):
        text = (ROOT / page).read_text()
        begun = text.index("\nEDP, % above the proven optimum ") + 1
        shown = text[begun : text.index("```", begun)].splitlines()
        assert len(shown) == 8
        assert printed[: len(shown)] == shown, page
