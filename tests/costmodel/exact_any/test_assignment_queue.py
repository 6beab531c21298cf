"""Which assignment comes next, where spatial factors stand for all sets of kept tensors."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.exact_any.assignment_queue import AssignmentQueue
from costmodel.exact_any.assignments import Listed, list_assignments
from costmodel.exact_any.known import Known
from costmodel.exact_any.layout import lay_out
from costmodel.exact_any.problem import why_not_any
from costmodel.exact_any.prover import AnyProver
from costmodel.tile_chains.ports import ports
from costmodel.tile_chains.spatial import keep_choices

MACHINE = {
    "name": "two-fan-outs",
    "mac_energy_pj": 1.0,
    "bypass": "searched",
    "levels": [
        {"name": "DRAM", "energy_pj": 200, "read_bandwidth": 0.4},
        {"name": "L2", "energy_pj": 6, "capacity_words": 64, "fanout": 4, "bandwidth": 1.5},
        {"name": "L1", "energy_pj": 1, "capacity_words": 16, "fanout": 2},
    ],
}


def _listed(space: MapSpace) -> Listed:
    one = lay_out(0, space, None)
    *_, listed = list_assignments(space, one.spreads, keep_choices(space), ports(space))
    assert listed is not None
    return listed


@pytest.mark.parametrize("objective", ["edp", "ed2p", "energy", "latency"])
def test_the_least_comes_next(objective: Objective) -> None:
    """Floors of all kept tensors rise while some of them wait, as levels apart say."""
    space = MapSpace(workload("gemm:M=8,N=6,K=4"), accelerator(MACHINE))
    listed, known, queue = _listed(space), Known(space, objective), AssignmentQueue()
    queue.add(0, listed)
    queue.begin(known)
    rng, raised = np.random.default_rng(0), set[int]()
    found, orders = [], []
    while (taken := queue.take()) is not None:
        group, a, is_bounded, energy, cycles = taken
        assert not is_bounded
        assert energy == listed.energy[group, a]
        assert cycles == listed.cycles[group, a]
        if a not in raised:
            raised.add(a)
            listed.energy[:, a] *= 1 + rng.random(len(listed.energy))
            listed.energy[rng.integers(len(listed.energy)), a] = np.inf  # no tiles fit
            queue.again(group, a)
            continue
        found.append((group, a))
        orders.append(known.order(energy, cycles))
    assert orders == sorted(orders)
    assert len(set(found)) == len(found)
    assert set(found) == set(zip(*np.nonzero(listed.energy < np.inf), strict=True))


def test_millions_of_assignments_have_a_bound() -> None:
    """3.7 million were too many to queue each; spatial factors wait for all of theirs."""
    space = MapSpace(workload("resnet-conv4"), accelerator("cluster4x64bw"))
    assert why_not_any(space) is None
    prover = AnyProver(space)
    # Of 7,264 spreads those that are each other's image are one (lemma 16).
    assert prover.counts["assignments"] == 4126 * 512
    prover.offer(space.sample(np.random.default_rng(0), 8, feasible=True))
    prover.step()
    assert prover.best_outcome is not None
    assert 1 < prover.lower_outcome[0] < prover.best_outcome[0]
    assert 0 < prover.gap < np.inf
