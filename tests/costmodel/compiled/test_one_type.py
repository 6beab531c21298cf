"""Whatever the machine, the layer and the way they came: compiled once."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numba import typeof

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.arrays.feasibility import check_mappings
from costmodel.loop_nest.cost_kernel import evaluate_mappings
from costmodel.machines.accelerators import accelerator_names
from costmodel.map_space.moves import mutate

PROBLEMS = ("gemm:M=64,N=64,K=64", "resnet-conv4", "mttkrp-0")


def as_sent(value: Any) -> Any:
    """A copy whose arrays may not be written, as Ray hands them to a worker."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(content, buffers=[bytes(buffer.raw()) for buffer in buffers])


@pytest.fixture(scope="module")
def space() -> MapSpace:
    return MapSpace(workload("gemm:M=8,N=4,K=2"), accelerator("mm256"))


@pytest.mark.parametrize("machine", accelerator_names())
def test_all_machines_and_layers_have_one_type(machine: str, space: MapSpace) -> None:
    for problem in PROBLEMS:
        found = MapSpace(workload(problem), accelerator(machine))
        assert typeof(found.tables) == typeof(space.tables)


def test_so_have_one_level_and_all_else_that_a_machine_may_be(space: MapSpace) -> None:
    one = {"name": "one", "levels": [{"name": "DRAM", "energy_pj": 1}], "mac_energy_pj": 1}
    for changed in (
        one,
        {"extends": "mm256", "factors": "imperfect"},
        {"extends": "mm256", "bypass": "searched"},
        {"extends": "mm256", "levels": [{"name": "L2", "hop_energy_pj": 1.0}]},
    ):
        found = MapSpace(space.workload, accelerator(changed))
        assert typeof(found.tables) == typeof(space.tables)
        assert typeof(as_sent(found).tables) == typeof(space.tables)


def test_what_was_sent_and_what_is_constrained_are_compiled_no_more(space: MapSpace) -> None:
    rng = np.random.default_rng(0)
    rules = [{"target": "L2", "type": "temporal", "permutation": "MN"}]
    spaces = [space, as_sent(space), MapSpace(space.workload, space.accelerator, rules)]
    compiled = None
    for each in spaces:
        codes = each.sample(rng, 20)
        sent = as_sent(codes)
        assert not sent.flags.writeable
        np.testing.assert_array_equal(each.status(sent)[0], each.status(codes)[0])
        np.testing.assert_array_equal(
            LoopNestModel().evaluate(each, sent).edp, LoopNestModel().evaluate(each, codes).edp
        )
        each.mutate(rng, sent)
        counts = [len(entry.signatures) for entry in (check_mappings, evaluate_mappings, mutate)]  # type: ignore[attr-defined]
        assert compiled in (None, counts)
        compiled = counts
    assert not spaces[1].tables.sizes.flags.writeable
