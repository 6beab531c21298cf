"""Proofs on machines with arrays: equal to all mappings, and wrong where a term is left out."""

from __future__ import annotations

from typing import Any

import pytest
from array_walk import random_array, random_beside
from small_hierarchies import check_front_of, check_proof

import mapspace as ms
from costmodel.tile_chains import ports

QUICK, SLOW = range(60), range(60, 560)


@pytest.mark.parametrize("seed", QUICK)
def test_proofs_are_those_of_all_mappings(seed: int) -> None:
    check_proof(*random_array(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW)
def test_proofs_of_many_machines(seed: int) -> None:
    check_proof(*random_array(seed))


@pytest.mark.parametrize("seed", QUICK)
def test_proofs_with_start_ups_and_single_buffers(seed: int) -> None:
    check_proof(*random_array(seed, transfers=True))


@pytest.mark.parametrize("seed", range(40))
def test_proofs_with_buffers_side_by_side(seed: int) -> None:
    check_proof(*random_beside(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW)
def test_proofs_of_many_timed_machines(seed: int) -> None:
    check_proof(*random_array(seed, transfers=True))
    check_proof(*random_beside(seed))


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_fronts_with_start_ups(seed: int) -> None:
    space, codes, _ = random_array(seed, 2000, transfers=True)
    check_front_of(space, codes)


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_fronts_are_those_of_all_mappings(seed: int) -> None:
    space, codes, _ = random_array(seed, 2000)
    check_front_of(space, codes)


def loses(seed: int) -> bool:
    try:
        check_proof(*random_array(seed))
    except AssertionError:
        return True
    return False


def test_a_port_that_counts_too_much_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ports.port_weights

    def doubled(*arguments: Any) -> ports.PortWeights:
        found = whole(*arguments)
        return found._replace(weight=2 * found.weight)

    for module in ("assignments", "weighing", "leaves"):
        monkeypatch.setattr(f"costmodel.exact_any.{module}.port_weights", doubled)
    assert any(loses(seed) for seed in range(60))


def test_certificates_hold_and_are_counted_independently() -> None:
    machine = {
        "name": "systolic",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 200.0},
            {
                "name": "Buffer", "energy_pj": 6.0, "capacity_words": 64, "fanout": 4,
                "mesh": [2, 2],
                "array": {"stationary": "weight", "load": "rows", "fill": "rows + columns - 2"},
            },
            {"name": "Register", "energy_pj": 1.0, "capacity_words": 1,
             "keep": ["weight"], "bypass": ["input", "output"]},
        ],
    }  # fmt: skip
    found = ms.search("gemm:M=4,N=2,K=4", machine, objective="latency", store=False)
    assert found.proven
    # 2 x 2 weights at a time, two tiles of 4 inputs, 2 + 2 cycles beside.
    assert found.costs.latency_cycles == 2 * (4 + 2 + 2)
    checked = ms.verify(found, independent=True)
    assert checked.holds, checked
