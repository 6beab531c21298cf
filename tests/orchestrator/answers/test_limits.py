"""What limits a mapping's speed, held against the latency that the cost model gives."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from orchestrator.answers.limits import COMPUTE, limits_of, limits_text, slowest


@pytest.mark.parametrize("machine", ["mm256", "mm256-bw"])
def test_the_limit_explains_the_latency(machine: str) -> None:
    space = MapSpace(workload("gemm:M=64,N=32,K=16"), accelerator(machine))
    codes = space.sample(np.random.default_rng(0), 200, feasible=True)
    found = set()
    for code in codes:
        costs = LoopNestModel().evaluate(space, code[None], detail=True)
        assert costs.detail is not None
        cycles = float(costs.latency_cycles[0])
        limit = slowest(limits_of(space, code, costs.detail, cycles))
        found.add(limit.name)
        if limit.name == COMPUTE:
            # Every element that is at work does one multiply-accumulate per cycle.
            assert limit.amount * cycles == space.workload.macs
            assert limit.most == 256
            continue
        name, what = limit.name.split()
        index = space.accelerator.level_names.index(name)
        level = space.accelerator.levels[index]
        detail = costs.detail
        if what == "reads":
            words, most = detail.reads[0, index].sum(), level.read_bandwidth
        else:
            words = (detail.fills[0, index] + detail.updates[0, index]).sum()
            most = level.write_bandwidth
        assert limit.most == most
        # Cycles are rounded up, also what is a whole number but for the sum's last digit.
        assert words / limit.most <= cycles <= words / limit.most + 1
        assert limit.amount == words / cycles
    assert COMPUTE in found
    assert (len(found) > 2) is (machine == "mm256-bw")


def test_words_for_people() -> None:
    space = MapSpace(workload("gemm:M=64,N=32,K=16"), accelerator("mm256"))
    code = space.sample(np.random.default_rng(0), 1, feasible=True)[0]
    costs = LoopNestModel().evaluate(space, code[None], detail=True)
    assert costs.detail is not None
    limit = limits_of(space, code, costs.detail, float(costs.latency_cycles[0]))[0]
    assert str(limit) == f"compute: {limit.amount:,.0f} of 256 elements at work"


@pytest.mark.parametrize(
    "machine", ["eyeriss168bw", "register256bw", "hops4x16", "cluster4x64db", "gemmini", "simba"]
)
def test_every_bound_of_any_hierarchy(machine: str) -> None:
    """Causes give the latency, capacities are the model's, no share is above one."""
    space = MapSpace(workload("gemm:M=32,N=24,K=48"), accelerator(machine))
    levels, causes = space.accelerator.levels, set()
    for code in space.sample(np.random.default_rng(1), 40, feasible=True):
        costs = LoopNestModel().evaluate(space, code[None], detail=True)
        assert costs.detail is not None
        cycles = float(costs.latency_cycles[0])
        limits = limits_of(space, code, costs.detail, cycles)
        waiting = sum(limit.cycles for limit in limits if limit.kind == "latency")
        assert waiting == (18 if machine == "hops4x16" else 0)
        longest = slowest(limits)
        causes.add(longest.name)
        assert longest.cycles + waiting <= cycles < longest.cycles + waiting + 1 + 1e-6
        assert all(limit.share <= 1 + 1e-12 for limit in limits)
        assert limits[0].amount * limits[0].cycles == space.workload.macs
        held = {limit.name: limit for limit in limits if limit.kind == "capacity"}
        assert list(held) == [level.name for level in levels if level.capacity_words]
        for index, level in enumerate(levels):
            if level.name in held:
                assert held[level.name].amount == costs.detail.tile[0, index].sum()
                assert held[level.name].most == int(level.capacity_words / level.multiple_buffering)
    limited = machine.endswith("bw") or machine == "gemmini"
    assert (len(causes - {COMPUTE}) > 0) is limited


def test_what_is_said_of_limits() -> None:
    space = MapSpace(workload("gemm:M=2,N=2,K=2"), accelerator("gemmini"))
    code = space.sample(np.random.default_rng(0), 1, feasible=True)[0]
    costs = LoopNestModel().evaluate(space, code[None], detail=True)
    assert costs.detail is not None
    limits = limits_of(space, code, costs.detail, float(costs.latency_cycles[0]))
    lines = dict(limits_text(limits))
    assert lines["capacity used"].endswith("Weight 100.00 %")
    assert lines["cycles by cause"].startswith(slowest(limits).name)
    assert lines["bandwidth used"].count(" accesses ") == 3
    rows = [limit.to_dict() for limit in limits]
    assert rows[0]["share"] == rows[0]["amount"] / 256
