"""Which assignment comes next, where spatial factors stand for all sets of kept tensors."""

from __future__ import annotations

import numpy as np
import pytest
from small_hierarchies import random_ports

from costmodel import MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.exact.progress import AnyLevelsProgress
from costmodel.exact_any import assignment_queue
from costmodel.exact_any.assignment_queue import AssignmentQueue, Standing, State
from costmodel.exact_any.assignments import Listed, list_assignments
from costmodel.exact_any.known import Known
from costmodel.exact_any.layout import lay_out
from costmodel.exact_any.problem import why_not_any
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.share import Left, Share
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


def _size(progress: AnyLevelsProgress) -> int:
    """What a certificate lists of a proof that has not ended."""
    groups = sum(len(one.settled) + len(one.bounded) + len(one.begun) for one in progress.groups)
    shares = sum(1 + len(one.path) + len(one.tiles or ()) for one in progress.shares)
    trails = [tiles for one in progress.searches for _, tiles in one.trail]
    return groups + shares + len(progress.searches) + sum(map(len, trails))


def test_a_certificate_lists_no_more_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = MapSpace(workload("gemm:M=8,N=6,K=4"), accelerator(MACHINE))
    listed, known, queue = _listed(space), Known(space, "edp"), AssignmentQueue()
    queue.add(0, listed)
    queue.begin(known)
    while queue.take() is not None:
        pass
    standings = []
    for group, (_, found) in enumerate(queue.groups[:6]):
        settled = np.zeros(len(found.energy), bool)
        settled[group : 2 * group + 1] = True
        standings.append(Standing(settled, list(range(group % 3)), [5] * (group % 2)))
    standings += [
        Standing(np.zeros(len(found.energy), bool), [], []) for _, found in queue.groups[6:]
    ]
    shares = {
        (group, 0): [Left(1.0, Share((3,), (1, 2, 4))), Left(2.0, Share((3, 1)))]
        for group in (1, 2, 4)
    }
    whole = queue.progress_of(standings, shares)
    full = _size(whole)
    assert len(whole.groups) == 6
    assert full == sum(1 + group % 3 + group % 2 for group in range(6)) + 3 * (5 + 3)
    sizes = []
    for room in range(full + 1):
        monkeypatch.setattr(assignment_queue, "MOST_LISTED", room)
        found = queue.progress_of(standings, shares)
        sizes.append(_size(found))
        assert sizes[-1] <= room
    assert found == whole
    assert sizes[full - 1] == full - 8
    assert len(set(sizes)) > 8


def test_a_search_is_listed_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    space, codes = random_ports(7002, 20_000)
    prover = AnyProver(space, objective="ed2p")
    prover.offer(codes[-1:])
    while not prover.built:
        prover.step()
    queue = prover._queue
    bounded: list[tuple[int, int]] = []
    while len(bounded) < 3:
        next(prover._work)
        bounded = [
            (group, a) for *_, group, a, state, _, _ in queue._heap if state is State.BOUNDED
        ]
    # As another proof that was stopped left them.
    queue._ways = dict.fromkeys(bounded, ((7, (1, 2, 3)), (-1, (4,))))
    whole = prover.progress()
    assert whole is not None
    full = _size(whole)
    assert full >= 5 * len(bounded)
    for room in range(full + 1):
        monkeypatch.setattr(assignment_queue, "MOST_LISTED", room)
        found = prover.progress()
        assert found is not None
        assert _size(found) <= room
    assert found == whole
