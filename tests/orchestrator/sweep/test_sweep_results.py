"""Sweeps' results: clocks, objectives, limits, ranks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from sweeps import SMALL, plan_for

from costmodel.machines.accelerators import accelerator
from costmodel.machines.bounds import floor
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from orchestrator.report.units import millijoules, physical
from orchestrator.sweep import report
from orchestrator.sweep.config import Limits
from orchestrator.sweep.fitting import require_limits
from orchestrator.sweep.plan import Layer
from orchestrator.sweep.proofs import Problem, Proof, chunks_of
from orchestrator.sweep.report import text_summary, write_sweep_report
from orchestrator.sweep.results import (
    ARCHITECTURES_FILE,
    RESULTS_FILE,
    SweepResults,
    collect,
    column_text,
    front_records,
    in_shown_unit,
    problems_of,
)
from orchestrator.sweep.run import sweep


def proof_of(problem: Problem, energy_pj: float, cycles: int) -> Proof:
    """A proof with costs of our own."""
    return Proof(
        key=problem.key,
        status="proven",
        energy_pj=energy_pj,
        latency_cycles=cycles,
        gap=0.0,
        record={},
        lower_bound=energy_pj * cycles,
        seconds=1.0,
        limit_seconds=1.0,
    )


def machines_of_two_clocks(**changes: Any) -> SweepResults:
    """A small machine with a slow clock and a large one with a fast clock: `(pJ, cycles)`.

    In pJ x cycles the small one wins, and the large one is dominated: 4e18 against 9e18. In J s it
    is the other way round: 4e18 pJ x cycles are 4e-2 J s at 0.1 GHz, 9e18 are 9e-3 J s at 1 GHz.
    """
    small = {"extends": "mm256", "name": "slow", "clock_ghz": 0.1}
    small["levels"] = [{"name": "L1", "capacity_words": 16}]
    plan = plan_for(grid=None, accelerators=[small, "mm256"], workloads=[SMALL], **changes)
    costs = [(2e9, 2_000_000_000), (3e9, 3_000_000_000)]
    problems = problems_of(plan)
    return collect(
        plan,
        {
            problem.key: proof_of(problem, *cost)
            for problem, cost in zip(problems, costs, strict=True)
        },
    )


def test_areas_are_those_of_the_machines_that_have_one() -> None:
    sized = {"extends": "mm256", "name": "sized", "mac_area_mm2": 0.001}
    sized["levels"] = [{"name": level, "area_mm2": 0.01} for level in ("L1", "L2")]
    plan = plan_for(grid=None, accelerators=["mm256", sized], workloads=[SMALL])
    proofs = {problem.key: proof_of(problem, 2e9, 1000) for problem in problems_of(plan)}
    without, with_one = collect(plan, proofs).architectures["area_mm2"]
    assert np.isnan(without)
    assert with_one == plan.architectures[1].area_mm2 > 0


def test_dots_off_the_front_have_the_numbers_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = [
        {"extends": "mm256", "name": f"m{clock}", "clock_ghz": clock} for clock in range(1, 5)
    ]
    plan = plan_for(grid=None, accelerators=machines, workloads=[SMALL])
    # Of one area each, and of the same seconds: the first beats all others.
    proofs = [
        proof_of(problem, 2e9 + place, 1_000_000 * (1 + place))
        for place, problem in enumerate(problems_of(plan))
    ]
    results = collect(plan, {proof.key: proof for proof in proofs})
    assert list(results.architectures["front"]) == [1, 0, 0, 0]
    drawn = list[str]()
    monkeypatch.setattr(report, "MOST_NAMES", 0)
    monkeypatch.setattr(report, "number_dots", lambda panel, dots, names, **_: drawn.extend(names))
    page = write_sweep_report(results, tmp_path).read_text()
    assert drawn == ["2", "3", "4"]
    rows = re.findall(r"<tr><td[^>]*>(?:<[a-z]+>)?(\d+)<", page)
    assert rows == ["1", *drawn]
    # As many as have names beside them have no numbers.
    for most, numbers in ((3, 6), (4, 3)):
        monkeypatch.setattr(report, "MOST_NAMES", most)
        report.draw_front(results, tmp_path / "front.png")
        assert len(drawn) == numbers
        drawn[3:] = []


@pytest.mark.parametrize(
    ("problems", "most", "tasks", "sizes"),
    [
        (10, 4, 2, [4, 4, 2]),
        (5, 100, 2, [3, 2]),
        (3, 100, 8, [1, 1, 1]),
        (7, 1, 2, [1] * 7),
        (0, 4, 2, []),
    ],
)
def test_a_task_has_no_more_than_its_share_and_than_is_allowed(
    problems: int, most: int, tasks: int, sizes: list[int]
) -> None:
    some = problems_of(plan_for())[:problems]
    chunks = chunks_of(some, most, tasks=tasks)
    assert [len(chunk) for chunk in chunks] == sizes
    assert [problem for chunk in chunks for problem in chunk] == some


def test_a_notebook_shows_the_front_by_its_names() -> None:
    results = machines_of_two_clocks()
    shown = results._repr_html_()
    head = shown[shown.rindex("<thead>") : shown.rindex("</thead>")]
    assert re.findall(r"<th>(.*?)</th>", head) == [
        "architecture",
        results.plan.sweep.area_column,
        results.objective_column,
    ]
    body = shown[shown.rindex("<tbody>") :]
    assert "<th>" not in body  # a number of each row says nothing


def test_machines_of_different_clocks_are_compared_in_joule_seconds(tmp_path: Path) -> None:
    results = machines_of_two_clocks()
    slow, fast = results.architectures.to_dict("records")
    assert (slow["edp"], fast["edp"]) == (4e18, 9e18)
    assert slow["area_bits"] < fast["area_bits"]
    # 2 mJ in 20 s, 3 mJ in 3 s.
    assert (slow["latency_s"], fast["latency_s"]) == (20.0, 3.0)
    assert (slow["edp_js"], fast["edp_js"]) == pytest.approx((4e-2, 9e-3))
    assert (slow["power_w"], fast["power_w"]) == pytest.approx((1e-4, 1e-3))
    assert list(results.architectures["front"]) == [1, 2]
    assert list(results.points["edp_js"]) == pytest.approx([4e-2, 9e-3])
    text = text_summary(results)
    header, *rows = (line.split() for line in text.splitlines()[2:5])
    assert " ".join(header) == (
        "# architecture area, bits energy, mJ cycles time, ms power, W EDP, J s proven"
    )
    assert rows[1][2:] == [
        f"{fast['area_bits']:,.0f}", "3", "3,000,000,000", "3000", "0.001", "0.009", "1/1",
    ]  # fmt: skip
    assert "Least EDP: 0.009 J s, by mm256." in text
    page = write_sweep_report(results, tmp_path).read_text()
    assert "0.009 J s" in page
    records = [json.loads(line) for line in (tmp_path / "front.jsonl").read_text().splitlines()]
    assert [record["architecture"] for record in records] == ["slow", "mm256"]


@pytest.mark.parametrize(
    ("objective", "ranks"),
    # In cycles and in pJ the slow one would be alone on the front; in seconds it is not.
    [("latency", [1, 2]), ("energy", [1, 0]), ("ed2p", [1, 2])],
)
def test_every_objective_is_compared_in_units_of_time(objective: str, ranks: list[int]) -> None:
    assert list(machines_of_two_clocks(objective=objective).architectures["front"]) == ranks


@pytest.mark.parametrize(
    ("objective", "costs"),
    [("latency", [(2e9, 1000), (1e9, 1000)]), ("energy", [(1e9, 2000), (1e9, 1000)])],
)
def test_equal_architectures_are_told_apart_by_the_other_cost(
    objective: str, costs: list[tuple[float, int]]
) -> None:
    grid = {"mac_energy_pj": [2.0, 1.0]}
    plan = plan_for(grid=grid, workloads=[SMALL], objective=objective)
    proofs = [
        proof_of(problem, *cost) for problem, cost in zip(problems_of(plan), costs, strict=True)
    ]
    results = collect(plan, {proof.key: proof for proof in proofs})
    assert list(results.architectures["front"]) == [0, 1]


@pytest.mark.parametrize(
    ("limits", "within", "ranks"),
    [
        ({}, [True, True], [1, 2]),
        ({"power_w": 5e-4}, [True, False], [1, 0]),
        ({"latency_ms": 3000.0}, [False, True], [0, 1]),
        ({"energy_mj": 1.0}, [False, False], [0, 0]),
        ({"area_bits": 1e7, "power_w": 1.0}, [True, False], [1, 0]),
    ],
)
def test_limits_keep_accelerators_off_the_front(
    tmp_path: Path, limits: dict[str, float], within: list[bool], ranks: list[int]
) -> None:
    results = machines_of_two_clocks(limits=limits)
    assert list(results.architectures["within_limits"]) == within
    assert list(results.architectures["front"]) == ranks
    text = text_summary(results)
    if not any(within):
        assert "No accelerator with energy at most 1 mJ has a mapping" in text
    elif "power_w" in limits and "area_bits" not in limits:
        assert "Least EDP with power at most 0.0005 W: 0.04 J s, by slow." in text
    assert write_sweep_report(results, tmp_path).exists()


def test_resnet50_on_machines_of_different_clocks(tmp_path: Path) -> None:
    """In pJ x cycles mm256 would be dominated by edge-1024, which is smaller and clocked slower."""
    plan = plan_for(
        grid=None,
        accelerators=["eyeriss-168", "edge-1024", "mm256"],
        workloads=[{"network": "resnet50"}],
        seconds_per_point=60.0,
    )
    results = sweep(plan, tmp_path, execute=map)
    table = results.architectures
    assert list(table["proven"]) == [20, 20, 20]
    assert list(table["edp_js"]) == pytest.approx([5.260e-3, 7.021e-4, 4.256e-4], rel=2e-4)
    assert list(table["front"]) == [1, 2, 3]
    assert table["edp"][2] > table["edp"][1]


def test_what_is_neither_proven_nor_infeasible_is_unsolved() -> None:
    """The points of a machine are those three together."""
    works = [f"gemm:M={size},N=4,K=4" for size in (2, 4, 8, 16, 32, 64)]
    plan = plan_for(grid=None, accelerators=["mm256"], workloads=works)
    problems = problems_of(plan)
    proofs = {problem.key: proof_of(problem, 1.0, 1) for problem in problems}
    for problem, status in zip(
        problems[:3], ("infeasible", "infeasible", "time limit"), strict=True
    ):
        proofs[problem.key] = proofs[problem.key].model_copy(update={"status": status})
    [row] = collect(plan, proofs).architectures.to_dict("records")
    counted = tuple(row[name] for name in ("points", "proven", "infeasible", "unsolved"))
    assert counted == (6, 3, 2, 1)


def test_a_machine_has_the_largest_gap_of_its_points() -> None:
    works = [f"gemm:M={size},N=4,K=4" for size in (2, 4, 8, 16)]
    plan = plan_for(grid={"mac_energy_pj": [1.0, 2.0]}, workloads=works)
    problems = problems_of(plan)
    gaps = [0.25, 0.5, None, 0.0, None, None, None, None]
    proofs = {
        problem.key: proof_of(problem, 2.0, 3).model_copy(update={"gap": gap})
        for problem, gap in zip(problems, gaps, strict=True)
    }
    results = collect(plan, proofs)
    assert results.architectures["largest_gap"][0] == 0.5
    assert np.isnan(results.architectures["largest_gap"][1])
    # Four layers of 2 pJ and 3 cycles each.
    for name, value in {"energy_pj": 8, "latency_cycles": 12, "edp": 96, "ed2p": 1152}.items():
        assert list(results.architectures[name]) == [value, value]
    assert [record["layer"] for record in front_records(results)] == works
    assert {record["count"] for record in front_records(results)} == {1}


@pytest.mark.parametrize("key", ["latency_ms", "energy_mj"])
def test_a_limit_that_one_machine_may_keep_is_none_that_all_break(key: str) -> None:
    work = workload("gemm:M=64,N=64,K=64")
    worse = {"extends": "mm256", "name": "worse", "clock_ghz": 0.5, "mac_energy_pj": 9.0}
    machines = [accelerator("mm256"), accelerator(worse)]
    spent = []
    for machine in machines:
        least = floor(work, machine)
        si = physical(least.energy_pj, least.latency_cycles, machine.clock_ghz)
        spent.append({"latency_ms": 1e3 * si["latency_s"], "energy_mj": millijoules(
            least.energy_pj
        )}[key])  # fmt: skip
    assert spent[0] < spent[1]
    between = Limits.model_validate({key: sum(spent) / 2})
    for some in (machines, machines[::-1]):
        require_limits(between, [Layer(work, 1)], some, "x")
        require_limits(Limits.model_validate({key: spent[0]}), [Layer(work, 1)], some, "x")
    unit = {"latency_ms": "ms", "energy_mj": "mJ"}[key]
    said = rf"x: limits: {key}: expected at least \S+ {unit}, which .*, got \S+ {unit}\.$"
    with pytest.raises(ConfigError, match=said):
        require_limits(between, [Layer(work, 1)], machines[1:], "x")


@pytest.mark.parametrize("key", ["latency_ms", "energy_mj"])
def test_floors_count_how_often_a_layer_stands(key: str) -> None:
    work, machine = workload("gemm:M=64,N=64,K=64"), accelerator("mm256")
    least = floor(work, machine)
    once = physical(least.energy_pj, least.latency_cycles, machine.clock_ghz)
    one = {"latency_ms": 1e3 * once["latency_s"], "energy_mj": millijoules(least.energy_pj)}[key]
    limits = Limits.model_validate({key: 1.5 * one})
    require_limits(limits, [Layer(work, 1)], [machine], "x")
    with pytest.raises(ConfigError, match=f"x: limits: {key}: expected at least"):
        require_limits(limits, [Layer(work, 2)], [machine], "x")


def test_facts_and_files_say_what_was_found(tmp_path: Path) -> None:
    found = machines_of_two_clocks()
    facts = dict(found.facts())
    assert facts["front"] == "2 architectures"
    assert facts["best"].startswith("mm256: ")
    assert facts["best"].endswith(" 0.009")
    none = replace(found, architectures=found.architectures.assign(front=0))
    assert dict(none.facts()) == {"front": "0 architectures"}
    assert none.best is None
    found.save(tmp_path)
    points = pd.read_parquet(tmp_path / RESULTS_FILE)
    names = parquet.read_schema(tmp_path / RESULTS_FILE).names
    assert names == points.columns.tolist() == found.points.columns.tolist()
    assert points["energy_pj"].tolist() == [2e9, 3e9]
    text = (tmp_path / ARCHITECTURES_FILE).read_text().splitlines()
    assert text[0].split(",") == found.architectures.columns.tolist()
    assert len(text) == 3


def test_units_in_which_objectives_are_shown() -> None:
    assert [
        (column, column_text(column), in_shown_unit(column, 2.0))
        for column in ("edp_js", "ed2p_js2", "energy_pj", "latency_s")
    ] == [
        ("edp_js", "EDP, J s", 2.0), ("ed2p_js2", "ED2P, J s^2", 2.0),
        ("energy_pj", "energy, mJ", 2e-9), ("latency_s", "time, ms", 2000.0),
    ]  # fmt: skip
