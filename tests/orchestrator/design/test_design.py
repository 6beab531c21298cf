"""Designs: the best machines of a grid without proving all, held against proving all of them."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from hypothesis import given, settings
from hypothesis import strategies as st

import mapspace as ms
from costmodel import accelerator
from costmodel.machines.accelerators import Accelerator
from mapspace.errors import ConfigError
from orchestrator.design import branching, run
from orchestrator.design.config import Design
from orchestrator.design.machine_grid import Box, MachineGrid, machines_in
from orchestrator.design.plan import DesignPlan, prepare_design
from orchestrator.design.run import CERTIFICATE_FILE, DesignExperiment, DesignResults, design
from orchestrator.runs.limits import LimitReachedError, Limits
from orchestrator.sweep.config import AreaProxy, Sweep
from orchestrator.sweep.config import Limits as AreaLimits
from orchestrator.sweep.plan import prepare_sweep
from orchestrator.sweep.report import sweep_document
from orchestrator.sweep.results import SweepResults
from orchestrator.sweep.run import sweep

GRID: dict[str, list[Any]] = {
    "L1.capacity_words": [8, 16, 64],
    "L2.capacity_words": [64, 256, 1024],
    "L2.fanout": [2, 4, 8],
}
# A thousand machines.
LARGE = {
    "L1.capacity_words": [8, 12, 16, 32, 64],
    "L2.capacity_words": [64, 128, 256, 512, 1024],
    "L2.fanout": [2, 3, 4, 6, 8],
    "DRAM.read_bandwidth": [0.5, 1.0, 2.0, 4.0],
    "L2.read_bandwidth": [4.0, 8.0],
}
# Fewer of them.
SOME = {
    "L1.capacity_words": [8, 16, 64],
    "L2.capacity_words": [64, 256, 1024],
    "L2.fanout": [2, 3, 4, 8],
    "DRAM.read_bandwidth": [0.5, 2.0],
}
# At 32 nm a read of the L2 of 1,024 words costs less than one of 512: its layout is another one.
COMPONENTS: dict[str, Any] = {
    "name": "parts",
    "node_nm": 32,
    "clock_ghz": 0.5,
    "mac_component": "int-mac",
    "levels": [
        {"name": "DRAM", "component": "lpddr4", "block_words": 4, "bandwidth": 2.0},
        {
            "name": "L2",
            "capacity_words": 512,
            "component": {"kind": "sram", "banks": 2},
            "block_words": 4,
            "fanout": 4,
            "read_bandwidth": 4.0,
        },
        {"name": "L1", "capacity_words": 16, "component": "registers"},
    ],
}
SIZES: dict[str, list[Any]] = {
    "L1.capacity_words": [8, 16, 64],
    "L2.capacity_words": [128, 512, 1024],
    "L2.fanout": [2, 4, 8],
}
MM2: dict[str, Any] = {"base": COMPONENTS, "grid": SIZES, "area": "mm2"}
MIXED: dict[str, list[Any]] = {
    "L2.capacity_words": [128, 512, 1024],
    "L1.capacity_words": [8, 12, 16, 24, 32, 64],
    "L1.fanout": [2, 4, 8],
    "node_nm": [22, 32, 45],
}
LAYERS = ["gemm:M=8,N=12,K=6", "gemm:M=4,N=4,K=16"]


def content(**changes: object) -> dict[str, Any]:
    given = {"name": "test", "grid": GRID, "workloads": LAYERS, "base": "mm256-bw", **changes}
    return {key: value for key, value in given.items() if value is not None}


def designed(folder: Path, **changes: object) -> tuple[DesignPlan, DesignResults]:
    plan = prepare_design(
        Design.model_validate({"kind": "design", **content(**changes)}), "test.yaml"
    )
    return plan, design(plan, folder, execute=map)


def swept(folder: Path, **changes: object) -> SweepResults:
    plan = prepare_sweep(Sweep.model_validate({"kind": "sweep", **content(**changes)}), "x.yaml")
    return sweep(plan, folder, execute=map)


def machine_grid(base: Accelerator, grid: dict[str, Any], **changes: Any) -> MachineGrid:
    sought = {"kind": "design", "name": "x", "workloads": LAYERS, "grid": grid, **changes}
    return MachineGrid(base, Design.model_validate(sought), "x")


def machines_of(box: Box) -> set[tuple[int, ...]]:
    return set(itertools.product(*(range(first, stop) for first, stop in box)))


FIVE_EACH = machine_grid(
    accelerator("mm256-bw"), {key: LARGE[key] for key in (*GRID,)}, energy_scaling="sqrt"
)


@pytest.mark.parametrize(
    "changes",
    [
        {"energy_scaling": "sqrt"},
        {"objective": "ed2p", "workloads": LAYERS[:1], "limits": {"area_bits": 9000.0}},
        {**MM2, "workloads": LAYERS[:1], "limits": {"area_mm2": 0.02, "power_w": 0.11}},
        pytest.param(MM2, marks=pytest.mark.slow),
        pytest.param({**MM2, "objective": "energy"}, marks=pytest.mark.slow),
        pytest.param({**MM2, "grid": {**SIZES, "node_nm": [22, 32]}}, marks=pytest.mark.slow),
        pytest.param(
            {
                **MM2,
                "grid": {
                    "L1.capacity_words": [8, 12, 16, 32, 64],
                    "L2.capacity_words": [128, 256, 512, 1024, 2048],
                    "L2.fanout": [2, 3, 4, 6, 8],
                    "DRAM.bandwidth": [0.5, 1.0, 2.0, 4.0],
                    "L2.read_bandwidth": [4.0, 8.0],
                },
                "workloads": LAYERS[1:],
            },
            marks=pytest.mark.slow,
        ),
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"grid": LARGE, "energy_scaling": "sqrt"}, marks=pytest.mark.slow),
        pytest.param({"objective": "energy", "energy_scaling": "sqrt"}, marks=pytest.mark.slow),
        pytest.param({"objective": "latency"}, marks=pytest.mark.slow),
        # No order is known of widths and clocks: each of them is looked at by itself.
        pytest.param(
            {"grid": {**GRID, "word_bits": [8, 16], "clock_ghz": [0.5, 1.0]}},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_front_is_that_of_the_whole_sweep(changes: dict[str, Any], tmp_path: Path) -> None:
    plan, found = designed(tmp_path / "design", **changes)
    every = swept(tmp_path / "sweep", **changes)
    assert found.proven
    column = every.objective_column
    rows = [
        frame[[plan.design.area_column, column]].to_numpy(dtype=np.float64)
        for frame in (found.machines.front, every.front)
    ]
    assert rows[0] == pytest.approx(rows[1], rel=1e-12)
    assert found.problems == len(every.points)
    assert found.proofs < 0.5 * found.problems or len(every.architectures) < 1000
    # Every machine is settled, and once.
    boxes = [machines_of(box.box) for box in found.settled]
    assert sum(map(len, boxes)) == len(set().union(*boxes)) == plan.grid.size
    # No bound is above what the sweep has proven.
    values = {
        tuple(row[axis.key] for axis in plan.grid.axes): row
        for row in every.architectures.to_dict("records")
    }
    power = {"energy": 0, "ed2p": 2}.get(plan.design.objective, 1)
    quantity = {"latency": "latency_cycles", "energy": "energy_pj"}.get(
        plan.design.objective, plan.design.objective
    )
    for box in found.settled:
        for places in machines_of(box.box):
            row = values[tuple(plan.grid.parameters(places).values())]
            value = row[quantity] / row["clock_ghz"] ** power
            # Under a limit of power it is a bound on what keeps that.
            kept = row["within_limits"] or "power_w" not in changes.get("limits", {})
            assert not kept or box.bound <= value or box.why == "infeasible"
            assert box.why not in ("power", "limits") or not row["within_limits"]
            assert box.area <= row[plan.design.area_column]
            if box.why == "dominated":
                best = [
                    (len(axis.values) - 1) if plan.grid.is_free(number) else place
                    for number, (axis, place) in enumerate(zip(plan.grid.axes, places, strict=True))
                ]
                better = values[tuple(plan.grid.parameters(tuple(best)).values())]
                assert better[quantity] <= row[quantity] * (1 + 1e-12)
                assert better[plan.design.area_column] == row[plan.design.area_column]


def test_what_an_axis_brings_is_the_bound_or_the_power_whichever_is_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a half: its bound was 2, its share of a limit 4, and its width a half."""
    search: Any = object.__new__(branching.Branching)
    for bound, ratio, gain in (
        (3.0, 36.0, np.log(9)), (3.0, 5.0, np.log(1.5)), (3.0, 0.0, np.log(1.5)),
        (2.0, 1.0, 0.0), (1.0, 8.0, np.log(2)), (np.inf, 8.0, None),
    ):  # fmt: skip
        monkeypatch.setattr(branching.Branching, "_ratio", lambda *_, ratio=ratio: ratio)
        search._gains = [[], []]
        search._parents = {"half": (1, 0.5, 2.0, 4.0)}
        search._learn("half", bound)
        assert search._gains == [[], [] if gain is None else [pytest.approx(gain / 0.5)]]
        assert not search._parents


