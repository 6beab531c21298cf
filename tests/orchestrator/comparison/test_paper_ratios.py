"""The paper's ratios stand beside searches on the paper's terms, and beside no others."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_results import make_results, make_run

from orchestrator.comparison.latency_replay import replayed
from orchestrator.comparison.page import benchmark_document
from orchestrator.comparison.paper_ratios import (
    FASTER_PER_STEP,
    compare,
    gradient_settings,
    off_terms,
    replays,
)
from orchestrator.comparison.paper_section import paper_tables
from orchestrator.comparison.results import Bounds, Results
from orchestrator.report.document import NOTHING

LEFT, RIGHT = "resnet-conv4", "mttkrp-0"


def entry(label: str, name: str, preset: str | None = "paper", **more: Any) -> dict[str, Any]:
    return {"label": label, "name": name, "preset": preset, "parameters": {}, **more}


BASELINES = [entry("SA", "annealing"), entry("GA", "genetic"), entry("RL", "ddpg")]
OURS = [entry("annealing", "annealing", None), entry("random", "random", None)]
LEARNED = [
    entry("MM", "gradient"),
    entry("released", "gradient", "released"),
    entry("ours", "gradient", None, parameters={"accounting": "visited"}),
]


def results(searchers: list[dict[str, Any]] | None = None, **experiment: Any) -> Results:
    """100 iterations of each; every baseline ends at twice the gradient searches' EDP."""
    searchers = [*BASELINES, *OURS, *LEARNED] if searchers is None else searchers
    runs = []
    for found in searchers:
        learned = found["name"] == "gradient"
        best = 20.0 if learned else 40.0
        for workload in (LEFT, RIGHT):
            for seed in range(2):
                points = [(1, 0.01, 16 * best), (50, 0.5, best), (100, 1.0, best)]
                run = make_run(found["label"], workload, seed, points)
                if learned:
                    run = replace(run, surrogate_queries=100, counted=np.zeros(3, dtype=np.int64))
                runs.append(run)
    bounds = {name: Bounds(10.0, 15.0, 20.0) for name in (LEFT, RIGHT)}
    sample = make_results(searchers=searchers, **experiment)
    return replace(sample, runs=tuple(runs), bounds=bounds)


def paper(found: Results) -> dict[str, float | None]:
    return {comparison.label: comparison.paper for comparison in compare(found)}


def test_only_the_papers_presets_get_the_papers_ratios() -> None:
    nothing = {"annealing": None, "random": None}
    assert paper(results()) == {"SA": 1.40, "GA": 1.76, "RL": 1.29, **nothing}
    slow = results(seconds=62.5, iterations=None, query_latency=0.035)
    assert paper(slow) == {"SA": 3.16, "GA": 4.19, "RL": 2.90, **nothing}


@pytest.mark.parametrize(
    "found",
    [
        results([*BASELINES, LEARNED[2]]),
        results([*OURS, *LEARNED]),
        results(objective="energy"),
        results(accelerator="eyeriss-168"),
        results(seconds=1.0, iterations=None),
        results(seconds=1.0, iterations=None, query_latency=0.007),
    ],
    ids=["our gradient", "our baselines", "energy", "another machine", "fast", "slow, not enough"],
)
def test_off_the_papers_terms_there_is_no_ratio(found: Results) -> None:
    assert off_terms(found)
    assert set(paper(found).values()) == {None}
    assert replays(found) == []


def test_other_problems_are_not_the_papers() -> None:
    runs = tuple(
        replace(run, workload=run.workload.replace(LEFT, "mine")) for run in results().runs
    )
    bounds = {"mine": results().bounds[LEFT], RIGHT: results().bounds[RIGHT]}
    assert "Table 1" in off_terms(replace(results(), runs=runs, bounds=bounds))


@pytest.mark.parametrize(
    ("more", "ratio"),
    [
        ({"parameters": {"horizon": 1000}}, 1.40),
        ({"parameters": {"log_loss": True}}, None),
        ({"iterations": 50}, None),
    ],
    ids=str,
)
def test_what_overrides_a_preset_is_no_longer_the_papers(
    more: dict[str, Any], ratio: float | None
) -> None:
    found = results([{**BASELINES[0], **more}, *BASELINES[1:], *LEARNED])
    assert paper(found)["SA"] == ratio
    assert paper(found)["GA"] == 1.76


