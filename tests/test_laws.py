"""One machine has one answer: the laws of `laws.LAWS` at every door, and proofs held against all.

A law is tried on random small problems; an answer that a door calls proven is the same, or so many
times, after the change.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from laws import LAWS, ROLES, Law, Problem, changed, draw, drawn_keys, said_keys

import mapspace as ms
from costmodel import LoopNestModel, MapSpace
from costmodel.costs import OBJECTIVES, Objective
from mapspace.errors import MapspaceError
from orchestrator.sweep.config import Sweep
from orchestrator.sweep.plan import prepare_sweep
from orchestrator.sweep.run import sweep

pytestmark = pytest.mark.filterwarnings("ignore:.*taken out")
CLOSE = 1e-9
MOST = 4000
"""Mappings of what is searched."""
SEEDS = range(5)
SLOW_SEEDS = range(100, 220)

Cost = tuple[float, float]
"""Energy, pJ, and latency, cycles."""


def searched(problem: Problem, objective: Objective) -> ms.SearchResult:
    found = ms.search(problem.workload, problem.machine, objective=objective, store=False)
    assert found.proven, problem
    return found


def cost_of(found: ms.SearchResult) -> Cost:
    return found.costs.energy_pj, found.costs.latency_cycles


def value(cost: Cost, objective: Objective) -> float:
    """What is minimised; energy in pJ, latency in cycles."""
    energy, cycles = cost
    return {
        "edp": energy * cycles, "energy": energy, "latency": cycles, "ed2p": energy * cycles**2,
    }[objective]  # fmt: skip


def assert_close(found: Any, expected: Any, where: object) -> None:
    assert np.allclose(found, expected, rtol=CLOSE, atol=0), (found, expected, where)


def check_search(law: Law, before: Problem, after: Problem, objective: Objective) -> None:
    first, second = searched(before, objective), searched(after, objective)
    scaled = first.costs.energy_pj * law.energy, first.costs.latency_cycles
    where = (before, after.machine)
    assert_close(value(cost_of(second), objective), value(scaled, objective), where)
    if first.overall.tie_proven and second.overall.tie_proven:
        assert_close(cost_of(second), scaled, where)


def check_evaluate(law: Law, before: Problem, after: Problem, objective: Objective) -> None:
    """The mapping that one problem's search found costs the same under both."""
    if not law.same_mappings:
        return
    found = searched(before, objective)
    for problem, times in ((before, 1.0), (after, law.energy)):
        record = {
            "workload": problem.workload,
            "accelerator": problem.machine,
            "mapping": found.record["mapping"],
        }
        (scored,) = ms.evaluate(record, store=False)
        result = scored["result"]
        energy, cycles = cost_of(found)
        assert_close((result["energy_pj"], result["cycles"]), (energy * times, cycles), problem)


def check_pareto(law: Law, before: Problem, after: Problem, _: Objective) -> None:
    first, second = (ms.pareto(*problem, store=False) for problem in (before, after))
    points = [(p.costs.energy_pj * law.energy, p.costs.latency_cycles) for p in first.points]
    assert_close(
        [(p.costs.energy_pj, p.costs.latency_cycles) for p in second.points], points, after
    )


@contextmanager
def written(problem: Problem) -> Iterator[tuple[str, str]]:
    """Files of a machine and of a workload."""
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "machine.yaml", Path(folder) / "layer.yaml"
        for path, said in zip(paths, (problem.machine, problem.workload), strict=True):
            path.write_text(json.dumps(said))
        yield str(paths[0]), str(paths[1])


def check_network(law: Law, before: Problem, after: Problem, objective: Objective) -> None:
    totals: list[Cost] = []
    for problem in (before, after):
        with written(problem) as (machine, layer):
            network = {"layers": [{"workload": layer, "count": 3}]}
            found = ms.search_network(network, machine, objective=objective, store=False)
        assert isinstance(found, ms.NetworkResult)
        assert found.totals is not None
        totals.append((found.totals.costs.energy_pj, found.totals.costs.latency_cycles))
    expected = totals[0][0] * law.energy, totals[0][1]
    assert_close(value(totals[1], objective), value(expected, objective), after)


