"""The tuners of the GEMM paper: gbfs, na2c, xgboost and rnn, and the networks they share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mapspace.errors import ConfigError
from mapspace.testing.toy_space import CARDINALITY, LIMIT, TARGET, ToyModel, ToySpace, toy_losses
from searchers import Evaluator, make
from searchers.gbfs import GBFS, GBFSOptions
from searchers.na2c import NA2C, NA2COptions
from searchers.rnn import RNN, Digits, RNNOptions
from searchers.shared.batches import Visited
from searchers.shared.small_networks import (
    Features,
    Perceptron,
    Recurrent,
    descend,
    draw,
    learner,
    policy_slope,
)
from searchers.xgboost import XGBoost, XGBoostOptions, pick_diverse

SPACE = ToySpace()
TUNERS = ("gbfs", "na2c", "rnn", "xgboost")


class GraphSpace(ToySpace):
    """A graph on 0..7 as a space of one attribute; 7 has no edge to the others.

    0 - 1, 0 - 2, 1 - 3, 2 - 4, 2 - 5, 5 - 6.
    """

    cardinality = np.array([8])
    edit_choices = np.array([4])
    feature_names = ("value",)
    edges = ((1, 2), (0, 3), (0, 4, 5), (1,), (2,), (2, 6), (5,), ())
    start = np.array([0], dtype=np.int32)

    def sample(self, rng: np.random.Generator, n: int, *, feasible: bool = False) -> np.ndarray:
        return rng.integers(8, size=(n, 1), dtype=np.int32)

    def feasible(self, codes: np.ndarray) -> np.ndarray:
        return np.ones(len(codes), dtype=bool)

    def neighbours(self, code: np.ndarray) -> np.ndarray:
        return np.array(self.edges[code[0]], dtype=np.int32).reshape(-1, 1)

    def edit(self, codes: np.ndarray, edits: np.ndarray) -> np.ndarray:
        edited = codes.copy()
        for row, (node, number) in enumerate(zip(codes[:, 0], edits[:, 0], strict=True)):
            if 0 < number <= len(self.edges[node]):
                edited[row] = self.edges[node][number - 1]
        return edited

    def encode(self, codes: np.ndarray) -> np.ndarray:
        return codes.astype(np.float32)


def order(searcher: Any, losses: np.ndarray, asks: int) -> list[set[int]]:
    """The nodes of each batch."""
    batches = []
    for _ in range(asks):
        codes = searcher.ask(100)
        batches.append(set(codes[:, 0].tolist()))
        searcher.tell(losses[codes[:, 0]])
    return batches


def test_gbfs_expands_the_cheapest_first() -> None:
    """By hand: after 0 the queue is 1 (2.0), 2 (3.0); 1 leads to 3 (9.0); 2 to 4 and 5; 5 to 6.

    Then the queue runs empty without 7, which only a new start can find.
    """
    losses = np.array([5.0, 2.0, 3.0, 9.0, 7.0, 4.0, 8.0, 1.0])
    searcher = GBFS(GraphSpace(), GBFSOptions(rho=5, starts=1, reopen=False, patience=0), seed=0)
    assert order(searcher, losses, 5) == [{0}, {1, 2}, {3}, {4, 5}, {6}]
    assert order(searcher, losses, 1) == [{7}]


def test_gbfs_leaves_neighbours_out_unless_it_reopens() -> None:
    """With rho 1 one neighbour of 0 is measured, and the other only if 0 is put back."""
    losses = np.array([1.0, 2.0, 3.0, 9.0, 7.0, 4.0, 8.0, 6.0])
    closed = GBFS(GraphSpace(), GBFSOptions(rho=1, starts=1, reopen=False, patience=0), seed=0)
    first = order(closed, losses, 2)[1]
    assert first < {1, 2}
    assert order(closed, losses, 1)[0] <= ({3} if first == {1} else {4, 5})
    reopened = GBFS(GraphSpace(), GBFSOptions(rho=1, starts=1, reopen=True, patience=0), seed=0)
    batches = order(reopened, losses, 3)
    assert batches[1] | batches[2] == {1, 2}


def test_gbfs_starts_again_without_improvement() -> None:
    """The best is found at once: after `patience` worse mappings come `starts` random ones."""
    searcher = GBFS(SPACE, GBFSOptions(rho=3, starts=4, patience=6), seed=0)
    codes = searcher.ask(100)
    searcher.tell(np.array([1.0, 2.0, 3.0, 4.0]))
    for _ in range(2):
        codes = searcher.ask(100)
        assert len(codes) == 3
        searcher.tell(np.full(3, 9.0))
    assert len(searcher.ask(100)) == 4


def test_na2c_walks_around_the_best() -> None:
    """Every proposal lies within a walk of the best so far, which the centre follows."""
    searcher = NA2C(SPACE, NA2COptions(walk=2, batch=4, starts=1), seed=1)
    best_code, best_loss = None, np.inf
    for _ in range(12):
        codes = searcher.ask(100)
        if best_code is not None:
            assert (np.abs(codes - best_code).sum(axis=1) <= 2).all()
        losses = toy_losses(codes)
        searcher.tell(losses)
        if losses.min() < best_loss:
            best_code, best_loss = codes[losses.argmin()], losses.min()
        np.testing.assert_array_equal(searcher._centre, [best_code])


def test_na2c_starts_where_the_space_says() -> None:
    for searcher in (
        NA2C(GraphSpace(), NA2COptions(), seed=3),
        GBFS(GraphSpace(), GBFSOptions(), seed=3),
    ):
        np.testing.assert_array_equal(searcher.ask(100)[0], GraphSpace.start)


@pytest.mark.parametrize("reward", ["log", "inverse"])
def test_na2c_learns_which_action_pays(reward: str) -> None:
    searcher = NA2C(SPACE, NA2COptions(reward=reward, discount=0.0), seed=0)
    rng = np.random.default_rng(0)
    codes = SPACE.sample(rng, 400, feasible=True)
    actions = rng.integers(12, size=400)
    logs = np.where(actions == 3, -1.0, 1.0)
    searcher._memory = {"code": codes, "action": actions, "next": codes, "log": logs}
    for _ in range(60):
        searcher._train()
    logits, _ = searcher._policy.forward(searcher._actor["parameters"], Features(SPACE)(codes))
    assert (np.bincount(draw(rng, logits), minlength=12)[3]) > 200


def test_na2c_rewards_by_hand() -> None:
    searcher = NA2C(SPACE, NA2COptions(reward="inverse"), seed=0)
    searcher._memory["log"] = np.log([2.0, 1.0, 4.0, np.inf])
    np.testing.assert_allclose(searcher._rewards(), [0.5, 1.0, 0.25, 0.0], atol=1e-300)
    searcher = NA2C(SPACE, NA2COptions(reward="log"), seed=0)
    searcher._memory["log"] = np.array([0.0, 2.0, np.inf])
    np.testing.assert_allclose(searcher._rewards(), [1.0, -1.0, -3.0])


def test_digits_are_the_codes() -> None:
    cardinality = np.array([1, 2, 16, 17, 165, 5040, 40320])
    digits = Digits(cardinality, 16)
    assert max(digits.choices) <= 16
    codes = np.random.default_rng(0).integers(cardinality, size=(200, 7)).astype(np.int32)
    codes[0] = cardinality - 1
    split, joined = digits.split(codes), np.zeros_like(codes)
    for s in range(len(digits.choices)):
        allowed = digits.allowed(s, joined)
        assert allowed.shape == (200, digits.choices[s])
        assert allowed[np.arange(200), split[:, s]].all()
        digits.put(s, joined, split[:, s])
    np.testing.assert_array_equal(joined, codes)


def test_digits_never_leave_the_range() -> None:
    cardinality = np.array([17, 165, 5040])
    searcher = Digits(cardinality, 16)
    codes = np.zeros((1, 3), np.int32)
    for s in range(len(searcher.choices)):
        searcher.put(s, codes, np.array([np.flatnonzero(searcher.allowed(s, codes)[0]).max()]))
    np.testing.assert_array_equal(codes[0], cardinality - 1)


def numeric(function: Any, parameters: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Central differences of a scalar function at some entries of its parameters."""
    slopes = []
    for entry in entries:
        step = np.zeros_like(parameters)
        step[entry] = 1e-5
        slopes.append((function(parameters + step) - function(parameters - step)) / 2e-5)
    return np.array(slopes)


