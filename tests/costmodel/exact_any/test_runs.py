"""Sets of kept tensors that are bounded in a row, one after another in the same tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from small_hierarchies import loses_searched

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact_any import chain_bounds, prover
from costmodel.exact_any.assignments import Assignments
from costmodel.exact_any.chain_bounds import ChainBounds
from costmodel.exact_any.layout import OneOrder, lay_out
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.runs import levels_outside
from costmodel.exact_any.weighing import Weighed
from costmodel.tile_chains import tables
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
    monkeypatch.setattr(prover, "MOST_HELD", 0)


@pytest.mark.usefixtures("large")
def test_equals_exhaustive_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, runs = ChainBounds.outside, 0

    def outside(
        self: ChainBounds, one: OneOrder, run: list[tuple[Assignments, Weighed]]
    ) -> chain_bounds.Outside | None:
        nonlocal runs
        runs += len(run) > 1
        return honest(self, one, run)

    monkeypatch.setattr(ChainBounds, "outside", outside)
    assert not any(loses_searched(seed) for seed in range(50))
    assert runs >= 10


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.usefixtures("large")
def test_more_equal_exhaustive_enumeration(block: int) -> None:
    assert not any(
        loses_searched(seed, 10_000) for seed in range(4000 + 30 * block, 4030 + 30 * block)
    )


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_tiles_that_a_row_needs_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimum is found again below a limit just above it, but not among whole extents alone."""
    space = MapSpace(workload("gemm:M=16,N=16,K=16"), accelerator(SMALL))
    first = AnyProver(space)
    first.run()
    best = LoopNestModel().evaluate(space, first.codes())
    limit = float(best.energy_pj[0]) * (1 + 1e-9), float(best.latency_cycles[0])
    assert AnyProver(space).finds_below(limit)
    honest, rows = ChainBounds.outside, 0

    def outside(
        self: ChainBounds, one: OneOrder, run: list[tuple[Assignments, Weighed]]
    ) -> chain_bounds.Outside | None:
        nonlocal rows
        found = honest(self, one, run)
        if found is None:
            return None
        rows += 1
        whole = np.tile(one.space.tables.sizes, (len(found.inside), 1))
        return found._replace(inside=whole)

    monkeypatch.setattr(ChainBounds, "outside", outside)
    assert not AnyProver(space).finds_below(limit)
    assert rows


def _filled(
    table: ChainTables, one: OneOrder, keeps: tuple[int, ...], a: int, paid: int, more: bool
) -> float:
    """The least by tables where words that enter levels before `paid` cost nothing."""
    spatial = one.spreads.spatial(one.spreads.choices()[[a]])
    found = weights(one.space, keeps, spatial)
    found.weight[:, :paid] = 0
    follows = np.ones((levels_outside(one), found.weight.shape[2]), np.int64) if more else None
    for _ in table.fill(spatial[0], found.outer[0], found.weight[0], more=follows):
        pass
    return table.least


def _said() -> Iterator[tuple[float, float]]:
    """What turned tables say, whatever they were filled for before, and what new ones say."""
    space = MapSpace(workload("cnn:N=1,K=8,C=4,P=4,Q=4,R=3,S=3"), accelerator(SMALL))
    one, choices = lay_out(0, space, None), keep_choices(space)
    rng, count = np.random.default_rng(1), len(one.spreads.choices())
    held = [ChainTables(one.shape, one.lattice.tiles(choices[-1]), choices[-1], one.credits)]
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
            paid, more = int(rng.integers(1, 4)), bool(rng.random() < 0.5)
            turned = _filled(held[0], one, keeps, a, paid, more)
            yield turned, _filled(fresh, one, keeps, a, paid, more=False)


@pytest.mark.parametrize("few", [0, tables.FEW])
def test_turned_tables_say_what_new_ones_say(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEW", few)
    said = list(_said())
    assert all(turned == new for turned, new in said)
    assert sum(new < np.inf for _, new in said) >= 40


def test_tables_of_other_kept_tensors_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ChainTables.turn_to

    def turn_to(self: ChainTables, tiles: Tiles, keeps: tuple[int, ...]) -> None:
        honest(self, tiles, keeps)
        self._valid = len(keeps)

    monkeypatch.setattr(ChainTables, "turn_to", turn_to)
    assert any(turned != new for turned, new in _said())


def _close_together(
    rng: np.random.Generator, choices: list[tuple[int, ...]]
) -> Iterator[tuple[int, ...]]:
    """Sets of kept tensors, of which neighbours often keep the same further out."""
    for _ in range(12):
        first = choices[rng.integers(len(choices))]
        same = [keeps for keeps in choices if keeps[:2] == first[:2]]
        for at in rng.permutation(len(same))[:4]:
            yield same[at]
