"""Deliberately broken bounds and rules: the comparison with enumeration must catch each of them.

Every break is one place of the sources, changed in a copy that runs in another process,
interpreted, on problems whose whole map spaces were evaluated here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import broken, broken_copy, checked
from paths import ROOT
from small_hierarchies import random_hierarchy

from costmodel import LoopNestModel

# What a broken rule would claim: (file, function, what it says there, what it becomes).
BREAKS = {
    "no run reaches across a level": (
        "tile_chains/chain.py",
        "build_slot",
        "chain.slot_n[r, t] = chain.hull_n[own, t]",
        "chain.slot_n[r, t] = 0",
    ),
    "all tiles of a slot have one row of points": (
        "tile_chains/chain.py",
        "build_slot",
        "used += 1",
        "used += 0",
    ),
    "a run ends with the first loop that leaves the tensor at rest": (
        "tile_chains/chain.py",
        "_join_covers",
        "shape.relevant[t, d]",
        "True",
    ),
    "a class of loops is left out that could win": (
        "tile_chains/chain.py",
        "_fill_boundary",
        "bound >= around.limit[level]",
        "2 * bound >= around.limit[level]",
    ),
    "two tensors never rest together across a level": (
        "tile_chains/pairs.py",
        "fill_slot_pairs",
        "found = chain.pairs_n[own, x]",
        "found = 0",
    ),
    "a run of two ends with the first loop": (
        "tile_chains/pairs.py",
        "fill_slot_pairs",
        "shape.relevant[one, d] or shape.relevant[two, d]",
        "True",
    ),
    "runs of two that end are as long as one loop": (
        "tile_chains/walk.py",
        "_through_slot",
        "ended = all_trips / common",
        "ended = all_trips",
    ),
    "points are needless above one of three": (
        "tile_chains/pairs.py",
        "_needless",
        "points[a, 0] <= one and points[a, 1] <= two and points[a, 2] <= cost",
        "points[a, 0] <= one",
    ),
    "the level's tile is the step, not a multiple of it": (
        "tile_chains/chain.py",
        "build_slot",
        "min(chain.slot_free[i], chain.slot_free[first + j])",
        "chain.slot_free[i]",
    ),
    "every tensor moves with every loop": (
        "tile_chains/entering.py",
        "class_charges",
        "weight == 0 or (shape.class_rest[kind] >> t) & 1",
        "weight == 0",
    ),
    "windows bring whole tiles": (
        "tile_chains/entering.py",
        "charge_moving",
        "words / width * min(width, moved)",
        "words",
    ),
    "no step is ever credited by coincidence": (
        "tile_chains/credits.py",
        "_stand",
        "step == fresh + moved",
        "False",
    ),
    "a loop that is charged is charged for its first pass as well": (
        "tile_chains/credits.py",
        "_stand",
        "(trip - 1) * beyond",
        "trip * beyond",
    ),
    "spatial factors outside a tile never enlarge steps": (
        "tile_chains/credits.py",
        "_nth_loop",
        "range(2 * terms)",
        "range(terms)",
    ),
    "loops further out are as idle as those of the next slot": (
        "tile_chains/entering.py",
        "open_dims",
        "1 << shape.sizes.size",
        "0",
    ),
    "tables with fewer tiles serve an assignment": (
        "tile_chains/entering.py",
        "first_change",
        "inner % more",
        "more % inner",
    ),
    "loops that move what a level keeps are idle": (
        "tile_chains/tables.py",
        "_idle",
        "moved | spread",
        "spread",
    ),
    "a line ends at every boundary": (
        "tile_chains/walk.py",
        "_through_slot",
        "rests, other_rests = True, other >= 0",
        "rests, other_rests = False, other >= 0",
    ),
    "children with equal tiles are served one by one": (
        "tile_chains/once.py",
        "_fewest_sums",
        "distinct_sums(spatial[d], step, spatial[e], its)",
        "spatial[d] * spatial[e]",
    ),
    "a port is at work for outputs that are produced for the first time": (
        "tile_chains/once.py",
        "_fill_port",
        "own[b, t] -= _part_of_output(moving, t, outer[b, level]) * kept_back * width",
        "own[b, t] -= 0",
    ),
    "tables serve whatever words cost": (
        "tile_chains/entering.py",
        "first_change",
        "before.weight[level, t] != around.weight[level, t]",
        "False",
    ),
    "the orders of equal kinds leave out those that slide": (
        "exact_any/orders.py",
        "_signature",
        "alone = True",
        "alone = False",
    ),
    "a tensor that has moved is settled": (
        "exact_any/orders.py",
        "_place_for_pair",
        "SLIDING if terms > 1 else CLOSED",
        "CLOSED",
    ),
    "orders take a port's cycles twice": (
        "exact_any/orders.py",
        "_cost",
        "places.busy[p] += wanted.ports[p, level, t] * words",
        "places.busy[p] += 2 * wanted.ports[p, level, t] * words",
    ),
    "orders leak in cycles that they have computed in": (
        "exact_any/orders.py",
        "_cost",
        "slow - wanted.computing",
        "slow",
    ),
    "orders are dearer than their cycles make them": (
        "exact_any/orders.py",
        "_cost",
        "(slow / wanted.cycles) ** wanted.power",
        "(slow / wanted.cycles) ** (wanted.power + 1)",
    ),
    "a level is never quite full": (
        "tile_chains/tiles.py",
        "fits",
        "used <= tables.capacity[level]",
        "used < tables.capacity[level]",
    ),
    "tiles are multiples of the factors outside": (
        "tile_chains/tables.py",
        "products_inside",
        "np.cumprod(spatial[..., ::-1, :], axis=-2)[..., ::-1, :]",
        "np.cumprod(spatial, axis=-2)",
    ),
    "tables serve the assignment that needs most": (
        "exact_any/weighing.py",
        "weigh",
        "np.gcd.reduce",
        "np.lcm.reduce",
    ),
    "nothing further in pays for what rests": (
        "tile_chains/entering.py",
        "fill_paid_inside",
        "follows[level, t] = paid",
        "follows[level, t] = 0",
    ),
    "what leaks while MACs are computed is added to what leaks while a port works": (
        "tile_chains/ports.py",
        "priced",
        "fixed - rate * found.cycles",
        "fixed",
    ),
    "tables leave out tiles by the level's own words as well": (
        "tile_chains/once.py",
        "fill_inside",
        "inside - once",
        "inside",
    ),
    "a port waits for the MACs": (
        "exact_any/assignments.py",
        "write_floors",
        "np.maximum(cycles, _whole(space, busy))",
        "cycles + _whole(space, busy)",
    ),
    "assignments leak in cycles that they have computed in": (
        "exact_any/assignments.py",
        "write_floors",
        "cycles - its.cycles",
        "cycles",
    ),
    "tilings leak in cycles that they have computed in": (
        "tile_chains/sights.py",
        "_bound_child",
        "search.leakage * (slow - search.computing)",
        "search.leakage * slow",
    ),
    "cycles are rounded up twice": (
        "tile_chains/sights.py",
        "_bound_child",
        "np.ceil(found * (1 - search.slack))",
        "np.ceil(found * (1 - search.slack)) + 1",
    ),
    "a port's cycles are added twice": (
        "tile_chains/ports.py",
        "priced",
        "weight + rate[:, None, None] * busy",
        "weight + 2 * rate[:, None, None] * busy",
    ),
    "every pair of rows along a window is a place of its own": (
        "tile_chains/once.py",
        "_places",
        "places += moving.sizes[d] // outer[d] - 1",
        "places *= moving.sizes[d] // outer[d]",
    ),
    "each of several instances needs all places of a window": (
        "tile_chains/once.py",
        "_places",
        "outer[d] > 1",
        "outer[d] < 1",
    ),
    "places of a window are as many as pairs of rows": (
        "tile_chains/once.py",
        "_find_moving",
        "distinct(tables.sizes[dims], tables.term_coefficient[terms])",
        "tables.sizes[dims].prod()",
    ),
    "halves of hops are whole ones": (
        "tile_chains/weights.py",
        "_delivery",
        "hops / 2 * tables.hop_energy[level]",
        "hops * tables.hop_energy[level]",
    ),
    "a word enters a network once per child": (
        "tile_chains/weights.py",
        "_delivery",
        "once * passing * fewest",
        "once * passing * spatial.prod(axis=1)",
    ),
    "memory outside the chip passes an output's words on as any level does": (
        "tile_chains/weights.py",
        "_delivery",
        "float(not (output and machine.dram[level]))",
        "2.0",
    ),
    "outputs are read even the first time": (
        "tile_chains/once.py",
        "_weigh_tensor",
        "_part_of_output(moving, t, outer[level]) * saved",
        "0.0 * saved",
    ),
}
SEEDS = range(200)
# Those from here on charge for their networks.
FIRST_NETWORK = 160

CHECK = """
import json, sys
from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload
from costmodel.exact_any.prover import AnyProver
from costmodel.map_space.map_space import MapSpace
for problem in json.load(open(sys.argv[1])):
    space = MapSpace(
        Workload.model_validate(problem["workload"]),
        Accelerator.model_validate(problem["accelerator"]),
    )
    prover = AnyProver(space, objective=problem["objective"])
    if not prover.finds_below(tuple(problem["limit"])):
        sys.exit(f"problem {problem['seed']}: a bound is too high")
    energy, cycles = prover._known.best
    if energy > problem["limit"][0] or cycles > problem["limit"][1]:
        if problem["objective"] in ("latency", "energy"):
            sys.exit(f"problem {problem['seed']}: the winner is none")
