"""Floors of assignments, as listed and of levels apart, against all mappings of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import broken_copy, checked
from small_hierarchies import loses_searched, random_machine, smaller
from small_problems import every_mapping, random_parts

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.arrays.projections import PART_OF_INPUT
from costmodel.arrays.tables import Array
from costmodel.exact_any import prover as any_prover
from costmodel.exact_any.apart import Apart
from costmodel.exact_any.assignments import (
    Paths,
    least_of_spreads,
    list_assignments,
)
from costmodel.exact_any.layout import lay_out
from costmodel.exact_any.prover import AnyProver
from costmodel.tile_chains import tables
from costmodel.tile_chains.interchange import interchanges
from costmodel.tile_chains.ports import ports
from costmodel.tile_chains.spatial import keep_choices
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import weights
from mapspace.errors import ConfigError

# Problems with so many assignments that to list them takes seconds.
MANY = (4, 41)

# What a broken rule would claim: (function, what it says there, what it becomes).
BREAKS = {
    "all tensors move": (
        "_fill_entering",
        "kind < 0 or (shape.class_rest[kind] >> t) & 1",
        "False",
    ),
    "a row for one set of tensors serves all": (
        "_rows_of",
        "np.where(kept[which] > 0, nearest[which], 0)",
        "0 * nearest[which]",
    ),
    "the least is that of the last tile": ("_lower", "min(least[c], cost)", "cost"),
    "no set of tensors is too large": (
        "_rows_of",
        "lattice.fits(level, mask) & one_point",
        "lattice.fits(level, mask)[-1] & one_point",
    ),
    "a tile has one point where nothing moves": (
        "_kept_rows",
        "np.searchsorted(own, extent)",
        "0",
    ),
    "no loop outside moves nothing": ("_kept_rows", "extent > inner[d]", "False"),
}

CHECK = """
import sys
sys.path.insert(0, sys.argv[1])
from test_levels_apart import check_floors
for seed in range(100):
    check_floors(seed, 600)
