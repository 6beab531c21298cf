"""Trials are given out longest first, so that no processor waits long for the last one."""

from __future__ import annotations

import heapq
from typing import Any

import pytest

from mapspace.strict_yaml import validate
from orchestrator.benchmark.config import Benchmark, Plan, prepare
from orchestrator.benchmark.stored_runs import searches_of
from orchestrator.benchmark.task_list import TaskList
from orchestrator.benchmark.tune_runner import _tasks

# Seconds of one search.
TAKES = {"random": 0.1, "annealing": 10.0, "genetic": 5.0}


def tasks(workloads: int, seeds: int = 1) -> list[dict[str, Any]]:
    return [
        {"searcher": name, "workload": f"w{place}", "seeds": [*range(seeds)]}
        for place in range(workloads)
        for name in TAKES
    ]


def simulated(listed: list[dict[str, Any]], processors: int) -> tuple[float, list[str]]:
    """When the last of processors has ended, and the methods in the order of their begins."""
    given, order = TaskList(listed), []
    running: list[tuple[float, int, str, float]] = []
    now, number = 0.0, 0
    while True:
        while len(running) < processors:
            found = given.suggest(str(number))
            if not isinstance(found, dict):
                break
            task = found["task"]
            order.append(task["searcher"])
            took = TAKES[task["searcher"]] * len(task["seeds"])
            heapq.heappush(running, (now + took, number, str(number), took))
            number += 1
        if not running:
            return now, order
        now, _, trial, took = heapq.heappop(running)
        given.on_trial_complete(trial, {"time_total_s": took})


def test_every_method_is_tried_then_the_longest_come_first() -> None:
    listed = tasks(8)
    ended, order = simulated(listed, 2)
    assert len(order) == len(listed)
    assert set(order[:3]) == set(TAKES)
    assert order[-6:] == ["random"] * 6
    work = sum(TAKES[task["searcher"]] for task in listed)
    assert ended < 1.05 * work / 2


def test_what_failed_says_nothing_of_how_long_it_takes() -> None:
    given = TaskList(tasks(2))
    first = given.suggest("a")
    assert isinstance(first, dict)
    given.on_trial_complete("a", None, error=True)
    given.on_trial_complete("unknown", {"time_total_s": 1.0})
    rest = [given.suggest(str(n)) for n in range(6)]
    assert rest.pop() == "FINISHED"
    assert len({(one["task"]["searcher"], one["task"]["workload"]) for one in rest}) == 5


def plan_of(**changes: Any) -> Plan:
    data = {
        "kind": "benchmark",
        "name": "parts",
        "workloads": ["gemm:M=4,N=4,K=4", "gemm:M=8,N=4,K=4"],
        "searchers": {"random": {}, "genetic": {"seeds": 10}},
        "iterations": 10,
    }
    return prepare(validate(Benchmark, {**data, **changes}, "parts"), "parts")


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({"seeds": 39}, [39, 10, 39, 10]),
        ({"seeds": 50}, [20, 20, 10, 10, 20, 20, 10, 10]),
        ({"seeds": 100}, [25, 25, 25, 25, 10, 25, 25, 25, 25, 10]),
        ({"seeds": 100, "seeds_per_trial": 60}, [60, 40, 10, 60, 40, 10]),
    ],
)
def test_many_seeds_are_parts_and_each_has_a_file_of_its_own(
    changes: dict[str, Any], sizes: list[int]
) -> None:
    plan = plan_of(**changes)
    searches = [*searches_of(plan)]
    found = _tasks(plan, searches)
    assert [len(task["seeds"]) for task in found] == sizes
    assert len({task["file"] for task in found}) == len(found)
    made = [(task["searcher"], task["workload"], seed) for task in found for seed in task["seeds"]]
    assert made == searches
