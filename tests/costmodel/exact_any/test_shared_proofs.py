"""One proof shared out: the same certificate for any number of workers, dead ones included."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import pytest
from small_hierarchies import random_hierarchy

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES
from costmodel.exact.certificate import certify
from costmodel.exact_any import pieces, shared_prover
from costmodel.exact_any.known import Known
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.shared_prover import SharedProver
from costmodel.exact_any.tilings import Way
from mapspace.errors import ArgumentError, ConfigError


class OutOfOrder(Executor):
    """Settles what it is given only when asked for, and the latest pieces first."""

    def __init__(self) -> None:
        """Has nothing."""
        self.left: list[tuple[Future[Any], Any, tuple[Any, ...]]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Takes a piece."""
        self.left.append((Future(), fn, args))
        return self.left[-1][0]

    def settle_all(self, *_: Any, **__: Any) -> None:
        """Settles all that is left, in reverse."""
        while self.left:
            future, fn, args = self.left.pop()
            future.set_result(fn(*args))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Forgets what is left."""
        self.left.clear()


def certificate(prover: SharedProver) -> str:
    """What a proof ends with, its time left aside."""
    prover.run()
    return certify(prover, 1.0).text()


def reversed_proof(space: MapSpace, monkeypatch: pytest.MonkeyPatch, **given: Any) -> SharedProver:
    """A proof whose pieces arrive in reverse order."""
    prover, pool = SharedProver(space, workers=1, **given), OutOfOrder()

    def start() -> OutOfOrder:
        shared_prover._begin(space, prover.objective, prover.keep)
        prover._pool = pool
        return pool

    monkeypatch.setattr(prover, "_start", start)
    monkeypatch.setattr(shared_prover, "wait", pool.settle_all)
    return prover


def check(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Holds a shared proof against all mappings and against pieces in reverse; says how many."""
    rng = np.random.default_rng(seed)
    space, codes, objective = random_hierarchy(rng, most)
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    first = codes[int(values.argmax())][None]
    texts = []
    for reverse in (False, True):
        with monkeypatch.context() as patch:
            # So few that limits come from pieces before.
            patch.setattr(shared_prover, "WINDOW", 3)
            patch.setattr(shared_prover, "MOST_MATES", 2)
            given = {"objective": objective}
            prover = (
                reversed_proof(space, patch, **given)
                if reverse
                else SharedProver(space, workers=1, objective=objective)
            )
            prover.offer(first)
            texts.append(certificate(prover))
    reached = LoopNestModel().evaluate(space, prover.codes(1)).objective(objective)[0]
    assert float(reached) <= float(values.min()) * (1 + 2e-12), f"{objective} of {space.workload}"
    assert texts[0] == texts[1]
    return sum(map(len, prover.lengths))


def test_equals_exhaustive_enumeration_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [check(seed, 2000, monkeypatch) for seed in range(9000, 9012)]
    assert max(numbers) > 10


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_more_equal_exhaustive_enumeration(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(9100 + 20 * block, 9120 + 20 * block):
        check(seed, 20_000, monkeypatch)


def not_mine_either(tiles: int, part: int, parts: int) -> Way:
    """A search that is through with every other tile as well, whose ever it is."""
    return ((-1, tuple(b for b in range(tiles) if b % parts != part or b % 2)),)


def keeps_its_best(self: Known, limit: tuple[float, float]) -> None:
    """Looks below what the same worker found in other pieces."""
    found = self._entries[0][1:3] if self._entries else limit
    limits = [one for one in (found, limit, self._below) if one is not None]
    self._entries, self._below = [], min(limits, key=lambda one: self.order(*one))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [(pieces, "_others", not_mine_either), (Known, "start_below", keeps_its_best)],
    ids=["a tile is nobody's", "a worker remembers other pieces"],
)
def test_broken_shares_are_caught(
    owner: Any, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)

    def all_hold() -> None:
        for seed in range(9000, 9020):
            check(seed, 2000, monkeypatch)

    with pytest.raises(AssertionError):
        all_hold()


def eyeriss() -> MapSpace:
    return MapSpace(workload("gemm:M=64,N=64,K=64"), accelerator("eyeriss"))


def offered(workers: int) -> SharedProver:
    space = eyeriss()
    prover = SharedProver(space, workers=workers)
    prover.offer(space.sample(np.random.default_rng(0), 8, feasible=True))
    return prover


@pytest.mark.slow
def test_same_bytes_for_any_number_of_workers() -> None:
    one, two, three = (certificate(offered(workers)) for workers in (1, 2, 3))
    assert one == two == three
    alone = AnyProver(eyeriss())
    alone.run()
    shared = offered(1)
    shared.run()
    assert shared.value_of(shared.best_outcome or (0, 0)) == pytest.approx(
        alone.value_of(alone.best_outcome or (0, 0)), rel=2e-12
    )


@pytest.mark.slow
def test_dead_workers_lose_their_pieces_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    prover, starts = offered(2), 0
    honest = SharedProver._start

    def counted(self: SharedProver) -> Executor:
        nonlocal starts
        starts += 1
        return honest(self)

    monkeypatch.setattr(SharedProver, "_start", counted)
    killed = False

    def kill(_: SharedProver) -> None:
        nonlocal killed
        processes = getattr(prover._pool, "_processes", None)
        if not killed and processes and any(prover.lengths):
            os.kill(next(iter(processes)), 9)
            killed = True

    prover.run(after_step=kill)
    assert killed
    assert starts == 2
    assert certify(prover, 1.0).text() == certificate(offered(1))


@pytest.mark.parametrize("workers", [0, 129])
def test_wrong_numbers_of_workers_are_refused(workers: int) -> None:
    with pytest.raises(ArgumentError, match=f"expected 1 to 128, got {workers}"):
        SharedProver(eyeriss(), workers=workers)


def test_is_not_continued() -> None:
    with pytest.raises(ConfigError, match="not shared out"):
        SharedProver(eyeriss(), workers=1, build=False).resume(None)  # type: ignore[arg-type]


def test_objectives_are_passed_on() -> None:
    for objective in OBJECTIVES:
        assert SharedProver(eyeriss(), workers=1, objective=objective).objective == objective
