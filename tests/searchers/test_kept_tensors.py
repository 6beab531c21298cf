"""Tensors that a level is told to keep, beside whatever else a machine says."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from commands import answer
from paths import GOLDEN
from small_hierarchies import random_machine, smaller
from small_problems import random_parts

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.independent.counting import Counter
from costmodel.independent.mappings import Mappings, every_order
from costmodel.map_space.constrained_tables import as_read
from mapspace.errors import ConfigError
from orchestrator.api import search
from searchers.exact import kept_space

CASE = GOLDEN / "wrong-answers" / "fail-01"


def told_to_keep(rng: np.random.Generator, space: MapSpace) -> dict[str, tuple[str, ...]]:
    """What one of the levels that are open keeps, at random; nothing where none is open."""
    machine, names = space.tables.machine, space.workload.tensor_names
    levels = np.flatnonzero(space.tables.keep_column >= 0)
    if not levels.size:
        return {}
    level = int(rng.choice(levels))
    chosen = [
        name
        for t, name in enumerate(names)
        if not machine.never_kept[level] >> t & 1
        and (machine.always_kept[level] >> t & 1 or rng.random() < 0.5)
    ]
    return {space.accelerator.level_names[level]: tuple(chosen)}


def test_codes_of_the_narrower_space_are_the_same_mappings() -> None:
    checked = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        work, _ = random_parts(rng)
        machine = {**random_machine(rng), "bypass": "searched"}
        try:
            space = MapSpace(workload(smaller(rng, work)), accelerator(machine))
        except ConfigError:
            continue
        keep = told_to_keep(rng, space)
        if not keep:
            continue
        narrow = kept_space(space, keep)
        codes = narrow.sample(rng, 60)
        same = as_read(narrow.tables, codes, space.tables)
        for mine, its in zip(codes, same, strict=True):
            assert space.describe(its) == narrow.describe(mine), machine
        costs, again = (
            LoopNestModel().evaluate(one, batch) for one, batch in ((narrow, codes), (space, same))
        )
        np.testing.assert_array_equal(costs.energy_pj, again.energy_pj)
        checked += 1
    assert checked > 40


def random_problem(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """A product, and a machine whose rules say what runs across."""
    sizes = {name: int(rng.choice([1, 2, 4])) for name in "MNK"}
    levels: list[dict[str, Any]] = [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L1", "energy_pj": 5.0, "capacity_words": int(rng.choice([8, 12, 20]))},
        {"name": "L2", "energy_pj": 2.0, "capacity_words": int(rng.choice([3, 6]))},
    ]
    across = [str(d) for d in rng.choice(list("MNK"), int(rng.integers(1, 3)), False)]
    at = int(rng.integers(3))
    levels[at] |= {"fanout": 4, "spatial": {"x": across}}
    text = ",".join(f"{name}={size}" for name, size in sizes.items())
    return f"gemm:{text}", {
        "name": "across", "mac_energy_pj": 1.0, "bypass": "searched", "levels": levels,
    }  # fmt: skip


def test_the_best_mapping_that_keeps_so_is_that_of_all() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        work, machine = random_problem(rng)
        space = MapSpace(work, machine)
        keep = told_to_keep(rng, space)
        counter, least = Counter(space.workload, space.accelerator), Fraction(10**30)
        listed = Mappings(space.workload, space.accelerator, keep)
        for shape in listed.shapes():
            for tiling in listed.tilings(shape):
                if counter.why_not(tiling) is not None:
                    continue
                known: dict[object, int] = {}
                for orders in every_order(tiling):
                    energy, cycles = counter.cost(tiling, orders, known)
                    least = min(least, energy * cycles)
        found = search(work, accelerator=machine, keep=keep, store=False)
        assert found.searched.proven
        assert found.costs.edp == pytest.approx(float(least), rel=1e-11), (work, machine, keep)


def test_the_first_case(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("gemm:M=6,N=4,K=8", "--accelerator", CASE / "m.yaml", "--keep", "L2=Z")
    found = answer(capsys, "search", *arguments)
    right = json.loads((CASE / "right.json").read_text())
    assert found["proven_under_restriction"]
    assert (found["energy_pj"], found["latency_cycles"]) == (right["e"], right["c"])
