"""Map spaces that are too large for a proof have a bound, held against complete enumeration."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from small_hierarchies import random_hierarchy

import mapspace as ms
from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact_any import choice, problem
from costmodel.exact_any.choice import is_bounded_only, make_prover, why_not
from costmodel.exact_any.imperfect_prover import ImperfectProver
from costmodel.exact_imperfect.chain import Chain
from costmodel.networks.network import MOST_LAYERS, load_network
from costmodel.tile_chains.spatial import count_keeps, keep_choices
from mapspace.errors import ConfigError


def _shares(seeds: range, monkeypatch: pytest.MonkeyPatch) -> Iterator[float]:
    """The share of the least objective that is certain of random problems, if none had room."""
    monkeypatch.setattr(problem, "MOST_ASSIGNMENTS", 0)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        space, codes, objective = random_hierarchy(rng, 2000, networks=seed % 4 == 0)
        if not len(codes):
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
        assert (problem.why_too_slow(workload("gemm-512"), slow) is None) == fits


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


def test_sets_of_kept_tensors_are_counted_without_being_listed() -> None:
    for seed in range(60):
        space, *_ = random_hierarchy(np.random.default_rng(seed), 50)
        for one in (space,) if space.orders is None else space.orders.spaces:
            assert count_keeps(one) == len(keep_choices(one))


def hierarchy(levels: int, **changes: Any) -> dict[str, Any]:
    inner = [
        {"name": f"L{i}", "capacity_words": 64, "energy_pj": 1.0, "fanout": 2}
        for i in range(levels - 1)
    ]
    return {"levels": [{"name": "DRAM", "energy_pj": 9.0}, *inner], "mac_energy_pj": 1, **changes}


BANKED = {"name": "L1", "capacity_words": 2**20, "banks": 2**20, "energy_pj": 1.0}


def product(tensors: int) -> dict[str, Any]:
    inputs = {f"T{i}": ["M"] for i in range(tensors - 1)}
    return {"dimensions": {"M": 4, "N": 4}, "tensors": {**inputs, "Z": ["M", "N"]}, "output": "Z"}


def test_more_sets_of_kept_tensors_than_are_listed_are_no_proof() -> None:
    machine = accelerator(hierarchy(5, bypass="searched"))
    assert why_not(MapSpace(workload(product(4)), machine)) is None
    space = MapSpace(workload(product(8)), machine)
    assert why_not(space) == (
        "custom leaves open 4.29e+09 ways to keep the tensors of einsum; the exact search looks at "
        "100,000 at most."
    )


def test_a_front_without_room_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def loads(space: MapSpace) -> None:
        pytest.fail("the proof was loaded")

    monkeypatch.setattr(choice, "load_prover", loads)
    machine = accelerator(hierarchy(5, bypass="searched"))
    with pytest.raises(ConfigError, match="ways to keep the tensors of einsum"):
        ms.pareto(product(8), machine, store=False)


@pytest.mark.parametrize(
    ("operation", "machine", "message"),
    [
        (product(10), hierarchy(2), r"tensors: expected at most 9, got 10\."),
        (product(100_000), hierarchy(2), r"tensors: expected at most 9, got 100,000\."),
        ("gemm-512", hierarchy(17), r"levels: expected at most 16, got 17\."),
        ("gemm-512", hierarchy(100_000), r"levels: expected at most 16, got 100,000\."),
        ("gemm-512", hierarchy(9), r"the factorisations of its sizes over 17 loops are \S+ numb"),
        (
            f"gemm:M={2**32},N=1,K=1",
            hierarchy(6),
            r"the factorisations of its sizes over 11 loops are \S+ numbers; expected at most",
        ),
        (
            "gemm-512",
            {
                "extends": "mm256",
                "levels": [{"name": "L1", "capacity_words": 2**20, "banks": 2**20}],
            },
            r"can give its 1,048,576 banks to 3 tensors in ways of \S+ numbers; expected at most",
        ),
    ],
    ids=["tensors", "many", "levels", "many levels", "depth", "size", "banks"],
)
def test_what_has_no_room_is_one_line_before_anything_is_laid_out(
    operation: Any, machine: dict[str, Any], message: str
) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError, match=message) as caught:
        MapSpace(workload(operation), accelerator(machine))
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 2


def test_layers_have_a_bound() -> None:
    layers = [{"gemm": {"M": 4, "N": 4, "K": 4}}] * (MOST_LAYERS + 1)
    with pytest.raises(ConfigError, match=r"layers: expected 10000 or fewer entries"):
        load_network({"layers": layers})
    different = [{"gemm": {"M": 1, "N": 1, "K": k}} for k in range(1, MOST_LAYERS + 1)]
    began = time.process_time()
    assert len(load_network({"layers": different})[1]) == MOST_LAYERS
    assert time.process_time() - began < 10
