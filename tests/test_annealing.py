"""Simulated annealing: Metropolis' rule, the automatic schedule, chains and reheating."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from toy_space import TARGET, ToyModel, ToySpace, toy_losses

from costmodel.errors import ConfigError
from searchers import Evaluator, make
from searchers.annealing import TEMPERATURE_STEP, Annealing, find_temperatures
from searchers.base import metropolis

SPACE = ToySpace()


def test_metropolis_accepts_with_the_boltzmann_factor() -> None:
    rng = np.random.default_rng(0)
    rows = 200_000
    current = np.zeros(rows)
    for rise, temperature in ((0.5, 1.0), (2.0, 1.0), (0.1, 0.05)):
        share = metropolis(rng, current, np.full(rows, rise), temperature).mean()
        assert share == pytest.approx(np.exp(-rise / temperature), abs=4 * 0.5 / rows**0.5)
    assert metropolis(rng, current, np.full(rows, -1.0), 1e-9).all()
    assert metropolis(rng, current, current, 1e-9).all()


def test_temperatures_of_the_smallest_and_most_unlike_changes() -> None:
    for changes in ([5e-324], [1e-300, 1e300], [5e-324, 1e308], [1e-310, 3e-310]):
        hottest, coldest = find_temperatures(np.array(changes), 0.98, 0.01)
        assert 0 < coldest <= hottest < np.inf


def test_metropolis_and_infinity() -> None:
    rng = np.random.default_rng(0)
    current = np.array([1.0, np.inf, np.inf, 1.0])
    proposed = np.array([np.inf, 1.0, np.inf, 1e300])
    accepted = metropolis(rng, current, proposed, 1e-3)
    np.testing.assert_array_equal(accepted, [False, True, True, False])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_temperatures_meet_their_acceptances(scale: float) -> None:
    changes = np.random.default_rng(1).exponential(scale, size=500)

    def acceptance(temperature: float) -> float:
        return float(np.exp(-changes / temperature).mean())

    hottest, coldest = find_temperatures(changes, 0.98, 0.01)
    assert acceptance(hottest) >= 0.98 > acceptance(hottest / TEMPERATURE_STEP)
    assert acceptance(coldest) <= 0.01 < acceptance(coldest * TEMPERATURE_STEP)


def test_moves_that_change_nothing_say_nothing() -> None:
    assert find_temperatures(np.zeros(5), 0.98, 0.01) == (1.0, 1.0)
    with_zeros = np.array([0.0, 1.0, 0.0, 2.0])
    assert find_temperatures(with_zeros, 0.9, 0.1) == find_temperatures(
        np.array([1.0, 2.0]), 0.9, 0.1
    )


def test_the_schedule_spends_at_most_its_share() -> None:
    searcher = make("annealing", SPACE, seed=0, horizon=1000, tuning_share=0.05, chains=4)
    assert isinstance(searcher, Annealing)
    asked = 0
    while np.isnan(searcher.temperature).any():
        codes = searcher.ask(7)
        asked += len(codes)
        searcher.tell(toy_losses(codes))
    assert asked == 50


def test_the_temperature_falls_and_rises_again_after_the_horizon() -> None:
    searcher = make("annealing", SPACE, seed=0, horizon=200, chains=4, temperatures=(8.0, 0.5))
    assert isinstance(searcher, Annealing)
    seen, losses = [], []
    for _ in range(60):
        seen.append(searcher.temperature.copy())
        codes = searcher.ask(100)
        losses.append(toy_losses(codes))
        searcher.tell(losses[-1])
    hottest = np.array([t.max() for t in seen[1:]])
    assert hottest[0] == 8.0
    turns = np.flatnonzero(np.diff(hottest) > 0)
    cooling = hottest[: turns[0] + 1]
    assert (np.diff(cooling) < 0).all()
    assert cooling[-1] == pytest.approx(0.5)
    # Four queries to start, then 49 steps of four chains.
    assert len(cooling) == 49
    np.testing.assert_allclose(np.diff(np.log(cooling)), np.log(cooling[1] / cooling[0]))


def test_reheating_starts_from_the_best() -> None:
    searcher = make("annealing", SPACE, seed=0, horizon=40, chains=2, temperatures=(1e-9, 1e-9))
    best, best_code = np.inf, None
    for _ in range(20):
        codes = searcher.ask(100)
        losses = toy_losses(codes)
        if losses.min() < best:
            best, best_code = losses.min(), codes[losses.argmin()]
        searcher.tell(losses)
    np.testing.assert_array_equal(searcher.state_dict()["memory"]["_codes"], [best_code] * 2)


def test_chains_take_turns() -> None:
    """A host that asks for fewer mappings than there are chains moves all of them."""
    searcher = make("annealing", SPACE, seed=0, chains=4, temperatures=(1.0, 0.1))
    for _ in range(12):
        codes = searcher.ask(2)
        searcher.tell(toy_losses(codes))
    np.testing.assert_array_equal(searcher.state_dict()["memory"]["_steps"], [5, 5, 5, 5])


@pytest.mark.parametrize("moves", ["domain", "attribute"])
@pytest.mark.parametrize("log_loss", [True, False])
def test_it_finds_the_target(moves: str, log_loss: bool) -> None:
    for seed in range(3):
        evaluator = Evaluator(ToyModel(), SPACE, iterations=2000)
        make("annealing", SPACE, seed=seed, horizon=2000, moves=moves, log_loss=log_loss).run(
            evaluator
        )
        np.testing.assert_array_equal(evaluator.best_code, TARGET)


@pytest.mark.parametrize(
    "wrong",
    [
        {"chains": 0},
        {"horizon": 1},
        {"moves": "domian"},
        {"further_moves": 1.0},
        {"initial_acceptance": 1.0},
        {"final_acceptance": 0.99},
        {"tuning_share": 0.0},
        {"temperatures": (0.1, 0.2)},
        {"temperatures": (1.0,)},
    ],
)
def test_bad_hyperparameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))}"):
        make("annealing", SPACE, seed=0, **wrong)
