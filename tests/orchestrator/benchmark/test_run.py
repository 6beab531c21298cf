"""The main job, little of everything: it ends with a report, and goes on where it was."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from marks import noisy_libraries

from mapspace.errors import ConfigError
from orchestrator.comparison.results_files import load
from orchestrator.mind_mappings import BENCHMARKS, main_job
from orchestrator.store.folder import Store

pytestmark = [
    pytest.mark.every_part,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    noisy_libraries,
]


@pytest.mark.slow
@pytest.mark.timeout(1700)
def test_the_main_job(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    ray_runtime: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    page, from_store = main_job(tmp_path, quick=True, store=store)
    assert not from_store
    output = capsys.readouterr().out
    assert page == tmp_path / "report.html"
    assert str(page) in output
    assert "mlflow.db" in output
    assert re.search(r"\b(nan|inf)\b", output) is None
    for name in BENCHMARKS:
        assert name in output
        results = load(tmp_path / name)
        assert len(results.workloads) == 8
        assert "gradient" in results.searchers
        assert "projected descent" in results.searchers
        for label in results.searchers:
            lost = results.fruitless(label)
            if results.primary_axis == "evaluation":
                assert lost.count == 0
            # On a busy machine a tenth of a second may pass without a mapping; that is said.
            if lost.count:
                assert f"n/a, {lost.text}" in output
                assert f"{label}: {lost.text}" in html.unescape(page.read_text())
            else:
                assert results.overall(label) > 1
        assert results.proven
        assert len(list((tmp_path / name / "certificates").glob("*.json"))) == 8
    # Again: nothing is searched or trained anew.
    kept = [tmp_path / name / "curves.parquet" for name in BENCHMARKS]
    kept += list(tmp_path.glob("surrogate-*/surrogate.safetensors"))
    before = {path: path.stat().st_mtime_ns for path in kept}
    assert len(before) == len(BENCHMARKS) + 2
    main_job(tmp_path, quick=True)
    assert {path: path.stat().st_mtime_ns for path in kept} == before
    # In another folder: all of it is read from the store.
    other = tmp_path_factory.mktemp("other")
    _, from_store = main_job(other, quick=True, store=store)
    assert from_store
    for name in BENCHMARKS:
        losses = [[run.best_loss for run in load(place / name).runs] for place in (tmp_path, other)]
        assert losses[0] == losses[1]


def test_a_quick_run_is_not_taken_for_a_full_one(tmp_path: Path) -> None:
    (tmp_path / "size").write_text("quick\n")
    with pytest.raises(ConfigError, match="holds a quick run"):
        main_job(tmp_path)
