"""Few true costs on top of a cheap model: simulated hardware, and our own model.

`--part rtl`: Gemmini's RTL (`../shared/golden/dosa` beside the checkout): the error of its cycles
on machines that were left out, and the regret of choosing among the recorded mappings of a layer.
`--part own`: searches on the loop-nest model with what the cheap one lacks, per cent above the
proven optimum (with remainders: above the best of all runs). Controls stand in every table.
Measured tilings: `bench_measured_tilings.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact_any.choice import make_prover, why_not
from searchers import Evaluator, make
from searchers.shared.calibration import Calibrated, Correction

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from gemmini import Measured, Row, measured, read_rows

SHARED = Path(__file__).parents[3] / "shared" / "golden" / "dosa"
Reals = npt.NDArray[np.float64]

CORRECTIONS: tuple[Correction, ...] = ("law+process", "law", "process", "linear", "none")
SHOWN = {"none": "analytic", "linear": "linear law", "process": "process alone", "law": "law alone"}

# Measurements before the choice of a mapping is judged; of one layer.
CHOICES = (1, 3, 5)
LEAST_MAPPINGS = 8

COUNTS = (1, 4, 6, 12, 25, 50)
TRUTHS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "bandwidths": (
        {"extends": "mm256-bw"},
        ("resnet-conv4", "alexnet-conv2", "alexnet-conv4", "vgg-conv2", "mttkrp-0"),
    ),
    "bandwidths, hops": (
        {"extends": "mm256-bw", "levels": [{"name": "L2", "hop_energy_pj": 0.5, "mesh": [16, 16]}]},
        ("resnet-conv4", "alexnet-conv2", "alexnet-conv4", "vgg-conv2", "mttkrp-0"),
    ),
    "bandwidths, remainders": (
        {"extends": "mm256-bw", "factors": "imperfect", "counting": "true"},
        ("alexnet-conv2", "alexnet-conv4", "resnet50-conv3_1_2"),
    ),
}
SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "multi-fidelity": ("multi-fidelity", {}),
    "law alone": ("multi-fidelity", {"correction": "law"}),
    "process alone": ("multi-fidelity", {"correction": "process"}),
    "linear law": ("multi-fidelity", {"correction": "linear"}),
    "analytic top-k": ("multi-fidelity", {"correction": "none", "random_share": 0.0}),
    "same proposals, random ranking": ("multi-fidelity", {"shuffled": True}),
    "structured": ("structured", {}),
    "model-guided": ("model-guided", {}),
}


def predicted(seen: Measured, asked: Measured, correction: Correction) -> Reals:
    """Cycles of mappings, from measurements on other machines."""
    logs = np.log(seen.cycles)
    model = Calibrated(seen.causes, logs, "latency", machines=seen.machines, correction=correction)
    return np.exp(model.predict(asked.causes))


def rows_of(table: Measured, rows: npt.NDArray[Any]) -> Measured:
    """Some designs."""
    return Measured(table.causes.rows(rows), *(column[rows] for column in table[1:]))


def left_out(table: Measured, correction: Correction) -> Reals:
    """Cycles of every design, predicted from the other machines' alone."""
    found = np.empty(len(table.cycles))
    for machine in np.unique(table.machines):
        out = table.machines == machine
        found[out] = predicted(rows_of(table, ~out), rows_of(table, out), correction)
    return found


def errors(name: str, table: Measured, cycles: Reals) -> list[str]:
    """A row of the table of errors: mean, mean of the machines' means, ratios, each machine."""
    share = np.abs(cycles - table.cycles) / table.cycles
    ratio = np.maximum(cycles / table.cycles, table.cycles / cycles)
    each = [share[table.machines == machine].mean() for machine in np.unique(table.machines)]
    figures = [f"{100 * value:.1f}" for value in (share.mean(), np.mean(each), *each)]
    return [name, *figures[:2], f"{np.quantile(ratio, 0.9):.2f}", " ".join(figures[2:])]


def with_other_machines(rows: list[Row], seed: int) -> list[Row]:
    """For every design another's machine, all designs of a machine the same."""
    names = sorted({(r["arch.mem1_entries"], r["arch.mem2_entries"]) for r in rows})
    order = np.random.default_rng(seed).permutation(len(names))
    one = {(r["arch.mem1_entries"], r["arch.mem2_entries"]): r for r in rows}
    other = {name: one[names[k]] for name, k in zip(names, order, strict=True)}
    return [other[r["arch.mem1_entries"], r["arch.mem2_entries"]] for r in rows]


def rtl_errors(console: Console) -> None:
    """Latency on machines that were left out."""
    rows = read_rows(SHARED / "rtl-designs.csv")
    table = measured(rows)
    shown = Table("prediction", "MAE %", "mean of machines", "90th ratio", "each machine %")
    shown.add_row(*errors("analytic", table, table.analytic))
    for correction in CORRECTIONS[:-1]:
        name = SHOWN.get(correction, correction)
        shown.add_row(*errors(name, table, left_out(table, correction)))
    for seed in range(3):
        other = measured(rows, with_other_machines(rows, seed))
        cycles = left_out(other, "law+process")
        shown.add_row(*errors(f"machine features shuffled ({seed})", table, cycles))
    console.print(shown)


