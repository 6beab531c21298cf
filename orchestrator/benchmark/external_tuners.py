"""Tuners of others that measure by themselves, run beside a benchmark's searches.

They search spaces of their own, so only the best time is compared: after as many measurements, or
after as many seconds. Every finished search is kept in the run folder and not made again.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from costmodel.tiling.measurement import Settings
from mapspace.bounded_reading import read_json
from mapspace.errors import DataError
from mapspace.storage import Place, make_folder, write_atomically
from orchestrator.benchmark.config import Plan
from orchestrator.comparison.results import Run
from orchestrator.runs.run_folder import Say

FOLDER = "peers"
# Under a budget of time alone: more than fit into any.
MOST_TRIALS = 100_000


def run_peers(plan: Plan, folder: Place, progress: Say) -> list[Run]:
    """Runs the peers of a benchmark with its workloads, seeds and budget, one after another.

    Args:
        plan: the benchmark, on tilings that are measured.
        folder: its run folder.
        progress: takes a line per search.

    Raises:
        ConfigError: TVM or what the peer needs is not installed.
        MapspaceError: the peer failed.
    """
    return [
        _run_one(plan, folder / FOLDER, peer, name, seed, progress)
        for peer in plan.benchmark.peers
        for name in plan.workloads
        for seed in plan.benchmark.seeds
    ]


def entries(plan: Plan) -> list[dict[str, Any]]:
    """The peers as an experiment lists its searchers."""
    return [
        {"name": peer, "label": peer, "preset": None, "parameters": {}, "seeds": None}
        for peer in plan.benchmark.peers
    ]


def _run_one(plan: Plan, folder: Place, peer: str, workload: str, seed: int, progress: Say) -> Run:
    path = folder / f"{peer}-{plan.workloads[workload].hash}-{seed}.json"
    if path.exists():
        trials = read_json(path, DataError)
    else:
        trials = _metaschedule(plan, workload, seed)
        make_folder(folder)
        write_atomically(path, json.dumps(trials).encode())
    # After so many trials; there may be none in time, or none that could be measured.
    best = np.minimum.accumulate([math.inf, *(trial["latency"] for trial in trials)])
    seconds = np.array([0.0, *(trial["seconds"] for trial in trials)])
    better = np.flatnonzero(best[1:] < best[:-1]) + 1
    kept = np.append(better, len(trials))  # where it improved, and the end
    found = f"best {best[-1]:.5g} s" if better.size else "found nothing"
    progress(f"  {peer} on {workload}, seed {seed}: {found} ({seconds[-1]:.0f} s)")
    return Run(
        searcher=peer,
        workload=workload,
        seed=seed,
        best_loss=float(best[-1]),
        best_code=(),
        iterations=len(trials),
        true_queries=len(trials),
        surrogate_queries=0,
        seconds=float(seconds[-1]),
        evaluation=kept,
        time=seconds[kept],
        loss=best[kept],
    )


def _metaschedule(plan: Plan, workload: str, seed: int) -> list[dict[str, Any]]:
    from orchestrator.benchmark.metaschedule import tune

    benchmark, sizes = plan.benchmark, plan.workloads[workload].dimensions
    options = {key: value for key, value in benchmark.measurement.items() if key != "statistic"}
    trials = []
    for trial in tune(
        (sizes["M"], sizes["K"], sizes["N"]),
        trials=benchmark.iterations_in(plan.space(workload)) or MOST_TRIALS,
        seed=seed,
        settings=Settings(**options),
    ):
        if benchmark.seconds is not None and trial.seconds > benchmark.seconds:
            break
        trials.append(asdict(trial))
    return trials
