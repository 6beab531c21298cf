"""What a sweep tells: its text, its page, its figure and its metrics, of costs of our own."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from sweeps import OTHER, SMALL, plan_for

from orchestrator.sweep import report
from orchestrator.sweep.proofs import Proof
from orchestrator.sweep.report import text_summary, write_sweep_report
from orchestrator.sweep.results import SweepResults, collect, parameters_of, problems_of
from orchestrator.sweep.run import _begin_line, _metrics

ROOMS = (64, 16, 32, 128)
"""Words of the innermost level: the areas, not in their order."""


def told(changes: dict[int, dict[str, Any]]) -> SweepResults:
    """Four machines of rising numbers, two layers each; some points are something else.

    Machine m (from 0) takes (m + 1) mJ and (m + 1) million cycles per layer; of the areas
    the second has the least.
    """
    machines = []
    for place, words in enumerate(ROOMS):
        level = {"name": "L1", "capacity_words": words}
        machines.append({"extends": "mm256", "name": f"m{place}", "levels": [level]})
    plan = plan_for(grid=None, accelerators=machines, workloads=[SMALL, OTHER])
    proofs = {}
    for point, problem in enumerate(problems_of(plan)):
        many = 1 + point // 2
        known: dict[str, Any] = {
            "status": "proven",
            "energy_pj": many * 1e9,
            "latency_cycles": many * 1_000_000,
            "gap": 0.0,
            "record": {"of": point},
            "lower_bound": 1.0,
            "seconds": 0.5 * (point + 1),
            "limit_seconds": 60.0,
        }
        nothing = dict.fromkeys(("energy_pj", "latency_cycles", "gap", "record", "lower_bound"))
        change = changes.get(point, {})
        bare = nothing if change.get("status") in ("infeasible", "unsupported") else {}
        proofs[problem.key] = Proof(key=problem.key, **{**known, **bare, **change})
    return collect(plan, proofs)


def test_metrics_by_hand() -> None:
    results = told({3: {"status": "time_limit", "gap": 0.25}, 7: {"status": "infeasible"}})
    metrics = list(_metrics(results))
    single = {name: value for name, value, step in metrics if step == 0}
    assert single["points"] == 8.0
    assert single["architectures"] == 4.0
    # Of 16 words: 2 + 2 mJ in 4 M cycles; of 32: 6 in 6, of 64: 2 in 2; of 128: none.
    assert single["front_size"] == 2.0
    assert (single["points_proven"], single["points_time_limit"]) == (6.0, 1.0)
    assert single["points_infeasible"] == 1.0
    assert single["proof_seconds"] == 0.5 * sum(range(1, 9))
    assert single["largest_gap"] == 0.25
    assert single["best_edp_js"] == pytest.approx(2e-3 * 2e-3)
    series: dict[str, list[float]] = {}
    for name, value, step in metrics:
        series.setdefault(name, []).append(value)
        assert step == len(series[name]) - 1
    areas = series["architecture_area_bits"]
    assert areas == sorted(areas)
    assert len(set(areas)) == 4
    products = [4e-3 * 4e-3, 6e-3 * 6e-3, 2e-3 * 2e-3]
    assert series["architecture_edp_js"][:3] == pytest.approx(products)
    assert math.isnan(series["architecture_edp_js"][3])
    assert series["front_area_bits"] == [areas[0], areas[2]]
    assert series["front_edp_js"] == pytest.approx([products[0], products[2]])
    assert len(metrics) == 9 + 2 * 4 + 2 * 2


def test_without_any_mapping_nothing_is_the_best(tmp_path: Path) -> None:
    results = told({point: {"status": "infeasible"} for point in range(8)})
    metrics = {name: value for name, value, _ in _metrics(results)}
    assert math.isnan(metrics["best_edp_js"])
    assert (metrics["front_size"], metrics["largest_gap"]) == (0.0, 0.0)
    text = text_summary(results)
    assert "No accelerator has a mapping for every workload." in text
    assert "4 others are off the front" in text
    assert len(re.findall("has no mapping on any machine", text)) == 2
    assert "has no mapping on any machine" in write_sweep_report(results, tmp_path).read_text()


def test_a_text_says_what_is_beside_the_front() -> None:
    results = told({1: {"status": "infeasible"}, 3: {"status": "time_limit", "gap": 0.25}})
    text = text_summary(results)
    # The first machine has no mapping of one layer, so the third is better than the second.
    rows = [line.split() for line in text.splitlines()]
    assert [row[:2] for row in rows if row[1:2] in (["m0"], ["m1"], ["m2"])] == [["1", "m1"]]
    assert "3 others are off the front" in text
    assert "more in" not in text
    assert f"{OTHER} has no mapping on 1 of 4 accelerators." in " ".join(text.split())
    assert "8 points (8 distinct): 6 proven, 1 infeasible, 1 time limit" in text
    assert "Energy and time are sums over 2 layers, EDP is the product" in " ".join(text.split())
    assert "best for its own layer's edp. Area is a proxy" in " ".join(text.split())
    assert [row for row in rows if row[-1:] == ["1/2"]], "one of two is proven"
    few = text_summary(told({}), most_rows=1)
    assert "... and 1 more in architectures.csv" in few
    assert "2 others are off the front" in few
    assert "more in" not in text_summary(told({}), most_rows=2)
    assert "Least EDP: 4e-06 J s, by m0." in few


def test_a_narrow_terminal_has_no_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the time; how many are proven stands below where all are."""
    for changes, left_out in (
        ({}, {"cycles", "proven"}),
        ({2: {"status": "time_limit"}}, {"cycles"}),
    ):
        results = told(changes)
        header, _ = report.front_table(results)
        monkeypatch.setattr(report, "line_width", lambda: 1000)
        whole = " ".join(text_summary(results).splitlines()[2].split())
        assert whole == " ".join(header)
        width = len(text_summary(results).splitlines()[2])
        monkeypatch.setattr(report, "line_width", lambda width=width: width)
        assert " ".join(text_summary(results).splitlines()[2].split()) == whole
        monkeypatch.setattr(report, "line_width", lambda width=width: width - 1)
        narrow = " ".join(text_summary(results).splitlines()[2].split())
        assert narrow == " ".join(name for name in header if name not in left_out)


