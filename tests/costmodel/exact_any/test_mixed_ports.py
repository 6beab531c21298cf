"""Energy with the cycles of two ports, mixed (lemma 12b), against complete enumeration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mutations import broken
from small_hierarchies import check_hierarchy, random_ports

from costmodel import LoopNestModel, MapSpace, accelerator
from costmodel.exact_any import chain_bounds, known, weighing
from costmodel.exact_any.prover import AnyProver
from costmodel.problems.workload_families import cnn

SEEDS = (*range(40), 43, 56, 60, 66, 70, 93, 119, 133, 213, 299)
"""Two ports are seldom slowest by turns: in the last ten, and in two of the others."""


def _check(seed: int, most: int) -> tuple[bool, int]:
    """Whether a random problem is proven wrongly, and in how many assignments ports were mixed."""
    space, codes = random_ports(seed, most)
    objective: Any = ("edp", "ed2p")[seed % 2]
    costs = LoopNestModel().evaluate(space, codes)
    best = int(costs.objective(objective).argmin())
    prover = AnyProver(space, objective=objective)
    # From just above the optimum, so that every bound that is too high cuts it off.
    limit = float(costs.energy_pj[best]) * (1 + 1e-9) + 1e-9, float(costs.latency_cycles[best])
    lost = not prover.finds_below(limit)
    mixed = sum(prices.other is not None for prices in prover._bounds._mixtures.values())
    return lost, mixed


def test_equals_enumeration() -> None:
    found = [_check(seed, 2000) for seed in SEEDS]
    assert not any(lost for lost, _ in found)
    assert sum(mixed for _, mixed in found) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_equal_enumeration(block: int) -> None:
    for seed in range(1000 + 40 * block, 1040 + 40 * block):
        assert not _check(seed, 6000)[0], seed


def test_ports_further_in_than_three_others_bound_cycles() -> None:
    """The MACs' own buffer is the slow one, behind three limited ports that are not."""
    outer = [
        {"name": "DRAM", "energy_pj": 200.0, "read_bandwidth": 64.0, "write_bandwidth": 64.0},
        {"name": "L2", "energy_pj": 6.0, "capacity_words": 128, "bandwidth": 64.0},
    ]
    inner = {"name": "L1", "energy_pj": 1.0, "capacity_words": 16, "read_bandwidth": 0.25}
    machine = {"name": "slow-inside", "mac_energy_pj": 1.0, "levels": [*outer, inner]}
    space = MapSpace(cnn(N=1, K=4, C=2, P=2, Q=1, R=2, S=1), accelerator(machine))
    prover = AnyProver(space)
    # Before anything is bounded by chains: two operands, and results that are read again.
    macs = 4 * 2 * 2 * 2
    least = min(int(found.cycles.min()) for _, found in prover._queue.groups)
    assert least == 4 * (3 * macs - 4 * 2)
    prover.run()
    assert prover.best_outcome is not None
    assert prover.best_outcome[1] == least


def test_cycles_that_rise_leave_the_bound_of_the_objective() -> None:
    """Energy that was raised together with fewer cycles makes another objective with more."""
    check_hierarchy(2729, 60_000)


def test_ports_whose_cycles_are_added_up_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = weighing.priced

    def added(space: Any, prices: Any, *listed: Any) -> Any:
        weight, fixed = honest(space, prices, *listed)
        if prices.other is None:
            return weight, fixed
        more = honest(space, prices._replace(other=None, rate=0.0), *listed)
        share = prices.rate * prices.share
        return weight + share * more[0], fixed + share * more[1]

    monkeypatch.setattr(weighing, "priced", added)
    assert any(_check(seed, 2000)[0] for seed in SEEDS)


def test_sums_that_are_to_be_below_the_lesser_end_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Energy and cycles together of what wins may be as much as at either end (lemma 5b)."""
    source = broken(Path(known.__file__).read_text(), "most_sum", "max", "min")
    names: dict[str, Any] = {"__name__": "broken"}
    exec(compile(source, "broken", "exec"), names)
    monkeypatch.setattr(known.Known, "most_sum", names["Known"].most_sum)
    assert any(_check(seed, 2000)[0] for seed in SEEDS)


def test_ports_with_tables_of_others_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than three limited ports each that bounds tilings has tables of its own."""
    honest = chain_bounds.ChainBounds._views

    def crowded(self: Any, one: Any, least: Any, mixed: Any) -> list[tuple[int, int]]:
        return [(0, number) for _, number in honest(self, one, least, mixed)]

    monkeypatch.setattr(chain_bounds.ChainBounds, "_views", crowded)
    assert any(_check(seed, 2000)[0] for seed in SEEDS)
