"""Small results of a benchmark, made up so that their statistics are known by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from orchestrator.comparison.results import Bounds, Results, Run

PROVENANCE = {
    "model": "loopnest",
    "model_version": "1",
    "mapspace": "0.1.0",
    "python": "3.11",
    "ray": "2",
    "processors": 2,
    "finished": "today",
}


def make_run(
    searcher: str, workload: str, seed: int, points: list[tuple[int, float, float]]
) -> Run:
    """A run from (evaluation, seconds, loss) points; the last one is the end."""
    evaluation, seconds, loss = zip(*points, strict=True)
    return Run(
        searcher=searcher,
        workload=workload,
        seed=seed,
        best_loss=loss[-1],
        best_code=(1, 2, 3) if math.isfinite(loss[-1]) else (),
        iterations=evaluation[-1],
        true_queries=evaluation[-1],
        surrogate_queries=0,
        seconds=seconds[-1],
        evaluation=np.array(evaluation, dtype=np.int64),
        time=np.array(seconds, dtype=np.float64),
        loss=np.array(loss, dtype=np.float64),
    )


def make_results(**experiment: Any) -> Results:
    """Three methods, two workloads, two seeds, 100 iterations each."""
    finals = {
        ("annealing", "left"): (40.0, 90.0),
        ("annealing", "right"): (400.0, 400.0),
        ("gradient (visited)", "left"): (20.0, 45.0),
        ("gradient (visited)", "right"): (100.0, 100.0),
        ("random", "left"): (60.0, 60.0),
        ("random", "right"): (600.0, 600.0),
    }
    runs = tuple(
        make_run(
            searcher,
            workload,
            seed,
            [(1, 0.01, 900.0), (10, 0.1, final * 2), (50, 0.5, final), (100, 1.0, final)],
        )
        for (searcher, workload), pair in finals.items()
        for seed, final in enumerate(pair)
    )
    return Results(
        experiment={
            "name": "made-up",
            "description": "Numbers made up for a test.",
            "objective": "edp",
            "accelerator": "mm256",
            "host": "trials",
            "seeds": [0, 1],
            "iterations": 100,
            "seconds": None,
            "query_latency": 0.0,
            "searchers": [
                {"name": "annealing", "label": "annealing", "preset": "paper", "parameters": {}},
                {
                    "name": "gradient",
                    "label": "gradient (visited)",
                    "preset": None,
                    "parameters": {"chains": 2},
                },
                {"name": "random", "label": "random", "preset": None, "parameters": {}},
            ],
            **experiment,
        },
        bounds={"left": Bounds(10.0, 15.0, 20.0), "right": Bounds(50.0, 80.0, None)},
        runs=runs,
        provenance=PROVENANCE,
    )


LINED_UP = ("annealing", "genetic", "random")


def lined_up(
    problems: int = 5, seeds: int = 6, factors: tuple[float, ...] = (1.0, 1.1, 1.2)
) -> Results:
    """Methods of which one is always ahead of the next; seeds differ a little, in pairs."""
    runs, bounds = [], {}
    for place in range(problems):
        name = f"problem-{place}"
        bounds[name] = Bounds(5.0, 8.0, 10.0)
        for method, factor in zip(LINED_UP, factors, strict=False):
            for seed in range(seeds):
                end = 10.0 * factor * (1 + 0.001 * seed) * (1 + 0.002 * place)
                runs.append(make_run(method, name, seed, [(1, 0.01, 99.0), (10, 0.1, end)]))
    made = make_results(
        workloads=list(bounds),
        searchers=[
            {"name": name, "label": name, "preset": None, "parameters": {}} for name in LINED_UP
        ],
        seeds=list(range(seeds)),
        iterations=10,
    )
    return replace(made, runs=tuple(runs), bounds=bounds)
