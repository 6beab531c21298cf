"""Figures of a benchmark, in per cent above the optimum: curves and where every search ends."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from orchestrator.comparison.results import NOT_COMPARABLE, Axis, Results
from orchestrator.report.figure_style import INK, MUTED, percent_ticks, plain_figure, save, styled
from orchestrator.report.light_ticks import Inches, decades, set_ticks
from orchestrator.report.palette import Style, method_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4

# Inches that an entry of a legend takes: its line, a letter of its label, and its height.
LEGEND_LINE = 0.7
LEGEND_LETTER = 0.07
LEGEND_ROW = 0.22

# Of panels of curves; above them is the legend.
CURVES = Inches(2.9, 2.3, left=0.66, right=0.12, bottom=0.52, top=0.36, beside=0.46, between=0.68)

# Intervals of fewer seeds span the whole picture and say nothing.
FEWEST_SEEDS_OF_A_BAND = 8


def styles(results: Results) -> dict[str, Style]:
    """A style per label, as whoever watched the run has seen it."""
    return method_styles((one["label"], one["name"]) for one in results.experiment["searchers"])


def shown_labels(results: Results) -> dict[str, str]:
    """A text per label: the label, with the iterations of a method that has fewer than others."""
    own = {entry["label"]: entry.get("iterations") for entry in results.experiment["searchers"]}
    return {
        label: f"{label} (after {own[label]:,})" if own.get(label) else label
        for label in results.searchers
    }


@styled
def draw_curves(results: Results, axis: Axis, path: Path) -> None:
    """Best-so-far in per cent above the optimum, a panel per workload, 95 % bands over the seeds.

    Args:
        results: the benchmark.
        axis: `evaluation` or `seconds`; logarithmic.
        path: PNG to write.
    """
    look = styles(results)
    workloads = results.workloads
    columns = min(COLUMNS, len(workloads))
    rows = math.ceil(len(workloads) / columns)
    width = (CURVES.width + CURVES.beside) * columns
    entry = LEGEND_LINE + LEGEND_LETTER * max(len(label) for label in results.searchers)
    beside = min(len(results.searchers), max(1, int(width / entry)))
    legend = LEGEND_ROW * math.ceil(len(results.searchers) / beside)
    inches = replace(CURVES, top=CURVES.top + legend)
    figure, panels = inches.panels(rows, columns)
    letters = max(
        _draw_panel(panel, results, workload, axis, look)
        for panel, workload in zip(panels.flat, workloads, strict=False)
    )
    for panel in list(panels.flat)[len(workloads) :]:
        panel.set_visible(False)
    for row in panels:
        inches.name_y(row[0], _percent_text(results), letters)
    label = "cost queries (iterations)" if axis == "evaluation" else "search time, seconds"
    for column in range(columns):
        lowest = max(r for r in range(rows) if panels[r, column].get_visible())
        inches.name_x(panels[lowest, column], label)
    _legend(figure, results, look, beside)
    save(figure, path)


@styled
def draw_final(results: Results, path: Path) -> None:
    """Final per cent above the optimum: a dot per workload, a bar for their geometric mean.

    A method some of whose searches found nothing has the dots of the other workloads and no mean.
    Dots of workloads whose optimum is not proven are hollow: they lie at most so far above it.
    """
    look = styles(results)
    proven = np.array(
        [results.bounds[name].proven or results.bounds[name].measured for name in results.workloads]
    )
    labels = list(results.searchers)[::-1]
    figure = plain_figure(9.2, 0.48 * len(labels) + 1.15)
    panel = figure.subplots()
    for height, label in enumerate(labels):
        percents = np.array(
            [100 * float(results.above(label, name).mean) for name in results.workloads]
        )
        finite = np.isfinite(percents)
        colour = look[label].colour
        for shown, face in ((finite & proven, colour), (finite & ~proven, "none")):
            panel.scatter(
                percents[shown],
                np.full(shown.sum(), height),
                s=20,
                facecolors=face,
                edgecolors=colour,
                alpha=0.75,
                zorder=2,
                lw=0 if face == colour else 1.2,
            )
        fruitless = results.fruitless(label)
        if fruitless.count:
            text = f"{NOT_COMPARABLE}, {fruitless.text}"
        else:
            mean = 100 * results.overall_above(label)
            panel.barh(height, mean, height=0.18, color=colour, alpha=0.3, zorder=1)
            panel.plot([mean, mean], [height - 0.3, height + 0.3], color=colour, lw=2.6, zorder=3)
            text = f"{mean:.2f} %"
        # In a column of its own: beside a dot it would be taken for that dot's.
        panel.annotate(
            text,
            (1, height),
            xycoords=panel.get_yaxis_transform(),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
        )
    panel.set_title("mean", loc="right", fontsize=9.5, fontweight="normal", color=MUTED, x=1.055)
    panel.axvline(0.0, color=INK, lw=1.0)
    shown = shown_labels(results)
    panel.set_yticks(range(len(labels)), [shown[label] for label in labels], color=INK)
    panel.set_ylim(-0.6, len(labels) - 0.4)
    panel.set_xlim(left=-0.02 * panel.get_xlim()[1])
    panel.set_xlabel(f"final {_percent_text(results)}")
    panel.tick_params(axis="y", length=0, labelsize=10.5)
    panel.grid(axis="y", visible=False)
    save(figure, path)


def _draw_panel(
    panel: Axes, results: Results, workload: str, axis: Axis, look: dict[str, Style]
) -> int:
    """Draws the curves of a workload; the letters of the longest number beside them."""
    grid = results.grid(workload, axis)
    highest = 1.0
    for label in results.searchers:
        curve = results.curve_above(label, workload, axis, grid)
        style = look[label]
        mean = 100 * curve.mean
        if len(results.of(label, workload)) >= FEWEST_SEEDS_OF_A_BAND:
            low, high = 100 * curve.low, 100 * curve.high
            panel.fill_between(grid, low, high, color=style.colour, alpha=0.16, lw=0, zorder=2)
        panel.plot(grid, mean, color=style.colour, ls=style.dash, zorder=3)
        # The first moments are far above everything of interest: let them leave the panel.
        settled = mean[np.isfinite(mean)]
        if settled.size:
            highest = max(highest, float(np.quantile(settled, 0.9)))
    panel.set_xscale("log")
    panel.set_xlim(grid[0], grid[-1])
    set_ticks(panel, "x", *decades(grid[0], grid[-1]))
    ticks = percent_ticks(panel, 1.3 * highest)
    labels = [f"{tick:g}" for tick in ticks]
    set_ticks(panel, "y", ticks, labels)
    bounds = results.bounds[workload]
    known = bounds.proven or bounds.measured
    panel.set_title(workload if known else f"{workload} (at most)")
    panel.axhline(0.0, color=INK, lw=0.9, ls="-" if known else (0, (1, 2)), zorder=1)
    return max(map(len, labels))


def _legend(figure: Figure, results: Results, look: dict[str, Style], columns: int) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=look[label].colour, ls=look[label].dash, lw=2.4, label=label)
        for label in results.searchers
    ]
    figure.legend(
        handles=handles,
        loc="upper left",
        ncols=columns,
        fontsize=10.5,
        handlelength=2.4,
        columnspacing=1.8,
    )


def _percent_text(results: Results) -> str:
    """What an axis shows; panels and dots of a mixture say which of the two they are."""
    return f"{results.objective_name}, % above {results.reference_name}"
