"""Energy and cycles bounded together: no point that obeys the bounds has a smaller objective."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from costmodel.costs import Objective
from costmodel.exact_any.known import NO_GAPS, SLACK
from costmodel.exact_any.staircase import Staircase
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from costmodel.tile_chains.sights import Wanted, _along, _joint
from costmodel.tile_chains.views import Together


@pytest.mark.parametrize(("objective", "power"), [("edp", 1), ("ed2p", 2)])
def test_no_point_has_a_smaller_objective(objective: Objective, power: int) -> None:
    rng = np.random.default_rng(0)
    tight = 0
    for _ in range(300):
        energy, cycles = rng.uniform(1, 100, 2)
        together = Together.of(objective, energy, cycles)
        both = (energy + together.rate * cycles) * rng.uniform(0.5, 1.5)
        slow = np.array([cycles * rng.uniform(1, 1.2)])
        bound = together.energy(np.array([energy]), slow, np.array([both]), cycles)[0]
        more = np.linspace(0, 1, 400) * max(0.0, both / together.rate - slow[0])
        end = max(slow[0], (both - energy) / together.rate)
        points = np.append(slow[0] + more, end)
        needed = np.maximum(energy, both - together.rate * points)
        values = needed * (points / cycles) ** power
        assert bound <= values.min() * (1 + 1e-12)
        tight += bound >= values.min() * (1 - 1e-12)
    assert tight == 300


@pytest.mark.parametrize("power", [1, 2])
def test_tilings_are_bounded_by_the_same_sum(power: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        rate, cycles = rng.uniform(0.1, 10), float(rng.integers(1, 100))
        energy, slow = rng.uniform(1, 100), cycles * rng.choice([1.0, 1.5])
        both = (energy + rate * slow) * rng.uniform(0.5, 2)
        said = _joint.py_func(
            SimpleNamespace(slack=SLACK), SimpleNamespace(rate=rate, power=power),
            energy, slow, both, Wanted(cycles, np.inf, *NO_GAPS),
        )  # fmt: skip
        sets = np.array([energy]), np.array([slow]), np.array([both])
        assert said == Together(rate, power).energy(*sets, cycles)[0] * (1 - SLACK)


def test_tilings_lie_in_the_same_gaps() -> None:
    space = MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("mm256"))
    rng, lost = np.random.default_rng(2), 0
    for _ in range(300):
        size = int(rng.integers(1, 6))
        front = Staircase(space)
        front.cycles = np.cumsum(rng.integers(1, 9, size)).astype(float).tolist()
        front.energies = np.cumsum(rng.integers(1, 9, size)).astype(float)[::-1].tolist()
        rate, energy, slow = float(rng.choice([0.5, 2.0])), rng.uniform(1, 30), rng.uniform(1, 30)
        both = (energy + rate * slow) * rng.uniform(0.8, 2)
        wanted = Wanted(slow, np.inf, *front.gaps)
        said = _along.py_func(
            SimpleNamespace(slack=SLACK), SimpleNamespace(rate=rate), energy, slow, both, wanted
        )
        sets = np.array([energy]), np.array([slow]), np.array([both])
        assert said == front.together(rate).energy(*sets, slow)[0]
        lost += np.isinf(said)
    assert 20 <= lost <= 280
