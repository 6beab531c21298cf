"""Constraints that exclude no mapping change no optimum, whatever machine they stand on."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from commands import answer
from paths import GOLDEN
from small_hierarchies import random_machine, smaller
from small_problems import random_parts

from costmodel import MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES, Objective
from costmodel.exact.face import AnyProof
from costmodel.exact_any.choice import make_prover
from costmodel.independent.counting import Counter
from costmodel.independent.mappings import Mappings, every_order
from mapspace.errors import ConfigError

CASE = GOLDEN / "wrong-answers" / "fail-04"


def neutral(rng: np.random.Generator, space: MapSpace) -> list[dict[str, Any]]:
    """One to three entries that every mapping of a space obeys."""
    entries = []
    names, last = list(space.workload.dimensions), space.accelerator.level_names[-1]
    for _ in range(int(rng.integers(1, 4))):
        level = space.accelerator.levels[int(rng.integers(len(space.accelerator.levels)))]
        kind = "spatial" if level.fanout > 1 and rng.random() < 0.6 else "temporal"
        entry: dict[str, Any] = {"target": level.name, "type": kind}
        d = str(rng.choice(names))
        told: list[dict[str, Any]] = [
            {"factors": f"{d}>=1"},
            {"factors": f"{d}<={space.workload.dimensions[d]}"},
            {"default_max_factor": 10_000},
            {"default_min_factor": 1},
            {"permutation": "_"},
        ]
        if kind == "spatial" and level.width_height[1] == 1:
            told.append({"split": len(names)})
        entry |= told[int(rng.integers(len(told)))]
        if rng.random() < 0.2:
            entry = {"target": last, "type": "parallelism", "min": 0.0}
        if all((e["target"], e["type"]) != (entry["target"], entry["type"]) for e in entries):
            entries.append(entry)
    return entries


def settled(space: MapSpace, objective: Objective) -> AnyProof:
    """The finished proof of a space."""
    prover = make_prover(space, objective=objective)
    while not prover.finished:
        prover.step()
    return prover


def least(space: MapSpace, objective: Objective) -> float | None:
    """The proven least value; None where nothing is feasible."""
    prover = settled(space, objective)
    if prover.best_outcome is None:
        return None
    unit = Fraction(1) if objective == "latency" else prover.unit_pj
    return float(prover.value_of(prover.best_outcome) * unit)


def random_row(rng: np.random.Generator) -> MapSpace:
    """A product on three levels of which one has children in a row or on a mesh, at a price."""
    sizes = {name: int(rng.choice([1, 2, 3, 4, 6])) for name in "MNK"}
    levels: list[dict[str, Any]] = [
        {"name": "DRAM", "energy_pj": float(rng.choice([2.0, 100.0]))},
        {"name": "L2", "energy_pj": 6.0, "capacity_words": int(rng.choice([8, 20, 60]))},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": int(rng.choice([3, 4, 8]))},
    ]
    fanout = int(rng.choice([4, 6, 8]))
    levels[1] |= {"fanout": fanout, "hop_energy_pj": float(rng.choice([0.5, 1.0, 7.0]))}
    if rng.random() < 0.3:
        levels[1]["mesh"] = [[fanout // 2, 2], [1, fanout]][int(rng.integers(2))]
    machine = {"name": "row", "levels": levels, "mac_energy_pj": 1.0}
    return MapSpace(workload({"gemm": sizes}), accelerator(machine))


def enumerated(space: MapSpace, most: int) -> list[tuple[Fraction, int]] | None:
    """Energy and cycles of every mapping, counted without the proofs' code; None if too many."""
    counter, found = Counter(space.workload, space.accelerator), []
    listed = Mappings(space.workload, space.accelerator)
    for shape in listed.shapes():
        for tiling in listed.tilings(shape):
            if counter.why_not(tiling) is None:
                known: dict[object, int] = {}
                found += [counter.cost(tiling, o, known) for o in every_order(tiling)]
        if len(found) > most:
            return None
    return found


def test_the_least_of_all_mappings_is_found_under_them() -> None:
    checked = 0
    for seed in range(14, 26):
        rng = np.random.default_rng(seed)
        space = random_row(rng)
        every = enumerated(space, 1_500)
        if not every:
            continue
        entries = neutral(rng, space)
        objectives: tuple[Objective, Objective] = ("energy", "edp")
        objective = objectives[seed % 2]
        power = 0 if objective == "energy" else 1
        right = float(min(energy * cycles**power for energy, cycles in every))
        narrow = MapSpace(space.workload, space.accelerator, entries)
        assert least(narrow, objective) == pytest.approx(right, rel=1e-11), (seed, entries)
        checked += 1
    assert checked >= 7


def test_nothing_changes_on_machines_with_every_key() -> None:
    checked = 0
    for seed in range(70):
        rng = np.random.default_rng(seed)
        work, _ = random_parts(rng)
        machine = random_machine(rng)
        for level in machine["levels"]:
            if "fanout" in level:
                level["hop_energy_pj"] = 3.0
        try:
            space = MapSpace(workload(smaller(rng, work)), accelerator(machine))
        except ConfigError:
            continue
        if space.size() > 10**8:
            continue
        checked += 1
        entries, objective = neutral(rng, space), OBJECTIVES[seed % len(OBJECTIVES)]
        narrow = MapSpace(space.workload, space.accelerator, entries)
        free, bound = least(space, objective), least(narrow, objective)
        same = bound is None if free is None else bound == pytest.approx(free, rel=1e-11)
        assert same, (space.accelerator, entries, objective)
    assert checked >= 10


@pytest.mark.parametrize("machine", ["m.yaml", "mc.yaml"])
def test_the_first_case_has_the_value_of_enumeration(
    machine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("gemm:M=6,N=4,K=2", "--accelerator", CASE / machine, "--objective", "energy")
    found = answer(capsys, "search", *arguments)
    assert found["proven"]
    assert found["energy_pj"] == 5050.0