def test_what_takes_no_area_is_not_searched(tmp_path: Path) -> None:
    """But for limits that a better machine may break."""
    grid = {**GRID, "DRAM.read_bandwidth": [0.5, 1.0, 2.0], "DRAM.write_bandwidth": [1.0, 2.0]}
    same: dict[str, Any] = {"grid": grid, "workloads": LAYERS[:1], "find": "best"}
    plan, free = designed(tmp_path / "a", **same)
    assert [plan.grid.is_free(axis) for axis in range(5)] == [False] * 3 + [True] * 2
    counts = {
        why: sum(machines_in(box.box) for box in free.settled if box.why == why)
        for why in ("dominated", "bound", "proven")
    }
    assert counts["dominated"] == 27 * 5
    assert counts["bound"] + counts["proven"] == 27
    best = free.machines.best
    assert best is not None
    _, bound = designed(tmp_path / "b", **same, limits={"power_w": 2 * best["power_w"]})
    assert "dominated" not in {box.why for box in bound.settled}
    assert bound.machines.best is not None
    assert bound.machines.best["edp"] == best["edp"]
    below = {"limits": {"power_w": 0.999 * best["power_w"]}}
    _, other = designed(tmp_path / "c", **same, **below)
    every = swept(tmp_path / "d", **{**same, "find": None}, **below).best
    assert other.machines.best is not None
    assert every is not None
    assert other.machines.best["edp"] == pytest.approx(every["edp"], rel=1e-12)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=3),
    st.floats(5_000, 60_000),
)
@settings(max_examples=30)
def test_what_is_cut_off_a_box_is_too_large(ends: list[tuple[int, int]], most: float) -> None:
    grid, limits = FIVE_EACH, AreaLimits(area_bits=most)
    box = tuple((min(pair), max(pair) + 1) for pair in ends)
    if grid.too_large(box, limits):
        return
    left, cut = grid.within(box, limits)
    parts = [machines_of(part) for part in (left, *cut)]
    assert sum(map(len, parts)) == len(set().union(*parts)) == machines_in(box)
    for places in set().union(*parts[1:]):
        assert AreaProxy().bits(grid.machine(places)) > most
    # Each value that is left is that of a machine which is not.
    for axis, (first, stop) in enumerate(left):
        for end in (first, stop - 1):
            assert any(
                AreaProxy().bits(grid.machine(places)) <= most
                for places in parts[0]
                if places[axis] == end
            )


