"""Energy with the cycles of two ports, mixed (lemma 12b), against complete enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_hierarchies import random_machine, smaller
from small_problems import every_mapping, random_parts

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact_any import chain_bounds
from costmodel.exact_any.prover import AnyProver
from mapspace.errors import ConfigError


def _random_problem(seed: int, most: int) -> tuple[MapSpace, Any]:
    """A map space whose levels all have limited ports, and its feasible mappings."""
    rng = np.random.default_rng(seed)
    while True:
        work, _ = random_parts(rng)
        machine = random_machine(rng)
        for level in machine["levels"]:
            for key in ("read_bandwidth", "write_bandwidth", "bandwidth"):
                level.pop(key, None)
            level["bandwidth"] = 0.3
        try:
            space = MapSpace(workload(smaller(rng, work)), accelerator(machine))
        except ConfigError:
            continue
        codes = every_mapping(space, most)
        if codes is not None and len(codes) > most / 10:
            return space, codes


def _check(seed: int, most: int) -> tuple[bool, int]:
    """Whether a random problem is proven wrongly, and in how many assignments ports were mixed."""
    space, codes = _random_problem(seed, most)
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
    found = [_check(seed, 2000) for seed in range(40)]
    assert not any(lost for lost, _ in found)
    assert sum(mixed for _, mixed in found) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_equal_enumeration(block: int) -> None:
    for seed in range(1000 + 40 * block, 1040 + 40 * block):
        assert not _check(seed, 6000)[0], seed


def test_ports_whose_cycles_are_added_up_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = chain_bounds.priced

    def added(space: Any, prices: Any, keeps: Any, spatial: Any, found: Any) -> Any:
        weight, fixed = honest(space, prices, keeps, spatial, found)
        if prices.other is None:
            return weight, fixed
        more = honest(space, prices._replace(other=None, rate=0.0), keeps, spatial, found)
        share = prices.rate * prices.share
        return weight + share * more[0], fixed + share * more[1]

    monkeypatch.setattr(chain_bounds, "priced", added)
    assert any(_check(seed, 2000)[0] for seed in range(40))