def test_a_page_has_every_machine_up_to_its_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = told({})
    page = write_sweep_report(results, tmp_path).read_text()
    order = re.findall(r">(m\d)<", page)
    assert order == ["m1", "m0", "m2", "m3"], "the front by area, then the best of the others"
    assert "more are in" not in page
    monkeypatch.setattr(report, "MOST_ROWS", 1)
    page = write_sweep_report(results, tmp_path).read_text()
    assert re.findall(r">(m\d)<", page) == ["m1", "m0", "m2"]
    assert "1 more are in architectures.csv" in page
    monkeypatch.setattr(report, "MOST_ROWS", 2)
    assert "more are in" not in write_sweep_report(results, tmp_path).read_text()


def test_the_figure_tells_what_is_proven_and_on_the_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    plain = Axes.scatter

    def scatter(panel: Axes, x: Any, y: Any, **style: Any) -> Any:
        seen.append({"x": list(x), "y": list(y), **style})
        return plain(panel, x, y, **style)

    monkeypatch.setattr(Axes, "scatter", scatter)
    labels = list[tuple[str, bool]]()
    monkeypatch.setattr(
        report, "_label", lambda panel, text, at, *, left: labels.append((text, left))
    )
    write_sweep_report(told({3: {"status": "time_limit", "gap": 0.25}}), tmp_path)
    bits = [float(row) for row in told({}).architectures["area_bits"]]
    dots = [one for one in seen if len(one["x"])]
    hollow = [one for one in dots if isinstance(one["facecolors"], str)]
    assert [(one["x"], list(one["s"])) for one in hollow] == [([bits[1]], [46])]
    assert all(one["linewidths"] > 0 and one["alpha"] == 1.0 for one in hollow)
    filled = [one for one in dots if not isinstance(one["facecolors"], str)]
    assert all(one["linewidths"] == 0 for one in filled)
    sizes = {x: s for one in filled for x, s in zip(one["x"], one["s"], strict=True)}
    assert sizes == {bits[0]: 46, bits[2]: 20, bits[3]: 20}
    # Ranks below to the left, names above to the right.
    assert sorted(labels) == sorted(
        [("1", True), ("2", True), *((f"m{place}", False) for place in range(4))]
    )


def test_hues_go_from_dark_to_light() -> None:
    hues = report._hues([4, 16, 64])
    assert list(hues) == [4, 16, 64]
    light = [float(np.sum(colour[:3])) for colour in hues.values()]
    assert light == sorted(light)
    assert light[0] < light[-1] < 3.0


def test_a_machine_as_columns() -> None:
    machine = told({}).plan.architectures[0].accelerator
    found = parameters_of(machine)
    assert found["processing_elements"] == 256
    assert found["L1.capacity_words"] == 64
    assert found["L2.fanout"] == 256
    assert "L1.name" not in found
    assert "name" not in found
    assert all(value is not None for key, value in found.items() if "." in key)
    assert not any(isinstance(value, tuple | dict) for value in found.values())


def test_what_a_sweep_begins_with_is_one_line() -> None:
    plan = plan_for()
    assert (
        _begin_line(plan, 12, 12) == "test: 6 accelerators x 2 workloads = 12 points, 12 distinct"
    )
    assert _begin_line(plan, 12, 5).endswith("12 points, 12 distinct, 7 finished before")
