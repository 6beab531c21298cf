"""Results of a benchmark as cells of a table."""

from __future__ import annotations

import math
from collections.abc import Callable

from orchestrator.comparison.figures import shown_labels, styles
from orchestrator.comparison.results import NOT_COMPARABLE, Ratio, Results
from orchestrator.report.document import NOTHING, Cell

TIMES = "\N{MULTIPLICATION SIGN}"


def method_cell(results: Results, label: str) -> Cell:
    """A searcher, with the colour of its figures."""
    return Cell(shown_labels(results)[label], swatch=styles(results)[label].colour)


def percent_text(share: float) -> str:
    """A share in per cent: 0 is the reference itself, which rounding shall not pretend."""
    if not math.isfinite(share):
        return NOTHING
    if 0 < share < 0.00005:
        return "<0.01"
    return f"{100 * share:.2f}" if share else "0"


def range_text(text: Callable[[float], str], low: float, high: float) -> str:
    """An interval in words, empty where there is none or nothing varies."""
    known = math.isfinite(low) and math.isfinite(high) and text(low) != text(high)
    return f"{text(low)} to {text(high)}" if known else ""


def ratio_cell(ratio: Ratio, *, muted: bool = False) -> Cell:
    """A ratio, and below it its interval where something varies."""
    spread = ratio.high > ratio.low
    return Cell(
        f"{ratio.mean:.2f}{TIMES}" if math.isfinite(ratio.mean) else NOT_COMPARABLE,
        note=range_text("{:.2f}".format, ratio.low, ratio.high) if spread else "",
        muted=muted,
    )
