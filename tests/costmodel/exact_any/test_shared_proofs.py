"""One proof shared out: the same certificate whoever settles its pieces, and in whatever order."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_hierarchies import random_hierarchy, random_ports
from tilings_by_value import least_by_tiling

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact import pool as exact_pool
from costmodel.exact.certificate import certify, read_certificate
from costmodel.exact.pool import Here, InOrder, Limit, Pool
from costmodel.exact.progress import AnyLevelsProgress
from costmodel.exact_any import held, pieces, share, shared_prover
from costmodel.exact_any.known import Known
from costmodel.exact_any.pieces import Piece, PieceProver, Settled, Walk
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.share import Left, ShareTrail
from costmodel.exact_any.shared_prover import SharedProver
from costmodel.tile_chains import tables
from costmodel.tile_chains.aside import Aside
from costmodel.tile_chains.tiles import Lattice

SMALL = [
    (shared_prover, "WINDOW", 3), (shared_prover, "MOST_MATES", 2), (exact_pool, "SHARE", 1),
    (shared_prover, "MOST_FLOORS", 1), (pieces, "MOST_WORK", 5), (pieces, "TILING_WORK", 1),
    (share, "MOST_SHARES", 3), (pieces, "SHARE_WORK", 1), (pieces, "MOST_CHAIN_WORK", 1),
    (pieces, "FEW_LEFT", 0.0), (pieces, "AMID", 1), (shared_prover, "PIECES_PER_WALK", 2),
    (shared_prover, "FEW_WALKS", 2),
]  # fmt: skip
"""Limits come from pieces before, and what takes long is split."""


LARGE = [(held, "MOST_HELD", 0), (shared_prover, "MOST_ROW_MATES", 2),
         (shared_prover, "MOST_TILES", 2000), (shared_prover, "FEW_CHAINS", 1),
         (pieces, "OFTEN", 1), (tables, "FEW", 0)]  # fmt: skip
"""Every piece fills tables of its own, of the tiles alone that it has, as for large lattices, and
those outside all fan-outs from the second time on for others as well."""


MOST_STOPS = 30


class Walker(PieceProver):
    """Settles pieces, and walks to some mapping, whatever it costs."""

    def settle(self, piece: Piece | Walk, limit: Limit) -> Generator[None, None, Settled]:
        """See `PieceProver`."""
        if isinstance(piece, Piece):
            return (yield from super().settle(piece, limit))
        rng = np.random.default_rng(piece.seed)
        return Settled(self.space.sample(rng, 2, feasible=True), (), None, {}, ())


class Backwards:
    """Two workers that take the latest pieces first, in turn, whatever they did before."""

    def __init__(self, space: MapSpace, objective: Any, top: int = 1) -> None:
        """Has nothing to do."""
        provers = [Walker(space, objective=objective, top=top) for _ in range(2)]
        provers[0].get_ready()
        self.workers = [Here(prover) for prover in provers]
        self.waiting: list[tuple[int, Piece, Limit]] = []

    def submit(self, number: int, piece: Piece, limit: Limit) -> None:
        """Takes a piece, or a walk."""
        self.waiting.append((number, piece, limit))

    def ready(self, seconds: float) -> Sequence[tuple[int, Settled]]:
        """Settles all that waits."""
        found = list[tuple[int, Settled]]()
        while self.waiting:
            worker = self.workers[len(self.waiting) % 2]
            worker.submit(*self.waiting.pop())
            found += worker.ready(1000.0)
        return found

    def drop(self, number: int) -> None:
        """As `forget`."""

    def forget(self) -> None:
        """Drops nothing: what nobody waits for comes all the same."""


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
    space, codes, objective = random_hierarchy(np.random.default_rng(seed), most)
    return check_space(space, codes, objective, patch)


def check_space(
    space: MapSpace, codes: Any, objective: Any, patch: pytest.MonkeyPatch
) -> Counter[str]:
    """As `check`, of a space and all of its mappings; about half of them with walks."""
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    worst = codes[int(values.argmax())][None]
    for module, name, value in SMALL:
        patch.setattr(module, name, value)
    texts, pools = [], (Here(Walker(space, objective=objective)), Backwards(space, objective))
    pool: Pool[Piece, Settled]
    for pool in pools:
        prover = SharedProver(space, pool, objective=objective, walks=3 * (len(codes) % 2))
        prover.offer(worst)
        texts.append(certificate(prover, float(values.min())))
    reached = LoopNestModel().evaluate(space, prover.codes(1)).objective(objective)[0]
    assert float(reached) <= float(values.min()) * (1 + 2e-12), f"{objective} of {space.workload}"
    assert texts[0] == texts[1]
    tasks = Counter(
        str(one.tables[0]) if isinstance(one.tables, tuple) else "walk" for one in prover.dealt
    )
    return tasks + Counter(dropped=sum(one.dropped is not None for one in prover.dealt))


def large(patch: pytest.MonkeyPatch, most: int = 300) -> None:
    """Has lattices count as large; most: tiles after which a piece leaves sets to others."""
    more = [*LARGE, (pieces, "MOST_ROW_TILES", most)]
    patch.setattr(sys.modules[__name__], "SMALL", SMALL + more)


def test_large_lattices_equal_exhaustive_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    brought, bring_back = [], tables.bring_back
    monkeypatch.setattr(tables, "bring_back", lambda *of: (brought.append(1), bring_back(*of)))
    large(monkeypatch)
    seeds = *range(9000, 9012), 9014, 9021, 9061, 9244
    tasks = [check(seed, 2000, monkeypatch) for seed in seeds]
    assert max(one["chains"] for one in tasks) > 3
    assert max(one["search"] for one in tasks) > 12
    assert len(brought) > 100


SEVERAL = (9031, 9090, 9106, 9293, 9363, 9494)
"""Of these problems several sets share tables outside all fan-outs."""


def test_sets_that_a_piece_leaves_are_bounded_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    large(monkeypatch)
    following, left = SharedProver._following, list[Piece]()

    def noted(self: SharedProver, piece: Piece, done: Settled) -> Any:
        for one in following(self, piece, done):
            if one.task == piece.task == "chains" and not done.unbounded:
                left.append(one)
            yield one

    monkeypatch.setattr(SharedProver, "_following", noted)
    for seed in SEVERAL:
        before = len(left)
        check(seed, 2000, monkeypatch)
        assert len(left) > before


def test_sets_that_are_left_and_forgotten_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    large(monkeypatch)
    monkeypatch.setattr(shared_prover, "PARTS", 0)

    def all_hold() -> None:
        for seed in (9002, 9022, 9029, 9069, 9077):
            check(seed, 2000, monkeypatch)

    with pytest.raises(AssertionError):
        all_hold()


def all_extents_but_odd_ones(self: Lattice, inside: Any, outer: Any) -> Any:
    """Tiles of a piece are multiples of twice what it asks for, where there are any."""
    cells = BETWEEN(self, inside, outer)
    fewer = BETWEEN(self, inside * np.where(self._shape.sizes % (2 * inside * outer), 1, 2), outer)
    return fewer if len(fewer) else cells


def as_filled(self: Any, group: int, of: Any, filled: int = 0) -> Any:
    """Tables of sets in a row are taken for each other's one level further in."""
    return TABLES_OF(self, group, of, filled and filled + 1)


