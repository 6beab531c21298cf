"""The cycles of three dataflows: a case by hand, and what SCALE-Sim 3.0.0 says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import GOLDEN

from costmodel.networks.scalesim_topology import TopologyLayer
from costmodel.scalesim.configuration import DATAFLOWS, Dataflow, ScaleSimArray
from costmodel.scalesim.dataflows import dataflow_cycles, unfolded

ROWS = [
    json.loads(line)
    for name in ("compute", "stalls")
    for line in (GOLDEN / "scalesim" / f"{name}.jsonl").read_text().splitlines()
]


def layer_of(sizes: dict[str, int]) -> TopologyLayer:
    values = [sizes[key] for key in ("H", "W", "R", "S", "C", "K", "stride")]
    return TopologyLayer("layer", *values, times=1, product=False, place="here")  # type: ignore[misc, arg-type]


def array_of(rows: int, columns: int) -> ScaleSimArray:
    return ScaleSimArray(rows, columns, 1 << 19, 1 << 19, 1 << 18, "os", None)


def test_the_rows_are_there() -> None:
    assert len(ROWS) == 110
    assert {row["dataflow"] for row in ROWS} == set(DATAFLOWS)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_cycles_are_those_of_scale_sim(row: dict[str, Any]) -> None:
    found = dataflow_cycles(array_of(*row["array"]), layer_of(row["layer"]), row["dataflow"])
    assert found.cycles == row["cycles"] - row["stall_cycles"]
    efficiency = 100 * found.mapping_efficiency
    assert efficiency == pytest.approx(row["mapping_efficiency_percent"], rel=1e-12)


# A 3 x 3 layer of 128 to 128 channels on 7 x 7, a 32 x 32 array: SCALE-Sim's own figures.
RANKED: dict[Dataflow, int] = {"os": 9711, "ws": 20591, "is": 15983}


@pytest.mark.parametrize(("flow", "cycles"), RANKED.items())
def test_a_layer_whose_dataflows_change_places(flow: Dataflow, cycles: int) -> None:
    layer = layer_of({"H": 9, "W": 9, "R": 3, "S": 3, "C": 128, "K": 128, "stride": 1})
    assert dataflow_cycles(array_of(32, 32), layer, flow).cycles == cycles


def test_a_fold_by_hand() -> None:
    # One output of 4 products on a row of 2 elements: 4 cycles stream, the last column lags by one.
    layer = layer_of({"H": 1, "W": 4, "R": 1, "S": 4, "C": 1, "K": 2, "stride": 1})
    found = dataflow_cycles(array_of(1, 2), layer, "os")
    assert (found.folds, found.computing, found.loading, found.cycles) == (1, 4, 0, 4)
    # Weights stationary: 4 folds of one row, each of one cycle of loading, one of streaming.
    found = dataflow_cycles(array_of(1, 2), layer, "ws")
    assert (found.folds, found.computing, found.loading, found.cycles) == (4, 4, 4, 11)
    assert found.utilisation == pytest.approx(8 / (11 * 2))


SIZE = st.integers(1, 40)


@given(st.lists(SIZE, min_size=6, max_size=6), st.sampled_from(DATAFLOWS))
def test_parts_add_up_and_no_fold_computes_too_much(sizes: list[int], flow: Dataflow) -> None:
    rows, columns, pixels, window, filters, stride = sizes
    layer = TopologyLayer("x", pixels, window, 1, window, 1, filters, stride, 1, True, "here")
    found = dataflow_cycles(array_of(rows, columns), layer, flow)
    assert found.computing + found.loading + found.filling == found.cycles
    assert 0 < found.mapping_efficiency <= 1
    # All elements of all folds together do the multiply-accumulates, each in one cycle.
    done = found.mapping_efficiency * found.computing * rows * columns
    assert done == pytest.approx(layer.macs)
    assert sorted(unfolded(layer, flow)) == sorted((layer.pixels, layer.window, layer.filters))
