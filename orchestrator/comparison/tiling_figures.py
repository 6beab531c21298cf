"""The figures of the GEMM tiling paper: best cost against what was visited, and against time.

Source: Zhang et al., "Compiler-Level Matrix Multiplication Optimization for Deep Learning", 2019,
Figures 7 and 8.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.models import unit_of
from costmodel.problems.workloads import workload
from costmodel.tiling import TilingSpace
from orchestrator.comparison.figures import styles
from orchestrator.comparison.results import Axis, Results, best_so_far
from orchestrator.report.figure_style import INK, MUTED, plain_figure, plain_ticks, save, styled
from orchestrator.report.palette import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LARGEST_RATIO = 12.0


@styled
def draw_tilings(results: Results, path: Path) -> None:
    """A row per matrix product: best so far over the share visited and over time, and its spread.

    Lines: median over the seeds, bands: quartiles. Boxes: quartiles and median of where the
    searches end, whiskers to the extremes, a diamond for the mean, as in the paper's Figure 8.

    Args:
        results: a benchmark on tilings.
        path: PNG to write.
    """
    look = styles(results)
    rows = len(results.workloads)
    figure = plain_figure(13.2, 3.3 * rows + 0.6)
    panels = figure.subplots(rows, 3, squeeze=False, width_ratios=(1.15, 1.15, 1))
    scale, unit = (1e3, "ms") if unit_of(results.experiment) == "s" else (1.0, "")
    unit = unit or unit_of(results.experiment)
    for row, name in zip(panels, results.workloads, strict=True):
        size = TilingSpace(workload(name)).size()
        _draw_lines(row[0], results, name, "evaluation", look, scale, 100 / size)
        _draw_lines(row[1], results, name, "seconds", look, scale, 1.0)
        _draw_boxes(row[2], results, name, look, scale)
        row[0].set_ylabel(f"best {results.objective_name}, {unit}")
        row[0].set_title(name)
        row[1].set_ylim(row[0].get_ylim())
    panels[-1, 0].set_xlabel("visited, % of the space")
    panels[-1, 1].set_xlabel("search time, seconds")
    panels[-1, 2].set_xlabel(f"{results.objective_name} at the end, {unit}")
    save(figure, path)


def _draw_lines(
    panel: Axes,
    results: Results,
    name: str,
    axis: Axis,
    look: dict[str, Style],
    scale: float,
    per_step: float,
) -> None:
    grid = results.grid(name, axis)
    highest, lowest = 0.0, np.inf
    for label in results.searchers:
        runs = results.of(label, name)
        end = max(run.iterations if axis == "evaluation" else run.seconds for run in runs)
        kept = grid[grid <= end * (1 + 1e-9)]
        values = scale * best_so_far(runs, kept, axis)
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0, method="nearest")
        style = look[label]
        panel.plot(per_step * kept, middle, color=style.colour, ls=style.dash, label=label)
        drawn = np.isfinite(high)
        panel.fill_between(
            per_step * kept[drawn], low[drawn], high[drawn], color=style.colour, alpha=0.14, lw=0
        )
        settled = middle[np.isfinite(middle)]
        if settled.size:
            highest = max(highest, float(np.quantile(settled, 0.8)))
            lowest = min(lowest, float(settled[-1]))
    panel.set_xscale("log")
    panel.set_yscale("log")
    if highest:
        # The untiled start costs thousands of times the best: let it leave the panel.
        panel.set_ylim(0.95 * lowest, min(1.2 * highest, LARGEST_RATIO * lowest))
    plain_ticks(panel)


def _draw_boxes(
    panel: Axes, results: Results, name: str, look: dict[str, Style], scale: float
) -> None:
    labels = results.searchers[::-1]
    lost = {label: results.fruitless(label, name) for label in labels}
    # Quartiles of the others could not be compared.
    ends = [
        [] if lost[label].count else [scale * run.best_loss for run in results.of(label, name)]
        for label in labels
    ]
    drawn: dict[str, Any] = panel.boxplot(
        ends,
        orientation="horizontal",
        whis=(0, 100),
        showmeans=True,
        patch_artist=True,
        widths=0.55,
        medianprops={"color": INK},
        meanprops={"marker": "D", "markersize": 4, "mfc": "white", "mec": INK},
        whiskerprops={"color": MUTED},
        capprops={"color": MUTED},
    )
    for box, label in zip(drawn["boxes"], labels, strict=True):
        box.set(facecolor=look[label].colour, alpha=0.75, edgecolor=look[label].colour)
    ticks = [f"{label}\n{lost[label].text}".strip() for label in labels]
    panel.set_yticks(range(1, len(labels) + 1), ticks, color=INK)
    panel.set_xscale("log")
    plain_ticks(panel, "x")
