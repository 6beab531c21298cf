"""What more of a resource gains, and which decisions are forced, against complete enumeration."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from small_hierarchies import random_hierarchy
from small_problems import every_mapping, random_problem

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.arrays.machine_tables import usable_words
from costmodel.costs import Objective
from costmodel.exact_any.choice import make_prover
from costmodel.explanation.explained import Explanation, Neighbour, ResourceAnswer
from costmodel.explanation.explanation import Optimum, explain
from costmodel.explanation.neighbours import Resource, enough

FAR = 1e-9
# Far more than they take: a share of it must hold first compilations on a busy machine.
SECONDS = 600.0


def explained(space: MapSpace, objective: Objective = "edp") -> Explanation:
    """The explanation of a space's optimum."""
    prover = make_prover(space, objective=objective)
    prover.run()
    mapping = space.describe(prover.codes(1)[0])
    return explain(Optimum(space, mapping, objective, None), seconds=SECONDS)


def values_of(space: MapSpace, most: int, objective: Objective) -> Any:
    """All mappings of a space, their values, and the words that every level holds."""
    codes = every_mapping(space, most)
    assert codes is not None
    costs = LoopNestModel().evaluate(space, codes, detail=True)
    assert costs.detail is not None
    return codes, costs.objective(objective), costs.detail.tile.sum(axis=2)


def least_with(
    space: MapSpace, resource: Resource, objective: Objective, limits: range
) -> dict[int, float]:
    """The optimum of every capacity, by all mappings that the largest allows."""
    if space.accelerator.levels[resource.level].banks is not None:
        machines = {amount: resource.grown(space.accelerator, amount) for amount in limits}
        return {
            amount: float(values_of(MapSpace(space.workload, one), 10**6, objective)[1].min())
            for amount, one in machines.items()
        }
    wide = resource.grown(space.accelerator, limits[-1])
    _, values, held = values_of(MapSpace(space.workload, wide), 10**6, objective)
    found = {}
    for amount in limits:
        level = resource.grown(space.accelerator, amount).levels[resource.level]
        fits = held[:, resource.level] <= usable_words(level)
        found[amount] = float(values[fits].min())
    return found


def check_capacity(space: MapSpace, answer: ResourceAnswer, found: Explanation) -> bool:
    """Holds what is said of a capacity against every larger one; whether it is active."""
    resource = answer.resource
    most = int(enough(resource, space.accelerator, space.workload))
    step = int(resource.step)
    amounts = range(int(resource.amount), max(most, int(resource.amount)) + 1, step)
    if len(amounts) == 1:
        assert answer.active is False
        return False
    least = least_with(space, resource, found.objective, amounts)
    assert least[amounts[0]] == pytest.approx(found.value, rel=FAR)
    better = [amount for amount in amounts if least[amount] < found.value * (1 - FAR)]
    assert answer.active is bool(better)
    assert answer.enough.value == pytest.approx(least[amounts[-1]], rel=FAR)
    assert answer.one_more is (least[amounts[1]] < found.value * (1 - FAR))
    if not better:
        assert answer.step is None
        assert answer.nothing_to == np.inf
        return False
    assert answer.step is not None
    assert answer.least
    assert answer.step.amount == better[0]
    assert answer.nothing_to == better[0] - step
    assert answer.step.value == pytest.approx(least[better[0]], rel=FAR)
    return True


def check_instances(space: MapSpace, answer: ResourceAnswer, found: Explanation) -> bool:
    """Holds what is said of instances next to each other against twice as many, one by one."""
    resource, better = answer.resource, []
    for amount in range(int(resource.amount) + 1, 2 * int(resource.amount) + 1):
        wide = MapSpace(space.workload, resource.grown(space.accelerator, amount))
        _, values, _ = values_of(wide, 10**6, found.objective)
        if values.min() < found.value * (1 - FAR):
            better.append((amount, float(values.min())))
    assert answer.active is bool(better)
    assert answer.one_more is (bool(better) and better[0][0] == resource.amount + 1)
    if better:
        assert answer.step is not None
        assert answer.least
        assert (answer.step.amount, answer.step.value) == pytest.approx(better[0], rel=FAR)
    return bool(better)


def check_neighbour(found: Neighbour, values: npt.NDArray[np.float64]) -> None:
    """Holds a neighbour's optimum against all of its mappings."""
    assert found.proven
    assert found.value == (pytest.approx(values.min(), rel=FAR) if len(values) else None)


def decided(space: MapSpace, codes: Codes, decision: str) -> npt.NDArray[np.bool_]:
    """Which mappings decide as it is said."""
    level, _, rest = decision.partition(" ")
    found = []
    for code in codes:
        here = next(one for one in space.describe(code).levels if one.name == level)
        if rest.startswith("spreads"):
            found.append(here.spatial[rest.split()[1]] > 1)
        else:
            found.append((rest.split()[-1] in here.keep) is not rest.startswith("does not"))
    return np.array(found, np.bool_)


Draw = Callable[[np.random.Generator, int], tuple[MapSpace, Codes, Objective]]


