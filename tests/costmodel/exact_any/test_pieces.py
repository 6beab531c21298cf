"""What comes of a piece does not depend on who settles it; none that is passed is waited for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
import pytest
from small_hierarchies import random_hierarchy, random_ports

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.certificate import certify
from costmodel.exact.pool import Here, Limit, Waiting
from costmodel.exact_any import pieces, shared_prover
from costmodel.exact_any.chain_bounds import ChainBounds
from costmodel.exact_any.pieces import Piece, PieceProver, Settled
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.shared_prover import SharedProver
from costmodel.tile_chains import chain_arrays, tables

MIXING = (43, 56, 60, 66)
"""Of the problems with narrow ports some in which two are slowest by turns."""


RAISED = (9001, 9057, 9071, 9079, 9083)
"""Problems whose bypass is searched some of whose floors are raised below the optimum's limit."""


class Two(NamedTuple):
    """A piece that reads tables."""

    tables: str | None


def test_pieces_that_read_the_same_tables_are_given_out_together() -> None:
    waiting = Waiting[Two]()
    for number, read in enumerate("abcabcab" * 4):
        waiting.add(number, Two(read), (0.0, 0.0))
    assert [number for number, *_ in waiting.bundle(1)] == [0, 3, 6, 8, 11, 14, 16, 19]
    assert [number for number, *_ in waiting.bundle(2)] == [1, 4, 7]
    assert [number for number, *_ in waiting.bundle(64)] == [2]
    rest = [number for _ in range(20) for number, *_ in waiting.bundle(64)]
    assert len(waiting) == 0
    assert rest == [n for n in range(32) if n not in (0, 1, 2, 3, 4, 6, 7, 8, 11, 14, 16, 19)]
    for number in range(8):
        waiting.add(number, Two(None), (0.0, 0.0))
    waiting.drop(0)
    waiting.drop(11)
    assert [number for number, *_ in waiting.bundle(1)] == [1]


def test_whoever_has_tables_goes_on_with_them_if_that_is_near() -> None:
    waiting = Waiting[Two]()
    read = ["a", *"bc" * 3, None, *"bc" * 10, "d"]
    for number, tables_of in enumerate(read):
        waiting.add(number, Two(tables_of), (0.0, 0.0))

    def next_of(last: str | None) -> int:
        ((number, *_),) = waiting.bundle(2 * len(read), last)
        return number

    assert next_of("c") == 2
    assert next_of("c") == 4
    assert next_of(None) == 0
    assert next_of("a") == 1  # nothing that reads it is left
    # With two workers what came eight later is near, and what came nine later is not.
    far = Waiting[Two]()
    for number in range(10):
        far.add(number, Two("x" if number < 8 else "yz"[number - 8]), (0.0, 0.0))
    assert far.bundle(2, "z")[0][0] == 0
    assert far.bundle(2, "z")[0][0] == 9
    assert far.bundle(2, "y")[0][0] == 8
    far.drop(1)
    assert [number for number, *_ in far.bundle(1, "y")] == [2]


def small(patch: pytest.MonkeyPatch) -> None:
    """What takes long is split, and pieces bound few assignments."""
    for module, name, value in (
        (shared_prover, "MOST_MATES", 2), (shared_prover, "MOST_FLOORS", 1),
        (pieces, "MOST_WORK", 5), (pieces, "TILING_WORK", 1),
    ):  # fmt: skip
        patch.setattr(module, name, value)


def ends_with(space: MapSpace, objective: Any, worker: PieceProver, first: Any) -> str:
    """The certificate of a proof whose pieces one worker settles."""
    prover = SharedProver(space, Here(worker), objective=objective)
    prover.offer(first)
    prover.run()
    return certify(prover, 1.0).text()


def proofs_before(patch: pytest.MonkeyPatch) -> None:
    """A worker that has settled the pieces of another proof says what a new one says."""
    small(patch)
    for seed in MIXING:
        space, codes = random_ports(seed, 2000)
        objective: Any = ("edp", "ed2p")[seed % 2]
        by_value = LoopNestModel().evaluate(space, codes).objective(objective).argsort()
        worst, best = codes[by_value[-1:]], codes[by_value[:1]]
        old, new = (PieceProver(space, objective=objective) for _ in range(2))
        ends_with(space, objective, old, worst)
        texts = [ends_with(space, objective, worker, best) for worker in (old, new)]
        assert texts[0] == texts[1], seed


def test_ports_are_mixed_as_if_nothing_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs_before(monkeypatch)


def test_a_worker_that_remembers_its_mixtures_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChainBounds, "mixed", lambda self, one, found, a, prices: None)
    with pytest.raises(AssertionError):
        proofs_before(monkeypatch)


