"""Tilings are chosen by their loop bodies, and by how little is known of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel import MapSpace, TilingSpace, accelerator, workload
from costmodel.costs import Costs
from costmodel.space import Codes
from costmodel.tiling import AnalyticalTiling
from costmodel.tiling.register_kernel import kernel_cycles
from mapspace.errors import ConfigError
from searchers import Evaluator, make
from searchers.shared.body_process import BodyProcess
from searchers.shared.priors import prior_of
from searchers.shared.tiling_choice import describe

SPACE = TilingSpace(workload("gemm:M=64,N=64,K=64"))


def test_a_tiling_described_by_hand() -> None:
    # Two of M and sixteen of N inside of eight steps of K; 2 x 4 rows by 2 x 16 columns of results
    # are 256, which stay in registers, and twice as many do not.
    factors = np.array([[8, 1, 4, 2, 8, 8, 2, 1, 2, 16], [4, 1, 8, 2, 8, 8, 2, 1, 2, 16]])
    known = describe(SPACE, prior_of(SPACE, "model"), SPACE.codes(factors))
    np.testing.assert_array_equal(known.bodies, [[3, 4, 8], [3, 4, 9]])
    # m1 m2 m3, k1, n1 n2 n3; vectors of at most 16, 32 and 64; steps of the outer K loop.
    inside = [[3, 3, 1, 3, 5, 5, 4, 4, 4, 4, 0], [4, 4, 1, 3, 5, 5, 4, 4, 4, 4, 3]]
    np.testing.assert_array_equal(known.features[:, :11], inside)
    costs = AnalyticalTiling().evaluate(SPACE, SPACE.codes(factors))
    # The caches are quicker than the innermost loops.
    kernel = kernel_cycles(SPACE, factors, accelerator("cpu-avx512"))
    assert (kernel > costs.latency_cycles).all()
    np.testing.assert_allclose(known.features[:, 11], np.log(kernel))
    np.testing.assert_allclose(known.features[:, 12], np.log(costs.energy_pj))


def test_a_process_knows_what_it_was_told_and_how_little_that_is() -> None:
    rng = np.random.default_rng(0)
    features, bodies = rng.normal(size=(60, 3)), rng.integers(0, 3, (60, 2)).astype(np.float64)
    # A body is worth something by itself, whatever its neighbours are.
    odd = np.where((bodies == [1, 2]).all(axis=1), -0.5, 0.0)
    targets = np.sin(features[:, 0]) + odd
    process = BodyProcess(features[:50], bodies[:50], targets[:50])
    means, deviations = process.predict(features[50:], bodies[50:])
    assert np.abs(means - targets[50:]).mean() < 0.15 < np.std(targets[50:])
    _, told = process.predict(features[:50], bodies[:50])
    _, other = process.predict(features[:50], bodies[:50] + 10)
    assert (told < other).all()
    # What is believed is no news, but less is open afterwards.
    process.believe(features[50:], bodies[50:])
    again, left = process.predict(features[50:], bodies[50:])
    np.testing.assert_allclose(again, means, atol=1e-6)
    assert (left < deviations).all()


class Bodied:
    """The cheap model's latency, half of it for 4 rows of two vectors inside of 4 steps of K."""

    name, version = "bodied", "1"

    def evaluate(self, space: Any, codes: Codes, *, detail: bool = False) -> Costs:
        costs = AnalyticalTiling().evaluate(space, codes)
        factors = space.factors(codes)
        lucky = (factors[:, 5] == 4) & (factors[:, 9] == 32) & (factors[:, 3] == 4)
        latency = np.exp(prior_of(space, "model")(codes).latency) * np.where(lucky, 0.5, 1.0)
        return Costs(costs.energy_pj, latency, costs.status, costs.excess)


def after(searches: int, **parameters: Any) -> float:
    """Mean ln of the best latency after 60 queries."""
    logs = []
    for seed in range(searches):
        evaluator = Evaluator(Bodied(), SPACE, objective="latency", iterations=60)
        make("multi-fidelity", SPACE, seed=seed, objective="latency", **parameters).run(evaluator)
        logs.append(np.log(evaluator.best_loss))
    return float(np.mean(logs))


@pytest.mark.slow
def test_a_body_that_the_cheap_model_knows_nothing_of_is_found() -> None:
    assert after(2) < after(2, correction="none", random_share=0.0) - 0.2


def test_a_search_goes_on_where_it_was_saved() -> None:
    first = make("multi-fidelity", SPACE, seed=0, objective="latency")
    for _ in range(3):
        codes = first.ask(12)
        first.tell(Bodied().evaluate(SPACE, codes).latency_cycles)
    second = make("multi-fidelity", SPACE, seed=1, objective="latency")
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(first.ask(6), second.ask(6))


def test_refused_tilings_do_not_end_the_search() -> None:
    searcher = make("multi-fidelity", SPACE, seed=0, objective="latency")
    for losses in (np.full(12, np.inf), np.full(12, 2.0), np.array([*[np.inf] * 3, *[1.0] * 3])):
        codes = searcher.ask(12)
        searcher.tell(losses[: len(codes)])
    assert len(searcher.ask(6)) == 6


def test_bodies_are_of_tilings() -> None:
    nests = MapSpace(workload("cnn:N=1,K=8,C=8,P=4,Q=4,R=1,S=1,stride=1"), accelerator("mm256"))
    with pytest.raises(ConfigError, match="correction: bodies needs a TilingSpace, got MapSpace"):
        make("multi-fidelity", nests, seed=0, correction="bodies")
