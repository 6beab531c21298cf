"""The tables that a page may have of kept results."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mapspace.bounded_reading import read_json
from mapspace.errors import ConfigError, DataError
from orchestrator.comparison.cells import percent_text
from orchestrator.comparison.results import Ratio, Results
from orchestrator.comparison.tables import above_table, shown_in
from orchestrator.kept.results import AFTER
from orchestrator.report.document import LEFT, RIGHT, Cell, Row, Table
from orchestrator.runs.tables_file import origin, read_table

Options = Mapping[str, str]
_MOST = 0.0005


def workloads(found: Sequence[Results], options: Options) -> Table:
    """Where every method ends on every workload, and the optima."""
    results = _one(found, "workloads")
    table = above_table(results)
    labels = _labels(results, options)
    rows = [
        row for row, label in zip(table.rows, results.searchers, strict=True) if label in labels
    ]
    named = [(_named(results, label), *row[1:]) for row, label in zip(rows, labels, strict=True)]
    return replace(table, rows=named)


def means(found: Sequence[Results], options: Options) -> Table:
    """Where every method ends in every benchmark, over its workloads."""
    labels = dict.fromkeys(label for own in found for label in _labels(own, options))
    columns = [
        {label: results.overall_above(label) for label in results.searchers} for results in found
    ]
    rows: list[Row] = [
        (label, *(_share(column.get(label), column) for column in columns)) for label in labels
    ]
    header = (_above(found[0]), *(budget(results) for results in found))
    return Table("means", "", header, (LEFT, *[RIGHT] * len(found)), rows)


def queries(found: Sequence[Results], options: Options) -> Table:
    """How far every method is after so many queries, over the workloads."""
    results = _one(found, "queries")
    counts = _counts(results, options)
    labels = _labels(results, options)
    shares = {label: after(results, label, options) for label in labels}
    columns = [{label: float(shares[label][i]) for label in labels} for i in range(len(counts))]
    rows: list[Row] = []
    for label in labels:
        spent = results.column("seconds", label).sum() / results.column("iterations", label).sum()
        cells = [_share(column[label], column) for column in columns]
        rows.append((_named(results, label), *cells, f"{1000 * spent:.2g}"))
    header = (f"{_above(results)} after so many queries", *(f"{count:,}" for count in counts))
    formats = (LEFT, *[RIGHT] * (len(counts) + 1))
    return Table("queries", "", (*header, "ms a query"), formats, rows)


def ratios(found: Sequence[Results], options: Options) -> Table:
    """What others end at over what one method ends at, with 95 % intervals over the seeds."""
    results = _one(found, "ratios")
    over = options.get("over", "")
    if over not in results.searchers:
        raise ConfigError(f"over: expected one of {', '.join(results.searchers)}, got {over!r}.")
    counts = _counts(results, options) if "after" in options else []
    cut = [_cut(results, count) for count in counts] or [results]
    rows: list[Row] = []
    for label in _labels(results, options):
        if label == over:
            continue
        sure = min(len(np.unique(results.column("seed", own))) for own in (label, over)) > 1
        told = [own.ratio(label, over) for own in cut]
        rows.append((_named(results, label), *(_ratio(one, sure) for one in told)))
    header = (
        f"{results.objective_name} over that of {_named(results, over)}",
        *([f"after {count:,} queries" for count in counts] or [f"after {budget(results)}"]),
    )
    return Table("ratios", "", header, (LEFT, *[RIGHT] * len(cut)), rows)


def ends(found: Sequence[Results], options: Options) -> Table:
    """Where the searches of every method end on the one workload: of its seeds least to most."""
    results = _one(found, "ends")
    if len(results.workloads) != 1:
        raise ConfigError(f"ends: expected one workload, got {len(results.workloads)}.")
    factor, unit = shown_in(results)
    if unit == "s":
        factor, unit = 1e6 * factor, "us"
    labels = _labels(results, options)
    column = {label: results.overall_above(label) for label in labels}
    rows: list[Row] = []
    for label in labels:
        ends = factor * results.column("best_loss", label)
        texts = [f"{value:.4g}" for value in (ends.min(), np.median(ends), ends.mean(), ends.max())]
        rows.append((_named(results, label), *texts, _share(column[label], column)))
    header = (f"{results.objective_name}, {unit}", "best", "median", "mean", "worst")
    above = f"% above {results.reference_name}"
    return Table("ends", "", (*header, above), (LEFT, *[RIGHT] * 5), rows)


def spent(found: Sequence[Results], options: Options) -> Table:
    """What a search of every method spends."""
    results = _one(found, "spent")
    names = ("iterations", "true_queries", "surrogate_queries", "seconds")
    rows: list[Row] = [
        (
            _named(results, label),
            *(float(results.column(name, label).mean()) for name in names),  # type: ignore[arg-type]
        )
        for label in _labels(results, options)
    ]
    header = ("mean per search", "iterations", "true queries", "surrogate queries", "seconds")
    formats = (LEFT, "{:,.0f}", "{:,.0f}", "{:,.0f}", "{:.2g}")
    return Table("spent", "", header, formats, rows)


def rows(folders: Sequence[Path], options: Options) -> tuple[Table, str]:
    """A table that a run of another kind than a benchmark has as data, and what made it.

    Raises:
        ConfigError: there is no such folder, table or column.
        DataError: a file is damaged.
    """
    if len(folders) != 1:
        raise ConfigError(f"rows: expected one folder of results, got {len(folders)}.")
    columns = options.get("columns", "")
    if not re.fullmatch(r"(\d+(,\d+)*)?", columns):
        raise ConfigError(f"columns: expected numbers such as 1,2,5, got {columns!r}.")
    chosen = [int(text) for text in columns.split(",") if text]
    table = read_table(folders[0], options.get("key", ""), chosen)
    command, made = origin(folders[0])
    return table, f"`{command}`: {made}."


def card(files: Sequence[Path], options: Options) -> tuple[Table, str]:
    """What surrogates reached on cases that they never saw, as the cards beside their weights say.

    Raises:
        ConfigError: no part of a card is asked for, or one that it has not.
        DataError: a file is missing or damaged.
    """
    columns: dict[str, Mapping[str, float]] = {}
    for file in files:
        data = read_json(file, DataError)
        for part in options.get("parts", "").split("|"):
            if not isinstance(data.get(part), dict):
                known = ", ".join(name for name, value in data.items() if isinstance(value, dict))
                raise ConfigError(f"parts: expected some of {known}, got {part!r}.")
            columns[_CARD_PARTS.get(part, file.stem)] = data[part]
    rows: list[Row] = []
    for key, (name, shown) in _CARD_FIGURES.items():
        if any(key in column for column in columns.values()):
            told = (column.get(key) for column in columns.values())
            texts = ("" if value is None else shown.format(value) for value in told)
            rows.append((name, *(text.replace("%", " %") for text in texts)))
    names = ", ".join(f"`surrogate/weights/{file.name}`" for file in files)
    formats = (LEFT, *[RIGHT] * len(columns))
    return Table("card", "", ("", *columns), formats, rows), f"{names}, beside the weights."


_CARD_PARTS = {"held_out": "three levels", "deeper": "two and four levels"}
_CARD_FIGURES = {
    "rmse": ("RMSE of ln EDP", "{:.4f}"),
    "rmse_of_the_formula": ("of the formula without the networks", "{:.4f}"),
    "spearman": ("Spearman within a case, mean", "{:.5f}"),
    "spearman_worst": ("the worst case", "{:.5f}"),
    "spearman_best_tenth": ("mean among the best tenth", "{:.5f}"),
    "worst": ("the largest error", "{:.2f}"),
    "inside_90": ("truths in the 90 % interval", "{:.1%}"),
    "inside_90_where_unsure": ("the same where tiles slide", "{:.1%}"),
}

TABLES: Mapping[str, Callable[[Sequence[Results], Options], Table]] = {
    view.__name__: view for view in (workloads, means, queries, ratios, ends, spent)
}
OPTIONS = {
    "workloads": ("methods",),
    "means": ("methods",),
    "queries": ("methods", "after"),
    "ratios": ("methods", "after", "over"),
    "ends": ("methods",),
    "spent": ("methods",),
    "rows": ("key", "columns"),
    "card": ("parts",),
}
"""What a page may ask of each."""


def budget(results: Results) -> str:
    """A benchmark's budget in words."""
    experiment = results.experiment
    latency = experiment.get("query_latency") or 0.0
    query = f", {1000 * latency:g} ms a true query" if latency else ""
    if experiment.get("seconds") is not None:
        return f"{experiment['seconds']:g} s{query}"
    if experiment.get("visited") is not None:
        return f"{100 * experiment['visited']:g} % of the space"
    return f"{experiment['iterations']:,} queries{query}"


