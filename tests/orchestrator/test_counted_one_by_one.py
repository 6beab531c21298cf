"""What every door calls proven, against all mappings counted by a program that shares no code."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counted import MOST, counted_front, least_of, sums_of
from laws import add_keys
from small_hierarchies import random_machine, smaller
from small_problems import random_parts

import mapspace as ms
from costmodel import accelerator, workload
from costmodel.costs import OBJECTIVES, Objective
from costmodel.independent.check import objective_of
from costmodel.independent.counting import Cost
from costmodel.machines.machine_units import area_mm2
from mapspace.errors import ConfigError
from orchestrator.bypass.compare import compare_bypass
from orchestrator.design.config import Design
from orchestrator.design.plan import prepare_design
from orchestrator.design.run import design
from orchestrator.sweep.config import Sweep
from orchestrator.sweep.plan import prepare_sweep
from orchestrator.sweep.run import sweep

pytestmark = pytest.mark.filterwarnings("ignore:.*taken out")
Data = dict[str, Any]
Fronts = list[list[Cost]]
CLOSE = 1e-10


def drawn(rng: np.random.Generator, layers: int, most: int = MOST) -> tuple[Data, list[Data]]:
    """A machine with keys of every kind, and layers of at most so many mappings on it."""
    while True:
        machine = random_machine(rng) if rng.random() < 0.6 else random_parts(rng)[1]
        add_keys(rng, machine)
        found: list[Data] = []
        for _ in range(12):
            work = smaller(rng, random_parts(rng)[0])
            try:
                front = counted_front(workload(work), accelerator(machine), most)
            except ConfigError:  # it names roles that the operation has not
                continue
            if front and work not in found:
                found.append(work)
            if len(found) == layers:
                return machine, found


def fronts_on(machine: Data, layers: Sequence[Data], most: int = MOST) -> Fronts:
    """Of every layer on a machine; all of them can be counted."""
    fronts = [counted_front(workload(layer), accelerator(machine), most) for layer in layers]
    return [front for front in fronts if front is not None]


def assert_least(found: float, fronts: Sequence[Cost], objective: Objective, where: object) -> None:
    least = float(least_of(fronts, objective))
    assert found == pytest.approx(least, rel=CLOSE), (objective, where)


def check_search(seed: int) -> None:
    machine, (work,) = drawn(np.random.default_rng(seed), 1)
    (front,) = fronts_on(machine, [work])
    objective = OBJECTIVES[seed % 4]
    found = ms.search(work, machine, objective=objective, store=False)
    assert found.proven
    assert_least(found.costs.objective(objective), front, objective, (work, machine))
    points = ms.pareto(work, machine, store=False).points
    told = [(point.costs.energy_pj, point.costs.latency_cycles) for point in points]
    assert told == [(pytest.approx(float(e), rel=CLOSE), c) for e, c in front], (work, machine)


def check_sweep(seed: int, folder: Path) -> None:
    rng = np.random.default_rng(seed)
    machine, layers = drawn(rng, 2, 500)
    place = int(rng.integers(1, len(machine["levels"])))
    level = machine["levels"][place]
    room = level["capacity_words"]
    grid = {
        f"{level['name']}.capacity_words": [room, 2 * room],
        "mac_energy_pj": [0.5, 1.25],
    }
    counts, objective = rng.integers(1, 4, 2).tolist(), OBJECTIVES[seed % 4]
    network = folder / "network.yaml"
    named = [{"name": f"layer{i}", **layer} for i, layer in enumerate(layers)]
    entries = [{**one, "count": count} for one, count in zip(named, counts, strict=True)]
    network.write_text(json.dumps({"name": "two", "layers": entries}))
    content = {
        "kind": "sweep", "name": "counted", "base": {"name": "base", **machine}, "grid": grid,
        "workloads": [{"network": str(network)}], "objective": objective,
    }  # fmt: skip
    found = sweep(prepare_sweep(Sweep.model_validate(content), "x"), folder / "run", execute=map)
    rows = found.points.to_dict("records")
    assert len(rows) == 8
    for row in rows:
        changed = json.loads(json.dumps(machine)) | {"mac_energy_pj": row["mac_energy_pj"]}
        changed["levels"][place]["capacity_words"] = row[f"{level['name']}.capacity_words"]
        work = next(layers[i] for i in range(2) if named[i]["name"] == row["workload"])
        front = counted_front(workload(work), accelerator(changed), 20 * MOST)
        assert front
        assert row["status"] == "proven"
        value = objective_of_row(row, objective)
        assert_least(value, front, objective, (work, changed))
        alone = ms.search(work, changed, objective=objective, store=False)
        assert row["lower_bound"] == pytest.approx(alone.overall.lower_bound, rel=CLOSE)
        assert value == pytest.approx(alone.costs.objective(objective), rel=CLOSE)
    for machine_row in found.architectures.to_dict("records"):
        mine = [row for row in rows if row["architecture"] == machine_row["architecture"]]
        for key in ("energy_pj", "latency_cycles"):
            several = zip(counts, mine, strict=True)
            total = math.fsum(count * row[key] for count, row in several)
            assert machine_row[key] == pytest.approx(total, rel=CLOSE)


def objective_of_row(row: Data, objective: Objective) -> float:
    return float(objective_of(objective, (Fraction(row["energy_pj"]), row["latency_cycles"])))


def check_bypass(seed: int, folder: Path) -> None:
    machine, (work,) = drawn(np.random.default_rng(seed), 1, 300)
    files = folder / "layer.yaml", folder / "machine.yaml"
    for path, said in zip(files, (work, machine), strict=True):
        path.write_text(json.dumps(said))
    names = [str(path) for path in files]
    found = compare_bypass(*names, network=False, seconds=60, stream=io.StringIO())
    (row,) = found.to_dict()["layers"]
    for key, way in (("kept", "none"), ("searched", "searched")):
        front = counted_front(workload(work), accelerator({**machine, "bypass": way}), 50_000)
        if front is not None:
            best = row[key]
            assert best is not None
            assert best["proven"]
            assert_least(best["edp"], front, "edp", (work, machine, way))


def check_moves(seed: int, folder: Path) -> None:
    """Totals with operators that only move words, each layer for itself and jointly."""
    rng = np.random.default_rng(seed)
    machine, layers = drawn(rng, 2, 500)
    machine = {key: value for key, value in machine.items() if key != "mac_leakage_pj"}
    file, network = folder / "machine.yaml", folder / "network.yaml"
    file.write_text(json.dumps(machine))
    count = int(rng.integers(1, 4))
    entries = [{**layer, "name": f"l{i}", "count": count} for i, layer in enumerate(layers)]
    entries[1] |= {"input": "l0", "between": "softmax"}
    network.write_text(json.dumps({"name": "two", "layers": entries}))
    words = workload(layers[0]).words(-1)
    moving = moved_by_hand(machine, words, count)
    sums = sums_of([(count, front) for front in fronts_on(machine, layers)])
    sums = [(e + moving[0], c + moving[1]) for e, c in sums]
    objective = OBJECTIVES[seed % 4]
    asked: Any = {"objective": objective, "moves": True, "store": False}
    jointly = ms.search_network(str(network), str(file), jointly=True, **asked)
    where = (layers, machine)
    assert_least(jointly.costs.objective(objective), sums, objective, where)
    found = ms.search_network(str(network), str(file), **asked)
    assert isinstance(found, ms.NetworkResult)
    assert found.totals is not None
    standing = found.totals.overall
    least = float(least_of(sums, objective))
    assert standing.lower_bound <= least * (1 + CLOSE), where
    reached = found.totals.costs.objective(objective)
    assert reached >= least * (1 - CLOSE), where
    assert reached <= least * (1 + standing.gap) * (1 + CLOSE), where
    if standing.proven:
        assert reached == pytest.approx(least, rel=CLOSE), where


def moved_by_hand(machine: Data, words: int, count: int) -> Cost:
    """Energy and cycles of reading words at the outermost level and writing as many."""
    outer = machine["levels"][0]
    said = outer["energy_pj"]
    read, update = (said["read"], said["update"]) if isinstance(said, dict) else (said, said)
    block = outer.get("block_words", 1)
    total = words * count
    blocks = math.ceil(total / block)
    energy = blocks * (Fraction(str(read)) + Fraction(str(update)))
    energy += 2 * total * Fraction(str(outer.get("address_pj", 0)))
    rates = [(total, "read_bandwidth"), (total, "write_bandwidth"), (2 * total, "bandwidth")]
    limited = [math.ceil(n / Fraction(str(outer[key]))) for n, key in rates if key in outer]
    cycles = max(limited, default=0)
    return energy + cycles * Fraction(str(outer.get("leakage_pj", 0))), cycles


PARTS: Data = {
    "name": "parts", "node_nm": 45, "clock_ghz": 0.5, "mac_component": "int-mac",
    "levels": [
        {"name": "DRAM", "component": "lpddr4", "block_words": 2, "bandwidth": 1.0},
        {"name": "L2", "capacity_words": 128, "component": "sram", "fanout": 2},
        {"name": "L1", "capacity_words": 8, "component": "registers"},
    ],
}  # fmt: skip
SIZES: dict[str, list[Any]] = {
    "L2.capacity_words": [128, 512], "L2.fanout": [2, 4], "node_nm": [22, 45],
    "L1.capacity_words": [4, 8, 16],
}  # fmt: skip


def check_design(objective: Objective, find: str, layers: list[str], folder: Path) -> None:
    """The best machine, or the front, of components: every mapping of every machine is counted."""
    content = {
        "kind": "design", "name": "counted", "find": find, "base": PARTS, "grid": SIZES,
        "workloads": layers, "objective": objective, "area": "mm2",
    }  # fmt: skip
    plan = prepare_design(Design.model_validate(content), "x")
    found = design(plan, folder, execute=map)
    assert found.proven
    every: list[tuple[float, float]] = []
    for number in np.ndindex(*(len(axis.values) for axis in plan.grid.axes)):
        places = tuple(map(int, number))
        machine = accelerator(machine_of(plan.grid.parameters(places)))
        best = []
        for layer in layers:
            front = counted_front(workload(layer), machine, 20_000)
            assert front
            best.append(min(front, key=lambda cost: objective_of(objective, cost)))
        total = sum((e for e, _ in best), Fraction(0)), sum(c for _, c in best)
        every.append((area_mm2(machine) or 0.0, float(objective_of(objective, total))))
    # J s and s at half a gigahertz; energy is in pJ.
    unit = {"energy": 1.0, "edp": 1e-12 * 2e-9, "latency": 2e-9}[objective]
    told = found.machines.front[["area_mm2", found.machines.objective_column]].to_numpy(np.float64)
    if find == "best":
        least = unit * min(value for _, value in every)
        assert told[:, 1].min() == pytest.approx(least, rel=CLOSE)
        return
    front_found: list[tuple[float, float]] = []
    for area, value in sorted(every):
        if not front_found or value < front_found[-1][1] * (1 - 1e-12):
            front_found.append((area, value))
    expected = np.array(front_found) * [1.0, unit]
    assert told == pytest.approx(expected, rel=CLOSE)


def machine_of(parameters: dict[str, Any]) -> Data:
    """The machine of a place of the grid, written as a file would be."""
    said: Data = json.loads(json.dumps(PARTS))
    for key, value in parameters.items():
        level, _, field = key.rpartition(".")
        entry = next((one for one in said["levels"] if one["name"] == level), said)
        entry[field] = value
    return said


def seeds(few: int, many: int) -> list[Any]:
    """The first ones, and many more that are slow."""
    slow = pytest.mark.slow
    return [*range(few), *(pytest.param(seed, marks=slow) for seed in range(100, 100 + many))]


@pytest.mark.parametrize("seed", seeds(4, 20))
def test_searches_and_fronts(seed: int) -> None:
    check_search(seed)


@pytest.mark.parametrize("seed", seeds(2, 10))
def test_points_of_sweeps(seed: int, tmp_path: Path) -> None:
    check_sweep(seed, tmp_path)


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_what_bypass_is_worth(seed: int, tmp_path: Path) -> None:
    check_bypass(seed, tmp_path)


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_totals_with_moves(seed: int, tmp_path: Path) -> None:
    check_moves(seed, tmp_path)


@pytest.mark.parametrize(
    ("objective", "find", "layers"),
    [
        ("edp", "front", ["gemm:M=2,N=3,K=2"]),
        ("energy", "best", ["gemm:M=2,N=3,K=2"]),
        pytest.param("edp", "best", ["conv1d:P=4,R=2", "gemm:M=4,N=2,K=2"], marks=pytest.mark.slow),
        pytest.param("latency", "front", ["gemm:M=4,N=2,K=3"], marks=pytest.mark.slow),
        pytest.param("energy", "front", ["conv1d:P=4,R=3"], marks=pytest.mark.slow),
    ],
)
def test_designs_of_components(
    objective: Objective, find: str, layers: list[str], tmp_path: Path
) -> None:
    check_design(objective, find, layers, tmp_path)
