"""Designs under limits of power, energy and time, held against whole sweeps and all choices."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from test_design import GRID, LAYERS, designed, machines_of, swept

import mapspace as ms
from costmodel import accelerator, workload
from costmodel.costs import Objective
from costmodel.loop_nest.record_schema import tidied
from mapspace.errors import ConfigError
from orchestrator.design.aims import Aim
from orchestrator.design.answer import answer_of
from orchestrator.design.machine_grid import MachineGrid
from orchestrator.design.reached import Reached
from orchestrator.design.within_limits import Allowed, Least, _Edge, least_within
from orchestrator.schemas.runs import DesignFound
from orchestrator.sweep.plan import Layer
from orchestrator.sweep.proofs import Problem, prove_problem

GRID_WITH_RATES = {**GRID, "DRAM.read_bandwidth": [0.5, 2.0]}


def held_against_the_sweep(tmp_path: Path, objective: str, shares: tuple[float, ...]) -> set[str]:
    """The best machine and all reasons hold at limits of power that so many machines keep.

    Returns:
        The reasons that there were.
    """
    same: dict[str, Any] = {"grid": GRID_WITH_RATES, "workloads": LAYERS[:1]}
    same |= {"objective": objective, "energy_scaling": "sqrt"}
    rows = swept(tmp_path / "sweep", **same).architectures.to_dict("records")
    column = {"latency": "latency_s"}.get(objective, objective)
    reasons = set()
    for share in shares:
        limit = float(np.quantile([row["power_w"] for row in rows], share))
        kept = [row for row in rows if row["power_w"] <= limit]
        folder = tmp_path / f"{share}"
        plan, found = designed(folder, **same, find="best", limits={"power_w": limit})
        assert found.proven
        assert found.machines.best is not None
        least = min(row[column] for row in kept)
        assert found.machines.best[column] == pytest.approx(least, rel=1e-12)
        reasons |= {box.why for box in found.settled}
        assert share != 0.3 or ms.verify(found.certificate).holds
        good = {tuple(row[axis.key] for axis in plan.grid.axes) for row in kept}
        for box in found.settled:
            told = {tuple(plan.grid.parameters(one).values()) for one in machines_of(box.box)}
            assert box.why not in ("power", "limits") or not told & good
    return reasons


@pytest.mark.parametrize(
    "objective",
    ["edp", *(pytest.param(one, marks=pytest.mark.slow) for one in ("latency", "ed2p"))],
)
def test_the_best_under_any_limit_of_power(objective: str, tmp_path: Path) -> None:
    """Whatever share of the machines keeps it: against the whole sweep."""
    reasons = held_against_the_sweep(tmp_path, objective, (0.1, 0.3, 0.5, 0.8))
    assert "power" in reasons


def test_a_worst_machine_that_is_not_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above would find the ideal in place of the worst machine."""
    monkeypatch.setattr(MachineGrid, "worst", lambda self, box: self.ideal(self.corner(box)))
    with pytest.raises((AssertionError, ConfigError)):
        held_against_the_sweep(tmp_path, "edp", (0.1, 0.3, 0.5))


@pytest.mark.parametrize(
    "objective",
    ["edp", *(pytest.param(one, marks=pytest.mark.slow) for one in ("energy", "latency"))],
)
def test_the_best_under_limits_of_energy_and_time(objective: str, tmp_path: Path) -> None:
    """Of either, of both and of all three: against the whole sweep."""
    same: dict[str, Any] = {
        "grid": GRID_WITH_RATES,
        "workloads": LAYERS[:1],
        "objective": objective,
    }
    same["energy_scaling"] = "sqrt"
    rows = swept(tmp_path / "sweep", **same).architectures.to_dict("records")
    for row in rows:
        row |= {"energy_mj": row["energy_pj"] / 1e9, "latency_ms": 1e3 * row["latency_s"]}
    column = {"latency": "latency_s", "energy": "energy_pj"}.get(objective, objective)
    cases = [("energy_mj",), ("latency_ms",), ("energy_mj", "latency_ms")]
    reasons = set()
    for keys, share in itertools.product([*cases, ("energy_mj", "power_w")], (0.2, 0.7)):
        # Of both the machine in the middle of either keeps them, if any does.
        limits = {key: float(np.quantile([row[key] for row in rows], share)) for key in keys}
        kept = [row for row in rows if all(row[key] <= most for key, most in limits.items())]
        if not kept:
            continue
        folder = tmp_path / "-".join(map(str, (*keys, share)))
        _, found = designed(folder, **same, find="best", limits=limits)
        assert found.proven
        assert found.machines.best is not None
        least = min(row[column] for row in kept)
        assert found.machines.best[column] == pytest.approx(least, rel=1e-12)
        reasons |= {box.why for box in found.settled}
        assert share != 0.2 or ms.verify(found.certificate).holds
    assert "limits" in reasons


