"""How busy 256 simulated workers are, and what asynchronous searches pay for it in queries.

The scheduler's code is the real one; workers are simulated in virtual time, queries take log-normal
times (sigma 1). Lines of JSON on standard output, one per search:

    python tests/benchmarks/bench_pool.py --seeds 20 > pool.jsonl
    python tests/benchmarks/bench_pool.py --table pool.jsonl
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from simulated_workers import SimulatedWorkers

import mapspace as ms
from orchestrator.pool.event_log import EventLog
from orchestrator.pool.scheduler import PoolSearch, run
from searchers import Evaluator

WORKERS = 256
WITHIN = 1.01
# In blocks a batch is as large as there are workers, with the hyperparameters that say so.
BLOCKS: dict[str, dict[str, Any]] = {
    "annealing": {"chains": WORKERS},
    "cma-es": {"population": WORKERS},
    "genetic": {"population": WORKERS, "offspring": WORKERS},
    "model-guided": {"batch": WORKERS, "initial": WORKERS},
}
# A pool of as many workers needs no batch of that size: fewer chains, fits more often.
POOL: dict[str, dict[str, Any]] = {
    "annealing": {"chains": 64},
    "cma-es": {},
    "genetic": {"population": WORKERS},
    "model-guided": {"batch": 32, "initial": WORKERS},
}
ALONE: dict[str, dict[str, Any]] = {name: {} for name in BLOCKS}
COLUMNS = (
    *("problem", "searcher", "way", "reached", "answers to 1 %", "queries spent"),
    *("virtual s", "busy", "driver ms per query"),
)
WAYS = {
    "blocks": (BLOCKS, WORKERS, False),
    "pool": (POOL, WORKERS, None),
    "alone": (ALONE, 1, False),
}


class ReachedError(Exception):
    """The search is as near to the optimum as was asked."""


def one(
    name: str, problem: str, machine: str, seed: int, way: str, most: int, **extra: Any
) -> dict[str, Any]:
    """One search until it is within 1 %, or has asked `most` queries."""
    hyperparameters, workers, asynchronous = WAYS[way]
    space, model = ms.MapSpace(ms.workload(problem), ms.accelerator(machine)), ms.LoopNestModel()
    optimum = ms.search(problem, accelerator=machine, store=False)
    assert optimum.proven
    target = WITHIN * optimum.costs.edp
    searcher = ms.make(name, space, seed=seed, **{**hyperparameters[name], **extra})
    search = PoolSearch(
        searcher,
        lambda costs, clock: Evaluator(costs, space, iterations=most, clock=clock),
        EventLog(None),
        asynchronous=asynchronous,
    )
    simulated = SimulatedWorkers(model, space, workers, seed=10_000 + seed)
    best = np.inf

    def look() -> None:
        if search.evaluator.best_loss <= target:
            raise ReachedError

    simulated.on_wait = look
    started = time.process_time()
    with contextlib.suppress(ReachedError):
        run(search, simulated)
    curve = search.result()
    hit = np.flatnonzero(curve.curve_loss <= target)
    best = curve.best_loss
    until = simulated.last_given
    return {
        "searcher": name,
        "way": way,
        "problem": problem,
        "machine": machine,
        "seed": seed,
        "queries": int(curve.curve_iteration[hit[0]]) if hit.size else None,
        "spent": simulated.spent if hit.size else None,
        "given": len(simulated.given),
        "virtual_seconds": float(curve.curve_seconds[hit[0]]) if hit.size else None,
        "busy": simulated.busy(until) if until else None,
        "driver_seconds": time.process_time() - started,
        "above": best / optimum.costs.edp - 1,
        **extra,
    }


def table(file: str) -> None:
    """Medians by searcher and way."""
    rows = [json.loads(line) for line in Path(file).read_text().splitlines()]
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|")
    for problem in dict.fromkeys(row["problem"] for row in rows):
        for name in BLOCKS:
            for way in WAYS:
                some = [
                    row
                    for row in rows
                    if (row["searcher"], row["way"], row["problem"]) == (name, way, problem)
                ]
                if not some:
                    continue
                numbers = " | ".join(
                    f"{np.median([row[what] or np.inf for row in some]):,.0f}"
                    for what in ("queries", "spent", "virtual_seconds")
                )
                reached = sum(row["queries"] is not None for row in some)
                busy = np.median([row["busy"] or np.nan for row in some])
                cost = sum(row["driver_seconds"] for row in some) / sum(r["given"] for r in some)
                print(
                    f"| {problem} | {name} | {way} | {reached}/{len(some)} | "
                    f"{numbers} | {busy:.1%} | {1000 * cost:.2f} |"
                )


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--problem", default="gemm:M=64,N=64,K=64")
    parser.add_argument("--machine", default="mm256")
    parser.add_argument("--most", type=int, default=30_000)
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    parser.add_argument("--searchers", nargs="+", default=list(BLOCKS))
    parser.add_argument("--set", default="{}", help="further hyperparameters, JSON")
    parser.add_argument("--table", metavar="FILE")
    given = parser.parse_args()
    if given.table:
        table(given.table)
        return
    for seed in range(given.seeds):
        for name in given.searchers:
            for way in given.ways:
                row = one(
                    name,
                    given.problem,
                    given.machine,
                    seed,
                    way,
                    given.most,
                    **json.loads(given.set),
                )
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
