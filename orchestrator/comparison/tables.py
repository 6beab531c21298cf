"""The tables of a benchmark: final results, what they are measured against, what was spent."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

import numpy as np

from costmodel.models import unit_of
from orchestrator.comparison.cells import method_cell, percent_text, range_text, ratio_cell
from orchestrator.comparison.results import (
    NOT_COMPARABLE,
    TIMED,
    Bounds,
    Interval,
    Results,
    Timed,
)
from orchestrator.comparison.search_time import CLOCKS
from orchestrator.report.document import LEFT, NOTHING, RIGHT, Cell, Row, Table
from orchestrator.report.units import displayed_of
from searchers import SEARCHERS, searcher_class


def above_table(results: Results) -> Table:
    """Where the methods end in per cent above the optimum, and the optima; also for a terminal."""
    what = "the optimum" if "lower" in results.reference_name else results.reference_name
    names = [
        name
        if results.bounds[name].proven or results.bounds[name].measured
        else f"{name} (at most)"
        for name in results.workloads
    ]
    bounds = [results.bounds[name] for name in results.workloads]
    unproven = results.reference_name if bounds[0].measured else "lower bound"
    foot: list[Row] = []
    factor, unit = shown_in(results)
    for reference, proven in (("proven optimum", True), (unproven, False)):
        if any(bound.proven == proven for bound in bounds):
            cells = [
                f"{b.reference * factor:.5g}" if b.proven == proven else NOTHING for b in bounds
            ]
            foot.append(_muted(f"{reference}, {unit}", "", *cells))
    at_most = (
        ""
        if results.proven
        else " “At most”: the optimum of the workload is not proven; a method ends at most so far "
        "above it."
    )
    return Table(
        "above",
        "",
        (f"{results.objective_name}, % above {what}", "mean", *names),
        (LEFT, *[RIGHT] * (len(names) + 1)),
        _finals(
            results, results.above, partial(results.overall_interval, above=True), percent_text
        ),
        foot,
        note=f"Final {results.objective_name} in per cent above the "
        f"{'proven ' if results.proven else ''}optimum, the least that any mapping reaches; 0 is "
        f"the optimum itself. Geometric means over {seeds_text(results)}, below them the 95 % "
        f"interval due to the seeds; mean: over the workloads.{at_most}",
    )


def normalised_table(results: Results) -> Table:
    """The same over the algorithmic minimum."""
    foot: list[Row] = []
    for label, field in (("optimum (proven)", "optimum"), ("floor", "floor")):
        bounds = [results.bounds[name] for name in results.workloads]
        values = [getattr(bound, field) for bound in bounds]
        if all(value is None for value in values):
            continue
        shares = [
            math.nan if value is None else value / bound.minimum
            for value, bound in zip(values, bounds, strict=True)
        ]
        mean = float(np.exp(np.mean(np.log(shares))))
        foot.append(_muted(label, *map(_number, (mean, *shares))))
    return Table(
        "normalised",
        f"Normalised {results.objective_name}",
        ("method", "mean", *results.workloads),
        (LEFT, *[RIGHT] * (len(results.workloads) + 1)),
        _finals(results, results.final, results.overall_interval, _number),
        foot,
        note="The same results over the paper's algorithmic minimum, which no mapping reaches. The "
        "floor is what every mapping must pay at least.",
    )


def bounds_table(results: Results, place: Path, folder: Path) -> Table:
    """What every workload's column is measured against, and where that is proven.

    Args:
        results: the benchmark.
        place: its run folder.
        folder: the page's, which links are relative to.
    """
    rows: list[Row] = []
    factor, unit = shown_in(results)
    for name in results.workloads:
        bounds = results.bounds[name]
        file = bounds.certificate
        proof: str | Cell = ""
        if file is not None and (place / file).is_file():
            link = quote((place.relative_to(folder) / file).as_posix())
            proof = Cell("certificate", link=link)
        rows.append((name, f"{bounds.reference * factor:.10g}", _status(bounds), proof))
    return Table(
        "bounds",
        "",
        ("workload", f"measured against, {unit}", "", ""),
        (LEFT, RIGHT, LEFT, LEFT),
        rows,
        note="A certificate holds the problem, its best mapping and the bound; `mapspace verify "
        "CERTIFICATE` proves it again.",
    )


def matrix_table(results: Results) -> Table:
    """Every method over every other."""
    labels = results.searchers
    return Table(
        "matrix",
        "Every method over every other",
        ("row over column", *labels),
        (LEFT, *[RIGHT] * len(labels)),
        [
            (
                method_cell(results, label),
                *(ratio_cell(results.ratio(label, o), muted=label == o) for o in labels),
            )
            for label in labels
        ],
        note="Geometric mean over the workloads of the ratio of final objectives, with the 95 % "
        "interval due to the seeds. Above 1: the row ends higher, that is worse, than the column.",
    )


def spent_table(results: Results) -> Table:
    """What the searches of every method spent."""
    rows: list[Row] = []
    for label in results.searchers:
        seconds = float(results.column("seconds", label).mean())
        iterations = float(results.column("iterations", label).mean())
        rows.append(
            (
                method_cell(results, label),
                results.method(label),
                iterations,
                float(results.column("true_queries", label).mean()),
                _surrogate_queries(results, label),
                seconds,
                *(_mean(results, name, label) for name in TIMED),
                iterations / seconds if seconds > 0 else "",
            )
        )
    queries = ("iterations", "true queries", "surrogate queries")
    times = ("processor s", "wall s")
    return Table(
        "spent",
        "What was spent",
        ("method", "searcher", *queries, "seconds", *times, "iterations per second"),
        (LEFT, LEFT, "{:,.0f}", "{:,.0f}", "{:,.0f}", "{:.3g}", "{:.3g}", "{:.3g}", "{:,.0f}"),
        rows,
        note="Means per search, over workloads and seeds. An iteration is one cost query by the "
        "method: of the true cost model, or of the surrogate where the method asks one. True "
        "queries that are only recorded, for a curve, are neither iterations nor search time. "
        f"Seconds are {CLOCKS[results.clock]}, virtual query latency included; beside them is what "
        "a search took in processor time and by the wall.",
    )


def _surrogate_queries(results: Results, label: str) -> float | str:
    """The mean over a searcher's runs; of one that follows a surrogate uncounted that it does."""
    mean = float(results.column("surrogate_queries", label).mean())
    entries = results.experiment["searchers"]
    name = next(entry["name"] for entry in entries if entry["label"] == label)
    if mean or name not in SEARCHERS:
        return mean
    return "not counted" if "predictor" in searcher_class(name).USES else mean