print("all equal")
"""

Exact = dict[tuple[tuple[int, ...], bytes], tuple[float, int]]

TWO = {
    "name": "two",
    "mac_energy_pj": 1.0,
    "bypass": "searched",
    "levels": [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
    ],
}


def _floors(space: MapSpace) -> dict[tuple[object, ...], float]:
    """The floor of every assignment: kept tensors, spatial factors."""
    one, keeps = lay_out(0, space, None), keep_choices(space)
    *_, listed = list_assignments(space, one.spreads, keeps)
    assert listed is not None
    groups = listed.groups
    found: dict[tuple[object, ...], float] = {}
    apart = Apart(one, keeps, groups[0].choice)
    for a, spatial in enumerate(one.spreads.spatial(groups[0].choice)):
        *_, floors = apart.floors(a)
        assert floors is not None
        for group, floor in zip(groups, floors.tolist(), strict=True):
            found[group.keeps, spatial.tobytes()] = float(group.fixed[a]) + floor
    return found


def _listed(space: MapSpace) -> dict[tuple[object, ...], tuple[float, int]]:
    """The energy and the cycles that every assignment is listed with."""
    one = lay_out(0, space, None)
    found = {}
    *_, listed = list_assignments(space, one.spreads, keep_choices(space), ports(space))
    assert listed is not None
    for group in listed.groups:
        for a, spatial in enumerate(one.spreads.spatial(group.choice)):
            key = group.keeps, spatial.tobytes()
            found[key] = float(group.energy[a]), int(group.cycles[a])
    return found


def _listed_as(
    space: MapSpace, key: tuple[tuple[int, ...], bytes], floors: Collection[object]
) -> tuple[object, ...]:
    """The assignment that stands for one: itself, or its image under other names (lemma 16)."""
    keeps, spatial = key
    factors = np.frombuffer(spatial, np.int64).reshape(-1, space.tables.sizes.size)
    vectors = lay_out(0, space, None).spreads.vectors
    images = [factors, *(factors[:, renamed] for renamed in interchanges(space, vectors))]
    (found,) = {image.tobytes() for image in images if (keeps, image.tobytes()) in floors}
    return keeps, found


def _enumerated(space: MapSpace, most: int) -> Exact | None:
    """The least energy and cycles of every assignment by all mappings; None: they are too many."""
    codes = every_mapping(space, most)
    if codes is None or not len(codes):
        return None
    costs = LoopNestModel().evaluate(space, codes)
    found: Exact = {}
    names, dimensions = space.workload.tensor_names, space.workload.dimension_names
    columns = np.ones(codes.shape[1], bool)
    columns[[c for c in space.tables.order_column if c >= 0]] = False
    memory: dict[bytes, tuple[tuple[int, ...], bytes]] = {}
    both = zip(costs.energy_pj.tolist(), costs.latency_cycles.tolist(), strict=True)
    for code, (energy, cycles) in zip(codes, both, strict=True):
        short = code[columns].tobytes()
        if short not in memory:
            levels = space.describe(code).levels
            keeps = tuple(sum(1 << names.index(n) for n in level.keep) for level in levels)
            rows = [[level.spatial.get(d, 1) for d in dimensions] for level in levels]
            memory[short] = keeps, np.array(rows, np.int64).tobytes()
        less, fewer = found.get(memory[short], (energy, cycles))
        found[memory[short]] = min(less, energy), min(fewer, int(cycles))
    return found


def _random_space(rng: np.random.Generator, seed: int) -> MapSpace:
    """A random problem whose bypass is searched."""
    while True:
        work, _ = random_parts(rng)
        try:
            machine = {**random_machine(rng), "bypass": "searched"}
            if seed % 2:
                machine["levels"][int(rng.integers(2))]["bandwidth"] = 0.3
            return MapSpace(workload(smaller(rng, work)), accelerator(machine))
        except ConfigError:
            continue


def check_floors(seed: int, most: int) -> tuple[int, int]:
    """Holds the floors of a random problem whose bypass is searched against its mappings.

    Returns:
        How many assignments have mappings, and how many floors are met.
    """
    rng = np.random.default_rng(seed)
    while True:
        space = _random_space(rng, seed)
        exact = _enumerated(space, most)
        if exact is not None and len(keep_choices(space)) > 1:
            break
    floors, listed = _floors(space), _listed(space)
    met = 0
    for one, (energy, cycles) in exact.items():
        key = one if one in floors else _listed_as(space, one, floors)
        assert floors[key] <= energy * (1 + 1e-9) + 1e-9, f"{seed}: {key}"
        assert listed[key][0] <= energy * (1 + 1e-9) + 1e-9, f"{seed}: {key}"
        assert listed[key][1] <= cycles, f"{seed}: {key}"
        met += floors[key] >= energy * (1 - 1e-9)
    return len(exact), met


def test_no_mapping_is_below_the_floor_of_its_assignment() -> None:
    counts = np.array([check_floors(seed, 600) for seed in range(15)])
    assignments, met = counts.sum(axis=0)
    assert assignments > 150
    assert met > assignments / 4


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_no_mapping_of_more_is_below_the_floor_of_its_assignment(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        check_floors(seed, 30_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, *BREAKS])
def test_a_broken_rule_is_caught(name: str | None, tmp_path: Path) -> None:
    changes = [] if name is None else [("exact_any/apart.py", *BREAKS[name])]
    broken_copy(tmp_path, *changes)
    done = checked(tmp_path, CHECK, Path(__file__).parent)
    if name is None:
        assert done.stdout == "all equal\n", done.stderr
    else:
        assert "in check_floors\n    assert floors[key]" in done.stderr, done.stderr


def test_tables_below_what_levels_inside_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables end where no tile is left, as those of large problems do."""
    monkeypatch.setattr(tables, "FEW", 0)
    assert not any(loses_searched(seed) for seed in range(30))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_tables_below_what_levels_inside_need(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "FEW", 0)
    assert not any(
        loses_searched(seed, 10_000) for seed in range(2000 + 30 * block, 2030 + 30 * block)
    )


def test_levels_inside_that_need_too_much_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = any_prover._entering

    def twice(*asked: Any) -> np.ndarray | None:
        entering = honest(*asked)
        return None if entering is None else 2 * entering

    monkeypatch.setattr(any_prover, "_entering", twice)
    assert any(loses_searched(seed) for seed in range(60))


def test_tables_that_ended_early_are_filled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEW", 0)
    space = MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("register256"))
    one, keeps = lay_out(0, space, None), keep_choices(space)[-1]
    choice = one.spreads.choices()
    spatial = one.spreads.spatial(choice[[0, -1]])
    found = weights(space, keeps, spatial)

    def filled(table: tables.ChainTables, a: int, limit: float) -> float:
        for _ in table.fill(spatial[a], found.outer[a], found.weight[a], None, np.full(4, limit)):
            pass
        return table.least

    table = tables.ChainTables(one.shape, one.lattice.tiles(keeps), keeps, one.credits)
    alone = [filled(table.another(), a, np.inf) for a in range(2)]
    assert np.isfinite(alone).all()
    assert filled(table, 0, 0.0) == filled(table, 1, 0.0) == np.inf
    assert [filled(table, a, np.inf) for a in range(2)] == alone


