"""The proof on any hierarchy against exhaustive enumeration, by hand, and against the older one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import broken
from small_hierarchies import check_front, check_hierarchy, check_proof, random_hierarchy

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES
from costmodel.exact_any import chain_bounds
from costmodel.exact_any.prover import AnyProver
from costmodel.tile_chains import tables
from costmodel.tile_chains.tiles import FloatArray
from mapspace.errors import ConfigError, ContractError

TWO_LEVELS = {
    "name": "two",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
    ],
}


@pytest.mark.parametrize("block", range(15))
def test_equals_exhaustive_enumeration(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        check_hierarchy(seed, most=6000)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_more_equal_exhaustive_enumeration(block: int) -> None:
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        check_hierarchy(seed, most=60_000)


@pytest.mark.parametrize("block", range(2))
def test_networks_equal_exhaustive_enumeration(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        check_proof(*random_hierarchy(np.random.default_rng(seed), 3000, networks=True))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_more_networks_equal_exhaustive_enumeration(block: int) -> None:
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        check_proof(*random_hierarchy(np.random.default_rng(seed), 30_000, networks=True))


def test_fronts_equal_exhaustive_enumeration() -> None:
    points = [check_front(seed, most=3000) for seed in range(5000, 5040)]
    assert max(points) >= 4
    assert sum(number > 1 for number in points) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_more_fronts_equal_exhaustive_enumeration(block: int) -> None:
    for seed in range(6000 + 20 * block, 6020 + 20 * block):
        check_front(seed)


def test_tables_that_leave_out_too_much_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is further in is counted with the level's own words, once more than it costs."""
    honest = chain_bounds.inside_of

    def with_own(*asked: Any) -> FloatArray:
        # What is further in than the level outside: this one's words and all that.
        return np.roll(honest(*asked), 1, axis=1)

    monkeypatch.setattr(chain_bounds, "inside_of", with_own)

    def lost(seed: int) -> bool:
        try:
            check_hierarchy(seed, most=600)
        except AssertionError:
            return True
        return False

    assert any(lost(seed) for seed in range(40))


def test_savings_that_are_nearly_as_large_as_costs_leave_room_for_rounding() -> None:
    """A limit on what a level costs is then a small difference of large numbers."""
    check_hierarchy(2687)


def test_counted_by_hand() -> None:
    """A 2 x 2 x 2 product and room for a word of each tensor.

    One tensor rests while its loop of 2 runs innermost: 4 of its words enter, 8 of the others'. At
    best that is the output: its first 4 words are not read, so that DRAM reads 8 words of A, 8 of
    B and none of Z, and takes 4 of Z. L1 fills 16, reads 16 operands, reads and fills no sum for
    the first time and updates 8, of which 4 are new: 4 reads.
    """
    space = MapSpace(workload("gemm:M=2,N=2,K=2"), accelerator(TWO_LEVELS))
    prover = AnyProver(space, objective="energy")
    prover.run()
    best = LoopNestModel().evaluate(space, prover.codes())
    assert best.energy_pj[0] == 8 * 1.0 + 100.0 * (8 + 8 + 4) + 1.0 * (16 + 16 + 4 + 8)
    assert best.latency_cycles[0] == 8
    assert prover.best_outcome == prover.lower_outcome
    assert prover.gap == 0


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("problem", ["gemm:M=64,N=48,K=32", "mttkrp:I=8,J=12,K=8,L=4"])
def test_the_older_proof_says_the_same(problem: str, objective: Any) -> None:
    space = MapSpace(workload(problem), accelerator("mm256"))
    older, prover = AnyProver(space, objective=objective), AnyProver(space, objective=objective)
    older.run()
    prover.run()
    models = [
        float(LoopNestModel().evaluate(space, each.codes()).objective(objective)[0])
        for each in (older, prover)
    ]
    assert models[1] == pytest.approx(models[0], rel=1e-12)