def regret(table: Measured, score: Reals) -> list[float]:
    """Per cent above the best recorded mapping after so many measurements, geometric mean."""
    logs, found = np.log(table.cycles), []
    for layer in np.unique(table.layers):
        rows = np.flatnonzero(table.layers == layer)
        if len(rows) >= LEAST_MAPPINGS:
            order = rows[np.argsort(score[rows], kind="stable")]
            found.append([logs[order[:k]].min() - logs[rows].min() for k in CHOICES])
    return [float(100 * (np.exp(mean) - 1)) for mean in np.mean(found, axis=0)]


def from_other_layers(table: Measured, count: int, correction: Correction, seed: int) -> Reals:
    """Cycles of every design, predicted from some of other layers on the same machine."""
    rng = np.random.default_rng(seed)
    sixths = rng.permutation(int(table.layers.max()) + 1)[table.layers] % 6
    found = np.empty(len(table.cycles))
    for sixth in range(6):
        out = sixths == sixth
        seen = rng.choice(np.flatnonzero(~out), count, replace=False)
        # What is left out to choose a law is whole layers, too.
        known = rows_of(table, seen)._replace(machines=table.layers[seen] % 6)
        found[out] = predicted(known, rows_of(table, out), correction)
    return found


def rtl_regret(console: Console) -> None:
    """Choosing among the recorded mappings of a layer on the seventh machine."""
    six = measured(read_rows(SHARED / "rtl-designs.csv"))
    table = measured(read_rows(SHARED / "rtl-one-machine.csv.gz"))
    rng = np.random.default_rng(0)
    shown = Table("ranking", *(f"regret % after {k}" for k in CHOICES))

    def add(name: str, *regrets: list[float]) -> None:
        shown.add_row(name, *(f"{value:.1f}" for value in np.mean(regrets, axis=0)))

    add("analytic top-k", regret(table, table.analytic))
    add("random", *(regret(table, rng.random(len(table.cycles))) for _ in range(20)))
    for correction in CORRECTIONS[:-1]:
        name = SHOWN.get(correction, correction)
        add(f"101 designs of six other machines, {name}",
            regret(table, predicted(six, table, correction)))  # fmt: skip
    for count in (30, 100):
        for correction in CORRECTIONS[:-1]:
            name = f"{count} of other layers here, {SHOWN.get(correction, correction)}"
            scores = [from_other_layers(table, count, correction, seed) for seed in range(5)]
            add(name, *(regret(table, score) for score in scores))
    console.print(shown)


def proven(space: MapSpace) -> float | None:
    """The least EDP, where it can be proven within a minute."""
    if why_not(space) is not None:
        return None
    prover = make_prover(space, objective="edp", threads=1)
    prover.run(60.0)
    if not prover.finished:
        return None
    return float(LoopNestModel().evaluate(space, prover.codes()[:1]).edp[0])


def own(console: Console, seeds: int, output: Path) -> None:
    """Searches on the loop-nest model with what the cheap one lacks."""
    rows = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    done = {(row["truth"], row["problem"], row["search"], row["seed"]) for row in rows}
    for truth, (machine, problems) in TRUTHS.items():
        for problem in problems:
            space = MapSpace(workload(problem), accelerator({"name": truth, **machine}))
            least = proven(space)
            for search, (name, parameters) in SEARCHES.items():
                for seed in range(seeds):
                    if (truth, problem, search, seed) in done:
                        continue
                    row = {"truth": truth, "problem": problem, "search": search, "seed": seed}
                    row |= {"optimum": least, **one_search(space, name, seed, parameters)}
                    rows.append(row)
                    with output.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    for truth in TRUTHS:
        show_own(console, truth, [row for row in rows if row["truth"] == truth])


def one_search(space: MapSpace, name: str, seed: int, parameters: dict[str, Any]) -> dict[str, Any]:
    """The best EDP after so many queries, and the seconds of the whole search."""
    further = {"prior": "plain"} if name == "multi-fidelity" else {}
    evaluator = Evaluator(LoopNestModel(), space, iterations=COUNTS[-1])
    started = time.perf_counter()
    make(name, space, seed=seed, **further, **parameters).run(evaluator)
    result, seconds = evaluator.result(), time.perf_counter() - started
    steps, losses = result.curve_iteration, result.curve_loss
    best = [float(losses[steps <= k].min(initial=np.inf)) for k in COUNTS]
    return {"best": best, "seconds": seconds}


def show_own(console: Console, truth: str, rows: list[dict[str, Any]]) -> None:
    """The table of one truth."""
    shown = Table(truth, *map(str, COUNTS), "s per search")
    reference = {
        row["problem"]: row["optimum"]
        or min(other["best"][-1] for other in rows if other["problem"] == row["problem"])
        for row in rows
    }
    for search in SEARCHES:
        found = [row for row in rows if row["search"] == search]
        logs = [np.log(np.array(row["best"]) / reference[row["problem"]]) for row in found]
        above = 100 * (np.exp(np.mean(logs, axis=0)) - 1)
        seconds = np.mean([row["seconds"] for row in found])
        shown.add_row(search, *(f"{value:.2f}" for value in above), f"{seconds:.1f}")
    console.print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("rtl", "own"), required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("bench-multi-fidelity.jsonl"))
    arguments = parser.parse_args()
    console = Console(width=160)
    if arguments.part == "rtl":
        rtl_errors(console)
        rtl_regret(console)
    else:
        own(console, arguments.seeds, arguments.output)


if __name__ == "__main__":
    main()
