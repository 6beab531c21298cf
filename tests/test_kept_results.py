"""Figures of pages about searchers come from results that shipped experiments wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

import searchers
from orchestrator.benchmark.config import prepare
from orchestrator.benchmark.run import describe
from orchestrator.kept.pages import MARK, filled
from orchestrator.kept.results import as_run, departures

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
KEPT = sorted(path.parent for path in (ROOT / "docs" / "results" / "kept").glob("*/summary.json"))

# Tables of searchers that are not made of kept results, by page, which says what made them. One
# that is made again leaves the list; none joins it.
OTHERS: dict[str, int] = {
    "docs/guide/searchers.md": 1,
}
# Scripts under tests/benchmarks that pages name: they time things.
TIMING = {
    "bench_anytime",
    "bench_networks",
    "bench_pool",
    "bench_proofs",
    "bench_sampling",
    "bench_scale",
    "bench_second_run",
    "bench_shared_proof",
    "bench_store",
    "bench_structured",
}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_has_what_its_results_say(page: Path) -> None:
    """Otherwise: `make pages`."""
    text = page.read_text()
    assert filled(text, page) == text


def summary(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text())


def of_today(folder: Path) -> Any:
    # Costs that were measured belong to a compiler's version.
    measured = any(bound["measured"] for bound in summary(folder)["bounds"].values())
    return pytest.param(folder, id=folder.name, marks=[pytest.mark.tvm] if measured else [])


@pytest.mark.parametrize("folder", [of_today(folder) for folder in KEPT])
def test_kept_results_are_of_today(folder: Path) -> None:
    """The same experiment would be the same searches today; else it is to be run again."""
    found = summary(folder)
    experiment, made = found["experiment"], found["provenance"]
    departures(experiment)  # it is shipped
    # The cost model's version, machine, workloads, surrogates and all hyperparameters.
    identity = describe(prepare(as_run(experiment), folder.name))["provenance"]
    assert {"model_version", "accelerator", "workloads", "hyperparameters"} <= identity.keys()
    for name, today in identity.items():
        assert made[name] == today, name
    assert re.fullmatch(r"[0-9a-f]{40}", made["commit"])
    assert made["processor"]


def searcher_tables(text: str) -> list[str]:
    """The tables of which three rows and more begin with a searcher's name, but for marked ones."""
    found = []
    unmarked = MARK.sub(lambda match: "" if match[1] else match[0], text)
    for block in re.split(r"\n(?!\|)", unmarked):
        firsts = re.findall(r"^\|\W*([a-z0-9-]+)", block, re.MULTILINE)
        if sum(first in searchers.SEARCHERS for first in firsts) >= 3:
            found.append(block)
    return found


def test_other_tables_of_searchers_are_known() -> None:
    counts = {str(page.relative_to(ROOT)): len(searcher_tables(page.read_text())) for page in PAGES}
    assert {page: count for page, count in counts.items() if count} == OTHERS


def test_no_page_rests_on_a_script_that_holds_methods_against_each_other() -> None:
    named = {name for page in PAGES for name in re.findall(r"\bbench_[a-z_]+", page.read_text())}
    assert named <= TIMING
    assert all((ROOT / "tests" / "benchmarks" / f"{name}.py").is_file() for name in named)
