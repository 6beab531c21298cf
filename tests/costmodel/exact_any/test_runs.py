"""Sets of kept tensors that are bounded in a row, one after another in the same tables."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import pytest
from small_hierarchies import MOST_MAPPINGS, check_proof, loses_searched
from small_problems import every_mapping

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES
from costmodel.exact_any import held, prover
from costmodel.exact_any.layout import OneOrder, lay_out
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.runs import levels_outside
from costmodel.exact_any.weighing import Weighed
from costmodel.tile_chains import aside, tables
from costmodel.tile_chains.entering import Around
from costmodel.tile_chains.spatial import keep_choices
from costmodel.tile_chains.tables import ChainTables, turn_all_to
from costmodel.tile_chains.tiles import Tiles
from costmodel.tile_chains.weights import weights

SMALL = {
    "name": "small",
    "mac_energy_pj": 1.0,
    "bypass": "searched",
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {"name": "L3", "energy_pj": 8.0, "capacity_words": 200, "fanout": 2},
        {"name": "L2", "energy_pj": 2.0, "capacity_words": 60, "fanout": 4},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 16},
    ],
}


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lattices have room for the tables of one set of kept tensors, as those of large ones."""
    monkeypatch.setattr(tables, "FEW", 0)
    monkeypatch.setattr(held, "MOST_HELD", 0)


@pytest.mark.usefixtures("large")
def test_equals_exhaustive_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, runs = AnyProver._run, 0

    def run(self: AnyProver, *given: Any) -> Generator[None, None, list[tuple[int, Weighed]]]:
        nonlocal runs
        found = yield from honest(self, *given)
        runs += len(found) > 1
        return found

    monkeypatch.setattr(AnyProver, "_run", run)
    assert not any(loses_searched(seed) for seed in range(50))
    assert runs >= 10


def _takes_turns(seed: int) -> bool:
    """Whether a problem is proven wrongly whose sets of kept tensors are taken up in turns."""
    rng = np.random.default_rng(seed)
    m, n, k = rng.integers(1, 5, size=3).tolist()
    dram, middle, inner = (float(rng.choice(of)) for of in ((200, 20), (6, 2), (1, 0.3)))
    machine = {
        "name": "turns",
        "mac_energy_pj": 1.0,
        "bypass": "searched",
        "levels": [
            {"name": "L0", "energy_pj": dram},
            {
                "name": "L1",
                "energy_pj": middle,
                "capacity_words": int(rng.choice([6, 12, 24])),
                "fanout": int(rng.choice([2, 4])),
            },
            {"name": "L2", "energy_pj": inner, "capacity_words": int(rng.choice([3, 6, 12]))},
        ],
    }
    space = MapSpace(workload(f"gemm:M={m},N={n},K={k}"), accelerator(machine))
    codes = every_mapping(space, MOST_MAPPINGS)
    if codes is None or not len(codes):
        return False
    try:
        check_proof(space, codes, OBJECTIVES[seed % len(OBJECTIVES)])
    except AssertionError:
        return True
    return False


