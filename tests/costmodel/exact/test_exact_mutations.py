"""Deliberately broken bounds and rules: the comparison with enumeration must catch each of them.

Every mutation is one place of the proof's sources, changed in a copy that runs in another process,
interpreted, on problems whose whole map spaces were evaluated here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import broken_copy, checked
from small_problems import (
    MOST_MAPPINGS,
    best_outcome,
    random_mesh,
    random_problem,
    tiling_minima,
)

from costmodel import Codes, MapSpace
from costmodel.costs import Objective

# What a broken rule would claim: (file, function, what it says there, what it becomes).
MUTATIONS = {
    "no step is ever credited by coincidence": (
        "traffic_bounds.py",
        "least_uncredited",
        "1 if before != 0 and step[j] == moved else trip[j]",
        "trip[j]",
    ),
    "a resting tensor pays for the loops that leave it at rest": (
        "traffic_bounds.py",
        "bound_entering",
        "resting if tables.relevant[t, h] else held[t]",
        "resting",
    ),
    "both buffers rest on the same innermost loop": (
        "tiling_bounds.py",
        "bound_tiling",
        "least_joint if inner_loops == 0 else least_inner + least_outer",
        "least_joint if inner_loops == 0 else max(least_joint, least_inner + least_outer)",
    ),
    "the shared buffer's tile is the step, not a multiple of it": (
        "dram_bounds.py",
        "_take_least",
        "range(tables.cover_start[at], tables.cover_start[at + 1])",
        "range(0)",
    ),
    "cycles are rounded the wrong way": (
        "access_energy.py",
        "least_cycles",
        "traffic[level, way] / tables.bandwidth[level, way] * (1 - 1e-14)",
        "traffic[level, way] / tables.bandwidth[level, way] + 1",
    ),
    "all tensors pay for extents that are left open": (
        "subtree_bounds.py",
        "subtree_energy",
        "h < n and tables.relevant[t, h]",
        "h < n",
    ),
    "DRAM's loops bring whole tiles above any loop of the shared buffer": (
        "branch_and_bound.py",
        "_hold_chosen",
        "moves = moves or work.buffer.extent[d] > work.element.step[d]",
        "moves = True",
    ),
    "extents that are left open may not take what is best for their axis": (
        "subtree_bounds.py",
        "subtree_energy",
        "least_along(tables, outer.loose, axis, element.spatial_at, element.step_at, chosen)",
        "least_along(tables, outer.loose, axis, element.spatial_at, element.step_at, 9)",
    ),
    "a tensor that has moved is settled": (
        "loop_orders.py",
        "put_outside",
        "axis >= 0 and (changed == tile or tables.credit_start[tables.axis_start[t] + axis] < 0)",
        "axis >= 0 or (changed == tile and tables.credit_start[tables.axis_start[t] + axis] < 0)",
    ),
    "a buffer is never quite full": (
        "access_energy.py",
        "fits",
        "used <= room",
        "used < room",
    ),
    "element tiles never matter where nothing is kept": (
        "branch_and_bound.py",
        "_prove_unit",
        "inner_set == 0 and not vary",
        "inner_set == 0",
    ),
}
# Of meshes on which hops cost energy: where several loops along an axis are spatial, or not.
OF_HOPS = {
    "groups of elements on a mesh are larger than they can be": (
        "spatial_factors.py",
        "bound_units",
        "members = elements // work.spread.groups[t]",
        "members = max(1, elements // work.spread.groups[t] // 2)",
    ),
    "hops of another unit are remembered": (
        "tiling_bounds.py",
        "forget_spread",
        "known[t, place, 0] = -1",
        "known[t, place, 0] = max(known[t, place, 0], -1)",
    ),
    "loops take as many hops in any order": (
        "spatial_factors.py",
        "arrange",
        "np.unique(nests, axis=0, return_index=True)",
        "np.unique(0 * nests, axis=0, return_index=True)",
    ),
}
# So that small problems are bounded in every way that large ones are.
THOROUGH = ("exact/branch_and_bound.py", "", "FEWEST_LEAVES = 3", "FEWEST_LEAVES = 1")
# Problem 339 is one that an earlier version of the proof got wrong. Those that alone catch a broken
# rule come first.
FIRST = (339, 60)
SEEDS = (*FIRST, *(seed for seed in range(150) if seed not in FIRST))
MESH_SEEDS = range(8, 32)
MOST_TILINGS = 100

CHECK = """
import json, sys
import numpy as np
from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload
from costmodel.exact.prover import Prover
from costmodel.map_space.map_space import MapSpace
from proof_bounds import bounds
for problem in json.load(open(sys.argv[1])):
    space = MapSpace(
        Workload.model_validate(problem["workload"]),
        Accelerator.model_validate(problem["accelerator"]),
    )
    prover = Prover(space, objective=problem["objective"], threads=1)
    energy, cycles = bounds(prover, np.array(problem["tilings"], np.int32))
    unit = float(prover.unit_pj)
    if (energy * unit > np.array(problem["energy"])[:, None] * (1 + 1e-14)).any():
        sys.exit(f"problem {problem['seed']}: a bound on energy is too high")
    if (cycles > np.array(problem["cycles"])[:, None]).any():
        sys.exit(f"problem {problem['seed']}: a bound on cycles is too high")
    while not prover.finished:
        prover.step()
    winner = prover.codes()
    if not len(winner) or prover.outcomes(winner)[0] != prover.best_outcome:
        sys.exit(f"problem {problem['seed']}: the winner is none")
    value = float(prover.value_of(prover.best_outcome))
    value *= 1 if problem["objective"] == "latency" else unit
    if list(prover.best_outcome) != problem["best"]:
        sys.exit(f"problem {problem['seed']}: {prover.best_outcome} is not {problem['best']}")
    if abs(value - problem["least"]) > 1e-12 * problem["least"]:
        sys.exit(f"problem {problem['seed']}: {value} is not the optimum {problem['least']}")
