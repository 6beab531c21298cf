"""Map spaces that are too large for a proof have a bound, held against complete enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from small_hierarchies import random_hierarchy

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.energy_units import why_too_slow
from costmodel.exact_any import problem
from costmodel.exact_any.choice import is_bounded_only, is_older, make_prover, why_not
from costmodel.exact_any.imperfect_prover import ImperfectProver
from costmodel.exact_imperfect.chain import Chain
from mapspace.errors import ConfigError


def _shares(seeds: range, monkeypatch: pytest.MonkeyPatch) -> Iterator[float]:
    """The share of the least objective that is certain of random problems, if none had room."""
    monkeypatch.setattr(problem, "MOST_ASSIGNMENTS", 0)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        space, codes, objective = random_hierarchy(rng, 2000, networks=seed % 4 == 0)
        if is_older(space) or not len(codes):
            continue
        assert why_not(space) is None
        assert is_bounded_only(space)
        values = LoopNestModel().evaluate(space, codes).objective(objective)
        prover = make_prover(space, objective=objective)
        assert isinstance(prover, ImperfectProver)
        # The best one would hide a bound that is too high.
        prover.offer(codes[[int(values.argmax())]])
        # Boxes of all spatial factors, and some halves.
        for _ in range(12):
            prover._work()
        unit = 1.0 if objective == "latency" else float(prover.unit_pj)
        certain = float(prover.value_of(prover.lower_outcome)) * unit
        yield certain / max(float(values.min()), 1e-9)


def test_no_mapping_is_below_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [*_shares(range(20), monkeypatch)]
    assert len(shares) > 10
    assert max(shares) <= 1 + 1e-9
    assert np.median(shares) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("first", [20, *range(1000, 1200, 20)])
def test_no_mapping_of_more_is_below_the_bound(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = _shares(range(first, first + 20), monkeypatch)
    assert max(shares) <= 1 + 1e-9


def test_a_bound_that_is_too_high_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Chain.least

    def high(self: Any) -> float:
        return 2 * honest(self)

    monkeypatch.setattr(Chain, "least", high)
    assert any(share > 1 + 1e-9 for share in _shares(range(40), monkeypatch))


@pytest.mark.parametrize("energy", [1e200, 1e300, 1.7e308])
def test_energies_whose_products_are_no_numbers_are_refused(energy: float) -> None:
    costly = accelerator({"extends": "eyeriss", "levels": [{"name": "DRAM", "energy_pj": energy}]})
    space = MapSpace(workload("gemm-512"), costly)
    assert "the exact search is for less than" in str(why_not(space))
    with pytest.raises(ConfigError, match="may come to"):
        make_prover(space)


@pytest.mark.parametrize(
    "changes",
    [
        {"mac_energy_pj": 1e200},
        {"levels": [{"name": "GLB", "hop_energy_pj": 1e200}]},
        {"levels": [{"name": "GLB", "router_pj": 1e200}]},
        {"levels": [{"name": "GLB", "ingress_pj": 1e200}]},
        {"levels": [{"name": "GLB", "leakage_pj": 1e200}]},
        {"levels": [{"name": "GLB", "leakage_pj": 1.7e308}]},
        {"levels": [{"name": "GLB", "address_pj": 1e200}]},
    ],
)
def test_so_are_they_wherever_they_come_from(changes: dict[str, Any]) -> None:
    space = MapSpace(workload("gemm-512"), accelerator({"extends": "eyeriss", **changes}))
    assert "the exact search is for less than" in str(why_not(space))


def test_the_lowest_bandwidth_at_which_cycles_fit() -> None:
    """Three kinds of access of three tensors, 2^27 multiply-accumulates: 9 x 2^27 words."""
    lowest = 9 * 2.0 ** (27 - 62)
    for bandwidth, fits in ((lowest, False), (np.nextafter(lowest, 1), True)):
        levels = [{"name": "DRAM", "read_bandwidth": float(bandwidth)}]
        slow = accelerator({"extends": "mm256", "levels": levels})
        assert (why_too_slow(workload("gemm-512"), slow) is None) == fits


@pytest.mark.parametrize("key", ["read_bandwidth", "write_bandwidth", "bandwidth"])
@pytest.mark.parametrize("machine", ["mm256", "eyeriss"])
def test_cycles_beyond_64_bits_are_refused(machine: str, key: str) -> None:
    levels = [{"name": accelerator(machine).levels[0].name, key: 1e-30}]
    slow = accelerator({"extends": machine, "levels": levels})
    space = MapSpace(workload("gemm-512"), slow)
    reason = why_not(space)
    assert reason is not None
    assert f"a {key} of 1e-30 words per cycle" in reason
    with pytest.raises(ConfigError, match="may not fit 64-bit integers"):
        make_prover(space)