@pytest.fixture
def in_turns(large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is bounded in a row."""
    monkeypatch.setattr(prover, "MOST_IN_A_ROW", 1)


@pytest.mark.usefixtures("in_turns")
def test_tables_taken_back_equal_exhaustive_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    back = _count_back(monkeypatch)
    assert not any(_takes_turns(seed) for seed in range(50))
    assert len(back) >= 10


@pytest.mark.slow
@pytest.mark.usefixtures("in_turns")
@pytest.mark.parametrize("first", [50, *range(1000, 2000, 200)])
def test_more_tables_taken_back_equal_exhaustive_enumeration(first: int) -> None:
    assert not any(_takes_turns(seed) for seed in range(first, first + 200))


@pytest.mark.usefixtures("in_turns")
def test_tables_that_are_not_taken_back_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay those of other kept tensors."""
    monkeypatch.setattr(tables, "bring_back", lambda *given: None)
    assert any(_takes_turns(seed) for seed in range(100))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.usefixtures("large")
def test_more_equal_exhaustive_enumeration(block: int) -> None:
    assert not any(
        loses_searched(seed, 10_000) for seed in range(4000 + 30 * block, 4030 + 30 * block)
    )


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_tiles_that_others_need_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimum is found again below a limit just above it, but not among whole extents alone."""
    space = MapSpace(workload("gemm:M=16,N=16,K=16"), accelerator(SMALL))
    first = AnyProver(space)
    first.run()
    best = LoopNestModel().evaluate(space, first.codes())
    limit = float(best.energy_pj[0]) * (1 + 1e-9), float(best.latency_cycles[0])
    assert AnyProver(space).finds_below(limit)
    honest, rows = ChainTables._around_of, 0

    def around_of(self: ChainTables, *given: Any) -> Around:
        nonlocal rows
        found = honest(self, *given)
        if self.serves_others:
            rows += 1
            found.inner[1:2] = space.tables.sizes
        return found

    monkeypatch.setattr(ChainTables, "_around_of", around_of)
    assert not AnyProver(space).finds_below(limit)
    assert rows


def _count_back(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows with every table that is taken back."""
    back: list[None] = []

    def bring_back(*given: Any) -> None:
        back.append(None)
        honest(*given)

    honest = aside.bring_back
    monkeypatch.setattr(tables, "bring_back", bring_back)
    return back


def _filled(table: ChainTables, one: OneOrder, keeps: tuple[int, ...], a: int, paid: int) -> float:
    """The least by tables where words that enter levels before `paid` cost nothing."""
    spatial = one.spreads.spatial(one.spreads.choices()[[a]])
    found = weights(one.space, keeps, spatial)
    found.weight[:, :paid] = 0
    for _ in table.fill(spatial[0], found.outer[0], found.weight[0]):
        pass
    return table.least


def _said() -> Iterator[tuple[float, float]]:
    """What turned tables say, whatever they were filled for before, and what new ones say."""
    space = MapSpace(workload("cnn:N=1,K=8,C=4,P=4,Q=4,R=3,S=3"), accelerator(SMALL))
    one, choices = lay_out(0, space, None), keep_choices(space)
    rng, count = np.random.default_rng(1), len(one.spreads.choices())
    tiles, outside = one.lattice.tiles(choices[-1]), levels_outside(one)
    held = [ChainTables(one.shape, tiles, choices[-1], one.credits, outside=outside)]
    assert held[0].may_serve(one.shape)
    for keeps in _close_together(rng, choices):
        turn_all_to(held, one.lattice, keeps)
        new = one.lattice.tiles(keeps)
        size = int(new.start[-1])
        for name, old in held[0].tiles._asdict().items():
            whole = name in ("start", "at")
            np.testing.assert_array_equal(old if whole else old[:size], getattr(new, name))
        for a in rng.integers(count, size=2).tolist():
            fresh = ChainTables(one.shape, new, keeps, one.credits)
            # As energy has it, or a port further in.
            paid = int(rng.integers(1, 4))
            yield _filled(held[0], one, keeps, a, paid), _filled(fresh, one, keeps, a, paid)


@pytest.mark.parametrize("few", [0, tables.FEW])
def test_turned_tables_say_what_new_ones_say(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEW", few)
    back = _count_back(monkeypatch)
    said = list(_said())
    assert all(turned == new for turned, new in said)
    assert sum(new < np.inf for _, new in said) >= 40
    # What is filled without a pause is small.
    assert (len(back) >= 10) is (few == 0)


def test_tables_of_other_kept_tensors_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ChainTables.turn_to

    def turn_to(self: ChainTables, tiles: Tiles, keeps: tuple[int, ...]) -> None:
        honest(self, tiles, keeps)
        self._valid = len(keeps)

    monkeypatch.setattr(ChainTables, "turn_to", turn_to)
    assert any(turned != new for turned, new in _said())


@pytest.mark.parametrize("key", ["kept tensors", "prices"])
def test_tables_put_aside_for_others_are_caught(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either alone does not say which tables they are."""

    def part(self: aside.Aside, keeps: tuple[int, ...], around: Around) -> bytes:
        return bytes(keeps) if key == "kept tensors" else around.weight[: self.levels].tobytes()

    def first_change(*given: Any) -> int:
        return outside if given[2] == 1 else int(honest(*given))

    honest, outside = tables.first_change, 2
    monkeypatch.setattr(tables, "FEW", 0)
    monkeypatch.setattr(aside.Aside, "key", part)
    monkeypatch.setattr(tables, "first_change", first_change)
    # Other tensors leave room for other tiles: tables may not even have as many rows.
    with pytest.raises((AssertionError, ValueError)):
        assert all(turned == new for turned, new in _said())


def _close_together(
    rng: np.random.Generator, choices: list[tuple[int, ...]]
) -> Iterator[tuple[int, ...]]:
    """Sets of kept tensors, of which neighbours often keep the same further out."""
    for _ in range(12):
        first = choices[rng.integers(len(choices))]
        same = [keeps for keeps in choices if keeps[:2] == first[:2]]
        for at in rng.permutation(len(same))[:4]:
            yield same[at]
