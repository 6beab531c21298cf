"""Cycles that are known before anything is listed: by hand, and of all mappings."""

from __future__ import annotations

import numpy as np
import pytest
from small_hierarchies import random_hierarchy

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.certificate import certify
from costmodel.exact.verification import verify
from costmodel.exact_any import busiest
from costmodel.exact_any.busiest import fewest_cycles, most_elements
from costmodel.exact_any.imperfect_prover import ImperfectProver


@pytest.mark.parametrize(
    ("sizes", "axes", "most"),
    [
        ((13, 13, 3, 3, 192, 256), (12, 14), 12 * 13),  # AlexNet 5: nothing has a factor of 7
        ((16,), (4, 4), 16),
        ((2, 3), (4,), 3),
        ((7,), (6,), 1),
        ((6, 10), (5, 7), 5 * 6),
        ((8,), (), 1),
    ],
)
def test_by_hand(sizes: tuple[int, ...], axes: tuple[int, ...], most: int) -> None:
    assert most_elements(sizes, axes) == most


def test_axes_apart_say_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    together = most_elements((6, 4, 9), (4, 6, 5))
    monkeypatch.setattr(busiest, "MOST_STATES", 1)
    most_elements.cache_clear()
    assert most_elements((6, 4, 9), (4, 6, 5)) >= together
    most_elements.cache_clear()


def test_no_mapping_is_faster() -> None:
    met = 0
    for seed in range(60):
        space, codes, _ = random_hierarchy(np.random.default_rng(seed), 2000)
        least = int(LoopNestModel().evaluate(space, codes).latency_cycles.min())
        assert fewest_cycles(space) <= least, seed
        met += fewest_cycles(space) == least
    assert met > 20


def test_what_is_as_fast_as_can_be_is_proven_at_once() -> None:
    said = {
        "name": "columns",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 100.0},
            {"name": "L2", "energy_pj": 6.0, "capacity_words": 10_000, "fanout": 14},
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 64},
        ],
    }
    space = MapSpace(workload("gemm:M=13,N=8,K=8"), accelerator(said))
    prover = ImperfectProver(space, objective="latency")
    prover.offer(space.sample(np.random.default_rng(0), 2000, feasible=True))
    assert prover.best_outcome is not None
    assert prover.best_outcome[1] == 13 * 64 // 13
    prover.step()
    assert prover.finished
    assert prover.counts == {"boxes": 0, "chains": 0}
    certificate = certify(prover, 0.0)
    assert certificate.proven
    assert verify(certificate, lambda space, **more: ImperfectProver(space, **more)).holds
