"""The report's section on when each method pays, and the paper's end points beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.latency import (
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
from orchestrator.latency_plots import (
    FIXED_SECONDS,
    PROBLEMS,
    black_boxes,
    draw_latency,
    maps_of,
    span,
)
from orchestrator.paper_points import END_POINTS, ITERATIONS
from orchestrator.plots import shown_labels, styles
from orchestrator.results import NOTHING, Results, geometric_interval, percent_text

LATENCIES = (1e-6, 1e-4, 1e-2, 0.1, 1.0, 10.0)
REACH_LATENCIES = (1e-6, 1.0)
BUDGETS = (1.0, FIXED_SECONDS, 3600.0)
NEVER = "not reached"


def latency_section(results: Results, bills: Bills, path: Path) -> dict[str, Any]:
    """Draws the figure and makes the tables, as the template takes them."""
    draw_latency(results, bills, path)
    return {
        "latencies": [span(latency) for latency in LATENCIES],
        "fixed": span(FIXED_SECONDS),
        "after": [_after_row(results, method, bills) for method in _billed(results, bills)],
        "best": _best_rows(results, bills),
        "targets": [
            f"{100 * share:g} %, {span(latency)}"
            for latency in REACH_LATENCIES
            for share in TARGETS
        ],
        "reach": [_reach_row(results, label) for label in results.searchers],
        "even": _even_rows(results, bills),
        "bill": _bill_text(results, bills),
    }


def paper_points(results: Results) -> dict[str, Any] | None:
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
    rows = [("Mind Mappings, in the paper", [END_POINTS[name] for name in names])]
    for label in labels:
        ends = []
        for name in names:
            losses = [run.at([ITERATIONS], "evaluation")[0] for run in results.of(label, name)]
            ends.append(float(geometric_interval(losses).mean) / results.bounds[name].minimum)
        rows.append((label, ends))
    optima = [(results.bounds[n].optimum or math.nan) / results.bounds[n].minimum for n in names]
    rows.append(("proven optimum of our cost model", optima))
    return {
        "workloads": names,
        "rows": [
            {"label": label, "cells": [_normalised(value) for value in cells]}
            for label, cells in rows
        ],
        "iterations": f"{min(ITERATIONS, int(results.experiment['iterations'] or ITERATIONS)):,}",
    }


def _billed(results: Results, bills: Bills) -> list[Method]:
    """Every searcher, followed by itself with its bill over so many problems where it has one."""
    found = []
    for label in results.searchers:
        found.append(Method(label))
        if bills and asks_surrogate(results, label) and deployable(results, label):
            found += [Method(label, problems) for problems in PROBLEMS]
    return found


def _after_row(results: Results, method: Method, bills: Bills) -> dict[str, Any]:
    shares = above_after(results, method, LATENCIES, [FIXED_SECONDS], bills)[:, 0]
    label = shown_labels(results)[method.searcher]
    if method.problems is not None:
        plural = "s" if method.problems > 1 else ""
        label = f"its bill over {method.problems:,.0f} problem{plural}"
    return {
        "label": label,
        "billed": method.problems is not None,
        "colour": styles(results)[method.searcher].colour,
        "cells": [percent_text(share) for share in shares],
    }


def _best_rows(results: Results, bills: Bills) -> list[dict[str, Any]]:
    """Per map and time: the best method at every latency."""
    rows = []
    for title, methods in maps_of(results, bills):
        winner, share = best_of(results, methods, LATENCIES, BUDGETS, bills)
        rows += [
            {
                "title": title,
                "time": span(budget),
                "cells": [
                    {"label": methods[index].searcher, "percent": percent_text(value)}
                    if index >= 0
                    else {"label": NOTHING, "percent": ""}
                    for index, value in zip(winner[:, column], share[:, column], strict=True)
                ],
            }
            for column, budget in enumerate(BUDGETS)
        ]
    return rows


def _reach_row(results: Results, label: str) -> dict[str, Any]:
    cells = [
        (found.seconds[index], found.reached)
        for index in range(len(REACH_LATENCIES))
        for found in (reach(results, Method(label), REACH_LATENCIES, share) for share in TARGETS)
    ]
    return {
        "label": shown_labels(results)[label],
        "colour": styles(results)[label].colour,
        "cells": [
            {
                "time": span(seconds) if math.isfinite(seconds) else NEVER,
                "reached": f"{100 * reached:.0f} %",
            }
            for seconds, reached in cells
        ],
    }


def _even_rows(results: Results, bills: Bills) -> list[dict[str, Any]]:
    """Over how many problems a surrogate must be used, by method, rivals and target."""
    if not bills:
        return []
    boxes = black_boxes(results)
    asking = [label for label in boxes if asks_surrogate(results, label)]
    own = set(asking)
    groups = (
        ("the fastest black box", [label for label in boxes if label not in own]),
        (
            "the fastest of all",
            [b for b in results.searchers if b not in own and deployable(results, b)],
        ),
    )
    return [
        {
            "label": label,
            "rivals": text,
            "target": f"{100 * share:g} %",
            "cells": _counts(break_even(results, label, rivals, LATENCIES, share, bills)),
        }
        for label in asking
        for text, rivals in groups
        if rivals
        for share in TARGETS
    ]


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


def _normalised(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else NOTHING
