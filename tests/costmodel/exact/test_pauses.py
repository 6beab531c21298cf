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
from costmodel.exact.certificate import prove
from costmodel.exact.problem import divisors_of
from costmodel.exact.progress import MOST_TOP
from costmodel.exact.prover import Prover
from mapspace.errors import ConfigError, DataError

# Steps of one tile per lane: every place at which a search can pause is paused at.
ONE_TILE = 1

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


def finished(prover: Prover, bounds: int | None = None) -> int:
    """Finishes a proof; the number of steps."""
    steps = 0
    while not prover.finished:
        prover.step() if bounds is None else prover.step(bounds)
        steps += 1
    return steps


@pytest.mark.parametrize("seed", [2, 5, 11, 17, 20, 23, 24, 31, 37, 46])
def test_pauses_change_no_answer(seed: int) -> None:
    """Random problems with all rules: in steps of one tile the same optimum, and true bounds."""
    space, _, objective = random_problem(np.random.default_rng(seed), 30_000)
    whole = Prover(space, objective=objective, threads=1)
    finished(whole)
    paused = Prover(space, objective=objective, threads=2, build=False)
    assert whole.best_outcome is not None
    lower = 0
    while not paused.finished:
        paused.step(ONE_TILE)
        certain = paused.value_of(paused.lower_outcome)
        assert lower <= certain <= whole.value_of(whole.best_outcome)
        lower = certain
    assert paused.best_outcome == whole.best_outcome
    np.testing.assert_array_equal(paused.outcomes(paused.codes()), whole.outcomes(whole.codes()))


def test_a_step_is_short_however_much_a_unit_holds() -> None:
    """One thread and one look per lane and step: no step looks at more than some tiles."""
    space = awkward()
    prover = Prover(space, threads=1)
    before, most = prover.bounds_computed, 0
    for _ in range(400):
        if prover.finished:
            break
        prover.step(ONE_TILE)
        most = max(most, prover.bounds_computed - before)
        before = prover.bounds_computed
    # Per lane an element tile, a tile of the shared buffer with its orders, and a subtree.
    assert 0 < most < 100
    assert finished(Prover(space, threads=1)) < 400


@pytest.mark.parametrize("steps", [1, 7, 40, 41, 150])
def test_a_proof_that_was_saved_in_flight_continues_exactly(steps: int) -> None:
    space = awkward()
    undisturbed, stopped = (Prover(space, threads=1, build=False) for _ in range(2))
    for prover in (undisturbed, stopped):
        for _ in range(steps):
            prover.step(ONE_TILE)
    state = json.loads(json.dumps(stopped.state_dict(), default=lambda array: array.tolist()))
    stopped.step(ONE_TILE)  # must not reach into the state
    resumed = Prover(space, threads=1, build=False)
    resumed.load_state_dict(state)
    for _ in range(60):
        assert resumed.built == undisturbed.built
        assert resumed.lower_outcome == undisturbed.lower_outcome
        assert resumed.best_outcome == undisturbed.best_outcome
        undisturbed.step(ONE_TILE)
        resumed.step(ONE_TILE)
    finished(resumed)
    finished(undisturbed)
    assert resumed.counts == undisturbed.counts
    np.testing.assert_array_equal(resumed.codes(), undisturbed.codes())


def test_a_halted_step_ends_at_once_and_the_next_goes_on() -> None:
    space = awkward()
    whole, prover = Prover(space), Prover(space)
    finished(whole)
    prover.step(ONE_TILE)
    prover.halt()
    for _ in range(5):
        before = prover.bounds_computed
        prover.step()
        assert prover.bounds_computed - before < 100
        assert not prover.finished
    prover.go_on()
    finished(prover)
    assert prover.best_outcome == whole.best_outcome


def test_a_mapping_offered_in_flight_shortens_what_is_left() -> None:
    space = awkward()
    whole = Prover(space, threads=1)
    finished(whole)
    alone, helped = (Prover(space, threads=1) for _ in range(2))
    for prover in (alone, helped):
        for _ in range(20):
            prover.step(ONE_TILE)
    helped.offer(whole.codes())
    assert helped.best_outcome == whole.best_outcome
    finished(alone)
    finished(helped)
    assert helped.best_outcome == alone.best_outcome
    assert helped.bounds_computed < alone.bounds_computed


def test_tables_are_built_by_steps_and_offers_do_not_wait() -> None:
    # Many tiles: the tables take several steps.
    space = MapSpace(
        workload("cnn:N=16,K=360,C=360,P=60,Q=60,R=3,S=3,stride=1"), accelerator("mm256")
    )
    prover = Prover(space, build=False)
    prover.offer(space.sample(np.random.default_rng(0), 64))
    assert prover.best_outcome is not None
    assert prover.lower_outcome == (0, 0)
    steps = 0
    while not prover.built:
        assert prover.codes().shape == (1, space.cardinality.size)
        prover.step()
        steps += 1
    assert steps > 1
    assert prover.value_of(prover.lower_outcome) > 0


def test_a_proof_without_time_proves_nothing() -> None:
    space = awkward()
    prover = Prover(space, build=False)
    prover.run(0.0)
    assert not prover.built
    assert prover.bounds_computed == 0
    with pytest.raises(DataError, match="needs more than 1e-09 s for its tables alone"):
        prove(space, seconds=1e-9)
    prover.run()
    assert prover.finished


def test_the_end_of_one_run_does_not_end_the_next() -> None:
    prover = Prover(awkward(), threads=1)
    prover.run(1e-3)
    steps: list[int] = []
    prover.run(after_step=lambda which: steps.append(which.bounds_computed))
    assert prover.finished


def test_so_many_best_tilings_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"top must be 1 to {MOST_TOP}, got {MOST_TOP + 1}"):
        Prover(awkward(), top=MOST_TOP + 1)


@pytest.mark.parametrize("objective", ["edp", pytest.param("latency", marks=pytest.mark.slow)])
def test_many_best_tilings_survive_pauses(objective: Objective) -> None:
    space = awkward()
    whole = Prover(space, objective=objective, top=12)
    paused = Prover(space, objective=objective, top=12)
    finished(whole)
    finished(paused, 16)
    assert whole.outcomes(whole.codes()) == paused.outcomes(paused.codes())


def test_divisors() -> None:
    for number in (1, 2, 12, 97, 360, 2**20, 997 * 991):
        small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
        assert divisors_of(number) == sorted({*small, *(number // d for d in small)})
