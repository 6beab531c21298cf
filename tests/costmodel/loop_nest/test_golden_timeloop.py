"""The loop-nest model against every record of the real Timeloop, through the batched path."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from paths import GOLDEN

from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import score

FOLDER = GOLDEN / "timeloop"
FILES = sorted(FOLDER.glob("*.jsonl.gz"))
RECORDS = 6853

# Timeloop sums these fills in floating point and truncates: one word is lost. No others may differ.
TRUNCATED = {
    ("dev/rand/tiny_conv/41", "L1", "Inputs"),
    ("dev/rand/tiny_conv/143", "L1", "Inputs"),
}


def load(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def test_every_record_is_here() -> None:
    assert sum(len(load(path)) for path in FILES) == RECORDS


@pytest.mark.parametrize("path", FILES, ids=[path.name.split(".")[0] for path in FILES])
def test_equals_timeloop(path: Path) -> None:
    records = load(path)
    for record, scored in zip(records, score(records, LoopNestModel()), strict=True):
        expected, got, where = record["result"], scored["result"], record["id"]
        assert "status" not in got, (where, got)
        assert got["cycles"] == expected["cycles"], where
        assert got["macs"] == expected["macs"], where
        assert got["utilization"] == pytest.approx(expected["utilization"], rel=1e-12), where
        excused_pj = 0.0
        for level, tensors in expected["levels"].items():
            for tensor, counts in tensors.items():
                ours = got["levels"][level][tensor]
                for key in ("keep", "tile", "instances", "reads", "updates"):
                    assert ours[key] == counts[key], (where, level, tensor, key)
                lost = int((where, level, tensor) in TRUNCATED)
                assert ours["fills"] == counts["fills"] + lost, (where, level, tensor, "fills")
                if lost:
                    per_word = record["arch"]["energy_pj_per_word_access"][level]
                    excused_pj += per_word * counts["instances"]
        assert got["energy_pj"] - excused_pj == pytest.approx(expected["energy_pj"], rel=1e-9)
        for tensor, network in expected["noc_L2_L1"].items():
            assert got["network_energy_pj"][tensor] == pytest.approx(
                network["energy_pj"], rel=1e-9
            ), (where, tensor)
