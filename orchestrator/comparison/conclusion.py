"""What a benchmark comes to, in a sentence or two: who ends lowest, and whether that is certain."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.comparison.aggregates import FEW_SEEDS, few_seeds
from orchestrator.comparison.cells import TIMES, percent_text, range_text
from orchestrator.comparison.rank_tests import p_text, ranks
from orchestrator.comparison.results import Results

TWICE = 2
"""What is less than so many times as high is so many percent more."""


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
        said = f"{start}, {least}; of one seed there is no interval, so that it may be chance."
        return " ".join(filter(None, [said, _ranked(results), _few(results)]))
    level = [label for label in others if not results.ratio(label, first).low > 1]
    apart = [label for label in others if label not in level]
    said = f"{start}, less than all others"
    if level:
        said = f"{start}, and cannot be told apart from {_listed(results, level)}"
        wide = [
            label for label in level if apart and results.overall(label) > results.overall(apart[0])
        ]
        if wide:
            # Their mean is beyond that of a method which is surely higher: their seeds differ much.
            said += f", where seeds of {' and '.join(wide)} differ that much"
    if apart:
        what = "is" if len(apart) == 1 else "are the others, least of them"
        more = f"{_listed(results, apart[:1])}, {_more(results, apart[0], first)}"
        said += f"; surely higher {what} {more}" if level else f"; the next is {more}"
    said = f"{said}. In brackets: 95 % intervals due to the seeds."
    return " ".join(filter(None, [said, _ranked(results), _few(results)]))


def _ranked(results: Results) -> str:
    """What the problems say beside the seeds: who is told apart by ranks over them."""
    found = ranks(results)
    if found is None:
        return ""
    over = f"By ranks over these {found.problems} problems"
    if len(found.level) == len(found.labels) - 1:
        return f"{over} nothing shows that {found.labels[0]} is ahead on others, too."
    apart = [label for label in found.labels[1:] if label not in found.level]
    least = max(
        float(p) for label, p in zip(found.labels, found.holm, strict=True) if label in apart
    )
    ahead = "all others" if not found.level else listed(apart)
    said = f"{over} {found.labels[0]} is ahead of {ahead} (at most {p_text(least)})"
    if found.level:
        said += f"; that it is ahead of {listed(found.level)} on others, too, they do not show"
    return f"{said}."


def _few(results: Results) -> str:
    """Which methods have too few seeds for intervals that mean much."""
    few = few_seeds(results)
    if not few:
        return ""
    if len(few) == len(results.searchers):
        return f"All methods have fewer than {FEW_SEEDS} seeds."
    return f"Of fewer than {FEW_SEEDS} seeds: {listed(list(few))}."


def listed(names: Sequence[str]) -> str:
    """Names in a sentence; of more than six the first, and how many others there are."""
    if len(names) > 6:
        return f"{', '.join(names[:4])} and {len(names) - 4} others"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def budget_text(results: Results) -> str:
    """What each search had."""
    experiment = results.experiment
    if experiment.get("seconds") is not None:
        return f"{experiment['seconds']:g} s of search time"
    if experiment.get("visited") is not None:
        return f"{100 * experiment['visited']:g} % of the space"
    return f"{experiment['iterations']:,} iterations"


def _listed(results: Results, labels: list[str]) -> str:
    """Methods, each with how far above the reference it ends."""
    return " and ".join(f"{label} at {_end(results, label)}" for label in labels)


def _more(results: Results, label: str, first: str) -> str:
    """How much higher a method ends than another one."""
    ratio = results.ratio(label, first)
    if ratio.mean >= TWICE:
        said, spread = f"{ratio.mean:.3g}{TIMES} as high", (ratio.low, ratio.high)
        between = range_text("{:.3g}".format, *spread)
    else:
        said = f"{percent_text(ratio.mean - 1)} % more"
        between = range_text(percent_text, ratio.low - 1, ratio.high - 1)
    return f"{said} ({between})" if between else said


def _end(results: Results, label: str) -> str:
    """How far above the reference a method ends."""
    found = results.overall_interval(label, above=True)
    spread = range_text(percent_text, float(found.low), float(found.high))
    return f"{percent_text(float(found.mean))} %" + (f" ({spread})" if spread else "")
