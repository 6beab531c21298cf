"""Figures of a benchmark: best-so-far curves as small multiples, and the final losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

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
    "exhaustive": "#5d4037",
}
SPARE_HUES = ("#d1495b", "#6c8b1f", "#3d5a80", "#b5651d", "#c2185b", "#008b8b")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))

INK = "#1f2933"
MUTED = "#697586"
COLUMNS = 4


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


def draw_curves(results: Results, axis: Axis, path: Path) -> None:
    """Best-so-far over an axis, one panel per workload, with 95 % bands over the seeds.

    Args:
        results: the benchmark.
        axis: `evaluation` or `seconds`; logarithmic.
        path: PNG to write.
    """
    look = styles(results)
    workloads = results.workloads
    columns = min(COLUMNS, len(workloads))
    rows = math.ceil(len(workloads) / columns)
    figure = _figure(3.35 * columns + 0.5, 2.95 * rows + 0.75)
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel, workload in zip(panels.flat, workloads, strict=False):
        _draw_panel(panel, results, workload, axis, look)
    for panel in list(panels.flat)[len(workloads) :]:
        panel.set_visible(False)
    objective = _objective_text(results)
    for row in panels:
        row[0].set_ylabel(f"normalised {objective}", color=INK)
    label = "cost queries (iterations)" if axis == "evaluation" else "search time, seconds"
    for column in range(columns):
        lowest = max(r for r in range(rows) if panels[r, column].get_visible())
        panels[lowest, column].set_xlabel(label, color=INK)
    _legend(figure, results, look)
    figure.savefig(path, dpi=170, facecolor="white")


def draw_final(results: Results, path: Path) -> None:
    """Final losses over the best known reference: a dot per workload, a bar for their mean.

    The reference is the proven optimum where all workloads have one, else the floor.
    """
    look = styles(results)
    known = all(results.bounds[name].optimum is not None for name in results.workloads)
    labels = list(results.searchers)[::-1]
    figure = _figure(9.2, 0.48 * len(labels) + 1.15)
    panel = figure.subplots()
    for height, label in enumerate(labels):
        ratios = []
        for workload in results.workloads:
            gap = results.gap(label, workload, "optimum" if known else "floor")
            if gap is not None and math.isfinite(gap):
                ratios.append(max(1 + gap, 1.0))
        if not ratios:
            continue
        colour = look[label].colour
        mean = float(np.exp(np.mean(np.log(ratios))))
        panel.barh(height, mean - 1, left=1, height=0.18, color=colour, alpha=0.3, zorder=1)
        panel.scatter(
            ratios, [height] * len(ratios), s=20, color=colour, alpha=0.75, zorder=2, lw=0
        )
        panel.plot([mean, mean], [height - 0.3, height + 0.3], color=colour, lw=2.6, zorder=3)
        panel.annotate(
            f"{mean:.3f}\N{MULTIPLICATION SIGN}",
            (max(*ratios, mean), height),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=9.5,
        )
    panel.axvline(1.0, color=INK, lw=1.0)
    panel.set_yticks(range(len(labels)), labels, color=INK)
    panel.set_ylim(-0.6, len(labels) - 0.4)
    panel.set_xlim(left=1 - 0.02 * (panel.get_xlim()[1] - 1))
    low, high = panel.get_xlim()
    panel.set_xlim(low, high + 0.09 * (high - low))
    reference = "the optimum" if known else "the floor"
    panel.set_xlabel(f"final {_objective_text(results)} over {reference}", color=INK)
    _tidy(panel)
    panel.tick_params(axis="y", length=0, labelsize=10.5)
    panel.grid(axis="y", visible=False)
    figure.savefig(path, dpi=170, facecolor="white")


def _draw_panel(
    panel: Axes, results: Results, workload: str, axis: Axis, look: dict[str, Style]
) -> None:
    bounds = results.bounds[workload]
    grid = results.grid(workload, axis)
    lowest = bounds.floor / bounds.minimum
    highest = lowest * 1.3
    for label in results.searchers:
        curve = results.curve(label, workload, axis, grid)
        style = look[label]
        # An interval knows nothing of the bound below which nothing lies.
        low = np.maximum(curve.low, (bounds.optimum or bounds.floor) / bounds.minimum)
        panel.fill_between(grid, low, curve.high, color=style.colour, alpha=0.16, lw=0, zorder=2)
        panel.plot(
            grid,
            curve.mean,
            color=style.colour,
            ls=style.dash,
            lw=1.9,
            zorder=3,
            solid_capstyle="round",
        )
        # The first moments are far above everything of interest: let them leave the panel.
        settled = curve.mean[np.isfinite(curve.mean)]
        if settled.size:
            highest = max(highest, float(np.quantile(settled, 0.72)))
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(grid[0], grid[-1])
    panel.set_ylim(lowest * (lowest / highest) ** 0.06, highest * (highest / lowest) ** 0.04)
    _reference_lines(panel, results, workload, grid)
    panel.set_title(workload, loc="left", fontsize=11, fontweight="bold", color=INK, pad=6)
    _tidy(panel)
    _number_ticks(panel)


def _reference_lines(panel: Axes, results: Results, workload: str, grid: Any) -> None:
    bounds = results.bounds[workload]
    lines: list[tuple[str, float, Any]] = [("floor", bounds.floor, (0, (1, 2)))]
    if bounds.optimum is not None:
        lines.append(("optimum", bounds.optimum, "-"))
    for name, value, dash in lines:
        height = value / bounds.minimum
        panel.axhline(height, color=INK, lw=0.9, ls=dash, zorder=1)
        panel.annotate(
            name,
            (grid[0], height),
            xytext=(4, 2.5 if name == "optimum" else -2.5),
            textcoords="offset points",
            va="bottom" if name == "optimum" else "top",
            fontsize=7.5,
            color=MUTED,
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75},
            zorder=4,
        )


def _legend(figure: Figure, results: Results, look: dict[str, Style]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=look[label].colour, ls=look[label].dash, lw=2.4, label=label)
        for label in results.searchers
    ]
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=len(handles),
        frameon=False,
        fontsize=10.5,
        labelcolor=INK,
        handlelength=2.4,
        columnspacing=1.8,
    )


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _tidy(panel: Axes) -> None:
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color("#b8c0ca")
    panel.grid(which="major", color="#e6e9ee", lw=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(colors=MUTED, labelsize=9, which="both")


def _number_ticks(panel: Axes) -> None:
    """Plain numbers at a few places of the logarithmic y axis; it rarely spans a decade."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    low, high = panel.get_ylim()
    ticks: npt.NDArray[np.float64]
    if high / low < 8:
        ticks = np.asarray(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    else:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = np.array([step * 10.0**power for power in powers for step in (1, 2, 5)])
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    panel.yaxis.set_major_locator(FixedLocator(ticks.tolist()))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))


def _objective_text(results: Results) -> str:
    objective = str(results.experiment["objective"])
    return objective.upper() if objective in ("edp", "ed2p") else objective


def _lighter(colour: str, share: float) -> str:
    """A colour moved towards white by a share."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    mixed = [round(part + (255 - part) * min(share, 0.7)) for part in parts]
    return "#" + "".join(f"{part:02x}" for part in mixed)
