"""Children with tiles of their own where several loops of a window are spatial: the fewest of all.

Which of them share a tile depends on the tile; what is certain of an assignment before its tiles
are known is held here against every tile that it can have.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import broken_copy, checked

from costmodel.arrays.tables import Array
from costmodel.exact_any.assignments import Spreads
from costmodel.exact_any.prover import AnyProver
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from costmodel.tile_chains.rules import Rules
from costmodel.tile_chains.weights import _delivery, fewest_groups, groups

WINDOWS: tuple[Any, ...] = (
    "cnn:N=1,K=1,C=1,P=12,Q=1,R=4,S=1,stride=2",
    "cnn:N=1,K=2,C=1,P=6,Q=4,R=3,S=2",
    "cnn:N=1,K=1,C=2,P=8,Q=1,R=6,S=1,stride=3,dilation=2",
    {
        "dimensions": {"A": 6, "B": 4, "C": 6},
        "tensors": {"X": ["2*A + B + 3*C"], "Y": ["B", "C"], "Z": ["A"]},
        "output": "Z",
    },
)

# What a broken rule would claim: (function, what it says there, what it becomes).
BREAKS = {
    "the last tile has the fewest": (
        "_fewest_sums",
        "min(fewest, distinct_sums(spatial[d], step, spatial[e], its))",
        "distinct_sums(spatial[d], step, spatial[e], its)",
    ),
    "tiles are of one point": ("_fewest_sums", "extent % inside[d]", "extent > inside[d]"),
    "no level stands further in": ("fill_groups", "inside[d] //= spatial[b, level, d]", "pass"),
    "steps are those of dimensions": (
        "_fewest_sums",
        "moving.term_coefficient[one] * extent",
        "extent",
    ),
    "a third loop tells all apart": ("_groups", "more += factor - 1", "more += factor"),
}

CHECK = """
import sys
sys.path.insert(0, sys.argv[1])
from test_fewest_children import check
check()
print("all the fewest")
"""


def _spaces() -> list[tuple[MapSpace, Array]]:
    """Machines of two fan-outs, and spatial factors `[B, L, n]` of theirs."""
    machine = {
        "name": "small",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 200.0},
            {"name": "L2", "energy_pj": 2.0, "capacity_words": 4096, "fanout": 12},
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 4096, "fanout": 4},
        ],
    }
    found = []
    for layer in WINDOWS:
        space = MapSpace(workload(layer), accelerator(machine))
        spreads = Spreads(space, Rules(space))
        found.append((space, spreads.spatial(spreads.choices())))
    return found


def _fewest(space: MapSpace, level: int, t: int, spatial: Array) -> int:
    """Over all extents of the children's tiles, by the model's own counting."""
    sizes = space.tables.sizes
    inside, left = spatial[level + 1 :].prod(axis=0), sizes // spatial[: level + 1].prod(axis=0)
    extents = [
        [size for size in range(least, most + 1, least) if most % size == 0]
        for least, most in zip(inside.tolist(), left.tolist(), strict=True)
    ]
    tiles = np.array(list(itertools.product(*extents)))
    factors = np.broadcast_to(spatial[level], tiles.shape)
    return int(groups(space, level, t, factors, tiles).min())


def check() -> int:
    """Holds all assignments; returns how many have more than if all steps were equal."""
    more = 0
    for space, spatial in _spaces():
        found = fewest_groups(space, spatial)
        tables = space.tables
        for t in np.flatnonzero(tables.sliding).tolist():
            for b, level in itertools.product(range(len(spatial)), (1, 2)):
                exact = _fewest(space, level, t, spatial[b])
                alike = 1
                for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
                    terms = slice(tables.term_start[axis], tables.term_start[axis + 1])
                    alike *= 1 + int((spatial[b, level, tables.term_dimension[terms]] - 1).sum())
                several = max(map(len, _spread(space, t, spatial[b, level]))) > 2
                assert alike <= found[b, level, t] <= exact, (b, level, t)
                assert several or found[b, level, t] == exact, (b, level, t)
                more += found[b, level, t] > alike
    return more


def _spread(space: MapSpace, t: int, factors: Array) -> list[list[int]]:
    """The dimensions of every axis of a tensor that are spread."""
    tables = space.tables
    starts = tables.term_start[tables.axis_start[t] : tables.axis_start[t + 1] + 1].tolist()
    return [
        [d for d in tables.term_dimension[start:end].tolist() if factors[d] > 1]
        for start, end in itertools.pairwise(starts)
    ]


def test_no_tile_has_fewer_and_some_has_as_few() -> None:
    assert check() > 100


def test_counted_by_hand() -> None:
    """Rows 2 p + r of 14 rows of the output and 3 of the filter, all spread: 0 to 28."""
    machine = {
        "name": "two",
        "mac_energy_pj": 1.0,
        "levels": [{"name": "DRAM", "energy_pj": 1.0, "fanout": 42}],
    }
    layer = workload("cnn:N=1,K=1,C=1,P=14,Q=1,R=3,S=1,stride=2")
    space = MapSpace(layer, accelerator(machine))
    spatial = np.ones((1, 1, space.tables.sizes.size), np.int64)
    spatial[0, 0, [layer.dimension_names.index(name) for name in "PR"]] = 14, 3
    inputs = layer.tensor_names.index("Inputs")
    assert fewest_groups(space, spatial)[0, 0, inputs] == 29


def test_a_delivery_by_hand() -> None:
    """Hops, and what every child with a tile of its own pays; DRAM takes outputs without."""
    levels: list[dict[str, Any]] = [
        {"name": "DRAM", "energy_pj": 1.0, "fanout": 4},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 64, "fanout": 4},
    ]
    for level in levels:
        level |= {"hop_energy_pj": 8.0, "router_pj": 2.0, "ingress_pj": 3.0}
    machine = accelerator({"name": "m", "mac_energy_pj": 1.0, "levels": levels})
    space = MapSpace(workload("gemm:M=4,N=4,K=4"), machine)
    spatial = np.array([[4, 1, 1], [1, 4, 1]])
    fewest, known = np.array([4, 1]), np.array([3, 5])
    # Half of what is known, at 8 pJ; 2 + 3 pJ for each of the children.
    words = [3 / 2 * 8 + 5 * 4, 5 / 2 * 8 + 5 * 1]
    for level, t, right in ((0, 0, words), (1, 0, words), (1, 2, words), (0, 2, [12.0, 20.0])):
        assert _delivery(space, level, t, spatial, fewest, known).tolist() == right
    # A word to each of four in a row goes 0 + 1 + 2 + 3 hops, one for all of them 3.
    each, all_of_them = _delivery(space, 1, 0, spatial, fewest, None)
    assert (each, all_of_them) == (6 * 8 + 5 * 4, 3 * 8 + 5 * 1)
    # Rows p + r of four rows of outputs and two of the filter: two children share one at most, and
    # the pairs of eight in a row are 1, 3, 5 and 7 hops away.
    levels[1]["fanout"] = 8
    machine = accelerator({"name": "m", "mac_energy_pj": 1.0, "levels": levels})
    layer = workload("cnn:N=1,K=1,C=1,P=4,Q=1,R=2,S=1")
    spread = np.ones((1, 7), np.int64)
    spread[0, [layer.dimension_names.index(name) for name in "PR"]] = 4, 2
    inputs = layer.tensor_names.index("Inputs")
    (rows,) = _delivery(MapSpace(layer, machine), 1, inputs, spread, np.array([5]), None)
    assert rows == 16 * 8 + 5 * 5


def test_a_layer_with_steps_of_two_is_proven_at_once() -> None:
    """Its filter rows and output rows are spread: where rows seem shared, proofs take minutes."""
    layer = "cnn:N=2,K=12,C=8,P=14,Q=7,R=3,S=3,stride=2"
    prover = AnyProver(MapSpace(workload(layer), accelerator("mm256-bypass")), objective="energy")
    found = prover.space.sample(np.random.default_rng(0), 4096, feasible=True)
    prover.offer(found)
    prover.run(30)
    assert prover.finished
    assert prover.counts["tilings"] < 200


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, *BREAKS])
def test_a_broken_rule_is_caught(name: str | None, tmp_path: Path) -> None:
    changes = [] if name is None else [("tile_chains/once.py", *BREAKS[name])]
    broken_copy(tmp_path, *changes)
    done = checked(tmp_path, CHECK, Path(__file__).parent)
    if name is None:
        assert done.stdout == "all the fewest\n", done.stderr
    else:
        assert "in check\n    assert" in done.stderr, done.stderr
