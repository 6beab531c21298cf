"""What limits a mapping's speed, held against the latency that the cost model gives."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from orchestrator.search.limits import COMPUTE, limit_of


@pytest.mark.parametrize("machine", ["mm256", "mm256-bw"])
def test_the_limit_explains_the_latency(machine: str) -> None:
    space = MapSpace(workload("gemm:M=64,N=32,K=16"), accelerator(machine))
    codes = space.sample(np.random.default_rng(0), 200, feasible=True)
    found = set()
    for code in codes:
        costs = LoopNestModel().evaluate(space, code[None], detail=True)
        assert costs.detail is not None
        cycles = float(costs.latency_cycles[0])
        limit = limit_of(space, code, costs.detail, cycles)
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
    limit = limit_of(space, code, costs.detail, float(costs.latency_cycles[0]))
    assert str(limit) == f"compute: {limit.amount:,.0f} of 256 elements at work"
