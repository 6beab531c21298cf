"""Islands on workers: the same search for any number of them, in any order of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from commands import answer, call

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ContractError, MapspaceError
from orchestrator.search import islands as on_workers
from orchestrator.search.islands import Leg, run_leg, run_on, run_on_ray
from searchers import Evaluator, make
from searchers.islands import Islands

SPACE = MapSpace(workload("gemm:M=24,N=20,K=16"), accelerator("mm256"))
LARGER = MapSpace(workload("resnet-conv4"), accelerator("mm256"))


def made(of: str, space: MapSpace = SPACE) -> Islands:
    found = make("islands", space, seed=3, of=of, islands=3, every=150)
    assert isinstance(found, Islands)
    return found


def budget(**given: Any) -> Evaluator:
    space = given.pop("space", SPACE)
    return Evaluator(LoopNestModel(), space, **(given or {"iterations": 1000}))


def backwards(legs: list[Leg]) -> Iterable[tuple[Leg, Mapping[str, Any] | None]]:
    """The last leg comes first, and what the worker knew of other legs does not matter."""
    on_workers._spaces.clear()
    for leg in reversed(legs):
        yield leg, run_leg(leg)


def outcome(evaluator: Evaluator) -> dict[str, Any]:
    state = evaluator.state_dict()
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in state.items()
        if "seconds" not in key
    }


@pytest.mark.parametrize("of", ["genetic", "annealing", "structured"])
def test_legs_that_come_back_in_reverse_change_nothing(of: str) -> None:
    here, there = budget(), budget()
    one, two = made(of), made(of)
    one.run(here)
    run_on(backwards, two, there)
    assert outcome(here) == outcome(there)
    assert outcome(here)["iterations_used"] == 1000
    for first, second in zip(one.islands, two.islands, strict=True):
        assert repr(first.state_dict()) == repr(second.state_dict())


def test_ties_are_broken_as_in_one_process() -> None:
    """Of mappings with one loss the one of less energy is the best, wherever it was found."""
    code = SPACE.sample(np.random.default_rng(0), 2, feasible=True)
    first, second = ({**budget().state_dict(), "best_loss": 1.0} for _ in range(2))
    columns = {"curve_iteration": [7], "curve_seconds": [0.5], "curve_loss": [1.0]}
    columns["curve_counted"] = [7]
    first |= columns | {"best_code": code[0], "best_tie": 2.0, "iterations_used": 10}
    second |= columns | {"best_code": code[1], "best_tie": 1.0, "iterations_used": 10}
    whole = budget(iterations=20)
    whole.add(first, 3.0)
    whole.add(second, 3.0)
    assert whole.best_tie == 1.0
    np.testing.assert_array_equal(whole.best_code, code[1])
    state = whole.state_dict()
    assert state["curve_iteration"].tolist() == [7]
    assert state["curve_seconds"].tolist() == [3.5]
    assert whole.iterations_used == 20
    with pytest.raises(ContractError, match="10 iterations were spent elsewhere, 0 were left"):
        whole.add(second, 3.0)


def test_a_budget_of_time_is_kept() -> None:
    evaluator = budget(seconds=0.2)
    run_on(backwards, made("genetic"), evaluator)
    assert evaluator.remaining == 0
    assert evaluator.result().seconds == 0.2
    assert (np.diff(evaluator.state_dict()["curve_seconds"]) >= 0).all()


def test_the_time_may_run_out_while_legs_are_made() -> None:
    """Whenever a look at the clock finds the budget spent, no leg begins with less than none."""
    for last in range(1, 8):
        times = iter([0.0] * last)
        evaluator = budget(seconds=0.2, clock=lambda times=times: next(times, 0.3))
        run_on(lambda legs: [(leg, run_leg(leg)) for leg in legs], made("genetic"), evaluator)
        assert evaluator.remaining == 0


def test_workers_that_keep_dying_are_one_line() -> None:
    with pytest.raises(MapspaceError, match="kept dying on island 0"):
        run_on(lambda legs: [(leg, None) for leg in legs], made("genetic"), budget())


def test_any_number_of_workers_finds_the_same(
    ray_runtime: None, capsys: pytest.CaptureFixture[str]
) -> None:
    alone, rounds = budget(space=LARGER, iterations=3000), []
    made("genetic", LARGER).run(alone)
    for workers in (1, 2, 4):
        evaluator = budget(space=LARGER, iterations=3000)
        run_on_ray(made("genetic", LARGER), evaluator, workers, lambda: False, rounds.append)
        assert outcome(evaluator) == outcome(alone)
    assert len(rounds) == 3 * 7  # 3,000 queries by three islands in legs of 150
    ways = [["--islands", "2"], ["--islands", "2", "--workers", "2"]]
    asked = ["gemm:M=24,N=20,K=16", "--searcher", "genetic", "--iterations", "900"]
    one, two = (answer(capsys, "search", *asked, *way) for way in ways)
    assert one["searcher"] == "islands"
    assert one["record"] == two["record"]
    assert one["iterations"] == two["iterations"] == 900


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--islands", "0"], "islands: expected at least 1, got 0"),
        (["--islands", "2", "--workers", "0"], "--workers: expected at least 1, got 0"),
        (["--islands", "2", "--gap", "1%"], "islands has no such parameter"),
        (["--islands", "2", "--searcher", "exact"], "neither proves or enumerates"),
    ],
)
def test_misuse_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("search", "gemm:M=24,N=20,K=16", *arguments) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_islands_are_for_one_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("search", "--network", "alexnet", "--islands", "2") == 2
    assert "--islands is for a single WORKLOAD" in capsys.readouterr().err
