"""The surrogate for every machine on held-out machines x layers: searches, and a reliability plot.

Per cent above the proven optimum after so many true queries, geometric means over the cases whose
optimum was proven within the limit, beside `structured`, `model-guided` and `multi-fidelity`, which
asks the exact model itself. Rows are kept in a file, so that a run that was stopped goes on.
`--plot` draws how many truths lie in intervals of every width.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from costmodel import LoopNestModel, MapSpace
from costmodel.exact_any.choice import make_prover
from searchers import Evaluator, make
from surrogate.machine_surrogate import load_network, shipped_for
from surrogate.machine_training import judge
from surrogate.machines import HELD_OUT, HELD_OUT_DEEPER, case

COUNTS = (1, 4, 12, 25, 50, 100)
LEARNED = {"surrogate-guided", "gradient"}
SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "surrogate-guided": ("surrogate-guided", {}),
    "surrogate-guided, 60 steps": ("surrogate-guided", {"steps": 60}),
    "structured": ("structured", {}),
    "model-guided": ("model-guided", {}),
    "model-guided (black-box)": ("model-guided", {"features": "black-box"}),
}


def proven(space: MapSpace, seconds: float) -> float | None:
    """The least EDP, None where it is not proven in time."""
    prover = make_prover(space, objective="edp", threads=1)
    prover.run(seconds)
    if not prover.finished or not len(prover.codes()):
        return None
    return float(LoopNestModel().evaluate(space, prover.codes()[:1]).edp[0])


def search(space: MapSpace, name: str, seed: int, parameters: dict[str, Any]) -> list[float]:
    """The best EDP after so many true queries."""
    further = {"predictor": shipped_for(space)} if name in LEARNED else {}
    evaluator = Evaluator(LoopNestModel(), space, iterations=COUNTS[-1])
    make(name, space, seed=seed, **further, **parameters).run(evaluator)
    result = evaluator.result()
    steps, losses = result.curve_counted, result.curve_loss
    return [float(losses[steps <= count].min(initial=np.inf)) for count in COUNTS]


def run(output: Path, seeds: int, seconds: float, indices: list[int]) -> list[dict[str, Any]]:
    """Rows of all searches on all cases, those of the file first."""
    rows = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    done = {(row["index"], row["search"], row["seed"]) for row in rows}
    known = {row["index"]: row["optimum"] for row in rows}
    for index in indices:
        found = case(index)
        space = MapSpace(found.workload, found.accelerator)
        least = known.get(index)
        if index not in known:
            least = proven(space, seconds)
        for label, (name, parameters) in SEARCHES.items():
            for seed in range(seeds):
                if (index, label, seed) in done:
                    continue
                started = time.perf_counter()
                best = search(space, name, seed, parameters) if least else []
                row = {"index": index, "search": label, "seed": seed, "optimum": least}
                row |= {"best": best, "seconds": time.perf_counter() - started}
                rows.append(row)
                with output.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return rows


def show(console: Console, title: str, rows: list[dict[str, Any]], indices: list[int]) -> None:
    """The table of some cases."""
    of = [row for row in rows if row["index"] in indices]
    cases = {row["index"] for row in of if row["optimum"]}
    shown = Table(f"{title}: {len(cases)} of {len(indices)} proven", *map(str, COUNTS), "s")
    for label in SEARCHES:
        found = [row for row in of if row["search"] == label and row["optimum"]]
        if not found:
            continue
        logs = np.log([np.array(row["best"]) / row["optimum"] for row in found])
        above = 100 * np.expm1(logs.mean(axis=0))
        took = np.mean([row["seconds"] for row in found])
        shown.add_row(label, *(f"{value:.2f}" for value in above), f"{took:.1f}")
        worst = 100 * np.expm1(logs.max(axis=0))
        shown.add_row("  worst", *(f"{value:.1f}" for value in worst), "")
    console.print(shown)


def plot(path: Path) -> None:
    """How many truths of the held-out cases lie in intervals that should hold so many."""
    import matplotlib.pyplot as plt

    card, network = load_network()
    shares = np.linspace(0.05, 0.99, 48)
    figure, axis = plt.subplots(figsize=(5, 5))
    axis.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    for name, indices in (("three levels", HELD_OUT), ("two and four levels", HELD_OUT_DEEPER)):
        judged = [judge(network, index) for index in indices]
        errors = np.abs(np.concatenate([one.errors for one in judged]))
        spreads = np.concatenate([one.spreads for one in judged])
        unsure = spreads > card.floor
        sigma = np.hypot(card.spread * spreads, card.floor)
        for what, rows, style in (("all", unsure | ~unsure, "-"), ("unsure", unsure, "--")):
            inside = [
                float((errors[rows] <= NormalDist().inv_cdf(0.5 + s / 2) * sigma[rows]).mean())
                for s in shares
            ]
            axis.plot(shares, inside, style, label=f"{name}, {what}")
    axis.set(xlabel="share that an interval should hold", ylabel="share of truths in it")
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Runs and shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench-machines.jsonl"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--proof-seconds", type=float, default=20.0)
    parser.add_argument("--deeper", action="store_true", help="two and four levels, too")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.plot:
        plot(arguments.plot)
        return
    console = Console(width=140)
    sets = {"three levels": list(HELD_OUT)}
    if arguments.deeper:
        sets["two and four levels"] = list(HELD_OUT_DEEPER)
    for title, indices in sets.items():
        rows = run(arguments.output, arguments.seeds, arguments.proof_seconds, indices)
        show(console, title, rows, indices)


if __name__ == "__main__":
    main()
