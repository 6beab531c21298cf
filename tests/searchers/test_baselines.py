"""Baselines on other libraries: how they see a space, replayed states, and a library that lacks."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import searchers
from costmodel import MapSpace, accelerator, workload
from mapspace.errors import ConfigError, ContractError
from mapspace.testing.toy_space import CARDINALITY, LIMIT, ToyModel, ToySpace, toy_losses
from searchers import Evaluator, make
from searchers.shared.external_optimizers import (
    LARGEST_LOG,
    OutsideOptions,
    OutsideSearcher,
    Relaxation,
)

SPACE = ToySpace()
LIBRARIES = {"cma-es": "cmaes", "nevergrad": "nevergrad", "optuna": "optuna"}
# Every kind of optimiser that a searcher offers and the contract tests do not run.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("cma-es", {"encoding": "codes", "population": 5}),
    ("nevergrad", {"encoding": "features", "optimizer": "CMA", "horizon": 60}),
    ("nevergrad", {"optimizer": "TwoPointsDE", "batch": 4}),
    ("nevergrad", {"optimizer": "PortfolioDiscreteOnePlusOne"}),
    ("optuna", {"encoding": "features", "batch": 3, "startup": 4}),
]
IDS = ["-".join(map(str, (name, *kw.values()))) for name, kw in VARIANTS]


def outside(name: str, seed: int = 0, **parameters: Any) -> OutsideSearcher:
    searcher = make(name, SPACE, seed=seed, **parameters)
    assert isinstance(searcher, OutsideSearcher)
    return searcher


def play(searcher: OutsideSearcher, iterations: int) -> np.ndarray:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=iterations)
    rows = [np.empty((0, len(CARDINALITY)), np.int32)]
    while evaluator.remaining:
        rows.append(searcher.ask(evaluator.remaining))
        searcher.tell(evaluator(rows[-1]))
    return np.concatenate(rows)


@pytest.mark.parametrize(("name", "library"), LIBRARIES.items())
def test_a_missing_library_is_one_line(
    name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigError) as caught:
        make(name, SPACE, seed=0)
    message = f"The {name} searcher needs the library {library}: pip install 'mapspace[baselines]'."
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "needed", "extras"),
    [
        ("ppo", "gymnasium, ray and torch", "ray,surrogate"),
        ("ddpg", "gymnasium, ray and torch", "ray,surrogate"),
        ("gradient", "safetensors and torch", "surrogate"),
        ("surrogate-guided", "safetensors, scipy and torch", "baselines,surrogate"),
    ],
)
def test_all_missing_libraries_are_said_at_once(
    name: str, needed: str, extras: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searchers, "is_installed", lambda library: False)
    space = MapSpace(workload("gemm-512"), accelerator("mm256"))
    with pytest.raises(ConfigError) as caught:
        searchers.check(name, space)
    assert str(caught.value) == (
        f"The {name} searcher: This needs {needed}, which are not installed: "
        f"pip install 'mapspace[{extras}]'."
    )


@pytest.mark.parametrize(("name", "parameters"), VARIANTS, ids=IDS)
def test_a_replay_continues_exactly(name: str, parameters: dict[str, Any]) -> None:
    """Saved between and within batches, with another global random state when restored."""
    straight = play(outside(name, **parameters), 24)
    for saved_at in (7, 12):
        saved = outside(name, **parameters)
        first = play(saved, saved_at)
        np.random.seed(saved_at)  # noqa: NPY002
        restored = outside(name, seed=5, **parameters)
        restored.load_state_dict(saved.state_dict())
        np.testing.assert_array_equal(
            np.concatenate([first, play(restored, 24 - saved_at)]), straight
        )


def test_a_replay_that_differs_is_refused() -> None:
    saved = outside("optuna", startup=4)
    play(saved, 9)
    state = saved.state_dict()
    other = outside("optuna", startup=4, encoding="features")
    other.load_state_dict(state)
    with pytest.raises(ContractError, match="cannot continue this state: mapping 0 or later"):
        other.ask(1)
    state["memory"]["_losses"] = state["memory"]["_losses"][::-1].copy()
    other = outside("optuna", startup=4)
    other.load_state_dict(state)
    with pytest.raises(ContractError, match="cannot continue this state"):
        other.ask(1)


@pytest.mark.parametrize(
    ("name", "parameters", "iterations"),
    [
        ("cma-es", {}, 100),
        ("optuna", {}, 60),
        # What NGOpt chooses is no better than random sampling on ranges as short as these.
        ("nevergrad", {"optimizer": "DiscreteOnePlusOne"}, 500),
    ],
)
def test_they_learn(name: str, parameters: dict[str, Any], iterations: int) -> None:
    """Runs on a bowl beat most random ones with the same budget."""
    drawn = SPACE.sample(np.random.default_rng(3), 100 * iterations, feasible=True)
    lucky = np.quantile(toy_losses(drawn).reshape(100, iterations).min(axis=1), 0.25)
    best = [toy_losses(play(outside(name, s, **parameters), iterations)).min() for s in range(3)]
    assert np.median(best) < lucky


def test_points_of_codes_are_rounded_and_repaired() -> None:
    relaxation = Relaxation(SPACE, "codes")
    np.testing.assert_array_equal(relaxation.low, np.full(6, -0.5))
    np.testing.assert_array_equal(relaxation.high, CARDINALITY - 0.5)
    points = np.array([[2.4, 6.6, -0.5, 4.5, 1.0, 2.2], [8.0, 8.0, 0.0, 0.0, 0.0, 0.0]])
    codes = relaxation.codes(points)
    assert codes[0].tolist() == [2, 7, 0, 4, 1, 2]
    # 8 + 8 exceeds the limit of 11: the toy space takes from the first.
    assert codes[1].tolist() == [LIMIT - 8, 8, 0, 0, 0, 0]


def test_points_of_features_are_scaled_by_feasible_mappings() -> None:
    """Factors by their logarithm, ranks as they are; encoded mappings come back as themselves."""
    space = MapSpace(workload("gemm-512"), accelerator("mm256"))
    relaxation = Relaxation(space, "features")
    factors = [
        i
        for i, name in enumerate(space.feature_names)
        if name.split(".")[0] in ("temporal", "spatial")
    ]
    ranks = len(space.feature_names) - space.tables.sizes.size - len(factors)
    assert len(relaxation.low) == len(factors) + ranks
    codes = space.sample(np.random.default_rng(1), 300, feasible=True)
    features = space.encode(codes)[:, space.tables.sizes.size :].astype(np.float64)
    points = features.copy()
    points[:, : len(factors)] = np.log(features[:, : len(factors)])
    np.testing.assert_array_equal(relaxation.codes(points), codes)
    assert (relaxation.low[: len(factors)] == 0).all()
    assert relaxation.high[: len(factors)].max() == pytest.approx(np.log(512))


def test_refused_mappings_count_as_the_largest_float() -> None:
    class Listener(OutsideSearcher):
        told: np.ndarray

        def _start(self, seed: int) -> None:
            pass

        def _propose(self) -> np.ndarray:
            return np.zeros((2, 6))

        def _learn(self, logs: np.ndarray) -> None:
            self.told = logs

    listener = Listener(SPACE, OutsideOptions(), seed=0)
    listener.ask(2)
    listener.tell([np.inf, np.e])
    listener.ask(2)
    np.testing.assert_allclose(listener.told, [LARGEST_LOG, 1.0])


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("optuna", {"encoding": "bits"}, "encoding: expected 'codes' or 'features'"),
        ("optuna", {"startup": 0}, "startup: expected at least 1"),
        ("nevergrad", {"optimizer": "Newton"}, "in nevergrad.optimizers.registry, got 'Newton'"),
        ("cma-es", {"population": 2}, "population: expected at least 3"),
    ],
)
def test_values_that_are_not_allowed(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(name, SPACE, seed=0, **parameters)
