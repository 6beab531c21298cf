"""The genetic algorithm: whole attributes, known losses, survival of the best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mapspace.errors import ConfigError
from mapspace.testing.toy_space import TARGET, ToyModel, ToySpace, toy_losses
from searchers import Evaluator, make

SPACE = ToySpace()


def memory(searcher: Any) -> dict[str, np.ndarray]:
    state: dict[str, np.ndarray] = searcher.state_dict()["memory"]
    return state


def generation(searcher: Any) -> np.ndarray:
    """Asks for one whole generation and answers it."""
    before = memory(searcher)["_children"]
    codes = searcher.ask(10**6)
    np.testing.assert_array_equal(codes, before)
    searcher.tell(toy_losses(codes))
    return np.asarray(codes)


@pytest.mark.parametrize("preset", [None, "paper"])
def test_the_best_never_dies(preset: str | None) -> None:
    searcher = make("genetic", SPACE, seed=0, preset=preset, population=20, offspring=20)
    best = np.inf
    for _ in range(15):
        best = min(best, toy_losses(generation(searcher)).min())
        assert memory(searcher)["_losses"].min() == best
        losses = memory(searcher)["_losses"]
        np.testing.assert_array_equal(losses, toy_losses(memory(searcher)["_population"]))


@pytest.mark.parametrize("preset", [None, "paper"])
def test_no_living_individual_is_asked_again(preset: str | None) -> None:
    searcher = make("genetic", SPACE, seed=1, preset=preset, population=30, offspring=30)
    for _ in range(10):
        survivors = memory(searcher)["_population"]
        candidates = np.concatenate([survivors, generation(searcher)])
        living = candidates[np.argsort(toy_losses(candidates), kind="stable")[:30]]
        children = memory(searcher)["_children"]
        assert not {*map(tuple, living.tolist())} & {*map(tuple, children.tolist())}


def test_plus_keeps_no_duplicates() -> None:
    searcher = make("genetic", SPACE, seed=2, population=25, offspring=25)
    for _ in range(12):
        generation(searcher)
        living = memory(searcher)["_population"]
        assert len(np.unique(living, axis=0)) == len(living)


def test_crossover_swaps_whole_attributes_of_two_parents() -> None:
    """Without mutation every attribute of a child is one that a living individual has there."""
    searcher = make("genetic", SPACE, seed=3, mutation=0.0, crossover=1.0, population=30)
    generation(searcher)
    living, children = memory(searcher)["_population"], memory(searcher)["_children"]
    for column in range(living.shape[1]):
        assert np.isin(children[:, column], living[:, column]).all()
    shared = (children[:, None, :] == living[None, :, :]).sum(axis=2)
    assert shared.max(axis=1).min() >= 3


@pytest.mark.parametrize("crossover", [0.0, 0.25, 1.0])
def test_a_child_has_two_parents_with_the_probability_of_crossover(crossover: float) -> None:
    children = 20_000
    searcher: Any = make("genetic", SPACE, seed=8, crossover=crossover, tournament=1)
    width = len(SPACE.cardinality)
    searcher._population = np.array([[0] * width, [1] * width], dtype=np.int32)
    mixed = searcher._cross(children).mean(axis=1) % 1 > 0
    # Every other pair of parents is one and the same, and 2 of 2^6 children take after one parent.
    expected = crossover / 2 * (1 - 2 / 2**width)
    assert mixed.mean() == pytest.approx(expected, abs=4 * 0.5 / children**0.5 if crossover else 0)


@pytest.mark.parametrize("elite", [0, 1, 4])
def test_the_elite_and_nobody_else_outlives_its_generation(elite: int) -> None:
    # Every attribute of every child is drawn anew, so that none is a copy of a living one.
    searcher = make(
        "genetic", SPACE, seed=9, preset="paper", mutation=1.0, population=20, offspring=20,
        elite=elite,
    )  # fmt: skip
    for _ in range(6):
        candidates = np.concatenate([memory(searcher)["_population"], generation(searcher)])
        best = np.argsort(toy_losses(candidates), kind="stable")[:elite]
        np.testing.assert_array_equal(memory(searcher)["_population"], candidates[best])


def test_mutation_strikes_each_attribute_with_its_probability() -> None:
    searcher = make(
        "genetic", SPACE, seed=4, preset="paper", crossover=0.0, mutation=0.2, population=4000,
        offspring=4000,
    )  # fmt: skip
    children = searcher._mutate(np.repeat(TARGET[None].astype(np.int32), 4000, axis=0))  # type: ignore[attr-defined]
    changed = (children != TARGET).mean(axis=0)
    expected = 0.2 * (1 - 1 / SPACE.cardinality)
    np.testing.assert_allclose(changed, expected, atol=4 * 0.5 / 4000**0.5)


def test_a_generation_may_be_asked_in_pieces() -> None:
    whole, pieces = (make("genetic", SPACE, seed=5) for _ in range(2))
    for _ in range(4):
        codes = whole.ask(10**6)
        whole.tell(toy_losses(codes))
        parts = []
        while sum(map(len, parts)) < len(codes):
            parts.append(pieces.ask(7))
            pieces.tell(toy_losses(parts[-1]))
        np.testing.assert_array_equal(np.concatenate(parts), codes)


@pytest.mark.parametrize("preset", [None, "paper"])
def test_it_finds_the_target(preset: str | None) -> None:
    for seed in range(3):
        evaluator = Evaluator(ToyModel(), SPACE, iterations=3000)
        make("genetic", SPACE, seed=seed, preset=preset).run(evaluator)
        np.testing.assert_array_equal(evaluator.best_code, TARGET)


def test_the_paper_preset_is_the_papers() -> None:
    searcher = make("genetic", SPACE, seed=0, preset="paper")
    settings = {
        name: getattr(searcher.options, name)
        for name in ("population", "crossover", "mutation", "moves", "replacement")
    }
    assert settings == {
        "population": 100,
        "crossover": 0.75,
        "mutation": 0.05,
        "moves": "attribute",
        "replacement": "generational",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"population": 1},
        {"population": 1, "elite": 0},
        {"offspring": 0},
        {"crossover": 1.5},
        {"mutation": -0.1},
        {"moves": "bits"},
        {"tournament": 0},
        {"replacement": "none"},
        {"elite": 100},
        {"elite": -1},
        {"crossover": -0.1},
        {"mutation": 1.1},
        {"offspring": 98, "replacement": "generational"},
        {"offspring": 10, "replacement": "generational"},
    ],
)
def test_bad_hyperparameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))}"):
        make("genetic", SPACE, seed=0, **wrong)


@pytest.mark.parametrize(
    "allowed",
    [
        {"population": 2},
        {"offspring": 1},
        {"crossover": 0.0},
        {"crossover": 1.0},
        {"mutation": 0.0},
        {"mutation": 1.0},
        {"tournament": 1},
        {"elite": 9},
        {"elite": 0, "offspring": 10, "replacement": "generational"},
        {"elite": 2, "offspring": 8, "replacement": "generational"},
    ],
    ids=str,
)
def test_hyperparameters_at_their_limits_are_taken(allowed: dict[str, Any]) -> None:
    searcher = make("genetic", SPACE, seed=0, **{"population": 10, "offspring": 12, **allowed})
    for _ in range(4):
        assert len(generation(searcher)) >= 1


@pytest.mark.parametrize("elite", [0, 1, 3])
def test_the_elite_outlives_a_generation_that_comes_back_in_any_order(elite: int) -> None:
    searcher = make(
        "genetic", SPACE, seed=0, population=6, offspring=6, elite=elite, replacement="generational"
    )
    tickets, _ = searcher.ask_more(6)
    searcher.tell_more(tickets, np.arange(1.0, 7.0))
    for _ in range(6):
        tickets, _ = searcher.ask_more(1)
        searcher.tell_more(tickets, [100.0])
    np.testing.assert_array_equal(
        memory(searcher)["_losses"], [*range(1, elite + 1), *[100.0] * (6 - elite)]
    )


def test_children_that_are_out_are_not_asked_again() -> None:
    searcher = make("genetic", SPACE, seed=0, population=4, offspring=4, mutation=0.1)
    tickets, codes = searcher.ask_more(4)
    searcher.tell_more(tickets, toy_losses(codes))
    asked = [*codes, *(searcher.ask_more(1)[1][0] for _ in range(40))]
    assert len(np.unique(asked, axis=0)) == len(asked)
