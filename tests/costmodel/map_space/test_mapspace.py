"""Map spaces: sizes, uniform sampling, moves, projection, and codes that read back."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from costmodel import ConfigError, ContractError, MapSpace, accelerator, workload
from costmodel.arrays.tables import ordered_factorisations, prime_factors
from costmodel.problems.workload_families import cnn, gemm

MACHINES = ("mm256", "mindmappings", "mm256-bypass", "mindmappings-released", "eyeriss-168")


def mesh_space() -> MapSpace:
    levels = [{"name": "L2", "fanout": 16, "mesh": [4, 4], "hop_energy_pj": 0.5}]
    machine = accelerator({"extends": "mm256-bypass", "name": "mesh", "levels": levels})
    return MapSpace(cnn(name="c", N=2, K=8, C=6, P=6, Q=6, R=3, S=3), machine)


def spaces() -> list[MapSpace]:
    nest = cnn(name="c", N=2, K=16, C=12, P=10, Q=10, R=3, S=3)
    return [MapSpace(nest, accelerator(name)) for name in MACHINES] + [mesh_space()]


SPACES = spaces()
IDS = [space.accelerator.name for space in SPACES]


def test_attributes_of_the_papers_space() -> None:
    space = MapSpace(workload("resnet-conv4"), accelerator("mindmappings"))
    assert len(space.cardinality) == 12
    assert len(space.feature_names) == 62
    assert space.cardinality.tolist() == [35, 165, 165, 16, 16, 4, 4, 5040, 5040, 5040, 105, 105]
    assert space.size() == math.prod(space.cardinality.tolist())
    tall = MapSpace(workload("mttkrp-0"), accelerator("mindmappings"))
    assert len(tall.cardinality) == 9
    assert len(tall.feature_names) == 40
    assert tall.cardinality[-1] == 455


def test_space_size_of_the_paper() -> None:
    # The paper gives about 10^25 mappings for a typical CNN layer (section 3).
    assert 1e23 < MapSpace(workload("vgg-conv2"), accelerator("mindmappings")).size() < 1e27


@given(st.integers(1, 400), st.integers(1, 5))
@settings(max_examples=80)
def test_ordered_factorisations(number: int, parts: int) -> None:
    rows = ordered_factorisations(number, parts)
    assert (rows.prod(axis=1) == number).all()
    assert len({tuple(row) for row in rows.tolist()}) == len(rows)
    assert [tuple(row) for row in rows.tolist()] == sorted(tuple(r) for r in rows.tolist())
    counts = [prime_factors(number).count(p) for p in set(prime_factors(number))]
    assert len(rows) == math.prod(math.comb(c + parts - 1, parts - 1) for c in counts)


@pytest.mark.parametrize("space", SPACES, ids=IDS)
def test_sampling_is_uniform(space: MapSpace) -> None:
    codes = space.sample(np.random.default_rng(0), 60_000)
    space.check(codes)
    for column, cardinality in enumerate(space.cardinality):
        if cardinality <= 200:
            seen = np.bincount(codes[:, column], minlength=cardinality)
            assert stats.chisquare(seen).pvalue > 1e-6, space.attribute_names[column]


def test_feasible_sampling_is_uniform_over_feasible_mappings() -> None:
    levels = [
        {"name": "L2", "capacity_words": 40, "fanout": 2},
        {"name": "L1", "capacity_words": 12},
    ]
    machine = accelerator({"extends": "mm256", "name": "tiny", "levels": levels})
    space = MapSpace(gemm(name="g", M=4, N=2, K=3), machine)
    everything = np.stack(
        [column.ravel() for column in np.meshgrid(*[np.arange(c) for c in space.cardinality[:3]])],
        1,
    )
    every = np.zeros((len(everything), 6), np.int32)
    every[:, :3] = everything
    feasible = {tuple(row) for row in every[space.feasible(every)][:, :3].tolist()}
    assert 0 < len(feasible) < len(every)
    drawn = space.sample(np.random.default_rng(1), 50 * len(feasible), feasible=True)
    tilings, counts = np.unique(drawn[:, :3], axis=0, return_counts=True)
    assert {tuple(row) for row in tilings.tolist()} == feasible
    assert stats.chisquare(counts).pvalue > 1e-6
    share = len(feasible) / len(every)
    assert space.feasible_share(np.random.default_rng(2)) == pytest.approx(share, abs=0.02)


def test_a_space_without_feasible_mappings_says_why() -> None:
    levels = [{"name": "L1", "capacity_words": 2}]
    machine = accelerator({"extends": "mm256", "name": "none", "levels": levels})
    space = MapSpace(gemm(name="g", M=4, N=4, K=4), machine)
    with pytest.raises(ConfigError, match="capacity of L1 exceeded by 1 words at the least"):
        space.sample(np.random.default_rng(0), 3, feasible=True)


@pytest.mark.parametrize("space", SPACES, ids=IDS)
def test_codes_read_back(space: MapSpace) -> None:
    rng = np.random.default_rng(3)
    codes = space.sample(rng, 200, feasible=True)
    points = space.encode(codes)
    assert points.shape == (200, len(space.feature_names))
    assert points.dtype == np.float32
    assert np.array_equal(space.project(points), codes)
    for code in codes[:40]:
        assert np.array_equal(space.code(space.describe(code)), code)


@pytest.mark.parametrize("name", ["gemmini", "mm256-bypass", "eyeriss-168"])
def test_only_what_a_level_may_keep_has_a_code(name: str) -> None:
    """Of a mapping with any other set of tensors at any level it is said what may be kept."""
    space = MapSpace(gemm(name="g", M=4, N=4, K=4), accelerator(name))
    machine, tensors = space.tables.machine, space.workload.tensor_names
    mapping = space.describe(space.sample(np.random.default_rng(0), 1, feasible=True)[0])
    refused = 0
    for index, level in enumerate(mapping.levels):
        free = space.tables.keep_column[index] >= 0
        for bits in range(2 ** len(tensors)):
            keep = tuple(one for place, one in enumerate(tensors) if bits >> place & 1)
            levels = [*mapping.levels]
            levels[index] = dataclasses.replace(level, keep=keep)
            other = dataclasses.replace(mapping, levels=tuple(levels))
            must = int(machine.always_kept[index]) if free else bits_of(level.keep, tensors)
            may = ~int(machine.never_kept[index]) if free else must
            if must & ~bits or bits & ~may:
                with pytest.raises(
                    ConfigError, match=rf"mapping\.keep\.{level.name}: {name} keeps"
                ):
                    space.code(other)
                refused += 1
            else:
                assert space.describe(space.code(other)).levels[index].keep == keep
    assert refused > 5


def bits_of(names: tuple[str, ...], tensors: tuple[str, ...]) -> int:
    return sum(1 << tensors.index(name) for name in names)


@pytest.mark.parametrize("space", SPACES, ids=IDS)
def test_projection_is_always_feasible(space: MapSpace) -> None:
    rng = np.random.default_rng(4)
    width = len(space.feature_names)
    points = rng.normal(3, 30, (300, width))
    codes = space.project(points)
    space.check(codes)
    assert space.feasible(codes).all()
    with pytest.raises(ContractError, match="finite"):
        space.project(np.full((1, width), np.nan))


def test_projection_takes_any_finite_point() -> None:
    space = MapSpace(workload("resnet-conv4"), accelerator("mindmappings"))
    width = len(space.feature_names)
    points = np.array([[1e300] * width, [-1e300] * width, [np.finfo(np.float32).max] * width])
    codes = space.project(points)
    space.check(codes)
    assert space.feasible(codes).all()


def test_projection_is_the_nearest_factorisation() -> None:
    space = MapSpace(gemm(name="g", M=12, N=1, K=1), accelerator("mm256"))
    point = space.encode(np.zeros((1, 6), np.int32)).astype(np.float64)
    names = space.feature_names
    for name, value in (("temporal.DRAM.M", 2.9), ("spatial.L2.M", 3.6), ("temporal.L1.M", 1.2)):
        point[0, names.index(name)] = value
    mapping = space.describe(space.project(point)[0])
    assert [level.temporal["M"] for level in mapping.levels] == [3, 1, 1]
    assert mapping.levels[1].spatial["M"] == 4


@pytest.mark.parametrize("space", SPACES, ids=IDS)
def test_moves_are_neighbours(space: MapSpace) -> None:
    rng = np.random.default_rng(5)
    start = space.sample(rng, 1)
    known = {tuple(row) for row in space.neighbours(start[0]).tolist()}
    assert len(known) == len(space.neighbours(start[0])), "no repeats"
    moved = space.mutate(rng, np.repeat(start, 4000, axis=0))
    space.check(moved)
    seen = {tuple(row) for row in moved.tolist()} - {tuple(start[0].tolist())}
    assert seen <= known
    kinds = {
        kind
        for row in seen
        for kind, a, b in zip(space.attribute_kinds, row, start[0].tolist(), strict=True)
        if a != b
    }
    assert kinds == set(space.attribute_kinds)


def test_moves_return() -> None:
    space = SPACES[0]
    start = space.sample(np.random.default_rng(6), 1)[0]
    for row in space.neighbours(start)[::7]:
        assert any(np.array_equal(back, start) for back in space.neighbours(row))


def test_resample_keeps_what_is_not_masked() -> None:
    space = SPACES[1]
    rng = np.random.default_rng(7)
    codes = space.sample(rng, 500)
    mask = rng.random(codes.shape) < 0.3
    drawn = space.resample(rng, codes, mask)
    space.check(drawn)
    assert np.array_equal(drawn[~mask], codes[~mask])
    assert (drawn[mask] != codes[mask]).mean() > 0.5


def test_loop_nest_for_people() -> None:
    space = MapSpace(gemm(name="g", M=4, N=4, K=4), accelerator("mm256"))
    text = str(space.describe(space.sample(np.random.default_rng(8), 1)[0]))
    lines = text.splitlines()
    assert lines[0] == "DRAM"
    assert lines[-1].strip() == "multiply-accumulate"
    trips = [int(line.split()[-1]) for line in lines if "for " in line]
    assert math.prod(trips) == 64
