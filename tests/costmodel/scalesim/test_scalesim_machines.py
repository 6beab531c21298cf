"""SCALE-Sim's array as a machine: its dataflows are the fastest mappings there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mapspace as ms
from costmodel.networks.scalesim_topology import TopologyLayer
from costmodel.scalesim.configuration import DATAFLOWS, Dataflow, ScaleSimArray
from costmodel.scalesim.dataflows import dataflow_cycles
from costmodel.scalesim.machines import machine_of, product_of
from mapspace.errors import ConfigError

SIDE, SIZE = st.integers(1, 6), st.integers(1, 24)


def product(m: int, n: int, k: int) -> TopologyLayer:
    return TopologyLayer("x", m, k, 1, k, 1, n, 1, 1, True, "here")


@settings(max_examples=40, deadline=None)
@given(st.tuples(SIDE, SIDE), st.tuples(SIZE, SIZE, SIZE), st.sampled_from(DATAFLOWS))
def test_no_mapping_is_faster_than_the_dataflow(
    sides: tuple[int, int], sizes: tuple[int, int, int], flow: Dataflow
) -> None:
    array = ScaleSimArray(*sides, 1 << 16, 1 << 16, 1 << 16, flow, None)
    layer = product(*sizes)
    if sides == (1, 1):
        with pytest.raises(ConfigError, match="expected several elements, got one"):
            machine_of(array, flow)
        return
    found = ms.search(
        product_of(array, layer, flow), machine_of(array, flow), objective="latency", store=False
    )
    assert found.proven
    assert found.costs.latency_cycles == dataflow_cycles(array, layer, flow).cycles + 1


@pytest.mark.parametrize("flow", DATAFLOWS)
def test_the_machine_says_what_scale_sim_does(flow: Dataflow) -> None:
    machine = machine_of(ScaleSimArray(4, 8, 1024, 2048, 512, flow, None), flow)
    array = machine.levels[1].array
    assert array is not None
    assert array.parts(4, 8) == (0 if flow == "os" else 4, 10, 0)
    assert machine.levels[1].capacity_words == 3584
    assert machine.levels[1].width_height == (8, 4)
    sizes = product_of(ScaleSimArray(4, 8, 1, 1, 1, flow, None), product(9, 9, 9), flow)
    padded = {"os": (12, 16, 9), "ws": (9, 16, 12), "is": (16, 9, 12)}[flow]
    assert tuple(sizes.dimensions[name] for name in "MNK") == padded
