"""Walks of a shared proof's workers: what they find, and how many there are."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.pool import Here, Limit
from costmodel.exact_any import shared_prover
from costmodel.exact_any.pieces import Piece, Settled, Walk
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


@pytest.mark.parametrize(("lucky", "walks"), [((), 3), ((2,), 4), ((3,), 6), ((2, 4), 8)])
def test_walks_go_on_where_they_find_something(
    lucky: tuple[int, ...], walks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are few, or twice as many as up to the last that found something."""
    for name, value in (("PIECES_PER_WALK", 1), ("FEW_WALKS", 3), ("MOST_MATES", 1), ("WINDOW", 2)):
        monkeypatch.setattr(shared_prover, name, value)
    space = MapSpace(workload("cnn:N=1,K=32,C=16,P=14,Q=14,R=3,S=3"), accelerator("eyeriss"))
    samples = space.sample(np.random.default_rng(0), 50, feasible=True)
    by_value = samples[np.argsort(LoopNestModel().evaluate(space, samples).objective("edp"))]

    class Lucky(WalkingProver):
        def settle(self, piece: Piece | Walk, limit: Limit) -> Generator[None, None, Settled]:
            if isinstance(piece, Piece):
                return (yield from super().settle(piece, limit))
            # The later, the better.
            found = by_value[10 - piece.seed :][:1] if piece.seed in lucky else by_value[:0]
            return Settled(found, (), None, {}, ())

    prover = SharedProver(space, Here(Lucky(space)), walks=32)
    prover.offer(by_value[-1:])
    prover.run()
    assert sum(one.tables is None for one in prover.dealt) == walks
