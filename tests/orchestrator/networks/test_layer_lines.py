"""What is certain of a layer or a pair at any time, against every mapping."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from fused_walk import Choices
from test_fused import machine_of, pair_of
from test_jointly import front, some_layers

from costmodel import accelerator, workload
from costmodel.cascades.cascade import Cascade
from costmodel.exact_any.weighted import LeastSum
from orchestrator.networks.cascade_lines import CascadeLines
from orchestrator.networks.layer_lines import LayerLines
from orchestrator.networks.plan_floors import PlanFloors

WEIGHTS = (Fraction(0), Fraction(7, 2), Fraction(60), Fraction(1000), None)


@pytest.mark.parametrize("deep", [False, True])
def test_a_proof_goes_on_where_it_was_stopped(deep: bool) -> None:
    for space, _, codes in some_layers(3, 600, deep=deep):
        pairs = front(space, codes)
        for weight in WEIGHTS:
            proof, line = LeastSum(space, weight), None
            least = min(c if weight is None else e + float(weight) * c for e, c in pairs)
            while line is None or not line.proven:
                line = proof.run(0.0005)
                assert float(line.bound) <= least * (1 + 1e-9)
            assert float(line.bound) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_lines_bound_the_weights_between_them(seed: int) -> None:
    for space, _, codes in some_layers(seed, 600, deep=bool(seed % 2)):
        pairs = front(space, codes)
        for known in itertools.combinations(WEIGHTS, 2):
            lines = LayerLines(space, 1)
            lines.begin()
            for weight in known:
                lines.prove(weight, None)
            for weight in (*WEIGHTS, Fraction(20), Fraction(10**6)):
                least = min(c if weight is None else e + float(weight) * c for e, c in pairs)
                assert float(lines.bound_at(weight)) <= least * (1 + 1e-9)
            between = lines.bound_at(Fraction(20))
            assert None in known or between >= lines.bound_at(Fraction(0))
        assert lines.bound_at(Fraction(10**6)) > 0


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 8))]
)
def test_no_plan_is_below_its_bound(seed: int) -> None:
    rng = np.random.default_rng(300 + seed)
    while True:
        said = machine_of(rng)
        said["levels"][0] |= {"read_bandwidth": 1.0, "write_bandwidth": 0.5}
        pair, machine = pair_of(rng), accelerator(said)
        cascade = Cascade.of(*pair)
        walk, lines = Choices(cascade, machine, 200), CascadeLines(cascade, machine)
        try:
            found = {plan: _least_of(walk, plan.factors, plan.kept) for plan in lines.plans}
        except OverflowError:
            continue
        if lines.runs:
            break
    for weight in WEIGHTS:
        for step in range(len(lines.plans) + 1):
            for plan in lines.plans:
                floor = lines._floors.values(weight)[lines.plans.index(plan)]
                bound = max(float(lines._bound(plan, weight)), floor)
                sums = found[plan]
                least = min(
                    (c if weight is None else e + float(weight) * c for e, c in sums),
                    default=float("inf"),
                )
                assert bound <= least * (1 + 1e-9), (weight, plan)
            if step < len(lines.plans):
                lines._go_on(step, weight, float("inf"))


def test_words_are_read_once_at_least() -> None:
    for text in ("cnn:N=1,K=2,C=2,P=3,Q=2,R=2,S=3", "conv1d:P=4,R=3", "gemm:M=2,N=3,K=4"):
        work = workload(text)
        everything = [range(size) for size in work.dimensions.values()]
        points = [
            dict(zip(work.dimensions, point, strict=True))
            for point in itertools.product(*everything)
        ]
        for index, tensor in enumerate(work.tensors):
            words = {
                tuple(sum(c * point[name] for name, c in axis.terms) for axis in tensor.axes)
                for point in points
            }
            assert PlanFloors.words_of(work, index) <= len(words), (text, tensor.name)


def _least_of(
    walk: Choices, factors: tuple[int, ...], kept: tuple[tuple[str, ...], ...]
) -> list[tuple[float, int]]:
    """What a plan can cost, in any order of its loops."""
    several = []
    places = tuple(
        (side, place)
        for side, work in enumerate(walk.cascade.operators)
        for place, tensor in enumerate(work.tensors)
        if work.roles[tensor.name] in kept[side]
    )
    for order in itertools.permutations(a for a, f in enumerate(factors) if f > 1):
        several += list(walk.of(factors, order, places))
    return several
