"""Stalls and what is loaded before the first fold: what SCALE-Sim 3.0.0 says, and cases by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import GOLDEN

from costmodel.networks.scalesim_topology import TopologyLayer
from costmodel.scalesim import stalls
from costmodel.scalesim.configuration import DATAFLOWS, Bandwidths, Dataflow, ScaleSimArray
from costmodel.scalesim.dataflows import dataflow_cycles
from costmodel.scalesim.stalls import cycles_with_stalls


def rows() -> Iterator[dict[str, Any]]:
    for name in ("compute", "stalls", "random"):
        for line in (GOLDEN / "scalesim" / f"{name}.jsonl").read_text().splitlines():
            row = json.loads(line)
            if name != "random":
                row["kilobytes"] = [512, 512, 256] if name == "compute" else [32, 32, 16]
                words = row["words_per_cycle"]
                row["bandwidths"] = None if words is None else [10, 10, words]
            yield row


ROWS = list(rows())


def product(m: int, n: int, k: int) -> TopologyLayer:
    return TopologyLayer("x", m, k, 1, k, 1, n, 1, 1, True, "here")


def test_the_rows_are_there() -> None:
    assert len(ROWS) == 222
    assert sum(row["stall_cycles"] > 0 for row in ROWS) == 45


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_cycles_are_those_of_scale_sim(row: dict[str, Any]) -> None:
    names = ("H", "W", "R", "S", "C", "K", "stride")
    height, width, tall, wide, channels, filters, stride = (row["layer"][name] for name in names)
    layer = TopologyLayer(
        "x", height, width, tall, wide, channels, filters, stride, 1, False, "here"
    )
    limits = row["bandwidths"]
    array = ScaleSimArray(
        *row["array"],
        *(1024 * size for size in row["kilobytes"]),
        row["dataflow"],
        None if limits is None else Bandwidths(*limits),
    )
    found = cycles_with_stalls(array, layer, row["dataflow"])
    assert found.stalls == row["stall_cycles"]
    assert found.cycles == row["cycles"]
    assert found.cycles_with_prefetch == row["cycles_with_prefetch"]


@pytest.mark.parametrize("flow", DATAFLOWS)
def test_what_fits_waits_for_nothing(flow: Dataflow) -> None:
    array = ScaleSimArray(4, 4, 1 << 20, 1 << 20, 1 << 20, flow, Bandwidths(1, 1, 1))
    layer = product(9, 7, 12)
    found = cycles_with_stalls(array, layer, flow)
    assert found.stalls == 0
    assert found.cycles == dataflow_cycles(array, layer, flow).cycles
    # A word a cycle beforehand of the larger operand, with what rounds it up to whole folds, and
    # every output behind, where weights or inputs stay once for each of three folds of 12 products.
    before = {"os": 144, "ws": 108, "is": 144}[flow]
    behind = 9 * 7 * (1 if flow == "os" else 3)
    assert found.cycles_with_prefetch == before + found.cycles + behind - 1


def test_a_layer_that_is_too_large_has_no_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    array = ScaleSimArray(4, 4, 1024, 1024, 1024, "os", Bandwidths(1, 1, 1))
    layer = product(40, 40, 40)
    whole = cycles_with_stalls(array, layer, "os")
    assert whole.stalls is not None
    for name, most in (("MOST_WORDS", 1599), ("MOST_STEPS", 1000)):
        with monkeypatch.context() as patched:
            patched.setattr(stalls, name, most)
            found = cycles_with_stalls(array, layer, "os")
        assert (found.stalls, found.cycles_with_prefetch) == (None, None)
        assert found.cycles == whole.cycles - whole.stalls


SIZE = st.integers(1, 20)


@settings(max_examples=50)
@given(st.tuples(SIZE, SIZE, SIZE), st.tuples(SIZE, SIZE), st.sampled_from(DATAFLOWS))
def test_larger_buffers_than_the_layer_are_as_good_as_any(
    sizes: tuple[int, int, int], edges: tuple[int, int], flow: Dataflow
) -> None:
    arrays = [
        ScaleSimArray(*edges, size, size, size, flow, Bandwidths(10, 10, 10))
        for size in (1 << 13, 1 << 20)
    ]
    small, large = (cycles_with_stalls(array, product(*sizes), flow) for array in arrays)
    assert small.cycles == large.cycles
