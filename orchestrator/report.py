"""`mapspace report`: PNG figures and one self-contained HTML page of one or more benchmarks."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from costmodel.errors import ConfigError
from orchestrator.latency import applies, bills_of
from orchestrator.places import local_copy, publish
from orchestrator.proofs import CERTIFICATES_FOLDER
from orchestrator.results import (
    CURVES_FILE,
    NOTHING,
    SUMMARY_FILE,
    Axis,
    Bounds,
    Interval,
    Ratio,
    Results,
    load,
    percent_text,
)
from orchestrator.tracking import TRACKING_FILE, attach
from orchestrator.worlds import unit_of
from surrogate import storage

REPORT_FILE = "report.html"
FIGURES_FOLDER = "figures"
TEMPLATE = "report.html.jinja"

# Mind Mappings (MM), section 5.4: how many times lower MM's EDP is than that of its baselines.
PAPER_RATIOS: dict[Axis, dict[str, float]] = {
    "evaluation": {"annealing": 1.40, "genetic": 1.76, "ddpg": 1.29},
    "seconds": {"annealing": 3.16, "genetic": 4.19, "ddpg": 2.90},
}
PAPER_NAMES = {
    "annealing": "simulated annealing (SA)",
    "genetic": "genetic algorithm (GA)",
    "ddpg": "reinforcement learning (RL)",
}
PAPER_METHOD = "gradient"

TIMES = "\N{MULTIPLICATION SIGN}"


def find_results(folder: Path) -> dict[Path, Results]:
    """The benchmarks in a run folder: the folder itself, or those directly in it.

    Raises:
        ConfigError: there is none.
    """
    places = [folder] if (folder / SUMMARY_FILE).exists() else []
    if not places and folder.is_dir():
        places = sorted(path.parent for path in folder.glob(f"*/{SUMMARY_FILE}"))
    if not places:
        raise ConfigError(f"{folder}: holds no finished benchmark (no {SUMMARY_FILE}).")
    found = {place: load(place) for place in places}
    # Iterations before time, as the paper has it.
    return dict(sorted(found.items(), key=lambda item: item[1].primary_axis))


def is_result(name: str) -> bool:
    """Whether a report needs a file, by its path from the folder of one run or of several."""
    *folders, file = name.split("/")
    if folders and folders[-1] == CERTIFICATES_FOLDER:
        return len(folders) <= 2
    return len(folders) <= 1 and file in (CURVES_FILE, SUMMARY_FILE, TRACKING_FILE)


def write_report(folder: storage.Place | str) -> Path:
    """Writes the figures and the page.

    Args:
        folder: a benchmark's run folder, or a folder of several. What a URI names is copied to
            runs/remote first, and figures and page are written to both.

    Returns:
        The page, the local one.

    Raises:
        ConfigError: there is no finished benchmark.
        DataError: a file of results is damaged.
    """
    import jinja2

    from orchestrator.plots import draw_curves, draw_final

    source = storage.place(folder)
    folder = local_copy(source, is_result)
    found = find_results(folder)
    figures = folder / FIGURES_FOLDER
    figures.mkdir(exist_ok=True)
    sections, drawn = [], {}
    for place, results in found.items():
        name = str(results.experiment["name"])
        files = {
            "final": figures / f"{name}-final.png",
            "evaluation": figures / f"{name}-iterations.png",
            "seconds": figures / f"{name}-time.png",
        }
        draw_final(results, files["final"])
        draw_curves(results, "evaluation", files["evaluation"])
        draw_curves(results, "seconds", files["seconds"])
        if results.experiment.get("model") in ("tiling", "tvm"):
            from orchestrator.tiling_plots import draw_tilings

            files["tilings"] = figures / f"{name}-tilings.png"
            draw_tilings(results, files["tilings"])
        section = _section(results, files)
        if applies(results):
            from orchestrator.latency_report import latency_section

            files["latency"] = figures / f"{name}-latency.png"
            section["pays"] = latency_section(results, bills_of(results), files["latency"])
            section["pays"]["image"] = _image(files["latency"])
        section["bounds"] = [
            _bound(results, name, place, place.relative_to(folder)) for name in results.workloads
        ]
        sections.append(section)
        drawn[place] = list(files.values())
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = folder / REPORT_FILE
    partial = folder / f".{REPORT_FILE}.partial"
    partial.write_text(
        environment.get_template(TEMPLATE).render(
            title=_title(list(found.values())),
            subtitle=_subtitle(list(found.values())),
            sections=sections,
            provenance=_provenance(list(found.values())),
        ),
        encoding="utf-8",
    )
    os.replace(partial, page)
    images = [file for files_of in drawn.values() for file in files_of]
    publish(folder, [str(file.relative_to(folder)) for file in (*images, page)], source)
    for run, files_of in drawn.items():
        attach(run, [page, *files_of])
    return page


def text_table(results: Results) -> str:
    """The final table of a benchmark for a terminal, in per cent above the optimum."""
    from orchestrator.plots import shown_labels

    shown = shown_labels(results)
    what = "the optimum" if "lower" in results.reference_name else results.reference_name
    header = [f"{results.objective_name}, % above {what}", *_columns(results), "mean"]
    rows = [
        [
            shown[label],
            *(percent_text(float(results.above(label, name).mean)) for name in results.workloads),
            percent_text(results.overall_above(label)),
        ]
        for label in results.searchers
    ]
    bounds = [results.bounds[name] for name in results.workloads]
    unit = unit_of(results.experiment)
    unproven = results.reference_name if bounds[0].measured else "lower bound"
    for reference, proven in (("proven optimum", True), (unproven, False)):
        if any(bound.proven == proven for bound in bounds):
            cells = [f"{b.reference:.5g}" if b.proven == proven else NOTHING for b in bounds]
            rows.append([f"{reference}, {unit}", *cells, ""])
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
    ]
    reasons = dict.fromkeys(
        _reason(bound) for bound in bounds if not bound.proven and not bound.measured
    )
    lines += [f"at most: above a lower bound; no optimum is proven: {reason}" for reason in reasons]
    return "\n".join(lines)


def paper_comparison(results: Results) -> list[tuple[str, dict[str, Ratio], float]]:
    """Baselines of the paper that were run here, over each variant of the gradient searcher.

    Returns:
        Per baseline its label, our ratios by the gradient variant's label, and the paper's ratio.
    """
    names = {entry["label"]: entry["name"] for entry in results.experiment["searchers"]}
    variants = [label for label in results.searchers if names[label] == PAPER_METHOD]
    if not variants:
        return []
    return [
        (
            label,
            {variant: results.ratio(label, variant) for variant in variants},
            PAPER_RATIOS[results.primary_axis].get(names[label], math.nan),
        )
        for label in results.searchers
        if names[label] != PAPER_METHOD
    ]


def _section(results: Results, files: dict[str, Path]) -> dict[str, Any]:
    from orchestrator.latency_report import paper_points
    from orchestrator.plots import shown_labels, styles

    look = styles(results)
    shown = shown_labels(results)
    by_time = results.primary_axis == "seconds"
    labels = results.searchers
    scales = "Both axes are logarithmic, below 0.1 % linear down to 0, the optimum."
    figures = {
        "evaluation": (
            "Best so far against iterations",
            f"{scales} Lines: geometric mean over the seeds; bands: its 95 % interval, cut at the "
            "optimum, from four seeds on. A line starts when every seed has a feasible mapping.",
        ),
        "seconds": (
            "Best so far against search time",
            "The same searches over the time that they had taken. "
            + (
                "All methods had the same time."
                if by_time
                else "Methods had the same iterations, so their lines end at different times."
            ),
        ),
    }
    order = ["seconds", "evaluation"] if by_time else ["evaluation", "seconds"]
    if "tilings" in files:
        figures["tilings"] = (
            "As in the paper on tilings",
            "Best so far over the share of the space that was visited and over search time (lines: "
            "medians over the seeds, bands: quartiles), and where the searches end (boxes: "
            "quartiles, whiskers: extremes, diamonds: means).",
        )
        order.insert(0, "tilings")
    comparison = paper_comparison(results)
    return {
        "heading": results.experiment["name"],
        "description": " ".join(str(results.experiment.get("description", "")).split()),
        "setting": _setting(results),
        "objective": results.objective_name,
        "proven": results.proven,
        "seeds": _seeds(results),
        "workloads": results.workloads,
        "columns": _columns(results),
        "labels": labels,
        "final": _image(files["final"]),
        "figures": [
            {
                "heading": figures[axis][0],
                "caption": figures[axis][1],
                "image": _image(files[axis]),
            }
            for axis in order
        ],
        "above": _rows(results, results.above, results.overall_above, percent_text),
        "normalised": _rows(results, results.final, results.overall, _number),
        "references": [
            {"label": label, "cells": cells, "overall": mean}
            for label, cells, mean in _references(results)
        ],
        "paper_columns": list(comparison[0][1]) if comparison else [],
        "paper": [
            {
                "label": label,
                "cells": [_ratio(ratio) for ratio in ratios.values()],
                "paper": f"{paper:.2f}{TIMES}" if math.isfinite(paper) else NOTHING,
            }
            for label, ratios, paper in comparison
        ],
        "paper_note": _paper_note(results),
        "paper_points": paper_points(results),
        "pays": None,
        "matrix": [
            {
                "label": shown[label],
                "colour": look[label].colour,
                "cells": [
                    {**_ratio(results.ratio(label, other)), "own": label == other}
                    for other in labels
                ],
            }
            for label in labels
        ],
        "spent": [_spent(results, label, look[label].colour) for label in labels],
        "failures": [
            f"{run.searcher} on {run.workload}, seed {run.seed}, after {run.iterations:,} "
            f"iterations: {run.failure}"
            for run in results.runs
            if run.failure
        ],
    }


def _columns(results: Results) -> list[str]:
    """Names of the workloads; those whose optimum is not proven are marked."""
    return [
        name
        if results.bounds[name].proven or results.bounds[name].measured
        else f"{name} (at most)"
        for name in results.workloads
    ]


def _rows(
    results: Results,
    final: Callable[[str, str], Interval],
    overall: Callable[[str], float],
    text: Callable[[float], str],
) -> list[dict[str, Any]]:
    """A row per searcher of a table of final losses, in the measure that the functions give."""
    from orchestrator.plots import shown_labels, styles

    look = styles(results)
    shown = shown_labels(results)
    labels = results.searchers
    # Normalised, in either measure: shares above the optimum may be as good as 0.
    best = {
        name: _best({label: float(results.final(label, name).mean) for label in labels})
        for name in results.workloads
    }
    best_overall = _best({label: results.overall(label) for label in labels})
    rows = []
    for label in labels:
        finals = {name: final(label, name) for name in results.workloads}
        rows.append(
            {
                "label": shown[label],
                "colour": look[label].colour,
                "overall": text(overall(label)),
                "best": label in best_overall,
                "cells": [
                    {
                        "mean": text(float(interval.mean)),
                        "range": _range(text, float(interval.low), float(interval.high)),
                        "best": label in best[name],
                    }
                    for name, interval in finals.items()
                ],
            }
        )
    return rows


def _bound(results: Results, name: str, place: Path, relative: Path) -> dict[str, Any]:
    """What a workload's column is measured against, and where that is proven."""
    bounds = results.bounds[name]
    certificate = bounds.certificate
    link = None
    if certificate is not None and (place / certificate).is_file():
        link = quote((relative / certificate).as_posix())
    if bounds.measured:
        status = "the best measured in this run; what is least nobody knows"
    elif not bounds.proven:
        status = f"a lower bound; the optimum is not proven ({_reason(bounds)})"
    elif bounds.note or bounds.proof_seconds is None:
        status = "the optimum, from the table of proven ones"
    else:
        status = f"the optimum, proven in {bounds.proof_seconds:.2f} s"
    return {
        "workload": name,
        "value": f"{bounds.reference:.10g}",
        "unit": unit_of(results.experiment),
        "status": status,
        "link": link,
    }


