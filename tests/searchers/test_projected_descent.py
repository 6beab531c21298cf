"""Projected descent: steps, injections, both accountings, guards, named options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ConfigError
from mapspace.testing.toy_space import TARGET, WEIGHT, ToyModel, ToyPredictor, ToySpace, toy_losses
from searchers import Evaluator, make

SPACE = ToySpace()


class TruePredictor:
    """Predicts the toy space's losses exactly."""

    scale = np.array([1.0, 2.6, 2.6, 2.0, 1.4, 1.1, 0.8])

    def describe(self, points: np.ndarray) -> np.ndarray:
        return points

    def value_and_slope(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        raise AssertionError("descent follows raw gradients")

    def value(self, points: np.ndarray) -> np.ndarray:
        return np.log(toy_losses(points[:, 1:].astype(np.float64)))

    def value_and_gradient(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gradient = np.zeros(points.shape)
        gradient[:, 1:] = 2 * WEIGHT * (points[:, 1:] - TARGET)
        gradient[:, 0] = 1e6  # the problem's size, which no step may follow
        return self.value(points), gradient


class BrokenPredictor(ToyPredictor):
    """Diverges: gradients are nan, infinite or huge, values nan."""

    def value(self, points: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(points)) % 3 == 0, np.nan, 900.0)

    def value_and_gradient(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wild = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300])
        gradient = wild[np.arange(points.size) % 5].reshape(points.shape)
        return self.value(points), gradient


class FlatPredictor(ToyPredictor):
    """Leads nowhere."""

    def value_and_sum_gradient(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.value(points), np.zeros(points.shape)


def gradient(space: Any = SPACE, predictor: Any = None, **parameters: Any) -> Any:
    predictor = TruePredictor() if predictor is None else predictor
    chosen = {"seed": 0, "method": "descent", **parameters}
    return make("gradient", space, predictor=predictor, **chosen)._method  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"step": "whitened", "learning_rate": 0.1},
        {"step": "whitened", "relaxed": False, "learning_rate": 0.1},
        {"step": "whitened", "learning_rate": 0.02, "double_on_stall": True},
        {"always_inject": True},
    ],
    ids=str,
)
def test_it_finds_the_target_where_the_predictor_is_right(options: dict[str, Any]) -> None:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=1500)
    gradient(**options).run(evaluator)
    assert evaluator.best_loss <= 1.5


def test_true_queries_are_the_best_predicted_ones() -> None:
    """After a round the pool's best are asked, and none twice."""
    searcher = gradient(chains=8, rescored=3, round_steps=4)
    asked: set[tuple[int, ...]] = set()
    for _ in range(30):
        codes = searcher.ask(10**6)
        rows = {*map(tuple, codes.tolist())}
        assert len(rows) == len(codes) <= 3
        assert not rows & asked
        asked |= rows
        predicted = searcher.predictor.value(SPACE.encode(codes))
        assert (np.diff(predicted) >= 0).all()
        waiting = searcher.state_dict()["memory"]["_pool_values"]
        assert predicted.max(initial=-np.inf) <= waiting.min(initial=np.inf) + 1e-9
        searcher.tell(toy_losses(codes))
    assert searcher.surrogate_queries == 30 * 8 * 4


def test_queries_are_counted_as_the_predictor_saw_them() -> None:
    for options in (
        {"accounting": "deployable", "chains": 5},
        {"accounting": "visited", "chains": 5},
        {"preset": "released"},
    ):
        predictor = ToyPredictor(7)
        searcher = gradient(predictor=predictor, **options)
        for n in (1, 2, 7, 50, 1000):
            searcher.tell(toy_losses(searcher.ask(n)))
        assert searcher.surrogate_queries == predictor.queries


def test_visited_accounting_records_every_visit_for_nothing() -> None:
    searcher = gradient(preset="paper")
    assert searcher.learns is False
    evaluator = Evaluator(ToyModel(), SPACE, iterations=300, query_latency=1e6)
    searcher.run(evaluator)
    result = evaluator.result()
    assert result.iterations == result.surrogate_queries == 300
    # The last visit finds no room in the budget.
    assert result.true_queries == 299
    assert result.seconds < 1e3


def test_deployable_accounting_pays_for_true_queries() -> None:
    searcher = gradient()
    assert searcher.learns is True
    evaluator = Evaluator(ToyModel(), SPACE, iterations=300)
    searcher.run(evaluator)
    result = evaluator.result()
    assert result.true_queries > 0
    assert result.iterations == result.surrogate_queries + result.true_queries == 300


