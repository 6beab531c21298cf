"""Marvel's rooflines: by hand, against Table 2, and under every clean record of MAESTRO."""

from __future__ import annotations

import gzip
import json
import math

import pytest
from paths import GOLDEN

from costmodel import ConfigError, accelerator, workload
from costmodel.maestro.distinct_blocks import DIMENSIONS, Layer, layer_of
from costmodel.maestro.roofline import roofline

EYERISS = accelerator("eyeriss-168")  # 12 elements per cycle in, 12 out
EDGE = accelerator("edge-1024")  # 128 elements per cycle in, 128 out
RECORDS = GOLDEN / "maestro" / "maestro-dev.jsonl.gz"


def test_by_hand() -> None:
    # 6 x 6 inputs for 4 x 4 outputs.
    bound = roofline(Layer("hand", K=8, C=2, R=3, S=3, P=4, Q=4), EYERISS)
    assert bound.macs == 8 * 2 * 9 * 16
    assert bound.ingress_elements == 8 * 2 * 9 + 2 * 36
    assert bound.egress_elements == 8 * 16
    assert bound.compute_cycles == 2304 / 168
    assert bound.ingress_cycles == 216 / 12
    assert bound.egress_cycles == 128 / 12
    assert (bound.cycles, bound.binding, bound.macs_per_cycle) == (18.0, "ingress", 128.0)


def test_each_may_bind() -> None:
    assert roofline(layer_of(workload("marvel-l8")), EYERISS).binding == "compute"
    assert roofline(layer_of(workload("marvel-l7")), EYERISS).binding == "ingress"
    assert roofline(Layer("wide", 64, 1, 1, 1, 8, 8), EYERISS).binding == "egress"


def test_low_intensity_is_bounded_by_the_network() -> None:
    # Section 4.2: residual, fully connected and depthwise layers; L2 has network to spare on
    # the second platform only.
    rows = [layer_of(workload(f"marvel-l{row}")) for row in range(1, 16)]
    bound = [{roofline(row, platform).binding for row in rows} for platform in (EYERISS, EDGE)]
    assert bound == [{"compute", "ingress"}] * 2
    slow = [row.name[8:] for row in rows if roofline(row, EYERISS).binding == "ingress"]
    assert slow == ["1", "2", "3", "4", "7", "10", "15"]
    slow = [row.name[8:] for row in rows if roofline(row, EDGE).binding == "ingress"]
    assert slow == ["1", "3", "4", "7", "10", "15"]


@pytest.mark.parametrize(
    ("row", "ingress", "egress", "total"),
    [
        (1, 0.9, 1, 0.3),  # the ends of the ranges that Table 2 prints, some of them cut off
        (4, 3.8, 9, 2.1),
        (7, 0.9, 1280, 0.9),
        (8, 452.5, 576, None),
        (9, 24.7, 4608, 24.5),
        (15, 0.99, 100352, 0.9),
    ],
)
def test_intensities_of_table_2(row: int, ingress: float, egress: float, total: float) -> None:
    bound = roofline(layer_of(workload(f"marvel-l{row}")), EYERISS)
    into, out = bound.ingress_elements, bound.egress_elements
    assert bound.macs / into == pytest.approx(ingress, abs=0.1)
    assert bound.macs / out == egress
    assert total is None or bound.macs / (into + 2 * out) == pytest.approx(total, abs=0.1)


def test_inputs_between_strides_do_not_move() -> None:
    inputs = [
        roofline(Layer("s", 1, 1, 1, s, 5, 1, stride=stride), EYERISS).ingress_elements - s
        for s, stride in ((1, 1), (1, 2), (3, 1), (3, 2), (3, 3), (3, 4))
    ]
    assert inputs == [5, 5, 7, 11, 15, 15]


def test_tiles_move_their_own_halos_and_partial_sums() -> None:
    layer = Layer("hand", K=8, C=2, R=3, S=3, P=4, Q=4)
    bound = roofline(layer, EYERISS, tile=(8, 1, 3, 3, 2, 4))
    assert bound.ingress_elements == 4 * (8 * 9 + 4 * 6)
    assert bound.egress_elements == 2 * 128
    assert bound.compute_cycles == 2304 / 168
    assert roofline(layer, EYERISS, tile=layer.bounds) == roofline(layer, EYERISS)


def test_a_network_without_limit_takes_no_time() -> None:
    levels = [{"name": "L2", "read_bandwidth": None, "write_bandwidth": None}]
    free = accelerator({"extends": "eyeriss-168", "levels": levels})
    bound = roofline(layer_of(workload("marvel-l1")), free)
    assert (bound.ingress_cycles, bound.egress_cycles, bound.binding) == (0.0, 0.0, "compute")


def test_no_clean_record_is_faster() -> None:
    # MAESTRO leaves out the last step's egress, and that alone takes a runtime below the bound.
    platforms = {168: EYERISS, 1024: EDGE}
    records = below = 0
    with gzip.open(RECORDS, "rt") as lines:
        for record in map(json.loads, lines):
            if record["has_edges"] or not record.get("macs_ok"):
                continue
            records += 1
            tile = [record["l3_tile"][name] for name in DIMENSIONS]
            depthwise = record["maestro_type"] == "DSCONV"
            layer = Layer(record["id"], *tile, stride=record["stride"], depthwise=depthwise)
            bound = roofline(layer, platforms[record["platform"]["num_pes"]])
            runtime = record["maestro"]["runtime"]
            if runtime < bound.cycles:
                below += 1
                assert bound.binding == "egress"
                axes = ("C" if depthwise else "K", "P", "Q")
                last = math.prod(record["t1"][name] for name in axes)
                last *= math.prod(factor for name, factor in record["par"] if name in axes)
                assert runtime + last / record["platform"]["noc_bw"] >= bound.cycles
    assert (records, below) == (2720, 4)


def test_wrong_arguments() -> None:
    layer = layer_of(workload("marvel-l8"))
    for tile in ((5, 64, 3, 3, 54, 54), (0, 64, 3, 3, 54, 54), (64, 64)):
        with pytest.raises(ConfigError, match="tile: expected six divisors of K, C, R, S, P, Q"):
            roofline(layer, EYERISS, tile=tile)
    one = accelerator({"extends": "eyeriss-168", "levels": [{"name": "L2", "fanout": 1}]})
    with pytest.raises(ConfigError, match="one level with a fanout above 1, got none"):
        roofline(layer, one)