def test_the_best_needs_fewer_proofs_than_the_front(tmp_path: Path) -> None:
    _, front = designed(tmp_path / "front", energy_scaling="sqrt")
    _, best = designed(tmp_path / "best", energy_scaling="sqrt", find="best")
    assert best.proofs < front.proofs
    least = front.machines.best
    assert least is not None
    assert best.machines.architectures["edp_js"].min() == pytest.approx(least["edp_js"], rel=1e-12)


def test_what_binds_is_what_the_next_machine_has(tmp_path: Path) -> None:
    grid = {"L1.capacity_words": [8, 16], "L2.capacity_words": [64, 256], "L2.fanout": [2, 4]}
    same: dict[str, Any] = {"grid": grid, "workloads": LAYERS[:1]}
    limits = {"limits": {"area_bits": 9000.0}}
    _, found = designed(tmp_path / "a", **same, **limits, find="best")
    every = swept(tmp_path / "b", **same, **limits).architectures.to_dict("records")
    best = min((row for row in every if row["within_limits"]), key=lambda row: row["edp"])
    assert {step.key for step in found.steps} | set(found.ends) == set(grid)
    assert any(not step.allowed for step in found.steps), "the limit is to bind"
    for step in found.steps:
        place = {**{key: best[key] for key in grid}, step.key: step.further}
        row = next(row for row in every if all(row[key] == place[key] for key in grid))
        assert step.change == pytest.approx(row["edp"] / best["edp"] - 1, abs=1e-12)
        assert step.allowed == row["within_limits"]
        assert step.area == row["area_bits"]
        assert step.value == best[step.key]
    again = designed(tmp_path / "front", **same, find="front")[1]
    assert (again.steps, again.ends) == ((), ())
    # The page begins with what is proven, and of one machine there is no chart.
    proof = found.proof()
    assert proof.notes[0].startswith("No machine of the grid is better")
    assert "`mapspace verify certificate.json`" in proof.notes[-1]
    rows = [row[0].value for table in proof.tables for row in table.body()]
    assert rows == [*(step.key for step in found.steps), *found.ends]
    page = sweep_document(found.machines, proof)
    assert page.sections[0] is proof
    assert [figure for section in page.sections for figure in section.figures] == []
    fronts = sweep_document(again.machines, again.proof())
    assert fronts.sections[0].notes[0] == "No other machine of the grid is on the front."
    assert len(fronts.sections[1].figures) == 1


