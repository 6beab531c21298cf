"""Buffers side by side: every order is a part of the mapping, and no order of the file matters."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import every_mapping

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact_any.choice import make_prover
from costmodel.loop_nest.nest_coding import nest_code
from costmodel.loop_nest.records import mapping_record, score
from costmodel.machines.bounds import floor
from costmodel.machines.side_by_side import all_orders, free_groups, in_order
from mapspace.errors import ConfigError

SPADS: tuple[dict[str, Any], ...] = (
    {"name": "in", "capacity_words": 3, "energy_pj": 0.7, "bypass": ["weight", "output"]},
    {"name": "w", "capacity_words": 4, "energy_pj": 1.1, "bypass": ["input", "output"]},
    {"name": "sum", "capacity_words": 2, "energy_pj": 0.9, "bypass": ["input", "weight"]},
)


def machine(*names: str, beside: str | None = "pe", **further: Any) -> dict[str, Any]:
    """DRAM, a buffer with a fan-out of two, and scratchpads in an order."""
    spads = {spad["name"]: spad for spad in SPADS}
    levels = [{**spads[name], **({"beside": beside} if beside else {})} for name in names]
    levels[-1]["fanout"] = 2
    return {
        "name": "spads",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 200.0},
            {"name": "GLB", "capacity_words": 20, "energy_pj": 6.0, "fanout": 2},
            *levels,
        ],
        **further,
    }


def optimum(data: dict[str, Any], problem: str, objective: Any = "edp") -> float:
    """The proven least value."""
    prover = make_prover(MapSpace(workload(problem), accelerator(data)), objective=objective)
    prover.run()
    assert prover.finished
    found = LoopNestModel().evaluate(prover.space, prover.codes())
    return float(found.objective(objective)[0])


def test_every_order_is_a_machine_of_its_own() -> None:
    held = accelerator(machine("in", "w", "sum"))
    orders = all_orders(held, free_groups(held))
    assert orders == [(0, 1, *order) for order in itertools.permutations((2, 3, 4))]
    last = in_order(held, orders[-1])
    assert last.level_names == ("DRAM", "GLB", "sum", "w", "in")
    assert [level.fanout for level in last.levels] == [1, 2, 1, 1, 2]
    assert [level.capacity_words for level in last.levels[2:]] == [2, 4, 3]
    assert not free_groups(last)


def test_orders_are_counted_and_drawn_alike() -> None:
    work = workload("gemm:M=4,N=4,K=2")
    space = MapSpace(work, accelerator(machine("in", "w", "sum")))
    fixed = MapSpace(work, accelerator(machine("in", "w", "sum", beside=None)))
    assert space.size() == 6 * fixed.size()
    assert space.attribute_names[-1] == "beside.pe"
    assert space.cardinality[-1] == 6
    assert space.orders is not None
    counted = [one.feasible_count() for one in space.orders.spaces]
    assert space.feasible_count() == sum(counted)  # type: ignore[arg-type]
    codes = space.sample(np.random.default_rng(0), 6000, feasible=True)
    assert space.feasible(codes).all()
    assert space.sample(np.random.default_rng(0), 0, feasible=True).shape == (0, codes.shape[1])
    drawn = np.bincount(space.orders.which(codes), minlength=6)
    expected = 6000 * np.array(counted) / sum(counted)  # type: ignore[arg-type]
    assert ((drawn - expected) ** 2 / expected).sum() < 20.5  # chi-square, 5 degrees, 0.1 %


@pytest.mark.parametrize("bypass", ["none", "searched"])
def test_a_mapping_costs_what_it_costs_on_the_machine_of_its_order(bypass: Any) -> None:
    data = machine("in", "w", "sum", bypass=bypass)
    if bypass == "searched":
        data["levels"][2]["bypass"] = ["output"]
        data["levels"][4]["bypass"] = ["input"]
    space = MapSpace(workload("conv1d:K=2,C=2,P=4,R=3"), accelerator(data))
    codes = space.sample(np.random.default_rng(1), 400)
    costs = LoopNestModel().evaluate(space, codes, detail=True)
    assert costs.ok.any()
    assert not costs.ok.all()
    for row, code in enumerate(codes[:60]):
        mapping = space.describe(code)
        names = [level.name for level in mapping.levels]
        plain = in_order(accelerator(data), [space.accelerator.level_names.index(n) for n in names])
        alone = MapSpace(space.workload, plain)
        its = LoopNestModel().evaluate(alone, alone.code(mapping)[None], detail=True)
        assert its.energy_pj[0] == costs.energy_pj[row]
        assert its.latency_cycles[0] == costs.latency_cycles[row]
        assert its.excess[0] == costs.excess[row]
        assert (space.describe(space.code(mapping))) == mapping
        assert costs.detail is not None
        assert its.detail is not None
        for place, name in enumerate(names):
            level = space.accelerator.level_names.index(name)
            assert (costs.detail.reads[row, level] == its.detail.reads[0, place]).all()
            if costs.status[row] == 2 + level:
                assert its.status[0] == 2 + place


def test_the_record_names_the_order_and_scores_the_same() -> None:
    data = machine("in", "w", "sum")
    space = MapSpace(workload("gemm:M=4,N=4,K=2"), accelerator(data))
    for code in space.sample(np.random.default_rng(2), 20, feasible=True):
        record = mapping_record(space, code)
        names = [level.name for level in space.describe(code).levels]
        assert [level["name"] for level in record["arch"]["levels"]] == names
        result = score([record], LoopNestModel())[0]["result"]
        costs = LoopNestModel().evaluate(space, code[None])
        assert result["energy_pj"] == costs.energy_pj[0]
        assert result["cycles"] == costs.latency_cycles[0]
        assert str(space.describe(nest_code(space, record["mapping"]))) == str(space.describe(code))


def test_moves_reach_other_orders_and_stay_in_the_space() -> None:
    space = MapSpace(workload("gemm:M=4,N=4,K=2"), accelerator(machine("in", "w", "sum")))
    rng = np.random.default_rng(3)
    assert space.orders is not None
    assert len(space.orders.spaces[0].sample(rng, 0, feasible=True)) == 0
    codes = space.sample(rng, 500, feasible=True)
    moved = space.mutate(rng, codes)
    space.check(moved)
    assert 0.03 < (moved[:, -1] != codes[:, -1]).mean() < 0.2
    nearby = space.neighbours(codes[0])
    assert len(np.unique(nearby, axis=0)) == len(nearby)
    assert (nearby[:, -1] != codes[0, -1]).sum() == 3
    edited = space.edit(codes, rng.integers(0, space.edit_choices, codes.shape))
    assert space.feasible(edited).all()
    assert (edited[:, -1] != codes[:, -1]).any()
    assert (space.edit(codes, np.zeros(codes.shape, int)) == codes).all()
    projected = space.project(space.encode(codes))
    assert (space.encode(projected) == space.encode(codes)).all()
    assert len(space.feature_names) == space.encode(codes).shape[1]


@pytest.mark.parametrize("objective", ["edp", "latency"])
@pytest.mark.parametrize("problem", ["gemm:M=2,N=4,K=2", "conv1d:K=2,C=1,P=4,R=2"])
def test_the_proof_equals_enumeration(problem: str, objective: Any) -> None:
    data = machine("in", "w", "sum")
    least = math.inf
    for order in itertools.permutations(("in", "w", "sum")):
        space = MapSpace(workload(problem), accelerator(machine(*order, beside=None)))
        codes = every_mapping(space, 60_000)
        assert codes is not None
        costs = LoopNestModel().evaluate(space, codes)
        least = min(least, float(costs.objective(objective).min()))
    assert optimum(data, problem, objective) == pytest.approx(least, rel=1e-12)


@settings(max_examples=8)
@given(
    order=st.permutations(["in", "w", "sum"]),
    sizes=st.tuples(*[st.sampled_from([2, 3, 4, 6])] * 3),
    capacities=st.tuples(*[st.sampled_from([1, 2, 3, 5])] * 3),
)
def test_equivalent_descriptions_have_one_optimum(
    order: list[str], sizes: tuple[int, ...], capacities: tuple[int, ...]
) -> None:
    problem = "gemm:M={},N={},K={}".format(*sizes)
    one, other = machine("in", "w", "sum"), machine(*order)
    for data in (one, other):
        for level in data["levels"][2:]:
            place = ["in", "w", "sum"].index(level["name"])
            level["capacity_words"] = capacities[place]
    assert optimum(one, problem) == pytest.approx(optimum(other, problem), rel=1e-12)
    fixed = optimum({**other, "levels": [
        {k: v for k, v in level.items() if k != "beside"} for level in other["levels"]
    ]}, problem)  # fmt: skip
    assert optimum(other, problem) <= fixed * (1 + 1e-12)
    work = workload(problem)
    assert floor(work, accelerator(one)).edp == floor(work, accelerator(other)).edp


def test_loops_that_constraints_name_keep_the_order_of_the_file() -> None:
    work, data = workload("gemm:M=4,N=4,K=2"), machine("in", "w", "sum")
    named = [{"target": "w", "type": "temporal", "factors": "K=1"}]
    assert MapSpace(work, accelerator({**data, "constraints": named})).orders is None
    assert MapSpace(work, accelerator(data), constraints=named).orders is None
    kept = [{"target": "GLB", "type": "temporal", "factors": "K=1"}]
    space = MapSpace(work, accelerator({**data, "constraints": kept}))
    assert space.orders is not None
    code = space.sample(np.random.default_rng(0), 1, feasible=True)[0]
    assert space.describe(code).levels[1].temporal["K"] == 1


def test_what_cannot_lie_side_by_side_is_refused() -> None:
    data = machine("in", "w", "sum")
    data["levels"][0]["beside"] = data["levels"][1]["beside"] = "outer"
    with pytest.raises(ConfigError, match="DRAM is outermost and lies beside nothing"):
        accelerator(data)
    data = machine("in", "w", "sum")
    data["levels"][2]["router_pj"] = 0.5
    with pytest.raises(ConfigError, match=r"router_pj: in lies beside the level below it"):
        accelerator(data)
    levels = [{**SPADS[0], "name": f"s{i}", "beside": "pe"} for i in range(7)]
    data = {**data, "levels": [*data["levels"][:2], *levels]}
    with pytest.raises(ConfigError, match="have 5,040 orders; expected at most 720"):
        MapSpace(workload("gemm:M=2,N=2,K=2"), accelerator(data))
