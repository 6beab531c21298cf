"""The gradient search's default method: estimates, cycles, epochs, accountings; which method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mapspace.errors import ConfigError
from mapspace.testing.toy_space import TARGET, WEIGHT, ToyModel, ToyPredictor, ToySpace, toy_losses
from searchers import Evaluator, make
from searchers.gradient import GradientOptions
from searchers.shared import screened_descent

SPACE = ToySpace()


class TruePredictor(ToyPredictor):
    """Predicts the toy space's losses exactly, up to what `error` adds to their logarithm."""

    def __init__(self) -> None:
        super().__init__(7)

    def error(self, points: np.ndarray) -> np.ndarray:
        return np.zeros(len(points))

    def value(self, points: np.ndarray) -> np.ndarray:
        self.queries += len(points)
        return np.log(toy_losses(points[:, 1:].astype(np.float64))) + self.error(points)

    def describe(self, points: np.ndarray) -> np.ndarray:
        return points.astype(np.float32)

    def value_and_slope(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        slope = np.zeros(points.shape, np.float32)
        slope[:, 1:] = 2 * WEIGHT * (points[:, 1:] - TARGET)
        slope[:, 1:] /= toy_losses(points[:, 1:].astype(np.float64))[:, None]
        return self.value(points), self.describe(points), slope


def gradient(predictor: Any = None, **parameters: Any) -> Any:
    predictor = TruePredictor() if predictor is None else predictor
    return make("gradient", SPACE, predictor=predictor, **{"seed": 0, **parameters})


def test_it_finds_the_target_within_few_queries() -> None:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=100)
    gradient(batch=4).run(evaluator)
    assert evaluator.best_loss == 1.0
    assert evaluator.true_queries < 30


def test_the_gradient_is_worth_something() -> None:
    """Fewer queries to the target than with the same children unranked."""

    def queries(guide: str) -> float:
        needed = []
        for seed in range(10):
            evaluator = Evaluator(ToyModel(), SPACE, iterations=1000)
            gradient(guide=guide, seed=seed).run(evaluator)
            needed.append(int(evaluator.result().curve_iteration[-2]))
        return float(np.mean(needed))

    assert queries("gradient") < 0.8 * queries("nothing")


@pytest.mark.parametrize("accounting", ["deployable", "visited"])
def test_queries_are_counted_as_the_predictor_saw_them(accounting: str) -> None:
    predictor = ToyPredictor(7)
    searcher = gradient(predictor, accounting=accounting)
    for n in (1, 2, 7, 50, 1000, 3):
        spent = searcher.surrogate_queries
        codes = searcher.ask(n)
        assert len(codes) + searcher.surrogate_queries - spent <= n
        searcher.tell(toy_losses(codes))
    assert searcher.surrogate_queries == predictor.queries > 0


def test_true_scores_go_to_the_best_predicted_and_to_none_twice() -> None:
    searcher = gradient(epoch=10**6)
    asked: set[tuple[int, ...]] = set()
    for cycle in range(9):
        codes = searcher.ask(10**6)
        rows = {*map(tuple, codes.tolist())}
        assert len(rows) == len(codes) == (1, 1, 1, 2, 2, 4, 6, 16, 16)[cycle]
        assert not rows & asked
        asked |= rows
        memory = searcher.state_dict()["memory"]["_memory"]["memory"]
        open_values = memory["_values"][np.isnan(memory["_scores"])]
        predicted = np.log(toy_losses(codes))
        assert predicted.max() <= np.sort(open_values)[len(codes) - 1] + 1e-9
        searcher.tell(toy_losses(codes))
    assert searcher.surrogate_queries == 12 + 8 + 8 + 16 + 16 + 32 + 32 + 80 + 80


def test_visited_mappings_are_recorded_for_nothing_and_lead_nowhere() -> None:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=300, query_latency=1e6)
    searcher = gradient(accounting="visited")
    assert searcher.learns is False
    searcher.run(evaluator)
    result = evaluator.result()
    assert result.surrogate_queries == result.iterations == 300
    assert result.seconds < 1e6
    first, second = (gradient(accounting="visited") for _ in range(2))
    for _ in range(10):
        codes = first.ask(32)
        np.testing.assert_array_equal(codes, second.ask(32))
        first.tell(toy_losses(codes))
        second.tell(np.zeros(len(codes)))


