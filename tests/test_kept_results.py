"""Figures of pages about searchers come from results that shipped experiments wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

import mapspace as ms
import searchers
from orchestrator.benchmark.config import prepare
from orchestrator.benchmark.run import describe
from orchestrator.kept.pages import MARK, filled
from orchestrator.kept.results import as_run, departures
from orchestrator.runs.experiments import find_experiment, load_experiment
from orchestrator.runs.kinds import kind

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))
KEPT = sorted(path.parent for path in (ROOT / "docs" / "results" / "kept").glob("*/summary.json"))
TABLES = sorted(path.parent for path in (ROOT / "docs" / "results" / "kept").glob("*/tables.json"))

# Tables of searchers that are not made of kept results, by page, which says what made them. One
# that is made again leaves the list; none joins it.
OTHERS: dict[str, int] = {
    "docs/guide/searchers.md": 1,
}
# A share, a ratio, a time or any other number that is not whole; versions and shapes are none.
MEASURED = re.compile(
    r"\b\d[\d,.]*\s?(?:%|per cent\b|times\b|x\b(?!\s?\d)|(?:[mu]?s|seconds?|minutes?|hours?)\b)"
    r"|(?<![\d.])\d+\.\d+(?![\d.])|\d+e-\d+"
)
NO_FIGURES = re.compile(r"95 %\s+intervals|Python 3\.\d+|section \d\.\d|!?\[[^]]*\]\([^)]*\)")
# Pages whose tables are proven again by a test.
PROVEN = {"machines.md"}
# Scripts under tests/benchmarks that pages name: they time things.
TIMING = {
    "bench_anytime",
    "bench_doors",
    "bench_pool",
    "bench_proofs",
    "bench_scale",
    "bench_shared_proof",
}
MACHINES = [
    [cell.strip(" `") for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "results" / "machines.md").read_text().splitlines()
    if line.startswith("| `")
]


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


@pytest.mark.parametrize("folder", TABLES, ids=[folder.name for folder in TABLES])
def test_kept_tables_are_those_of_todays_experiments(folder: Path) -> None:
    found = json.loads((folder / "tables.json").read_text())
    experiment, made = found["experiment"], found["provenance"]
    if experiment:
        config = kind(experiment["kind"]).config
        today = load_experiment(find_experiment(experiment["name"]), config)
        assert today.model_dump(mode="json") == experiment  # type: ignore[attr-defined]
    else:
        assert (ROOT / found["command"].removeprefix("python ")).is_file()
    assert re.fullmatch(r"[0-9a-f]{40}", made["commit"])
    assert made["processor"]


@pytest.mark.parametrize("page", RESULTS, ids=[page.name for page in RESULTS])
def test_figures_of_results_are_made_or_published(page: Path) -> None:
    """No share, ratio or time is written by hand.

    They stand where `make pages` puts them, in what a paper is cited for, or where a test proves
    them again (`PROVEN`).
    """
    assert figures(page.read_text(), tables=page.name in PROVEN) == []


def figures(text: str, *, tables: bool = False) -> list[str]:
    """Those that stand in a page by hand; `tables`: its tables may have some."""
    text = NO_FIGURES.sub("", MARK.sub("", text))
    if tables:
        text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    return MEASURED.findall(text)


def test_what_counts_as_a_figure() -> None:
    text = "7.1 % above, 1.40x, in 5 s or 12 ms, 0.99 of it, 3 times as far, 1.2e-5, 4 per cent"
    assert len(figures(text)) == 8
    for text in (
        "5,000 queries of 64 x 64 and 512 cubed, 1 x 1, release 12.5.1, with 95 % intervals",
        "<!-- published: Smith (2020) -->40 % less<!-- end -->, `0.5 s`, [in 5 s](images/x.png)",
        "<!-- value: random kept/there -->7.14<!-- end --> % above, Python 3.12, section 5.4",
    ):
        assert figures(text) == []
    assert figures("| a | 3.5 % |\nin 3 s", tables=True) == ["3 s"]


@pytest.mark.parametrize("row", MACHINES, ids=[row[0] for row in MACHINES])
def test_every_layer_on_a_published_machine_is_proven_again(row: list[str]) -> None:
    """What docs/results/machines.md says."""
    name, energy, time, edp, utilised = row
    found = ms.search_network("resnet50", name, seconds=60, store=False)
    assert found.totals is not None
    assert found.totals.overall.proven_layers == found.totals.distinct_layers == 20
    costs = found.totals.costs
    told = (
        costs.energy_pj * 1e-9,
        costs.latency_s * 1e3,
        costs.energy_pj * costs.latency_s * 1e-12,
    )
    for value, shown in zip(told, (energy, time, edp), strict=True):
        digits = len(re.sub(r"e.*|\.|^0\.0*", "", shown))
        assert float(f"{value:.{digits}g}") == float(shown)
    assert f"{100 * found.totals.utilisation:.1f} %" == utilised


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
