"""What others must be below to be among the best: the same of many at once as of each."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.exact_any.known import Known
from costmodel.exact_any.staircase import Staircase


@pytest.fixture(scope="module")
def space() -> MapSpace:
    """Any."""
    return MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("eyeriss"))


def check(known: Known, cycles: list[int]) -> None:
    """Holds limits, and who could win, against those of each, to the last bit."""
    limits = known.limits(np.array(cycles))
    assert limits.tolist() == [known.limit(its) for its in cycles]
    near = np.nextafter(limits, 0), limits, np.nextafter(limits, np.inf), np.ones(len(cycles))
    for energy in near:
        each = [known.beats(e, c) for e, c in zip(energy.tolist(), cycles, strict=True)]
        assert known.could_beat(energy, np.array(cycles)).tolist() == each


@pytest.mark.parametrize("objective", ["edp", "energy", "latency", "ed2p"])
def test_limits_are_those_of_each(objective: Objective, space: MapSpace) -> None:
    rng = np.random.default_rng(0)
    cycles = [*rng.integers(1, 10**9, 300).tolist(), 977, 978, 979]
    known = Known(space, objective)
    check(known, cycles)
    for energy in (1.0, *10 ** rng.uniform(0, 12, 20)):
        known.start_below((float(energy), 978.0))
        check(known, cycles)


def test_limits_of_a_front_are_those_of_each(space: MapSpace) -> None:
    front = Staircase(space)
    cycles = list(range(1, 40))
    check(front, cycles)
    front.take(space.sample(np.random.default_rng(0), 200, feasible=True))
    assert len(front.cycles) > 2
    check(front, [*cycles, *map(int, front.cycles), *(int(its) - 1 for its in front.cycles)])
