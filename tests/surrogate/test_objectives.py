"""A surrogate of EDP is one of every objective: its last outputs are energy and cycles."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES, POWERS
from surrogate.for_space import predictor

# The shipped surrogates: of one machine, and of every machine.
PLACES = [("resnet-conv4", "mm256"), ("gemm:M=64,N=64,K=64", "mm256")]


@cache
def drawn(place: tuple[str, str]) -> tuple[Any, Any, Any]:
    space = MapSpace(workload(place[0]), accelerator(place[1]))
    codes = space.sample(np.random.default_rng(1), 400, feasible=True)
    return predictor(space, None), space.encode(codes), LoopNestModel().evaluate(space, codes)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_logarithms_add_up_and_rank_as_the_truth(place: Any, objective: Any) -> None:
    found, points, costs = drawn(place)
    energy, cycles = (found.for_objective(name).value(points) for name in ("energy", "latency"))
    of_energy, of_cycles = POWERS[objective]
    told = found.for_objective(objective)
    np.testing.assert_allclose(
        told.value(points), of_energy * energy + of_cycles * cycles, rtol=1e-4, atol=1e-4
    )
    truth = np.log(costs.objective(objective))
    assert np.corrcoef(told.value(points), truth)[0, 1] > 0.97
    assert (told.for_objective("edp").value(points) == found.value(points)).all()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_are_those_of_the_objective(place: Any, objective: Any) -> None:
    found, points, _ = drawn(place)
    energy, cycles = (
        found.for_objective(name).value_and_slope(points)[2].astype(float)
        for name in ("energy", "latency")
    )
    of_energy, of_cycles = POWERS[objective]
    told = found.for_objective(objective)
    values, _, slopes = told.value_and_slope(points)
    np.testing.assert_allclose(values, told.value(points), rtol=1e-4, atol=1e-4)
    scale = np.abs(slopes).max()
    expected = of_energy * energy + of_cycles * cycles
    np.testing.assert_allclose(slopes / scale, expected / scale, atol=1e-4)
    # Of the objective itself it is its logarithm's, times it.
    values, gradient = told.value_and_gradient(points[:20])
    one = [found.for_objective(n).value_and_gradient(points[:20]) for n in ("energy", "latency")]
    logs = [slope / np.exp(value)[:, None] for value, slope in one]
    expected = (of_energy * logs[0] + of_cycles * logs[1]) * np.exp(values)[:, None]
    scale = np.abs(gradient).max()
    np.testing.assert_allclose(gradient / scale, expected / scale, atol=1e-4)