def _reason(bounds: Bounds) -> str:
    """Why an optimum is not proven; runs from before there were proofs do not say."""
    return bounds.note.rstrip(".") or "no proof was tried"


def _paper_note(results: Results) -> str:
    axis = results.primary_axis
    what = "iso-time (until MM converged, 62.5 s)" if axis == "seconds" else "iso-iteration"
    ratios = ", ".join(
        f"{PAPER_NAMES[name]} {value:.2f}{TIMES}" for name, value in PAPER_RATIOS[axis].items()
    )
    latency = results.experiment.get("query_latency", 0.0)
    speed = (
        f"{latency:g} s of virtual time per true query"
        if latency
        else "a cost model that answers in microseconds where the paper's took a process per "
        "query, on which its iso-time ratios rest"
    )
    return (
        "Ratio of final EDP, baseline over gradient search; above 1 the baseline is worse. The "
        "right column is what the paper (Mind Mappings, ASPLOS 2021, section 5.4) reports as "
        f"{what} for its own implementations on its own cost model: {ratios}. The figures "
        f"here come from other implementations, another budget and {speed}."
    )


def _seeds(results: Results) -> str:
    """How many seeds the methods have, those apart that have another number."""
    shared = len(results.experiment["seeds"])
    counts = {
        label: len({run.seed for run in results.runs if run.searcher == label})
        for label in results.searchers
    }
    others = ", ".join(f"{label}: {n}" for label, n in counts.items() if n != shared)
    return f"{shared} seeds" + (f" ({others})" if others else "")


