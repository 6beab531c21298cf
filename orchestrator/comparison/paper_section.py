"""The report's section on the gradient search against its baselines, beside the paper's ratios."""

from __future__ import annotations

from orchestrator.comparison.cells import TIMES, ratio_cell
from orchestrator.comparison.latency_figure import span
from orchestrator.comparison.paper_ratios import (
    FASTER_PER_STEP,
    NAMES,
    PAPERS_MACHINE,
    RATIOS,
    Comparison,
    compare,
    gradient_settings,
    off_terms,
    replays,
)
from orchestrator.comparison.results import Results
from orchestrator.report.document import LEFT, RIGHT, Cell, Table

PAPERS = "the paper's settings"
OURS = "our settings"
OUR_METHOD = "our settings, not the paper's"
IN_THE_PAPER = "over Mind Mappings (MM),\nin the paper"


def paper_tables(results: Results) -> list[Table]:
    """The tables; none where no gradient search was run beside a baseline."""
    comparisons = compare(results)
    if not comparisons:
        return []
    settings = gradient_settings(results)
    why = off_terms(results)
    ratios = Table(
        "paper",
        "Every baseline over the gradient search" + ("" if why else ", beside the paper's ratios"),
        (
            "baseline",
            *(f"over {label},\n{PAPERS if own else OURS}" for label, own in settings.items()),
            IN_THE_PAPER,
        ),
        (LEFT, *[RIGHT] * (len(settings) + 1)),
        [
            (
                found.label,
                *map(ratio_cell, found.ratios.values()),
                Cell(None, muted=True) if why else _paper(found),
            )
            for found in comparisons
        ],
        note=_note(results, why),
    )
    replayed = _replays(results, [label for label, papers in settings.items() if papers])
    return [ratios, *([] if replayed is None else [replayed])]


def _paper(found: Comparison) -> Cell:
    text = OUR_METHOD if found.paper is None else f"{found.paper:.2f}{TIMES}"
    return Cell(text, muted=True)


def _note(results: Results, why: str) -> str:
    """What the ratios are, and what the paper's are or why they are not given."""
    ours = (
        "Ratio of final EDP, baseline over gradient search, with its 95 % interval; above 1 the "
        "baseline is worse. "
        if results.objective_name == "EDP"
        else f"Ratio of final {results.objective_name}, baseline over gradient search. "
    )
    tuned = (
        "Methods with our settings are this project's own: their defaults were tuned on problems "
        "of the paper's Table 1."
    )
    if why:
        return f"{ours}The paper's ratios do not stand beside them: {why}. {tuned}"
    axis = results.primary_axis
    what = "iso-time (until MM converged, 62.5 s)" if axis == "seconds" else "iso-iteration"
    listed = ", ".join(f"{NAMES[name]} {ratio:.2f}{TIMES}" for name, ratio in RATIOS[axis].items())
    latency = results.experiment.get("query_latency", 0.0)
    query = f", and {span(latency)} of virtual time per true query" if latency else ""
    return (
        f"{ours}The right column is what the paper (Mind Mappings, ASPLOS 2021, section 5.4) "
        f"reports as {what}: {listed}. It belongs to the columns with {PAPERS} only. What "
        f"still differs here: {_machine(results)}the cost model, the surrogate (ours, with another "
        f"network and fewer samples) and the paper's arithmetic mean over 100 runs{query}. {tuned}"
    )


def _machine(results: Results) -> str:
    """What the machine lacks of the paper's, as the start of a list."""
    if results.experiment["accelerator"] == PAPERS_MACHINE:
        return ""
    return (
        f"the machine {results.experiment['accelerator']}, whose buffers have no banks, so that "
        "their allocation, two of the paper's attributes of a mapping, is not searched; "
    )


def _replays(results: Results, variants: list[str]) -> Table | None:
    """The same under equal time; None where it cannot be replayed on the paper's terms."""
    found = replays(results)
    if not found:
        return None
    labels = [c.label for c in found[0].comparisons if c.paper is not None]
    by_label = [{c.label: c for c in replay.comparisons} for replay in found]
    most = float(results.experiment["iterations"])
    names = (
        f"{replay.query},\n{span(replay.latency)} per query,\n"
        f"{min(replay.seconds / replay.latency, most):,.0f} queries"
        for replay in found
    )
    return Table(
        "paper-time",
        "Under equal time, at the cost of the paper's query",
        ("baseline", "over", *names, IN_THE_PAPER),
        (LEFT, LEFT, *[RIGHT] * (len(found) + 1)),
        [
            (
                label,
                variant,
                *(ratio_cell(column[label].ratios[variant]) for column in by_label),
                _paper(by_label[0][label]),
            )
            for variant in variants
            for label in labels
        ],
        note=f"The same searches after {span(found[0].seconds)}, when the last gradient search had "
        "spent its queries of the surrogate, had a true query taken so long: a baseline has made "
        "as many as then fit, less what its own computing took. Timeloop answered 6 to 134 times a "
        "second on convolutions of Table 1. In the paper a step of annealing is "
        f"{FASTER_PER_STEP:g} times as slow as one of the gradient search; the last kind of query "
        "is that much slower than a step of the gradient searches here.",
    )