def test_perceptron_gradient_is_the_slope() -> None:
    rng = np.random.default_rng(0)
    network = Perceptron((3, 4, 5, 2))
    parameters = rng.normal(size=network.size)
    inputs, weights = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    _, read = network.forward(parameters, inputs)
    expected = numeric(
        lambda at: (weights * network.forward(at, inputs)[0] ** 3).sum(),
        parameters,
        np.arange(network.size),
    )
    outputs, read = network.forward(parameters, inputs)
    slope = network.gradient(parameters, read, weights * 3 * outputs**2)
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6)


def test_policy_slope_is_the_slope() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5, 4))
    chosen, gains = rng.integers(3, size=5), rng.normal(size=5)

    def objective(flat: np.ndarray) -> float:
        at = flat.reshape(5, 4)[:, :3]
        logs = at - np.log(np.exp(at).sum(axis=1, keepdims=True))
        entropies = -(np.exp(logs) * logs).sum()
        return float(-(gains * logs[np.arange(5), chosen]).sum() - 0.3 * entropies)

    expected = numeric(objective, logits.ravel(), np.arange(20)).reshape(5, 4)
    logits[:, 3] = -np.inf  # cannot be chosen
    np.testing.assert_allclose(policy_slope(logits, chosen, gains, 0.3), expected, atol=1e-8)


