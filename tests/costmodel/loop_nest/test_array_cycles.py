"""Passes through an array: by hand, as a walk counts them, as SCALE-Sim counts, in records."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from array_walk import random_array, walked_passes
from paths import GOLDEN

import mapspace as ms
from costmodel import LoopNestModel, MapSpace, accelerator
from costmodel.loop_nest.passes import passes_of
from orchestrator.answers.limits import limits_text

COMPUTE = [
    json.loads(line) for line in (GOLDEN / "scalesim" / "compute.jsonl").read_text().splitlines()
]


def systolic(rows: int, columns: int, stationary: str, **spatial: Any) -> dict[str, Any]:
    """An array as SCALE-Sim's: what is stationary is loaded row by row, an output is not."""
    others = [role for role in ("input", "weight", "output") if role != stationary]
    load = 0 if stationary == "output" else "rows"
    array = {"stationary": stationary, "load": load, "fill": "rows + columns - 2"}
    return {
        "name": "systolic",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 200.0},
            {
                "name": "Buffer",
                "energy_pj": 6.0,
                "capacity_words": 1 << 24,
                "fanout": rows * columns,
                "mesh": [columns, rows],
                "array": array,
                **({"spatial": spatial} if spatial else {}),
            },
            {
                "name": "Register",
                "energy_pj": 1.0,
                "capacity_words": 1,
                "keep": [stationary],
                "bypass": others,
            },
        ],
    }


# Over rows, over columns, what streams: M, N, K are P Q, K and C R S of a layer.
DATAFLOWS = {"os": ("output", "MNK"), "ws": ("weight", "KNM"), "is": ("input", "KMN")}


def as_mapping(row: dict[str, Any]) -> dict[str, Any]:
    """A dataflow of SCALE-Sim's as a mapping of the product, padded to whole folds."""
    layer, (rows, columns) = row["layer"], row["array"]
    sides = [(layer[a] - layer[b]) // layer["stride"] + 1 for a, b in (("H", "R"), ("W", "S"))]
    sizes = {
        "M": math.prod(sides),
        "N": layer["K"],
        "K": layer["C"] * layer["R"] * layer["S"],
    }
    stationary, (down, across, along) = DATAFLOWS[row["dataflow"]]
    folds = {down: -(-sizes[down] // rows), across: -(-sizes[across] // columns)}
    padded = {down: folds[down] * rows, across: folds[across] * columns, along: sizes[along]}
    temporal = [[name, count] for name, count in folds.items() if count > 1]
    inner = [[along, sizes[along]]] if sizes[along] > 1 else []
    return {
        "workload": {"name": "layer", "gemm": {name: padded[name] for name in "MNK"}},
        "accelerator": systolic(rows, columns, stationary),
        "mapping": [
            {
                "level": "Buffer",
                "temporal": temporal,
                "spatial": [[down, rows, "Y"], [across, columns, "X"]],
            },
            {"level": "Register", "temporal": inner},
        ],
    }


@pytest.mark.parametrize("row", COMPUTE, ids=str)
def test_the_dataflows_of_scale_sim_take_its_cycles(row: dict[str, Any]) -> None:
    (scored,) = ms.evaluate([as_mapping(row)])
    # SCALE-Sim says the number of the last cycle, from 0.
    assert scored["result"]["cycles"] == row["cycles"] + 1


def test_a_mapping_by_hand() -> None:
    """12 x 8 x 6 on 2 x 4: 3 x 2 = 6 weights' tiles, each for 12 inputs, 2 + (2 + 4 - 2) beside."""
    space = MapSpace(ms.workload("gemm:M=12,N=8,K=6"), accelerator(systolic(2, 4, "weight")))
    record = {
        "workload": "gemm:M=12,N=8,K=6",
        "accelerator": systolic(2, 4, "weight"),
        "mapping": [
            {"level": "Buffer", "temporal": [["N", 2], ["K", 3]],
             "spatial": [["K", 2, "Y"], ["N", 4, "X"]]},
            {"level": "Register", "temporal": [["M", 12]]},
        ],
    }  # fmt: skip
    (scored,) = ms.evaluate([record])
    assert scored["result"]["cycles"] == 6 * (12 + 2 + 4)
    # With M outside, every tile comes twelve times.
    record["mapping"] = [
        {"level": "Buffer", "temporal": [["M", 12], ["N", 2], ["K", 3]],
         "spatial": [["K", 2, "Y"], ["N", 4, "X"]]},
    ]  # fmt: skip
    (scored,) = ms.evaluate([record])
    assert scored["result"]["cycles"] == 72 * (1 + 2 + 4)
    assert space.tables.machine.turns.max() == 6


@pytest.mark.parametrize("seed", range(150))
def test_passes_are_those_of_a_walk(seed: int) -> None:
    space, codes, _ = random_array(seed)
    tables = space.tables
    if tables.sliding[[role == "input" for role in space.workload.roles.values()]].any():
        # Of windows Timeloop credits an overlap in some orders alone.
        arrays = [level.array for level in space.accelerator.levels if level.array is not None]
        if any("input" in array.stationary for array in arrays):
            return
    chosen = np.random.default_rng(seed).choice(len(codes), min(8, len(codes)), replace=False)
    costs = LoopNestModel().evaluate(space, codes[chosen])
    plain = accelerator(
        space.accelerator.model_copy(
            update={
                "levels": tuple(
                    level.model_copy(update={"array": None}) for level in space.accelerator.levels
                )
            }
        )
    )
    ports = LoopNestModel().evaluate(MapSpace(space.workload, plain), codes[chosen])
    for row, code in enumerate(codes[chosen]):
        mapping, extra = space.describe(code), 0
        found = iter(passes_of(space, code))
        for position, level in enumerate(space.accelerator.levels):
            if level.array is None:
                continue
            count, said = walked_passes(space, code, position), next(found)
            width, height = level.width_height
            assert said.passes == count
            parts = tuple(count * one for one in level.array.parts(height, width))
            assert (said.loading, said.filling, said.draining) == parts
            extra += sum(parts)
        steps = (
            math.prod(trips for level in mapping.levels for trips in level.temporal.values())
            * space.accelerator.cycles_per_mac
        )
        waiting = int(tables.machine.waiting)
        expected = max(steps + extra, ports.latency_cycles[row] - waiting) + waiting
        assert costs.latency_cycles[row] == expected
        assert costs.energy_pj[row] >= ports.energy_pj[row]


def test_records_keep_it() -> None:
    found = ms.search(
        "gemm:M=8,N=8,K=8", systolic(2, 4, "weight"), objective="latency", store=False
    )
    assert found.proven
    assert found.record["arch"]["levels"][1]["array"]["load"] == "rows"
    assert found.record["arch"]["levels"][1]["array"]["stationary"] == ["B"]
    (scored,) = ms.evaluate([found.record])
    assert scored["result"]["cycles"] == found.costs.latency_cycles
    kinds = {limit.name: limit.cycles for limit in found.limits if limit.kind == "array"}
    assert sum(kinds.values()) + 64 == found.costs.latency_cycles
    assert set(kinds) == {"Buffer loading", "Buffer filling"}
    text = " ".join(f"{label} {text}" for label, text in limits_text(found.limits))
    assert "cycles by cause" in text
    assert "Buffer filling" in text
