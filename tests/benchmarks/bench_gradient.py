"""The gradient search beside the others at equal queries, and what each part of it is worth.

Per cent above the proven optimum after so many queries, as geometric means over problems and seeds:
surrogate queries and true ones count alike. With `--set held-out` on the layers that no default was
tuned on; with `--ablation` the search without one of its parts. `--prices` says the same at equal
time, had a true query taken longer; `--plot` draws the curves. Curves are kept in a file, so that a
run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import yaml
from bench_structured import PROBLEMS, optimum
from rich.console import Console
from rich.table import Table

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.space import Codes, Losses
from orchestrator.report.figure_style import (
    DASHES,
    HUES,
    SPARE_HUES,
    plain_figure,
    plain_ticks,
    save,
    styled,
)
from searchers import Evaluator, Searcher, make
from searchers.options import Options
from searchers.shared.screened_descent import ScreenedDescent, ScreenedOptions
from surrogate.for_space import predictor

Reals = npt.NDArray[np.float64]

COUNTS = (25, 50, 100, 200, 500, 1000, 2000, 5000)
EXPERIMENTS = Path(__file__).parents[2] / "mapspace" / "experiments"
# Seeds at most, and queries, of what takes seconds per search.
SLOW = {"ppo": (3, 5000), "ddpg": (3, 5000), "rnn": (1, 5000), "nevergrad": (1, 5000)}
SLOW |= {"na2c": (3, 5000), "gbfs": (3, 5000), "xgboost": (1, 1000), "optuna": (1, 1000)}
SLOW |= {"model-guided": (1, 500), "model-guided (black-box)": (1, 500)}
BLACK_BOXES = ("primitive-annealing", "cma-es", "genetic", "annealing", "random")
# Predicted costs that an agent is told, then true scores, in turns.
PRACTICE = (80, 16)
PRICES = (1e-3, 1e-2, 1e-1)
# A curve's columns: iterations, own seconds (processor time), true queries, EDP over the optimum.
Curve = list[list[float]]
Found = dict[tuple[str, str, int], Curve]


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


def screened(space: MapSpace, seed: int, folder: str | None = None, **parameters: Any) -> Searcher:
    """The default with other parameters, or another surrogate than the shipped one."""
    return make("gradient", space, seed=seed, predictor=predictor(space, folder), **parameters)


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
            "ppo", "ddpg", "na2c", "gbfs", "rnn", "nevergrad", "optuna", "model-guided", "xgboost",
        )
    },
    "model-guided (black-box)": lambda space, seed: make(
        "model-guided", space, seed=seed, preset="black-box"
    ),
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


class Practised(Searcher):
    """A searcher that is told predicted costs; the best predicted mappings get true ones."""

    def __init__(self, space: MapSpace, name: str, seed: int) -> None:
        super().__init__(space, Options(), seed=seed)
        self._inner, self._predictor = make(name, space, seed=seed), predictor(space, None)
        self._codes = np.empty((0, len(space.cardinality)), np.int32)
        self._values, self._scored = np.empty(0), set[bytes]()

    def _ask(self, n: int) -> Codes:
        scored = min(PRACTICE[1], max(1, n // 2))
        left = min(PRACTICE[0], n - scored)
        while left > 0:
            codes = self._inner.ask(left)
            values = self._predictor.value(self.space.encode(codes))
            self._inner.tell(np.exp(values))
            self.surrogate_queries += len(codes)
            left -= len(codes)
            self._codes = np.concatenate([self._codes, codes])
            self._values = np.append(self._values, values)
        chosen: list[Codes] = []
        for row in np.argsort(self._values, kind="stable"):
            if self._codes[row].tobytes() not in self._scored and len(chosen) < scored:
                self._scored.add(self._codes[row].tobytes())
                chosen.append(self._codes[row])
        return np.array(chosen) if chosen else self.space.sample(self.rng, 1, feasible=True)

    def _tell(self, codes: Codes, losses: Losses) -> None:
        pass


PRACTISED: dict[str, Maker] = {
    f"{name}, practising": lambda space, seed, name=name: Practised(space, name, seed)  # type: ignore[misc]
    for name in ("ppo", "ddpg", "na2c", "rnn", "genetic")
}


def held_out() -> list[str]:
    """The layers of the experiment `held-out`."""
    content = yaml.safe_load((EXPERIMENTS / "held-out.yaml").read_text())
    return list(map(str, content["workloads"]))


def curve(maker: Maker, space: MapSpace, seed: int, least: float, queries: int) -> Curve:
    """What a search had spent and found whenever it improved, and at its end."""
    evaluator = Evaluator(LoopNestModel(), space, iterations=queries, clock=time.process_time)
    maker(space, seed).run(evaluator)
    found = evaluator.result()
    columns = (found.curve_iteration, found.curve_seconds, found.curve_counted)
    return [column.tolist() for column in (*columns, found.curve_loss / least)]


def after(spent: npt.ArrayLike, ratio: npt.ArrayLike, amounts: npt.ArrayLike) -> Reals:
    """The best ratios once so much was spent, inf where nothing was found by then."""
    rows = np.searchsorted(np.asarray(spent), np.asarray(amounts) * (1 + 1e-12), side="right")
    return np.append(np.inf, np.asarray(ratio))[rows]


def means(
    found: Found, problems: list[str], method: str, look: Callable[[Curve], Reals]
) -> tuple[int, Reals]:
    """How many seeds all problems have, and the geometric means in per cent above the optimum."""
    of = [
        [row for key, row in found.items() if key[:2] == (method, problem)] for problem in problems
    ]
    seeds = min(map(len, of))
    if not seeds:
        return 0, np.empty(0)
    rows = np.array([look(row) for rows in of for row in rows[:seeds]])
    return seeds, 100 * np.expm1(np.log(rows).mean(axis=0))


def table(found: Found, problems: list[str]) -> Table:
    """Per method the means after so many queries, seeds, and own milliseconds per query."""
    shown = Table("method (seeds)", *map(str, COUNTS), "ms/query")
    for method in dict.fromkeys(key[0] for key in found):
        seeds, shares = means(found, problems, method, lambda row: after(row[0], row[3], COUNTS))
        if seeds:
            own = [row[1][-1] / row[0][-1] for key, row in found.items() if key[0] == method]
            end = max(row[0][-1] for key, row in found.items() if key[0] == method)
            cells = [
                f"{share:.2f}" if count <= end else ""
                for count, share in zip(COUNTS, shares, strict=True)
            ]
            shown.add_row(f"{method} ({seeds})", *cells, f"{1e3 * np.mean(own):.2f}")
    return shown


def priced(found: Found, problems: list[str], price: float, times: list[float] | None) -> Table:
    """The means after seconds, own ones included; else after the time of 100 to 5,000 queries.

    A search that has spent its queries before holds its last value.
    """
    spans = np.array(times or np.array(COUNTS[2:]) * price)
    shown = Table(f"a query takes {1e3 * price:g} ms (seeds)", *(f"{t:g} s" for t in spans))
    for method in dict.fromkeys(key[0] for key in found):
        seeds, shares = means(
            found,
            problems,
            method,
            lambda row: after(np.array(row[1]) + price * np.array(row[2]), row[3], spans),
        )
        if seeds:
            cells = [f"{share:.2f}" if np.isfinite(share) else "-" for share in shares]
            shown.add_row(f"{method} ({seeds})", *cells)
    return shown


def convolutions() -> list[str]:
    """The convolutions of Table 1."""
    return [name for name in PROBLEMS[:8] if "mttkrp" not in name]


def bills(found: Found, folder: str | None) -> Iterator[Table]:
    """Median seconds until within a share of the optimum of convolutions, and what a bill takes.

    Problems over which the bill of a surrogate (of a folder, else the shipped one) must be shared
    until it is saved, against the fastest black box: with its labels as dear as a true query, and
    with labels of the exact model, which take seconds.
    """
    problems = convolutions()
    space = MapSpace(workload(problems[0]), accelerator("mm256"))
    card = predictor(space, folder).card.training
    prices = np.array([1e-6, 1e-3, 1e-2, 1e-1, 1.0, 10.0])
    for share in (0.10, 0.05, 0.01):
        shown = Table(f"within {100 * share:g} %", *(f"{price:g} s" for price in prices))
        seconds: dict[str, Reals] = {}
        for method in ("gradient", *BLACK_BOXES):
            rows = [row for key, row in found.items() if key[0] == method and key[1] in problems]
            seconds[method] = np.median([_reached(row, share, prices) for row in rows], axis=0)
            shown.add_row(method, *(f"{value:.3g}" for value in seconds[method]))
        saved = np.min([seconds[name] for name in BLACK_BOXES], axis=0) - seconds["gradient"]
        for labels, cost in (("true queries", prices), ("the exact model", 1e-5)):
            bill = card["seconds"] + card["rows"] * cost
            count = np.where(saved > 0, np.ceil(bill / np.maximum(saved, 1e-12)), np.inf)
            shown.add_row(f"problems, labels from {labels}", *(f"{value:.0f}" for value in count))
        yield shown


def _reached(row: Curve, share: float, prices: Reals) -> Reals:
    """Seconds until within a share of the optimum, at every price; inf where it never was."""
    there = np.flatnonzero(np.array(row[3]) <= 1 + share)[:1]
    if not len(there):
        return np.full(len(prices), np.inf)
    return row[1][there[0]] + prices * row[2][there[0]]


@styled
def plot(found: Found, problems: list[str], path: Path) -> None:
    """All methods in one picture: per cent above the optimum against queries."""
    figure = plain_figure(9.5, 5.6)
    panel = figure.subplots()
    spare = iter(SPARE_HUES * len(METHODS))
    for method in dict.fromkeys(key[0] for key in found):
        end = max(row[0][-1] for key, row in found.items() if key[0] == method)
        grid = np.unique(np.round(np.geomspace(4, end, 120)))
        look = partial(_on_grid, grid=grid)
        seeds, shares = means(found, problems, method, look)
        if not seeds:
            continue
        base, _, variant = method.partition(" (")
        colour = HUES.get(base) or next(spare)
        width = 3.0 if method == "gradient" else 1.4
        dash = DASHES[1] if variant else DASHES[0]
        panel.plot(grid, shares, color=colour, lw=width, ls=dash, label=method)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_ylim(0.01, 300)
    plain_ticks(panel)
    panel.set_xlabel("queries, the surrogate's included")
    panel.set_ylabel("EDP, % above the proven optimum")
    figure.legend(loc="outside right center", fontsize=9)
    save(figure, path)


def _on_grid(row: Curve, grid: Reals) -> Reals:
    return after(row[0], row[3], grid)


def main() -> None:
    """Runs what is missing in the file and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=("table1", "held-out"), default="table1")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--practise", action="store_true", help="agents in the surrogate's world")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--prices", type=float, nargs="*", help="at equal time: seconds per query")
    parser.add_argument("--times", type=float, nargs="*", help="equal times, seconds")
    parser.add_argument("--bill", action="store_true", help="when the surrogates are paid for")
    parser.add_argument("--surrogate", metavar="FOLDER", help="of convolutions, as train made it")
    parser.add_argument("--plot", type=Path, help="draw the curves into this file")
    parser.add_argument("--queries", type=int, default=COUNTS[-1])
    parser.add_argument("--output", type=Path, default=Path("gradient.jsonl"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    problems = [*PROBLEMS[:8]] if arguments.set == "table1" else held_out()
    if arguments.surrogate:
        problems = convolutions()
        METHODS["gradient"] = partial(screened, folder=arguments.surrogate)
    makers = ABLATIONS if arguments.ablation else PRACTISED if arguments.practise else METHODS
    found: Found = {}
    if arguments.output.exists():
        for line in arguments.output.read_text().splitlines():
            *key, row = json.loads(line)
            found[tuple(key)] = row  # type: ignore[index]
    least: dict[str, float] = {}
    with arguments.output.open("a") as file:
        for method in makers if arguments.methods is None else arguments.methods:
            seeds, queries = SLOW.get(method, (arguments.seeds, arguments.queries))
            _warm_up(makers[method])
            for seed in range(min(arguments.seeds, seeds)):
                for problem in problems:
                    if (method, problem, seed) in found:
                        continue
                    space = MapSpace(workload(problem), accelerator("mm256"))
                    least.setdefault(problem, optimum(space))
                    row = curve(makers[method], space, seed, least[problem], queries)
                    found[method, problem, seed] = row
                    file.write(json.dumps([method, problem, seed, row]) + "\n")
                    file.flush()
    console = Console(width=140)
    console.print(table(found, problems))
    if arguments.prices is not None:
        for price in arguments.prices or PRICES:
            console.print(priced(found, problems, price, arguments.times))
    if arguments.bill:
        for table_of_bill in bills(found, arguments.surrogate):
            console.print(table_of_bill)
    if arguments.plot:
        plot(found, problems, arguments.plot)


def _warm_up(maker: Maker) -> None:
    """Lets libraries load and code compile off every clock."""
    space = MapSpace(workload("alexnet-conv4"), accelerator("mm256"))
    maker(space, 0).run(Evaluator(LoopNestModel(), space, iterations=40))


if __name__ == "__main__":
    main()
