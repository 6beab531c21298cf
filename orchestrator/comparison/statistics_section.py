"""What of a benchmark is sure: targets, middle halves, ranks and tests, as blocks of its page."""

from __future__ import annotations

import math
from functools import partial

from orchestrator.comparison.aggregates import few_seeds, improves, interquartile, shares
from orchestrator.comparison.cells import method_cell, percent_text, range_text
from orchestrator.comparison.rank_tests import LEVEL, Ranks, p_text, per_problem, ranks
from orchestrator.comparison.results import NOT_COMPARABLE, Results
from orchestrator.comparison.statistics_figures import draw_ranks, draw_reached
from orchestrator.comparison.targets import TARGETS, arrivals, known_workloads
from orchestrator.report.document import LEFT, RIGHT, Cell, Figure, Row, Table

Blocks = list[str | Table | Figure | None]


def statistics_blocks(results: Results, name: str) -> Blocks:
    """The blocks, in the order of reading; none where one method stands alone."""
    if len(results.searchers) < 2:
        return []
    found = ranks(results)
    blocks: Blocks = []
    if known_workloads(results):
        blocks += [
            Figure(
                f"{name}-reached",
                "Targets reached, and where searches end",
                partial(draw_reached, results),
                "Left: the share of all runs and targets (within "
                f"{', '.join(map(_target, TARGETS))} of the optimum) that a method has reached; it "
                "ends where its budget does. Right: the share of its searches that end within so "
                "much of the optimum. Problems count alike.",
            ),
            targets_table(results),
        ]
    if found is not None:
        blocks.append(
            Figure(
                f"{name}-ranks",
                "Average ranks",
                partial(draw_ranks, results, found),
                "1 is the lowest loss. Methods beside one black bar are not told apart (Nemenyi, "
                "95 %).",
                narrow=True,
            )
        )
    return [*blocks, sure_table(results, found), problems_table(results, found)]


def sure_metrics(results: Results, label: str) -> dict[str, float]:
    """What of it MLflow keeps of a method, in a section of its own: what is finite."""
    middle = interquartile(shares(results, label))
    found = {
        f"sure/middle_half{end}": 100 * value
        for end, value in zip(("", "_low", "_high"), middle, strict=True)
    }
    if known_workloads(results):
        unit = "seconds" if results.primary_axis == "seconds" else "queries"
        expected = arrivals(results, label).expected
        for share, value in zip(TARGETS, expected, strict=True):
            found[f"sure/{unit}_until_within_{100 * share:g}_percent"] = float(value)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def targets_table(results: Results) -> Table:
    """Expected spending until a target is reached, and in how many runs it was."""
    by_time = results.primary_axis == "seconds"
    text = "{:.3g} s" if by_time else "{:,.0f}"
    rows: list[Row] = []
    for label in results.searchers:
        found = arrivals(results, label)
        cells = [
            Cell(
                text.format(expected) if math.isfinite(expected) else NOT_COMPARABLE,
                note=f"{int(reached)} of {len(found.spent)}",
            )
            for expected, reached in zip(found.expected, found.reached, strict=True)
        ]
        rows.append((method_cell(results, label), *cells))
    known = known_workloads(results)
    left = len(results.workloads) - len(known)
    return Table(
        "targets",
        "Until a target is reached",
        (
            f"expected {'seconds' if by_time else 'queries'} until within",
            *map(_target, TARGETS),
        ),
        (LEFT, *[RIGHT] * len(TARGETS)),
        rows,
        note="What all runs spent until they were there, with those that never arrived, over how "
        "many arrived (below): ERT, as COCO has it, over all problems together"
        + (f"; {left} whose optimum is not proven are left out." if left else "."),
        brief=False,
    )


def sure_table(results: Results, found: Ranks | None) -> Table:
    """Middle halves with intervals, and ranks with what the tests say of them."""
    strata = {label: shares(results, label) for label in results.searchers}
    middle = {label: interquartile(own) for label, own in strata.items()}
    finite = [one for one in middle.values() if math.isfinite(one.value)]
    best = min(finite, key=lambda one: one.value).value if finite else math.nan
    first = found.labels[0] if found else min(middle, key=lambda one: middle[one].value)
    few = few_seeds(results)
    rows: list[Row] = []
    for label in results.searchers:
        own = middle[label]
        spread = range_text(percent_text, own.low, own.high)
        seeds = f"{few[label]} seed{'s' * (few[label] > 1)}" if label in few else ""
        cell = Cell(percent_text(own.value), note=spread, strong=own.value == best)
        rank = p = ""
        if found:
            place = found.labels.index(label)
            rank = f"{found.average[place]:.2f}"
            p = "" if label == first else p_text(float(found.holm[place]))
        chance = "" if label == first else f"{100 * improves(strata[label], strata[first]):.0f} %"
        rows.append((method_cell(results, label), cell, chance, rank, p, seeds))
    friedman = (
        "" if found is None else f" Friedman's test that all are level: {p_text(found.friedman)}."
    )
    return Table(
        "sure",
        "How sure it is",
        (
            f"{results.objective_name}, % above {results.reference_name}",
            "middle half",
            f"ends lower than {first}",
            "rank",
            f"level with {first}, p",
            "few seeds",
        ),
        (LEFT, *[RIGHT] * 5),
        rows,
        note="Middle half: geometric mean of the searches between the quartiles, below it the 95 % "
        "interval by resampling seeds within every problem (rliable's interquartile mean). Ends "
        "lower: the chance that a search does, ties half. Rank: average over problems; p: adjusted "
        f"for being several (Holm); below {LEVEL:g} a method is told apart.{friedman}",
        brief=False,
    )


def problems_table(results: Results, found: Ranks | None) -> Table | None:
    """Per problem, every method over the first in rank, paired by seed; None without six seeds.

    Wilcoxon's test cannot say less than 1/16 of five pairs.
    """
    if found is None:
        return None
    first = found.labels[0]
    labels = [
        label
        for label in results.searchers
        if label != first
        and label not in few_seeds(results)
        and len(results.of(label, results.workloads[0])) > 5
    ]
    if not labels or first in few_seeds(results):
        return None
    rows: list[Row] = []
    for label in labels:
        cells = [
            Cell(f"{ratio:.3f}", note=p_text(p), strong=p < LEVEL)
            for _, ratio, p in per_problem(results, label, first)
        ]
        rows.append((method_cell(results, label), *cells))
    return Table(
        "problems",
        f"Problem by problem, over {first}",
        (f"loss over that of {first}", *results.workloads),
        (LEFT, *[RIGHT] * len(results.workloads)),
        rows,
        note="Geometric means of pairs with the same seed; below them p of Wilcoxon's signed-rank "
        f"test, adjusted for the problems (Holm); bold: below {LEVEL:g}.",
        brief=False,
    )


def _target(share: float) -> str:
    return f"{100 * share:g} %" if share else "the optimum"
