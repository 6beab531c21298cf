"""Simulated annealing: Metropolis' rule, the automatic schedule, chains and reheating."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
import pytest

from mapspace.errors import ConfigError
from mapspace.testing.toy_space import TARGET, ToyModel, ToySpace, toy_losses
from searchers import Evaluator, make
from searchers.annealing import MOST_STEPS, TEMPERATURE_STEP, Annealing, find_temperatures
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


@pytest.mark.parametrize("temperatures", [None, (1.0, 0.1)])
def test_chains_start_at_the_best_of_what_was_tried(temperatures: Any) -> None:
    searcher = make(
        "annealing", SPACE, seed=0, horizon=2000, chains=4, tuning_share=0.05,
        temperatures=temperatures,
    )  # fmt: skip
    tried = searcher.ask(10**6)
    assert len(tried) == (4 if temperatures else 100)
    losses = toy_losses(tried)
    searcher.tell(losses)
    memory = searcher.state_dict()["memory"]
    best = np.argsort(losses, kind="stable")[:4]
    np.testing.assert_array_equal(memory["_codes"], tried[best])
    np.testing.assert_allclose(memory["_losses"], np.log(losses[best]))


@pytest.mark.parametrize("further_moves", [0.0, 0.3, 0.7])
def test_further_moves_follow_with_their_probability(further_moves: float) -> None:
    class Counting(ToySpace):
        """Feasible everywhere, so that nothing is proposed twice; counts the rows of each move."""

        moved: ClassVar[list[int]] = []

        def feasible(self, codes: np.ndarray) -> np.ndarray:
            return np.ones(len(codes), dtype=bool)

        def mutate(
            self, rng: np.random.Generator, codes: np.ndarray, *, steps: int = 1
        ) -> np.ndarray:
            self.moved.append(len(codes))
            return super().mutate(rng, codes, steps=steps)

    chains = 20_000
    space = Counting()
    space.moved.clear()
    searcher = make(
        "annealing", space, seed=0, horizon=10**6, chains=chains, further_moves=further_moves,
        temperatures=(1.0, 0.1),
    )  # fmt: skip
    while not searcher.state_dict()["memory"]["_steps"].any():
        searcher.tell(np.ones(len(searcher.ask(chains))))
    assert space.moved[0] == chains
    assert len(space.moved) == (MOST_STEPS if further_moves else 1)
    for before, after in itertools.pairwise(space.moved[:3]):
        assert after / before == pytest.approx(further_moves, abs=4 * 0.5 / before**0.5)


def test_no_chain_is_reheated_before_all_have_cooled() -> None:
    """Three of four chains move at a time, so that some are a step ahead of others."""
    searcher = make("annealing", SPACE, seed=0, horizon=44, chains=4, temperatures=(1.0, 0.1))
    searcher.tell(toy_losses(searcher.ask(4)))
    asks = 0
    while not asks or searcher.state_dict()["memory"]["_steps"].any():
        searcher.tell(toy_losses(searcher.ask(3)))
        asks += 1
    # After 13 asks, three chains have made their ten steps and one has made nine.
    assert asks == 14


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
        {"temperatures": (1.0, 0.5, 0.1)},
        {"temperatures": (1.0, 0.0)},
        {"further_moves": -0.1},
        {"final_acceptance": 0.0},
        {"final_acceptance": 0.15},
        {"tuning_share": 1.1},
    ],
)
def test_bad_hyperparameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))}"):
        make("annealing", SPACE, seed=0, **wrong)


@pytest.mark.parametrize(
    "allowed",
    [
        {"chains": 1},
        {"horizon": 2},
        {"further_moves": 0.0},
        {"tuning_share": 1.0},
        {"initial_acceptance": 0.999, "final_acceptance": 1e-9},
        {"temperatures": (1.0, 1.0)},
        {"temperatures": (1e-300, 1e-300)},
    ],
    ids=str,
)
def test_hyperparameters_at_their_limits_are_taken(allowed: dict[str, Any]) -> None:
    searcher = make("annealing", SPACE, seed=0, **{"horizon": 40, **allowed})
    for _ in range(30):
        searcher.tell(toy_losses(searcher.ask(10)))


def test_temperatures_that_meet_a_share_exactly_are_taken() -> None:
    one = np.array([1.0])
    share = float(np.exp(-1.0))
    assert find_temperatures(one, share, share) == (1.0, 1.0)
    # A step lower the share is met just as well.
    lower = 0.5 / TEMPERATURE_STEP
    assert find_temperatures(one, float(np.exp(-0.5 / lower)), 1e-3)[0] == 2 * lower


def test_moves_from_and_to_infeasible_mappings_say_nothing_of_temperatures() -> None:
    """Where the cost model refuses what the space lets pass."""
    searcher = make("annealing", SPACE, seed=0, horizon=400, chains=2, tuning_share=0.1)
    assert isinstance(searcher, Annealing)
    tried = searcher.ask(10**6)
    losses = toy_losses(tried)
    half = len(losses) // 2
    losses[0] = losses[half + 1] = losses[half + 3] = np.inf
    searcher.tell(losses)
    changes = np.abs(np.diff(np.log(losses).reshape(2, half), axis=0))[0]
    expected = find_temperatures(changes[np.isfinite(changes)], 0.15, 0.01)
    assert searcher.temperature.max() == expected[0] < np.inf


def test_of_equal_mappings_the_first_is_the_one_to_reheat_from() -> None:
    searcher = make("annealing", SPACE, seed=0, chains=2, temperatures=(1.0, 0.1))
    first = searcher.ask(2)
    searcher.tell(np.ones(2))
    for _ in range(3):
        searcher.tell(np.ones(len(searcher.ask(2))))
    np.testing.assert_array_equal(searcher.state_dict()["memory"]["_best_code"], first[0])


def test_moves_of_every_chain_are_counted_whenever_they_come_back() -> None:
    searcher = make("annealing", SPACE, seed=0, chains=4, temperatures=(1.0, 0.1))
    tickets, codes = searcher.ask_more(4)
    searcher.tell_more(tickets, toy_losses(codes))
    for _ in range(3):
        tickets, codes = searcher.ask_more(4)
        searcher.tell_more(tickets[::-1], toy_losses(codes)[::-1])
    np.testing.assert_array_equal(searcher.state_dict()["memory"]["_steps"], [3, 3, 3, 3])


def test_a_move_comes_back_to_its_own_chain() -> None:
    searcher = make("annealing", SPACE, seed=0, chains=4, temperatures=(1.0, 0.1))
    tickets, codes = searcher.ask_more(4)
    searcher.tell_more(tickets, toy_losses(codes))
    tickets, codes = searcher.ask_more(4)
    chains = [searcher._out[ticket][1] for ticket in tickets]
    assert sorted(chains) == [0, 1, 2, 3]
    for loss, (ticket, code, chain) in enumerate(zip(tickets, codes, chains, strict=True), -9):
        expected = searcher.state_dict()["memory"]["_codes"]
        expected[chain] = code
        searcher.tell_more([ticket], [2.0**loss])
        np.testing.assert_array_equal(searcher.state_dict()["memory"]["_codes"], expected)


def walking(starts: list[float]) -> Annealing:
    """Chains at starts of such losses, on whose logarithms they anneal."""
    chains = len(starts)
    searcher = make("annealing", SPACE, seed=0, chains=chains, temperatures=(1.0, 0.1))
    searcher.tell(np.array(starts)[: len(searcher.ask(chains))])
    assert isinstance(searcher, Annealing)
    return searcher


def test_the_chain_that_stands_worst_takes_in_what_is_better() -> None:
    searcher = walking([8.0, 2.0, 4.0])
    before = searcher._codes.copy()
    # Chains begin from the best on.
    assert np.exp(searcher._losses) == pytest.approx([2, 4, 8])
    migrants = np.array([[1, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0]], np.int32)
    searcher.take_in(migrants[:1], np.array([8.0]))  # it stands there already
    np.testing.assert_array_equal(searcher._codes, before)
    searcher.take_in(migrants, np.array([9.0, 1.0, 5.0]))
    np.testing.assert_array_equal(searcher._codes, [*before[:2], migrants[1]])
    assert np.exp(searcher._losses) == pytest.approx([2, 4, 1])
    assert searcher._best_loss == 1.0
    np.testing.assert_array_equal(searcher._best_code, migrants[1])


def test_before_chains_begin_what_is_taken_in_is_a_start() -> None:
    searcher = make("annealing", SPACE, seed=0, chains=4, temperatures=(1.0, 0.1))
    assert isinstance(searcher, Annealing)
    migrant = np.array([[1, 0, 0, 0, 0, 0]], np.int32)
    searcher.take_in(migrant, np.array([0.25]))
    assert searcher._taken_losses.tolist() == [0.25]
    # Asynchronous chains begin before all is told, and it is no start any more.
    searcher._started = True
    searcher._losses = np.log([4.0, 3.0, 2.0, 1.0])
    searcher.take_in(migrant, np.array([0.5]))
    assert searcher._taken_losses.tolist() == [0.25]
    assert np.exp(searcher._losses) == pytest.approx([0.5, 3, 2, 1])


def test_the_chains_with_the_fewest_moves_out_are_next_in_turn() -> None:
    searcher = walking([1.0, 2.0, 3.0, 4.0])
    code = np.zeros(6, np.int32)
    # Two moves of chain 0 are out, one of chain 1, one of chain 3, and a start.
    searcher._out = {place: (code, note) for place, note in enumerate((0, 1, 0, 3, -2))}
    searcher._turn = 2
    # Chain 2 has none; then 3, 1 and 2 have one each, in turn; then all have two.
    assert searcher._least_busy(5).tolist() == [2, 3, 1, 2, 3]
    assert searcher._turn == 0


def test_asynchronous_chains_are_reheated_when_all_together_have_cooled() -> None:
    searcher = walking([1.0, 2.0])
    searcher._started = True
    most = 2 * searcher._steps_per_cooling
    searcher._steps = np.array([most - 2, 0])
    searcher._offer(np.ones(6, np.int32), 1, 9.0)
    assert searcher._steps.tolist() == [most - 2, 1]
    searcher._offer(np.ones(6, np.int32), 1, 9.0)
    assert searcher._steps.tolist() == [0, 0]
