"""`mapspace report`: PNG figures and one self-contained HTML page of one or more benchmarks."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path

from costmodel.models import entry_of
from mapspace import storage
from mapspace.errors import ConfigError, MapspaceError
from orchestrator.comparison.cells import TIMES
from orchestrator.comparison.conclusion import budget_text, conclusion
from orchestrator.comparison.figures import FEWEST_SEEDS_OF_A_BAND, draw_curves, draw_final
from orchestrator.comparison.latency_replay import applies, bills_of
from orchestrator.comparison.latency_section import latency_blocks, paper_points
from orchestrator.comparison.many_runs import CURVES_FILE, RUNS_FILE
from orchestrator.comparison.paper_section import paper_tables
from orchestrator.comparison.results import Results
from orchestrator.comparison.results_files import (
    CERTIFICATES_FOLDER,
    RECORDS_FILE,
    SUMMARY_FILE,
    load,
)
from orchestrator.comparison.search_time import CLOCKS, shared_text
from orchestrator.comparison.statistics_section import statistics_blocks
from orchestrator.comparison.tables import (
    above_table,
    bounds_table,
    hyperparameters_table,
    matrix_table,
    normalised_table,
    reason_text,
    seeds_text,
    spent_table,
)
from orchestrator.report.document import LEFT, Document, Figure, Section, Table
from orchestrator.report.page import write_page
from orchestrator.report.text_table import table_lines, wrapped
from orchestrator.runs.kinds import why_no_report
from orchestrator.runs.locations import local_view
from orchestrator.runs.mlflow_client import TRACKING_FILE, attach

REPORT_FILE = "report.html"
FIGURES_FOLDER = "figures"
# Titles and captions of figures that belong to a cost model.
OWN_FIGURES = {
    "tilings": (
        "As in the paper on tilings",
        "Best so far over the share of the space that was visited and over search time (lines: "
        "medians over the seeds, bands: quartiles), and where the searches end (boxes: "
        "quartiles, whiskers: extremes, diamonds: means).",
    )
}


def find_results(folder: Path, source: storage.Place | None = None) -> dict[Path, Results]:
    """The benchmarks in a run folder: the folder itself, or those directly in it.

    Args:
        folder: the local folder.
        source: what it is a copy of, for messages; None: itself.

    Raises:
        ConfigError: there is none.
    """
    places = [folder] if (folder / SUMMARY_FILE).exists() else []
    if not places and folder.is_dir():
        places = sorted(path.parent for path in folder.glob(f"*/{SUMMARY_FILE}"))
    if not places:
        raise ConfigError(why_no_report(source or folder))
    found = {place: load(place) for place in places}
    # Iterations before time, as the paper has it.
    return dict(sorted(found.items(), key=lambda item: item[1].primary_axis))


def is_result(name: str) -> bool:
    """Whether a report needs a file, by its path from the folder of one run or of several."""
    *folders, file = name.split("/")
    if folders and folders[-1] == CERTIFICATES_FOLDER:
        return len(folders) <= 2
    files = (CURVES_FILE, RUNS_FILE, SUMMARY_FILE, RECORDS_FILE, TRACKING_FILE)
    return len(folders) <= 1 and file in files


def write_report(folder: storage.Place | str, *, tracking_uri: str | None = None) -> Path:
    """Writes the figures and the page.

    Args:
        folder: a benchmark's run folder, or a folder of several. What a URI names is copied to
            runs/remote first, and figures and page are written to both.
        tracking_uri: the MLflow store to add the page to; None: the folder's own.

    Returns:
        The page, the local one. That it could not be added to MLflow is a line on standard error.

    Raises:
        ConfigError: there is no finished benchmark.
        DataError: a file of results is damaged.
    """
    source = storage.place(folder)
    with local_view(source, is_result) as copy:
        found = find_results(copy, source)
        document, drawn = draw_report(found, copy)
        page = copy / REPORT_FILE
        for run, section in zip(found, document.sections, strict=False):
            figures = [drawn[figure.key] for figure in section.figures]
            try:
                attach(run, [page, *figures], tracking_uri=tracking_uri)
            except MapspaceError as error:
                print(f"Warning: {error}", file=sys.stderr)
    return page


def draw_report(
    found: dict[Path, Results], folder: Path, meanwhile: Callable[[], None] | None = None
) -> tuple[Document, dict[str, Path]]:
    """Writes the figures and the page of benchmarks that are at hand.

    Args:
        found: the benchmarks by their run folders.
        folder: where the page is to be.
        meanwhile: called while figures are drawn.

    Returns:
        What was drawn, and the figures' files by their keys.
    """
    document = benchmark_document(found, folder)
    page, figures = folder / REPORT_FILE, folder / FIGURES_FOLDER
    return document, write_page(document, page, figures, meanwhile)


def text_table(results: Results) -> str:
    """The final table of a benchmark for a terminal, in per cent above the optimum."""
    bounds = [results.bounds[name] for name in results.workloads]
    reasons = dict.fromkeys(
        reason_text(bound) for bound in bounds if not bound.proven and not bound.measured
    )
    return "\n".join(
        [
            *table_lines(above_table(results)),
            *(
                f"at most: above a lower bound; no optimum is proven: {reason}"
                for reason in reasons
            ),
            *wrapped(shared_text(results)),
            "",
            *wrapped(conclusion(results)),
        ]
    )


def benchmark_document(found: dict[Path, Results], folder: Path) -> Document:
    """The page of benchmarks by their run folders, a section each, and how they were measured.

    Args:
        found: the benchmarks.
        folder: the page's.
    """
    every = list(found.values())
    searches = sum(len(results.runs) for results in every)
    queries = sum(
        int(results.column(name, label).sum())
        for results in every
        for label in results.searchers
        for name in ("true_queries", "surrogate_queries")
    )
    count = "1 benchmark" if len(every) == 1 else f"{len(every)} benchmarks"
    sections = [_section(results, place, folder) for place, results in found.items()]
    ends = {str(results.experiment["name"]): conclusion(results) for results in every}
    said = [f"{name}: {end}" if len(every) > 1 else end for name, end in ends.items() if end]
    return Document(
        _title(every),
        "\n".join([*said, f"{count}, {searches:,} searches, {queries:,} cost queries."]),
        [*sections, _measuring(every[-1])],
    )


def _section(results: Results, place: Path, folder: Path) -> Section:
    name = str(results.experiment["name"])
    hollow = "" if results.proven else " Hollow: above a lower bound, as the optimum is not proven."
    blocks: list[str | Table | Figure | None] = [
        " ".join(str(results.experiment.get("description", "")).split()) or None,
        _setting(results),
        shared_text(results) or None,
        Figure(
            f"{name}-final",
            "How far above the optimum every method ends, per cent",
            partial(draw_final, results),
            "A dot is a workload (geometric mean over the seeds), the mark their geometric mean."
            + hollow,
            narrow=True,
        ),
        above_table(results),
        bounds_table(results, place, folder),
        *_curves(results, name),
        *statistics_blocks(results, name),
        *(latency_blocks(results, bills_of(results), name) if applies(results) else ()),
        normalised_table(results),
        *paper_tables(results),
        paper_points(results),
        matrix_table(results),
        spent_table(results),
        hyperparameters_table(results),
        *_shortcomings(results),
    ]
    return Section(name, [block for block in blocks if block is not None])


def _curves(results: Results, name: str) -> list[Figure]:
    """Best so far over what was spent, the axis of the budget first."""
    by_time = results.primary_axis == "seconds"
    scales = "Both axes are logarithmic, below 0.1 % linear down to 0, the optimum."
    iterations = Figure(
        f"{name}-iterations",
        "Best so far against iterations",
        partial(draw_curves, results, "evaluation"),
        f"{scales} Lines: geometric mean over the seeds; bands: its 95 % interval, cut at the "
        f"optimum, from {FEWEST_SEEDS_OF_A_BAND} seeds on. A line starts when every seed has a "
        "feasible mapping.",
    )
    time = Figure(
        f"{name}-time",
        "Best so far against search time",
        partial(draw_curves, results, "seconds"),
        f"The same searches over the time that they had taken, {CLOCKS[results.clock]}. "
        + (
            "All methods had the same time."
            if by_time
            else "Methods had the same iterations, so their lines end at different times."
        ),
    )
    figures = [time, iterations] if by_time else [iterations, time]
    own = [
        Figure(
            f"{name}-{key}",
            title,
            partial(pkgutil.resolve_name(drawn_by), results),
            caption,
        )
        for key, drawn_by in entry_of(results.experiment).figures.items()
        for title, caption in [OWN_FIGURES.get(key, (key, ""))]
    ]
    return [*own, *figures]


def _shortcomings(results: Results) -> list[str]:
    """What searches did not find or not finish, a paragraph each."""
    lost = {label: results.fruitless(label) for label in results.searchers}
    listed = "; ".join(f"{label}: {found.text}" for label, found in lost.items() if found.count)
    notes = []
    if listed:
        notes.append(
            "“n/a”: some searches found no mapping within their budget. The method has no mean "
            f"then, as one over its other searches could not be compared: {listed}."
        )
    failures = [
        f"{run.searcher} on {run.workload}, seed {run.seed}, after {run.iterations:,} "
        f"iterations: {run.failure}"
        for label in results.searchers
        for workload in results.workloads
        if results.column("failure", label, workload).any()
        for run in results.of(label, workload)
        if run.failure
    ]
    if failures:
        notes.append("Searches that ended before their budget, with the best they had:")
    return [*notes, *failures]


def _setting(results: Results) -> str:
    experiment = results.experiment
    device = f"accelerator {experiment['accelerator']}"
    if entry_of(results.experiment).measured:
        device = "measured on this machine"
    parts = [
        f"{len(results.searchers)} methods {TIMES} {len(results.workloads)} workloads {TIMES} "
        f"{seeds_text(results)}",
        f"{budget_text(results)} per search",
        device,
        f"objective {results.objective_name}",
        f"host “{experiment['host']}”: "
        + {
            "trials": "one Tune trial is whole searches",
            "blocks": "one Tune trial is a block of mappings",
            "pool": f"every search has {experiment.get('workers')} evaluators, out of order",
        }[experiment["host"]],
    ]
    if experiment.get("seconds") is not None:
        parts.append(f"seconds are {CLOCKS[results.clock]}")
    if experiment.get("query_latency"):
        parts.append(f"{experiment['query_latency']:g} s virtual latency per true query")
    return "; ".join(parts) + "."


def _title(found: Sequence[Results]) -> str:
    names = [str(results.experiment["name"]) for results in found]
    words = zip(*(name.split("-") for name in names), strict=False)
    common = [column[0] for column in takewhile(lambda column: len(set(column)) == 1, words)]
    # Of table1-iso-iteration and table1-iso-time the common part is table1-iso.
    return f"Mapping search compared: {'-'.join(common).removesuffix('-iso') or ', '.join(names)}"


def _measuring(results: Results) -> Section:
    """How all of it was measured, and by what."""
    made = results.provenance
    provenance = Table(
        "provenance",
        "",
        ("", ""),
        (LEFT, LEFT),
        [
            ("cost model", f"{made['model']}, version {made['model_version']}"),
            *((f"plug-in: {what}", name) for what, name in (made.get("plugins") or {}).items()),
            ("mapspace", str(made["mapspace"])),
            ("Python, Ray", f"{made['python']}, {made['ray']}"),
            *((name, str(made[name])) for name in ("commit", "processor") if made.get(name)),
            ("processors", str(made["processors"])),
            ("finished", str(made["finished"])),
        ],
    )
    return Section(
        "How it was measured",
        [
            "All methods search the same map spaces, are counted and timed by the same evaluator, "
            "and see only mappings that fit (the check of fan-out and capacities is free for all "
            "of them). The clock runs while a method computes and while its queries are answered; "
            "it stands while a curve is recorded or a checkpoint written. Averages are geometric, "
            "over seeds and over workloads; the paper averaged the EDP itself over 100 runs. Bands "
            "and intervals are Student's t on logarithms, 95 %, where nothing else is said.",
            "Default settings of the methods were tuned on problems of Table 1 of Mind Mappings; "
            "`mapspace benchmark held-out` runs them on layers that no tuning saw.",
            provenance,
        ],
    )