def pieces_before(patch: pytest.MonkeyPatch) -> None:
    """As `proofs_before`, after proofs with higher limits."""
    small(patch)
    for seed in (9000, 9002, *RAISED):
        space, codes, objective = random_hierarchy(np.random.default_rng(seed), 2000)
        by_value = LoopNestModel().evaluate(space, codes).objective(objective).argsort()
        old, new = (PieceProver(space, objective=objective) for _ in range(2))
        for place in (-1, -2):
            ends_with(space, objective, old, codes[by_value[place]][None])
        texts = [
            ends_with(space, objective, worker, codes[by_value[0]][None]) for worker in (old, new)
        ]
        assert texts[0] == texts[1], seed


def test_pieces_are_settled_as_if_nothing_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces_before(monkeypatch)


def test_a_worker_that_remembers_bounds_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def once(self: PieceProver, one: Any, chosen: Any) -> Any:
        """What was raised counts as raised, though its floors are written down anew."""
        self._note_floors(one.number, chosen)
        return self._raise_floors(one, chosen)

    monkeypatch.setattr(PieceProver, "_raise_anew", once)
    with pytest.raises(AssertionError):
        pieces_before(monkeypatch)


TWO_FAN_OUTS = {
    "name": "two fan-outs",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L3", "capacity_words": 4096, "energy_pj": 8.0, "fanout": 4},
        {"name": "L2", "capacity_words": 512, "energy_pj": 2.5, "fanout": 4},
        {"name": "L1", "capacity_words": 64, "energy_pj": 0.6},
        {"name": "R", "capacity_words": 16, "energy_pj": 0.2},
    ],
}


class SettlesBefore(PieceProver):
    """Has settled every piece of chains for a higher limit before."""

    def settle(self, piece: Piece, limit: Limit) -> Generator[None, None, Settled]:
        """See `PieceProver`."""
        if piece.task == "chains":
            yield from super().settle(piece, (limit[0] * 1.1, limit[1]))
        return (yield from super().settle(piece, limit))


def limits_before(patch: pytest.MonkeyPatch) -> None:
    """A worker that has settled pieces for higher limits says what a new one says."""
    # Points that tiles above the limit add to full hulls lower what is below it.
    patch.setattr(chain_arrays, "HULL", 2)
    space = MapSpace(workload("gemm:M=48,N=36,K=60"), accelerator(TWO_FAN_OUTS))
    alone = AnyProver(space, top=100)
    alone.offer(space.sample(np.random.default_rng(0), 100, feasible=True))
    alone.run()
    near = alone.codes(100)
    value = LoopNestModel().evaluate(space, near).objective("edp")
    for first in near[::5]:
        texts = []
        for worker in (SettlesBefore(space), PieceProver(space)):
            prover = SharedProver(space, Here(worker))
            prover.offer(first[None])
            prover.run()
            best = LoopNestModel().evaluate(space, prover.codes(1)).objective("edp")[0]
            assert float(best) <= float(value[0]) * (1 + 2e-12)
            texts.append(certify(prover, 1.0).text())
        assert texts[0] == texts[1]


def test_limits_of_pieces_before_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    limits_before(monkeypatch)


def test_tables_of_higher_limits_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    first_change = tables.first_change
    monkeypatch.setattr(tables, "first_change", lambda *given: first_change(*given[:3], False))
    with pytest.raises(AssertionError):
        limits_before(monkeypatch)


def found_early(patch: pytest.MonkeyPatch, leave_out: Callable[..., None]) -> int:
    """Floors are passed, since what is nearly the best is found amid them.

    Returns:
        How many were.
    """
    small(patch)
    patch.setattr(shared_prover, "WINDOW", 1)
    near, passed = list[Any](), list[int]()

    def finds(self: SharedProver, piece: Any, done: Any) -> None:
        TAKE_FLOORS(self, piece, done)
        self._known.take(near[-1])

    def counts(self: SharedProver, piece: Any) -> None:
        passed.append(int(piece.task == "floors"))
        leave_out(self, piece)

    patch.setattr(SharedProver, "_take_floors", finds)
    patch.setattr(SharedProver, "_leave_out", counts)
    for seed in range(9000, 9040):
        space, codes, objective = random_hierarchy(np.random.default_rng(seed), 2000)
        values = LoopNestModel().evaluate(space, codes).objective(objective)
        above = np.flatnonzero(values > values.min() * (1 + 1e-9))
        if not above.size:
            continue
        near.append(codes[above[values[above].argmin()]][None])
        prover = SharedProver(
            space, Here(PieceProver(space, objective=objective)), objective=objective
        )
        prover.offer(codes[values.argmax()][None])
        prover.run()
        found = LoopNestModel().evaluate(space, prover.codes(1)).objective(objective)[0]
        assert float(found) <= float(values.min()) * (1 + 2e-12), seed
    return sum(passed)


TAKE_FLOORS, LEAVE_OUT = SharedProver._take_floors, SharedProver._leave_out


def test_floors_that_are_passed_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_early(monkeypatch, LEAVE_OUT) > 1


def test_floors_that_are_waited_for_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        found_early(monkeypatch, lambda self, piece: None)
