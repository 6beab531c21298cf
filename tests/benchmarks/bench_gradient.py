"""The gradient search beside the others at equal queries, and what each part of it is worth.

Per cent above the proven optimum after so many queries, as geometric means over problems and seeds:
surrogate queries and true ones count alike. With `--set held-out` on the layers that no default was
tuned on; with `--ablation` the search without one of its parts. Rows are kept in a file, so that a
run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from bench_structured import PROBLEMS, optimum
from rich.console import Console
from rich.table import Table

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from searchers import Evaluator, Searcher, make
from searchers.shared.screened_descent import ScreenedDescent, ScreenedOptions
from surrogate.for_space import predictor

COUNTS = (25, 50, 100, 200, 500, 1000, 2000, 5000)
EXPERIMENTS = Path(__file__).parents[2] / "mapspace" / "experiments"
# Agents take minutes per search.
SLOW = {"ppo": 3, "ddpg": 3}


class TrueValues:
    """A surrogate whose values are the cost model's; its gradients are the surrogate's."""

    def __init__(self, space: MapSpace) -> None:
        self._space, self._inner = space, predictor(space, None)
        self.scale = self._inner.scale
        self.value, self.value_and_gradient = self._inner.value, self._inner.value_and_gradient
        self.describe = self._inner.describe

    def value_and_slope(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """True ln EDP with the surrogate's description and gradient."""
        _, described, slopes = self._inner.value_and_slope(points)
        codes = self._space.project(points.astype(np.float64))
        return np.log(LoopNestModel().evaluate(self._space, codes).edp), described, slopes


class TrueEstimates(ScreenedDescent):
    """Ranks children by their true costs, for nothing: what no estimate can better."""

    def _children(self, parents: Any) -> Any:
        self._made = super()._children(parents)
        return self._made

    def _screen(self, described: Any, anchors: Any, expected: Any, n: int) -> Any:
        named = self._names(self._describe(self._made))
        rows = [int(np.flatnonzero(named == name)[0]) for name in self._names(described)]
        costs = LoopNestModel().evaluate(self.space, self._made[rows]).edp
        return np.argsort(costs, kind="stable")[:n]


def screened(space: MapSpace, seed: int, **parameters: Any) -> Searcher:
    """The default with other parameters."""
    return make("gradient", space, seed=seed, predictor=predictor(space, None), **parameters)


def _true_values(space: MapSpace, seed: int) -> Searcher:
    return make("gradient", space, seed=seed, predictor=TrueValues(space))


def _true_estimates(space: MapSpace, seed: int) -> Searcher:
    options = ScreenedOptions(predictor=predictor(space, None))
    return TrueEstimates(space, options, seed=seed)


Maker = Callable[[MapSpace, int], Searcher]
METHODS: dict[str, Maker] = {
    "gradient": screened,
    "gradient, projected descent": lambda space, seed: screened(space, seed, method="descent"),
    **{
        name: lambda space, seed, name=name: make(name, space, seed=seed)  # type: ignore[misc]
        for name in (
            "genetic", "annealing", "cma-es", "primitive-annealing", "random", "structured",
            *SLOW,
        )
    },
}  # fmt: skip
ABLATIONS: dict[str, Maker] = {
    "gradient": screened,
    "every visited mapping scored for nothing": lambda space, seed: screened(
        space, seed, accounting="visited"
    ),
    "children at random": lambda space, seed: screened(space, seed, guide="nothing"),
    "children by the nearest value": lambda space, seed: screened(space, seed, guide="value"),
    "one epoch": lambda space, seed: screened(space, seed, epoch=10**6),
    "true values, the surrogate's gradients": _true_values,
    "children by true costs": _true_estimates,
}


def held_out() -> list[str]:
    """The layers of the experiment `held-out`."""
    content = yaml.safe_load((EXPERIMENTS / "held-out.yaml").read_text())
    return list(map(str, content["workloads"]))


def ratios(maker: Maker, space: MapSpace, seed: int, least: float, queries: int) -> list[float]:
    """EDP over the optimum after each of `COUNTS` queries, then milliseconds per query."""
    evaluator = Evaluator(LoopNestModel(), space, iterations=queries)
    started = time.process_time()
    maker(space, seed).run(evaluator)
    spent = 1e3 * (time.process_time() - started) / queries
    result = evaluator.result()
    rows = np.searchsorted(result.curve_iteration, COUNTS, side="right") - 1
    losses = [result.curve_loss[row] if row >= 0 else np.inf for row in rows]
    return [*(np.array(losses) / least).tolist(), spent]


def table(found: dict[tuple[str, str, int], list[float]], problems: list[str]) -> Table:
    """Per method the means, how many seeds the least has, and milliseconds per query."""
    shown = Table("method (seeds)", *map(str, COUNTS), "ms/query")
    for method in dict.fromkeys(key[0] for key in found):
        of_problems = [
            [row for key, row in found.items() if key[:2] == (method, problem)]
            for problem in problems
        ]
        seeds = min(map(len, of_problems))
        if not seeds:
            continue
        rows = np.array([rows[:seeds] for rows in of_problems]).reshape(-1, len(COUNTS) + 1)
        means = 100 * (np.exp(np.log(rows[:, :-1]).mean(axis=0)) - 1)
        cells = [f"{mean:.2f}" for mean in means]
        shown.add_row(f"{method} ({seeds})", *cells, f"{rows[:, -1].mean():.2f}")
    return shown


def main() -> None:
    """Runs what is missing in the file and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=("table1", "held-out"), default="table1")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--queries", type=int, default=COUNTS[-1])
    parser.add_argument("--output", type=Path, default=Path("gradient.jsonl"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    problems = [*PROBLEMS[:8]] if arguments.set == "table1" else held_out()
    makers = ABLATIONS if arguments.ablation else METHODS
    found: dict[tuple[str, str, int], list[float]] = {}
    if arguments.output.exists():
        for line in arguments.output.read_text().splitlines():
            *key, row = json.loads(line)
            found[tuple(key)] = row  # type: ignore[index]
    least: dict[str, float] = {}
    with arguments.output.open("a") as file:
        for method in arguments.methods or makers:
            for seed in range(min(arguments.seeds, SLOW.get(method, arguments.seeds))):
                for problem in problems:
                    if (method, problem, seed) in found:
                        continue
                    space = MapSpace(workload(problem), accelerator("mm256"))
                    least.setdefault(problem, optimum(space))
                    row = ratios(makers[method], space, seed, least[problem], arguments.queries)
                    found[method, problem, seed] = row
                    file.write(json.dumps([method, problem, seed, row]) + "\n")
                    file.flush()
    Console(width=140).print(table(found, problems))


if __name__ == "__main__":
    main()
