"""The proof for three levels shared out: the same certificate whoever settles its pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_problems import best_outcome, random_mesh, random_problem

from costmodel import MapSpace, accelerator, workload
from costmodel.exact import prover as prover_module
from costmodel.exact import shared_units
from costmodel.exact.certificate import certify, read_certificate
from costmodel.exact.objective import INFINITE
from costmodel.exact.pool import Here, Limit
from costmodel.exact.problem import why_not
from costmodel.exact.progress import MOST_TOP
from costmodel.exact.prover import Prover
from costmodel.exact.shared_units import (
    AnyUnits,
    AnyUnitsSettled,
    SharedUnits,
    SharedWalk,
    UnitProver,
    Units,
    UnitsSettled,
)
from costmodel.exact.workspace import INNER_TILES, TILINGS


class Backwards:
    """Two workers that take the latest pieces first, in turn, whatever they did before."""

    def __init__(self, space: MapSpace, objective: Any, top: int = 1) -> None:
        """Has nothing to do."""
        self.workers = [Here(UnitProver(space, objective=objective, top=top)) for _ in range(2)]
        self.waiting: list[tuple[int, AnyUnits, Limit]] = []

    def submit(self, number: int, piece: AnyUnits, limit: Limit) -> None:
        """Takes a piece."""
        self.waiting.append((number, piece, limit))

    def ready(self, seconds: float) -> Sequence[tuple[int, AnyUnitsSettled]]:
        """Settles all that waits."""
        found = list[tuple[int, AnyUnitsSettled]]()
        while self.waiting:
            worker = self.workers[len(self.waiting) % 2]
            worker.submit(*self.waiting.pop())
            found += worker.ready(1000.0)
        return found

    def drop(self, number: int) -> None:
        """As `forget`."""

    def forget(self) -> None:
        """Drops nothing: what nobody waits for comes all the same."""


def small(patch: pytest.MonkeyPatch) -> None:
    """Limits come from pieces before, pieces are split, and rounds have many of them."""
    patch.setattr(prover_module, "FIRST_RISE", Fraction(100))
    for name, value in (("WINDOW", 3), ("FIRST_UNITS", 4), ("MOST_BOUNDS", 60), ("PAUSE_TILES", 7)):
        patch.setattr(shared_units, name, value)


def problems(seeds: range) -> Any:
    """Random problems with all of their mappings, every third on a mesh."""
    for seed in seeds:
        make = random_mesh if seed % 3 == 0 else random_problem
        rng = np.random.default_rng(seed)
        space, codes, objective = make(rng, 20_000)
        while why_not(space) is not None:  # that is for the proof on any hierarchy
            space, codes, objective = make(rng, 20_000)
        if len(codes):
            yield seed, space, codes, objective


def check(seeds: range) -> None:
    """Holds shared proofs against all mappings and against pieces in reverse."""
    for seed, space, codes, objective in problems(seeds):
        prover = in_any_order(space, objective, codes[: seed % 2])
        assert prover.best_outcome == best_outcome(space, codes, objective)


def in_any_order(space: MapSpace, objective: Any, offered: Any) -> SharedUnits:
    """A shared proof whose certificate is the same with pieces in reverse."""
    texts = []
    for pool in (Here(UnitProver(space, objective=objective)), Backwards(space, objective)):
        prover = SharedUnits(space, pool, objective=objective)
        prover.offer(offered)
        prover.run()
        texts.append(certify(prover, 1.0).text())
    assert texts[0] == texts[1]
    return prover


def test_equals_exhaustive_enumeration_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    check(range(60_000, 60_015))


MESH = {
    "extends": "mm256",
    "name": "a mesh",
    "levels": [{"name": "L2", "mesh": [4, 4], "fanout": 16, "hop_energy_pj": 2.0}],
}
"""Hundreds of units, more than fit the small spaces above."""


def larger() -> Any:
    """Spaces of many units, with objectives."""
    for machine, objective in (("mm256-bw-bypass", "edp"), (MESH, "edp"), (MESH, "energy")):
        layer = workload("cnn:N=2,K=12,C=12,P=6,Q=12,R=3,S=3")
        yield MapSpace(layer, accelerator(machine)), objective


def check_larger() -> int:
    """Holds shared proofs against the proof alone; returns how many pieces there were."""
    pieces = 0
    for space, objective in larger():
        worst = space.sample(np.random.default_rng(0), 1, feasible=True)
        alone = Prover(space, objective=objective)
        alone.run()
        prover = in_any_order(space, objective, worst)
        assert prover.best_outcome == alone.best_outcome
        pieces += len(prover.dealt)
    return pieces


def test_says_what_the_proof_alone_says(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    assert check_larger() > 100


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_equal_exhaustive_enumeration(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    check(range(61_000 + 40 * block, 61_040 + 40 * block))


MERGE = SharedWalk._merge


def forgets_what_is_left(self: SharedWalk, piece: Units, done: UnitsSettled, found: Any) -> None:
    """A piece counts as searched when it comes back."""
    MERGE(self, piece, done._replace(next=piece.stop), found)


def as_they_come(self: SharedWalk, piece: Units, done: UnitsSettled, found: Any) -> None:
    """Limits are set by pieces that nobody has merged yet."""
    for other in list(self.pieces._settled.values()):
        MERGE(self, Units(0, 0), other._replace(next=0), found)
    MERGE(self, piece, done, found)


@pytest.mark.parametrize("broken", [forgets_what_is_left, as_they_come])
def test_broken_shares_are_caught(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    monkeypatch.setattr(SharedWalk, "_merge", broken)
    with pytest.raises(AssertionError):
        check_larger()


Parts = tuple[Units, ...]


def check_parts(monkeypatch: pytest.MonkeyPatch) -> int:
    """Holds what the parts of units look at against the whole units; how often one was left."""
    small(monkeypatch)
    space = MapSpace(workload("gemm:M=8,N=4,K=4"), accelerator("mm256-bw"))
    # There is room for all tilings of a unit, so that no limit cuts any off.
    prover, unlimited = UnitProver(space, top=MOST_TOP, threads=1), (INFINITE, INFINITE)
    split = 0
    for unit in range(0, prover._unit_vector.size):
        counts = []
        for most in (20, 10**12):
            monkeypatch.setattr(shared_units, "MOST_BOUNDS", most)
            waiting, total = [Units(unit, unit + 1)], np.zeros(5, np.int64)
            while waiting:
                done = _settled(prover, waiting.pop(), unlimited)
                assert done.energy[-1] == INFINITE
                waiting += done.left
                split += len(done.left) > 0
                total += done.counts
            counts.append(total)
        assert counts[1][TILINGS] > 0
        assert counts[0][INNER_TILES] == counts[1][INNER_TILES]
        assert counts[0][TILINGS] == counts[1][TILINGS]
    return split


def test_parts_of_units_are_every_tile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_parts(monkeypatch) > 20


def _nothing(left: Parts) -> Parts:
    """A unit that is left amid its tiles counts as searched."""
    return ()


def _without_the_next_tile(left: Parts) -> Parts:
    """What is left begins after the tile that is next."""
    *outer, last = left
    assert last.tiles is not None
    first, stop = last.tiles
    return (*outer, last._replace(tiles=(first + 1, stop)))


def _deepest(left: Parts) -> Parts:
    """Nothing is left but at the deepest dimension."""
    return tuple(part for part in left if len(part.path) == len(left[-1].path))


def _without_path(left: Parts) -> Parts:
    """The first dimensions have their smallest extents."""
    return tuple(part._replace(path=(0,) * len(part.path)) for part in left)


@pytest.mark.parametrize("broken", [_nothing, _without_the_next_tile, _deepest, _without_path])
def test_parts_that_are_other_tiles_are_caught(
    broken: Callable[[Parts], Parts], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = UnitProver._rest
    monkeypatch.setattr(UnitProver, "_rest", lambda *given: broken(honest(*given)))
    with pytest.raises(AssertionError):
        check_parts(monkeypatch)


def _settled(prover: UnitProver, piece: Units, limit: Limit) -> UnitsSettled:
    pool = Here(prover)
    pool.submit(0, piece, limit)
    while not (settled := pool.ready(1000.0)):
        pass
    done = settled[0][1]
    assert isinstance(done, UnitsSettled)
    return done


def test_goes_on_alone_and_shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the certificate of the one or the other: the bound never falls, the optimum is found."""
    small(monkeypatch)
    stops = 0
    rng = np.random.default_rng(0)
    for space, objective in larger():
        whole = Prover(space, objective=objective)
        whole.run()

        def shared(
            space: MapSpace = space, objective: Any = objective, build: bool = True
        ) -> SharedUnits:
            pool = Here(UnitProver(space, objective=objective))
            return SharedUnits(space, pool, objective=objective, build=build)

        prover: Prover = shared()
        prover.offer(space.sample(rng, 1, feasible=True))
        certain = prover.lower_outcome
        while not prover.finished:
            prover.step(1)
            known = prover.built and prover.best_outcome is not None and not prover.finished
            if known and rng.random() < 0.3 and stops % 30 < 29:
                path = tmp_path / "c.json"
                path.write_text(certify(prover, 1.0).text())
                held = read_certificate(path).earlier
                assert held is not None
                best = prover.codes(1)
                alone = Prover(space, objective=objective, build=False, threads=1)
                prover = alone if rng.random() < 0.4 else shared(build=False)
                prover.offer(best)
                prover.resume(held)
                while not prover.built:
                    prover.step()
                assert prover.rank_of(certain) <= prover.rank_of(prover.lower_outcome)
                stops += 1
            certain = prover.lower_outcome
        assert prover.best_outcome == whole.best_outcome
    assert stops > 20


def test_the_best_tilings_are_those_of_the_proof_alone() -> None:
    space = MapSpace(workload("gemm:M=64,N=48,K=32"), accelerator("mm256-bypass"))
    alone = Prover(space, top=5)
    pools = Here(UnitProver(space, top=5)), Backwards(space, "edp", top=5)
    texts = []
    for pool in pools:
        shared = SharedUnits(space, pool, top=5)
        shared.run()
        texts.append(certify(shared, 1.0).text())
    alone.run()
    assert shared.outcomes(shared.codes(5)) == alone.outcomes(alone.codes(5))
    assert texts[0] == texts[1]
