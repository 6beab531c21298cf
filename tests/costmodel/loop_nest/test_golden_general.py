"""Any hierarchy against the real Timeloop: every count, cycle and energy of its records.

The repository has every eighth record of each family; where the whole set lies beside the checkout
(`../shared/golden/timeloop-general`), the slow tests hold the model against all of it.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from paths import GOLDEN, ROOT

from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.nest_records import score_nests
from costmodel.loop_nest.records import score

HERE = GOLDEN / "timeloop-general"
WHOLE = ROOT.parent / "shared" / "golden" / "timeloop-general"
VALIDITY = GOLDEN / "timeloop-validity" / "validity.jsonl.gz"
FAMILIES = {
    "actions": 768, "backing": 766, "bandwidth": 791, "buffering": 764, "exotic": 300,
    "eyeriss": 768, "hops": 767, "imperfect": 452, "large": 480, "register": 767, "shared4": 766,
    "simba": 768, "tpu": 768, "two": 792,
}  # fmt: skip

# Timeloop sums these fills in floating point and truncates: one word is lost. No others may differ.
TRUNCATED = {("dev/buffering/cluster4x64db/conv1d/521", "L1", "I")}

Record = dict[str, Any]


def load(path: Path) -> list[Record]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-12)


def check(record: Record, got: Record) -> None:
    """Holds a result against the record's own."""
    expected, where = record["result"], record["id"]
    assert "valid" not in got, (where, got)
    excused = 0.0
    for ours, theirs, level in zip(
        got["levels"], expected["levels"], record["arch"]["levels"], strict=True
    ):
        place = (where, theirs["name"])
        assert ours["name"] == theirs["name"]
        assert ours["cycles"] == theirs["cycles"], place
        assert list(ours["tensors"]) == list(theirs["tensors"]), place
        for tensor, counts in theirs["tensors"].items():
            mine = ours["tensors"][tensor]
            lost = int((*place, tensor) in TRUNCATED)
            for key in ("tile", "instances", "reads", "updates"):
                assert mine[key] == counts[key], (*place, tensor, key)
            assert mine["fills"] == counts["fills"] + lost, (*place, tensor)
            one_pj = lost * counts["instances"] * level["energy_pj"]["fill"]
            assert mine["energy_pj"] - one_pj == close(counts["energy_pj"]), (*place, tensor)
            assert ("addr_gen_pj" in mine) == ("addr_gen_pj" in counts)
            assert mine.get("addr_gen_pj", 0) == close(counts.get("addr_gen_pj", 0))
            excused += one_pj
        check_network(ours.get("network"), theirs.get("network"), place)
    for key in ("cycles", "macs"):
        assert got[key] == expected[key], (where, key)
    for key in ("utilization", "mac_energy_pj"):
        assert got[key] == close(expected[key]), (where, key)
    assert got["energy_pj"] - excused == close(expected["energy_pj"]), where


def check_network(ours: Record | None, theirs: Record | None, place: object) -> None:
    assert (ours is None) == (theirs is None), place
    if ours is None or theirs is None:
        return
    assert list(ours) == list(theirs), place
    for tensor, network in theirs.items():
        mine, key = ours[tensor], "multicast_scatter_accesses_hops"
        assert mine["fanout"] == network["fanout"], (place, tensor)
        assert mine["energy_pj"] == close(network["energy_pj"]), (place, tensor)
        assert mine["spatial_reductions"] == network["spatial_reductions"], (place, tensor)
        assert len(mine[key]) == len(network[key]), (place, tensor)
        for a, b in zip(mine[key], network[key], strict=True):
            assert a == close(b), (place, tensor)


def check_file(path: Path) -> int:
    records = load(path)
    for record, scored in zip(records, score(records, LoopNestModel()), strict=True):
        check(record, scored["result"])
    return len(records)


def check_links(path: Path) -> int:
    """Records with link transfers, which say what the energy is without them as well."""
    records = load(path)
    linked = score(records, LoopNestModel(link_transfers=True))
    for record, ours, plain in zip(records, linked, score(records, LoopNestModel()), strict=True):
        check(record, ours["result"])
        assert plain["result"]["energy_pj"] == close(record["energy_without_pj"]), record["id"]
    return len(records)


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_timeloop(family: str) -> None:
    assert check_file(HERE / f"{family}.jsonl.gz") >= FAMILIES[family] // 8


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_timeloop_on_every_record(family: str) -> None:
    path = WHOLE / f"{family}.jsonl.gz"
    if not path.is_file():
        pytest.skip("the whole set of records does not lie beside this checkout")
    assert check_file(path) == FAMILIES[family]


def test_link_transfers_equal_timeloop() -> None:
    """A sample of its records, a half of them with another energy than without."""
    assert check_links(HERE / "links.jsonl.gz") == 49


