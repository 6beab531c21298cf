"""Half a second is half a second, whatever the method, on a machine that makes everything slow."""

from __future__ import annotations

import time
from typing import Any

import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from orchestrator.search.one_workload import WARM_UP_ITERATIONS
from searchers import SEARCHERS, Evaluator, hyperparameters, make

# Hops over a mesh, bypass and limited bandwidth: what costs the model and the proof most.
SLOW: dict[str, Any] = {
    "name": "slow",
    "mac_energy_pj": 1.0,
    "bypass": "searched",
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0, "read_bandwidth": 4.0, "write_bandwidth": 4.0},
        {
            "name": "GLB",
            "energy_pj": 6.0,
            "capacity_words": 55_296,
            "fanout": 168,
            "mesh": [12, 14],
            "hop_energy_pj": 2.0,
        },
        {"name": "PE", "energy_pj": 1.0, "capacity_words": 260},
    ],
}
# Those that need a surrogate, a cluster, or another kind of space.
ELSEWHERE = {"ddpg", "gradient", "ppo", "surrogate-guided"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(SEARCHERS) - ELSEWHERE))
def test_a_budget_of_half_a_second_is_kept(name: str) -> None:
    """In processor seconds, so that a busy machine fails no test."""
    # Marvel leaves the places of spatial loops to nobody.
    machine = accelerator("eyeriss-168" if name == "marvel" else SLOW)
    space = MapSpace(workload("resnet50-conv2_1_2"), machine)
    options = {"threads": 1} if "threads" in hyperparameters(name) else {}
    # Loads compiled code, as searches by time do: some comes after the first batches alone.
    make(name, space, seed=0, **options).run(
        Evaluator(LoopNestModel(), space, iterations=WARM_UP_ITERATIONS)
    )
    searcher = make(name, space, seed=1, **options)
    evaluator = Evaluator(LoopNestModel(), space, seconds=0.5, clock=time.process_time)
    searcher.run(evaluator)
    assert evaluator.elapsed < 1.0
