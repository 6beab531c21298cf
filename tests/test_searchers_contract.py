"""What every searcher promises, held over the registry: a new one is covered by its line there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_space import ToyModel, ToyPredictor, ToySpace

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.errors import ConfigError, ContractError
from costmodel.maestro import MaestroModel, OnChipSpace
from costmodel.maestro.distinct_blocks import layer_of
from searchers import SEARCHERS, Evaluator, Searcher, hyperparameters, make, searcher_class

NAMES = sorted(SEARCHERS)
SPACES: dict[str, Callable[[], Any]] = {
    "nest": lambda: MapSpace(
        workload("cnn:N=4,K=96,C=80,P=14,Q=14,R=3,S=3,stride=1"), accelerator("mm256")
    ),
    "toy": ToySpace,
    "on-chip": lambda: OnChipSpace(
        layer_of(workload("marvel-l13")), (128, 256, 1, 1, 7, 7), accelerator("eyeriss-168")
    ),
}
GENERAL = ("nest", "toy")
# Searchers for some kinds of space only; the others must work on the general ones.
SPECIALISED = {
    "exact": ("nest",),
    "marvel": ("nest", "on-chip"),
    "primitive-annealing": ("nest",),
    "structured": ("nest",),
}
# What only costs time is turned down: no promise depends on it.
CHEAPER: dict[str, dict[str, Any]] = {
    "model-guided": {"batch": 30, "chains": 8, "steps": 3, "memory": 40},
    "na2c": {"updates": 1},
    "optuna": {"candidates": 2},
    "rnn": {"hidden": 8, "batch": 64},
    "surrogate-guided": {"batch": 30, "chains": 8, "steps": 3, "memory": 40},
    "xgboost": {"trees": 4, "steps": 5, "chains": 32},
}
# Searchers that end before their budget does, when they have nothing more to propose.
EXHAUSTIBLE = {"exact", "marvel"}
CASES = [
    (name, preset, space)
    for name in NAMES
    for preset in (None, *sorted(searcher_class(name).PRESETS))
    # A preset changes numbers, not what a space is: one kind of space will do.
    for space in SPECIALISED.get(name, GENERAL)[: None if preset is None else 1]
]


def build(name: str, preset: str | None, space: Any, seed: int = 0) -> Searcher:
    """A searcher, with a predictor where it takes one."""
    extra: dict[str, Any] = dict(CHEAPER.get(name, {}))
    if "predictor" in hyperparameters(name):
        extra["predictor"] = ToyPredictor(len(space.feature_names))
    return make(name, space, seed=seed, preset=preset, **extra)


def model_of(space: Any) -> Any:
    models = {ToySpace: ToyModel, OnChipSpace: MaestroModel}
    return models.get(type(space), LoopNestModel)()


def true_losses(space: Any, codes: np.ndarray) -> np.ndarray:
    return model_of(space).evaluate(space, codes).edp


def play(searcher: Searcher, asks: int, n: int = 37) -> list[np.ndarray]:
    """Codes of so many asks, answered truly; ends where the searcher is exhausted."""
    asked = []
    for _ in range(asks):
        codes = searcher.ask(n)
        asked.append(codes)
        searcher.tell(true_losses(searcher.space, codes))
    return asked


def flat(asked: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(asked)


def through_files(state: Any) -> Any:
    """A state as it comes back from JSON and arrays: tuples as lists, arrays by value."""

    def pack(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return {"__array__": value.tolist(), "dtype": str(value.dtype), "shape": value.shape}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, dict):
            return {key: pack(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [pack(entry) for entry in value]
        assert value is None or isinstance(value, bool | int | float | str), type(value)
        return value

    def unpack(value: Any) -> Any:
        if isinstance(value, dict) and "__array__" in value:
            return np.array(value["__array__"], dtype=value["dtype"]).reshape(value["shape"])
        if isinstance(value, dict):
            return {key: unpack(entry) for key, entry in value.items()}
        return [unpack(entry) for entry in value] if isinstance(value, list) else value

    return unpack(json.loads(json.dumps(pack(state))))


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def case(request: pytest.FixtureRequest) -> tuple[str, str | None, Any]:
    name, preset, space = request.param
    return name, preset, SPACES[space]()


Case = tuple[str, str | None, Any]


def test_one_seed_gives_one_run(case: Case) -> None:
    first, second = (flat(play(build(*case), 12)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_another_seed_gives_another_run(case: Case) -> None:
    first, second = flat(play(build(*case), 4)), flat(play(build(*case, seed=1), 4))
    assert first.shape != second.shape or (first != second).any()


def test_global_random_state_plays_no_part(case: Case) -> None:
    np.random.seed(1)  # noqa: NPY002
    first = flat(play(build(*case), 6))
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(first, flat(play(build(*case), 6)))


@pytest.mark.parametrize("at", ["before ask", "before tell"])
@pytest.mark.parametrize("steps", [0, 1, 9])
def test_resume_is_exact(case: Case, at: str, steps: int) -> None:
    """A saved searcher continues as the undisturbed one, also through files."""
    undisturbed, saved = build(*case), build(*case)
    play(undisturbed, steps)
    play(saved, steps)
    if at == "before tell":
        undisturbed.ask(37)
        codes = saved.ask(37)
    state = through_files(saved.state_dict())
    play(saved, 0) if at == "before tell" else play(saved, 2)  # must not reach into the state
    resumed = build(*case, seed=99)
    resumed.load_state_dict(state)
    if at == "before tell":
        losses = true_losses(case[2], codes)
        undisturbed.tell(losses)
        resumed.tell(losses)
    assert resumed.surrogate_queries == undisturbed.surrogate_queries
    expected, got = play(undisturbed, 8), play(resumed, 8)
    for theirs, ours in zip(expected, got, strict=True):
        np.testing.assert_array_equal(theirs, ours)
    assert resumed.surrogate_queries == undisturbed.surrogate_queries


def test_state_is_a_copy(case: Case) -> None:
    searcher = build(*case)
    play(searcher, 3)
    state = searcher.state_dict()
    before = json.dumps(through_files(state), default=lambda array: array.tolist())
    play(searcher, 3)
    assert json.dumps(through_files(state), default=lambda array: array.tolist()) == before


def test_foreign_states_are_refused(case: Case) -> None:
    searcher = build(*case)
    state = searcher.state_dict()
    with pytest.raises(ContractError, match="got that of 'Other'"):
        searcher.load_state_dict({**state, "searcher": "Other"})
    with pytest.raises(ContractError, match="memory"):
        searcher.load_state_dict({**state, "memory": {"_unknown": 1}})


@pytest.mark.parametrize("n", [1, 2, 3, 17, 101, 1000])
def test_budget_is_kept(case: Case, n: int) -> None:
    searcher = build(*case)
    for _ in range(12):
        before = searcher.surrogate_queries
        codes = searcher.ask(n)
        spent = searcher.surrogate_queries - before
        assert len(codes) + spent <= n
        assert len(codes) + spent > 0 or case[0] in EXHAUSTIBLE
        assert codes.dtype == np.int32
        assert codes.shape[1:] == case[2].cardinality.shape
        searcher.tell(true_losses(case[2], codes))


def test_proposals_are_feasible(case: Case) -> None:
    codes = flat(play(build(*case), 30))
    case[2].check(codes)
    assert case[2].feasible(codes).all()


def test_whole_run_spends_the_budget_and_improves(case: Case) -> None:
    space = case[2]
    evaluator = Evaluator(model_of(space), space, iterations=501)
    steps = 0

    def count(_: Searcher) -> None:
        nonlocal steps
        steps += 1

    searcher = build(*case)
    searcher.run(evaluator, count)
    result = evaluator.result()
    assert result.iterations == 501 or case[0] in EXHAUSTIBLE
    assert result.surrogate_queries == searcher.surrogate_queries
    assert steps > 0
    # What follows a predictor improves what that predicts.
    if "predictor" not in hyperparameters(case[0]):
        assert result.best_loss < result.curve_loss[0]


def test_infeasible_answers_are_survived(case: Case) -> None:
    searcher = build(*case)
    for _ in range(40):
        codes = searcher.ask(25)
        searcher.tell(np.full(len(codes), np.inf))
    assert case[2].feasible(searcher.ask(25)).all()


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_losses_are_survived(data: st.DataObject) -> None:
    name, preset, space = data.draw(st.sampled_from(CASES))
    searcher = build(name, preset, SPACES[space]())
    for _ in range(12):
        codes = searcher.ask(data.draw(st.integers(1, 60)))
        losses = data.draw(
            st.lists(
                st.one_of(st.floats(0, 1e30), st.just(float("inf"))),
                min_size=len(codes),
                max_size=len(codes),
            )
        )
        searcher.tell(np.array(losses, dtype=np.float64))


def test_asked_codes_belong_to_the_caller(case: Case) -> None:
    touched, untouched = build(*case), build(*case)
    for _ in range(6):
        codes, expected = touched.ask(20), untouched.ask(20)
        np.testing.assert_array_equal(codes, expected)
        losses = true_losses(case[2], expected)
        codes[:] = -1
        touched.tell(losses)
        losses_again = true_losses(case[2], expected)
        untouched.tell(losses_again)
        losses[:] = 0.0


def test_nan_is_refused(case: Case) -> None:
    searcher = build(*case)
    losses = np.ones(len(searcher.ask(9)))
    losses[-1] = np.nan
    with pytest.raises(ContractError, match=f"row {len(losses) - 1} is nan"):
        searcher.tell(losses)
    searcher.tell(np.ones_like(losses))


def test_wrong_shapes_are_refused(case: Case) -> None:
    searcher = build(*case)
    rows = len(searcher.ask(9))
    for wrong in (np.ones(rows + 1), np.ones((rows, 1)), np.float64(1.0)):
        with pytest.raises(ContractError, match="Expected losses of shape"):
            searcher.tell(wrong)
    searcher.tell(np.ones(rows))


def test_calls_out_of_order_are_refused(case: Case) -> None:
    searcher = build(*case)
    with pytest.raises(ContractError, match="without calling ask"):
        searcher.tell(np.ones(1))
    rows = len(searcher.ask(9))
    with pytest.raises(ContractError, match="called twice"):
        searcher.ask(9)
    searcher.tell(np.ones(rows))
    with pytest.raises(ContractError, match="without calling ask"):
        searcher.tell(np.ones(rows))
    with pytest.raises(ContractError, match="n >= 1"):
        searcher.ask(0)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_hyperparameters_are_refused(name: str) -> None:
    known = ", ".join(sorted(hyperparameters(name))) or "none"
    with pytest.raises(ConfigError, match=f"temprature of searcher {name}; known: {known}"):
        make(name, SPACES["nest"](), seed=0, temprature=1.0)
    with pytest.raises(ConfigError, match="Unknown preset 'fast'"):
        make(name, SPACES["nest"](), seed=0, preset="fast")


def test_unknown_searchers_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"'anealing'; known: {', '.join(NAMES)}"):
        make("anealing", ToySpace(), seed=0)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_seeds_must_be_non_negative_integers(seed: Any) -> None:
    with pytest.raises(ConfigError, match="seed"):
        make("random", ToySpace(), seed=seed)


_DIGEST = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from test_searchers_contract import NAMES, SPACES, SPECIALISED, build, flat, play
for name in NAMES:
    space = SPECIALISED.get(name, ("nest",))[0]
    codes = flat(play(build(name, None, SPACES[space]()), 12))
    print(name, hashlib.sha256(np.ascontiguousarray(codes).tobytes()).hexdigest())
"""


def test_another_process_agrees() -> None:
    """Whatever the hash seed is, the same seed proposes the same mappings."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _DIGEST, str(Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) == len(NAMES)
