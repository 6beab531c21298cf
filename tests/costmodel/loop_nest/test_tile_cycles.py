"""Start-ups of tiles and buffers that work waits for: by hand, and as a walk moves tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_walk import random_array, walked_tiles

import mapspace as ms
from costmodel import LoopNestModel
from costmodel.independent.added_cycles import tiles_arriving
from costmodel.independent.counting import Counter, tiling_of
from costmodel.machines.transfers import value_of
from orchestrator.answers.limits import slowest


def timed(**level: Any) -> dict[str, Any]:
    return {
        "name": "timed",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 200.0},
            {"name": "Buffer", "energy_pj": 6.0, "capacity_words": 64, **level},
        ],
    }


def cycles_of(machine: dict[str, Any]) -> float:
    """Of 4 x 2 x 8 with a tile of 4 x 2 outputs, 4 inputs and 2 weights, 8 tiles of K."""
    record = {
        "workload": "gemm:M=4,N=2,K=8",
        "accelerator": machine,
        "mapping": [
            {"level": "DRAM", "temporal": [["K", 8]]},
            {"level": "Buffer", "temporal": [["M", 4], ["N", 2]]},
        ],
    }
    (scored,) = ms.evaluate([record])
    assert isinstance(scored["result"]["cycles"], int)
    return float(scored["result"]["cycles"])


def test_cases_by_hand() -> None:
    # 64 multiply-accumulates; inputs and weights come 8 times, outputs once.
    assert cycles_of(timed()) == 64
    assert cycles_of(timed(startup=3)) == 64  # 8 x 3 + 8 x 3 + 3 beside them
    assert cycles_of(timed(startup=5)) == 85
    assert cycles_of(timed(startup={"weight": 10})) == 80
    # Words at 2 a cycle: 32 inputs and 16 weights in, 64 updates by the units as well.
    assert cycles_of(timed(write_bandwidth=2)) == 64
    assert cycles_of(timed(write_bandwidth=2, startup={"weight": 10})) == 80 + 56
    # Work waits for 8 x 10 and 16 weights at 2 a cycle.
    single = {"startup": {"weight": 10}, "buffering": {"weight": "single"}}
    assert cycles_of(timed(write_bandwidth=2, **single)) == 64 + 80 + 8
    # The port moves 296 words; of outputs nothing comes in, and 8 words leave.
    assert cycles_of(timed(bandwidth=4, buffering={"output": "single"})) == 74 + 2


@pytest.mark.parametrize("seed", range(150))
def test_cycles_are_those_of_a_walk(seed: int) -> None:
    space, codes, _ = random_array(seed, transfers=True)
    machine, work = space.accelerator, space.workload
    chosen = np.random.default_rng(seed).choice(len(codes), min(6, len(codes)), replace=False)
    costs = LoopNestModel().evaluate(space, codes[chosen])
    counter = Counter(work, machine)
    for row, code in enumerate(codes[chosen]):
        mapping = space.describe(code)
        tiling, orders = tiling_of(mapping, work)
        assert counter.cost(tiling, orders, {})[1] == costs.latency_cycles[row]
        for index, level in enumerate(machine.levels):
            for t, (name, role) in enumerate(work.roles.items()):
                kept = name in mapping.levels[index].keep
                outside = any(name in outer.keep for outer in mapping.levels[:index])
                if kept and outside and value_of(level.startup, name, role, 0):
                    found = tiles_arriving(counter, tiling, orders, t, index)
                    assert found == walked_tiles(space, code, index, name)


def test_limits_say_what_is_waited_for() -> None:
    machine = timed(write_bandwidth=1, startup={"weight": 9}, buffering={"input": "single"})
    found = ms.search("gemm:M=4,N=4,K=4", machine, objective="latency", store=False)
    kinds = {limit.kind: limit.cycles for limit in found.limits}
    assert {"startup", "waiting"} <= set(kinds)
    again = ms.evaluate([found.record])[0]["result"]["cycles"]
    assert again == found.costs.latency_cycles
    level = found.record["arch"]["levels"][1]
    assert level["startup"] == {"A": 0, "B": 9, "Z": 0}
    assert level["buffering"] == {"A": "single", "B": "double", "Z": "double"}
    assert slowest(found.limits).cycles > 0
