"""Marvel's decoupled search: its two halves against brute force, and what it says when it ends."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.maestro import MaestroModel, OnChipSpace, on_chip_search
from costmodel.maestro.distinct_blocks import layer_of
from costmodel.maestro.off_chip import loop_order as table3_order
from costmodel.maestro.off_chip import search as table3_search
from costmodel.maestro.pruning import Pruning as OnChipPruning
from mapspace.errors import ConfigError
from searchers import Evaluator, make
from searchers.shared.decoupled_subspaces import (
    Pruning,
    filter_dimensions,
    loop_nest_subspace,
    loop_order,
    movement,
    off_chip,
    on_chip_subspace,
)

EVERYTHING = Pruning(unroll_filter=False, symmetry=False, utilisation_bound=0.0)
PRUNED = Pruning(unroll_filter=True, symmetry=True, utilisation_bound=0.0)


def small_space(source: str = "cnn:N=2,K=4,C=6,P=4,Q=4,R=3,S=3", words: int = 300) -> MapSpace:
    levels = accelerator("mm256").model_dump()["levels"]
    shared = {**levels[1], "capacity_words": words, "fanout": 8}
    inner = {**levels[2], "capacity_words": 60}
    machine = {"name": "small", "extends": "mm256", "levels": [levels[0], shared, inner]}
    return MapSpace(workload(source), accelerator(machine))


def best_of(space: MapSpace, **parameters: Any) -> tuple[float, int]:
    evaluator = Evaluator(LoopNestModel(), space, iterations=10_000_000)
    searcher = make("marvel", space, seed=3, **parameters)
    searcher.run(evaluator)
    assert searcher.conclusion is not None
    return evaluator.best_loss, evaluator.iterations_used


def test_movement_counted_by_hand() -> None:
    # 2 x 3 x 4: A 2 x 4, B 4 x 3, outputs 2 x 3 twice, over 24 operations.
    moved = movement(workload("gemm:M=8,N=9,K=8"), np.array([[2, 3, 4]]), 2.0)
    assert moved[0] == (8 + 12 + 2 * 6) / 24


def test_the_best_tile_is_the_best_of_all() -> None:
    space = small_space()
    found = off_chip(space, PRUNED, buffering=1, output_weight=2.0, tiles=3)
    least = []
    for tile in itertools.product(
        (1, 2), (1, 2, 4), (1, 2, 3, 6), (1, 2, 4), (1, 2, 4), (3,), (3,)
    ):
        n, k, c, p, q, r, s = tile
        words = k * c * r * s, n * c * (p + r - 1) * (q + s - 1), n * k * p * q
        if sum(words) <= 300:
            least.append(((words[0] + words[1] + 2 * words[2]) / np.prod(tile), tile))
    least.sort()
    assert found.fitting == len(least)
    np.testing.assert_allclose(found.movement, [value for value, _ in least[:3]])
    assert found.total == 2 * 3 * 4 * 3 * 3


def test_the_loop_order_is_that_of_table_3() -> None:
    """Blocks of one word have the slopes of Marvel's un-rounded blocks."""
    for name in ("marvel-l9", "marvel-l12", "marvel-l13"):
        found = workload(name)
        layer = layer_of(found)
        tile = table3_search(layer, 108 * 1024).tile
        sizes = dict(zip("KCRSPQ", tile, strict=True)) | {"N": 1}
        extents = np.array([sizes[name] for name in found.dimension_names])
        order = [found.dimension_names[d] for d in loop_order(found, extents, 2.0)]
        several = table3_order(layer, tile)
        assert tuple(name for name in order if name in several) == several


def test_only_the_filter_slides_without_moving_outputs() -> None:
    found = workload("cnn:N=2,K=4,C=6,P=4,Q=4,R=3,S=3")
    assert {found.dimension_names[d] for d in filter_dimensions(found)} == {"R", "S"}
    assert filter_dimensions(workload("gemm:M=4,N=4,K=4")) == set()


