"""Mapping records: what a search writes, evaluate reads; bad records are named."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

from costmodel import ConfigError, LoopNestModel, MapSpace, accelerator, workload
from costmodel.loop_nest.records import mapping_record, read_mapping, score
from costmodel.problems.workload_families import cnn, conv1d, gemm

MODEL = LoopNestModel()
EINSUM = {
    "name": "batched",
    "dimensions": {"batch": 4, "row": 8, "column": 8, "inner": 8},
    "tensors": {
        "X": ["batch", "row", "inner"],
        "Y": ["batch", "inner", "column"],
        "Z": ["batch", "row", "column"],
    },
    "output": "Z",
}


@pytest.mark.parametrize(
    "nest",
    [
        workload("resnet-conv4"),
        workload("mttkrp-1"),
        cnn(name="depthwise", N=1, K=1, C=1, P=14, Q=14, R=3, S=3, stride=2, groups=32),
        cnn(name="dilated", N=1, K=8, C=4, P=14, Q=14, R=3, S=3, dilation=2),
        conv1d(name="line", K=8, C=4, P=16, R=3),
        workload(EINSUM),
    ],
    ids=lambda nest: nest.name,
)
@pytest.mark.parametrize("machine", ["mm256", "mindmappings", "mm256-bw-bypass"])
def test_records_round_trip(nest: Any, machine: str) -> None:
    space = MapSpace(nest, accelerator(machine))
    codes = space.sample(np.random.default_rng(0), 20, feasible=True)
    records = [json.loads(json.dumps(mapping_record(space, code))) for code in codes]
    scored = score(records, MODEL)
    costs = MODEL.evaluate(space, codes)
    assert [r["result"]["energy_pj"] for r in scored] == costs.energy_pj.tolist()
    assert [r["result"]["cycles"] for r in scored] == costs.latency_cycles.tolist()
    again, code = read_mapping(records[0])
    assert MODEL.evaluate(again, code[None]).edp[0] == costs.edp[0]


def test_other_keys_survive_and_infeasible_is_data() -> None:
    space = MapSpace(gemm(name="g", M=1024, N=1024, K=1024), accelerator("mm256"))
    code = np.zeros(space.cardinality.size, np.int32)
    record = mapping_record(space, code) | {"note": "mine"}
    scored = score([record], MODEL)[0]
    assert scored["note"] == "mine"
    assert scored["result"] == {"status": f"capacity of L2 exceeded by {3 * 2**20 - 262144} words"}


def changed(path: str, value: Any) -> dict[str, Any]:
    space = MapSpace(gemm(name="g", M=4, N=4, K=4), accelerator("mm256"))
    record = copy.deepcopy(mapping_record(space, space.sample(np.random.default_rng(0), 1)[0]))
    *parents, last = path.split(".")
    target = record
    for key in parents:
        target = target[key]
    target[last] = value
    return record


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("mapping.L2.perm", "MMK", "mapping.L2.perm: expected a permutation of M, N, K, got 'MMK'"),
        ("mapping.L1.temporal", {"M": 3}, "the factors of M multiply to"),
        ("mapping.L1.temporal", {"M": 0}, "mapping.L1.temporal.M: expected at least 1, got 0"),
        (
            "mapping.L1.temporal",
            {"M": 1.5},
            "temporal.M: expected a whole number, got 1.5",
        ),
        ("mapping.L1.temporal", {"W": 2}, "unknown 'W'; known: K, M, N"),
        ("mapping.L3", {}, "unknown 'L3'"),
        ("mapping.keep", {"L1": ["Q"]}, "unknown 'Q'; known: A, B, Z"),
        ("mapping", 3, "mapping: expected an object, got 3"),
        ("problem.kind", "fft", "problem.kind: expected 'cnn', 'conv1d'"),
        ("problem.dims", {"M": 4}, "missing N, K"),
        ("problem.dims", {"M": -4, "N": 1, "K": 1}, "M"),
        ("arch.size_words", {"L1": 8}, "arch.size_words: 'DRAM' is missing"),
        ("arch.banks", {"L9": 8}, "Unknown level of arch.banks 'L9'. Known: DRAM, L1, L2"),
    ],
)
def test_bad_records_are_named(path: str, value: Any, message: str) -> None:
    good = changed("note", 1)
    with pytest.raises(ConfigError) as error:
        score([good, changed(path, value)], MODEL)
    assert str(error.value).startswith("record 1: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
