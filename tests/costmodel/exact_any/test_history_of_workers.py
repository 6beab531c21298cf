"""What comes of a piece is said by it and its limit alone, whatever its worker did before."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest
from small_hierarchies import random_hierarchy

from costmodel import LoopNestModel
from costmodel.exact.pool import Here, Limit
from costmodel.exact_any import held, pieces, shared_prover
from costmodel.exact_any.pieces import Piece, PieceProver, Settled
from costmodel.exact_any.shared_prover import SharedProver
from costmodel.tile_chains import tables

SMALL = (
    (shared_prover, "MOST_MATES", 2), (shared_prover, "MOST_ROW_MATES", 2),
    (pieces, "MOST_WORK", 5), (pieces, "TILING_WORK", 1), (pieces, "SHARE_WORK", 1),
    (held, "MOST_HELD", 0), (tables, "FEW", 0),
)  # fmt: skip
"""Lattices count as large, so that tables are filled level by level, and searches are split."""


class Noting(PieceProver):
    """Notes what it is asked for."""

    asked: list[tuple[Piece, Limit]]

    def settle(self, piece: Piece, limit: Limit) -> Generator[None, None, Settled]:
        """See `PieceProver`."""
        self.asked.append((piece, limit))
        return (yield from super().settle(piece, limit))


def settled(worker: PieceProver, piece: Piece, limit: Limit) -> str:
    """What comes of a piece."""
    work = worker.settle(piece, limit)
    while True:
        try:
            next(work)
        except StopIteration as done:
            return str(done.value)


@pytest.mark.parametrize("seed", [9022, 9035, 9037, 9053])
def test_what_a_worker_did_before_changes_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below low limits tables are empty: what was filled further in before must not be read."""
    for module, name, value in SMALL:
        monkeypatch.setattr(module, name, value)
    space, codes, objective = random_hierarchy(np.random.default_rng(seed), 2000)
    noting = Noting(space, objective=objective)
    noting.asked = []
    prover = SharedProver(space, Here(noting), objective=objective)
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    prover.offer(codes[int(values.argmax())][None])
    prover.run()
    costs = LoopNestModel().evaluate(space, prover.codes(1))
    energy, cycles = float(costs.energy_pj[0]), float(costs.latency_cycles[0])
    asked = [(piece, limit) for piece, limit in noting.asked if piece.task != "floors"]
    searches = [piece for piece, _ in asked if piece.task == "search"]
    asked += [(piece, (energy * low, cycles)) for piece in searches for low in (1.0, 0.9, 0.7)]
    worker = PieceProver(space, objective=objective)
    first = [settled(worker, *each) for each in asked]
    again = [settled(worker, *each) for each in reversed(asked)][::-1]
    assert first == again
