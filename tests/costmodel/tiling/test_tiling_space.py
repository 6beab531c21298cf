"""The tilings of a matrix product against the paper's numbers, by hand, and by enumeration."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import Codes, ConfigError, ContractError, workload
from costmodel.tiling import Tiling, TilingSpace
from costmodel.tiling.loop_nest import nest

SIZES = st.sampled_from([1, 2, 3, 4, 6, 7, 8, 12, 13, 16, 30, 36, 64, 100, 128])


def space_of(m: int, k: int, n: int, splits: tuple[int, int, int] = (4, 2, 4)) -> TilingSpace:
    return TilingSpace(workload(f"gemm:M={m},N={n},K={k}"), splits=splits)


def every_code(space: TilingSpace) -> Codes:
    counts = [range(int(count)) for count in space.cardinality]
    return np.array(list(itertools.product(*counts)), np.int32)


@st.composite
def spaces_with_codes(draw: st.DrawFn) -> tuple[TilingSpace, Codes, np.random.Generator]:
    splits = draw(st.tuples(*[st.integers(1, 4)] * 3))
    space = space_of(draw(SIZES), draw(SIZES), draw(SIZES), splits)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return space, space.sample(rng, 9), rng


def is_one_move(before: Any, after: Any, splits: tuple[int, int, int]) -> bool:
    """Whether one prime went from one loop to another of the same dimension, told from counts."""
    changed = np.flatnonzero(before != after)
    if len(changed) != 2:
        return False
    owner = np.repeat([0, 1, 2], splits)[changed]
    lost, won = sorted(changed, key=lambda loop: after[loop] / before[loop])
    prime = int(before[lost]) // int(after[lost])
    return (
        owner[0] == owner[1]
        and after[lost] * prime == before[lost]
        and before[won] * prime == after[won]
        and prime > 1
        and all(prime % divisor for divisor in range(2, prime))
    )


@pytest.mark.parametrize(
    ("name", "size"), [("gemm-512", 484_000), ("gemm-1024", 899_756), ("gemm-2048", 1_589_952)]
)
def test_sizes_are_the_papers(name: str, size: int) -> None:
    assert TilingSpace(workload(name)).size() == size


def test_the_order_of_the_loops() -> None:
    def names(*splits: int) -> str:
        return " ".join(loop.name for loop in nest(splits))  # type: ignore[arg-type]

    assert names(4, 2, 4) == "m0 n0 m1 n1 k0 m2 n2 k1 m3 n3"
    assert names(2, 1, 2) == "m0 n0 k0 m1 n1"
    assert names(1, 3, 1) == "k0 k1 k2 m0 n0"


def test_a_tiling_by_hand() -> None:
    space = space_of(12, 10, 6)
    code = space.codes(np.array([[2, 3, 1, 2, 5, 2, 1, 1, 6, 1]]))[0]
    tiling = space.describe(code)
    assert tiling == Tiling({"M": (2, 3, 1, 2), "K": (5, 2), "N": (1, 1, 6, 1)})
    assert tiling.to_record() == {"M": [2, 3, 1, 2], "K": [5, 2], "N": [1, 1, 6, 1]}
    assert str(tiling).splitlines() == [
        "for m0 in 2",
        "  for m1 in 3",
        "    for k0 in 5",
        "      for n2 in 6",
        "        for k1 in 2",
        "          for m3 in 2",
        "            multiply-accumulate",
    ]


def test_start_is_the_papers() -> None:
    space = space_of(12, 7, 16)
    expected = {"M": (12, 1, 1, 1), "K": (7, 1), "N": (16, 1, 1, 1)}
    assert space.describe(space.start).factors == expected


def test_neighbours_of_a_power_of_two_are_the_papers_actions() -> None:
    """Double one factor and halve another of the same dimension, as equation 6 writes it."""
    space = space_of(16, 8, 4)
    row = np.array([2, 4, 1, 2, 4, 2, 1, 2, 2, 1])
    expected = set()
    for columns in (range(4), range(4, 6), range(6, 10)):
        for up, down in itertools.permutations(columns, 2):
            moved = row.copy()
            moved[up] *= 2
            if moved[down] % 2 == 0:
                moved[down] //= 2
                expected.add(tuple(moved.tolist()))
    found = space.factors(space.neighbours(space.codes(row[None])[0]))
    assert len(found) == len(expected) == 3 * 3 + 2 * 1 + 2 * 3
    assert set(map(tuple, found.tolist())) == expected


@pytest.mark.parametrize("sizes", [(8, 4, 2), (12, 6, 5), (1, 9, 30), (7, 7, 7), (1, 1, 1)])
def test_moves_reach_every_tiling_from_the_start(sizes: tuple[int, int, int]) -> None:
    space = space_of(*sizes)
    seen, front = {tuple(space.start)}, [space.start]
    while front:
        reached = [row for code in front for row in space.neighbours(code)]
        front = []
        for row in reached:
            if tuple(row) not in seen:
                seen.add(tuple(row))
                front.append(row)
    assert len(seen) == space.size()


@settings(max_examples=60)
@given(drawn=spaces_with_codes())
def test_factors_multiply_to_the_sizes_and_come_back(drawn: Any) -> None:
    space, codes, _ = drawn
    factors = space.factors(codes)
    edges = np.cumsum((0, *space.splits))
    for d, name in enumerate("MKN"):
        product = factors[:, edges[d] : edges[d + 1]].prod(axis=1)
        assert (product == space.workload.dimensions[name]).all()
    np.testing.assert_array_equal(space.codes(factors), codes)
    np.testing.assert_array_equal(space.project(space.encode(codes)), codes)


@settings(max_examples=60)
@given(drawn=spaces_with_codes())
def test_neighbours_are_one_move_away_and_symmetric(drawn: Any) -> None:
    space, codes, _ = drawn
    code = codes[0]
    before = space.factors(code[None])[0]
    around = space.neighbours(code)
    assert len(np.unique(around, axis=0)) == len(around)
    for row, after in zip(around, space.factors(around), strict=True):
        assert is_one_move(before, after, space.splits)
        assert (space.neighbours(row) == code).all(axis=1).any()


@pytest.mark.parametrize("sizes", [(4, 4, 2), (6, 2, 3), (1, 6, 1)])
def test_no_move_is_missing(sizes: tuple[int, int, int]) -> None:
    """Against every pair of codes, told from the factors alone."""
    space = space_of(*sizes, splits=(3, 2, 2))
    codes = every_code(space)
    factors = space.factors(codes)
    for code, before in zip(codes, factors, strict=True):
        expected = {
            tuple(other.tolist())
            for other, after in zip(codes, factors, strict=True)
            if is_one_move(before, after, space.splits)
        }
        assert set(map(tuple, space.neighbours(code).tolist())) == expected


@settings(max_examples=60)
@given(drawn=spaces_with_codes())
def test_mutations_are_moves(drawn: Any) -> None:
    space, codes, rng = drawn
    before = codes.copy()
    moved = space.mutate(rng, codes)
    np.testing.assert_array_equal(codes, before)
    assert moved.dtype == np.int32
    for old, new in zip(codes, moved, strict=True):
        around = space.neighbours(old)
        assert (around == new).all(axis=1).any() if len(around) else (old == new).all()
    space.check(space.mutate(rng, codes, steps=3))
    np.testing.assert_array_equal(space.mutate(rng, codes, steps=0), codes)


def test_mutations_are_uniform_over_the_neighbours() -> None:
    space = space_of(12, 4, 6)
    around = space.neighbours(space.start)
    draws = 4000 * len(around)
    moved = space.mutate(np.random.default_rng(3), np.tile(space.start, (draws, 1)))
    counts = (moved[:, None, :] == around).all(axis=2).sum(axis=0)
    assert counts.sum() == draws
    # Chi-square with so many degrees of freedom: mean and five standard deviations.
    freedom = len(around) - 1
    statistic = ((counts - 4000) ** 2 / 4000).sum()
    assert statistic < freedom + 5 * math.sqrt(2 * freedom)


def test_samples_are_uniform() -> None:
    space = space_of(4, 6, 3, splits=(3, 2, 2))
    codes = space.sample(np.random.default_rng(4), 500 * space.size(), feasible=True)
    assert codes.dtype == np.int32
    number = np.ravel_multi_index(tuple(codes.T), tuple(space.cardinality))
    counts = np.bincount(number, minlength=space.size())
    freedom = space.size() - 1
    statistic = ((counts - 500) ** 2 / 500).sum()
    assert freedom - 5 * math.sqrt(2 * freedom) < statistic < freedom + 5 * math.sqrt(2 * freedom)


@settings(max_examples=60)
@given(drawn=spaces_with_codes())
def test_edits_are_moves_and_can_be_undone(drawn: Any) -> None:
    space, codes, rng = drawn
    edits = rng.integers(0, space.edit_choices, codes.shape)
    edited = space.edit(codes, edits)
    np.testing.assert_array_equal(edited, space.edit(codes, edits))
    for d in range(3):
        one = np.where(np.arange(3) == d, edits, 0)
        alone = space.edit(codes, one)
        np.testing.assert_array_equal(alone[:, d], edited[:, d])  # dimensions do not meet
        for old, new in zip(codes, alone, strict=True):
            assert (old == new).all() or (space.neighbours(old) == new).all(axis=1).any()
    np.testing.assert_array_equal(space.edit(codes, np.zeros_like(edits)), codes)


def test_edits_are_numbered_as_documented() -> None:
    """Number 0 keeps; then by prime, then by pair of loops: (0, 1), (0, 2), (1, 0), ..."""
    space = space_of(12, 1, 5, splits=(3, 2, 1))
    assert space.edit_choices.tolist() == [1 + 2 * 6, 1, 1]
    code = space.codes(np.array([[4, 1, 3, 1, 1, 5]]))
    wanted = {
        1: [2, 2, 3],
        2: [2, 1, 6],
        3: [4, 1, 3],  # loop 1 has no 2 to give
        7: [4, 1, 3],  # loop 0 has no 3
        11: [12, 1, 1],
        12: [4, 3, 1],
    }
    for edit, factors in wanted.items():
        edited = space.edit(code, np.array([[edit, 0, 0]]))
        assert space.factors(edited)[0, :3].tolist() == factors


@settings(max_examples=40)
@given(drawn=spaces_with_codes())
def test_projection_finds_the_nearest(drawn: Any) -> None:
    space, codes, rng = drawn
    points = space.encode(codes) + rng.normal(0, 1.5, (len(codes), len(space.feature_names)))
    found = space.project(points)
    edges = 3 + np.cumsum((0, *space.splits))
    for d in range(3):
        others = np.zeros((int(space.cardinality[d]), 3), np.int32)
        others[:, d] = np.arange(len(others))
        own = slice(edges[d], edges[d + 1])
        table = space.encode(others)[:, own].astype(np.float64)
        for row, point in zip(found, points, strict=True):
            distance = ((table - point[own]) ** 2).sum(axis=1)
            assert distance[row[d]] <= distance.min() + 1e-4


def test_many_points_are_projected_as_one_by_one() -> None:
    space = TilingSpace(workload("gemm-2048"))
    rng = np.random.default_rng(5)
    points = rng.normal(2, 3, (400, len(space.feature_names)))
    alone = np.concatenate([space.project(point[None]) for point in points])
    np.testing.assert_array_equal(space.project(points), alone)


def test_encoding_by_hand() -> None:
    space = space_of(8, 4, 2)
    code = space.codes(np.array([[2, 1, 4, 1, 4, 1, 1, 1, 1, 2]]))
    assert space.feature_names[:5] == (
        "problem.M",
        "problem.K",
        "problem.N",
        "factor.m0",
        "factor.m1",
    )
    assert space.encode(code).tolist() == [[3, 2, 1, 1, 0, 2, 0, 2, 0, 0, 0, 0, 1]]


def test_resampling_touches_what_it_should() -> None:
    space = space_of(64, 64, 64)
    rng = np.random.default_rng(6)
    codes = space.sample(rng, 300)
    mask = np.tile([True, False, True], (300, 1))
    fresh = space.resample(rng, codes, mask)
    assert fresh.dtype == np.int32
    np.testing.assert_array_equal(fresh[:, 1], codes[:, 1])
    assert (fresh[:, 0] != codes[:, 0]).mean() > 0.9
    with pytest.raises(ContractError, match=r"mask of shape \(300, 3\)"):
        space.resample(rng, codes, mask[:, :2])


@pytest.mark.parametrize(("side", "size"), [(1, 1), (2, 32), (7, 32), (13, 32)])
def test_ones_and_primes(side: int, size: int) -> None:
    space = space_of(side, side, side)
    assert space.size() == size
    assert len(space.neighbours(space.start)) == (0 if side == 1 else 7)
    codes = every_code(space)
    status, excess = space.status(codes)
    assert not status.any()
    assert not excess.any()
    assert space.feasible(codes).all()
    loops_left = 0 if side == 1 else 3
    assert len(str(space.describe(space.start)).splitlines()) == loops_left + 1


@pytest.mark.parametrize("sizes", ["M=0,N=4,K=4", "M=4,N=-1,K=4", "M=4,N=4"])
def test_impossible_sizes_are_refused(sizes: str) -> None:
    with pytest.raises(ConfigError, match="gemm:"):
        workload(f"gemm:{sizes}")


def test_what_is_no_product_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the family gemm.*got the family mttkrp"):
        TilingSpace(workload("mttkrp:I=4,J=4,K=4,L=4"))
    for splits in ((4, 2), (4, 0, 4), (4, 2.0, 4), (4, True, 4), (9, 2, 4)):
        said = rf"splits: expected three whole numbers from 1 to 8, .*, got \({splits[0]}, "
        with pytest.raises(ConfigError, match=said):
            space_of(4, 4, 4, splits)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="lists at most"):
        TilingSpace(workload({"gemm": {"M": 720720, "N": 1, "K": 1}}), splits=(8, 1, 1))


def test_foreign_codes_are_refused() -> None:
    space = space_of(8, 4, 2)
    high = int(space.cardinality[1])
    with pytest.raises(ContractError, match=rf"codes \[1, 1\] \(tiling.K\).*got {high}"):
        space.check(np.array([[0, 0, 0], [0, high, 0]]))
    with pytest.raises(ContractError, match="shape"):
        space.feasible(np.zeros((2, 4), np.int32))
    with pytest.raises(ContractError, match="integer"):
        space.mutate(np.random.default_rng(0), np.zeros((2, 3)))  # type: ignore[arg-type]
    with pytest.raises(ContractError, match=r"edits \[0, 2\]"):
        space.edit(np.zeros((1, 3), np.int32), np.array([[0, 0, -1]]))
    with pytest.raises(ContractError, match="finite points"):
        space.project(np.full((1, len(space.feature_names)), np.nan))
    rows = [[8, 1, 1, 1, 4, 1, 2, 1, 1, 1], [8, 1, 2, 1, 4, 1, 2, 1, 1, 1]]
    with pytest.raises(ContractError, match=r"factors \[1\]: expected positive factors of M"):
        space.codes(np.array(rows))
    with pytest.raises(ContractError, match="positive factors of K"):
        space.codes(np.array([[8, 1, 1, 1, -4, -1, 2, 1, 1, 1]]))
