"""The corrected counts against a walk of the mapping step by step, and by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from hypothesis import given, settings
from hypothesis import strategies as st
from maestro_golden import PATH, load
from maestro_simulator import simulate

from costmodel.costs import STATUS_CAPACITY, STATUS_FANOUT, STATUS_OK
from costmodel.maestro import (
    NONE,
    ClusterMappings,
    MaestroModel,
    explain,
    mappings_from_records,
    records_from_mappings,
    score_records,
)
from orchestrator.records.evaluate_records import evaluate_file

Record = dict[str, Any]
CORRECTED = MaestroModel(fidelity="corrected")


def batch(rows: list[Record], *, strict: bool = False) -> ClusterMappings:
    """Rows of plain numbers as a batch."""
    flags = ("depthwise", "row_stationary")
    return ClusterMappings(
        **{
            key: np.array([row[key] for row in rows], bool if key in flags else np.int64)
            for key in rows[0]
        },
        strict=strict,
    )


@st.composite
def small_rows(draw: st.DrawFn) -> Record:
    """A mapping of a small layer: remainders, strides, depthwise and row-stationary included."""
    depthwise = draw(st.booleans())
    row_stationary = draw(st.integers(0, 4)) == 0
    sizes = [1 if depthwise else draw(st.integers(1, 5))]
    sizes += [draw(st.integers(1, high)) for high in (5, 3, 3, 6, 6)]
    bounds = [sizes[d] for d in (0, 1, 4, 5)]
    tile = [draw(st.integers(1, min(bound, 3))) for bound in bounds]
    allowed = [1, 2, 3] if depthwise else [0, 1, 2, 3]
    if row_stationary:
        tile[3] = 1
        dims = [3]
    else:
        dims = draw(st.lists(st.sampled_from(allowed), max_size=3))
    factors = [draw(st.integers(1, 3)) for _ in dims]
    return {
        "bounds": sizes,
        "stride": draw(st.integers(1, 3)),
        "depthwise": depthwise,
        "order": draw(st.permutations(range(4))),
        "tile": tile,
        "parallel_dims": dims + [NONE] * (3 - len(dims)),
        "parallel_factors": factors + [1] * (3 - len(dims)),
        "row_stationary": row_stationary,
        "noc_bandwidth": draw(st.sampled_from([1, 2, 3, 5, 16])),
        "hop_latency": draw(st.integers(1, 3)),
    }


@settings(max_examples=300)
@given(rows=st.lists(small_rows(), min_size=1, max_size=4))
def test_equals_the_walk(rows: list[Record]) -> None:
    mappings = batch(rows)
    counts = CORRECTED.cost(mappings).counts
    for row in range(len(mappings)):
        walked = simulate(mappings, row)
        assert counts.macs[row] == walked.macs
        assert counts.l2_read[row, 0] == walked.fetched["input"]
        assert counts.l2_read[row, 1] == walked.fetched["weight"]
        assert counts.l2_write[row, 2] == walked.written
        assert counts.l2_read[row, 2] == walked.touched["output"] + walked.read_back
        assert counts.l2_write[row, 0] == walked.touched["input"]
        assert counts.l2_write[row, 1] == walked.touched["weight"]
        assert counts.runtime_cycles[row] == walked.runtime


@settings(max_examples=100)
@given(row=small_rows(), bandwidth=st.integers(1, 20))
def test_laws(row: Record, bandwidth: int) -> None:
    slow, fast = (
        CORRECTED.cost(batch([row | {"noc_bandwidth": b}])).counts
        for b in (bandwidth, bandwidth + 1)
    )
    assert slow.runtime_cycles >= fast.runtime_cycles
    assert (slow.l2_read == fast.l2_read).all()
    # Nothing is fetched less than once, and no output leaves oftener than it came.
    assert (slow.l2_read >= slow.l2_write)[:, :2].all()
    outputs = slow.l2_required[:, 2] // 2
    assert (slow.l2_write[:, 2] - (slow.l2_read[:, 2] - outputs) == outputs).all()
    # Sums stay in place when the reduction runs innermost.
    order = [d for d in row["order"] if d != 1] + [1]
    stationary = CORRECTED.cost(batch([row | {"order": order}])).counts
    assert (stationary.l2_write[:, 2] == outputs).all()
    assert (stationary.l2_read[:, 2] == outputs).all()


def by_hand(**changes: Any) -> Record:
    """K4 C6 P4 Q4, 1x1, one processing element, one element at a time."""
    return {
        "bounds": [4, 6, 1, 1, 4, 4],
        "stride": 1,
        "depthwise": False,
        "order": [0, 1, 3, 2],
        "tile": [1, 1, 1, 1],
        "parallel_dims": [0, NONE, NONE],
        "parallel_factors": [1, 1, 1],
        "row_stationary": False,
        "noc_bandwidth": 1000,
        "hop_latency": 1,
    } | changes


def test_orders_by_hand() -> None:
    rows = [by_hand(), by_hand(order=[3, 2, 0, 1])]
    corrected = CORRECTED.cost(batch(rows)).counts
    as_maestro = MaestroModel().cost(batch(rows)).counts
    # Every step needs another input. Where C runs outside P and Q, each output comes back 5 times.
    assert corrected.l2_read.tolist() == [[384, 24, 64 + 320], [384, 384, 64]]
    assert corrected.l2_write.tolist() == [[96, 24, 384], [96, 24, 64]]
    # MAESTRO misses the inputs that start over with K, and never keeps an output.
    assert as_maestro.l2_read[:, 0].tolist() == [381, 336]
    assert as_maestro.l2_write[:, 2].tolist() == [384, 384]


def test_remainders_and_strides_by_hand() -> None:
    # 3x3 window with stride 2 over 5 outputs: tiles of 2, 2, 1 take 5, 5, 3 of 11 pixels; of the
    # later two, one column each is there already.
    row = by_hand(bounds=[1, 1, 3, 3, 5, 1], stride=2, tile=[1, 1, 2, 1])
    costs = CORRECTED.cost(batch([row]))
    assert costs.counts.macs.tolist() == [45]
    assert costs.counts.l2_read.tolist() == [[(5 + 4 + 2) * 3, 9, 5]]
    assert costs.counts.l2_write.tolist() == [[33, 9, 5]]
    # Load 15 + 9 in 1 cycle, work 18; work 18 + 9; store in 1 cycle.
    assert costs.counts.runtime_cycles.tolist() == [1 + 18 + 27 + 1]
    assert costs.counts.l1_required.tolist() == [[30, 18, 4]]


def test_capacities_are_enforced() -> None:
    limits = {"processing_elements": 2**40, "l1_capacity": 6, "l2_capacity": 2 * (96 + 24 + 64)}
    rows = [
        by_hand(**limits),
        by_hand(**limits | {"l1_capacity": 5}),
        by_hand(**limits | {"l2_capacity": 100}),
        by_hand(**limits | {"processing_elements": 1}, parallel_factors=[4, 1, 1]),
    ]
    mappings = batch(rows)
    costs = CORRECTED.cost(mappings)
    assert costs.status.tolist() == [
        STATUS_OK,
        STATUS_CAPACITY + 1,
        STATUS_CAPACITY,
        STATUS_FANOUT,
    ]
    assert costs.excess.tolist() == [0, 1, 268, 3]
    assert explain(mappings, costs, 1) == "capacity of L1 exceeded by 1 words"
    assert explain(mappings, costs, 3) == "fan-out exceeded by 3 processing elements"
    converted = costs.to_costs()
    assert np.isfinite(converted.edp).tolist() == [True, False, False, False]
    assert MaestroModel().cost(mappings).status.tolist() == [STATUS_OK] * 4


def test_remainder_records_are_scored() -> None:
    edges = [record for record in load() if record["has_edges"]]
    assert len(edges) == 307
    for record in edges:
        record["platform"]["l2"] = 2**40
        record["platform"]["l1"] = 2**40
        record["platform"]["num_pes"] = 2**40
    for record, scored in zip(edges, score_records(edges, CORRECTED), strict=True):
        assert scored["result"]["macs"] == math.prod(record["l3_tile"].values())
        assert scored["result"]["throughput_macs_per_cycle"] <= record["num_pes_used"]


def test_evaluate_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strided = by_hand(bounds=[1, 1, 3, 3, 5, 1], stride=2, tile=[1, 1, 2, 1])
    rows = [by_hand(), strided, by_hand(l1_capacity=5)]
    rows = [{"processing_elements": 2**40, "l1_capacity": 2**40, **row} for row in rows]
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    records = records_from_mappings(batch(rows))
    source.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    results: dict[str, list[Record]] = {}
    for name in ("maestro", "maestro-corrected"):
        assert call("evaluate", "--model", name, str(source), "--output", str(output)) == 0
        assert "3 records scored, 1 of them infeasible" in capsys.readouterr().err
        results[name] = [json.loads(line)["result"] for line in output.read_text().splitlines()]
        made_by = {(result["model"], result["model_version"]) for result in results[name]}
        assert made_by == {(name, MaestroModel.version)}
    whole, edges, small = results["maestro-corrected"]
    # Both as counted above.
    assert whole["tensors"]["output"]["l2_write"] == 384
    assert edges["runtime"] == 1 + 18 + 27 + 1
    assert small["status"] == "capacity of L1 exceeded by 1 words"
    assert results["maestro"][1]["status"].startswith("level-1 tile does not divide P: ")
    assert "status" not in results["maestro"][2]
    left_out = {"avg_active_pes", "delay_ingress", "delay_egress", "delay_compute"}
    assert set(results["maestro"][0]) - set(whole) == left_out
    assert set(whole) < set(results["maestro"][0])


def test_every_record_has_a_result_or_a_reason(tmp_path: Path) -> None:
    output = tmp_path / "scored.jsonl"
    assert evaluate_file("maestro-corrected", PATH, output) == (3027, 610, 0)
    scored = [json.loads(line) for line in output.read_text().splitlines()]
    reasons = {result["status"][:23] for r in scored if "status" in (result := r["result"])}
    assert reasons == {"capacity of L2 exceeded"}
    counted = [record for record in scored if "status" not in record["result"]]
    assert sum(record["has_edges"] for record in counted) == 252
    assert all(record["result"]["macs"] == record["macs_expected"] for record in counted)
    assert MaestroModel(fidelity="corrected").name == "maestro-corrected"


def test_the_true_l1_footprint_is_that_of_the_records() -> None:
    # With stride 2 and 1x1 filters the records count the pixels between the windows, too.
    records = [record for record in load() if record["stride"] == 1]
    counts = CORRECTED.cost(mappings_from_records(records)).counts
    expected = [2 * record["l1_elems_single"] for record in records]
    assert counts.l1_required.sum(axis=1).tolist() == expected


@pytest.mark.parametrize("size", [0, 1, 7])
def test_any_batch_size(size: int) -> None:
    assert len(CORRECTED.cost(batch([by_hand()]).rows(np.zeros(size, int))).status) == size