def test_a_floor_counted_by_hand() -> None:
    """A 2 x 2 x 2 product, one word of each tensor at L1, or of two, or of one.

    With all at L1 the tests of hierarchies count 2052. If the output alone is kept, its loop rests:
    L1 fills nothing, as all 4 words begin there, and DRAM reads 8 words of A and of B for the MACs
    and takes 4 of Z; L1 updates 8 sums, of which 4 are new: 4 reads.
    """
    space = MapSpace(workload("gemm:M=2,N=2,K=2"), accelerator(TWO))
    floors = {key[0]: floor for key, floor in _floors(space).items()}
    assert floors[7, 7] == pytest.approx(2052.0)
    (output,) = 1 << np.flatnonzero(space.tables.part_kind != PART_OF_INPUT)
    assert floors[7, output] == pytest.approx(8 + 100 * (8 + 8 + 4) + (8 + 4))


def test_floors_that_are_not_wanted_are_no_higher() -> None:
    """Those that matter are what they are where all do, level by level too."""
    machine = accelerator({"extends": "eyeriss", "bypass": "searched"})
    space = MapSpace(workload("gemm:M=16,N=8,K=8"), machine)
    one, keeps = lay_out(0, space, None), keep_choices(space)
    choice = one.spreads.choices()
    rng, apart, other = np.random.default_rng(0), *(Apart(one, keeps, choice) for _ in range(2))
    for a in range(0, len(choice), 7):
        least = int(rng.integers(len(keeps)))
        wanted = np.arange(len(keeps)) == least
        (*_, every), (*_, some) = apart.floors(a), other.floors(a, wanted)
        assert every is not None
        assert some is not None
        assert some[least] == every[least]
        assert (some <= every).all()
        assert (some < every).any()
        np.testing.assert_array_equal(other.by_level(a, least), apart.by_level(a, least))
        for g, floor in enumerate(every.tolist()):
            assert apart.by_level(a, g).sum() == pytest.approx(floor, rel=1e-12)


def test_the_best_mapping_may_come_while_floors_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another search finds meanwhile can end all assignments that chains were to bound."""
    machine = accelerator({"extends": "mm256", "bypass": "searched"})
    space = MapSpace(workload("gemm:M=64,N=64,K=32"), machine)
    best = AnyProver(space)
    while not best.finished:
        best.step()
    codes = best.codes(1)
    prover, raised = AnyProver(space), Apart.floors
    called: list[int] = []

    def floors(apart: Apart, a: int, wanted: np.ndarray) -> Iterator[np.ndarray | None]:
        called.append(a)
        prover.offer(codes)
        return raised(apart, a, wanted)

    monkeypatch.setattr(Apart, "floors", floors)
    while not prover.finished:
        prover.step()
    assert called
    assert prover.best_outcome == best.best_outcome


def check_spreads(seeds: Iterable[int]) -> int:
    """Holds what is said of spatial factors under all kept tensors against every assignment.

    Args:
        seeds: decide the problems.

    Returns:
        How many there are of which that is what the least assignment needs.
    """
    met = 0
    for seed in seeds:
        space = _random_space(np.random.default_rng(seed), seed)
        one, keeps = lay_out(0, space, None), keep_choices(space)
        limited = ports(space)
        *_, listed = list_assignments(space, one.spreads, keeps, limited)
        assert listed is not None
        spatial = one.spreads.spatial(listed.groups[0].choice)
        for could in (True, False):

            def could_win(energy: FloatArray, cycles: Array, could: bool = could) -> Array:
                return np.full(len(energy), could)

            energy, cycles = least_of_spreads(space, limited, spatial, keeps, could_win)
            np.testing.assert_array_less(energy, listed.energy.min(axis=0) + 1e-9)
            assert (cycles <= listed.cycles.min(axis=0)).all()
            near = np.isclose(energy, listed.energy.min(axis=0), rtol=1e-12)
            met += int((near & (cycles == listed.cycles.min(axis=0))).sum()) if could else 0
    return met


def test_no_assignment_needs_less_than_its_spatial_factors() -> None:
    assert check_spreads(seed for seed in range(80) if seed not in MANY) > 100


@pytest.mark.slow
def test_no_assignment_of_many_needs_less_than_its_spatial_factors() -> None:
    assert check_spreads(MANY) > 0


def test_paths_that_are_not_the_least_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Paths, "least", lambda self, found: found.max(axis=0).sum(axis=1))
    with pytest.raises(AssertionError):
        check_spreads(range(80))
