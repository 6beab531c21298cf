"""The scheduler with simulated workers: budgets, busy workers, a log that replays bit for bit."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated_workers import SimulatedWorkers

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import DataError
from orchestrator.pool.event_log import EventLog, read_events
from orchestrator.pool.scheduler import PoolSearch, run
from searchers import Evaluator, make

SPACE = MapSpace(workload("gemm:M=32,N=32,K=32"), accelerator("mm256"))
MODEL = LoopNestModel()
SIZES: dict[str, dict[str, Any]] = {"genetic": {"population": 20, "offspring": 20}}


def search_of(name: str, log: EventLog, *, seed: int = 0, **options: Any) -> PoolSearch:
    budget = {"iterations": options.pop("iterations", 300), "seconds": options.pop("seconds", None)}
    return PoolSearch(
        make(name, SPACE, seed=seed, **SIZES.get(name, {})),
        lambda model, clock: Evaluator(model, SPACE, clock=clock, **budget),
        log,
        **options,
    )


def workers(count: int = 16, **options: Any) -> SimulatedWorkers:
    return SimulatedWorkers(MODEL, SPACE, count, **options)


def test_a_case_counted_by_hand() -> None:
    """Two workers, queries of 1 s: at 1 s two are back, at 2 s two more, at 3 s the fifth."""
    search = search_of("genetic", EventLog(None), iterations=5)
    pool = workers(2, sigma=0.0)
    run(search, pool)
    assert [start for start, _ in pool.given] == [0, 0, 1, 1, 2]
    result = search.result()
    assert (result.iterations, result.true_queries, result.seconds) == (5, 5, 3.0)


@pytest.mark.parametrize(
    "name",
    ["annealing", "cma-es", "genetic", pytest.param("model-guided", marks=pytest.mark.slow)],
)
def test_nobody_waits_and_the_budget_holds(name: str) -> None:
    search, pool = search_of(name, EventLog(None)), workers()
    run(search, pool)
    assert search.result().iterations == len(pool.given) == 300
    assert pool.busy(pool.last_given) > 0.99
    blocks, waiting = search_of(name, EventLog(None), asynchronous=False), workers()
    run(blocks, waiting)
    assert waiting.busy(waiting.last_given) < 0.7
    assert blocks.result().iterations == 300


def test_batches_give_what_one_process_gives() -> None:
    """A searcher that waits for its batch finds the same in any order of answers."""
    found = []
    for seed in (1, 2):
        search = search_of("random", EventLog(None))
        run(search, workers(seed=seed))
        found.append(search.result().best_loss)
    alone = Evaluator(MODEL, SPACE, iterations=300)
    make("random", SPACE, seed=0).run(alone)
    assert found == [alone.best_loss] * 2


def test_a_budget_of_time_ends_the_search() -> None:
    search, pool = search_of("genetic", EventLog(None), iterations=None, seconds=5.0), workers(4)
    run(search, pool)
    result = search.result()
    assert result.seconds == 5.0
    assert pool.seconds == 5.0, "what is out is not waited for"
    assert result.iterations == sum(end <= 5.0 for _, end in pool.given)


def logged(path: Path, name: str, events: int | None = None) -> PoolSearch:
    file = io.StringIO()
    search = search_of(name, EventLog(file))
    search._log.head({"searcher": name})
    run(search, workers())
    lines = file.getvalue().splitlines(keepends=True)
    path.write_text("".join(lines[: None if events is None else events + 1]))
    return search


def same(one: Any, two: Any) -> bool:
    return all(
        np.array_equal(getattr(one, field), getattr(two, field), equal_nan=True)
        for field in one.__dataclass_fields__
    )


@pytest.mark.parametrize(
    "name",
    [
        *("annealing", "cma-es", "genetic", "random"),
        pytest.param("model-guided", marks=pytest.mark.slow),
    ],
)
def test_the_log_replays_bit_for_bit(name: str, tmp_path: Path) -> None:
    """The result with its curve and clock, and the searcher's own state with its generator."""
    path = tmp_path / "events.jsonl"
    first = logged(path, name)
    head, events, size = read_events(path)
    assert (head, size) == ({"searcher": name}, path.stat().st_size)
    again = search_of(name, EventLog(None))
    again.replay(events, "log")
    assert same(first.result(), again.result())
    states = [search.queries.searcher.state_dict()["generator"] for search in (first, again)]
    assert states[0] == states[1]


def test_a_search_goes_on_from_its_log(tmp_path: Path) -> None:
    """With what was out at the end of the log, and no query twice."""
    path = tmp_path / "events.jsonl"
    logged(path, "genetic", events=200)
    with path.open("a") as file:
        file.write('{"seconds": 3, "tol')  # cut off
    _, events, size = read_events(path)
    assert size < path.stat().st_size
    search, pool = search_of("genetic", EventLog(None)), workers()
    search.replay(events, "log")
    out, told = search.queries.open, search.result().iterations
    assert out > 0
    run(search, pool)
    assert search.result().iterations == 300
    assert len(pool.given) == 300 - told


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: ["{}\n", *lines[1:]], "log of events"),
        (lambda lines: [lines[0], "nonsense\n"], "line 2"),
        (lambda lines: [lines[0], '{"seconds": 0, "what": 1}\n'], "line 2"),
        (lambda lines: [lines[0], *lines[2:]], "tells what was not asked|other mappings"),
        (lambda lines: [lines[0], lines[1].replace("[0,", "[7,"), *lines[2:]], "other mappings"),
    ],
)
def test_a_damaged_log_is_named(change: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    logged(path, "genetic", events=20)
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))

    def replay() -> None:
        _, events, _ = read_events(path)
        search_of("genetic", EventLog(None)).replay(events, str(path))

    with pytest.raises(DataError, match=words) as raised:
        replay()
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_infinite_costs_pass_through_the_log(tmp_path: Path) -> None:
    file = io.StringIO()
    search = search_of("genetic", EventLog(file))
    (query,) = search.ask(1, 0.0)
    from orchestrator.pool.event_log import Outcome

    search.tell([Outcome(query.ticket, math.inf, math.inf, -1, 0, "it broke")], 1.5)
    last = json.loads(file.getvalue().splitlines()[-1])
    assert last["told"][0]["energy_pj"] is None
    assert (search.failures, search.last_failure) == (1, "it broke")
    assert search.result().best_loss == math.inf