def check_design(law: Law, before: Problem, after: Problem, objective: Objective) -> None:
    """The best of two machines, the second of dearer units, is what a search finds of the first."""
    if objective == "latency":
        return  # both are as fast
    for problem, times in ((before, 1.0), (after, law.energy)):
        with written(problem) as (machine, layer):
            unit = problem.machine["mac_energy_pj"]
            found = ms.design(
                {
                    "kind": "design",
                    "name": "laws",
                    "find": "best",
                    "base": machine,
                    "grid": {"mac_energy_pj": [unit, unit + 5.0]},
                    "workloads": [layer],
                    "objective": objective,
                },
                store=False,
            )
        (best,) = found.machines.architectures.nsmallest(1, "edp_js").to_dict("records")
        cost = cost_of(searched(before, objective))
        reached = best["energy_pj"], best["latency_cycles"]
        expected = value((cost[0] * times, cost[1]), objective)
        assert_close(value(reached, objective), expected, problem)


def check_sweep(law: Law, before: Problem, after: Problem, objective: Objective) -> None:
    """Every machine of a grid has what a search finds of it before the change."""
    for problem, times in ((before, 1.0), (after, law.energy)):
        unit = problem.machine["mac_energy_pj"]
        with written(problem) as (machine, layer):
            content = {
                "kind": "sweep",
                "name": "laws",
                "base": machine,
                "grid": {"mac_energy_pj": [unit, unit + 5.0 * times]},
                "workloads": [layer],
                "objective": objective,
            }
            plan = prepare_sweep(Sweep.model_validate(content), "laws")
            found = sweep(plan, Path(machine).parent / "run", execute=map)
        for dearer, row in zip((0.0, 5.0), found.points.to_dict("records"), strict=True):
            assert row["status"] == "proven", problem
            other = {"mac_energy_pj": before.machine["mac_energy_pj"] + dearer}
            plain = before._replace(machine={**before.machine, **other})
            energy, cycles = cost_of(searched(plain, objective))
            reached = row["energy_pj"], row["latency_cycles"]
            expected = value((energy * times, cycles), objective)
            assert_close(value(reached, objective), expected, problem)


DOORS = {
    "search": check_search,
    "evaluate": check_evaluate,
    "pareto": check_pareto,
    "network": check_network,
    "design": check_design,
    "sweep": check_sweep,
}


def check_laws(door: str, seed: int) -> None:
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    for name, law, before, after in changed(seed, MOST):
        try:
            DOORS[door](law, before, after, objective)
        except (AssertionError, MapspaceError) as error:
            raise AssertionError(f"{name}, seed {seed}: {error}") from error


@pytest.mark.parametrize(
    ("door", "seed"),
    [
        (door, seed)
        for door in DOORS
        for seed in SEEDS[: 5 if door in ("search", "evaluate") else 1]
    ],
)
def test_laws_hold(door: str, seed: int) -> None:
    check_laws(door, seed)


@pytest.mark.slow
@pytest.mark.parametrize("door", ["search", "evaluate"])
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_laws_hold_of_many(door: str, seed: int) -> None:
    check_laws(door, seed)


def check_mappings(seed: int) -> int:
    """Holds mappings' costs against those after each change; says how many were held."""
    held = 0
    _, space, codes = draw(np.random.default_rng(seed))
    costs = LoopNestModel().evaluate(space, codes)
    for name, law, _, after in changed(seed):
        other = MapSpace(after.workload, after.machine)
        # Constraints leave codes that stand for other mappings.
        if not law.same_mappings or other.constraints is not None:
            continue
        assert other.attribute_names == space.attribute_names, name
        again = LoopNestModel().evaluate(other, codes)
        where = f"{name}, seed {seed}"
        assert_close(again.energy_pj, costs.energy_pj * law.energy, where)
        assert_close(again.latency_cycles, costs.latency_cycles, where)
        held += len(codes)
    return held