def whatever_it_costs(self: Aside, keeps: tuple[int, ...], around: Any) -> bytes:
    """Tables are taken back whatever words cost."""
    return bytes(keeps[: self.levels])


BETWEEN, TABLES_OF = Lattice._cells_between, PieceProver._tables_of


@pytest.mark.parametrize(
    "broken",
    [
        (Lattice, "_cells_between", all_extents_but_odd_ones),
        (PieceProver, "_tables_of", as_filled),
        (Aside, "key", whatever_it_costs),
    ],
    ids=["tiles are left out", "levels that keep other tensors stay filled", "other prices"],
)
def test_broken_tables_of_large_lattices_are_caught(
    broken: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    large(monkeypatch, 100_000)
    monkeypatch.setattr(*broken)
    if broken[0] is Aside:
        monkeypatch.setattr(
            tables, "first_change", lambda before, around, *which: around.limit.size
        )

    def all_hold() -> None:
        for seed in (*SEVERAL, *range(9000, 9040)):
            check(seed, 2000, monkeypatch)

    with pytest.raises((AssertionError, IndexError, ValueError)):
        all_hold()


def test_shares_of_whole_tiles_equal_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SMALL", BETWEEN_TILES)
    tasks = [check(seed, 2000, monkeypatch) for seed in range(9000, 9012)]
    assert max(one["search"] for one in tasks) > 3


def test_equals_exhaustive_enumeration_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [check(seed, 2000, monkeypatch) for seed in range(9000, 9012)]
    assert max(one["floors"] for one in tasks) > 1
    assert max(one["chains"] for one in tasks) > 3
    assert max(one["search"] for one in tasks) > 12
    assert {0, 3} <= {one["walk"] for one in tasks}


def many_dealt(patch: pytest.MonkeyPatch) -> int:
    """As `check`, with many pieces dealt when better is found; how many were dropped."""
    patch.setattr(sys.modules[__name__], "SMALL", [one for one in SMALL if one[1] != "WINDOW"])
    return sum(check(seed, 2000, patch)["dropped"] for seed in range(9000, 9012))


def test_what_nobody_needs_any_more_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert many_dealt(monkeypatch) > 10


@pytest.mark.parametrize("seed", range(9000, 9004))
def test_which_tables_a_worker_keeps_changes_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, codes, objective = random_hierarchy(np.random.default_rng(seed), 2000)
    for module, name, value in SMALL:
        monkeypatch.setattr(module, name, value)
    texts = []
    for most in (1, 200_000, 1 << 29):
        monkeypatch.setattr(pieces, "MOST_BYTES", most)
        prover = SharedProver(
            space, Here(PieceProver(space, objective=objective)), objective=objective
        )
        prover.offer(codes[:1])
        prover.run()
        texts.append(certify(prover, 1.0).text())
    assert len(set(texts)) == 1


def test_energies_of_nothing_have_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    # All energies are zero, so their unit is 2^-89 pJ.
    check(9109, 2000, monkeypatch)


def check_ports(seeds: range, patch: pytest.MonkeyPatch) -> Counter[str]:
    """As `check`, where every port is limited.

    Returns:
        As there; `again`: how often price lists were left; `mix`: how often ports were mixed.
    """
    tasks, again, mixed = Counter[str](), list[bool](), list[bool]()

    def counts_mixed(self: SharedProver, piece: Piece, done: Settled) -> None:
        mixed.append(done.prices is not None and piece.prices is None)
        MERGE(self, piece, done)

    def counts(self: SharedProver, piece: Piece, done: Settled) -> None:
        again.append(done.unbounded)
        take(self, piece, done)

    take = SharedProver._take_bounds
    patch.setattr(SharedProver, "_take_bounds", counts)
    patch.setattr(SharedProver, "_merge", counts_mixed)
    for seed in seeds:
        space, codes = random_ports(seed, 1000)
        tasks += check_space(space, codes, ("edp", "ed2p")[seed % 2], patch)
    return tasks + Counter(again=sum(again), mix=sum(mixed))


def test_ports_are_bounded_and_mixed_by_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = check_ports(range(6), monkeypatch)
    assert tasks["mix"] > 6
    assert tasks["again"] > 6


def test_price_lists_that_are_forgotten_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(self: SharedProver, piece: Piece, done: Settled) -> None:
        if not done.unbounded:
            take(self, piece, done)

    take = SharedProver._take_bounds
    monkeypatch.setattr(SharedProver, "_take_bounds", forgets)
    with pytest.raises((AssertionError, RuntimeError, ValueError)):
        check_ports(range(6), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_more_equal_exhaustive_enumeration(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if block % 2:
        large(monkeypatch)
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


def without_the_first(trail: ShareTrail, shares: int) -> tuple[Left, ...]:
    """The first share that is left is forgotten."""
    return LEFT(trail, shares)[1:]


def entered_is_done(trail: ShareTrail, shares: int) -> tuple[Left, ...]:
    """A tile entered after others counts as through, though nothing of it was searched."""
    entered = trail._path[len(trail._listed) - 1 :]
    if trail._through[-1]:
        trail._listed[-1] = [child for child in trail._listed[-1] if child[1] not in entered]
    return LEFT(trail, shares)


def as_they_come(self: SharedProver, piece: Piece, done: Settled) -> None:
    """What was found by pieces that nobody has merged yet sets limits."""
    for code in (done.codes, *COME):
        self._known.take(code)
    MERGE(self, piece, done)


def below_half(self: InOrder[Piece, Settled], piece: Piece, limit: Limit) -> None:
    """What is foreseen looks below another limit than it is dealt with."""
    at = self._foreseen[piece, limit] = next(self._foreseen_numbers)
    self._pool.submit(at, piece, (limit[0] / 2, limit[1]))


BETWEEN_TILES = [(pieces, "AMID", 1000) if one[1] == "AMID" else one for one in SMALL]
"""Searches are split where they are through with a tile of their first level alone."""

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
        [(InOrder, "foresee", below_half)],
    ],
    ids=[
        "a tile is nobody's",
        "a worker remembers other pieces",
        "what is left is forgotten",
        "limits are set as pieces come",
        "floors are the end",
        "what is foreseen looks below another limit",
    ],
)
def test_broken_shares_are_caught(
    broken: list[tuple[Any, str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name, other in broken:
        monkeypatch.setattr(owner, name, other)

    def all_hold() -> None:
        for seed in range(9000, 9100):
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


def check_stops(seed: int, most: int, path: Path, patch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Stops a shared proof again and again; it goes on shared, or alone.

    Returns:
        How often, and how often amid the shares of a search.
    """
    rng = np.random.default_rng(seed)
    space, codes, objective = random_hierarchy(rng, most)
    for module, name, value in SMALL:
        patch.setattr(module, name, value)

    def shared() -> AnyProver:
        pool = Here(PieceProver(space, objective=objective))
        return SharedProver(space, pool, objective=objective, build=False)

    prover, stops, amid = shared(), 0, 0
    prover.offer(codes[rng.integers(len(codes), size=1)])
    certain = prover.lower_outcome
    while next(prover._work, prover) is not prover:
        if stops == MOST_STOPS or rng.random() > 0.3 or prover.progress() is None:
            continue
        path.write_text(certify(prover, 1.0).text())
        held = read_certificate(path).earlier
        assert held is not None
        assert isinstance(held.progress, AnyLevelsProgress)
        amid += bool(held.progress.shares)
        best = prover.codes(1)
        alone = AnyProver(space, objective=objective, build=False)
        prover = alone if rng.random() < 0.2 else shared()
        prover.offer(best)
        prover.resume(held)
        while not prover.built:
            next(prover._work)
        assert prover.rank_of(certain) <= prover.rank_of(prover.lower_outcome), "the bound fell"
        certain, stops = prover.lower_outcome, stops + 1
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    reached = float(LoopNestModel().evaluate(space, prover.codes(1)).objective(objective)[0])
    assert reached <= float(values.min()) * (1 + 2e-12), f"{objective} of {space.workload}"
    return stops, amid


def test_goes_on_alone_and_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = range(9000, 9012)
    stops = [check_stops(seed, 2000, tmp_path / "c.json", monkeypatch) for seed in seeds]
    assert sum(often for often, _ in stops) > 20
    assert sum(amid for _, amid in stops) > 5


def test_large_lattices_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large(monkeypatch)
    stops = [check_stops(s, 2000, tmp_path / "c.json", monkeypatch) for s in range(9000, 9006)]
    assert sum(often for often, _ in stops) > 5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_go_on(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if block % 2:
        large(monkeypatch)
    for seed in range(9100 + 20 * block, 9120 + 20 * block):
        check_stops(seed, 20_000, tmp_path / "c.json", monkeypatch)


def test_a_share_that_no_certificate_names_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule broken on purpose: of those that are left one is forgotten."""
    honest = SharedProver._recorded

    def forgets(self: SharedProver) -> AnyLevelsProgress | None:
        found = honest(self)
        return found and found.model_copy(update={"shares": found.shares[1:]})

    monkeypatch.setattr(SharedProver, "_recorded", forgets)

    def all_hold() -> None:
        for seed in range(9000, 9040):
            check_stops(seed, 2000, tmp_path / "c.json", monkeypatch)

    with pytest.raises(AssertionError):
        all_hold()


def check_best(seed: int, most: int, patch: pytest.MonkeyPatch) -> None:
    """Holds the best tilings of shared proofs against those of all mappings."""
    rng = np.random.default_rng(seed)
    space, codes, objective = random_hierarchy(rng, most)
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    top = int(rng.choice([2, 3, 7]))
    true = least_by_tiling(space, codes, values)[:top]
    for module, name, value in SMALL:
        patch.setattr(module, name, value)
    texts = []
    pools = Here(PieceProver(space, objective=objective, top=top)), Backwards(space, objective, top)
    first = codes[: rng.integers(3)]
    pool: Pool[Piece, Settled]
    for pool in pools:
        prover = SharedProver(space, pool, objective=objective, top=top, build=False)
        prover.offer(first)
        prover.run()
        texts.append(certify(prover, 1.0).text())
        found = LoopNestModel().evaluate(space, prover.codes(top)).objective(objective)
        np.testing.assert_allclose(found, true, rtol=5e-12)
    assert texts[0] == texts[1]


def check_some_best(patch: pytest.MonkeyPatch) -> None:
    """The best tilings of a few problems."""
    for seed in range(9000, 9008):
        check_best(seed, 2000, patch)


def test_the_best_tilings_equal_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    check_some_best(monkeypatch)


def test_dropping_what_could_win_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    drop = InOrder.drop
    monkeypatch.setattr(InOrder, "drop", lambda self, hopeless: drop(self, lambda piece: True))
    with pytest.raises((AssertionError, KeyError)):
        check_some_best(monkeypatch)


def best_of_whole_tiles(patch: pytest.MonkeyPatch) -> None:
    """As `check_some_best`, of searches that end between tiles of their first level."""
    patch.setattr(sys.modules[__name__], "SMALL", BETWEEN_TILES)
    for seed in range(9000, 9016):
        check_best(seed, 2000, patch)


def test_the_best_tilings_of_whole_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    best_of_whole_tiles(monkeypatch)


def test_a_tile_that_is_entered_alone_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule broken on purpose: it counts as searched."""
    monkeypatch.setattr(ShareTrail, "left", entered_is_done)
    with pytest.raises(AssertionError):
        best_of_whole_tiles(monkeypatch)
