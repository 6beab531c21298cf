"""What islands are worth: above the proven optimum at equal total queries, alone and on islands.

    python tests/benchmarks/bench_islands.py --seeds 10

Geometric means over problems and seeds. `--output` keeps every search, one JSON line each, and goes
on from what is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costmodel import LoopNestModel, MapSpace, accelerator, known_optimum, workload
from searchers import Evaluator, make

PROBLEMS = ("resnet-conv4", "inception-conv2", "alexnet-conv4", "mttkrp-0")
BUDGETS = (5_000, 20_000)
ISLANDS = (1, 4, 16)
# Between exchanges; the last one: never.
EVERY = (250, 1_000, 2**30)


def ways(of: str, budget: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, searcher and parameters of every way to spend a budget.

    A cooling of annealing is planned to take the budget that it has.
    """
    for count in ISLANDS:
        own = {"horizon": budget // count} if of == "annealing" else {}
        if count == 1:
            yield "alone", of, own
            continue
        for every in EVERY:
            if every == EVERY[-1]:
                name, every = f"{count} independent", budget // count
            elif every * count >= budget:
                continue
            else:
                name = f"{count} islands, every {every:,}"
            yield name, "islands", {"of": of, "islands": count, "every": every, "parameters": own}


def measure(of: str, budget: int, seeds: int) -> Iterator[dict[str, Any]]:
    """Searches, as rows."""
    for name, searcher, parameters in ways(of, budget):
        for problem in PROBLEMS:
            space = MapSpace(workload(problem), accelerator("mm256"))
            least = known_optimum(space.workload, space.accelerator)
            assert least is not None
            for seed in range(seeds):
                evaluator = Evaluator(LoopNestModel(), space, iterations=budget)
                make(searcher, space, seed=seed, **parameters).run(evaluator)
                yield {
                    "of": of, "budget": budget, "way": name, "problem": problem, "seed": seed,
                    "above": evaluator.best_loss / least,
                }  # fmt: skip


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Per cent above the optimum, with the standard error over seeds."""
    lines = ["| | " + " | ".join(f"{of}, {b:,}" for of in OF for b in BUDGETS) + " |"]
    lines.append("|---" * (1 + len(OF) * len(BUDGETS)) + "|")
    for way in dict.fromkeys(row["way"] for row in rows):
        cells = []
        for of in OF:
            for budget in BUDGETS:
                logs: dict[int, list[float]] = {}
                for row in rows:
                    if (row["of"], row["budget"], row["way"]) == (of, budget, way):
                        logs.setdefault(row["seed"], []).append(float(np.log(row["above"])))
                means = np.array([np.mean(one) for one in logs.values()])
                error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
                shown = f"{np.expm1(means.mean()):.2%} ± {error:.2%}" if len(means) else ""
                cells.append(shown)
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


OF = ("genetic", "annealing")


def main() -> None:
    """Measures what is not there yet, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("islands.jsonl"))
    options = parser.parse_args()
    kept = options.output.read_text().splitlines() if options.output.exists() else []
    rows = [json.loads(line) for line in kept]
    done = {(row["of"], row["budget"]) for row in rows}
    for of in OF:
        for budget in BUDGETS:
            if (of, budget) in done:
                continue
            new = list(measure(of, budget, options.seeds))
            rows += new
            with options.output.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in new)
    print(table(rows))


if __name__ == "__main__":
    main()