def _one(found: Sequence[Results], view: str) -> Results:
    if len(found) != 1:
        raise ConfigError(f"{view}: expected one folder of results, got {len(found)}.")
    return found[0]


def _labels(results: Results, options: Options) -> list[str]:
    """The methods asked for, in the experiment's order; all of them where none is named."""
    if "methods" not in options:
        return list(results.searchers)
    wanted = options["methods"].split("|")
    for label in wanted:
        if label not in results.searchers:
            known = ", ".join(results.searchers)
            raise ConfigError(f"methods: expected some of {known}, got {label!r}.")
    return wanted


def _counts(results: Results, options: Options) -> list[int]:
    """After how many queries is asked; all that are kept up to the budget where none is named."""
    most = results.experiment.get("iterations")
    known = [count for count in AFTER if most is None or count < most]
    known += [] if most is None else [most]  # how a curve ends is kept, too
    texts = options["after"].split(",") if "after" in options else [str(count) for count in known]
    if not {*texts} <= {*map(str, known)}:
        raise ConfigError(f"after: expected some of {known}, got {options['after']!r}.")
    return list(map(int, texts))


def after(results: Results, label: str, options: Options) -> list[float]:
    """How far a method is above the reference, over the workloads, after so many queries.

    Returns:
        One for each count of `after=`, or for all that are kept; nan beyond what was spent.
    """
    counts = _counts(results, options)
    shares = [
        results.curve_above(label, name, "evaluation", counts).mean for name in results.workloads
    ]
    return [float(value) for value in np.expm1(np.mean(np.log1p(shares), axis=0))]