def _setting(results: Results) -> str:
    experiment = results.experiment
    if experiment.get("seconds") is not None:
        budget = f"{experiment['seconds']:g} s of search time"
    elif experiment.get("visited") is not None:
        budget = f"{100 * experiment['visited']:g} % of the space"
    else:
        budget = f"{experiment['iterations']:,} iterations"
    device = f"accelerator {experiment['accelerator']}"
    if results.measured:
        device = "measured on this machine"
    parts = [
        f"{len(results.searchers)} methods {TIMES} {len(results.workloads)} workloads {TIMES} "
        f"{_seeds(results)}",
        f"{budget} per search",
        device,
        f"objective {results.objective_name}",
        f"host “{experiment['host']}”: "
        + (
            "one Tune trial is whole searches"
            if experiment["host"] == "trials"
            else "one Tune trial is a block of mappings"
        ),
    ]
    if experiment.get("query_latency"):
        parts.append(f"{experiment['query_latency']:g} s virtual latency per true query")
    return "; ".join(parts) + "."


def _references(results: Results) -> list[tuple[str, list[str], str]]:
    """Rows of the bounds, normalised: label, a cell per workload, the geometric mean."""
    rows = []
    for label, field in (("optimum (proven)", "optimum"), ("floor", "floor")):
        values = [getattr(results.bounds[name], field) for name in results.workloads]
        if all(value is None for value in values):
            continue
        shares = [
            math.nan if value is None else value / results.bounds[name].minimum
            for name, value in zip(results.workloads, values, strict=True)
        ]
        mean = float(np.exp(np.mean(np.log(shares))))
        rows.append((label, [_number(share) for share in shares], _number(mean)))
    return rows