FIGURE = st.floats(0.1, 100.0)
LAYER = st.tuples(FIGURE, FIGURE, FIGURE, st.integers(1, 9))


def chosen_within(
    layers: list[tuple[float, float, float, int]], shares: list[float], power: int
) -> tuple[float, float]:
    """Energy and time of a choice that has no less than what is known of any layer.

    Args:
        layers: of each the least value, energy and time, and how often it occurs.
        shares: how long each takes, 0: as shortly as its least time and the largest energy allow.
        power: of the time in the objective.
    """
    total_energy = total_time = 0.0
    for (value, energy, time, count), share in zip(layers, shares, strict=False):
        longest = max(time, (value / energy) ** (1 / power))
        taken = time * (longest / time) ** share
        total_energy += count * max(energy, value / taken**power)
        total_time += count * taken
    return total_energy, total_time


def held(layers: list[tuple[float, float, float, int]], most: Allowed, power: int) -> None:
    """No choice within the limits is below its bound, however the layers share the time."""
    objective: dict[int, Objective] = {1: "edp", 2: "ed2p"}
    columns = list(zip(*layers, strict=True))
    least = Least(*(np.array(column) for column in columns[:3]))
    bound = least_within(Aim(objective[power]), least, columns[3], most)
    steps = np.linspace(0, 1, 9).tolist()
    for shares in itertools.product(steps, repeat=len(layers)):
        energy, time = chosen_within(layers, list(shares), power)
        if energy <= most.power * time and energy <= most.energy and time <= most.time:
            assert energy * time**power >= bound * (1 - 1e-9)


@settings(max_examples=60)
@given(
    st.lists(LAYER, min_size=1, max_size=3),
    st.floats(0.05, 1.0),
    st.sampled_from(["power", "energy", "time"]),
    st.integers(1, 2),
)
def test_no_choice_within_limits_is_below_its_bound(
    layers: list[tuple[float, float, float, int]], share: float, what: str, power: int
) -> None:
    fast = chosen_within(layers, [0.0] * 3, power)
    slow = chosen_within(layers, [1.0] * 3, power)
    ends = {
        "power": (slow[0] / slow[1], fast[0] / fast[1]),
        "energy": (slow[0], fast[0]),
        "time": (fast[1], slow[1]),
    }[what]
    limit = ends[0] ** (1 - share) * ends[1] ** share
    most = {"power": math.inf, "energy": math.inf, "time": math.inf, what: limit}
    held(layers, Allowed(**most), power)