def _cut(results: Results, count: int) -> Results:
    """The same searches, ended after so many queries."""
    runs = [replace(run, best_loss=float(run.at([count], "evaluation")[0])) for run in results.runs]
    return replace(results, runs=runs)


def _share(share: float | None, column: Mapping[str, float]) -> Cell:
    """A share in per cent, bold where it is the least of its column."""
    if share is None or not math.isfinite(share):
        return Cell("")
    least = min(value for value in column.values() if math.isfinite(value))
    return Cell(percent_text(share), strong=1 + share <= (1 + least) * (1 + _MOST / 100))


def _ratio(ratio: Ratio, sure: bool) -> str:
    """A ratio with its interval, which one seed of a method has not."""
    if not math.isfinite(ratio.mean):
        return ""
    spread = f" ({ratio.low:.3f} to {ratio.high:.3f})" if sure else ""
    return f"{ratio.mean:.3f}{spread}"


def _named(results: Results, label: str) -> str:
    """A method, with its seeds where it has another number than the others."""
    count = len(np.unique(results.column("seed", label)))
    if count == len(results.experiment["seeds"]):
        return label
    return f"{label}, {count} seed{'' if count == 1 else 's'}"


def _above(results: Results) -> str:
    return f"{results.objective_name}, % above {results.reference_name}"