@pytest.mark.slow
def test_link_transfers_equal_timeloop_on_every_record() -> None:
    path = WHOLE / "links.jsonl.gz"
    if not path.is_file():
        pytest.skip("the whole set of records does not lie beside this checkout")
    assert check_links(path) == 214


def test_link_transfers_counted_by_hand() -> None:
    """Rows of a window of three, side by side: what moves up by one came to the neighbour before.

    X[P + R] goes past four positions p while three children hold r = 0, 1, 2: at first each gets
    one word of its own; then the first two take the word of their right neighbour, and one word is
    delivered. 3 + 3 words delivered, 6 handed on; each child takes in 2 + 2.
    """
    record = json.loads(json.dumps(EXAMPLE))
    record["problem"] = {
        "dims": {"P": 4, "R": 3},
        "tensors": [
            {"name": "X", "axes": [[["P", 1], ["R", 1]]]},
            {"name": "W", "axes": [[["R", 1]]]},
            {"name": "Z", "axes": [[["P", 1]]], "output": True},
        ],
    }
    loops = {"keep": ["X", "W", "Z"], "temporal": [], "spatial": []}
    record["mapping"] = [{"level": name} | loops for name in ("DRAM", "L3", "L2", "L1")]
    record["mapping"][2] |= {"temporal": [["P", 4]], "spatial": [["R", 3, "X"]]}
    plain = score_nests({0: record})[0]["levels"]
    linked = score_nests({0: record}, link_transfers=True)[0]["levels"]
    assert (plain[2]["tensors"]["X"]["reads"], plain[3]["tensors"]["X"]["fills"]) == (12, 4)
    assert (linked[2]["tensors"]["X"]["reads"], linked[3]["tensors"]["X"]["fills"]) == (6, 4)
    assert plain[3]["tensors"]["X"]["reads"] == 4
    assert linked[3]["tensors"]["X"]["reads"] == 4 + 2
    assert linked[2]["network"]["X"]["multicast_scatter_accesses_hops"] == [
        [1, 1, 3, 6], [1, 3, 3, 3],
    ]  # fmt: skip
    assert linked[3]["tensors"]["W"] == plain[3]["tensors"]["W"]


def test_refuses_what_timeloop_refuses_in_its_words() -> None:
    records = load(VALIDITY)
    results = score_nests(dict(enumerate(records)))
    assert len(records) == 1200
    for index, record in enumerate(records):
        result = results[index]
        assert result.get("valid", True) == record["valid"], record["id"]
        assert result.get("why") == (None if record["valid"] else record["why"]), record["id"]


EXAMPLE: Record = {
    "arch": {
        "name": "example",
        "levels": [
            {
                "name": name, "class": "SRAM" if size else "DRAM", "size_words": size,
                "instances": instances, "meshX": instances, "meshY": 1,
                "energy_pj": {"read": pj, "fill": pj, "update": pj},
            }
            for name, size, instances, pj in (
                ("DRAM", None, 1, 200.0), ("L3", 512, 1, 8.0), ("L2", 128, 4, 2.0),
                ("L1", 16, 64, 0.5),
            )
        ],
        "mac": {"name": "MAC", "instances": 64, "meshX": 64, "meshY": 1, "energy_pj": 1.0},
    },
    "problem": {
        "name": "gemm",
        "dims": {"M": 16, "N": 4, "K": 6},
        "tensors": [
            {"name": "B", "axes": [[["K", 1]], [["N", 1]]]},
            {"name": "A", "axes": [[["M", 1]], [["K", 1]]]},
            {"name": "Z", "axes": [[["M", 1]], [["N", 1]]], "output": True},
        ],
    },
    "mapping": [
        {"level": "DRAM", "keep": ["B", "A", "Z"], "temporal": [["K", 6]], "spatial": []},
        {"level": "L3", "keep": [], "temporal": [["N", 4]], "spatial": []},
        {"level": "L2", "keep": ["B", "A", "Z"], "temporal": [], "spatial": [["M", 16, "X"]]},
        {"level": "L1", "keep": ["B", "A", "Z"], "temporal": [], "spatial": []},
    ],
}  # fmt: skip


def test_a_case_counted_by_hand() -> None:
    """One of four L2 serves sixteen L1; K runs outside N, and rows of Z run across the L1.

    B: one word per L1 and step, the same for all: L2 reads 24 for them. A: N does not move it, so 6
    words enter each L1, 16 different ones per step: 96. Z: 24 partial sums leave each L1, 384 reach
    the L2, whose 64 words are new once; the others are read back.
    """
    levels = score_nests({0: EXAMPLE})[0]["levels"]
    counts = {
        (level["name"], tensor): tuple(entry[key] for key in ("reads", "fills", "updates"))
        for level in levels
        for tensor, entry in level["tensors"].items()
    }
    assert counts["L2", "B"][0] == 24
    assert counts["L1", "B"] == (24, 24, 0)
    assert counts["L2", "A"][0] == 96
    assert counts["L1", "A"] == (24, 6, 0)
    assert counts["L2", "Z"][0] == 320
    assert counts["L2", "Z"][2] == 384
    assert counts["L1", "Z"] == (20, 20, 24)