def _mean(results: Results, name: Timed, label: str) -> float | str:
    """The mean of a time of a searcher's runs; nothing where it was not taken."""
    mean = float(results.column(name, label).mean())
    return mean if math.isfinite(mean) else ""


def hyperparameters_table(results: Results) -> Table | None:
    """What every method ran with; None of runs that did not note it."""
    if "hyperparameters" not in results.provenance:
        return None
    rows: list[Row] = [
        (
            method_cell(results, label),
            results.method(label),
            ", ".join(f"{k} {json.dumps(v)}" for k, v in results.hyperparameters(label).items()),
        )
        for label in results.searchers
    ]
    return Table(
        "hyperparameters",
        "Hyperparameters",
        ("method", "searcher", "all that it ran with"),
        (LEFT, LEFT, LEFT),
        rows,
        brief=False,
    )


def shown_in(results: Results) -> tuple[float, str]:
    """What turns a benchmark's objective into the unit that its tables have, and that unit."""
    clock = results.provenance.get("clock_ghz")  # not in runs from before it was noted
    return displayed_of(results.experiment["objective"], unit_of(results.experiment), clock)


def reason_text(bounds: Bounds) -> str:
    """Why an optimum is not proven; runs from before there were proofs do not say."""
    return bounds.note.rstrip(".") or "no proof was tried"


def seeds_text(results: Results, labels: Sequence[str] | None = None) -> str:
    """How many seeds the methods have, or some of them, those apart that have another number."""
    shared = len(results.experiment["seeds"])
    labels = [label for label in results.searchers if labels is None or label in labels]
    counts = {label: len(np.unique(results.column("seed", label))) for label in labels}
    others = ", ".join(f"{label}: {n}" for label, n in counts.items() if n != shared)
    return f"{shared} seeds" + (f" ({others})" if others else "")


def _finals(
    results: Results,
    final: Callable[[str, str], Interval],
    overall: Callable[[str], Interval],
    text: Callable[[float], str],
) -> list[Row]:
    """A row per searcher of a table of final losses, in the measure that the functions give."""

    def shown(mean: float) -> str:
        # Searches have a mean only where all of them found something.
        return text(mean) if math.isfinite(mean) else NOT_COMPARABLE

    labels = results.searchers
    # Normalised, in either measure: shares above the optimum may be as good as 0.
    best = {
        name: _best({label: float(results.final(label, name).mean) for label in labels})
        for name in results.workloads
    }
    best_overall = _best({label: results.overall(label) for label in labels})
    rows: list[Row] = []
    for label in labels:
        cells = []
        for name in results.workloads:
            interval = final(label, name)
            spread = range_text(shown, float(interval.low), float(interval.high))
            note = spread or results.fruitless(label, name).text
            cells.append(Cell(shown(float(interval.mean)), note, strong=label in best[name]))
        interval, lost = overall(label), results.fruitless(label).text
        spread = range_text(shown, float(interval.low), float(interval.high))
        mean = ", ".join(filter(None, [shown(float(interval.mean)), lost]))
        first = Cell(mean, spread, strong=label in best_overall)
        rows.append((method_cell(results, label), first, *cells))
    return rows


def _status(bounds: Bounds) -> str:
    if bounds.measured:
        return "the best measured in this run; what is least nobody knows"
    if not bounds.proven:
        return f"a lower bound; the optimum is not proven ({reason_text(bounds)})"
    if bounds.note or bounds.proof_seconds is None:
        return "the optimum, from the table of proven ones"
    return f"the optimum, proven in {bounds.proof_seconds:.2f} s"


def _best(values: dict[str, float]) -> set[str]:
    """The labels of the least value, up to what a table shows."""
    finite = [value for value in values.values() if math.isfinite(value)]
    return {label for label, value in values.items() if finite and value <= 1.0005 * min(finite)}


def _number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else NOTHING


def _muted(*texts: str) -> Row:
    return tuple(Cell(text, muted=True) for text in texts)
