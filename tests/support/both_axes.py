"""Meshes on which a dimension may run along both axes, held against plain Python."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from small_hierarchies import check_proof, random_machine, smaller
from small_problems import every_mapping, random_parts

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES
from mapspace.errors import ConfigError

MESHES = ([2, 2], [3, 2], [2, 3], [4, 2], [3, 3], [4, 4], [2, 6])
MOST = 20_000

Data = dict[str, Any]


class Meshes(NamedTuple):
    """A map space with meshes, and the one with a row of as many children in the place of each.

    Attributes:
        space: the map space.
        rows: the map space with rows, on which everything may run across.
        codes: `[B, D]` its feasible mappings; the codes of both say the same.
    """

    space: MapSpace
    rows: MapSpace
    codes: Codes


def random_meshes(seed: int, most: int = MOST) -> Meshes:
    """A random machine whose dimensions may run along both axes where hops are free."""
    rng = np.random.default_rng(seed)
    while True:
        work, _ = random_parts(rng)
        machine = random_machine(rng)
        _make_meshes(rng, machine["levels"])
        try:
            operation = workload(_with_a_large_size(rng, smaller(rng, work)))
            space = MapSpace(operation, accelerator({**machine, "axes": "both"}))
            rows = MapSpace(operation, accelerator(_with_rows(machine)))
        except ConfigError:
            continue
        codes = every_mapping(rows, most)
        if codes is None or not len(codes):
            continue
        assert rows.cardinality.tolist() == space.cardinality.tolist()
        meshes = Meshes(space, rows, codes)
        # Three of four have something that fits only where a loop is split.
        if seed % 4 == 0 or splits(space, codes[fitting(meshes, codes)]):
            return meshes


def _with_a_large_size(rng: np.random.Generator, work: Data) -> Data:
    """The operation with one size that meshes can take in two parts, and small others."""
    key = "dimensions" if "dimensions" in work else next(iter(work))
    names = [name for name in work[key] if name not in ("stride", "dilation")]
    sizes = {name: min(size, 3) for name, size in work[key].items()}
    sizes[names[rng.integers(len(names))]] = int(rng.choice([4, 6, 8, 9, 12]))
    return {**work, key: sizes}


def splits(space: MapSpace, codes: Codes) -> int:
    """How many of up to 300 mappings have a dimension along both axes of a mesh."""
    described = [space.describe(code) for code in codes[:: max(1, len(codes) // 300)]]
    return sum(any(level.spatial_height for level in one.levels) for one in described)


def _make_meshes(rng: np.random.Generator, levels: list[Data]) -> None:
    chosen = set(rng.choice(len(levels), size=int(rng.integers(1, 3)), replace=True).tolist())
    for index, level in enumerate(levels):
        if index not in chosen:
            # Hops of other meshes cost what they did.
            level["axes"] = "one"
            if level.get("fanout", 1) > 1 and rng.random() < 0.3:
                level[str(rng.choice(["hop_energy_pj", "router_pj"]))] = 0.5
            continue
        level.pop("hop_energy_pj", None)
        level.pop("router_pj", None)
        level["mesh"] = MESHES[rng.integers(len(MESHES))]
        level["fanout"] = math.prod(level["mesh"])
        rules = level.pop("spatial", {})
        for key in ("x", "y"):
            if rng.random() < 0.25:
                rules[key] = [str(d) for d in rng.choice(list("NKCPQRSMIJ"), 5, False)]
        if rules:
            level["spatial"] = rules


def _with_rows(machine: Data) -> Data:
    levels = [dict(level) for level in machine["levels"]]
    for level in levels:
        if level.get("axes") == "one":
            continue
        level.pop("mesh", None)
        rules = {k: v for k, v in level.pop("spatial", {}).items() if k not in "xy"}
        if rules:
            level["spatial"] = rules
    return {**machine, "levels": levels}


def lies(space: MapSpace, level: int, factors: list[int]) -> bool:
    """Whether spatial factors can be laid on a level's mesh, by trying every split of each."""
    machine, names = space.accelerator.levels[level], space.workload.dimension_names
    width, height = machine.mesh or (machine.fanout, 1)
    rules = machine.spatial
    along_x, along_y = (None, None) if rules is None else (rules.x, rules.y)
    parts = [
        [
            (wide, factor // wide)
            for wide in range(1, factor + 1)
            if factor % wide == 0
            and (wide == 1 or along_x is None or name in along_x)
            and (wide == factor or along_y is None or name in along_y)
        ]
        for name, factor in zip(names, factors, strict=True)
    ]
    return any(
        math.prod(wide for wide, _ in chosen) <= width
        and math.prod(tall for _, tall in chosen) <= height
        for chosen in itertools.product(*parts)
    )


def fitting(meshes: Meshes, codes: Codes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """`[B]` which codes have spatial loops that lie on every mesh."""
    tables = meshes.space.tables
    factors = tables.factors[tables.row_start[:-1] + codes[:, : tables.sizes.size]]
    found = np.ones(len(codes), np.bool_)
    for level, slot in enumerate(tables.spatial_slot.tolist()):
        if slot < 0 or meshes.space.accelerator.levels[level].axes == "one":
            continue
        rows, place = np.unique(factors[:, :, slot], axis=0, return_inverse=True)
        good = np.array([lies(meshes.space, level, row) for row in rows.tolist()])
        found &= good[place.ravel()]
    return found


def check_meshes(seed: int, most: int = MOST) -> int:
    """Holds feasibility, costs and the proof of random meshes against all mappings.

    Returns:
        How many of up to 300 mappings have a dimension along both axes.
    """
    meshes = random_meshes(seed, most)
    space, codes = meshes.space, meshes.codes
    fits = fitting(meshes, codes)
    assert space.feasible(codes).tolist() == fits.tolist(), space.accelerator
    codes = codes[fits]
    model = LoopNestModel()
    costs, plain = model.evaluate(space, codes), model.evaluate(meshes.rows, codes)
    np.testing.assert_allclose(costs.energy_pj, plain.energy_pj, rtol=1e-12)
    assert costs.latency_cycles.tolist() == plain.latency_cycles.tolist()
    check_proof(space, codes, OBJECTIVES[seed % len(OBJECTIVES)])
    return splits(space, codes)
