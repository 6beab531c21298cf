"""The front of energy, delay and area: against all machines, and against all mappings of all."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_design import COMPONENTS, GRID, LARGE, LAYERS, MM2, SIZES, designed

import mapspace as ms
from costmodel import LoopNestModel, MapSpace, workload
from costmodel.exact_any.weighted import least_sum
from mapspace.errors import ConfigError
from orchestrator.design import bounds
from orchestrator.design.aims import Aim, aims_of
from orchestrator.design.plan import DesignPlan
from orchestrator.design.results import DesignResults
from orchestrator.design.run import CERTIFICATE_FILE
from orchestrator.design.trade_front import TradeFront, undominated

THREE = "energy-delay-area"


def traded(folder: Path, **changes: Any) -> tuple[DesignPlan, DesignResults, TradeFront]:
    plan, found = designed(folder, find=THREE, **changes)
    assert isinstance(found.machines, TradeFront)
    return plan, found, found.machines


def least_of(plan: DesignPlan, places: tuple[int, ...], aim: Aim) -> float:
    """The least of an aim on a machine, every layer proven by itself: pJ and ns."""
    machine, total = plan.grid.machine(places), 0.0
    clock = machine.clock_ghz
    weight = None if aim.objective == "latency" else aim.weight(clock) or Fraction(0)
    for layer in plan.layers:
        line = least_sum(MapSpace(layer.workload, machine), weight)
        assert line.proven
        bound = float(line.bound)
        total += layer.count * (bound / clock if weight is None else bound)
    return total


def rounded(values: tuple[float, float]) -> tuple[float, float]:
    """To the digits that sums of floats have in common."""
    return float(f"{values[0]:.11g}"), float(f"{values[1]:.11g}")


@pytest.mark.parametrize(
    "changes",
    [
        {"energy_scaling": "sqrt", "workloads": LAYERS[:1], "rates_w": [0.2, 1.0]},
        {**MM2, "workloads": LAYERS[:1], "rates_w": [0.1], "grid": {**SIZES, "L2.fanout": [2, 8]}},
        {"limits": {"area_bits": 12_000.0}, "grid": {**GRID, "clock_ghz": [0.7, 1.0]},
         "workloads": LAYERS[1:]},
        pytest.param({"energy_scaling": "sqrt"}, marks=pytest.mark.slow),
        pytest.param(
            {**MM2, "grid": {**SIZES, "node_nm": [22, 45]}, "rates_w": [0.1]},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"energy_scaling": "sqrt", "grid": LARGE, "workloads": LAYERS[:1], "rates_w": [1.0]},
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_each_aim_has_the_front_of_all_machines(changes: dict[str, Any], tmp_path: Path) -> None:
    plan, found, front = traded(tmp_path, **changes)
    assert found.proven
    assert found.proofs < found.problems
    aims = aims_of(plan.design)
    assert aims[:2] == (Aim("energy"), Aim("latency"))
    area, rows = plan.design.area_column, front.architectures.to_dict("records")
    every = list(itertools.product(*(range(len(axis.values)) for axis in plan.grid.axes)))
    architectures = [plan.architecture(places) for places in every]
    most = getattr(plan.design.limits, area) or math.inf
    for aim in aims:
        truth = [
            (float(getattr(one, area)), least_of(plan, places, aim))
            for one, places in zip(architectures, every, strict=True)
            if getattr(one, area) <= most
        ]
        told = [
            (row[area], aim.value(row["energy_pj"], row["latency_cycles"], row["clock_ghz"]))
            for row in rows
            if str(aim) in row["aims"].split(", ") and row["aim"] == str(aim)
        ]
        # Of equals in both one stands for all.
        exact, floats = (np.array(sorted({rounded(one) for one in some})) for some in (truth, told))
        assert floats == pytest.approx(exact[undominated(exact)], rel=1e-12)


def test_no_mapping_of_any_machine_is_better_than_a_point(tmp_path: Path) -> None:
    """Against complete enumeration: points between the ends are on the front of everything."""
    layer = "gemm:M=4,N=2,K=3"
    grid = {"L1.capacity_words": [3, 8], "L2.capacity_words": [12, 64], "L2.fanout": [2, 4]}
    plan, _, front = traded(tmp_path, grid=grid, workloads=[layer], energy_scaling="sqrt")
    costs = []
    for places in itertools.product(range(2), repeat=3):
        machine = plan.grid.machine(places)
        space = MapSpace(workload(layer), machine)
        codes = np.array(list(itertools.product(*map(range, space.cardinality))), np.int32)
        found = LoopNestModel().evaluate(space, codes)
        able = np.isfinite(found.energy_pj)
        area = np.full(int(able.sum()), plan.design.proxy.bits(machine))
        costs.append(np.stack([found.energy_pj[able], found.latency_cycles[able], area], axis=1))
    truth = np.unique(np.concatenate(costs), axis=0)
    points = front.front[["energy_pj", "latency_cycles", "area_bits"]].to_numpy(np.float64)
    assert len(points) > 4
    for point, row in zip(points, front.front.to_dict("records"), strict=True):
        better = truth[(truth <= point * (1 + 1e-12)).all(axis=1)]
        better = better[(better < point * (1 - 1e-12)).any(axis=1)]
        between = {"energy", "time"}.isdisjoint(row["aims"].split(", "))
        assert not len(better) or not between
        # An end has the least, and of what is no larger nothing has less.
        if not between:
            column = 0 if "energy" in row["aims"].split(", ") else 1
            assert (better[:, column] >= point[column] * (1 - 1e-12)).all()


def test_the_certificate_is_proven_again(tmp_path: Path) -> None:
    grid = {"L1.capacity_words": [8, 16], "L2.capacity_words": [64, 256], "L2.fanout": [2, 8]}
    _, found, front = traded(tmp_path, grid=grid, energy_scaling="sqrt", workloads=LAYERS[:1])
    verified = ms.verify(tmp_path / CERTIFICATE_FILE)
    assert verified.holds
    assert verified.complete
    assert "points of the front, and no other one is better" in verified.findings[-1]
    assert ms.verify(found).findings == verified.findings
    said = json.loads((tmp_path / CERTIFICATE_FILE).read_text())
    spoilt = [
        {"front_aims": said["front_aims"][:-1]},
        {"front_aims": said["front_aims"][:-1], "front": said["front"][:-1]},
        {"boxes": [box for box in said["boxes"] if box.get("aim") != 3]},
        {"boxes": [{**box, "aim": 0} for box in said["boxes"]]},
        {"proofs": [{**proof, "aim": 0} for proof in said["proofs"]]},
        {"proofs": [{**proof, "aim": 9} for proof in said["proofs"]]},
    ]
    path = tmp_path / "spoilt.json"
    for changes in spoilt:
        path.write_text(json.dumps({**said, **changes}))
        assert not ms.verify(path).holds, list(changes)
    assert {"energy", "time"} <= set(front.architectures["aim"])


def test_a_line_between_two_rates_bounds_what_lies_between() -> None:
    """The least of a space at any rate is at least what other rates say."""
    from costmodel import accelerator
    from orchestrator.sweep.proofs import Problem, prove_problem

    machine, layer = accelerator("mm256-bw"), workload(LAYERS[0])
    rates = [Fraction(rate) for rate in (50, 400, 3000)]
    aims = (Aim("energy"), Aim("latency"), *(Aim("energy", rate) for rate in rates))

    def prove(aim: Aim) -> Any:
        return prove_problem(Problem(layer, machine, aim.objective, aim.weight(1.0)), 60.0)

    proofs = [prove(aim) for aim in aims]
    truth = [aim.bounds(proof, 1.0)[0] for aim, proof in zip(aims, proofs, strict=True)]
    assert truth[0] < truth[2] < truth[3] < truth[4]
    ranks = np.array([1, 1])
    for told in ((0, 1), (0, 4), (1, 3), (2, 4), (0, 1, 2, 4)):
        known = bounds.Known(aims)
        for number in told:
            known.add(ranks, number, proofs[number], 1.0)
        for number in range(len(aims)):
            least, most = known.between(ranks, number, 1.0)
            assert least <= truth[number] <= most * (1 + 1e-12)
        assert known.between(ranks, 3, 1.0)[0] > 0
    both = bounds.Known(aims)
    both.add(ranks, 0, proofs[0], 1.0)
    both.add(ranks, 1, proofs[1], 1.0)
    assert both.between(ranks, 3, 1.0)[0] > truth[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": "edp"}, "objective: energy-delay-area shows energy and time"),
        ({"limits": {"power_w": 1.0}}, "limits: power_w: energy-delay-area shows"),
        ({"rates_w": [1.0, 1.0]}, "rates_w: expected rates that are 9.76563e-07 W apart"),
        ({"rates_w": [1e-9]}, "rates_w: expected rates that are"),
        ({"find": "front", "rates_w": [1.0]}, "rates_w: goes with find: energy-delay-area"),
    ],
)
def test_misuse(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, ValueError), match=message):
        designed(tmp_path, **{"find": THREE, **changes})


def test_rates_are_no_proof_s_to_round() -> None:
    """At every clock of the grid a rate is a whole multiple of what a prover takes."""
    from test_design import content

    from orchestrator.design.config import Design
    from orchestrator.design.plan import prepare_design

    grid = {"L2.fanout": [2, 4], "clock_ghz": [0.7, 0.9, 1.2]}
    given = content(kind="design", find=THREE, grid=grid, rates_w=[0.1, 0.35], base=COMPONENTS)
    plan = prepare_design(Design.model_validate(given), "x")
    again = prepare_design(plan.design, "x")
    assert again.design.rates_w == plan.design.rates_w
    assert plan.design.rates_w == pytest.approx((0.1, 0.35), rel=0.1)
    for aim in aims_of(plan.design)[2:]:
        for clock in grid["clock_ghz"]:
            weight = aim.weight(clock)
            assert weight is not None
            assert (weight * 2**16).denominator == 1
