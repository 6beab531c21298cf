"""Searchers that are asked for more while losses are out: the same calls give the same run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ContractError
from mapspace.testing.toy_space import ToyPredictor, ToySpace
from orchestrator.runs.checkpoints import load_state, save_state
from searchers import SEARCHERS, Evaluator, make, searcher_class
from searchers.queries import Queries
from searchers.shared.asynchronous import Asynchronous

ABLE = sorted(name for name in SEARCHERS if searcher_class(name).ASYNCHRONOUS)
NEST = MapSpace(workload("gemm:M=32,N=32,K=32"), accelerator("tiny3"))
HARD = MapSpace(workload("gemm:M=96,N=96,K=96"), accelerator("mm256"))
MODEL = LoopNestModel()


def build(name: str, space: Any, seed: int = 0, **extra: Any) -> Asynchronous:
    if "predictor" in searcher_class(name).USES:
        extra["predictor"] = ToyPredictor(len(space.feature_names))
    searcher = make(name, space, seed=seed, **{**searcher_class(name).QUICK, **extra})
    assert isinstance(searcher, Asynchronous)
    return searcher


def loss_of(space: Any, code: np.ndarray) -> float:
    if isinstance(space, MapSpace):
        return float(MODEL.evaluate(space, code[None]).edp[0])
    return float(np.exp(code.sum() / 3.0))


def play(searcher: Asynchronous, moves: int, order: int = 7, out: int = 9) -> list[np.ndarray]:
    """Asks so that `out` are out and answers any of them, `moves` times; what was asked."""
    rng = np.random.default_rng(order)
    asked: list[np.ndarray] = []
    for _ in range(moves):
        missing = out - len(searcher.out)
        while missing > 0:
            tickets, codes = searcher.ask_more(missing)
            assert 1 <= len(tickets) == len(codes) <= missing
            assert searcher.space.feasible(codes).all()
            asked += list(codes)
            missing -= len(tickets)
        tickets = sorted(searcher.out)
        told = rng.permutation(tickets)[: 1 + rng.integers(3)]
        searcher.tell_more(
            told.tolist(), [loss_of(searcher.space, searcher.out[t]) for t in told.tolist()]
        )
    return asked


def test_who_can() -> None:
    assert {"annealing", "cma-es", "genetic", "model-guided"} <= set(ABLE)
    assert not searcher_class("random").ASYNCHRONOUS


@pytest.mark.parametrize("name", ABLE)
def test_equal_calls_give_an_equal_run_and_a_state_continues_it(name: str, tmp_path: Any) -> None:
    for space in (NEST, ToySpace()):
        if not isinstance(space, searcher_class(name).SPACES or object):
            continue
        whole = np.stack(play(build(name, space), 60))
        assert np.array_equal(whole, np.stack(play(build(name, space), 60)))
        other = np.stack(play(build(name, space, seed=1), 60))
        assert whole.shape != other.shape or not np.array_equal(whole, other)
        first = build(name, space)
        play(first, 30)
        save_state(tmp_path / "state.npz", first.state_dict())
        second = build(name, space, seed=5)
        second.load_state_dict(load_state(tmp_path / "state.npz"))
        assert sorted(second.out) == sorted(first.out)
        assert np.array_equal(np.stack(play(first, 20, 3)), np.stack(play(second, 20, 3)))


# The predictor of surrogate-guided knows nothing here.
@pytest.mark.parametrize("name", [name for name in ABLE if name != "surrogate-guided"])
def test_it_learns_from_late_answers(name: str) -> None:
    """About as well as in batches, with answers out of order."""
    extra = {"horizon": 300} if name == "annealing" else {}
    extra |= {"population": 20, "offspring": 20} if name == "genetic" else {}
    asked = play(build(name, HARD, 3, **extra), 300)
    found = min(loss_of(HARD, code) for code in asked)
    evaluator = Evaluator(MODEL, HARD, iterations=len(asked))
    build(name, HARD, 3, **extra).run(evaluator)
    assert found <= 1.05 * evaluator.best_loss


def test_one_way_or_the_other() -> None:
    searcher = build("genetic", NEST)
    tickets, codes = searcher.ask_more(3)
    for call, words in (
        (lambda: searcher.ask(1), "one way or the other"),
        (lambda: searcher.tell_more([99], [1.0]), "Ticket 99 is not out"),
        (lambda: searcher.tell_more([0, 0], [1.0, 1.0]), "given twice"),
        (lambda: searcher.tell_more([0], [1.0, 1.0]), "one per ticket"),
        (lambda: searcher.tell_more([0], [float("nan")]), "nan"),
        (lambda: searcher.ask_more(0), "n >= 1"),
    ):
        with pytest.raises(ContractError, match=words):
            call()
    assert len(searcher.out) == len(codes) == len(tickets)


@pytest.mark.parametrize("name", ["random", "genetic", "optuna"])
def test_batches_are_exact_in_any_order_of_answers(name: str) -> None:
    """Queries that come back out of order change nothing where a searcher waits for all."""

    def found(order: int) -> list[tuple[int, ...]]:
        searcher = make(name, NEST, seed=0)
        queries = Queries(searcher, lambda codes, answers, _: np.array(answers), asynchronous=False)
        rng, asked = np.random.default_rng(order), []
        for _ in range(6):
            given = queries.more(5, 8) + queries.more(5, 8)
            assert queries.more(1, 8) == []
            asked += [tuple(query.code.tolist()) for query in given]
            assert queries.open == len(given) == len(queries.unanswered())
            for place in rng.permutation(len(given)):
                queries.answer(given[place].ticket, loss_of(NEST, given[place].code))
            assert queries.open == 0
        return asked

    searcher, asked = make(name, NEST, seed=0), []
    for _ in range(6):
        codes = searcher.ask(8)
        asked += [tuple(code.tolist()) for code in codes]
        searcher.tell([loss_of(NEST, code) for code in codes])
    assert found(1) == found(2) == asked


def test_a_late_point_counts_as_a_step_from_the_mean_of_now(monkeypatch: Any) -> None:
    """CMA-ES: its own mean and step size are those of when it was drawn."""
    searcher: Any = build("cma-es", HARD, population=4)
    old, _ = searcher.ask_more(4)
    strategy = searcher._strategy
    points = [strategy._mean + strategy._sigma * step for step, _ in searcher._drawn]
    strategy._mean, strategy._sigma = strategy._mean + 3.0, 0.5 * strategy._sigma
    told: list[Any] = []
    monkeypatch.setattr(strategy, "tell", told.extend)
    monkeypatch.setattr(strategy, "should_stop", lambda: False)
    searcher.tell_more(old[::-1], [4.0, 3.0, 2.0, 1.0])
    # The mean was 0, and steps half as long as they were lead from 3. None is beyond the usual.
    for (point, log), drawn, loss in zip(told, points[::-1], (4.0, 3.0, 2.0, 1.0), strict=True):
        assert np.allclose(point, 3.0 + 0.5 * drawn)
        assert log == np.log(loss)


def test_a_search_that_stands_still_begins_elsewhere() -> None:
    """CMA-ES: after 20 generations without a better one, with as many in a generation."""
    searcher: Any = build("cma-es", HARD, population=4)
    for generation in range(1, 22):
        tickets, _ = searcher.ask_more(4)
        searcher.tell_more(tickets, [1.0] * 4)
        # The first generation has the best there is.
        assert searcher._strategies == (generation >= 20)
    assert searcher._strategy.population_size == 4
    assert searcher._strategy.generation == 1
