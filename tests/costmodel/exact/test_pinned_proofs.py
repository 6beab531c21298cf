"""Small proofs answer what they answered, with as many bounds and leaves: none has become weaker.

The answers themselves are held against enumeration elsewhere; here a bound that still holds but
cuts less is noticed. `python tests/support/pinned.py` writes the numbers anew.
"""

from __future__ import annotations

from typing import Any

import pytest
from pinned import PROBLEMS, problem, proof, read

CASES = read("proofs")


@pytest.mark.parametrize("case", CASES, ids=[f"problem {case['seed']}" for case in CASES])
def test_a_proof_takes_the_bounds_that_it_took(case: dict[str, Any]) -> None:
    assert proof(case) == case["found"]


def test_the_file_holds_the_problems_that_the_command_writes() -> None:
    kept = [{key: value for key, value in case.items() if key != "found"} for case in CASES]
    assert kept == [problem(seed) for seed in PROBLEMS]