class Stopping(Limits):
    """A limit that is reached when it is looked at for the n-th time."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        object.__setattr__(self, "looks", itertools.count(1 - looks))

    def reached(self, processors: int) -> str:
        return "so many looks" if next(self.looks) >= 0 else ""  # type: ignore[attr-defined]


@pytest.mark.parametrize("find", ["best", "front"])
def test_what_a_stopped_design_has_is_as_good_as_it_says(
    find: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it is stopped: nothing proven later is better by more than the gap."""
    monkeypatch.setattr(branching, "FIRST_DIVE", 4)
    monkeypatch.setattr(run, "PROOFS_AT_ONCE", 2)
    changes = {"energy_scaling": "sqrt", "find": find, "grid": SOME}
    plan, whole = designed(tmp_path / "whole", **changes)
    truth = whole.machines.front[["area_bits", "edp"]].to_numpy(dtype=np.float64)
    gaps, proofs = [], []
    for looks in itertools.count(1):
        folder = tmp_path / "stopped"
        try:
            found = design(plan, folder, execute=map, limits=Stopping(1 if find == "best" else 5))
        except LimitReachedError:
            assert looks <= 4, "a machine is to be found early"
            continue
        proofs.append(found.proofs)
        if found.proven:
            break
        certificate = found.certificate
        assert ms.verify(certificate).holds
        gaps.append(math.inf if found.gap is None else found.gap)
        have = found.machines.front[["area_bits", "edp"]].to_numpy(dtype=np.float64)
        for area, best in truth if find == "front" else truth[-1:]:
            known = have[have[:, 0] <= area, 1] if find == "front" else have[:, 1]
            assert min(known, default=math.inf) <= best * (1 + gaps[-1]) * (1 + 1e-12)
        closer = certificate.model_copy(update={"gap": gaps[-1] / 2})
        if gaps[-1] < math.inf:
            assert not ms.verify(closer).holds
    assert len(gaps) > 2
    assert math.isfinite(gaps[-1])
    assert proofs == sorted(proofs)
    assert found.settled == whole.settled
    assert found.proofs == whole.proofs