@pytest.mark.parametrize("seeds", [range(first, first + 20) for first in range(0, 60, 20)])
def test_mappings_cost_the_same_under_any_writing(seeds: range) -> None:
    assert sum(map(check_mappings, seeds)) > 20_000


@pytest.mark.parametrize("seed", range(30, 42))
def test_what_is_proven_is_the_least_of_all(seed: int) -> None:
    problem, space, codes = draw(np.random.default_rng(seed), MOST)
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    costs = LoopNestModel().evaluate(space, codes)
    least = float(costs.objective(objective).min())
    assert_close(value(cost_of(searched(problem, objective)), objective), least, problem)


def test_every_key_of_machines_is_drawn() -> None:
    drawn: set[str] = set()
    for seed in itertools.count():
        drawn |= said_keys(draw(np.random.default_rng(seed))[0].machine)
        if drawn_keys() <= drawn or seed > 100:
            break
    assert drawn_keys() - drawn == set(), "add it to `laws.add_keys`"
    assert len(LAWS) >= 11


def machine_with_hops(**changes: Any) -> dict[str, Any]:
    """Three levels, a mesh whose hops cost energy, tensors that may pass the elements by."""
    levels = [
        {"name": "DRAM", "energy_pj": 200},
        {"name": "L2", "capacity_words": 33, "energy_pj": 7, "fanout": 12, "mesh": [4, 3]},
        {"name": "L1", "capacity_words": 7, "energy_pj": 3.4},
    ]
    levels[1] |= {"hop_energy_pj": 1.5, **changes}
    return {"name": "f", "mac_energy_pj": 1.0, "bypass": "searched", "levels": levels}


# Energies are the real Timeloop's (v3.0.3), of mappings that a complete enumeration found best.
@pytest.mark.parametrize("energy", [7, {"read": 7, "fill": 7, "update": 7}])
def test_hops_of_what_passes_a_level_by_are_timeloops(energy: Any) -> None:
    found = searched(
        Problem({"gemm": {"M": 6, "N": 1, "K": 6}}, machine_with_hops(energy_pj=energy)), "edp"
    )
    assert cost_of(found) == (10068.0, 4)
    (scored,) = ms.evaluate([found.record], store=False)
    assert scored["result"]["energy_pj"] == 10068.0


@pytest.mark.parametrize("loose", [{}, {"bandwidth": 1e7}])
def test_hops_below_dram_are_timeloops(loose: dict[str, Any]) -> None:
    dram = {"name": "DRAM", "energy_pj": 20, "fanout": 4, "mesh": [2, 2], "hop_energy_pj": 0.5}
    inner = {"name": "L1", "capacity_words": 40, "energy_pj": 2, "read_bandwidth": 1}
    levels = [{**dram, **loose}, inner]
    machine = {"name": "m", "mac_energy_pj": 0.5, "bypass": "searched", "levels": levels}
    tensors = {"W": ["R"], "I": ["P + 2*R"], "O": ["P"]}
    work = {"name": "w", "dimensions": {"P": 6, "R": 4}, "tensors": tensors, "output": "O"}
    assert cost_of(searched(Problem(work, machine), "ed2p")) == (942.5, 6)


@pytest.mark.parametrize(("way", "energy"), [("router_pj", 2481.0), ("hop_energy_pj", 2398.5)])
def test_a_level_that_nobody_may_use_saves_no_way(way: str, energy: float) -> None:
    # Timeloop would let it hold the word that has arrived, and count fewer hops to the units.
    levels: list[dict[str, Any]] = [
        {"name": "DRAM", "energy_pj": 20, "fanout": 3, way: 0.5},
        {"name": "L1", "capacity_words": 40, "energy_pj": 2, "fanout": 12, way: 0.25},
    ]
    idle = {"name": "idle", "capacity_words": 4, "energy_pj": 1, "bypass": ROLES}
    for machine in (levels, [*levels, idle]):
        problem = Problem(
            {"gemm": {"M": 6, "N": 4, "K": 6}},
            {"name": "m", "mac_energy_pj": 0.5, "bypass": "searched", "levels": machine},
        )
        assert cost_of(searched(problem, "energy")) == (energy, 6)
