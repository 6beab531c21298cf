"""The block host without Ray: searching in blocks is the same search, stopped anywhere or not."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.tune.search import Searcher as RaySearcher

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ContractError
from mapspace.testing.toy_space import ToyModel, ToyPredictor, ToySpace
from orchestrator.benchmark.block_trial import COST_FIELDS, BlockSearch, TuneSearch
from orchestrator.pool.delivered import DeliveredCosts
from orchestrator.runs.checkpoints import decode_array, encode_array, load_state, save_state
from searchers import SEARCHERS, Evaluator, make, searcher_class
from searchers.evaluator import TrialResult

# Those that RLlib hosts would start a Ray.
pytestmark = pytest.mark.usefixtures("ray_runtime")

# Not a whole number of blocks, more than the nine that a test holds out.
ITERATIONS = 170
NAMES = sorted(SEARCHERS)
FEW = ("annealing", "genetic", "random")
# What only costs time is turned down; whole batches make blocks of more than one mapping.
CHEAPER: dict[str, dict[str, Any]] = {
    "optuna": {"batch": 20, "startup": 130, "candidates": 2},
    # Updates after its first episodes, smaller batches of them.
    "ddpg": {"warmup_episodes": 8},
    # Six batches: to choose among laws anew takes the longest of all.
    "multi-fidelity": {"batch": 30, "chains": 8, "steps": 3, "memory": 40},
}


def world(name: str) -> tuple[Any, Any]:
    """A space and a model for a searcher: some know loop nests only."""
    if searcher_class(name).SPACES:
        return MapSpace(workload("gemm-512"), accelerator("mm256")), LoopNestModel()
    return ToySpace(), ToyModel()


def build(name: str, seed: int, model: Any) -> tuple[Any, Evaluator]:
    space, _ = world(name)
    extra = dict(CHEAPER.get(name, {}))
    if "predictor" in searcher_class(name).USES:
        extra["predictor"] = ToyPredictor(len(space.feature_names))
    return (
        make(name, space, seed=seed, **extra),
        Evaluator(model, space, iterations=ITERATIONS, clock=lambda: 0.0),
    )


def block_search(name: str, seed: int) -> BlockSearch:
    searcher, evaluator = build(name, seed, DeliveredCosts("any", "1"))
    return BlockSearch(searcher, evaluator, block_size=16)


@cache
def undisturbed(name: str, seed: int) -> TrialResult:
    searcher, evaluator = build(name, seed, world(name)[1])
    searcher.run(evaluator)
    return evaluator.result()


def answer(name: str, config: dict[str, Any]) -> dict[str, Any]:
    space, model = world(name)
    costs = model.evaluate(space, decode_array(config["codes"]))
    return {field: encode_array(getattr(costs, field)) for field in COST_FIELDS}


def drive(
    name: str, search: TuneSearch, order: np.random.Generator, trials: int | None = None
) -> None:
    """What Tune does: suggests, holds several trials out, completes them in any order."""
    out: dict[str, dict[str, Any]] = {}
    number = 0
    while trials is None or number < trials:
        number += 1
        trial = f"{id(search)}-{number}"
        config = search.suggest(trial)
        if config == RaySearcher.FINISHED:
            assert not out
            return
        if isinstance(config, dict):
            out[trial] = config
        if out and (config is None or order.random() < 0.5):
            chosen = sorted(out)[int(order.integers(len(out)))]
            search.on_trial_complete(chosen, answer(name, out.pop(chosen)))
    # Blocks that are still out are lost with the driver.


def same(a: TrialResult, b: TrialResult) -> bool:
    return (
        a.best_loss == b.best_loss
        and np.array_equal(a.best_code, b.best_code)  # type: ignore[arg-type]
        and (a.iterations, a.true_queries, a.surrogate_queries)
        == (b.iterations, b.true_queries, b.surrogate_queries)
        and np.array_equal(a.curve_iteration, b.curve_iteration)
        and np.array_equal(a.curve_loss, b.curve_loss)
    )


@pytest.mark.parametrize("name", NAMES)
def test_blocks_change_nothing(name: str) -> None:
    search = TuneSearch([block_search(name, seed) for seed in (0, 1)])
    drive(name, search, np.random.default_rng(5))
    for seed, done in enumerate(search.searches):
        assert done.done
        assert same(done.evaluator.result(), undisturbed(name, seed))


def test_what_is_only_recorded_is_free_in_blocks_too() -> None:
    """The paper's accounting: visited mappings are scored outside the budget."""
    results = []
    for model in (ToyModel(), DeliveredCosts("any", "1")):
        space = ToySpace()
        searcher = make(
            "gradient", space, seed=0, preset="paper",
            predictor=ToyPredictor(len(space.feature_names)),
        )  # fmt: skip
        evaluator = Evaluator(model, space, iterations=ITERATIONS, clock=lambda: 0.0)
        if isinstance(model, ToyModel):
            searcher.run(evaluator)
        else:
            drive(
                "gradient",
                TuneSearch([BlockSearch(searcher, evaluator, block_size=16)]),
                np.random.default_rng(5),
            )
        results.append(evaluator.result())
    alone, blocks = results
    assert same(alone, blocks)
    assert blocks.iterations == blocks.surrogate_queries == ITERATIONS
    assert blocks.true_queries > 0


