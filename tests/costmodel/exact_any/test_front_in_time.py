"""A front within its time: tables of a proof take of it, too."""

from __future__ import annotations

import time

import numpy as np
import pytest

from costmodel.exact_any.choice import load_prover
from costmodel.exact_any.front import FIRST_MAPPINGS, FrontProver, search_front
from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from costmodel.space import Codes

SIZES = dict.fromkeys("abcdef", 64)
TENSORS = {f"T{place}": list(pair) for place, pair in enumerate(("ab", "bc", "cd", "de", "ef"))}
SIX = {**TENSORS, "O": ["a", "c", "e"]}


def test_tables_of_a_front_take_of_its_time() -> None:
    """Six tensors that any level may leave out: listing what may be kept takes long."""
    work = workload({"name": "six", "dimensions": SIZES, "tensors": SIX, "output": "O"})
    free = accelerator("mm256").model_copy(update={"name": "free", "bypass": "searched"})
    space = MapSpace(work, free)
    load_prover(space)
    began = time.monotonic()
    front = search_front(space, seconds=0.3)
    assert time.monotonic() - began < 5
    assert not front.proven
    assert front.bounds == [(0, 0.0)]
    # What is known is what it is said to be, and none of it beats another.
    assert front.points
    costs = LoopNestModel().evaluate(space, np.stack([point.code for point in front.points]))
    cycles = [point.latency_cycles for point in front.points]
    energies = [point.energy_pj for point in front.points]
    assert cycles == sorted(set(cycles))
    assert energies == sorted(set(energies), reverse=True)
    assert np.allclose(costs.energy_pj, energies, rtol=1e-9)
    assert np.allclose(costs.latency_cycles, cycles)


@pytest.mark.parametrize("seconds", [0.0, None])
def test_first_mappings_take_of_its_time(
    seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any, what is known elsewhere is looked at alone; with all that it takes, all are."""
    space = MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("eyeriss"))
    offered: list[Codes] = []
    honest = FrontProver.offer

    def noted(self: FrontProver, codes: Codes) -> None:
        offered.extend(codes)
        honest(self, codes)

    monkeypatch.setattr(FrontProver, "offer", noted)
    known = space.sample(np.random.default_rng(5), 1, feasible=True)[0]
    front = search_front(space, known=[known], seconds=seconds)
    assert offered[0].tolist() == known.tolist()
    assert front.proven is (seconds is None)
    if seconds is None:
        first = space.sample(np.random.default_rng(0), FIRST_MAPPINGS, feasible=True)
        assert [code.tolist() for code in offered[1 : 1 + len(first)]] == first.tolist()
    else:
        assert len(offered) == 1