def _spent(results: Results, label: str, colour: str) -> dict[str, Any]:
    runs = [run for run in results.runs if run.searcher == label]
    entry = next(e for e in results.experiment["searchers"] if e["label"] == label)
    settings = [f"preset={entry['preset']}"] if entry["preset"] else []
    settings += [f"{key}={value}" for key, value in entry["parameters"].items()]
    seconds = float(np.mean([run.seconds for run in runs]))
    iterations = float(np.mean([run.iterations for run in runs]))
    return {
        "label": label,
        "colour": colour,
        "searcher": " ".join([entry["name"], *settings]),
        "iterations": f"{iterations:,.0f}",
        "true_queries": f"{np.mean([run.true_queries for run in runs]):,.0f}",
        "surrogate_queries": f"{np.mean([run.surrogate_queries for run in runs]):,.0f}",
        "seconds": f"{seconds:.3g}",
        "rate": f"{iterations / seconds:,.0f}" if seconds > 0 else "",
    }


def _title(found: Sequence[Results]) -> str:
    names = [str(results.experiment["name"]) for results in found]
    words = zip(*(name.split("-") for name in names), strict=False)
    common = [column[0] for column in takewhile(lambda column: len(set(column)) == 1, words)]
    # Of table1-iso-iteration and table1-iso-time the common part is table1-iso.
    return f"Mapping search compared: {'-'.join(common).removesuffix('-iso') or ', '.join(names)}"


def _subtitle(found: Sequence[Results]) -> str:
    searches = sum(len(results.runs) for results in found)
    queries = sum(run.true_queries + run.surrogate_queries for r in found for run in r.runs)
    count = "1 benchmark" if len(found) == 1 else f"{len(found)} benchmarks"
    return f"{count}, {searches:,} searches, {queries:,} cost queries."


def _provenance(found: Sequence[Results]) -> list[tuple[str, str]]:
    last = found[-1].provenance
    return [
        ("cost model", f"{last['model']}, version {last['model_version']}"),
        ("mapspace", str(last["mapspace"])),
        ("Python, Ray", f"{last['python']}, {last['ray']}"),
        ("processors", str(last["processors"])),
        ("finished", str(last["finished"])),
    ]


def _best(values: dict[str, float]) -> set[str]:
    """The labels of the least value, up to what a table shows."""
    finite = [value for value in values.values() if math.isfinite(value)]
    return {label for label, value in values.items() if finite and value <= 1.0005 * min(finite)}


def _ratio(ratio: Ratio) -> dict[str, str]:
    spread = ratio.high > ratio.low
    return {
        "mean": f"{ratio.mean:.2f}{TIMES}",
        "range": _range("{:.2f}".format, ratio.low, ratio.high) if spread else "",
    }


def _range(text: Callable[[float], str], low: float, high: float) -> str:
    return f"{text(low)} to {text(high)}" if math.isfinite(low) and math.isfinite(high) else ""


def _number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else NOTHING


def _image(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
