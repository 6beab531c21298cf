"""Fronts from mappings known on: what lies just below or between them is found (lemma 12d)."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from mutations import broken
from small_hierarchies import random_hierarchy, random_ports

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact_any import assignment_queue, chain_bounds, front, staircase

JUST_ABOVE = 1 + 1e-9
SPACE = MapSpace(workload("gemm:M=2,N=2,K=2"), accelerator("eyeriss"))

BREAKS = {
    "a sum is held against the most energy of a gap": (
        "energy",
        "top + self.rate * right > both[:, None]",
        "top > both[:, None]",
    ),
    "what lies in a gap has the cycles of the first": (
        "energy",
        "right.size - 1 - np.argmax(able[:, ::-1], axis=1)",
        "np.argmax(able, axis=1)",
    ),
    "a sum in a gap is at most that of its fewest cycles": (
        "most_sum",
        "top[its] + rate * (right[its] + 1)",
        "top[its] + rate * cycles",
    ),
    "the fastest mapping bounds the cycles of all others": (
        "most_cycles",
        "np.count_nonzero(top > energy) - 1",
        "0",
    ),
    "a gap ends before the mapping that opens it": (
        "gaps",
        "np.array([*self.cycles, math.inf]) - 1",
        "np.array([0.0, *self.cycles]) - 1",
    ),
}


def front_of(space: MapSpace, codes: Codes) -> list[tuple[int, float, Codes]]:
    """Cycles, energy and code of the mappings that none of all of them beats."""
    costs = LoopNestModel().evaluate(space, codes)
    found: list[tuple[int, float, Codes]] = []
    for b in np.lexsort((costs.energy_pj, costs.latency_cycles)):
        energy = float(costs.energy_pj[b])
        if np.isfinite(energy) and (not found or energy < found[-1][1] * (1 - 1e-11)):
            found.append((int(costs.latency_cycles[b]), energy, codes[b]))
    return found


def check_from(
    space: MapSpace, points: list[tuple[int, float, Codes]], step: int, later: int
) -> None:
    """Proves a front from some of its points on, each known with a little more energy.

    Args:
        space: the map space.
        points: its front.
        step: every so manieth of them is known.
        later: cycles that those known take more.
    """
    prover = front.FrontProver(space)
    known = prover._front
    known.cycles = [float(cycles + later) for cycles, _, _ in points[::step]]
    known.energies = [energy * JUST_ABOVE for _, energy, _ in points[::step]]
    known.mappings = [code for _, _, code in points[::step]]
    while not prover.finished:
        prover.finished = next(prover._work, prover) is prover
        so_far = front.Front([], prover.bounds(), False)
        for cycles, energy, _ in points:
            assert so_far.least_energy(cycles) <= energy * JUST_ABOVE, "a corner is too high"
    where = f"{space.accelerator.model_dump()} of {space.workload}"
    found = prover.points()
    assert [one.latency_cycles for one in found] == [cycles for cycles, _, _ in points], where
    least = [energy for _, energy, _ in points]
    np.testing.assert_allclose([one.energy_pj for one in found], least, rtol=1e-11, err_msg=where)


def check(seed: int, most: int) -> int:
    """Holds the fronts of two random problems against all mappings; counts their points."""
    spaces = [
        random_hierarchy(np.random.default_rng(seed), most)[:2],
        random_ports(seed, most),
    ]
    count = 0
    for space, codes in spaces:
        points = front_of(space, codes)
        count += len(points)
        for step, later in ((1, 0), (2, 0), (1, 1)) if points else ():
            check_from(space, points, step, later)
    return count


def check_gaps(seed: int) -> int:
    """Holds what a random front says of random sets of outcomes against each; counts those left."""
    rng = np.random.default_rng(seed)
    known, size = staircase.Staircase(SPACE), int(rng.integers(1, 6))
    known.cycles = np.cumsum(rng.integers(1, 9, size)).astype(float).tolist()
    known.energies = np.cumsum(rng.integers(1, 9, size)).astype(float)[::-1].tolist()
    energies = rng.integers(1, 50, 5).astype(float)
    cycles = rng.integers(1, 50, 5).astype(float)
    rate = float(rng.choice([0.1, 0.5, 1.0, 2.0, 10.0]))
    least, fewest = energies.min(), cycles.min()
    sums = energies + rate * cycles
    left = [e < known.limit(c) for e, c in zip(energies, cycles, strict=True)]
    bounds = np.array([least]), np.array([fewest]), np.array([sums.min()])
    claimed = known.together(rate).energy(*bounds, fewest)[0]
    assert (energies[left] >= claimed).all(), "a bound is too high"
    assert (cycles[left] < known.most_cycles(least, fewest)).all(), "too few cycles"
    assert (sums[left] < known.most_sum(least, fewest, rate)).all(), "too little in all"
    assert (known.too_slow(energies, cycles) == ~np.array(left)).all()
    return sum(left)


def check_fronts(count: int) -> int:
    """Checks some random problems; counts the points of their fronts."""
    return sum(check(seed, 1500) for seed in range(7000, 7000 + count))


def check_all_gaps() -> int:
    """Checks many random fronts; counts the outcomes that they leave."""
    return sum(check_gaps(seed) for seed in range(500))


def test_points_just_below_and_between_those_known_are_found() -> None:
    assert check_fronts(15) >= 45


def test_gaps_leave_whatever_could_be_on_the_front() -> None:
    assert check_all_gaps() >= 100


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_points_are_found(block: int) -> None:
    for seed in range(8000 + 20 * block, 8020 + 20 * block):
        check(seed, 30_000)


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_module = broken_staircase(name)
    monkeypatch.setattr(staircase, "Staircase", broken_module)
    with pytest.raises(AssertionError):
        check_all_gaps()


def test_a_sum_without_cycles_loses_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole fronts show it too, not only what is claimed of gaps."""
    name = "a sum is held against the most energy of a gap"
    monkeypatch.setattr(front, "Staircase", broken_staircase(name))
    with pytest.raises(AssertionError):
        check_fronts(60)


def test_cycles_mixed_too_high_lose_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    change = "_raise_mixed", "math.ceil(least * (1 - SLACK))", "math.ceil(least * (1 - SLACK)) + 1"
    raised = broken_names(chain_bounds, change)["ChainBounds"]._raise_mixed
    monkeypatch.setattr(chain_bounds.ChainBounds, "_raise_mixed", raised)
    with pytest.raises(AssertionError):
        check_fronts(60)


def test_work_that_is_forgotten_is_seen_in_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    change = "bounds_left", "waiting |= {(group, a) for a in in_work}", "waiting |= set()"
    forgetful = broken_names(assignment_queue, change)["AssignmentQueue"].bounds_left
    monkeypatch.setattr(assignment_queue.AssignmentQueue, "bounds_left", forgetful)
    with pytest.raises(AssertionError, match="a corner is too high"):
        check_fronts(15)


def broken_staircase(name: str) -> Any:
    """The front's class with a rule broken."""
    return broken_names(staircase, BREAKS[name])["Staircase"]


def broken_names(module: ModuleType, change: tuple[str, str, str]) -> dict[str, Any]:
    """What a module has with a function changed."""
    names: dict[str, Any] = {"__name__": "broken"}
    source = broken(Path(str(module.__file__)).read_text(), *change)
    exec(compile(source, "broken", "exec"), names)
    return names
