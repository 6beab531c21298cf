"""One proof shared out: the same certificate whoever settles its pieces, and in whatever order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from small_hierarchies import random_hierarchy

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.certificate import certify
from costmodel.exact_any import pieces, share, shared_prover
from costmodel.exact_any.known import Known
from costmodel.exact_any.pieces import Here, Limit, Piece, PieceProver, Pool, Settled
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.share import Left, ShareTrail
from costmodel.exact_any.shared_prover import SharedProver
from mapspace.errors import ConfigError

SMALL = [
    (shared_prover, "WINDOW", 3), (shared_prover, "MOST_MATES", 2),
    (shared_prover, "MOST_FLOORS", 1), (pieces, "MOST_WORK", 5), (pieces, "TILING_WORK", 1),
    (share, "SPLIT", 3),
]  # fmt: skip
"""Limits come from pieces before, and what takes long is split."""


class Backwards:
    """Two workers that take the latest pieces first, in turn, whatever they did before."""

    def __init__(self, space: MapSpace, objective: Any) -> None:
        """Has nothing to do."""
        self.workers = [Here(PieceProver(space, objective=objective)) for _ in range(2)]
        self.waiting: list[tuple[int, Piece, Limit]] = []

    def submit(self, number: int, piece: Piece, limit: Limit) -> None:
        """Takes a piece."""
        self.waiting.append((number, piece, limit))

    def ready(self, seconds: float) -> Sequence[tuple[int, Settled]]:
        """Settles all that waits."""
        found = list[tuple[int, Settled]]()
        while self.waiting:
            worker = self.workers[len(self.waiting) % 2]
            worker.submit(*self.waiting.pop())
            found += worker.ready(1000.0)
        return found


def certificate(prover: SharedProver, least: float) -> str:
    """What a proof ends with, its time left aside; until then nothing that is wrong is certain."""
    unit = 1 if prover.objective == "latency" else float(prover.unit_pj)
    for _ in prover._work:
        assert float(prover.value_of(prover.lower_outcome)) * unit <= least * (1 + 1e-11)
    prover.run()
    return certify(prover, 1.0).text()


def check(seed: int, most: int, patch: pytest.MonkeyPatch) -> Counter[str]:
    """Holds a shared proof against all mappings and against pieces in reverse.

    Returns:
        How many pieces there were of every task.
    """
    rng = np.random.default_rng(seed)
    space, codes, objective = random_hierarchy(rng, most)
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    worst = codes[int(values.argmax())][None]
    for module, name, value in SMALL:
        patch.setattr(module, name, value)
    texts, pools = [], (Here(PieceProver(space, objective=objective)), Backwards(space, objective))
    pool: Pool
    for pool in pools:
        prover = SharedProver(space, pool, objective=objective)
        prover.offer(worst)
        texts.append(certificate(prover, float(values.min())))
    reached = LoopNestModel().evaluate(space, prover.codes(1)).objective(objective)[0]
    assert float(reached) <= float(values.min()) * (1 + 2e-12), f"{objective} of {space.workload}"
    assert texts[0] == texts[1]
    return Counter(one.of[0] for one in prover.dealt)


def test_equals_exhaustive_enumeration_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [check(seed, 2000, monkeypatch) for seed in range(9000, 9012)]
    assert max(one["floors"] for one in tasks) > 1
    assert max(one["chains"] for one in tasks) > 3
    assert max(one["search"] for one in tasks) > 20


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_more_equal_exhaustive_enumeration(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(9100 + 20 * block, 9120 + 20 * block):
        check(seed, 20_000, monkeypatch)


def keeps_its_best(self: Known, limit: tuple[float, float]) -> None:
    """Looks below what the same worker found in other pieces."""
    found = self._entries[0][1:3] if self._entries else limit
    limits = [one for one in (found, limit, self._below) if one is not None]
    self._entries, self._below = [], min(limits, key=lambda one: self.order(*one))


def but_one(trail: ShareTrail, tiles: Any) -> Any:
    """One of several tiles is nobody's."""
    tiles = OWN(trail, tiles)
    return tiles[:-1] if len(tiles) > 1 else tiles


def without_the_first(trail: ShareTrail) -> tuple[Left, ...]:
    """The first share that is left is forgotten."""
    return LEFT(trail)[1:]


def as_they_come(self: SharedProver, number: int, piece: Piece, done: Settled) -> None:
    """What was found by pieces that nobody has merged yet sets limits."""
    for code in (done.codes, *COME):
        self._known.take(code)
    MERGE(self, number, piece, done)


OWN, LEFT, MERGE = ShareTrail.own, ShareTrail.left, SharedProver._merge
COME: list[Any] = []


def noted(self: PieceProver, piece: Piece, limit: Limit) -> Any:
    """Notes what is found as it is found."""
    done = yield from SETTLE(self, piece, limit)
    COME.append(done.codes)
    return done


SETTLE = PieceProver.settle


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken",
    [
        [(ShareTrail, "own", but_one)],
        [(Known, "start_below", keeps_its_best)],
        [(ShareTrail, "left", without_the_first)],
        [(SharedProver, "_merge", as_they_come), (PieceProver, "settle", noted)],
        [(SharedProver, "_take_floors", lambda self, piece, done: None)],
    ],
    ids=[
        "a tile is nobody's",
        "a worker remembers other pieces",
        "what is left is forgotten",
        "limits are set as pieces come",
        "floors are the end",
    ],
)
def test_broken_shares_are_caught(
    broken: list[tuple[Any, str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name, other in broken:
        monkeypatch.setattr(owner, name, other)

    def all_hold() -> None:
        for seed in range(9000, 9030):
            COME.clear()
            check(seed, 2000, monkeypatch)

    with pytest.raises((AssertionError, RuntimeError, ValueError)):
        all_hold()


def test_says_what_the_proof_alone_says() -> None:
    space = MapSpace(workload("gemm:M=64,N=64,K=64"), accelerator("eyeriss"))
    alone, shared = AnyProver(space), SharedProver(space, Here(PieceProver(space)))
    first = space.sample(np.random.default_rng(0), 8, feasible=True)
    for prover in (alone, shared):
        prover.offer(first)
        before = prover.lower_outcome
        prover.step()
        assert prover.rank_of(prover.lower_outcome) >= prover.rank_of(before)
        prover.run()
    assert shared.finished
    assert alone.best_outcome is not None
    assert shared.best_outcome is not None
    assert shared.value_of(shared.best_outcome) == pytest.approx(
        alone.value_of(alone.best_outcome), rel=2e-12
    )
    assert shared.progress() is None
    with pytest.raises(ConfigError, match="not shared out"):
        shared.resume(None)  # type: ignore[arg-type]