def test_an_imperfect_case_counted_by_hand() -> None:
    """K = 6 as 2 x 4, the last pass of 2; of 16 rows 4 x 5, the last pass of 1.

    DRAM steps twice over K and L1 takes 4 steps, then 2: 8 cycles for each of 4 columns and of the
    five rows of an L1 (Timeloop adds up full factors). One of 4 L1 has 1 row to do, but all of them
    are counted as the first: 4 x 5 rows for 16.
    """
    record = changed(EXAMPLE, "mapping.0.temporal", [["K", 2, 2]])
    record["mapping"][2]["spatial"] = [["M", 4, "X", 4]]
    record["mapping"][3]["temporal"] = [["M", 5, 1], ["K", 4, 2]]
    record["arch"]["levels"][3]["size_words"] = 29
    result = score_nests({0: record})[0]
    assert result["cycles"] == 2 * 4 * 5 * 4
    assert result["macs"] == (4 * 5) * 4 * 6
    assert result["levels"][3]["tensors"]["Z"]["updates"] == 5 * 4 * 6
    tiles = {name: entry["tile"] for name, entry in result["levels"][3]["tensors"].items()}
    assert tiles == {"B": 4, "A": 20, "Z": 5}
    record["arch"]["levels"][3]["size_words"] = 28
    assert score_nests({0: record})[0] == {
        "valid": False, "why": "L1: mapped tile size 29 exceeds buffer capacity 28",
    }  # fmt: skip


def test_a_tensor_that_no_level_keeps_is_named() -> None:
    record = json.loads(json.dumps(EXAMPLE))
    for level in record["mapping"]:
        level["keep"] = [name for name in level["keep"] if name != "A"]
    assert score_nests({0: record})[0] == {"valid": False, "why": "A is kept at no level"}


def changed(record: Record, path: str, value: object) -> Record:
    """A copy with one value changed; None takes the key away."""
    copy: Record = json.loads(json.dumps(record))
    target: Any = copy
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in parents:
        target = target[key]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("arch.levels.1.instances", 3, "arch.levels[L3].instances: expected meshX x meshY"),
        ("arch.levels.1.energy_pj.read", -1, "arch.levels[L3].energy_pj.read: expected at least 0"),
        ("arch.levels.1.name", "DRAM", "the name 'DRAM' is given to two levels"),
        ("arch.levels", [], "arch.levels"),
        ("arch.mac", None, "missing mac"),
        ("arch.levels.2.meshX", 3, "L2"),
        ("arch.levels.2.cluster_size", 3, "arch.levels[L2].cluster_size: expected a divisor"),
        ("problem.dims.M", 0, "problem.dims.M: expected at least 1"),
        ("problem.dims.M", 2**40, "dims.M: expected at most 2**32"),
        ("problem.tensors.0.axes.0.0.0", "W", "tensors[B].axes: unknown 'W'; known: K, M, N"),
        ("problem.tensors.0.axes.0.0.1", 0, "the coefficient of 'K' is 0"),
        ("problem.tensors.2.output", False, "expected at least one with output: true"),
        ("mapping.0.level", "L9", "mapping: expected the levels DRAM, L3, L2, L1"),
        ("mapping.0.keep", ["Q"], "mapping[DRAM].keep: unknown 'Q'; known: A, B, Z"),
        ("mapping.0.temporal", [["K", 3]], "the factors of K multiply to 3"),
        ("mapping.0.temporal", [["K", 2], ["K", 3]], "'K' has two loops"),
        ("mapping.0.temporal", [["K", 6, 5]], "the factors of K run over 5; gemm has K = 6"),
        ("mapping.0.temporal", [["K", 6, 7]], "expected a remainder of K from 1 to its factor 6"),
        ("mapping.0.temporal", [["K", 6, 0]], "remainder of K from 1 to its factor 6, got 0"),
        ("mapping.0.temporal", "K6", "mapping[0].temporal"),
        ("mapping.0.spatial", [["K", 1, "Z"]], "mapping[0].spatial"),
        ("mapping.0", 3, "mapping[0]"),
    ],
)
def test_damaged_records_are_named(path: str, value: object, message: str) -> None:
    from mapspace.errors import ConfigError

    with pytest.raises(ConfigError) as error:
        score([EXAMPLE, changed(EXAMPLE, path, value)], LoopNestModel())
    assert str(error.value).startswith("record 1: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