def test_a_bound_beyond_the_limit_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would find an edge that is followed too far."""
    layers = [(4.0, 1.0, 0.5, 1), (9.0, 1.0, 0.5, 2)]
    limits = Allowed(2.0, math.inf, math.inf)
    held(layers, limits, 1)

    def too_far(self: _Edge, point: Any, rate: float, end: float, beyond: Any) -> float:
        energy, time = point(end)
        return float(energy * time)

    monkeypatch.setattr(_Edge, "_meets", too_far)
    with pytest.raises(AssertionError):
        held(layers, limits, 1)


def test_the_edge_is_where_the_limit_is_met() -> None:
    """Two layers, of which each can save energy for time: the bound is reached."""
    layers = [(4.0, 3.9, 0.5, 1), (9.0, 0.5, 0.5, 2)]
    columns = list(zip(*layers, strict=True))
    least = Least(*(np.array(column) for column in columns[:3]))
    bound = least_within(Aim("edp"), least, columns[3], Allowed(0.4, math.inf, math.inf))
    steps = np.linspace(0, 1, 201).tolist()
    taken = [chosen_within(layers, [a, b], 1) for a in steps for b in steps]
    reached = min(energy * time for energy, time in taken if energy <= 0.4 * time)
    assert bound <= reached <= 1.02 * bound
    assert bound > 1.05 * max(
        Aim("edp").least_total([4.0, 9.0], [1, 2]), (3.9 + 2 * 0.5) ** 2 / 0.4
    )


def test_known_mappings_reach_no_less_than_the_optimum() -> None:
    """And those of the machine itself reach it; where a mapping does not fit, it is none."""
    work, aims = workload(LAYERS[0]), (Aim("edp"), Aim("energy"))
    base = accelerator("mm256-bw")
    sizes = [(8, 64), (16, 256), (64, 1024)]
    machines = [
        base.model_copy(
            update={
                "levels": (
                    base.levels[0],
                    base.levels[1].model_copy(update={"capacity_words": outer, "fanout": 4}),
                    base.levels[2].model_copy(update={"capacity_words": inner}),
                )
            }
        )
        for inner, outer in sizes
    ]
    proofs = [prove_problem(Problem(work, machine, "edp"), 30.0) for machine in machines]
    for own, (machine, proof) in enumerate(zip(machines, proofs, strict=True)):
        reached = Reached([Layer(work, 1)], aims)
        assert reached.least(0, machine).value == math.inf
        reached.add(0, machine, proof.record)
        for other, told in zip(machines, proofs, strict=True):
            best = Aim("edp").bounds(told, other.clock_ghz)[0]
            point = reached.least(0, other)
            assert point.value >= best * (1 - 1e-12)
        assert reached.least(0, machine).value == pytest.approx(
            Aim("edp").bounds(proofs[own], machine.clock_ghz)[0], rel=1e-12
        )
    first = Reached([Layer(work, 1)], aims)
    first.add(0, machines[2], proofs[2].record)
    assert first.least(0, machines[0]).value == math.inf, "tiles of the largest machine do not fit"


def test_the_answer_as_json_is_what_was_found(tmp_path: Path) -> None:
    limits = {"power_w": 0.2}
    plan, found = designed(tmp_path, workloads=LAYERS[:1], find="best", limits=limits)
    answer = answer_of(found)
    assert json.loads(json.dumps(answer)) == answer
    best = found.machines.best
    assert best is not None
    [machine] = answer["machines"]
    assert machine["parameters"] == {key: best[key] for key in plan.design.grid or {}}
    assert machine["power_w"] == best["power_w"] <= 0.2
    assert machine["edp_js"] == pytest.approx(best["edp"] / best["clock_ghz"] * 1e-21, rel=1e-9)
    assert (answer["proven"], answer["gap"]) == (True, 0.0)
    assert sum(answer["settled"].values()) == answer["size"] == plan.grid.size
    assert (answer["proofs"], answer["problems"]) == (found.proofs, plan.grid.size)
    assert {step["key"] for step in answer["steps"]} | set(answer["ends"]) == set(GRID)
    schema = tidied(TypeAdapter(DesignFound).json_schema())
    jsonschema.validate(json.loads(json.dumps(answer)), schema)


def test_energy_and_time_at_a_rate_by_hand() -> None:
    """Of 8 and 18 at a rate of 2 the times are 2 and 3, and the energies 4 and 6."""
    least = Least(np.array([8.0, 18.0]), np.array([1.0, 9.0]), np.array([2.5, 1.0]))
    edge = _Edge(1, least, np.array([1.0, 2.0]))
    # The second takes 9 of energy at least, and then 2 of time.
    assert edge._by_energy(2.0) == pytest.approx((4 + 2 * 9, 2 + 2 * 2))
    # The first takes 2.5 of time at least, and then 3.2 of energy.
    assert edge._by_time(2.0) == pytest.approx((3.2 + 2 * 6, 2.5 + 2 * 3))
    assert edge._all_least_energy() == pytest.approx(8 / 64)
    # Squares of the time: of 16 at a rate of 4 it is 2, and the energy 4.
    square = _Edge(2, Least(np.array([16.0]), np.array([1.0]), np.array([1.0])), np.ones(1))
    assert square._by_energy(4.0) == pytest.approx((4, 2))
    assert square._by_time(4.0) == pytest.approx((4, 2))
    assert square._all_least_energy() == pytest.approx(2 * 16 * (1 / 16) ** 1.5)