def test_true_losses_do_not_lead() -> None:
    """What the surrogate visits is the same whatever the truth is."""
    left, right = gradient(), gradient()
    for _ in range(5):
        codes = left.ask(500)
        np.testing.assert_array_equal(codes, right.ask(500))
        left.tell(toy_losses(codes))
        right.tell(np.full(len(codes), np.inf))


def test_a_small_budget_still_gets_an_answer() -> None:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=1)
    gradient().run(evaluator)
    assert evaluator.true_queries == 1
    assert np.isfinite(evaluator.best_loss)


@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"step": "whitened", "chains": 3}])
def test_a_diverging_surrogate_is_survived(options: dict[str, Any]) -> None:
    for space in (SPACE, small_nest()):
        searcher = gradient(space, BrokenPredictor(len(space.feature_names)), **options)
        for _ in range(40):
            codes = searcher.ask(60)
            assert space.feasible(codes).all()
            searcher.tell(np.ones(len(codes)))


def small_nest() -> MapSpace:
    return MapSpace(workload("cnn:N=4,K=16,C=8,P=7,Q=7,R=3,S=3,stride=1"), accelerator("mm256"))


@pytest.mark.parametrize("relaxed", [True, False])
def test_relaxed_points_are_kept_and_asked_for_unprojected(relaxed: bool) -> None:
    class Watched(TruePredictor):
        def value(self, points: np.ndarray) -> np.ndarray:
            self.points = points.copy()
            return super().value(points)

    predictor = Watched()
    searcher = gradient(
        predictor=predictor, step="whitened", relaxed=relaxed, learning_rate=0.01, chains=4
    )
    fractions = []
    for _ in range(8):
        searcher.tell(np.ones(len(searcher.ask(8))))
        memory = searcher.state_dict()["memory"]
        np.testing.assert_allclose(memory["_points"], predictor.points)
        np.testing.assert_array_equal(SPACE.project(memory["_points"]), memory["_codes"])
        fractions.append(np.abs(predictor.points - np.rint(predictor.points)).max())
    assert (max(fractions) > 0) == relaxed


@pytest.mark.parametrize("step", ["relative", "whitened"])
def test_steps_stay_in_the_box_and_leave_the_problem_alone(step: str) -> None:
    space = small_nest()
    predictor = ToyPredictor(len(space.feature_names))
    predictor.centre[:] = 1e6
    searcher = gradient(space, predictor, step=step, inject_every=1000)
    sizes = space.tables.sizes
    for _ in range(10):
        searcher.tell(np.ones(len(searcher.ask(10**6))))
        points = searcher.state_dict()["memory"]["_points"]
        n = len(sizes)
        np.testing.assert_array_equal(points[:, :n], np.tile(sizes, (16, 1)))
        factors = points[:, n : 5 * n].reshape(-1, 4, n)
        assert (factors >= 1).all()
        assert (factors <= sizes).all()
        assert (points[:, 5 * n :] >= 0).all()
        assert (points[:, 5 * n :] <= n - 1).all()


def test_the_papers_step_is_one_learning_rate_in_the_whitened_space() -> None:
    """A step is -lr * sd^2 * dEDP/dx, bounded per value."""
    predictor = TruePredictor()
    searcher = gradient(
        step="whitened", chains=1, learning_rate=0.02, largest_step=0.05, inject_every=1000
    )
    searcher.tell(np.ones(len(searcher.ask(2))))
    memory = searcher.state_dict()["memory"]
    start = memory["_points"].copy()
    _, slope = predictor.value_and_gradient(start)
    slope[:, 0] = 0.0
    searcher.tell(np.ones(len(searcher.ask(2))))
    moved = searcher.state_dict()["memory"]["_points"]
    whitened = np.clip(0.02 * slope * predictor.scale, -0.05, 0.05)
    np.testing.assert_allclose(moved, start - predictor.scale * whitened, rtol=1e-6)
    assert (moved != start).any()


def test_injections_come_every_so_often_and_cool() -> None:
    searcher = gradient(preset="paper", inject_every=5)
    for _ in range(600):
        searcher.tell(np.ones(len(searcher.ask(2))))
    assert searcher.state_dict()["memory"]["_injections"].tolist() == [120]
    # After 2 coolings of 0.75: 28.125 of 50.
    worse = searcher.state_dict()["memory"]["_values"]
    rises = np.array([np.log(np.exp(worse[0]) + 28.125)])
    accepted = [searcher._accepts(np.array([0]), rises)[0] for _ in range(4000)]
    assert np.mean(accepted) == pytest.approx(np.exp(-1.0), abs=4 * 0.5 / 4000**0.5)


