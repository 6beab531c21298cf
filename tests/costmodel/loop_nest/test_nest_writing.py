"""What is written of a mapping on a real machine costs the same when it is read again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.loop_nest.records import mapping_record, score

DRAM = {"name": "DRAM", "energy_pj": 200.0}
EYERISS: dict[str, Any] = {
    "name": "eyeriss",
    "mac_energy_pj": 1.0,
    "levels": [
        DRAM,
        {
            "name": "GLB",
            "capacity_words": 65536,
            "energy_pj": 6.0,
            "bypass": ["weight"],
            "fanout": 168,
            "mesh": [14, 12],
        },
        {
            "name": "ifmap",
            "capacity_words": 12,
            "energy_pj": 0.7,
            "bypass": ["weight", "output"],
        },
        {
            "name": "weights",
            "capacity_words": 192,
            "energy_pj": 1.1,
            "bypass": ["input", "output"],
        },
        {"name": "psum", "capacity_words": 16, "energy_pj": 0.9, "bypass": ["input", "weight"]},
    ],
}
ALONE: dict[str, Any] = {
    **EYERISS,
    "levels": [
        level | {"spatial": {"multicast": False, "reduction": False}}
        if level["name"] == "GLB"
        else level
        for level in EYERISS["levels"]
    ],
}
APART: dict[str, Any] = {
    "name": "apart",
    "mac_energy_pj": 0.5,
    "cycles_per_mac": 2,
    "output_fills": "charged",
    "bypass": "searched",
    "levels": [
        {**DRAM, "bandwidth": 4.0},
        {
            "name": "L2",
            "capacity_words": 4096,
            "energy_pj": {"read": 5.0, "fill": 7.0, "update": 9.0},
            "block_words": 4,
            "address_pj": 0.2,
            "leakage_pj": 0.01,
            "multiple_buffering": 2.0,
            "fanout": 12,
            "mesh": [4, 3],
            "spatial": {"x": ["M", "K"], "y": ["N"]},
            "hop_energy_pj": 0.3,
            "router_pj": 0.1,
            "ingress_pj": 0.2,
            "fill_latency": 5,
        },
        {"name": "L1", "capacity_words": 64, "energy_pj": 1.0, "write_bandwidth": 0.5, "fanout": 2},
        {"name": "reg", "capacity_words": 4, "energy_pj": 0.1, "keep": ["output"]},
    ],
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize(
    ("machine", "work"),
    [(EYERISS, "resnet-conv4"), (ALONE, "alexnet-conv2"), (APART, "gemm:M=24,N=18,K=20")],
)
def test_a_record_costs_what_the_mapping_costs(
    machine: dict[str, Any], work: str, linked: bool
) -> None:
    model = LoopNestModel(link_transfers=linked)
    space = MapSpace(workload(work), accelerator(machine))
    codes = space.sample(np.random.default_rng(3), 60, feasible=True)
    costs = model.evaluate(space, codes, detail=True)
    records = [json.loads(json.dumps(mapping_record(space, code))) for code in codes]
    results = [record["result"] for record in score(records, model)]
    energy = [result["energy_pj"] for result in results]
    np.testing.assert_allclose(energy, costs.energy_pj, rtol=1e-12)
    assert [result["cycles"] for result in results] == costs.latency_cycles.tolist()
    assert costs.detail is not None
    for row, result in enumerate(results):
        for index, level in enumerate(result["levels"]):
            for t, name in enumerate(space.workload.tensor_names):
                reads = int(costs.detail.reads[row, index, t])
                assert level["tensors"].get(name, {"reads": 0})["reads"] == reads


@pytest.mark.parametrize("work", ["resnet-conv4", "gemm:M=64,N=24,K=36"])
def test_hops_do_not_depend_on_how_a_machine_says_what_it_keeps(work: str) -> None:
    shared = {"name": "L2", "capacity_words": 65536, "energy_pj": 6.0, "hop_energy_pj": 2.0}
    shared |= {"fanout": 168, "mesh": [14, 12]}
    spad = {"name": "spad", "capacity_words": 260, "energy_pj": 1.0}
    content: dict[str, Any] = {"name": "mesh", "mac_energy_pj": 1.0}
    told = content | {"levels": [DRAM, shared | {"bypass": ["weight"]}, spad]}
    searched = content | {"bypass": "searched", "levels": [DRAM, shared, spad]}
    space, other = (MapSpace(workload(work), accelerator(each)) for each in (told, searched))
    codes = space.sample(np.random.default_rng(1), 200, feasible=True)
    same = np.array([other.code(space.describe(code)) for code in codes])
    model = LoopNestModel()
    np.testing.assert_allclose(
        model.evaluate(other, same).energy_pj, model.evaluate(space, codes).energy_pj, rtol=1e-12
    )
