"""A proof pauses anywhere and goes on from there: its steps are short whatever the problem is."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from small_problems import random_problem

from costmodel import MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.exact.progress import MOST_TOP
from costmodel.exact_any.choice import prove
from costmodel.exact_any.prover import AnyProver
from costmodel.tile_chains.lattice import divisors_of
from mapspace.errors import ConfigError, DataError

# One of few elements, so that much is left to the tiles; hops and bandwidths.
AWKWARD: dict[str, Any] = {
    "name": "awkward",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200.0, "read_bandwidth": 3.0},
        {
            "name": "L2",
            "energy_pj": 6.0,
            "capacity_words": 400,
            "fanout": 6,
            "mesh": [2, 3],
            "hop_energy_pj": 2.0,
        },
        {"name": "L1", "energy_pj": 1.0, "capacity_words": 24},
    ],
}


def awkward() -> MapSpace:
    return MapSpace(workload("cnn:N=2,K=6,C=4,P=6,Q=6,R=3,S=3,stride=1"), accelerator(AWKWARD))


def taken(prover: AnyProver) -> list[int]:
    """The bounds known after every part of a proof's work."""
    found = []
    while not prover.finished:
        prover.step(parts=1)
        found.append(prover.bounds_computed)
    return found


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of one part of the work each: every place at which a search can pause is paused at."""
    monkeypatch.setattr("costmodel.exact_any.prover.STEP_SECONDS", 3e-5)


@pytest.mark.parametrize("seed", [2, 5, 11, 17, 20, 23, 24, 31, 37, 46])
def test_pauses_change_no_answer(seed: int) -> None:
    """Random problems with all rules: in the shortest steps the same optimum, and true bounds."""
    space, _, objective = random_problem(np.random.default_rng(seed), 30_000)
    whole, paused = (AnyProver(space, objective=objective, build=False) for _ in range(2))
    whole.run()
    assert whole.best_outcome is not None
    best = whole.value_of(whole.best_outcome)
    lower = 0
    while not paused.finished:
        paused.step(parts=1)
        certain = paused.value_of(paused.lower_outcome)
        assert lower <= certain <= best
        lower = certain
    assert paused.best_outcome == whole.best_outcome
    np.testing.assert_array_equal(paused.codes(), whole.codes())


@pytest.mark.parametrize("steps", [1, 7, 40, 41, 150])
def test_a_proof_that_was_saved_in_flight_continues_exactly(steps: int) -> None:
    space = awkward()
    undisturbed, stopped = (AnyProver(space, build=False) for _ in range(2))
    for prover in (undisturbed, stopped):
        for _ in range(steps):
            if not prover.finished:
                prover.step(parts=1)
    state = json.loads(json.dumps(stopped.state_dict(), default=lambda array: array.tolist()))
    if not stopped.finished:
        stopped.step(parts=1)  # must not reach into the state
    resumed = AnyProver(space, build=False)
    resumed.load_state_dict(state)
    assert resumed.best_outcome == undisturbed.best_outcome
    taken(resumed)
    taken(undisturbed)
    np.testing.assert_array_equal(resumed.codes(), undisturbed.codes())


def test_a_mapping_offered_in_flight_shortens_what_is_left() -> None:
    space = awkward()
    whole = AnyProver(space, objective="energy")
    whole.run()
    alone, helped = (AnyProver(space, objective="energy") for _ in range(2))
    for prover in (alone, helped):
        for _ in range(5):
            prover.step(parts=1)
    helped.offer(whole.codes())
    assert helped.best_outcome == whole.best_outcome
    assert taken(helped)[-1] < taken(alone)[-1]
    assert helped.best_outcome == alone.best_outcome


@pytest.mark.usefixtures("short")
def test_tables_are_built_by_steps_and_offers_do_not_wait() -> None:
    prover = AnyProver(awkward(), build=False)
    space = prover.space
    prover.offer(space.sample(np.random.default_rng(0), 64))
    assert prover.best_outcome is not None
    floor = prover.lower_outcome
    steps = 0
    while not prover.built:
        assert prover.codes().shape == (1, space.cardinality.size)
        prover.step()
        steps += 1
    assert steps > 1
    assert prover.value_of(prover.lower_outcome) >= prover.value_of(floor) > 0


def test_a_proof_without_time_proves_nothing() -> None:
    space = awkward()
    prover = AnyProver(space, build=False)
    prover.run(0.0)
    assert not prover.built
    assert prover.bounds_computed == 0
    with pytest.raises(DataError, match="needs more than 1e-09 s for its tables alone"):
        prove(space, seconds=1e-9)
    prover.run()
    assert prover.finished


def test_the_end_of_one_run_does_not_end_the_next() -> None:
    prover = AnyProver(awkward(), build=False)
    prover.run(1e-9)
    steps: list[int] = []
    prover.run(after_step=lambda which: steps.append(which.bounds_computed))
    assert prover.finished


def test_so_many_best_tilings_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"top must be 1 to {MOST_TOP}, got {MOST_TOP + 1}"):
        AnyProver(awkward(), top=MOST_TOP + 1)


@pytest.mark.parametrize("objective", ["edp", pytest.param("latency", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("short")
def test_many_best_tilings_survive_pauses(objective: Objective) -> None:
    space = awkward()
    whole, paused = (AnyProver(space, objective=objective, top=12) for _ in range(2))
    whole.run()
    taken(paused)
    assert whole.outcomes(whole.codes()) == paused.outcomes(paused.codes())


def test_divisors() -> None:
    for number in (1, 2, 12, 97, 360, 2**20, 997 * 991):
        small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
        assert divisors_of(number) == sorted({*small, *(number // d for d in small)})
