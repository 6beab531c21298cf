"""Records of whole nests on machines with banks."""

from __future__ import annotations

import json

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.loop_nest.records import mapping_record, record_code, score
from mapspace.errors import ConfigError

MODEL = LoopNestModel()
MACHINE = {
    "name": "banked",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L3", "capacity_words": 512, "energy_pj": 6.0, "fanout": 4, "banks": 8},
        {"name": "L2", "capacity_words": 512, "energy_pj": 2.0, "bypass": ["weight"]},
        {"name": "L1", "capacity_words": 64, "energy_pj": 1.0},
    ],
}


def test_records_say_which_banks_hold_what() -> None:
    space = MapSpace(workload("gemm:M=16,N=8,K=8"), accelerator(MACHINE))
    codes = space.sample(np.random.default_rng(0), 50, feasible=True)
    records = [json.loads(json.dumps(mapping_record(space, code))) for code in codes]
    energies = MODEL.evaluate(space, codes).energy_pj
    for code, record, scored, energy in zip(
        codes, records, score(records, MODEL), energies, strict=True
    ):
        assert scored["result"]["energy_pj"] == pytest.approx(energy, rel=1e-12)
        again, first = space.describe(record_code(space, record)), space.describe(code)
        assert [level.banks for level in again.levels] == [level.banks for level in first.levels]


def test_a_tile_that_exceeds_its_banks_is_invalid() -> None:
    space = MapSpace(workload("gemm:M=16,N=8,K=8"), accelerator(MACHINE))
    codes = space.sample(np.random.default_rng(1), 400, feasible=True)
    for record in score([mapping_record(space, code) for code in codes], MODEL):
        tiles = record["result"]["levels"][1]["tensors"]
        tight = next((name for name in tiles if tiles[name]["tile"] > 64), None)
        if tight is not None:
            break
    assert tight is not None
    record["mapping"][1]["banks"][tight] = 1
    why = f"L3: tile of {tight} of {tiles[tight]['tile']} exceeds its banks of 64"
    assert score([record], MODEL)[0]["result"] == {"valid": False, "why": why}
    del record["mapping"][1]["banks"][tight]
    with pytest.raises(ConfigError, match=r"mapping\[L3\].banks: expected 8 banks"):
        score([record], MODEL)


def test_records_of_both_forms_are_scored_together() -> None:
    spaces = [MapSpace(workload("gemm:M=16,N=8,K=8"), accelerator(m)) for m in (MACHINE, "mm256")]
    codes = [space.sample(np.random.default_rng(0), 1, feasible=True)[0] for space in spaces]
    records = [mapping_record(*one) for one in zip(spaces, codes, strict=True)]
    for space, code, scored in zip(spaces, codes, score(records, MODEL), strict=True):
        energy = MODEL.evaluate(space, code[None]).energy_pj[0]
        assert scored["result"]["energy_pj"] == pytest.approx(energy, rel=1e-12)
