"""Searches of measured tilings: who finds the fastest product in so many measurements.

`python tests/benchmarks/bench_measured_tilings.py --seeds 6` needs TVM. A machine that others use
changes its speed by a tenth within minutes, so that the seconds which two runs saw say little of
their tilings. Here each run remembers which tiling was its best after so many measurements; all of
these are then timed again side by side, in rounds, in another order each. What counts is the median
over rounds of a tiling's time over the round's median.

Runs measure for themselves (nothing is kept from one to the next), are appended to a file, and are
not made again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from costmodel import TilingSpace, workload
from costmodel.space import Codes
from costmodel.tiling.measured_model import MeasuredCosts, MeasuredTiling
from searchers import Evaluator, make

Reals = npt.NDArray[np.float64]
Run = dict[str, Any]

COUNTS = (10, 25, 50, 100)
OURS: dict[str, Any] = {"objective": "latency"}
SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "multi-fidelity": ("multi-fidelity", OURS),
    "same proposals, random ranking": ("multi-fidelity", {**OURS, "shuffled": True}),
    "law and process": ("multi-fidelity", {**OURS, "correction": "law+process"}),
    "linear law": ("multi-fidelity", {**OURS, "correction": "linear"}),
    "analytic top-k": ("multi-fidelity", {**OURS, "correction": "none", "random_share": 0.0}),
    "na2c": ("na2c", {}),
    "xgboost": ("xgboost", {}),
    "random": ("random", {}),
}


class Recorded:
    """A measured model that remembers what it was asked and what it answered."""

    def __init__(self, model: MeasuredTiling) -> None:
        self._model = model
        self.name, self.version = model.name, model.version
        self.codes: list[list[int]] = []
        self.seconds: list[float] = []

    def evaluate(self, space: TilingSpace, codes: Codes, *, detail: bool = False) -> MeasuredCosts:
        """As the model's, noted down."""
        costs = self._model.evaluate(space, codes, detail=detail)
        self.codes += codes.tolist()
        self.seconds += costs.seconds.tolist()
        return costs


def one_run(space: TilingSpace, search: str, seed: int) -> Run:
    """The best tilings after so many measurements, as the search saw them."""
    name, parameters = SEARCHES[search]
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        model = MeasuredTiling(cache=Path(folder) / "measurements.sqlite")
        recorded = Recorded(model)
        evaluator = Evaluator(recorded, space, objective="latency", iterations=COUNTS[-1])
        make(name, space, seed=seed, **parameters).run(evaluator)
        model.close()
    seconds = np.array(recorded.seconds)
    best = [int(seconds[:count].argmin()) for count in COUNTS]
    return {
        "search": search,
        "seed": seed,
        "codes": [recorded.codes[row] for row in best],
        "seen_ms": [round(1e3 * float(seconds[row]), 4) for row in best],
        "wall_s": round(time.perf_counter() - started, 1),
        "all_codes": recorded.codes,
        "all_seconds": recorded.seconds,
    }


def side_by_side(space: TilingSpace, codes: Codes, seconds: float) -> tuple[Reals, int]:
    """Times of tilings `[M]` over that of the median one, and how many rounds they rest on."""
    import tvm

    from costmodel.tiling.build_and_time import target
    from costmodel.tiling.tvm_schedule import schedule

    sizes = [space.workload.dimensions[name] for name in "MKN"]
    rng = np.random.default_rng(0)
    shapes = (sizes[:2], sizes[1:], sizes[::2])
    arguments = [
        tvm.runtime.tensor(rng.integers(-1, 2, shape).astype(np.float32), tvm.cpu(0))
        for shape in shapes
    ]
    mains = [
        tvm.compile(schedule(row, space.splits, "llvm"), target("llvm")).jit()["main"]
        for row in space.factors(codes).tolist()
    ]
    rounds: list[Reals] = []
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends or len(rounds) < 3:
        times = np.empty(len(mains))
        for place in rng.permutation(len(mains)):
            # The first brings the operands into the cache.
            mains[place](*arguments)
            started = time.process_time()
            mains[place](*arguments)
            mains[place](*arguments)
            times[place] = time.process_time() - started
        rounds.append(times / np.median(times))
    found: Reals = np.median(rounds, axis=0)
    return found, len(rounds)


def show(console: Console, space: TilingSpace, runs: list[Run], seconds: float) -> None:
    """The table: geometric means above the best of all runs, and each run's end."""
    codes = np.unique(np.array([code for run in runs for code in run["codes"]], np.int32), axis=0)
    times, rounds = side_by_side(space, codes, seconds)
    of = {tuple(code): time for code, time in zip(codes.tolist(), times.tolist(), strict=True)}
    least = min(of.values())
    console.print(f"{len(codes)} tilings side by side in {rounds} rounds; the fastest:")
    for row in np.argsort(times)[:5]:
        console.print(f"  {times[row] / least:.3f} {space.factors(codes[row : row + 1])[0]}")
    shown = Table("measured", *map(str, COUNTS), "each seed's end", "s per run")
    for search in SEARCHES:
        own = sorted((run for run in runs if run["search"] == search), key=lambda run: run["seed"])
        if not own:
            continue
        logs = np.log([[of[tuple(code)] / least for code in run["codes"]] for run in own])
        above = 100 * np.expm1(logs.mean(axis=0))
        ends = " ".join(f"{100 * np.expm1(end):.1f}" for end in logs[:, -1])
        wall = np.mean([run["wall_s"] for run in own])
        shown.add_row(search, *(f"{value:.1f}" for value in above), ends, f"{wall:.0f}")
    console.print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--size", type=int, default=512, help="of the product's sides")
    parser.add_argument("--searches", nargs="*", default=list(SEARCHES), help="by name")
    parser.add_argument("--seconds", type=float, default=120.0, help="of measuring side by side")
    parser.add_argument("--output", type=Path, default=Path("bench-measured-tilings.jsonl"))
    arguments = parser.parse_args()
    size, output = arguments.size, arguments.output
    space = TilingSpace(workload(f"gemm:M={size},N={size},K={size}"))
    runs = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    done = {(run["search"], run["seed"]) for run in runs}
    # One seed of each after the other, so that a slow quarter of an hour strikes all of them.
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        for search in arguments.searches:
            if (search, seed) in done:
                continue
            runs.append(one_run(space, search, seed))
            with output.open("a") as file:
                file.write(json.dumps(runs[-1]) + "\n")
            print(search, seed, runs[-1]["seen_ms"], flush=True)
    show(Console(width=160), space, runs, arguments.seconds)


if __name__ == "__main__":
    main()
