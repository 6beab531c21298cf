"""Bounds where loops have remainders, against every mapping of small spaces, and by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from small_imperfect import check_imperfect

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.certificate import certify
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover
from costmodel.exact_any.imperfect_prover import ImperfectProver
from costmodel.exact_imperfect.chain import Operation
from costmodel.exact_imperfect.grid import Grid
from mapspace.errors import ConfigError, ContractError

ROOM: dict[str, Any] = {
    "name": "room",
    "factors": "imperfect",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
    ],
}


@pytest.mark.parametrize(
    "block", [0, 1, *(pytest.param(block, marks=pytest.mark.slow) for block in (2, 3))]
)
def test_no_mapping_undercuts_a_bound(block: int) -> None:
    shares = [check_imperfect(seed, most=400) for seed in range(10 * block, 10 * block + 10)]
    assert np.median(shares) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_no_more_mappings_undercut_a_bound(block: int) -> None:
    for seed in range(1000 + 25 * block, 1025 + 25 * block):
        check_imperfect(seed, most=6000)


def test_counted_by_hand() -> None:
    """A 3 x 3 x 3 product and room for one word of each tensor.

    One tensor rests at best, so that 9 of its words enter, and 27 of the others'. If it is the
    output, DRAM reads 54 words and takes 9, L1 fills 54, reads 54 operands, updates 27 sums and
    reads 18 again.
    """
    space = MapSpace(workload("gemm:M=3,N=3,K=3"), accelerator(ROOM))
    prover = ImperfectProver(space, objective="energy")
    prover.offer(space.sample(np.random.default_rng(0), 2000, feasible=True))
    prover.run()
    least = 27 * 1.0 + 100.0 * (54 + 9) + 1.0 * (54 + 54 + 27 + 18)
    best = LoopNestModel().evaluate(space, prover.codes())
    assert best.energy_pj[0] == least
    # Of a word in three, the last pass may be one step that rests on.
    bound = float(prover.lower_outcome[0] * prover.unit_pj)
    assert 0.5 * least < bound <= least


def test_a_last_pass_of_one_step_rests_on() -> None:
    """What does not carry over from perfect factors: u passes need not move every word u times.

    M = 3 as two passes of two, between them the loop over N = 3: in the last pass the tile of A
    stays while N runs. The second step enters once more, since Timeloop finds that the tile moves
    otherwise than before, the third does not: 3 x 2 + 2 words of A, and not 3 x 3.
    """
    outer, inner = ROOM["levels"]
    levels = [outer, {"name": "L2", "energy_pj": 6.0, "capacity_words": 60}, inner]
    space = MapSpace(workload("gemm:M=3,N=3,K=1"), accelerator({**ROOM, "levels": levels}))
    mappings = space.sample(np.random.default_rng(0), 4000)
    costs = LoopNestModel().evaluate(space, mappings, detail=True)
    assert costs.detail is not None
    tensor = space.workload.tensor_names.index("A")
    filled = costs.detail.fills[np.isfinite(costs.energy_pj), 2, tensor]
    assert 8 in filled.tolist()
    operation = Operation(space.tables, Grid(space.tables.sizes, 1000))
    tile = (0, 0, 0)
    passes = operation.passes(tensor, operation.grid.high, np.ones(3))[tile]
    lost = operation.lost[space.workload.dimension_names.index("M")][tile]
    assert passes == 3
    assert 3 * ((1 - lost) * passes + lost) <= 8


def test_a_certificate_holds_and_a_better_bound_does_not() -> None:
    outer, inner = ROOM["levels"]
    wider = {**ROOM, "levels": [outer, {**inner, "capacity_words": 40, "fanout": 3}]}
    space = MapSpace(workload("gemm:M=13,N=7,K=11"), accelerator(wider))
    prover = make_prover(space, objective="edp")
    prover.offer(space.sample(np.random.default_rng(0), 500, feasible=True))
    prover.run(0.3)
    certificate = certify(prover, 0.3)
    assert not certificate.proven
    assert verify(certificate, make_prover).holds
    more = str(int(certificate.bound_energy_units) * 2)
    wrong = certificate.model_copy(update={"bound_energy_units": more})
    verdict = verify(wrong, make_prover, seconds=0.5)
    assert not (verdict.holds and verdict.complete)


def test_search_prints_bound_and_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["gemm:M=13,N=11,K=7", "--accelerator", "mm256", "--factors", "imperfect"]
    file = tmp_path / "best.jsonl"
    assert call("search", *arguments, "--seconds", "0.5", "--json", "--output", str(file)) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["searcher"] == "exact"
    assert 0 < found["lower_bound"] <= found["edp"]
    assert found["gap"] == pytest.approx(found["edp"] / found["lower_bound"] - 1, abs=1e-6)
    assert found["gap"] < 2
    certificate = str(tmp_path / "best.certificate.json")
    assert call("verify", certificate) == 0
    capsys.readouterr()
    assert call("verify", certificate, "--independent") == 2
    assert "has factors: imperfect, which the second program does" in capsys.readouterr().err


def test_a_better_mapping_may_prove_itself() -> None:
    space = MapSpace(workload("gemm:M=4,N=4,K=4"), accelerator(ROOM))
    prover = ImperfectProver(space, objective="latency")
    prover.offer(space.sample(np.random.default_rng(0), 500, feasible=True))
    prover.run()
    assert prover.finished
    assert prover.best_outcome == prover.lower_outcome
    with pytest.raises(ContractError, match="finished"):
        prover.step()


def test_what_has_no_bound_says_so() -> None:
    machine = accelerator({**ROOM, "overflow": "bypass"})
    with pytest.raises(ConfigError, match="overflow"):
        ImperfectProver(MapSpace(workload("gemm:M=3,N=3,K=3"), machine))
    with pytest.raises(ConfigError, match="top"):
        ImperfectProver(MapSpace(workload("gemm:M=3,N=3,K=3"), accelerator(ROOM)), top=2)
