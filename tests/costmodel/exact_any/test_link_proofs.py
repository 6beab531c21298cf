"""Proofs with link transfers: against every mapping, by hand, and the tutorial of Timeloop."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from small_hierarchies import check_front_of, check_proof, random_hierarchy
from small_problems import every_mapping

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact_any.choice import prove
from costmodel.exact_any.imperfect_prover import ImperfectProver
from costmodel.exact_any.prover import AnyProver
from costmodel.independent.check import Claim, look_again
from costmodel.independent.counting import Counter, tiling_of
from costmodel.loop_nest.enumeration import whole_space
from costmodel.loop_nest.records import record_code
from costmodel.tile_chains import links
from mapspace.errors import ConfigError

MACHINE: dict[str, Any] = {
    "name": "row",
    "mac_energy_pj": 0.0,
    "link_transfers": True,
    "levels": [
        {"name": "DRAM", "energy_pj": 0.0},
        {
            "name": "L1",
            "energy_pj": 1.0,
            "capacity_words": 100,
            "fanout": 4,
            "spatial": {"x": ["M", "P"]},
        },
    ],
}
WORK = "gemm:M=8,N=3,K=1"


def check_some(first: int, most: int) -> None:
    """Proofs of ten problems, in half of which crossing networks costs energy, and fronts."""
    for seed in range(first, first + 10):
        rng = np.random.default_rng(seed)
        space, codes, objective = random_hierarchy(rng, most, networks=seed % 2 > 0, links=True)
        check_proof(space, codes, objective)
        if seed % 5 == 0:
            check_front_of(space, codes)


@pytest.mark.parametrize("block", range(5))
def test_equals_exhaustive_enumeration(block: int) -> None:
    check_some(10 * block, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(50))
def test_more_equal_exhaustive_enumeration(block: int) -> None:
    check_some(1000 + 10 * block, 30_000)


def proven(machine: dict[str, Any], work: str) -> float:
    prover = AnyProver(MapSpace(workload(work), accelerator(machine)), objective="energy")
    prover.run()
    assert prover.finished
    return float(LoopNestModel().evaluate(prover.space, prover.codes()).energy_pj[0])


def test_macs_in_a_row_by_hand() -> None:
    """A column of 8 rows times a row of 3, four rows at a time across 4 MACs: 6 steps.

    L1 takes 8 + 3 words of the operands, and 24 products. Rows are every MAC's own: 24 reads. The
    other operand is shared by all MACs: a read a step, 6. Where the two steps over rows are the
    inner ones it rests, and the MACs have it from their neighbours in the second: 3.
    """
    assert proven({**MACHINE, "link_transfers": False}, WORK) == 8 + 3 + 24 + 24 + 6
    assert proven(MACHINE, WORK) == 8 + 3 + 24 + 24 + 3


def least(work: str) -> tuple[MapSpace, float]:
    """The map space on the row of MACs, and the least energy of all mappings."""
    space = MapSpace(workload(work), accelerator(MACHINE))
    codes = every_mapping(space, 100_000)
    assert codes is not None
    return space, float(LoopNestModel().evaluate(space, codes).energy_pj.min())


def finds(space: MapSpace, energy: float) -> bool:
    """Whether a proof finds the optimum that it is told of: no bound is above it."""
    return AnyProver(space, objective="energy").finds_below((energy * (1 + 1e-9), 1e9))


def test_bounds_let_operands_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds in which MACs take every operand from L1 are too high."""
    space, energy = least(WORK)
    assert energy == 62
    assert finds(space, energy)
    monkeypatch.setattr("costmodel.exact_any.prover.with_operands", lambda space: space)
    assert not finds(space, energy)


def test_bounds_let_windows_be_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of a convolution, its places across the row: bounds that count all are too high."""
    space, energy = least("conv1d:P=4,R=3,K=1,C=1")
    assert finds(space, energy)
    monkeypatch.setattr(links, "windowed", lambda space: (False,) * 3)
    assert not finds(space, energy)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"factors": "imperfect"}, "link_transfers: expected false where factors are imperfect"),
        ({"tiles": "apart"}, "expected false where levels share one room"),
    ],
)
def test_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MapSpace(workload("gemm:M=4,N=6,K=2"), accelerator({**MACHINE, **keys}))


def test_enumerations_count_links() -> None:
    """Where all mappings are evaluated at once they are those of the map space, with links."""
    differ = 0
    for seed in range(300, 340):
        rng = np.random.default_rng(seed)
        space, codes, _ = random_hierarchy(rng, 3000, networks=seed % 4 == 0, links=True)
        whole = whole_space(space)
        if whole is None:
            continue
        least = float(LoopNestModel().evaluate(space, codes).energy_pj.min())
        assert whole.search("energy").energy_pj == pytest.approx(least, rel=1e-12)
        off = LoopNestModel(link_transfers=False).evaluate(space, codes)
        differ += bool(off.energy_pj.min() != least)
    assert differ > 3


def test_bounds_of_what_is_too_large_hold() -> None:
    """What has no proof for its size has a bound, which knows nothing of what is handed on."""
    for seed in range(500, 530):
        space, codes, _ = random_hierarchy(np.random.default_rng(seed), 3000, links=True)
        prover = ImperfectProver(space, objective="energy")
        for _ in range(20):
            if not prover.finished:
                prover.step(parts=1)
        least = float(LoopNestModel().evaluate(space, codes).energy_pj.min())
        bound = prover.lower_outcome
        assert float(bound[0] * prover.unit_pj) <= least * (1 + 1e-9)


def check_counted(first: int, count: int) -> int:
    """Holds the model against the count visit by visit; how many costs links change."""
    changed = 0
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        space, codes, _ = random_hierarchy(rng, 3000, networks=seed % 2 > 0, links=True)
        some = codes[rng.choice(len(codes), min(12, len(codes)), replace=False)]
        counter = Counter(space.workload, space.accelerator)
        costs = LoopNestModel().evaluate(space, some)
        off = LoopNestModel(link_transfers=False).evaluate(space, some)
        changed += int((off.energy_pj != costs.energy_pj).sum())
        for b, code in enumerate(some):
            tiling, orders = tiling_of(space.describe(code), space.workload)
            energy, cycles = counter.cost(tiling, orders, {})
            assert float(energy) == pytest.approx(costs.energy_pj[b], rel=1e-11)
            assert cycles == costs.latency_cycles[b]
    return changed


def test_equals_the_count_visit_by_visit() -> None:
    assert check_counted(0, 40) > 10


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_more_equal_the_count_visit_by_visit(block: int) -> None:
    check_counted(1000 + 40 * block, 40)


def test_every_mapping_is_counted_without_the_prover() -> None:
    """With the orders inside the innermost tile, which decide what rests at the MACs."""
    space = MapSpace(workload("gemm:M=8,N=2,K=1"), accelerator(MACHINE))
    found = prove(space, objective="energy")
    unit = Fraction(found.unit_pj)
    cost = int(found.energy_units) * unit, found.latency_cycles
    mapping = space.describe(record_code(space, found.record))
    claim = Claim(space.workload, space.accelerator, None, "energy", mapping, cost, cost)
    look = look_again(claim)
    assert look.holds
    assert look.complete
    higher = look_again(replace(claim, bound=(cost[0] + 1, cost[1])))
    assert not higher.holds