def test_a_design_that_has_found_nothing_yet_says_so(tmp_path: Path) -> None:
    plan, _ = designed(tmp_path / "whole")
    with pytest.raises(LimitReachedError, match=r"so many looks and \d+ proofs, with no machine"):
        design(plan, tmp_path / "stopped", execute=map, limits=Stopping(1))


def test_hours_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("design", "design-smoke", "--hours", "0") == 2
    assert "--hours: expected a number above 0, got 0.0" in capsys.readouterr().err


def test_a_gap_saves_proofs_and_is_kept(tmp_path: Path) -> None:
    same: dict[str, Any] = {"energy_scaling": "sqrt", "find": "best"}
    _, exact = designed(tmp_path / "a", **same)
    _, near = designed(tmp_path / "b", **same, gap=0.2)
    assert near.proofs < exact.proofs
    assert near.gap is not None
    assert 0 < near.gap <= 0.2
    best = [one.machines.front["edp"].min() for one in (exact, near)]
    assert best[1] <= best[0] * (1 + near.gap)
    assert not near.proven
    verified = ms.verify(near.certificate)
    assert verified.holds
    assert f"at most {near.gap:.2%} above the best" in verified.findings[-1]
    with pytest.raises(ValueError, match="gap"):
        designed(tmp_path / "c", gap=-0.1)


def test_a_second_call_proves_nothing_again(tmp_path: Path) -> None:
    plan, found = designed(tmp_path)
    again = design(plan, tmp_path, execute=lambda function, items: pytest.fail("proves again"))
    assert again.settled == found.settled
    for file in (tmp_path / "proofs").iterdir():
        file.write_text(file.read_text()[:40])
    assert design(plan, tmp_path, execute=map).settled == found.settled, "torn proofs are made anew"


def test_proofs_are_counted_as_they_are_made(tmp_path: Path) -> None:
    plan = prepare_design(Design.model_validate({"kind": "design", **content()}), "test.yaml")
    made = list[object]()

    def noted(prove: Any, chunks: Any) -> Any:
        made.extend(chunks)
        return map(prove, chunks)

    experiment = DesignExperiment(plan, execute=noted)
    experiment.run(tmp_path)
    assert experiment.made == len(made) > 2
    assert experiment.taken == 0


def test_more_time_proves_what_had_run_out_of_it(tmp_path: Path) -> None:
    hard: dict[str, Any] = {
        "grid": {"L1.capacity_words": [2048], "L2.fanout": [64]},
        "workloads": ["vgg16-conv3_2"],
    }
    _, first = designed(tmp_path, **hard, seconds_per_point=0.001)
    assert not first.proven
    _, again = designed(tmp_path, **hard, seconds_per_point=60.0)
    assert again.proven


def test_the_certificate_is_proven_again(tmp_path: Path) -> None:
    grid = {**GRID, "L1.capacity_words": [8, 16, 32, 64, 128]}
    _, found = designed(tmp_path, grid=grid, limits={"area_bits": 20_000.0})
    verified = ms.verify(tmp_path / CERTIFICATE_FILE)
    assert verified.holds
    assert verified.complete
    assert {box.why for box in found.settled} == {"area", "bound", "proven"}
    assert ms.verify(found).findings == verified.findings
    cut = ms.verify(found.certificate, seconds=1e-9)
    assert cut.holds
    assert not cut.complete


