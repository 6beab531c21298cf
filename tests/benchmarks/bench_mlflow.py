"""How long MLflow takes for a benchmark of many searches.

Makes up the results of a benchmark (searchers x workloads x seeds), and logs them into a folder
that is thrown away, or into `--folder`.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from orchestrator.benchmark.mlflow_log import log_results
from orchestrator.comparison.results import Bounds, Results, Run
from orchestrator.comparison.results_files import save
from orchestrator.runs.mlflow_client import default_uri

ITERATIONS = 5000
PROVENANCE = {
    "model": "loopnest",
    "model_version": "1",
    "mapspace": "0.1.0",
    "python": "3.11",
    "ray": "2",
    "processors": 2,
    "finished": "today",
}


def made_up(searchers: int, workloads: int, seeds: int, points: int = 30) -> Results:
    """Results whose curves fall as those of real searches do, of `points` improvements each."""
    rng = np.random.default_rng(0)
    labels = [f"method-{i:02d}" for i in range(searchers)]
    names = [f"layer-{i:03d}" for i in range(workloads)]
    optima = {name: 1e12 * math.exp(rng.normal()) for name in names}
    runs = []
    for label in labels:
        for name in names:
            for seed in range(seeds):
                steps = np.unique(np.geomspace(1, ITERATIONS, points).astype(np.int64))
                above = np.sort(rng.lognormal(sigma=2, size=len(steps)))[::-1]
                loss = optima[name] * (1 + above)
                runs.append(
                    Run(
                        searcher=label,
                        workload=name,
                        seed=seed,
                        best_loss=float(loss[-1]),
                        best_code=(1, 2, 3),
                        iterations=ITERATIONS,
                        true_queries=ITERATIONS,
                        surrogate_queries=0,
                        seconds=1.0,
                        evaluation=steps,
                        time=steps / ITERATIONS,
                        loss=loss,
                        counted=steps,
                    )
                )
    experiment = {
        "name": "made-up",
        "description": "Numbers made up to measure MLflow.",
        "objective": "edp",
        "accelerator": "mm256",
        "host": "trials",
        "seeds": list(range(seeds)),
        "iterations": ITERATIONS,
        "seconds": None,
        "query_latency": 0.0,
        "searchers": [
            {"name": label, "label": label, "preset": None, "parameters": {}} for label in labels
        ],
    }
    bounds = {name: Bounds(optimum / 5, optimum / 2, optimum) for name, optimum in optima.items()}
    return Results(experiment, bounds, tuple(runs), PROVENANCE)


def main() -> None:
    """Logs, and says how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searchers", type=int, default=20)
    parser.add_argument("--workloads", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="Kept, and logged to once.")
    parser.add_argument("--tracking-uri", help="A server; else a file in the folder.")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        results = made_up(options.searchers, options.workloads, options.seeds)
        save(results, folder)
        profile = cProfile.Profile()
        started, processor = time.perf_counter(), time.process_time()
        if options.profile:
            profile.enable()
        log_results(results, folder, options.tracking_uri or default_uri(folder))
        profile.disable()
        seconds = time.perf_counter() - started
        pairs = options.searchers * options.workloads
        print(
            f"{len(results.runs):,} searches, {pairs:,} pairs: {seconds:.1f} s, "
            f"{time.process_time() - processor:.1f} of this process"
        )
        if options.tracking_uri is None:
            print(f"{(folder / 'mlflow.db').stat().st_size / 1e6:.0f} MB")
        if options.profile:
            pstats.Stats(profile, stream=sys.stdout).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
