"""The report's section on when each method pays, and the paper's end points beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from orchestrator.comparison.cells import method_cell, percent_text
from orchestrator.comparison.latency_figure import (
    FIXED_SECONDS,
    PROBLEMS,
    black_boxes,
    draw_latency,
    maps_of,
    span,
)
from orchestrator.comparison.latency_replay import (
    TARGETS,
    Bills,
    Method,
    above_after,
    asks_surrogate,
    best_of,
    break_even,
    deployable,
    reach,
)
from orchestrator.comparison.paper_values import END_POINTS, ITERATIONS
from orchestrator.comparison.results import Results, geometric_interval
from orchestrator.report.document import LEFT, RIGHT, Cell, Figure, Row, Table

LATENCIES = (1e-6, 1e-4, 1e-2, 0.1, 1.0, 10.0)
REACH_LATENCIES = (1e-6, 1.0)
BUDGETS = (1.0, FIXED_SECONDS, 3600.0)
NEVER = "not reached"
_LATENCY_NAMES = tuple(map(span, LATENCIES))


def latency_blocks(results: Results, bills: Bills, name: str) -> list[str | Figure | Table]:
    """The figure and the tables.

    Args:
        results: the benchmark.
        bills: of its surrogates; empty where there are none.
        name: begins the figure's file name.
    """
    fixed = span(FIXED_SECONDS)
    figure = Figure(
        f"{name}-latency",
        "When each method pays",
        partial(draw_latency, results, bills),
        "The same searches, had a true query taken longer: what they do does not depend on it, "
        f"only when. Lines: {fixed} after the start; thin where the method's last iteration had "
        "passed by then and its last value holds, missing where a search has no mapping yet. Maps: "
        "the method that is lowest at every latency and time (geometric mean over the workloads); "
        "hatched where its last iteration has passed. Queries come one after another. Methods that "
        "planned for the whole budget of iterations, such as annealing, are cut short where fewer "
        "fit.",
    )
    texts = [_bill_text(results, bills)]
    tables = [_after_table(results, bills), _best_table(results, bills), _reach_table(results)]
    even = _even_table(results, bills)
    return [figure, *filter(None, texts), *tables, *([even] if even.rows else [])]


def paper_points(results: Results) -> Table | None:
    """The paper's end points beside those of the gradient search here and the proven optima.

    Returns:
        None where the benchmark is no comparison of EDP on problems of Table 1.
    """
    if results.experiment["objective"] != "edp" or results.primary_axis == "seconds":
        return None
    names = [name for name in results.workloads if name in END_POINTS]
    labels = [label for label in results.searchers if asks_surrogate(results, label)]
    if not names or not labels:
        return None
    rows: list[Row] = [("Mind Mappings, in the paper", *(END_POINTS[name] for name in names))]
    for label in labels:
        ends = []
        for name in names:
            losses = [run.at([ITERATIONS], "evaluation")[0] for run in results.of(label, name)]
            ends.append(float(geometric_interval(losses).mean) / results.bounds[name].minimum)
        rows.append((label, *ends))
    optima = [(results.bounds[n].optimum or math.nan) / results.bounds[n].minimum for n in names]
    rows.append(("proven optimum of our cost model", *optima))
    iterations = min(ITERATIONS, int(results.experiment["iterations"] or ITERATIONS))
    return Table(
        "paper-points",
        "Beside the paper's end points",
        (f"normalised EDP after {iterations:,} iterations", *names),
        (LEFT, *["{:.2f}"] * len(names)),
        rows,
        note="The paper's are read off its Figure 5 and lie on its own cost model, whose energies "
        "and algorithmic minimum differ from ours: how far a search lies above the optimum is "
        "known here only.",
    )


def _billed(results: Results, bills: Bills) -> list[Method]:
    """Every searcher, followed by itself with its bill over so many problems where it has one."""
    found = []
    for label in results.searchers:
        found.append(Method(label))
        if bills and asks_surrogate(results, label) and deployable(results, label):
            found += [Method(label, problems) for problems in PROBLEMS]
    return found


def _after_table(results: Results, bills: Bills) -> Table:
    rows: list[Row] = []
    for method in _billed(results, bills):
        shares = above_after(results, method, LATENCIES, [FIXED_SECONDS], bills)[:, 0]
        first = method_cell(results, method.searcher)
        billed = method.problems is not None
        if method.problems is not None:
            plural = "s" if method.problems > 1 else ""
            text = f"its bill over {method.problems:,.0f} problem{plural}"
            first = replace(first, value=text, muted=True)
        rows.append((first, *(Cell(percent_text(share), muted=billed) for share in shares)))
    head = f"% above the reference after {span(FIXED_SECONDS)}, at a latency of"
    return Table("after", "", (head, *_LATENCY_NAMES), (LEFT, *[RIGHT] * len(LATENCIES)), rows)


def _best_table(results: Results, bills: Bills) -> Table:
    """Per map and time: the best method at every latency."""
    rows: list[Row] = []
    for title, methods in maps_of(results, bills):
        winner, share = best_of(results, methods, LATENCIES, BUDGETS, bills)
        for column, budget in enumerate(BUDGETS):
            cells = [
                Cell(methods[index].searcher, percent_text(value)) if index >= 0 else Cell(None)
                for index, value in zip(winner[:, column], share[:, column], strict=True)
            ]
            rows.append((title, span(budget), *cells))
    formats = (LEFT, RIGHT, *[RIGHT] * len(LATENCIES))
    return Table("best", "", ("best method", "after", *_LATENCY_NAMES), formats, rows)


def _reach_table(results: Results) -> Table:
    """How long every method takes to come close to the reference."""
    pairs = [(latency, share) for latency in REACH_LATENCIES for share in TARGETS]
    rows: list[Row] = []
    for label in results.searchers:
        found = {s: reach(results, Method(label), REACH_LATENCIES, s) for s in TARGETS}
        cells = []
        for latency, share in pairs:
            seconds = found[share].seconds[REACH_LATENCIES.index(latency)]
            time = span(seconds) if math.isfinite(seconds) else NEVER
            cells.append(Cell(time, f"{100 * found[share].reached:.0f} %"))
        rows.append((method_cell(results, label), *cells))
    names = (f"{100 * share:g} %, {span(latency)}" for latency, share in pairs)
    return Table(
        "reach",
        "",
        ("time to come within, latency", *names),
        (LEFT, *[RIGHT] * len(pairs)),
        rows,
        note="Median over all workloads and seeds, without bills; below it the share of the "
        "searches that get there at all. “Not reached”: no more than half of them do within their "
        "iterations.",
    )


def _even_table(results: Results, bills: Bills) -> Table:
    """Over how many problems a surrogate must be used, by method, rivals and target."""
    boxes = black_boxes(results) if bills else []
    asking = [label for label in boxes if asks_surrogate(results, label)]
    others = [b for b in results.searchers if b not in asking and deployable(results, b)]
    groups = (
        ("the fastest black box", [label for label in boxes if label not in asking]),
        ("the fastest of all", others),
    )
    rows: list[Row] = [
        (
            label,
            text,
            f"{100 * share:g} %",
            *_counts(break_even(results, label, rivals, LATENCIES, share, bills)),
        )
        for label in asking
        for text, rivals in groups
        if rivals
        for share in TARGETS
    ]
    return Table(
        "even",
        "",
        ("problems until the bill is saved", "against", "to come within", *_LATENCY_NAMES),
        (LEFT, LEFT, RIGHT, *[RIGHT] * len(LATENCIES)),
        rows,
        note="The bill over the time that a search saves per problem (medians as above). “Never”: "
        "the surrogate's search is no faster, or does not get there. “It alone”: no rival gets "
        "there within its iterations.",
    )


def _counts(values: Sequence[float] | np.ndarray) -> list[str]:
    return [
        "it alone" if math.isnan(value) else "never" if math.isinf(value) else f"{value:,.0f}"
        for value in map(float, values)
    ]


def _bill_text(results: Results, bills: Bills) -> str:
    asking = any(asks_surrogate(results, label) for label in results.searchers)
    if not asking:
        return ""
    if not bills:
        return "The cards of the surrogates are not to be had, so no bill is shown."
    kinds = sorted({(bill.rows, bill.training_seconds) for bill in bills.values()}, reverse=True)
    listed = " and ".join(f"{rows:,} rows and {span(seconds)}" for rows, seconds in kinds)
    return (
        f"The bill of a surrogate: its rows of true costs, each at the same latency, and its "
        f"training ({listed}, by their cards; the rows come one after another, like the queries "
        "of a search)."
    )