def _without_a_proof(said: dict[str, Any]) -> None:
    said["proofs"] = said["proofs"][: len(said["proofs"]) // 2]


def _without_a_box(said: dict[str, Any]) -> None:
    said["boxes"].pop()


def _with_a_box_twice(said: dict[str, Any]) -> None:
    said["boxes"].append(said["boxes"][0])


def _with_another_front(said: dict[str, Any]) -> None:
    said["front"].pop()


def _of_a_smaller_limit(said: dict[str, Any]) -> None:
    said["design"]["limits"] = {"area_bits": 4_200_000.0}


@pytest.mark.parametrize(
    "spoil",
    [
        _without_a_proof,
        _without_a_box,
        _with_a_box_twice,
        _with_another_front,
        _of_a_smaller_limit,
    ],
)
def test_a_spoilt_certificate_does_not_hold(
    spoil: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    designed(
        tmp_path,
        grid={"L1.capacity_words": [8, 16, 32], "L2.fanout": [2, 4, 8]},
        workloads=LAYERS[:1],
        limits={"area_bits": 4_210_000.0},
    )
    path = tmp_path / CERTIFICATE_FILE
    said = json.loads(path.read_text())
    spoil(said)
    path.write_text(json.dumps(said))
    assert not ms.verify(path).holds


def test_no_certificate_of_a_design(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"format": "mapspace-design-certificate-1", "boxes": 3}))
    assert call("verify", path) == 2
    assert "x.json: " in capsys.readouterr().err


BITS = list(range(1, 65))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"grid": None, "accelerators": ["mm256"], "base": None},
            "accelerators: goes with a sweep",
        ),
        ({"grid": {"L1.capacity": [1]}}, "L1.capacity: Unknown key 'capacity'"),
        ({"limits": {"area_bits": 1.0}}, "area_bits: expected at least 5,376, the smallest"),
        ({"grid": {"L9.fanout": [1]}}, "Unknown level 'L9'"),
        (
            {"workloads": ["gem"], "grid": {"L1.capacity": [1], "L9.fanout": [1]}},
            "Unknown workload 'gem'.*L1.capacity: Unknown key.*Unknown level 'L9'",
        ),
        (
            {"grid": {"L1.capacity_words": [0, 64, "many"], "L2.fanout": [-4, 64]}},
            r"L1.capacity_words=0: .* got 0;.*=many: .* L2.fanout=-4: .* got -4\.",
        ),
        ({"grid": {"L1.capacity_words": list(range(1, 5000)), "L2.fanout": [*range(1, 5000)]}},
         "at most 10,000,000 machines"),
        ({"area": "mm2"}, "area: mm2: .*without that of L2, L1, MAC; give area_mm2 or component"),
        ({"limits": {"area_mm2": 1.0}}, "limits: area_mm2: .*without that of L2, L1, MAC"),
        ({**MM2, "limits": {"area_mm2": 1e-3}}, "area_mm2: expected at least 0.004548"),
        ({**MM2, "area": "cm2"}, "'mm2'"),
        ({**MM2, "area": 3}, "expected mm2, or the weights of the proxy"),
        ({**MM2, "energy_scaling": "sqrt"}, "parts's DRAM are those of a component of its size"),
        ({**MM2, "grid": {"L2.capacity_words": [128, 8]}}, "L2.capacity_words=8: .*nearest: 1,024"),
        # Of clocks and words of fewer bits nobody knows which is better: each takes a proof.
        (
            {"grid": {"clock_ghz": [n / 100 for n in range(1, 101)], "L1.word_bits": BITS}},
            r"at most 10,000 points, .* \(clock_ghz, L1.word_bits\), .* got 12,800",
        ),
    ],
)  # fmt: skip
def test_misuse(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=message):
        prepare_design(Design.model_validate({"kind": "design", **content(**changes)}), "test.yaml")


@pytest.mark.parametrize("gap", [0.01, 0.03, 0.1, 0.4])
def test_the_gap_of_an_answer_is_at_most_what_was_asked(tmp_path: Path, gap: float) -> None:
    same: dict[str, Any] = {"energy_scaling": "sqrt", "find": "best"}
    _, near = designed(tmp_path / "a", **same, gap=gap)
    assert near.gap is not None
    assert near.gap <= gap
    found = swept(tmp_path / "b", energy_scaling="sqrt").architectures["edp"].min()
    assert near.machines.front["edp"].min() <= found * (1 + gap)
