"""One proof shared out: the same certificate whoever settles its pieces, and in whatever order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from small_hierarchies import random_hierarchy

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.certificate import certify
from costmodel.exact_any import pieces, shared_prover
from costmodel.exact_any.known import Known
from costmodel.exact_any.pieces import Here, Limit, Piece, PieceProver, Pool, Settled
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.shared_prover import SharedProver
from costmodel.exact_any.tilings import Trail, Way
from mapspace.errors import ConfigError

SMALL = {
    "WINDOW": 3, "PARTS_WINDOW": 3, "LEAST_PARTS": 2, "PARTS": 3, "MOST_PARTS": 3, "FEW": 1,
    "FIRST_PIECES": 4,
}  # fmt: skip

WAY = Trail.way


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


def certificate(prover: SharedProver) -> str:
    """What a proof ends with, its time left aside."""
    prover.run()
    return certify(prover, 1.0).text()


def check(seed: int, most: int, patch: pytest.MonkeyPatch) -> list[int]:
    """Holds a shared proof against all mappings and against pieces in reverse.

    Returns:
        How many pieces there were in every round.
    """
    rng = np.random.default_rng(seed)
    space, codes, objective = random_hierarchy(rng, most)
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    worst = codes[int(values.argmax())][None]
    # So few that limits come from pieces before, and that long pieces are split.
    for name, value in SMALL.items():
        patch.setattr(shared_prover, name, value)
    patch.setattr(pieces, "MOST_TILES", 5)
    patch.setattr(pieces, "FINEST", 4)
    texts, pools = [], (Here(PieceProver(space, objective=objective)), Backwards(space, objective))
    pool: Pool
    for pool in pools:
        prover = SharedProver(space, pool, objective=objective)
        prover.offer(worst)
        texts.append(certificate(prover))
    reached = LoopNestModel().evaluate(space, prover.codes(1)).objective(objective)[0]
    assert float(reached) <= float(values.min()) * (1 + 2e-12), f"{objective} of {space.workload}"
    assert texts[0] == texts[1]
    return [len(lengths) for lengths in prover.lengths]


def test_equals_exhaustive_enumeration_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [check(seed, 2000, monkeypatch) for seed in range(9000, 9012)]
    assert max(len(one) for one in rounds) >= 4
    assert max(one[0] for one in rounds) > 5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_more_equal_exhaustive_enumeration(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(9100 + 20 * block, 9120 + 20 * block):
        check(seed, 20_000, monkeypatch)


def nobodys(self: Any, tile: int) -> bool:
    """Every other tile is through, whose ever it is."""
    return tile % self._parts != self._part or tile % 2 == 1


def keeps_its_best(self: Known, limit: tuple[float, float]) -> None:
    """Looks below what the same worker found in other pieces."""
    found = self._entries[0][1:3] if self._entries else limit
    limits = [one for one in (found, limit, self._below) if one is not None]
    self._entries, self._below = [], min(limits, key=lambda one: self.order(*one))


def too_far(trail: Trail) -> Way:
    """The tile in work counts as through."""
    (tile, through), *deeper = WAY.__get__(trail)
    return ((tile, (*through, tile)), *deeper)


def in_no_order(self: SharedProver, pieces: list[Piece], _: int | None = None) -> Any:
    """Limits of what has come so far."""
    self.lengths.append([])
    limit = self._limit()
    for number, piece in enumerate(pieces):
        self._pool.submit(number, piece, limit)
    for number, done in self._pool.ready(1.0) if pieces else []:
        self._merge(pieces[number], done)
        yield
    return []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (pieces._Others, "__contains__", nobodys),
        (Known, "start_below", keeps_its_best),
        (pieces._Share, "way", property(too_far)),
        (SharedProver, "_deal", in_no_order),
    ],
    ids=[
        "a tile is nobody's",
        "a worker remembers other pieces",
        "what is begun is done",
        "what is split is forgotten",
    ],
)
def test_broken_shares_are_caught(
    owner: Any, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)

    def all_hold() -> None:
        for seed in range(9000, 9030):
            check(seed, 2000, monkeypatch)

    with pytest.raises((AssertionError, RuntimeError)):
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