def test_controller_gradient_is_the_slope() -> None:
    """Backpropagation through time, masked digits and entropy included."""
    searcher = RNN(SPACE, RNNOptions(hidden=3, embedding=2, largest_radix=4), seed=0)
    rng = np.random.default_rng(0)
    codes, gains = SPACE.sample(rng, 5), rng.normal(size=5)
    parameters = rng.normal(size=searcher._network.size)
    chosen = searcher._digits.split(codes)

    def objective(at: np.ndarray) -> float:
        begun, total = np.zeros_like(codes), 0.0

        def repeat(s: int, logits: np.ndarray) -> np.ndarray:
            nonlocal total
            masked = np.where(searcher._digits.allowed(s, begun), logits, -np.inf)
            shares = np.exp(masked - np.log(np.exp(masked).sum(axis=1, keepdims=True)))
            total -= (gains * np.log(shares[np.arange(5), chosen[:, s]])).sum()
            total += 0.2 * (shares * np.log(np.where(shares > 0, shares, 1.0))).sum()
            searcher._digits.put(s, begun, chosen[:, s])
            return chosen[:, s]

        searcher._network.emit(at, 5, repeat)
        return total

    searcher._controller["parameters"] = parameters
    expected = numeric(objective, parameters, np.arange(parameters.size))
    slope = searcher.slope(codes, gains, 0.2)
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6)


def test_recurrent_network_remembers_earlier_choices() -> None:
    """Trained to repeat its first choice at the last of three places, it does."""
    network = Recurrent((2, 2, 2), hidden=8, embedding=3)
    rng = np.random.default_rng(0)
    state = learner(network.initial(rng))
    wanted = np.repeat(np.array([[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]]), 4, axis=0)
    for _ in range(150):
        slopes: list[np.ndarray] = []

        def repeat(s: int, logits: np.ndarray, slopes: Any = slopes) -> np.ndarray:
            slopes.append(policy_slope(logits, wanted[:, s], np.ones(16), 0.0))
            return wanted[:, s]

        _, trace = network.emit(state["parameters"], 16, repeat)
        slope = network.gradient(state["parameters"], wanted, trace, slopes)
        descend(state, slope, 0.05, 1.0)
    emitted, _ = network.emit(state["parameters"], 200, lambda s, logits: draw(rng, logits))
    assert (emitted[:, 0] == emitted[:, 2]).mean() > 0.9
    assert 0.2 < emitted[:, 0].mean() < 0.8


def test_adam_first_step_is_the_rate() -> None:
    """By hand: the first step of Adam is the learning rate against the sign of the slope."""
    state = learner(np.array([1.0, 2.0, 3.0]))
    descend(state, np.array([4.0, -0.5, 0.0]), 0.1, 100.0)
    np.testing.assert_allclose(state["parameters"], [0.9, 2.1, 3.0], atol=1e-6)


def test_draws_follow_the_probabilities() -> None:
    rng = np.random.default_rng(0)
    logits = np.tile(np.log([0.2, 0.5, 0.3]), (20_000, 1))
    logits[:, 2] = -np.inf
    share = np.bincount(draw(rng, logits), minlength=3) / 20_000
    np.testing.assert_allclose(share, [2 / 7, 5 / 7, 0.0], atol=0.015)


def test_features_are_whitened() -> None:
    features = Features(SPACE)
    values = features(SPACE.sample(np.random.default_rng(5), 4000, feasible=True))
    assert features.width == len(CARDINALITY)  # the constant is left out
    np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=0.3)
    np.testing.assert_allclose(values.std(axis=0), 1.0, atol=0.2)


