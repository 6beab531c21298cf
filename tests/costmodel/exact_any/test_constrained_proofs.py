"""The proof under a mapper's constraints: the real Timeloop's spaces, and enumerated ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_hierarchies import check_front_of, check_proof, random_hierarchy
from small_problems import every_mapping
from whole_spaces import golden, random_constraints

from costmodel import Codes, MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.exact.certificate import certify
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover
from costmodel.loop_nest.nest_problems import read_problem
from mapspace.errors import ConfigError, DataError

RECORDS = golden("mapspaces")
ENTRIES: list[dict[str, Any]] = [
    {"target": "DRAM", "type": "temporal", "permutation": "K_"},
    {"target": "L2", "type": "spatial", "factors": "M<=4 N>=2", "default_max_factor": 8},
    {"target": "L1", "type": "temporal", "factors": "K>=4", "default_max_factor": 4},
    {"target": "L1", "type": "bypass", "keep": ["Z"], "bypass": ["B"]},
]


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_the_least_energy_is_timeloops(number: int) -> None:
    record = RECORDS[number]
    space = MapSpace(*read_problem(record))
    prover = make_prover(space, objective="energy")
    prover.run()
    least = record["least_energy_pj"]
    if least is None:
        assert prover.best_outcome is None
        return
    assert prover.best_outcome is not None
    assert float(prover.best_outcome[0] * prover.unit_pj) == pytest.approx(least, rel=1e-12)
    assert certify(prover, 1.0).proven


def constrained_space(seed: int, most: int) -> tuple[MapSpace, Codes, Objective]:
    """A random problem under random constraints, all its mappings, and an objective."""
    rng = np.random.default_rng(seed)
    while True:
        whole, _, objective = random_hierarchy(rng, most)
        share = float(rng.choice([0.2, 0.5]))
        machine = whole.accelerator.model_dump(mode="json")
        machine["constraints"] = random_constraints(rng, whole, share)
        try:
            space = MapSpace(whole.workload, accelerator(machine))
        except ConfigError:
            continue
        codes = every_mapping(space, 4 * most)
        if codes is not None:
            return space, codes, objective


def check_constrained(seed: int, most: int) -> None:
    """Holds the proof of a random problem under random constraints against all its mappings."""
    check_proof(*constrained_space(seed, most))


@pytest.mark.parametrize("block", range(4))
def test_equals_enumeration(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        check_constrained(seed, most=1200)


def test_fronts_equal_enumeration() -> None:
    points = [check_front_of(*constrained_space(seed, 600)[:2]) for seed in range(5000, 5020)]
    assert sum(number > 1 for number in points) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("block", range(25))
def test_more_equal_enumeration(block: int) -> None:
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        check_constrained(seed, most=20_000)


def test_the_certificate_says_the_constraints_and_the_verifier_holds_mappings_to_them() -> None:
    product = workload("gemm:M=64,N=64,K=64")
    free = accelerator({"extends": "mm256", "bypass": "searched"})
    narrow = accelerator({"extends": "mm256", "bypass": "searched", "constraints": ENTRIES})
    prover, wide = make_prover(MapSpace(product, narrow)), make_prover(MapSpace(product, free))
    prover.run()
    wide.run()
    true, other = certify(prover, 1.0), certify(wide, 1.0)
    assert true.problem_hash != other.problem_hash
    assert len(true.accelerator.constraints) == len(ENTRIES)
    verdict = verify(true, make_prover)
    assert verdict.holds
    assert "mappings that obey the machine's 4 constraints" in " ".join(verdict.findings)
    held = "the mapping is one of the mappings that obey the machine's 4 constraints"
    assert held in verdict.findings
    better = true.model_copy(update={"record": other.record})
    lines = verify(better, make_prover).findings
    assert any("WRONG" in line for line in lines)
    # The same claim without the constraints is refuted.
    fields = {"accelerator": free, "accelerator_hash": free.hash, "problem_hash": None}
    assert not verify(true.model_copy(update=fields), make_prover).holds


def test_constraints_beside_the_machine_have_no_certificate() -> None:
    machine = accelerator({"extends": "mm256", "bypass": "searched"})
    prover = make_prover(MapSpace(workload("gemm:M=8,N=8,K=8"), machine, ENTRIES))
    prover.run()
    with pytest.raises(DataError, match="write them into the machine"):
        certify(prover, 1.0)
