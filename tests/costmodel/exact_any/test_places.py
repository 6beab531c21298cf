"""Hops that all tensors' deliveries need together (lemma 17): by hand, and against all mappings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_problems import check_space, random_mesh

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.arrays.tables import Array
from costmodel.tile_chains.places import places
from costmodel.tile_chains.rules import Rules
from costmodel.tile_chains.weights import entering_once, placed_weights, weights

ROW: dict[str, Any] = {
    "name": "row",
    "mac_energy_pj": 0.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 0.0},
        {"name": "L2", "energy_pj": 0.0, "capacity_words": 64, "fanout": 4, "hop_energy_pj": 1.0},
        {"name": "L1", "energy_pj": 0.0, "capacity_words": 3},
    ],
}


def test_a_row_of_four_counted_by_hand() -> None:
    """M and K by two across a row: A has four tiles, B two of K, Z two of M.

    A's four tiles go to columns 0, 1, 2 and 3: 6 hops. A tensor with two tiles takes 3 + 2 where
    its loop stands inside (columns 0, 2 and 1, 3), 3 + 1 where it stands outside (0, 1 and 2, 3):
    so of B and Z one takes 5 and the other 4, whichever place is taken.
    """
    space = MapSpace(workload("gemm:M=2,N=1,K=2"), accelerator(ROW))
    factors = np.array([2 if name in "MK" else 1 for name in space.workload.dimension_names])
    found = places(space, 1, factors)
    assert found is not None
    by_name = dict(zip(space.workload.tensor_names, found.twice.T.tolist(), strict=True))
    assert [sorted(by_name[name]) for name in ("A", "B", "Z")] == [[12, 12], [8, 10], [8, 10]]
    assert by_name["B"] != by_name["Z"]
    assert found.least.tolist() == [{"A": 12, "B": 8, "Z": 8}[n] for n in by_name]
    # Each of the 4 + 2 + 2 words once: B or Z takes a hop more for each of its 2 words.
    spatial = np.ones((1, 3, factors.size), np.int64)
    spatial[0, 1] = factors
    keeps = (7, 7, 7)
    once = placed_weights(space, keeps, spatial)
    floor = once.fixed + entering_once(space, once.weight, once.outer).sum(axis=(1, 2))
    codes = space.sample(np.random.default_rng(0), 20_000, feasible=True)
    spread = [dict(space.describe(code).levels[1].spatial) | {"N": 1} for code in codes[:200]]
    chosen = codes[:200][[one["M"] == 2 and one["K"] == 2 for one in spread]]
    assert len(chosen)
    energies = LoopNestModel().evaluate(space, chosen).energy_pj
    assert floor[0] == pytest.approx(energies.min(), rel=1e-12)
    alone = weights(space, keeps, spatial)
    assert alone.fixed[0] < once.fixed[0]


def test_every_order_of_loops_is_a_place_once() -> None:
    """Children fill the mesh row by row: the split between height and width changes nothing."""
    machine = accelerator(
        ROW | {"levels": [ROW["levels"][0], ROW["levels"][1] | {"mesh": [2, 2]}, ROW["levels"][2]]}
    )
    space = MapSpace(workload("gemm:M=2,N=2,K=2"), machine)
    assert len(Rules(space).arrangements(1, np.array([2, 2, 1]))) == 2
    assert len(Rules(space).arrangements(1, np.array([1, 2, 1]))) == 1


def _check(seed: int, most: int) -> None:
    check_space(*random_mesh(np.random.default_rng(seed), most))


def _assignments(space: MapSpace, codes: Codes) -> tuple[Array, Array]:
    """Kept tensors, as bits `[B, L]`, and spatial factors `[B, L, n]` of mappings."""
    tables, machine = space.tables, space.tables.machine
    n, everything = tables.sizes.size, (1 << tables.sliding.size) - 1
    rows = codes[:, :n] + tables.row_start[:-1]
    keeps, spatial = [], []
    for level, (slot, column) in enumerate(
        zip(tables.spatial_slot, tables.keep_column, strict=True)
    ):
        factors = tables.factors[rows, slot] if slot >= 0 else np.ones(rows.shape, np.int64)
        spatial.append(factors)
        chosen = codes[:, column] if column >= 0 else np.full(len(codes), everything)
        kept = (chosen | machine.always_kept[level]) & ~machine.never_kept[level] & everything
        keeps.append(kept.astype(np.int64))
    return np.stack(keeps, axis=1), np.stack(spatial, axis=1)


def test_no_mapping_needs_less_than_its_assignment() -> None:
    """Of every mapping of 30 random meshes; some floors are above what tensors need apart."""
    raised = 0
    for seed in range(72_000, 72_030):
        space, codes, _ = random_mesh(np.random.default_rng(seed), 4_000)
        if not len(codes):
            continue
        energy = LoopNestModel().evaluate(space, codes).energy_pj
        keeps, spatial = _assignments(space, codes)
        for kept in np.unique(keeps, axis=0):
            mine = np.flatnonzero((keeps == kept).all(axis=1))
            factors, which = np.unique(spatial[mine], axis=0, return_inverse=True)
            least = np.full(len(factors), np.inf)
            np.minimum.at(least, which.ravel(), energy[mine])
            found = placed_weights(space, tuple(kept.tolist()), factors)
            floor = found.fixed + entering_once(space, found.weight, found.outer).sum(axis=(1, 2))
            assert (floor <= least * (1 + 1e-12)).all()
            alone = weights(space, tuple(kept.tolist()), factors)
            raised += int((found.fixed > alone.fixed * (1 + 1e-9)).sum())
    assert raised > 20


@pytest.mark.parametrize("seed", range(12))
def test_meshes_equal_exhaustive_enumeration(seed: int) -> None:
    _check(70_000 + seed, 6_000)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_meshes_equal_exhaustive_enumeration_of_many(block: int) -> None:
    for seed in range(71_000 + 30 * block, 71_030 + 30 * block):
        _check(seed, 60_000)