@pytest.mark.parametrize("fit", ["rank", "regression"])
def test_xgboost_ranks_what_it_never_saw(fit: str) -> None:
    searcher = XGBoost(SPACE, XGBoostOptions(fit=fit), seed=0)
    rng = np.random.default_rng(0)
    codes = SPACE.sample(rng, 700, feasible=True)
    searcher._learn(codes[:500], toy_losses(codes[:500]))
    predicted = searcher._predict(searcher._fit(), codes[500:])
    ranks = [values.argsort().argsort() for values in (predicted, -toy_losses(codes[500:]))]
    assert np.corrcoef(ranks)[0, 1] > 0.8


def test_xgboost_proposes_better_than_random() -> None:
    searcher = XGBoost(SPACE, XGBoostOptions(batch=40), seed=0)
    first = toy_losses(codes := searcher.ask(100))
    searcher.tell(toy_losses(codes))
    for _ in range(4):
        searcher.tell(toy_losses(codes := searcher.ask(100)))
    assert np.median(toy_losses(codes)) < np.median(first) / 3


def test_xgboost_diversity_by_hand() -> None:
    """The first has two new values; row 2 shares none with it, row 1 shares one."""
    codes = np.array([[1, 1], [1, 2], [2, 2], [1, 1]])
    np.testing.assert_array_equal(pick_diverse(codes, 3), [0, 2, 1])


def test_xgboost_says_which_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    with pytest.raises(ConfigError, match=r"pip install 'mapspace\[baselines\]'"):
        make("xgboost", SPACE, seed=0)


def test_visited_numbers_and_finds() -> None:
    table = Visited(np.array([[1, 2], [3, 4], [1, 2]], dtype=np.int32))
    assert len(table) == 2
    assert table.add(np.array([[5, 6], [3, 4]], dtype=np.int32)) == [2, 1]
    codes = np.array([[9, 9], [3, 4], [0, 0], [9, 9]], dtype=np.int32)
    np.testing.assert_array_equal(table.find(codes), [-1, 1, -1, -1])
    np.testing.assert_array_equal(table.fresh(codes), [0, 2])
    np.testing.assert_array_equal(table.codes(), [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(table.code(2), [5, 6])


@pytest.mark.parametrize("name", TUNERS)
def test_nothing_is_proposed_twice(name: str) -> None:
    searcher, asked = make(name, SPACE, seed=0), []
    for _ in range(8):
        asked.append(searcher.ask(50))
        searcher.tell(toy_losses(asked[-1]))
    codes = np.concatenate(asked)
    assert len(np.unique(codes, axis=0)) == len(codes)


class SingleSpace(GraphSpace):
    """One candidate only."""

    cardinality = np.array([1])
    edit_choices = np.array([1])
    edges = ((),)

    def sample(self, rng: np.random.Generator, n: int, *, feasible: bool = False) -> np.ndarray:
        return np.zeros((n, 1), dtype=np.int32)

    def mutate(self, rng: np.random.Generator, codes: np.ndarray, *, steps: int = 1) -> np.ndarray:
        return codes.copy()


@pytest.mark.parametrize("name", TUNERS)
def test_exhausted_spaces_are_survived(name: str) -> None:
    searcher = make(name, SingleSpace(), seed=0)
    for _ in range(20):
        codes = searcher.ask(10)
        assert (codes == 0).all()
        assert len(codes)
        searcher.tell(np.full(len(codes), 3.0))


@pytest.mark.parametrize("name", TUNERS)
def test_tuners_come_close_to_the_best(name: str) -> None:
    """The feasible optimum of the toy space is its target, of loss 1."""
    assert TARGET[:2].sum() <= LIMIT
    found = []
    for seed in range(3):
        evaluate = Evaluator(ToyModel(), SPACE, iterations=800)
        make(name, SPACE, seed=seed).run(evaluate)
        found.append(evaluate.result().best_loss)
    assert np.median(found) <= 1.5


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gbfs", {"rho": 0}),
        ("gbfs", {"starts": 0}),
        ("gbfs", {"patience": -1}),
        ("na2c", {"walk": 0}),
        ("na2c", {"policy_share": 1.1}),
        ("na2c", {"reward": "loss"}),
        ("na2c", {"discount": 1.5}),
        ("rnn", {"largest_radix": 1}),
        ("rnn", {"baseline_decay": 1.0}),
        ("rnn", {"learning_rate": 0.0}),
        ("xgboost", {"fit": "pairs"}),
        ("xgboost", {"random_share": -0.1}),
        ("xgboost", {"diversity": 0}),
    ],
)
def test_bad_hyperparameters_are_refused(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(parameters))):
        make(name, SPACE, seed=0, **parameters)