print("all equal")
"""


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of small problems, each with a limit just above its optimum."""
    entries: list[dict[str, Any]] = []
    for seed in SEEDS:
        rng, networks = np.random.default_rng(40_000 + seed), seed >= FIRST_NETWORK
        space, codes, objective = random_hierarchy(rng, 400, networks=networks)
        costs = LoopNestModel().evaluate(space, codes)
        tie = costs.energy_pj if objective == "latency" else costs.latency_cycles
        best = int(np.lexsort((tie, costs.objective(objective)))[0])
        limit = float(costs.energy_pj[best]) * (1 + 1e-9) + 1e-9
        entries.append(
            {
                "seed": seed,
                "workload": space.workload.model_dump(mode="json"),
                "accelerator": space.accelerator.model_dump(mode="json"),
                "objective": objective,
                "limit": [limit, float(costs.latency_cycles[best])],
            }
        )
    path = tmp_path_factory.mktemp("problems") / "problems.json"
    path.write_text(json.dumps(entries))
    return path


def test_every_rule_stands_in_the_sources() -> None:
    for file, *change in BREAKS.values():
        broken((ROOT / "costmodel" / file).read_text(), *change)


@pytest.mark.slow
def test_the_sources_as_they_are_pass(tmp_path: Path, problems: Path) -> None:
    broken_copy(tmp_path)
    done = checked(tmp_path, CHECK, problems)
    assert done.stdout == "all equal\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_rule_is_caught(name: str, tmp_path: Path, problems: Path) -> None:
    file, *change = BREAKS[name]
    broken_copy(tmp_path, (file, *change))
    done = checked(tmp_path, CHECK, problems)
    assert done.returncode == 1, f"survived: {name}"
    assert done.stderr.startswith("problem "), done.stderr