def test_released_options_are_what_they_say() -> None:
    searcher = gradient(predictor=FlatPredictor(7), preset="released", inject_every=7)
    rates = []
    for _ in range(60):
        searcher.tell(np.ones(len(searcher.ask(2))))
        rates.append(searcher.state_dict()["memory"]["_rates"][0])
    # Doubled while the projection stays the same, one again after every injection.
    np.testing.assert_array_equal(rates, [2.0 ** (step % 7) for step in range(60)])


def test_what_the_search_needs_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"needs a surrogate .*mapspace train"):
        make("gradient", SPACE, seed=0)
    with pytest.raises(ConfigError, match="reads 9 values per mapping; this space encodes 7"):
        gradient(predictor=ToyPredictor(9))
    with pytest.raises(ConfigError, match="'sum' needs a surrogate that offers it"):
        gradient(gradient_of="sum")


@pytest.mark.parametrize(
    "wrong",
    [
        {"chains": 0},
        {"learning_rate": 0.0},
        {"inject_every": 0},
        {"temperature": 0.0},
        {"accounting": "free"},
        {"rescored": 0},
        {"round_steps": 0},
        {"gradient_of": "energy"},
        {"objective": "sum"},
        {"step": "newton"},
        {"largest_step": 0.0},
    ],
)
def test_bad_hyperparameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))}"):
        gradient(**wrong)


def test_on_a_loop_nest_it_beats_random_search_by_a_true_predictor() -> None:
    """The truth as predictor, its gradient by differences of neighbours left out: injections."""
    space = small_nest()
    model = LoopNestModel()

    class Oracle(TruePredictor):
        scale = np.ones(len(space.feature_names))

        def value(self, points: np.ndarray) -> np.ndarray:
            return np.log(model.evaluate(space, space.project(points)).edp)

        def value_and_gradient(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            # Larger inner and spatial factors are better on this machine.
            n = len(space.tables.sizes)
            slope = np.zeros(points.shape)
            slope[:, n : 3 * n] = 1.0
            slope[:, 3 * n : 5 * n] = -1.0
            return self.value(points), slope

    searched = Evaluator(model, space, iterations=2000)
    gradient(space, Oracle()).run(searched)
    random = Evaluator(model, space, iterations=2000)
    make("random", space, seed=0).run(random)
    assert searched.best_loss < random.best_loss


@pytest.mark.parametrize(
    "allowed",
    [
        {"chains": 1},
        {"inject_every": 1},
        {"rescored": 1},
        {"round_steps": 1},
        {"learning_rate": 1e-300},
        {"temperature": 1e-300},
        {"largest_step": 1e-300},
    ],
    ids=str,
)
def test_hyperparameters_at_their_limits_are_taken(allowed: dict[str, Any]) -> None:
    for step in ("relative", "whitened"):
        searcher = gradient(step=step, **allowed)
        for _ in range(3):
            searcher.tell(toy_losses(searcher.ask(20)))


def test_a_search_begins_with_nothing_remembered() -> None:
    memory = gradient().state_dict()["memory"]
    for name in ("_pool_codes", "_pool_values", "_scored", "_unreported"):
        assert len(memory[name]) == 0
    assert memory["_turn"] == 0


def test_a_step_that_the_surrogate_expects_to_be_worse_is_not_taken() -> None:
    searcher = gradient(chains=4, inject_every=10**6)
    held = np.full(4, np.inf)
    for step in range(60):
        searcher.tell(np.ones(len(searcher.ask(5))))
        values = searcher.state_dict()["memory"]["_values"]
        assert (values <= held).all()
        assert step == 0 or np.isfinite(values).any()
        held = values.copy()


@pytest.mark.parametrize("step", ["relative", "whitened"])
def test_an_injection_is_taken_or_left_by_metropolis_rule(step: str) -> None:
    """At next to no temperature none that is worse; where all are taken, each."""
    searcher = gradient(step=step, chains=1, inject_every=1, temperature=1e-12)
    always = gradient(step=step, chains=1, inject_every=1, always_inject=True)
    held = np.inf
    rises = 0
    for _ in range(40):
        for which in (searcher, always):
            before = which.state_dict()["memory"]["_values"][0]
            which.tell(np.ones(len(which.ask(2))))
            rises += which is always and which.state_dict()["memory"]["_values"][0] > before
        assert searcher.state_dict()["memory"]["_values"][0] <= held
        held = searcher.state_dict()["memory"]["_values"][0]
    assert rises > 5
