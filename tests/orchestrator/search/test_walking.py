"""Walks of a shared proof's workers: what they find, and how many there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.pool import Here
from costmodel.exact_any import shared_prover
from costmodel.exact_any.pieces import Settled, Walk
from costmodel.exact_any.shared_prover import NOTHING, SharedProver
from orchestrator.search import walking
from orchestrator.search.walking import WalkingProver


def walked(worker: WalkingProver, seed: int) -> Settled:
    """What comes of a walk."""
    work = worker.settle(Walk(seed), NOTHING)
    while True:
        try:
            next(work)
        except StopIteration as done:
            found: Settled = done.value
            return found


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walks of 5,120 mappings."""
    monkeypatch.setattr(walking, "PIECE_WALKS", 10)


@pytest.mark.parametrize("keep", [None, {"L1": ["Weights"]}])
def test_a_walk_is_a_function_of_its_seed(short: None, keep: Any) -> None:
    space = MapSpace(workload("resnet-conv4"), accelerator("cluster4x64bw"))
    name = space.accelerator.level_names[-1]
    if keep is not None:
        keep = {name: space.workload.tensor_names[:1]}
    workers = [WalkingProver(space, keep=keep, build=False) for _ in range(2)]
    first, again, other = walked(workers[0], 1), walked(workers[1], 1), walked(workers[0], 2)
    assert (first.codes == again.codes).all()
    assert (first.codes != other.codes).any()
    if keep is not None:
        kept = space.describe(first.codes[0]).levels[-1].keep
        assert kept == tuple(keep[name])
    samples = space.sample(np.random.default_rng(0), 5120, feasible=True)
    values = LoopNestModel().evaluate(space, samples).objective("edp")
    found = LoopNestModel().evaluate(space, first.codes).objective("edp")[0]
    assert workers[0].allows(first.codes[0])
    assert found < values.min()


def test_walks_stand_between_pieces(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one comes first, the others after so many pieces; what they find must be beaten."""
    monkeypatch.setattr(shared_prover, "PIECES_PER_WALK", 4)
    monkeypatch.setattr(shared_prover, "MOST_MATES", 1)
    space = MapSpace(workload("cnn:N=1,K=32,C=16,P=14,Q=14,R=3,S=3"), accelerator("eyeriss"))
    shared = [SharedProver(space, Here(WalkingProver(space)), walks=walks) for walks in (0, 3)]
    poor = space.sample(np.random.default_rng(0), 1, feasible=True)
    for prover in shared:
        prover.offer(poor)
        prover.run()
    places = [place for place, one in enumerate(shared[1].dealt) if one.tables is None]
    assert places == [0, 4, 8]
    values = [LoopNestModel().evaluate(space, one.codes(1)).objective("edp")[0] for one in shared]
    assert values[1] == pytest.approx(values[0], rel=2e-12)
    assert shared[1].counts["tilings"] < shared[0].counts["tilings"]