# At the first block and late for a few: where a searcher itself is stopped is its contract's.
@pytest.mark.parametrize(
    ("name", "trials"),
    [
        pytest.param(name, trials, marks=[pytest.mark.slow] * (trials != 4 and name not in FEW))
        for trials in (1, 4, 9)
        for name in NAMES
    ],
)
def test_a_killed_search_continues_exactly(name: str, trials: int, tmp_path: Path) -> None:
    first = TuneSearch([block_search(name, seed) for seed in (0, 1)])
    drive(name, first, np.random.default_rng(6), trials)
    path = tmp_path / "blocks.npz"
    save_state(path, first.state_dict())
    second = TuneSearch([block_search(name, seed) for seed in (0, 1)])
    second.load_state_dict(load_state(path))
    # Blocks that were out are handed out again.
    drive(name, second, np.random.default_rng(7))
    for seed, done in enumerate(second.searches):
        assert same(done.evaluator.result(), undisturbed(name, seed))


def test_a_failed_block_ends_the_run_and_is_handed_out_again() -> None:
    search = TuneSearch([block_search("random", 0)])
    lost = search.suggest("a")
    assert isinstance(lost, dict)
    search.on_trial_complete("a", error=True)
    assert search.failed is not None
    assert search.suggest("b") == RaySearcher.FINISHED
    again = TuneSearch([block_search("random", 0)])
    again.load_state_dict(search.state_dict())
    assert again.suggest("c") == lost


def test_states_are_kept_now_and_then() -> None:
    kept: list[dict[str, Any]] = []
    for seconds in (0.0, 3600.0):
        search = TuneSearch([block_search("random", 0)], keep=kept.append, seconds=seconds)
        drive("random", search, np.random.default_rng(5))
    # 170 mappings in blocks of 16, a state after each, and none within the hour.
    assert len(kept) == 11
    assert kept[-1]["searches"][0]["evaluator"]["iterations_used"] == ITERATIONS


def test_costs_are_delivered_once() -> None:
    model, space = DeliveredCosts("toy", "1"), ToySpace()
    codes = space.sample(np.random.default_rng(0), 3)
    costs = ToyModel().evaluate(space, codes)
    model.deliver(costs)
    with pytest.raises(ContractError, match="No costs of 2 mappings"):
        model.evaluate(space, codes[:2])
    with pytest.raises(ContractError, match="No costs of 3 mappings"):
        model.evaluate(space, codes)


def test_a_block_search_needs_delivered_costs() -> None:
    searcher, evaluator = build("random", 0, ToyModel())
    with pytest.raises(ContractError, match="DeliveredCosts"):
        BlockSearch(searcher, evaluator, 16)