def test_loops_over_one_dimension_on_both_sides_of_a_tile() -> None:
    """The best mapping has B at L0 and at L1, which keeps nothing, with A between the two.

    B's loop of L0 may not be taken into L1, as of loops in one level there is one over a dimension.
    """
    operation = {
        "dimensions": {"A": 3, "B": 6, "C": 2, "D": 6},
        "tensors": {"X": ["A + B", "D"], "Y": ["B", "C"], "Z": ["A", "C"]},
        "output": "Z",
    }
    rare = {"read": 1.0, "fill": 4.0, "update": 1.5}
    levels = [
        {"name": "L0", "energy_pj": rare},
        {"name": "L1", "energy_pj": 0.3, "capacity_words": 48, "bypass": ["input", "output"]},
        {"name": "L2", "energy_pj": 2.5, "capacity_words": 8},
        {"name": "L3", "energy_pj": 0.0, "capacity_words": 24},
        {"name": "L4", "energy_pj": rare, "capacity_words": 24, "bypass": ["output"]},
    ]
    machine = {"name": "merging", "mac_energy_pj": 0.0, "levels": levels}
    prover = AnyProver(MapSpace(workload(operation), accelerator(machine)), objective="energy")
    prover.run()
    assert prover.codes(1).shape[0] == 1
    found = LoopNestModel().evaluate(prover.space, prover.codes(1)).energy_pj[0]
    assert found == pytest.approx(1716.0)


def test_windows_may_enter_more_cheaply_after_a_loop_that_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a level keeps windows no loop is taken inside; the optimum would be lost."""
    operation = {
        "dimensions": {"A": 2, "B": 3, "C": 3, "D": 8},
        "tensors": {"X": ["A + B"], "Y": ["A + C"], "Z": ["D"]},
        "output": "Z",
    }
    outer = {"name": "L0", "energy_pj": 0.0, "address_pj": 0.25}
    l1 = {"name": "L1", "energy_pj": 0.3, "capacity_words": 12, "multiple_buffering": 2.0}
    l2 = {"name": "L2", "energy_pj": 1.0, "capacity_words": 24, "bypass": ["output"]}
    l3 = {"name": "L3", "energy_pj": 6.0, "capacity_words": 6}
    l4 = {"name": "L4", "energy_pj": 0.3, "capacity_words": 24, "bypass": ["weight"]}
    l5 = {"name": "L5", "energy_pj": 1.0, "capacity_words": 8, "bypass": ["output"]}
    machine = {"name": "windows", "mac_energy_pj": 0.0, "levels": [outer, l1, l2, l3, l4, l5]}
    space = MapSpace(workload(operation), accelerator(machine))

    def least() -> float:
        prover = AnyProver(space, objective="energy")
        prover.run()
        return float(LoopNestModel().evaluate(space, prover.codes(1)).energy_pj[0])

    assert least() == pytest.approx(1072.2)
    source = Path(tables.__file__).read_text()
    names: dict[str, Any] = {"__name__": "broken"}
    exec(
        compile(broken(source, "_idle", "shape.sliding[kept].any()", "False"), "broken", "exec"),
        names,
    )
    monkeypatch.setattr(tables.ChainTables, "_idle", names["ChainTables"]._idle)
    assert least() == pytest.approx(1073.5)


def test_it_can_be_stopped_at_any_time() -> None:
    space = MapSpace(workload("gemm:M=512,N=512,K=512"), accelerator(TWO_LEVELS))
    prover = AnyProver(space, build=False)
    assert not prover.built
    assert prover.gap == float("inf")
    # Each MAC costs 1 pJ, and they follow each other.
    assert prover.value_of(prover.lower_outcome) * prover.unit_pj >= 512**6 * (1 - 1e-9)
    prover.offer(space.sample(np.random.default_rng(0), 1, feasible=True))
    assert prover.best_outcome is not None
    prover.run(0.02)
    lower, best = prover.lower_outcome, prover.best_outcome
    assert prover.rank_of(lower) <= prover.rank_of(best)
    again = AnyProver(space, build=False)
    again.load_state_dict(prover.state_dict())
    prover.run()
    again.run()
    assert again.best_outcome == prover.best_outcome == prover.lower_outcome
    with pytest.raises(ContractError, match="finished"):
        prover.step()


def test_nothing_is_below_the_optimum() -> None:
    space = MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator(TWO_LEVELS))
    prover = AnyProver(space)
    prover.run()
    energy, cycles = prover.best_outcome or (0, 0)
    assert prover.search_below((energy, cycles)) == (None, 1)
    assert prover.search_below((energy * 2, cycles)) == ((energy, cycles), 1)
    below, share = prover.search_below((energy, cycles), 0.0)
    assert below is None
    assert math.isnan(share)


def test_what_cannot_be_treated_is_said_in_one_line() -> None:
    machine = accelerator({**TWO_LEVELS, "overflow": "bypass"})
    with pytest.raises(ConfigError, match="overflow: invalid"):
        AnyProver(MapSpace(workload("gemm:M=8,N=8,K=8"), machine))
