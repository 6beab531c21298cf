"""Constrained map spaces: every code obeys, and all that the constraints leave is there."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from whole_spaces import random_constraints

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.loop_nest.enumeration import WholeSpace
from costmodel.map_space.constraints import Constraints
from costmodel.map_space.mapping import Mapping
from mapspace.errors import ConfigError


def space_of(seed: int, *, small: bool = False) -> MapSpace:
    """A small space of a machine with a mesh, sometimes hops, two fan-outs or bypass searched."""
    rng = np.random.default_rng(seed)
    levels: list[dict[str, Any]] = [
        {"name": "DRAM", "energy_pj": 100.0, "technology": "DRAM"},
        {"name": "L2", "energy_pj": 6.0, "capacity_words": 30, "fanout": 4, "mesh": [2, 2]},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 9},
    ]
    levels[1] |= [{}, {"hop_energy_pj": 1.0}, {"mesh": [4, 1]}, {"mesh": [1, 4]}][seed % 4]
    if seed % 3 == 1:
        levels[2] |= {"fanout": 2}
    machine = {"name": "small", "mac_energy_pj": 1.0, "levels": levels}
    machine["bypass"] = str(rng.choice(["searched", "none"]))
    if small:
        machine["bypass"] = "none"
        axes = {"X": ["A"], "Y": ["A + B"], "Z": ["A", "B"]}
        work = {"name": "w", "dimensions": {"A": 4, "B": 2}, "tensors": axes, "output": "Z"}
        return MapSpace(workload(work), accelerator(machine))
    work = [{"gemm": {"M": 4, "N": 2, "K": 2}}, {"conv1d": {"P": 4, "R": 2, "K": 2}}][seed % 2]
    return MapSpace(workload(work), accelerator(machine))


def constrained(seed: int, *, small: bool = False) -> tuple[MapSpace, MapSpace]:
    """A space, and the same under constraints."""
    space, rng = space_of(seed, small=small), np.random.default_rng(seed)
    while True:
        entries = random_constraints(rng, space)
        try:
            return space, MapSpace(space.workload, space.accelerator, entries)
        except ConfigError:
            continue


def every_code(space: MapSpace) -> Codes:
    """Every feasible code."""
    grid = np.indices(space.cardinality).reshape(space.cardinality.size, -1).T
    codes = np.ascontiguousarray(grid, dtype=np.int32)
    return codes[space.feasible(codes)]


def signature(space: MapSpace, mapping: Mapping) -> tuple[Any, ...]:
    """The loops above 1 that matter, and what is kept."""
    parts: list[Any] = []
    for level, order in zip(mapping.levels, space.tables.spatial_order_column, strict=True):
        loops = [(d, level.temporal[d]) for d in level.order if level.temporal[d] > 1]
        across = [
            (d, level.spatial[d], level.spatial_axis.get(d, "X"))
            for d in level.spatial_order
            if level.spatial[d] > 1
        ]
        across.sort(key=lambda loop: loop[2] == "X")
        inner = level.name == mapping.levels[-1].name
        parts.append(
            (
                tuple(sorted(loops) if inner else loops),
                tuple(across if order >= 0 else sorted(across)),
                tuple(sorted(level.keep)),
            )
        )
    return tuple(parts)


def obeys(rules: Constraints, space: MapSpace, mapping: Mapping) -> bool:
    """Whether a mapping of the unconstrained space is left."""
    names, tensors = space.workload.dimension_names, space.workload.tensor_names
    working = 1
    for place, level in enumerate(mapping.levels):
        kept = sum(1 << t for t, name in enumerate(tensors) if name in level.keep)
        if kept not in rules.keeps(place):
            return False
        order = [names.index(d) for d in level.order]
        if place == len(mapping.levels) - 1:
            # Of the innermost loops no order changes a figure.
            order = list(rules.temporal[place].orders()[0])
        if not rules.temporal[place].allows([level.temporal[d] for d in names], order):
            return False
        across = rules.spatial[place]
        if across is None:
            continue
        factors = [level.spatial[d] for d in names]
        working *= int(np.prod(factors))
        tall = sum(1 << i for i, d in enumerate(names) if level.spatial_axis.get(d) == "Y")
        order = [names.index(d) for d in level.spatial_order]
        if space.tables.spatial_order_column[place] < 0:
            orders: Any = itertools.permutations(order)
        else:
            orders = [order]
        if not any(across.allows(factors, found, tall) for found in orders):
            return False
    return working / rules.units >= rules.parallelism


@pytest.mark.parametrize("seed", range(12))
def test_a_constrained_space_is_a_filter_of_the_whole_one(seed: int) -> None:
    space, narrow = constrained(seed, small=True)
    assert narrow.constraints is not None
    expected = set()
    for code in every_code(space):
        mapping = space.describe(code)
        if obeys(narrow.constraints, space, mapping):
            expected.add(signature(space, mapping))
    found = {signature(narrow, narrow.describe(code)) for code in every_code(narrow)}
    assert found == expected
    whole = WholeSpace.of(space.workload, space.accelerator, narrow.constraints)
    assert sum(len(batch.codes) for batch in whole.mappings()) == len(expected)


@pytest.mark.parametrize("seed", range(6))
def test_codes_are_read_as_mappings_that_obey(seed: int) -> None:
    space, narrow = constrained(seed)
    rng = np.random.default_rng(seed)
    assert narrow.constraints is not None
    codes = narrow.sample(rng, 300)
    moved = narrow.mutate(rng, codes, steps=3)
    edits = rng.integers(0, narrow.edit_choices, codes.shape)
    edited = narrow.edit(codes, edits)
    projected = narrow.project(narrow.encode(codes) + rng.normal(0, 1, (300, 1)))
    for made in (codes, moved, edited, projected, narrow.neighbours(codes[0])):
        fits = made[narrow.feasible(made)]
        costs = LoopNestModel().evaluate(narrow, fits)
        mappings = [narrow.describe(code) for code in fits]
        assert all(obeys(narrow.constraints, space, mapping) for mapping in mappings)
        if len(fits):
            # The whole space knows the same mapping, at the same costs.
            same = np.stack([space.code(mapping) for mapping in mappings])
            np.testing.assert_array_equal(
                LoopNestModel().evaluate(space, same).energy_pj, costs.energy_pj
            )


@pytest.mark.parametrize("seed", range(6))
def test_mappings_that_obey_have_codes_and_others_none(seed: int) -> None:
    space, narrow = constrained(seed)
    assert narrow.constraints is not None
    for code in space.sample(np.random.default_rng(seed), 400):
        mapping = space.describe(code)
        try:
            again = narrow.code(mapping)
        except ConfigError:
            again = None
        if obeys(narrow.constraints, space, mapping):
            assert again is not None
            assert signature(narrow, narrow.describe(again)) == signature(space, mapping)
        elif again is not None:
            assert not narrow.feasible(again[None])[0]


def test_draws_are_counted_where_hardly_any_mapping_is_left() -> None:
    machine = {
        "name": "tight",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 100.0},
            {"name": "L2", "energy_pj": 6.0, "capacity_words": 48, "fanout": 16, "mesh": [4, 4]},
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
        ],
    }
    entries = [
        {"target": "L2", "type": "spatial", "factors": "M>=2 N<=4", "permutation": "N", "split": 1},
        {"target": "L1", "type": "temporal", "factors": "M=1", "default_max_factor": 8},
        {"target": "L1", "type": "parallelism", "min": 0.9},
    ]
    work = workload({"gemm": {"M": 64, "N": 64, "K": 64}})
    space = MapSpace(work, accelerator(machine), entries)
    rng = np.random.default_rng(0)
    assert space.feasible_share(rng) < 5e-3
    codes = space.sample(rng, 200, feasible=True)
    assert space.feasible(codes).all()
    assert len(np.unique(codes, axis=0)) > 150
    for code in codes:
        spread = space.describe(code).levels[1]
        assert spread.spatial["M"] * spread.spatial["K"] == spread.spatial["N"] == 4
        assert spread.spatial_axis == {"M": "Y", "N": "X", "K": "Y"}


def test_says_what_leaves_nothing() -> None:
    space = space_of(0)
    entries: list[dict[str, Any]] = [
        {"target": "L1", "type": "temporal", "factors": "M>=3"},
        {"target": "L2", "type": "temporal", "factors": "M=2"},
    ]
    entries[0]["factors"] += " N<=2"
    entries.append({"target": "DRAM", "type": "temporal", "factors": "M<=2", "permutation": "N_"})
    expected = (
        "constraints: together they leave no factorisation of M = 4: L1 temporal factors M>=3; "
        "L2 temporal factors M=2."
    )
    with pytest.raises(ConfigError) as caught:
        MapSpace(space.workload, space.accelerator, entries)
    assert str(caught.value) == expected


def test_constraints_leave_what_runs_across_by_roles_as_it_was() -> None:
    work, machine = workload("gemm:M=64,N=64,K=64"), accelerator("gemmini")
    entry = {"target": "DRAM", "type": "temporal", "factors": "M>=1"}
    free, narrow = MapSpace(work, machine), MapSpace(work, machine, [entry])
    for level in ("Scratchpad", "Accumulator"):
        assert any(level == known.name and known.spatial for known in machine.levels)
    codes = free.sample(np.random.default_rng(0), 50, feasible=True)
    assert any(max(free.describe(code).levels[1].spatial.values()) > 1 for code in codes)
    assert all(narrow.feasible(narrow.code(free.describe(code))[None])[0] for code in codes)
