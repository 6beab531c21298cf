"""MAESTRO's counts against every clean record of the real tool, by hand, and by laws."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maestro_golden import PATH, STRIDED, is_clean, load

from costmodel.costs import STATUS_OK
from costmodel.maestro import (
    FIDELITIES,
    STATUS_REMAINDER,
    ClusterMappings,
    MaestroModel,
    explain,
    mappings_from_records,
    records_from_mappings,
    score_records,
)
from mapspace.errors import ConfigError, ContractError
from orchestrator.records.evaluate_records import evaluate_file

Record = dict[str, Any]
RECORDS = load()
CLEAN = [record for record in RECORDS if is_clean(record)]
COUNTERS = ("l2_write", "l2_read", "l1_write", "l1_read", "l2_req", "l1_req")
EXACT = ("runtime", "macs", "l2_req_total", "l1_req_total", "avg_active_pes")
FLOATS = ("l2_write", "l2_read", "l1_write", "l1_read", "mac", "total")


def by_hand(**changes: Any) -> Record:
    """K=C=8, 3x3 over 8x8 outputs, one element at a time, K over 4 processing elements."""
    return {
        "maestro_type": "CONV",
        "l3_tile": {"K": 8, "C": 8, "R": 3, "S": 3, "P": 8, "Q": 8},
        "stride": 1,
        "platform": {"noc_bw": 12},
        "style": "generic",
        "order": ["K", "C", "Q", "P"],
        "t1": {"K": 1, "C": 1, "P": 1, "Q": 1},
        "par": [["K", 4]],
        "hop_latency": 1,
    } | changes


def test_every_record_is_here() -> None:
    assert len(RECORDS) == 3027
    kinds = Counter((r["dataflow"], r["style"], len(r["par"])) for r in CLEAN)
    assert kinds == {
        ("generic", "generic", 1): 199,
        ("generic", "generic", 2): 948,
        ("generic", "generic", 3): 831,
        ("KC", "generic", 1): 60,
        ("KC", "generic", 2): 175,
        ("QP", "generic", 2): 235,
        ("QR", "generic", 1): 182,
        ("QR", "qr", 1): 90,
    }


def test_equals_maestro() -> None:
    for scored in score_records(CLEAN, MaestroModel()):
        expected, got, where = scored["maestro"], scored["result"], scored["id"]
        assert "status" not in got, (where, got)
        for key in EXACT:
            assert got[key] == expected[key], (where, key)
        for tensor, counts in expected["tensors"].items():
            assert got["tensors"][tensor] == {key: counts[key] for key in COUNTERS}, where
        for key in ("delay_ingress", "delay_egress", "delay_compute"):
            assert got[key] == expected[key], (where, key)
        for key in (*(f"energy_{part}" for part in FLOATS), "throughput_macs_per_cycle"):
            assert abs(got[key] - expected[key]) <= 1e-12 * expected[key], (where, key)


def test_equals_maestro_under_strides() -> None:
    records = load(STRIDED)
    assert len(records) == 200
    assert Counter(record["style"] for record in records) == {"generic": 160, "qr": 40}
    for scored in score_records(records, MaestroModel()):
        for key, value in scored["maestro"].items():
            assert scored["result"][key] == value, (scored["id"], key)


@pytest.mark.parametrize(
    ("filter_size", "depthwise", "split", "factor", "ratio"),
    [
        (7, False, "Q", 14, Fraction(27, 14)),
        (7, False, "Q", 56, Fraction(111, 56)),
        (3, True, "P", 8, Fraction(15, 8)),
        (1, False, "Q", 14, Fraction(1)),
    ],
)
def test_a_run_of_strided_outputs_counts_the_pixels_between_them(
    filter_size: int, depthwise: bool, split: str, factor: int, ratio: Fraction
) -> None:
    channels = {"K": 1 if depthwise else 64, "C": 32 if depthwise else 3}
    size = {"R": filter_size, "S": filter_size, "P": 112, "Q": 112}
    record = by_hand(
        maestro_type="DSCONV" if depthwise else "CONV",
        l3_tile=channels | size,
        stride=2,
        par=[[split, factor]],
    )
    outputs = 112 * 112 * (32 if depthwise else 64)
    # A depthwise layer has nothing to sum over channels; the others write a sum for each of C.
    writes = outputs * (1 if depthwise else 3)
    written = {
        fidelity: score_records([record], MaestroModel(fidelity=fidelity))[0]["result"]["tensors"][
            "output"
        ]["l2_write"]
        for fidelity in FIDELITIES
    }
    assert written["maestro"] == writes * ratio
    assert written["corrected"] == writes  # C is not the innermost loop: nothing stays


def test_splitting_two_dimensions_by_hand() -> None:
    rows = [by_hand(), by_hand(par=[["K", 2], ["C", 2]])]
    counts = MaestroModel().cost(mappings_from_records(rows)).counts
    # 2 x 8 x 64 or 4 x 4 x 64 steps of 9 cycles. The first load is in the open, 9 + 36 or 18 + 36
    # elements at 12 a cycle; so is the load of the second cluster level, 18 + 18, at every step.
    assert counts.runtime_cycles.tolist() == [1024 * 9 + 4, 1024 * (9 + 3) + 5] == [9220, 12293]
    # 2 x 8 walks over 8 x 8 outputs, rows of 9 then 7 x 3 pixels; where K advances, MAESTRO misses
    # the first window.
    assert counts.l2_read[0].tolist() == [2 * 8 * 8 * (9 + 7 * 3) - 9, 8 * 8 * 9, 8 * 64]
    assert counts.l2_write[0].tolist() == [8 * 100, 8 * 8 * 9, 8 * 8 * 64]
    assert counts.macs.tolist() == [8 * 8 * 9 * 64] * 2


@pytest.mark.parametrize(
    ("l3_tile", "depthwise"),
    [
        ({"K": 1, "C": 64, "R": 3, "S": 3, "P": 5, "Q": 5}, True),  # L4
        ({"K": 64, "C": 64, "R": 3, "S": 3, "P": 5, "Q": 5}, False),  # L9
        ({"K": 64, "C": 256, "R": 1, "S": 1, "P": 4, "Q": 28}, False),  # L12
        ({"K": 128, "C": 256, "R": 1, "S": 1, "P": 7, "Q": 7}, False),  # L14
    ],
)
@pytest.mark.parametrize("fidelity", ["maestro", "corrected"])
@pytest.mark.parametrize("stride", [1, 2])
def test_layers_that_no_record_has(
    l3_tile: dict[str, int], depthwise: bool, fidelity: Any, stride: int
) -> None:
    split = [["C", 32]] if depthwise else [["K", 16], ["C", 4]]
    record = by_hand(
        l3_tile=l3_tile, par=split, stride=stride, maestro_type="DSCONV" if depthwise else "CONV"
    )
    (scored,) = score_records([record], MaestroModel(fidelity=fidelity))
    result = scored["result"]
    assert result["macs"] == np.prod(list(l3_tile.values()))
    assert result["runtime"] >= result["macs"] / (32 if depthwise else 64)
    outputs = l3_tile["C" if depthwise else "K"] * l3_tile["P"] * l3_tile["Q"]
    assert result["tensors"]["output"]["l2_write"] >= outputs


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 50))
def test_a_batch_equals_its_rows(seed: int, size: int) -> None:
    index = np.random.default_rng(seed).integers(len(RECORDS), size=size)
    mappings = mappings_from_records([RECORDS[i] for i in index])
    for model in (MaestroModel(), MaestroModel(fidelity="corrected")):
        whole = model.cost(mappings)
        shuffled = np.random.default_rng(seed).permutation(size)
        moved = model.cost(mappings.rows(shuffled))
        one = model.cost(mappings.rows(slice(0, 1)))
        for name in ("runtime_cycles", "l2_read", "l1_write", "l1_required"):
            counted = getattr(whole.counts, name)
            assert (getattr(moved.counts, name) == counted[shuffled]).all()
            assert (getattr(one.counts, name) == counted[:1]).all()
        assert (moved.status == whole.status[shuffled]).all()
        assert (moved.energies.total == whole.energies.total[shuffled]).all()


@settings(max_examples=50)
@given(index=st.integers(0, len(CLEAN) - 1), more=st.integers(1, 100), slower=st.integers(1, 5))
def test_laws(index: int, more: int, slower: int) -> None:
    record = CLEAN[index]
    platform = record["platform"]
    faster = record | {"platform": platform | {"noc_bw": platform["noc_bw"] + more}}
    late = record | {"hop_latency": 1 + slower}
    costs = MaestroModel().cost(mappings_from_records([record, faster, late]))
    runtime, reads = costs.counts.runtime_cycles, costs.counts.l2_read
    assert runtime[1] <= runtime[0] <= runtime[2]
    assert (reads == reads[0]).all()
    assert (costs.energies.total == costs.energies.total[0]).all()
    assert runtime[0] >= costs.counts.macs[0] / record["num_pes_used"]
    # Work is conserved whatever the mapping; outputs leave at every step of the reduction.
    spread = dict(record["par"]).get("C", 1) * record["t1"]["C"]
    trips = 1 if record["maestro_type"] == "DSCONV" else record["l3_tile"]["C"] // spread
    tile = record["l3_tile"]
    outputs = tile["C" if record["maestro_type"] == "DSCONV" else "K"] * tile["P"] * tile["Q"]
    assert costs.counts.l2_write[0, 2] == outputs * trips
    assert costs.counts.macs[0] == record["macs_expected"]


def test_remainders_are_refused_as_a_status() -> None:
    scored = score_records(RECORDS, MaestroModel())
    refused = [record for record in scored if "status" in record["result"]]
    assert [record["id"] for record in refused] == [r["id"] for r in RECORDS if r["has_edges"]]
    assert refused[0]["result"] == {
        "status": "level-1 tile does not divide P: expected a divisor of 112 (level-3 tile), got "
        "2 x 30 (tile x elements); only maestro-corrected counts remainders."
    }
    mappings = mappings_from_records(RECORDS)
    costs = MaestroModel().cost(mappings)
    wrong = costs.status == STATUS_REMAINDER
    assert wrong.sum() == 307
    assert not costs.counts.runtime_cycles[wrong].any()
    converted = costs.to_costs()
    assert (converted.ok == ~wrong).all()
    assert explain(mappings, costs, int(np.flatnonzero(~wrong)[0])) == "feasible"


def test_energies_are_parameters() -> None:
    mappings = mappings_from_records([by_hand()])
    model = MaestroModel(mac_units=0, l1_access_units=0, l2_access_units=2, pj_per_unit=0.5)
    costs = model.cost(mappings)
    accesses = costs.counts.l2_read.sum() + costs.counts.l2_write.sum()
    assert costs.to_costs().energy_pj.tolist() == [accesses]
    assert costs.status.tolist() == [STATUS_OK]


def test_records_survive_a_round_trip() -> None:
    mappings = mappings_from_records(RECORDS)
    again = mappings_from_records(records_from_mappings(mappings))
    for name in ("bounds", "order", "tile", "parallel_dims", "parallel_factors", "l1_capacity"):
        assert (getattr(mappings, name) == getattr(again, name)).all()
    unlimited = by_hand()
    assert records_from_mappings(mappings_from_records([unlimited])) == [unlimited]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"l3_tile": {"K": 8}}, "record 1: l3_tile.C is missing."),
        ({"l3_tile": None}, "record 1: l3_tile: expected an object, got None."),
        ({"t1": {"K": 1, "C": 1, "P": 1}}, "record 1: t1.Q is missing."),
        ({"t1": {"K": 1, "C": 1, "P": 1, "Q": 1, "X": 1}}, "record 1: t1: unknown 'X'"),
        ({"t1": {"K": 1, "C": 9, "P": 1, "Q": 1}}, "record 1: expected a tile within the bounds"),
        ({"stride": 0}, "record 1: stride: expected a whole number from 1, got 0."),
        ({"stride": 1.5}, "record 1: stride: expected a whole number from 1, got 1.5."),
        ({"maestro_type": "FC"}, "record 1: maestro_type: expected one of CONV, DSCONV, got 'FC'."),
        ({"style": "ws"}, "record 1: style: expected one of generic, qr, got 'ws'."),
        ({"order": ["K", "C", "Q"]}, "record 1: order: expected each of K, C, P, Q once"),
        ({"par": [["R", 3]]}, "record 1: par: expected a dimension of K, C, P, Q and a factor"),
        ({"par": [["K", True]]}, "record 1: par.K.factor: expected a whole number"),
        ({"par": [["K", 2]] * 4}, "record 1: par: expected at most 3 pairs"),
        ({"style": "qr"}, "record 1: expected row-stationary to split only Q"),
        ({"platform": {"noc_bw": 12, "cores": 2}}, "record 1: platform: unknown 'cores'"),
        ({"platform": {"l1": 512}}, "record 1: platform.noc_bw is missing."),
        ({"maestro_type": "DSCONV"}, "record 1: expected K = 1 of a depthwise layer"),
    ],
)
def test_a_bad_record_says_what_and_where(changes: Record, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        score_records([by_hand(), by_hand(**changes)], MaestroModel())
    assert str(error.value).startswith(message)


def test_misuse_is_an_error() -> None:
    mappings = mappings_from_records([by_hand(), by_hand(par=[["K", 3]])])
    with pytest.raises(
        ConfigError, match=r"row 1: level-1 tile does not divide K: .* of 8 .* 1 x 3"
    ):
        strict(mappings)
    with pytest.raises(ConfigError, match="record 1: level-1 tile does not divide K"):
        mappings_from_records([by_hand(), by_hand(par=[["K", 3]])], strict=True)
    with pytest.raises(ContractError, match=r"Expected tile of shape \(2, 4\).*got \(2, 3\)"):
        strict(mappings, tile=mappings.tile[:, :3])
    with pytest.raises(ContractError, match="Expected stride of integer, got float64"):
        strict(mappings, stride=mappings.stride * 1.0)
    with pytest.raises(ConfigError, match="row 0: expected each of 0 to 3 once in order"):
        strict(mappings, order=np.zeros((2, 4), int))
    large = np.where([[False], [True]], 2**20, mappings.bounds)
    with pytest.raises(ConfigError, match="row 1: expected counts under"):
        strict(mappings, bounds=large)
    with pytest.raises(ContractError, match="needs ClusterMappings, got list"):
        MaestroModel().cost([])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected 'maestro' or 'corrected', got 'best'"):
        MaestroModel(fidelity="best")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="mac_units finite and at least 0, got nan"):
        MaestroModel(mac_units=float("nan"))


def strict(mappings: ClusterMappings, **changes: Any) -> ClusterMappings:
    names = mappings.__dataclass_fields__
    return ClusterMappings(**{n: getattr(mappings, n) for n in names} | {"strict": True} | changes)


def test_evaluate_scores_a_file(tmp_path: Path) -> None:
    output = tmp_path / "scored.jsonl"
    assert evaluate_file("maestro", PATH, output) == (3027, 307, 0)
    first = json.loads(output.read_text().splitlines()[0])
    assert first["result"]["runtime"] == first["maestro"]["runtime"]
    source = tmp_path / "bad.jsonl"
    source.write_text("\n" + json.dumps(by_hand()) + "\n" + json.dumps(by_hand(stride=0)) + "\n")
    with pytest.raises(ConfigError, match=r"bad\.jsonl:3: stride: expected a whole number"):
        evaluate_file("maestro", source, output)
