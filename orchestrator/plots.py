"""Figures of a benchmark, in per cent above the optimum: curves and where every search ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orchestrator.results import Axis, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One hue per method, told apart by people with any colour vision (after Okabe and Ito).
HUES = {
    "random": "#8c9196",
    "annealing": "#d98c00",
    "genetic": "#00936b",
    "structured": "#8e44ad",
    "gradient": "#0067b1",
    "exact": "#5d4037",
    "marvel": "#7d8600",
    "gbfs": "#d1495b",
    "na2c": "#3d5a80",
    "xgboost": "#6c8b1f",
    "rnn": "#b5651d",
    "primitive-annealing": "#00a0a0",
    "model-guided": "#e6007e",
    "cma-es": "#5b8def",
    "nevergrad": "#8c564b",
    "optuna": "#9aa300",
    "ddpg": "#c2185b",
    "ppo": "#222222",
}
SPARE_HUES = ("#7a5195", "#a05a2c", "#4f7942", "#5a5a5a")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))

INK = "#1f2933"
MUTED = "#697586"
COLUMNS = 4

# Inches that an entry of a legend takes: its line, a letter of its label, and its height.
LEGEND_LINE = 0.7
LEGEND_LETTER = 0.07
LEGEND_ROW = 0.22

# An interval of fewer seeds spans the whole picture and says nothing.
FEWEST_SEEDS_OF_A_BAND = 4

# Below so many per cent the axis of a curve is linear, down to the optimum itself at 0.
LINEAR_PERCENT = 0.1


@dataclass(frozen=True)
class Style:
    """How a searcher is drawn, everywhere the same."""

    colour: str
    dash: Any


def styles(results: Results) -> dict[str, Style]:
    """A style per label: the method gives the hue, its variants differ in dash and lightness."""
    names = {entry["label"]: entry["name"] for entry in results.experiment["searchers"]}
    spare = iter(SPARE_HUES * len(names))
    hues: dict[str, str] = {}
    variants: dict[str, int] = {}
    chosen: dict[str, Style] = {}
    for label in results.searchers:
        name = names[label]
        if name not in hues:
            hues[name] = HUES.get(name) or next(spare)
        index = variants.get(name, 0)
        variants[name] = index + 1
        chosen[label] = Style(_lighter(hues[name], 0.32 * index), DASHES[index % len(DASHES)])
    return chosen


def shown_labels(results: Results) -> dict[str, str]:
    """A text per label: the label, with the iterations of a method that has fewer than others."""
    own = {entry["label"]: entry.get("iterations") for entry in results.experiment["searchers"]}
    return {
        label: f"{label} (after {own[label]:,})" if own.get(label) else label
        for label in results.searchers
    }


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
    width = 3.35 * columns + 0.5
    entry = LEGEND_LINE + LEGEND_LETTER * max(len(label) for label in results.searchers)
    beside = min(len(results.searchers), max(1, int(width / entry)))
    further = math.ceil(len(results.searchers) / beside) - 1
    figure = plain_figure(width, 2.95 * rows + 0.75 + LEGEND_ROW * further)
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel, workload in zip(panels.flat, workloads, strict=False):
        _draw_panel(panel, results, workload, axis, look)
    for panel in list(panels.flat)[len(workloads) :]:
        panel.set_visible(False)
    for row in panels:
        row[0].set_ylabel(_percent_text(results), color=INK)
    label = "cost queries (iterations)" if axis == "evaluation" else "search time, seconds"
    for column in range(columns):
        lowest = max(r for r in range(rows) if panels[r, column].get_visible())
        panels[lowest, column].set_xlabel(label, color=INK)
    _legend(figure, results, look, beside)
    figure.savefig(path, dpi=170, facecolor="white")


def draw_final(results: Results, path: Path) -> None:
    """Final per cent above the optimum: a dot per workload, a bar for their geometric mean.

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
        if not finite.any():
            continue
        colour = look[label].colour
        mean = 100 * float(np.expm1(np.log1p(percents[finite] / 100).mean()))
        panel.barh(height, mean, height=0.18, color=colour, alpha=0.3, zorder=1)
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
        panel.plot([mean, mean], [height - 0.3, height + 0.3], color=colour, lw=2.6, zorder=3)
        panel.annotate(
            f"{mean:.2f} %",
            (max(percents[finite].max(), mean), height),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=9.5,
        )
    panel.axvline(0.0, color=INK, lw=1.0)
    shown = shown_labels(results)
    panel.set_yticks(range(len(labels)), [shown[label] for label in labels], color=INK)
    panel.set_ylim(-0.6, len(labels) - 0.4)
    panel.set_xlim(left=-0.02 * panel.get_xlim()[1])
    low, high = panel.get_xlim()
    panel.set_xlim(low, high + 0.09 * (high - low))
    panel.set_xlabel(f"final {_percent_text(results)}", color=INK)
    tidy(panel)
    panel.tick_params(axis="y", length=0, labelsize=10.5)
    panel.grid(axis="y", visible=False)
    figure.savefig(path, dpi=170, facecolor="white")


