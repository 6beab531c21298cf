"""The surrogate for every machine on held-out machines x layers: searches, and a reliability plot.

Per cent above the proven optimum after so many true queries, geometric means over the cases whose
optimum was proven within the limit, and over the others above the best known, beside `structured`
and `model-guided`. Rows are kept in a file, so that a run that was stopped goes on.
`--shuffled` asks the surrogate with the energies and bandwidths of another machine, a control.
`--plot` draws how many truths lie in intervals of every width. `--bill` says after how many
problems of Table 1 of Mind Mappings the surrogate is paid for, at several prices of a true query.
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

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.accelerators import Accelerator
from costmodel.exact_any.choice import make_prover
from searchers import Evaluator, make
from surrogate.count_network import Readout
from surrogate.machine_surrogate import load_network, shipped_for
from surrogate.machine_training import JUDGED, judge, mappings
from surrogate.machines import HELD_OUT, HELD_OUT_DEEPER, SEED, case
from surrogate.metrics import spearman

COUNTS = (1, 4, 12, 25, 50, 100)
# Of a search with longer chains: what follows is the same.
FEW = 12
# Of the search that unproven cases are held against.
LONG = 100_000
LEARNED = {"surrogate-guided", "gradient"}
SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "surrogate-guided": ("surrogate-guided", {}),
    "surrogate-guided, 100 steps": ("surrogate-guided", {"steps": 100}),
    "surrogate-guided (patient)": ("surrogate-guided", {"preset": "patient"}),
    "structured": ("structured", {}),
    "model-guided": ("model-guided", {}),
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
    iterations = FEW if parameters else COUNTS[-1]
    evaluator = Evaluator(LoopNestModel(), space, iterations=iterations)
    make(name, space, seed=seed, **further, **parameters).run(evaluator)
    result = evaluator.result()
    steps, losses = result.curve_counted, result.curve_loss
    return [float(losses[steps <= count].min(initial=np.inf)) for count in COUNTS]


def run(output: Path, seeds: int, seconds: float, indices: list[int]) -> list[dict[str, Any]]:
    """Rows of all searches on all cases, those of the file first."""
    rows = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    done = {(row["index"], row["search"], row["seed"]) for row in rows if row["best"]}
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
                best = search(space, name, seed, parameters)
                row = {"index": index, "search": label, "seed": seed, "optimum": least}
                row |= {"best": best, "seconds": time.perf_counter() - started}
                rows.append(row)
                with output.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return rows


def best_known(index: int, rows: list[dict[str, Any]]) -> float:
    """The least EDP of all searches and of a long structured one."""
    found = case(index)
    evaluator = Evaluator(
        LoopNestModel(), MapSpace(found.workload, found.accelerator), iterations=LONG
    )
    make("structured", evaluator.space, seed=0).run(evaluator)
    ours = [row["best"][-1] for row in rows if row["index"] == index and row["best"]]
    return min(evaluator.best_loss, *ours)


def show(console: Console, title: str, rows: list[dict[str, Any]], indices: list[int]) -> None:
    """The tables of some cases: those with a proof, and those with the best that is known."""
    of = [row for row in rows if row["index"] in indices and row["best"]]
    proofs = {row["index"]: row["optimum"] for row in of if row["optimum"]}
    others = {row["index"] for row in of} - set(proofs)
    known = {index: best_known(index, of) for index in sorted(others)}
    for what, reference in (("proven", proofs), ("the best known", known)):
        shown = Table(f"{title}, {what}: {len(reference)} cases", *map(str, COUNTS), "s")
        for label in SEARCHES:
            found = [row for row in of if row["search"] == label and row["index"] in reference]
            if not found:
                continue
            logs = np.log([np.array(row["best"]) / reference[row["index"]] for row in found])
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
        judged = [judge(network, case(index)) for index in indices]
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


def another(mine: Accelerator, other: Accelerator) -> Accelerator:
    """A machine with what another one charges: energies and bandwidths, level by level."""
    keys = ("energy_pj", "bandwidth", "read_bandwidth", "write_bandwidth")
    levels = tuple(
        level.model_copy(update={key: getattr(its, key) for key in keys})
        for level, its in zip(mine.levels, other.levels, strict=True)
    )
    return mine.model_copy(update={"levels": levels, "mac_energy_pj": other.mac_energy_pj})


def shuffled(console: Console) -> None:
    """Errors on the held-out machines of three levels, and with each other's machines."""
    _, network = load_network()
    indices = list(HELD_OUT)
    others = np.random.default_rng([SEED, 7]).permutation(indices)
    shown = Table("machine", "RMSE of ln EDP", "less a case's mean", "Spearman", "worst")
    for title, theirs in (("its own", indices), ("another's", others)):
        errors, centred, correlations = [], [], []
        for index, other in zip(indices, theirs, strict=True):
            found = case(index)
            space = MapSpace(found.workload, found.accelerator)
            codes = mappings(space, np.random.default_rng([index, 2]), JUDGED // 2, JUDGED // 2)
            truth = np.log(LoopNestModel().evaluate(space, codes).edp)
            machine = another(found.accelerator, case(int(other)).accelerator)
            readout = Readout(MapSpace(found.workload, machine), network)
            with torch.no_grad():
                described = readout.describe(torch.from_numpy(space.encode(codes)))
                values = readout.log_edp(described).double().numpy().mean(0)
            errors.append(values - truth)
            centred.append(errors[-1] - errors[-1].mean())
            correlations.append(spearman(truth, values))
        rmse, rest = (np.sqrt(np.mean(np.concatenate(e) ** 2)) for e in (errors, centred))
        mean, least = np.nanmean(correlations), np.nanmin(correlations)
        shown.add_row(title, f"{rmse:.4f}", f"{rest:.4f}", f"{mean:.5f}", f"{least:.4f}")
    console.print(shown)


BILLED = ("surrogate-guided", "gradient", "structured", "model-guided")
BLACK_BOXES = ("primitive-annealing", "cma-es", "genetic", "annealing")
PRICES = (1e-6, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
WITHIN = (1.10, 1.05, 1.01)
SLOW_SEARCHES = {"surrogate-guided": 24, "model-guided": 60, "gradient": 300}


def until(space: MapSpace, name: str, seed: int, least: float) -> list[list[float]]:
    """Per closeness the true queries and own seconds until it is reached, inf where it is not."""
    further = {"predictor": shipped_for(space)} if name in LEARNED else {}
    evaluator = Evaluator(LoopNestModel(), space, iterations=SLOW_SEARCHES.get(name, 5000))
    make(name, space, seed=seed, **further).run(evaluator)
    found = evaluator.result()
    reached = [np.flatnonzero(found.curve_loss <= share * least)[:1] for share in WITHIN]
    return [
        [float(found.curve_counted[at[0]]), float(found.curve_seconds[at[0]])]
        if len(at)
        else [np.inf, np.inf]
        for at in reached
    ]


def bill(console: Console, seeds: int) -> None:
    """Medians over problems and seeds of the time until a closeness, and what the bill is worth."""
    from bench_structured import PROBLEMS, optimum

    times: dict[str, np.ndarray] = {}
    for name in (*BILLED, *BLACK_BOXES):
        spaces = [MapSpace(workload(problem), accelerator("mm256")) for problem in PROBLEMS]
        rows = [
            until(space, name, seed, optimum(space)) for space in spaces for seed in range(seeds)
        ]
        times[name] = np.median(np.array(rows), axis=0)  # [closeness, (queries, seconds)]
    card = load_network()[0]
    for at, share in enumerate(WITHIN):
        shown = Table(f"within {100 * (share - 1):.0f} %", "queries", *(f"{p:g} s" for p in PRICES))
        total = {
            name: found[at, 0] * np.array(PRICES) + found[at, 1] for name, found in times.items()
        }
        for name, seconds in total.items():
            shown.add_row(name, f"{times[name][at, 0]:g}", *(f"{s:.3g}" for s in seconds))
        fastest = np.min([total[name] for name in BLACK_BOXES], axis=0)
        for name in ("surrogate-guided", "gradient"):
            saved = fastest - total[name]
            problems = np.where(saved > 0, card.seconds / np.maximum(saved, 1e-12), np.inf)
            shown.add_row(f"{name}: problems", "", *(f"{p:.0f}" for p in np.ceil(problems)))
        console.print(shown)


def main() -> None:
    """Runs and shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench-machines.jsonl"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--proof-seconds", type=float, default=20.0)
    parser.add_argument("--deeper", action="store_true", help="two and four levels, too")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--bill", action="store_true")
    parser.add_argument("--shuffled", action="store_true", help="a control")
    parser.add_argument("--cases", type=int, nargs=2, default=(0, 100), help="from and to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.plot:
        plot(arguments.plot)
        return
    console = Console(width=140)
    if arguments.shuffled:
        shuffled(console)
        return
    if arguments.bill:
        bill(console, arguments.seeds)
        return
    sets = {"three levels": list(HELD_OUT)[slice(*arguments.cases)]}
    if arguments.deeper:
        sets["two and four levels"] = list(HELD_OUT_DEEPER)
    for title, indices in sets.items():
        rows = run(arguments.output, arguments.seeds, arguments.proof_seconds, indices)
        show(console, title, rows, indices)


if __name__ == "__main__":
    main()