print("all equal")
"""


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of small problems with their optimum and the least costs of every tiling."""
    drawn = []
    for seed in SEEDS:
        most = MOST_MAPPINGS if seed == SEEDS[0] else 8000
        drawn.append((seed, random_problem(np.random.default_rng(seed), most)))
    return _written(tmp_path_factory.mktemp("problems"), drawn)


@pytest.fixture(scope="module")
def meshes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Likewise, of meshes whose hops cost energy."""
    drawn = [(seed, random_mesh(np.random.default_rng(seed), 6000)) for seed in MESH_SEEDS]
    return _written(tmp_path_factory.mktemp("meshes"), drawn)


def _written(folder: Path, drawn: Sequence[tuple[int, tuple[MapSpace, Codes, Objective]]]) -> Path:
    entries: list[dict[str, Any]] = []
    for seed, (space, codes, objective) in drawn:
        if not len(codes):
            continue
        tilings, energy, cycles, least = tiling_minima(space, codes, objective)
        step = -(-len(tilings) // MOST_TILINGS)
        entries.append(
            {
                "seed": seed,
                "workload": space.workload.model_dump(mode="json"),
                "accelerator": space.accelerator.model_dump(mode="json"),
                "objective": objective,
                "tilings": tilings[::step].tolist(),
                "energy": energy[::step].tolist(),
                "cycles": cycles[::step].tolist(),
                "least": least,
                "best": best_outcome(space, codes, objective),
            }
        )
    path = folder / "problems.json"
    path.write_text(json.dumps(entries))
    return path


def test_the_sources_as_they_are_pass(tmp_path: Path, problems: Path) -> None:
    broken_copy(tmp_path, THOROUGH)
    done = checked(tmp_path, CHECK, problems)
    assert done.stdout == "all equal\n", done.stderr


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_caught(name: str, tmp_path: Path, problems: Path) -> None:
    _check_caught(name, MUTATIONS[name], tmp_path, problems)


@pytest.mark.parametrize("name", OF_HOPS)
def test_a_broken_rule_of_hops_is_caught(name: str, tmp_path: Path, meshes: Path) -> None:
    _check_caught(name, OF_HOPS[name], tmp_path, meshes)


def test_the_rules_of_hops_as_they_are_pass(tmp_path: Path, meshes: Path) -> None:
    broken_copy(tmp_path, THOROUGH)
    done = checked(tmp_path, CHECK, meshes)
    assert done.stdout == "all equal\n", done.stderr


def _check_caught(name: str, rule: tuple[str, str, str, str], folder: Path, problems: Path) -> None:
    file, *change = rule
    broken_copy(folder, THOROUGH, (f"exact/{file}", *change))
    done = checked(folder, CHECK, problems)
    assert done.returncode == 1, f"survived: {name}"
    assert done.stderr.startswith("problem "), done.stderr
