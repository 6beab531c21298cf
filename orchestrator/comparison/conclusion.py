"""What a benchmark comes to, in a sentence or two: who ends lowest, and whether that is certain."""

from __future__ import annotations

import math

from orchestrator.comparison.cells import TIMES, percent_text, range_text
from orchestrator.comparison.results import Results


def conclusion(results: Results) -> str:
    """Who ends lowest, by how much and after which budget; empty where nothing can be compared.

    Methods whose ratio to the lowest has 1 in its 95 % interval cannot be told apart from it.
    """
    known = [label for label in results.searchers if math.isfinite(results.overall(label))]
    if len(known) < 2:
        return ""
    first, *others = sorted(known, key=results.overall)
    start = (
        f"After {budget_text(results)} {first} ends {_end(results, first)} above "
        f"{results.reference_name} in {results.objective_name}"
    )
    if min(len(results.of(label, results.workloads[0])) for label in known) < 2:
        even = [label for label in others if results.overall(label) == results.overall(first)]
        least = f"as {' and '.join(even)} does" if even else "the least"
        return f"{start}, {least}; of one seed there is no interval, so that it may be chance."
    level = [label for label in others if not results.ratio(label, first).low > 1]
    apart = [label for label in others if label not in level]
    said = f"{start}, less than all others"
    if level:
        listed = "; ".join(f"{label}, {_end(results, label)}" for label in level)
        said = f"{start}, and cannot be told apart from {listed}"
    if apart:
        ratio = results.ratio(apart[0], first)
        spread = range_text("{:.3g}".format, ratio.low, ratio.high)
        said += f"; the next, {apart[0]}, {_end(results, apart[0])}: {ratio.mean:.3g}{TIMES}"
        said += f" as high ({spread})" if ratio.high > ratio.low else " as high"
    return f"{said}. In brackets: 95 % intervals due to the seeds."


def budget_text(results: Results) -> str:
    """What each search had."""
    experiment = results.experiment
    if experiment.get("seconds") is not None:
        return f"{experiment['seconds']:g} s of search time"
    if experiment.get("visited") is not None:
        return f"{100 * experiment['visited']:g} % of the space"
    return f"{experiment['iterations']:,} iterations"


def _end(results: Results, label: str) -> str:
    """How far above the reference a method ends."""
    found = results.overall_interval(label, above=True)
    spread = range_text(percent_text, float(found.low), float(found.high))
    return f"{percent_text(float(found.mean))} %" + (f" ({spread})" if spread else "")
