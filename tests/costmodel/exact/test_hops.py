"""The proof on meshes whose hops cost energy: how little they can be, and what is best then."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_problems import check_space, random_mesh

from costmodel import MapSpace, accelerator, workload
from costmodel.arrays.tables import Array
from costmodel.compiled import lean
from costmodel.exact.access_energy import least_groups
from costmodel.exact.problem import ProofTables
from costmodel.exact.prover import Prover
from costmodel.exact.structures import Problem
from costmodel.exact.subtree_bounds import start_unit
from costmodel.exact.tiling_bounds import (
    charge_groups,
    enter_vector,
    groups_vary,
    pick_step,
    unit_of,
)
from costmodel.exact.workspace import Work, make_work
from costmodel.loop_nest.networks import hops_per_delivery, least_hops

MESH = {
    "name": "mesh",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0},
        {
            "name": "L2",
            "energy_pj": 6.0,
            "capacity_words": 55_296,
            "fanout": 20,
            "mesh": [4, 5],
            "hop_energy_pj": 2.0,
        },
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 64},
    ],
}


@lean
def _fill_least(tables: ProofTables, factor: Array, members: int, least: Array) -> None:
    """Fills what is said of every tensor `[T]`; of groups of so many members, 0: as many as may."""
    elements = 1
    for d in range(factor.size):
        elements *= factor[d]
    for t in range(least.size):
        most = elements // least_groups(tables, t, factor)
        least[t] = least_hops(tables.mesh, elements, members if members > 0 else most)


@lean
def _fill_hops(
    tables: ProofTables,
    nest: Array,
    axes: int,
    factor: Array,
    extent: Array,
    work: Work,
    hops: Array,
) -> None:
    """Fills twice the hops of every tensor `[T]` at one place on the mesh."""
    for t in range(hops.size):
        found = hops_per_delivery(tables, t, tables.mesh, nest, axes, factor, extent, work.spread)
        hops[t] = int(2 * found)


@lean
def _walk_unit(problem: Problem, v: int, tiles: Array, work: Work, found: Array) -> None:
    """Fills hops as energies `[1 + B, T]`: of the unit's start, then of tiles by their picks."""
    tables = problem.tables
    unit = unit_of(problem, v, 0)
    enter_vector(problem, work, v)
    start_unit(problem, work, unit, groups_vary(tables, work))
    for t in range(found.shape[1]):
        found[0, t] = work.spread.hops[t]
    for b in range(tiles.shape[0]):
        for d in range(tiles.shape[1]):
            pick_step(tables, work, d, tiles[b, d])
        charge_groups(problem, work, unit)
        for t in range(found.shape[1]):
            found[1 + b, t] = work.spread.hops[t]


def test_two_columns_of_a_mesh_counted_by_hand() -> None:
    """Six of 4 x 5 places: two rows of four and of two, in groups of two.

    Twice the furthest columns of three groups, of 3, 2, 1, 1, 0, 0 every second: 2 (3 + 1 + 0).
    The middle is row 2: of columns 0 and 1 rows 0 and 1 lie 2 and 1 below it, one group of each,
    twice 2 + 2; of columns 2 and 3 row 0 twice 2 + 2.
    """
    least = np.zeros(3, np.int64)
    _fill_least(_prover("gemm:M=6,N=1,K=1")._tables, np.array([6, 1, 1]), 2, least)
    assert least[0] == 2 * (3 + 1 + 0) + 2 * (2 + 2) + 2 * (2 + 2)


@pytest.mark.parametrize("layer", ["cnn:N=1,K=2,C=2,P=6,Q=4,R=3,S=2", "gemm:M=4,N=6,K=10"])
def test_no_place_on_the_mesh_takes_fewer_hops(layer: str) -> None:
    prover = _prover(layer)
    tables, vectors = prover._tables, prover._problem.vectors
    work, rng = make_work(tables), np.random.default_rng(0)
    least, hops = np.zeros((2, tables.sliding.size), np.int64)
    met = 0
    for v in rng.permutation(vectors.elements.size)[:150]:
        factor = vectors.factor[v]
        _fill_least(tables, factor, 0, least)
        for order, axes in itertools.product(rng.integers(len(tables.orders), size=4), (0, 5)):
            high = np.array([(axes >> d) & 1 for d in range(factor.size)]) == 1
            if factor[high].prod() > 5 or factor[~high].prod() > 4:
                continue
            extent = rng.integers(1, 4, size=factor.size)
            _fill_hops(tables, tables.orders[order], axes, factor, extent, work, hops)
            assert (hops >= least).all(), (factor, order, axes)
            met += (hops == least).any()
    assert met > 50


def test_a_unit_starts_with_the_hops_of_its_best_tiles() -> None:
    """Every tile's are counted anew, of those that share places on the mesh in other ways too."""
    prover = _prover("cnn:N=1,K=2,C=2,P=8,Q=4,R=4,S=2,stride=2")
    problem, tables = prover._problem, prover._tables
    work, rng = make_work(tables), np.random.default_rng(1)
    half_hop, varied = tables.half_hop, 0
    vectors = problem.vectors
    for v in rng.permutation(vectors.elements.size)[:200]:
        starts = tables.divisor_start[:-1] + vectors.at[v]
        multiples = [tables.multiples[a:b] for a, b in _spans(tables.multiple_start, starts)]
        tiles = np.array(list(itertools.product(*(range(len(own)) for own in multiples))))
        found = np.zeros((1 + len(tiles), tables.sliding.size), np.int64)
        _walk_unit(problem, int(v), tiles, work, found)
        counted = np.zeros_like(found[0])
        nest, axes = tables.orders[vectors.order[v]], int(vectors.axes[v])
        for tile, hops in zip(tiles, found[1:], strict=True):
            step = [own[i] for own, i in zip(multiples, tile.tolist(), strict=True)]
            extent = tables.divisors[tables.divisor_start[:-1] + step] // vectors.factor[v]
            _fill_hops(tables, nest, axes, vectors.factor[v], extent, work, counted)
            assert (half_hop * counted == hops).all()
        assert (found[0] == found[1:].min(axis=0)).all()
        varied += (found[1:].min(axis=0) < found[1:].max(axis=0)).any()
    assert varied > 10


def _spans(starts: Array, at: Array) -> list[tuple[int, int]]:
    return [(int(starts[i]), int(starts[i + 1])) for i in at]


@pytest.mark.parametrize("block", range(2))
def test_equals_exhaustive_enumeration(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        check_space(*random_mesh(np.random.default_rng(seed), 5000))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_more_equal_exhaustive_enumeration(block: int) -> None:
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        check_space(*random_mesh(np.random.default_rng(seed), 60_000))


def _prover(layer: str) -> Prover:
    return Prover(MapSpace(workload(layer), accelerator(MESH)), objective="edp")
