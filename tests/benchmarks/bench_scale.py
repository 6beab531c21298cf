"""What the driver of a benchmark costs where hundreds of workers search.

Scheduler, Tune's controller, states, results and files are the real ones; the workers are simulated
in virtual time, and write made-up results of about a second each. What making them up takes is not
counted. A line of JSON on standard output:

    python tests/benchmarks/bench_scale.py --searches 100000 --workers 512 --seeds-per-trial 100
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
os.environ["MAPSPACE_STORE"] = "off"

POINTS = 12


class StandIn:
    """Makes up what a trial would have found, from its searches alone.

    Attributes:
        processor_seconds: what making it up took.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processor_seconds = 0.0

    def __call__(self, config: Mapping[str, Any]) -> tuple[float, dict[str, Any]]:
        began = time.process_time()
        task = config["task"]
        seconds = self._write(task)
        self.processor_seconds += time.process_time() - began
        return seconds, {
            "done": True, "training_iteration": 1, "time_total_s": seconds, "best_loss": 1e15,
            "logs": [0.0] * 40, "share": 1.0, "trial_id": "x", "timestamp": 0,
        }  # fmt: skip

    def _write(self, task: Mapping[str, Any]) -> float:
        from orchestrator.benchmark.search_trial import save_searches

        finished = []
        for seed in task["seeds"]:
            key = f"{task['searcher']} {task['workload']} {seed}".encode()
            rng = np.random.default_rng(int.from_bytes(hashlib.sha256(key).digest()[:8]))
            evaluation = np.sort(rng.integers(1, 5000, POINTS))
            loss = np.sort(rng.uniform(1e15, 1e16, POINTS))[::-1].copy()
            finished.append(
                {
                    "failure": None,
                    "best_code": rng.integers(0, 100, 20).astype(np.int32),
                    "best_loss": float(loss[-1]),
                    "iterations": 5000,
                    "true_queries": 5000,
                    "surrogate_queries": 0,
                    "seconds": float(rng.uniform(0.5, 1.5)),
                    "curve_iteration": evaluation,
                    "curve_seconds": evaluation / 5000,
                    "curve_loss": loss,
                    "curve_counted": evaluation,
                }
            )
        save_searches(self.folder / task["file"], task, finished, None)
        return float(sum(run["seconds"] for run in finished))


def run_benchmark(
    searches: int, workers: int, seeds_per_trial: int, folder: Path, labels: int = 10
) -> dict[str, Any]:
    """Runs so many searches of simulated workers, and measures the driver."""
    from ray.tune.execution import tune_controller
    from simulated_actors import SimulatedActors

    from mapspace.strict_yaml import validate
    from orchestrator.benchmark import run as run_module
    from orchestrator.benchmark.config import Benchmark, prepare

    workloads = [f"gemm:M={64 * n},N=64,K=64" for n in range(1, 11)]
    data = {
        "kind": "benchmark",
        "name": "scale",
        "workloads": workloads,
        "searchers": {f"random {n}": {"name": "random"} for n in range(labels)},
        "seeds": searches // (labels * len(workloads)),
        "seeds_per_trial": seeds_per_trial,
        "iterations": 5000,
        "proof_seconds": 0,
    }
    plan = prepare(validate(Benchmark, data, "scale"), "scale")
    stand_in = StandIn(folder / "searches")
    tune_controller.RayActorManager = SimulatedActors.of(workers, stand_in)
    run_module.save_best = lambda *_: None  # the made-up mappings are none
    before, wall = time.process_time(), time.monotonic()
    results = run_module.run_benchmark(plan, folder, progress=lambda line: None)
    spent = time.process_time() - before - stand_in.processor_seconds
    assert len(results.runs) == searches
    losses = np.array([run.best_loss for run in results.runs])
    return {
        "searches": searches,
        "workers": workers,
        "seeds_per_trial": seeds_per_trial,
        "driver_ms_per_search": 1000 * spent / searches,
        "wall_s": time.monotonic() - wall,
        "most_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "losses": hashlib.sha256(losses.tobytes()).hexdigest()[:16],
        "curves": hashlib.sha256((folder / "curves.parquet").read_bytes()).hexdigest()[:16],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--searches", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=512)
    parser.add_argument("--seeds-per-trial", type=int, default=100)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        numbers = (given.searches, given.workers, given.seeds_per_trial, Path(place))
        if given.profile:
            import cProfile
            import pstats

            with cProfile.Profile() as profile:
                line = run_benchmark(*numbers)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
        else:
            line = run_benchmark(*numbers)
    print(json.dumps(line))
