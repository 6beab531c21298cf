"""Power with the leakage of what is idle, against the cost model's own leakage."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mapspace as ms
from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.loop_nest.records import mapping_record, record_code
from costmodel.machines.machine_units import idle_leakage_w, leakage_w
from orchestrator.sweep.config import Limits, Sweep
from orchestrator.sweep.plan import prepare_sweep
from orchestrator.sweep.report import front_table, leaks
from orchestrator.sweep.run import sweep

LEAKING: dict[str, Any] = {
    "extends": "mm256",
    "clock_ghz": 0.5,
    "levels": [
        {"name": "DRAM", "leakage_pj": 7.0},
        {"name": "L2", "leakage_pj": 5.0, "fanout": 7},
        {"name": "L1", "leakage_pj": 3.0},
    ],
}
WORK = "gemm:M=6,N=4,K=3"


def test_one_machine_of_several_that_leaks_is_enough_for_a_column(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text(json.dumps(silent()))
    for leakage, said in (([0.0, 5.0], True), ([0.0], False)):
        content = {"kind": "sweep", "name": "it", "base": str(base), "workloads": [WORK]}
        content["grid"] = {"L2.leakage_pj": leakage}
        swept: Any = SimpleNamespace(plan=prepare_sweep(Sweep.model_validate(content), "it"))
        assert leaks(swept) == said


def silent() -> dict[str, Any]:
    levels = [{**level, "leakage_pj": 0.0} for level in LEAKING["levels"]]
    return {**LEAKING, "levels": levels}


@pytest.mark.parametrize("tiles", ["together", "apart"])
def test_what_is_idle_is_what_the_cost_model_does_not_count(tiles: str) -> None:
    """Parts of a level whose tiles stand apart leak as the level does."""
    work = workload(WORK)
    machine, quiet = (accelerator({**one, "tiles": tiles}) for one in (LEAKING, silent()))
    space = MapSpace(work, machine)
    codes = space.sample(np.random.default_rng(0), 200, feasible=True)
    energies = [
        LoopNestModel().evaluate(MapSpace(work, one), codes).energy_pj for one in (machine, quiet)
    ]
    cycles = LoopNestModel().evaluate(space, codes).latency_cycles
    # pJ per cycle at 0.5 GHz are so many half milliwatts.
    counted = (energies[0] - energies[1]) / cycles * 0.5e-3
    idle = [idle_leakage_w(machine, mapping_record(space, code)) for code in codes]
    assert leakage_w(machine) == pytest.approx((7 + 5 + 7 * 3) * 0.5e-3)
    assert counted + idle == pytest.approx(leakage_w(machine))
    assert len(set(np.round(idle, 9))) > 2


def test_results_and_limits_have_it(tmp_path: Path) -> None:
    found = ms.search(WORK, LEAKING, store=None).to_dict()
    assert found["chip_power_w"] > found["power_w"]
    content = {"kind": "sweep", "name": "x", "base": LEAKING}
    content["workloads"] = [WORK, "gemm:M=5,N=5,K=5"]
    content["grid"] = {"L2.fanout": [4, 8, 16]}
    plan = prepare_sweep(Sweep.model_validate(content), "x.yaml")
    results = sweep(plan, tmp_path / "a", execute=map)
    assert "with idle, W" in front_table(results)[0]
    for row, one in zip(results.architectures.to_dict("records"), plan.architectures, strict=True):
        points = results.points[results.points["architecture"] == one.name].to_dict("records")
        # Everything leaks all the time, in place of what is in use.
        leaking = leakage_w(one.accelerator) * row["latency_s"]
        used = sum(
            (leakage_w(one.accelerator) - point["idle_leakage_w"]) * point["latency_s"]
            for point in points
        )
        energy = row["energy_pj"] * 1e-12 - used + leaking
        assert row["chip_power_w"] == pytest.approx(energy / row["latency_s"])
    powers = sorted(results.architectures["chip_power_w"])
    limited = Sweep.model_validate({**content, "limits": {"chip_power_w": powers[1]}})
    again = sweep(prepare_sweep(limited, "x.yaml"), tmp_path / "b", execute=map)
    assert again.architectures["within_limits"].sum() == 2
    assert str(Limits(chip_power_w=0.5)) == "chip power at most 0.5 W"


@pytest.mark.parametrize("jointly", [False, True])
@pytest.mark.parametrize("moves", [False, True])
def test_networks_have_it(jointly: bool, moves: bool) -> None:
    first = {"name": "first", "workload": WORK, "count": 3}
    second = {"name": "second", "workload": "gemm:M=6,N=5,K=4", "count": 3, "input": "first"}
    network = {"name": "two", "layers": [first, {**second, "between": "activation"}]}
    narrow = {"name": "DRAM", "leakage_pj": 7.0, "bandwidth": 1.0}
    leaking = {**LEAKING, "levels": [narrow, *LEAKING["levels"][1:]]}
    machine = accelerator(leaking)
    found = ms.search_network(network, leaking, jointly=jointly, moves=moves, store=None)
    totals = found.to_dict()["totals"]
    assert totals is not None
    # What the mappings cost on a machine that does not leak, and all of it leaking all the time.
    levels = [{**level, "leakage_pj": 0.0} for level in leaking["levels"]]
    energy = 3 * 2 * 24 * machine.levels[0].energies[0] if moves else 0.0
    for record, one in zip(found.records, (first, second), strict=True):
        space = MapSpace(workload(one["workload"]), accelerator({**leaking, "levels": levels}))
        code = record_code(space, record)[None]
        energy += 3 * float(LoopNestModel().evaluate(space, code).energy_pj[0])
    power = energy * 1e-12 / totals["latency_s"] + leakage_w(machine)
    assert totals["chip_power_w"] == pytest.approx(power)
    assert totals["chip_power_w"] > totals["power_w"]