def test_every_baseline_is_compared_with_every_variant() -> None:
    for found in compare(results()):
        assert list(found.ratios) == ["MM", "released", "ours"]
        assert [ratio.mean for ratio in found.ratios.values()] == pytest.approx([2.0] * 3)
    assert gradient_settings(results()) == {"MM": True, "released": True, "ours": False}
    assert compare(results([*BASELINES, *OURS])) == []


def test_on_the_papers_machine_with_its_banks_and_without() -> None:
    banked = results(accelerator="mindmappings")
    assert paper(banked) == paper(results())
    assert len(replays(banked)) == 4
    assert "banks" not in paper_tables(banked)[0].note
    assert "the machine mm256, whose buffers have no banks" in paper_tables(results())[0].note


def test_replayed_by_hand() -> None:
    found = replayed(results(), latency=1.0, seconds=60.0)
    assert found.primary_axis == "seconds"
    # After 60 s 50 queries and their 0.5 s of computing are over, not the hundredth.
    baseline, learned = found.of("SA", LEFT)[0], found.of("MM", LEFT)[0]
    assert (baseline.best_loss, baseline.iterations, baseline.true_queries) == (40.0, 50, 50)
    assert baseline.time.tolist() == [1.01, 50.5]
    assert (learned.best_loss, learned.iterations, learned.seconds) == (20.0, 100, 1.0)
    # Without room for 50 only the first counts; without room for one there is no mapping.
    assert replayed(results(), 1.0, 50.0).of("SA", LEFT)[0].best_loss == 16 * 40.0
    nothing = replayed(results(), 1.0, 1.0).of("SA", LEFT)[0]
    assert (nothing.best_loss, nothing.iterations, nothing.at([1.0], "seconds")[0]) == (
        math.inf,
        0,
        math.inf,
    )


def test_replays_at_the_cost_of_the_papers_query() -> None:
    found = replays(results())
    # A gradient search takes a second for its 100 steps.
    step = FASTER_PER_STEP * 0.01
    assert [replay.latency for replay in found] == pytest.approx([1 / 134, 1 / 28, 1 / 6, step])
    assert {replay.seconds for replay in found} == {1.0}
    over = [{c.label: c for c in replay.comparisons}["SA"] for replay in found]
    assert [c.paper for c in over] == [3.16] * 4
    # 67 queries fit at the fastest, 27 at the next, 5 and none after that.
    assert [c.ratios["MM"].mean for c in over[:3]] == pytest.approx([2.0, 32.0, 32.0])
    assert math.isnan(over[3].ratios["MM"].mean)


def test_the_report_says_whose_settings_they_are() -> None:
    ratios, replayed = paper_tables(results())
    assert ratios.title.endswith("beside the paper's ratios")
    rows = {row[0]: row[-1] for row in ratios.cells()}
    assert rows["SA"] == "1.40\N{MULTIPLICATION SIGN}"
    assert rows["annealing"] == rows["random"] == "our settings, not the paper's"
    assert [name.partition("\n")[2] for name in ratios.header[1:-1]] == [
        "the paper's settings",
        "the paper's settings",
        "our settings",
    ]
    assert "defaults were tuned on problems of the paper's Table 1" in ratios.note
    assert {row[0]: row[-1] for row in replayed.cells()}["SA"] == "3.16\N{MULTIPLICATION SIGN}"
    document = benchmark_document({Path("run"): results()}, Path("run"))
    assert ratios in document.sections[0].tables
    assert "`mapspace benchmark held-out`" in " ".join(document.sections[-1].notes)


def test_the_report_says_why_the_papers_ratios_are_missing() -> None:
    (ratios,) = paper_tables(results([*OURS, *LEARNED]))
    assert "beside the paper's ratios" not in ratios.title
    assert "The paper's ratios do not stand beside them: no baseline" in ratios.note
    assert {row[-1] for row in ratios.cells()} == {NOTHING}