def test_children_are_ranked_by_the_nearest_mappings_gradient() -> None:
    """Two mappings at 0 and 10 with values 0 and 1; slopes 1 and -2 along the first value."""
    inner = gradient()._method
    inner._values = np.array([0.0, 1.0])
    inner._points = np.zeros((2, 7), np.float32)
    inner._points[1, 0] = 10.0
    inner._slopes = np.zeros((2, 7), np.float32)
    inner._slopes[:, 0] = (1.0, -2.0)
    children = np.zeros((5, 7), np.float32)
    # Estimates: -1, -2 and 2 from the first mapping, 1 - 4 = -3 and 1 + 2 = 3 from the second.
    children[:, 0] = (-1.0, -2.0, 2.0, 12.0, 9.0)
    anchors = np.array([0, 1])
    assert inner._screen(children, anchors, inner._values, 5).tolist() == [3, 1, 0, 4, 2]
    # The third of the first mapping comes last: two of each first.
    inner.options = inner.options.model_copy(update={"per_anchor": 1})
    assert inner._screen(children, anchors, inner._values, 3).tolist() == [3, 1, 0]
    inner.options = inner.options.model_copy(update={"guide": "value", "per_anchor": 9})
    assert sorted(inner._screen(children, anchors, inner._values, 3).tolist()) == [0, 1, 2]


def test_true_scores_correct_the_surrogate() -> None:
    """It is off by a constant and by the square of one value: half of the mappings tell it."""

    class Wrong(TruePredictor):
        def error(self, points: np.ndarray) -> np.ndarray:
            return 3.0 - 0.25 * points[:, 5].astype(np.float64) ** 2

    inner = gradient(Wrong())._method
    codes = np.unique(SPACE.sample(np.random.default_rng(1), 200, feasible=True), axis=0)
    inner._visit(codes)
    truth = np.log(toy_losses(codes))
    inner._scores[::2] = truth[::2]
    inner._correct()
    expected = inner._corrected()
    np.testing.assert_array_equal(expected[::2], truth[::2])
    assert np.abs(inner._values[1::2] - truth[1::2]).mean() > 1.0
    assert np.abs(expected[1::2] - truth[1::2]).mean() < 0.1
    # A few scores give the constant alone.
    inner._scores[7:] = np.nan
    inner._correct()
    few = np.flatnonzero(~np.isnan(inner._scores))
    shift = np.median(truth[few] - inner._values[few])
    np.testing.assert_allclose(inner._corrected()[7:], inner._values[7:] + shift)


def test_epochs_start_anew_and_every_second_one_from_the_best() -> None:
    inner = gradient(epoch=40, accounting="visited")._method
    best = np.inf
    for epoch in range(5):
        while inner._epoch == epoch:
            before = inner._values.min(initial=np.inf)
            inner.tell(toy_losses(inner.ask(32)))
        started = inner._values[inner._epochs == epoch + 1]
        # A merging epoch has the best of those before; a fresh one has random mappings alone.
        assert (before in started) == (epoch + 1 in (2, 4)), epoch
        assert before <= best
        best = before
    memory = np.log(toy_losses(inner._codes))
    np.testing.assert_allclose(inner._values, memory, rtol=1e-6)
    assert len(inner._codes) <= 6 * 64


def test_a_small_budget_still_gets_an_answer() -> None:
    for n in (1, 2, 3, 5):
        evaluator = Evaluator(ToyModel(), SPACE, iterations=n)
        gradient().run(evaluator)
        assert np.isfinite(evaluator.best_loss)


def test_a_space_that_is_all_seen_goes_on() -> None:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=8000)
    gradient(epoch=2000).run(evaluator)
    assert evaluator.best_loss == 1.0
    assert evaluator.iterations_used == 8000


def test_what_is_no_number_leads_nowhere() -> None:
    class Broken(TruePredictor):
        def value_and_slope(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            values, described, slopes = super().value_and_slope(points)
            values[::3], slopes[::2] = np.nan, np.inf
            return values, described, slopes

    evaluator = Evaluator(ToyModel(), SPACE, iterations=500)
    gradient(Broken()).run(evaluator)
    assert evaluator.best_loss <= 2.0


def test_which_method_it_is() -> None:
    assert gradient().options.chosen == "screened"
    assert gradient(preset="paper").options.chosen == "descent"
    assert gradient(preset="released").options.chosen == "descent"
    # Files of before the default changed give parameters of descent.
    assert gradient(chains=4).options.chosen == "descent"
    with pytest.raises(ConfigError, match="epoch is a parameter of method screened"):
        gradient(chains=4, epoch=100)
    why = (
        r"chains is a parameter of method descent; this is screened. Preset paper sets chains=1, "
        r"step=whitened, relaxed=false, accounting=visited\.$"
    )
    with pytest.raises(ConfigError, match=why):
        GradientOptions.read("gradient", "paper", {"method": "screened"})
    of = {one.name: one.of for one in GradientOptions.explained()}
    assert (of["chains"], of["epoch"], of["method"]) == ("method descent", "method screened", None)
    with pytest.raises(ConfigError, match="chains is a parameter of method descent"):
        gradient(method="screened", chains=4)


def test_every_true_score_outlives_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screened_descent, "KEPT_OF_EPOCH", 2)
    inner = gradient(epoch=40)._method
    told = 0
    while inner._epoch < 5:
        codes = inner.ask(32)
        told += len(codes)
        inner.tell(toy_losses(codes))
        assert np.count_nonzero(~np.isnan(inner._scores)) == told
    assert told > 10
