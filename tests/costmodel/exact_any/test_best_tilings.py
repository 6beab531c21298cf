"""The best tilings on any hierarchy: equal to those of complete enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from small_hierarchies import random_hierarchy
from tilings_by_value import least_by_tiling

from costmodel import LoopNestModel
from costmodel.exact_any.known import tiling_of
from costmodel.exact_any.prover import AnyProver


def check(seed: int, most: int) -> None:
    """Holds the best tilings of a random problem against all of its mappings."""
    rng = np.random.default_rng(seed)
    space, codes, objective = random_hierarchy(rng, most)
    top = int(rng.choice([2, 3, 7, 40]))
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    true = least_by_tiling(space, codes, values)[:top]
    prover = AnyProver(space, objective=objective, top=top)
    # What is offered is of some tiling, and not its best order.
    prover.offer(codes[rng.integers(len(codes), size=5)])
    prover.run()
    found = prover.codes()
    reached = LoopNestModel().evaluate(space, found).objective(objective)
    where = f"{objective}, {top}, on {space.accelerator.model_dump()} of {space.workload}"
    np.testing.assert_allclose(reached, true, rtol=5e-12, err_msg=where)
    assert len({tiling_of(space.describe(code), ()) for code in found}) == len(found), where


@pytest.mark.parametrize("block", range(4))
def test_equal_enumeration(block: int) -> None:
    for seed in range(20_000 + 10 * block, 20_010 + 10 * block):
        check(seed, 1500)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_more_equal_enumeration(block: int) -> None:
    for seed in range(21_000 + 20 * block, 21_020 + 20 * block):
        check(seed, 20_000)