def check(seed: int, most: int, draw: Draw = random_hierarchy) -> dict[str, int]:
    """Holds the explanation of a random problem against enumeration; what turned up."""
    space, codes, objective = draw(np.random.default_rng(seed), most)
    while not len(codes):
        seed += 1_000_000
        space, codes, objective = draw(np.random.default_rng(seed), most)
    found = explained(space, objective)
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    seen = dict.fromkeys(("words", "instances", "bandwidth", "forced", "free"), 0)
    for answer in found.resources:
        if answer.resource.kind == "bandwidth":
            wide = answer.resource.grown(space.accelerator, np.inf)
            all_values = values_of(MapSpace(space.workload, wide), 10**6, objective)[1]
            check_neighbour(answer.enough, all_values)
            seen["bandwidth"] += answer.active is True
        elif not answer.resource.only_helps:
            assert answer.active is not False
        elif answer.resource.kind == "capacity":
            seen["words"] += check_capacity(space, answer, found)
        else:
            seen["instances"] += check_instances(space, answer, found)
    for one in found.decisions:
        others = values[~decided(space, codes, one.decision)]
        check_neighbour(one.otherwise, others)
        worse = not len(others) or bool(others.min() > found.value * (1 + FAR))
        assert one.forced is worse, one.decision
        seen["forced" if worse else "free"] += 1
    return seen


@pytest.mark.parametrize("block", range(3))
def test_equals_enumeration(block: int) -> None:
    seen = [check(seed, 300) for seed in range(30_000 + 8 * block, 30_008 + 8 * block)]
    assert sum(one["words"] + one["instances"] for one in seen) > 0


def test_three_levels_equal_enumeration() -> None:
    seen = [check(seed, 300, random_problem) for seed in range(32_000, 32_010)]
    assert sum(one["words"] for one in seen) > 0


def test_counted_by_hand() -> None:
    """A 2 x 2 x 2 product with room for a word of each tensor, for energy.

    DRAM hands over 8 words of A, 8 of B, and takes 4 of Z. A fourth word in L1 is of no use: two
    words of one tensor stay there only where two of another do as well, while the third one's
    pass by. So five words are the least that matter.
    """
    levels = [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
    ]
    machine = accelerator({"name": "two", "mac_energy_pj": 1.0, "levels": levels})
    found = explained(MapSpace(workload("gemm:M=2,N=2,K=2"), machine), "energy")
    assert found.value == 8 * 1.0 + 100.0 * (8 + 8 + 4) + 1.0 * (16 + 16 + 4 + 8)
    (answer,) = found.resources
    assert answer.resource.name == "L1 capacity"
    assert answer.active
    assert answer.one_more is False
    assert answer.step is not None
    # Two words of A and of Z with one of B: A and Z enter once, B twice.
    assert answer.step.amount == 5
    assert answer.step.value == 8 * 1.0 + 100.0 * (4 + 8 + 4) + 1.0 * (12 + 16 + 4 + 8)
    # With room for everything each word enters once.
    assert answer.enough.amount == 12
    assert answer.enough.value == 8 * 1.0 + 100.0 * (4 + 4 + 4) + 1.0 * (8 + 16 + 4 + 8)


def test_constraints_that_cost_something_are_active() -> None:
    rules = [
        {"target": "L2", "type": "spatial", "factors": "N=1"},
        {"target": "L1", "type": "temporal", "factors": "K<=64"},
    ]
    machine = accelerator({"extends": "mm256", "constraints": rules})
    found = explained(MapSpace(workload("gemm:M=4,N=64,K=64"), machine))
    first, second = found.constraints
    assert first.without.better
    assert first.without.proven
    assert second.without.better is False
    free = accelerator({"extends": "mm256", "constraints": rules[1:]})
    prover = make_prover(MapSpace(workload("gemm:M=4,N=64,K=64"), free))
    prover.run()
    best = LoopNestModel().evaluate(prover.space, prover.codes(1)).edp[0]
    assert first.without.value == pytest.approx(best, rel=1e-11)


def test_what_time_does_not_suffice_for_says_its_bounds() -> None:
    space = MapSpace(workload("resnet-conv4"), accelerator("eyeriss"))
    prover = make_prover(space)
    prover.run()
    optimum = Optimum(space, space.describe(prover.codes(1)[0]), "edp", None)
    found = explain(optimum, seconds=0.2)
    assert found.seconds < 5
    every = [one.enough for one in found.resources] + [one.otherwise for one in found.decisions]
    left = [one for one in every if not one.proven]
    assert left
    assert all(one.change is None or one.change >= one.change_at_least for one in left)
    stop = threading.Event()
    stop.set()
    cut = explain(optimum, seconds=5.0, stop=stop)
    assert cut.interrupted
    assert not cut.resources


@pytest.mark.slow
@pytest.mark.parametrize("block", range(15))
def test_more_equals_enumeration(block: int) -> None:
    seen = [check(seed, 1500) for seed in range(31_000 + 20 * block, 31_020 + 20 * block)]
    assert all(sum(one[key] for one in seen) > 0 for key in ("words", "forced", "free"))
