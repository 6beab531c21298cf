"""Islands: legs, the ring, and what searchers make of a mapping of another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ConfigError, ContractError
from mapspace.testing.toy_space import ToyModel, ToySpace, toy_losses
from searchers import Evaluator, Searcher, make, resolved
from searchers.islands import Islands, seeds_of

SPACE = ToySpace()


def islands(seed: int = 0, space: Any = SPACE, **parameters: Any) -> Islands:
    made = make("islands", space, seed=seed, **parameters)
    assert isinstance(made, Islands)
    return made


def searched(searcher: Searcher, iterations: int, space: Any = SPACE, model: Any = None) -> Any:
    evaluator = Evaluator(model or ToyModel(), space, iterations=iterations)
    searcher.run(evaluator)
    return evaluator.state_dict() | {"seconds": 0, "curve_seconds": 0}


def test_legs_are_dealt_in_turn_and_the_budget_is_kept() -> None:
    """Three islands, legs of 40, 210 queries: 40 + 40 + 40, exchange, 40 + 40 + 10."""
    searcher = islands(of="random", islands=3, every=40)
    asked = [[] for _ in range(3)]  # type: list[list[int]]
    for index, island in enumerate(searcher.islands):
        own, take = island.searcher, asked[index]

        def counted(n: int, own: Searcher = own, take: list[int] = take) -> Any:
            codes = type(own).ask(own, n)
            take.append(len(codes))
            return codes

        own.ask = counted  # type: ignore[method-assign]
    assert searched(searcher, 210)["iterations_used"] == 210
    assert [sum(took) for took in asked] == [80, 80, 50]


def test_independent_islands_are_the_searches_of_their_seeds() -> None:
    """The best of searches alone, where nothing can be exchanged."""
    found = searched(islands(seed=5, of="random", islands=3, every=40), 240)
    alone = [searched(make("random", SPACE, seed=one), 80) for one in seeds_of(5, 3)]
    assert found["best_loss"] == min(one["best_loss"] for one in alone)
    assert len({one["best_code"].tobytes() for one in alone}) > 1
    assert seeds_of(5, 2) == seeds_of(5, 3)[:2]


@pytest.mark.parametrize("of", ["genetic", "annealing"])
def test_the_best_goes_round_the_ring_one_island_per_exchange(of: str) -> None:
    space = MapSpace(workload("resnet-conv4"), accelerator("mm256"))
    searcher = islands(space=space, of=of, islands=3, every=400, parameters=quick(of))
    evaluator = Evaluator(LoopNestModel(), space, iterations=10**6)
    for island in searcher.legs(10**6):
        island.run(evaluator)
    before = [island.best_loss for island in searcher.islands]
    held = [known(island.searcher) for island in searcher.islands]
    assert len(set(before)) == 3
    searcher.legs(10**6)
    for index, island in enumerate(searcher.islands):
        codes = known(island.searcher)
        came = searcher.islands[index - 1].best_code
        assert came is not None
        if before[index - 1] < before[index]:
            assert came.tobytes() in codes
            assert came.tobytes() not in held[index]
    assert any(held[index] != known(one.searcher) for index, one in enumerate(searcher.islands))


def quick(of: str) -> dict[str, Any]:
    return {"horizon": 200} if of == "annealing" else {"population": 10, "offspring": 10}


def known(searcher: Searcher) -> set[bytes]:
    """What lives, or where chains stand."""
    memory = searcher.state_dict()["memory"]
    codes = memory["_population" if "_population" in memory else "_codes"]
    return {code.tobytes() for code in codes}


def test_a_migrant_lives_if_it_is_fit_and_is_no_copy() -> None:
    searcher = make("genetic", SPACE, seed=0, population=10, offspring=10)
    searched(searcher, 60)
    before = searcher.state_dict()["memory"]
    fit = SPACE.sample(np.random.default_rng(1), 50, feasible=True)
    fit = fit[toy_losses(fit).argmin()][None]
    for copy in (before["_population"][-1:], before["_population"][:1]):
        searcher.take_in(copy, toy_losses(copy))
    np.testing.assert_array_equal(
        searcher.state_dict()["memory"]["_population"], before["_population"]
    )
    best = np.array([before["_losses"].min() / 2])
    searcher.take_in(fit, best)
    after = searcher.state_dict()["memory"]
    assert after["_losses"][0] == best[0]
    np.testing.assert_array_equal(after["_losses"][1:], before["_losses"][:-1])


def test_asking_and_running_visit_the_same() -> None:
    """With a searcher that walks in compiled code, too."""
    space = MapSpace(workload("gemm:M=24,N=20,K=16"), accelerator("mm256"))
    for of in ("structured", "annealing"):
        ran = searched(islands(space=space, of=of, every=60), 700, space, LoopNestModel())
        asked = islands(space=space, of=of, every=60)
        evaluator = Evaluator(LoopNestModel(), space, iterations=700)
        while evaluator.remaining:
            asked.step(evaluator, evaluator.remaining)
        told = evaluator.state_dict()
        assert told["iterations_used"] == ran["iterations_used"] == 700
        np.testing.assert_array_equal(told["best_code"], ran["best_code"])
        np.testing.assert_array_equal(told["curve_loss"], ran["curve_loss"])
        np.testing.assert_array_equal(told["curve_iteration"], ran["curve_iteration"])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"of": "exact"}, "neither proves or enumerates"),
        ({"of": "islands"}, "neither proves or enumerates"),
        ({"of": "gradient"}, "nor needs a surrogate"),
        ({"of": "nope"}, "Unknown searcher 'nope'"),
        ({"islands": 0}, "islands: islands: expected at least 1"),
        ({"islands": 1025}, "islands: islands: expected at most 1024"),
        ({"every": 0}, "every: expected at least 1"),
        ({"parameters": {"seed": 1}}, "Unknown hyperparameter seed of searcher genetic"),
        ({"parameters": {"preset": ["paper"]}}, "preset: expected a name"),
        ({"parameters": {"preset": "nope"}}, "Unknown preset 'nope'"),
        ({"parameters": {"population": 1}}, "searcher genetic: population"),
    ],
)
def test_what_cannot_be_on_islands_is_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        islands(**parameters)


def test_a_search_says_all_hyperparameters_of_its_islands() -> None:
    told = {"of": "genetic", "parameters": {"preset": "paper", "elite": 3}}
    said = resolved("islands", None, told)
    assert said["parameters"] == resolved("genetic", "paper", {"elite": 3})
    assert resolved("islands", None, {})["parameters"] == resolved("genetic", None, {})


def test_searchers_without_use_for_others_say_so() -> None:
    codes = SPACE.sample(np.random.default_rng(0), 1, feasible=True)
    with pytest.raises(ContractError, match="Random has no use"):
        make("random", SPACE).take_in(codes, np.ones(1))
    searcher = make("genetic", SPACE)
    searcher.ask(3)
    with pytest.raises(ContractError, match="awaits losses"):
        searcher.take_in(codes, np.ones(1))