def _draw_panel(
    panel: Axes, results: Results, workload: str, axis: Axis, look: dict[str, Style]
) -> None:
    grid = results.grid(workload, axis)
    highest = 1.0
    for label in results.searchers:
        curve = results.curve_above(label, workload, axis, grid)
        style = look[label]
        mean = 100 * curve.mean
        if len(results.of(label, workload)) >= FEWEST_SEEDS_OF_A_BAND:
            panel.fill_between(
                grid,
                100 * curve.low,
                100 * curve.high,
                color=style.colour,
                alpha=0.16,
                lw=0,
                zorder=2,
            )
        panel.plot(
            grid,
            mean,
            color=style.colour,
            ls=style.dash,
            lw=1.9,
            zorder=3,
            solid_capstyle="round",
        )
        # The first moments are far above everything of interest: let them leave the panel.
        settled = mean[np.isfinite(mean)]
        if settled.size:
            highest = max(highest, float(np.quantile(settled, 0.9)))
    panel.set_xscale("log")
    panel.set_yscale("symlog", linthresh=LINEAR_PERCENT, linscale=0.5)
    panel.set_xlim(grid[0], grid[-1])
    # A curve that runs along the optimum stays visible.
    panel.set_ylim(-0.15 * LINEAR_PERCENT, 1.3 * highest)
    bounds = results.bounds[workload]
    title = workload if bounds.proven or bounds.measured else f"{workload} (at most)"
    panel.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=6)
    panel.axhline(
        0.0,
        color=INK,
        lw=0.9,
        ls="-" if bounds.proven or bounds.measured else (0, (1, 2)),
        zorder=1,
    )
    tidy(panel)
    percent_ticks(panel)


def _legend(figure: Figure, results: Results, look: dict[str, Style], columns: int) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=look[label].colour, ls=look[label].dash, lw=2.4, label=label)
        for label in results.searchers
    ]
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=columns,
        frameon=False,
        fontsize=10.5,
        labelcolor=INK,
        handlelength=2.4,
        columnspacing=1.8,
    )


def plain_figure(width: float, height: float) -> Figure:
    """An empty figure, inches, that needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def tidy(panel: Axes) -> None:
    """The frame and grid of every panel here."""
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color("#b8c0ca")
    panel.grid(which="major", color="#e6e9ee", lw=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(colors=MUTED, labelsize=9, which="both")


def percent_ticks(panel: Axes) -> None:
    """Plain numbers at a few places of the y axis."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    high = panel.get_ylim()[1]
    decades = range(round(math.log10(LINEAR_PERCENT)), math.ceil(math.log10(high)) + 1)
    # Thirds of decades where there is room for them.
    steps = (1, 3) if high < 300 else (1,)
    ticks = [0.0, *(step * 10.0**decade for decade in decades for step in steps)]
    panel.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if tick <= high]))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _percent_text(results: Results) -> str:
    """What an axis shows; panels and dots of a mixture say which of the two they are."""
    return f"{results.objective_name}, % above {results.reference_name}"


def _lighter(colour: str, share: float) -> str:
    """A colour moved towards white by a share."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    mixed = [round(part + (255 - part) * min(share, 0.7)) for part in parts]
    return "#" + "".join(f"{part:02x}" for part in mixed)
