"""Tensors that rest together: what chains say of assignments against all of their mappings.

Without windows, blocks and networks, and with two at most that rest at once, the chain is no mere
bound but the least energy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_hierarchies import random_machine
from small_problems import every_mapping

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.compiled import lean
from costmodel.exact_any.assignments import list_assignments
from costmodel.exact_any.layout import lay_out
from costmodel.exact_any.leaves import is_linear
from costmodel.tile_chains.pairs import insert_pair, least_of_pair
from costmodel.tile_chains.spatial import keep_choices
from costmodel.tile_chains.tables import ChainTables
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.weights import weights
from mapspace.errors import ConfigError

SIZES = (1, 2, 2, 2, 3, 4)


def _problem(rng: np.random.Generator) -> dict[str, Any]:
    """A product of two or three tensors in which several rest while one loop runs."""
    kind = rng.choice(["mttkrp", "shared", "three"])
    if kind == "mttkrp":
        return {"mttkrp": {name: int(rng.choice(SIZES)) for name in "IJKL"}}
    sizes = {name: int(rng.choice(SIZES)) for name in "ABC"}
    tensors = {"X": ["A"], "Y": ["A", "B"], "Z": ["B", "C"]}
    if kind == "three":
        sizes["D"] = int(rng.choice(SIZES))
        tensors = {"X": ["A", "D"], "Y": ["A", "B"], "W": ["C"], "Z": ["B", "D"]}
    return {"dimensions": sizes, "tensors": tensors, "output": "Z"}


def _chains(space: MapSpace) -> dict[tuple[object, ...], float]:
    """The least energy of every assignment by its chain: kept tensors, spatial factors."""
    one, found = lay_out(0, space, None), {}
    *_, listed = list_assignments(space, one.spreads, keep_choices(space))
    assert listed is not None
    for group in listed.groups:
        table = ChainTables(one.shape, one.lattice.tiles(group.keeps), group.keeps)
        for spatial in one.spreads.spatial(group.choice):
            assigned = weights(space, group.keeps, spatial[None])
            for _ in table.fill(spatial, assigned.outer[0], assigned.weight[0]):
                pass
            energy = float(assigned.fixed[0]) + table.least
            found[group.keeps, spatial.tobytes()] = energy
    return found


def _enumerated(space: MapSpace, most: int) -> dict[tuple[object, ...], float] | None:
    """The same by all mappings; None where they are too many."""
    codes = every_mapping(space, most)
    if codes is None or not len(codes):
        return None
    energies = LoopNestModel().evaluate(space, codes).energy_pj
    found: dict[tuple[object, ...], float] = {}
    names, memory = space.workload.tensor_names, dict[bytes, tuple[object, ...]]()
    tables = space.tables
    columns = np.ones(codes.shape[1], bool)
    columns[[c for c in tables.order_column if c >= 0]] = False
    for code, energy in zip(codes, energies.tolist(), strict=True):
        key = code[columns].tobytes()
        if key not in memory:
            levels = space.describe(code).levels
            keeps = tuple(sum(1 << names.index(n) for n in level.keep) for level in levels)
            rows = [list(level.spatial.values()) or [1] * tables.sizes.size for level in levels]
            memory[key] = keeps, np.array(rows, np.int64).tobytes()
        found[memory[key]] = min(found.get(memory[key], np.inf), energy)
    return found


def check_chains(seed: int, most: int) -> tuple[int, int, int]:
    """Holds the chains of a random problem against its mappings.

    Returns:
        How many chains were held, with at most two tensors at rest at once, and with pairs.
    """
    rng = np.random.default_rng(seed)
    while True:
        try:
            space = MapSpace(workload(_problem(rng)), accelerator(random_machine(rng)))
        except ConfigError:
            continue
        if not is_linear(space):
            continue
        exact = _enumerated(space, most)
        if exact is not None:
            break
    chains = _chains(space)
    shape = lay_out(0, space, None).shape
    two_at_most = all(rest.bit_count() <= 2 for rest in shape.class_rest.tolist())
    for key, energy in exact.items():
        assert chains[key] <= energy * (1 + 1e-9), f"{seed}: {key}"
        if two_at_most:
            assert chains[key] >= energy * (1 - 1e-9), f"{seed}: {key}"
    return len(exact), len(exact) * two_at_most, len(exact) * bool(shape.pair_one.size)


def test_chains_say_the_least_energy() -> None:
    counts = np.array([check_chains(seed, 3000) for seed in range(60)])
    assert (counts.sum(axis=0) > [200, 150, 100]).all(), counts.sum(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_chains_say_the_least_energy(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        check_chains(seed, 30_000)


@lean
def _least(points: FloatArray, rows: FloatArray, one: float, two: float) -> float:
    """The least of rows `[m, 3]` that were added one by one to points `[P, 3]`."""
    count = 0
    for k in range(rows.shape[0]):
        count = insert_pair(points, count, rows[k, 0], rows[k, 1], rows[k, 2])
    return least_of_pair(points, count, one, two)


_numbers = st.integers(0, 20).map(float)


@settings(max_examples=300)
@given(
    rows=st.lists(st.tuples(_numbers, _numbers, _numbers), min_size=1, max_size=12),
    one=_numbers,
    two=_numbers,
    room=st.sampled_from([2, 3, 12]),
)
def test_points_that_are_left_are_never_above_those_added(
    rows: list[tuple[float, float, float]], one: float, two: float, room: int
) -> None:
    added = np.array(rows)
    least = float((added[:, 2] + one * added[:, 0] + two * added[:, 1]).min())
    found = _least(np.empty((room, 3)), added, one, two)
    assert found <= least * (1 + 1e-12)
    if room == 12:
        assert found == pytest.approx(least)