@pytest.mark.parametrize(
    "source", ["gemm:M=8,N=8,K=8", "cnn:N=1,K=4,C=4,P=4,Q=4,R=3,S=1", "mttkrp:I=4,J=4,K=4,L=4"]
)
def test_nothing_better_has_the_same_off_chip_half(source: str) -> None:
    """Every code of the space with this tile and outer order, other inner orders included."""
    space = small_space(source, words=60)
    found = off_chip(space, EVERYTHING, buffering=1, output_weight=2.0, tiles=1)
    subspace = loop_nest_subspace(space, found.tiles[0], EVERYTHING, output_weight=2.0)
    n = len(subspace.choices)
    rng = np.random.default_rng(0)
    tilings = np.array(list(itertools.product(*subspace.choices)), np.int32)
    orders = np.arange(len(space.tables.orders))
    if len(tilings) * len(orders) > 400_000:
        orders = rng.choice(orders, 400_000 // len(tilings))
    least = np.inf
    for order in orders:
        codes = np.tile(subspace.base, (len(tilings), 1))
        codes[:, :n] = tilings
        codes[:, space.tables.order_column[1]] = order
        codes = codes[space.feasible(codes)]
        least = min(least, LoopNestModel().evaluate(space, codes).edp.min())
    pruning = {"unroll_filter": False, "symmetry": False, "utilisation_bound": 0.0}
    assert best_of(space, **pruning)[0] == least
    # Symmetry keeps the optimum.
    assert best_of(space, **(pruning | {"symmetry": True}))[0] == least


def test_pruning_and_more_tiles_do_what_they_say() -> None:
    space = small_space()
    loss, count = best_of(space, unroll_filter=False, utilisation_bound=0.0)
    pruned, fewer = best_of(space, utilisation_bound=0.0)
    busy, fewest = best_of(space, utilisation_bound=1.0)
    assert count > fewer > fewest
    assert loss <= pruned <= busy
    several, more = best_of(space, tiles=4, utilisation_bound=0.0)
    assert several <= pruned
    assert more > fewer


@pytest.mark.parametrize("bound", [0.0, 0.6])
def test_on_chip_it_finds_what_the_enumeration_proves(bound: float) -> None:
    layer = layer_of(workload("cnn:N=1,K=6,C=4,P=6,Q=6,R=3,S=3"))
    machine = accelerator("eyeriss-168").model_copy()
    space = OnChipSpace(layer, (6, 4, 3, 3, 6, 6), machine)
    proven = on_chip_search(
        layer, (6, 4, 3, 3, 6, 6), machine, pruning=OnChipPruning(utilisation_bound=bound)
    )
    pairs: list[tuple[Objective, str]] = [
        ("edp", "edp"),
        ("latency", "runtime"),
        ("energy", "energy"),
    ]
    for objective, name in pairs:
        evaluator = Evaluator(MaestroModel(), space, objective=objective, iterations=10_000_000)
        make("marvel", space, seed=0, utilisation_bound=bound).run(evaluator)
        assert evaluator.best_loss == pytest.approx(proven.best[name].value, rel=1e-12)


def test_of_orders_that_mirror_each_other_one_is_left() -> None:
    layer = layer_of(workload("cnn:N=1,K=6,C=4,P=6,Q=6,R=3,S=3"))
    machine = accelerator("eyeriss-168")
    for bounds, square in (((6, 4, 3, 3, 6, 6), True), ((6, 4, 3, 3, 6, 3), False)):
        space = OnChipSpace(layer, bounds, machine)
        listed = [len(on_chip_subspace(space, own).orders[0].loops) for own in (EVERYTHING, PRUNED)]
        assert listed == ([24, 12] if square else [24, 24])


def test_no_mapping_comes_twice() -> None:
    space = small_space("gemm:M=8,N=8,K=8", words=60)
    searcher = make("marvel", space, seed=0)
    asked = []
    while len(codes := searcher.ask(500)):
        asked.append(codes)
        searcher.tell(np.ones(len(codes)))
    found = np.concatenate(asked)
    assert len(np.unique(found, axis=0)) == len(found)


def test_what_fits_nowhere_is_said() -> None:
    with pytest.raises(ConfigError, match=r"fits nowhere in L2 .* needs 19 words, .* 9 more than"):
        make("marvel", small_space("cnn:N=1,K=2,C=2,P=2,Q=2,R=3,S=3", words=10), seed=0)


def test_machines_with_further_choices_are_refused() -> None:
    space = MapSpace(workload("gemm-512"), accelerator("mindmappings"))
    with pytest.raises(ConfigError, match="mindmappings also leaves banks to the mapping"):
        make("marvel", space, seed=0)
