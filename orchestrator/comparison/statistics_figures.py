"""Figures of what is sure: targets reached, where searches end, and ranks that are told apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from orchestrator.comparison.aggregates import profile, shares
from orchestrator.comparison.figures import styles
from orchestrator.comparison.rank_tests import Ranks
from orchestrator.comparison.results import Results
from orchestrator.comparison.targets import arrivals
from orchestrator.report.figure_style import INK, MUTED, plain_figure, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Per cent above the optimum where a profile begins; what lies below is the optimum itself.
NEAREST, FARTHEST = 1e-3, 100.0
ENTRY, LETTER = 0.75, 0.085  # inches of a legend's line, and of a letter of its label


@styled
def draw_reached(results: Results, path: Path) -> None:
    """The share of runs and targets reached against queries or time, and where searches end."""
    longest = max(map(len, results.searchers))
    beside = max(1, int(10.5 / (ENTRY + LETTER * longest)))
    rows = -(-len(results.searchers) // beside)
    figure = plain_figure(11.0, 4.0 + 0.24 * rows)
    left, right = figure.subplots(1, 2)
    _draw_targets(left, results)
    _draw_profile(right, results)
    for panel in (left, right):
        panel.set_ylim(-0.02, 1.02)
        panel.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=beside, fontsize=9.5)
    save(figure, path)


def _draw_targets(panel: Axes, results: Results) -> None:
    look = styles(results)
    found = {label: arrivals(results, label) for label in results.searchers}
    last = max(float(one.spent.max()) for one in found.values())
    moments = np.concatenate([one.arrived[np.isfinite(one.arrived)] for one in found.values()])
    first = max(float(moments.min()) if len(moments) else 0.0, last * 1e-5)
    points = np.geomspace(min(first, last / 2), last, 200)
    for label, one in found.items():
        style = look[label]
        own = points <= one.spent.max() * (1 + 1e-9)
        panel.plot(points[own], one.share(points[own]), color=style.colour, ls=style.dash)
        panel.plot([], [], color=style.colour, ls=style.dash, lw=2.2, label=label)
    panel.set_xscale("log")
    panel.set_xlabel(
        "search time, seconds" if results.primary_axis == "seconds" else "cost queries"
    )
    panel.set_title("runs and targets reached")


def _draw_profile(panel: Axes, results: Results) -> None:
    look = styles(results)
    points = np.geomspace(NEAREST, FARTHEST, 200)
    for label in results.searchers:
        style = look[label]
        within = profile(shares(results, label), points / 100)
        panel.plot(points, within, color=style.colour, ls=style.dash)
    panel.set_xscale("log")
    panel.set_xticks([0.001, 0.01, 0.1, 1, 10, 100], ["0.001", "0.01", "0.1", "1", "10", "100"])
    panel.set_xlabel(f"% above {results.reference_name}")
    panel.set_title("searches that end within so much")


@styled
def draw_ranks(results: Results, found: Ranks, path: Path) -> None:
    """Average ranks of the methods, the best on top, and bars over those not told apart."""
    look, count = styles(results), len(found.labels)
    cliques = found.cliques()
    figure = plain_figure(9.2, 0.34 * count + 1.1)
    panel = figure.subplots()
    for place, (label, rank) in enumerate(zip(found.labels, found.average, strict=True)):
        panel.plot([1, rank], [place, place], color=MUTED, lw=0.8, zorder=1)
        panel.scatter([rank], [place], s=44, color=look[label].colour, zorder=3)
        panel.annotate(
            f"{rank:.2f}",
            (rank, place),
            (7, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    right = float(found.average.max()) + 0.08 * (count - 1)
    for place, (first, last) in enumerate(cliques):
        at = right + (0.2 + 0.025 * (count - 1)) * place
        panel.plot([at, at], [first - 0.2, last + 0.2], color=INK, lw=3, solid_capstyle="butt")
    panel.set_yticks(range(count), found.labels, color=INK)
    panel.set_ylim(count - 0.4, -0.6)
    panel.set_xlim(left=0.9)
    panel.set_xlabel(
        f"average rank over {found.problems} problems; critical difference {found.difference:.2f}"
    )
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="y", visible=False)
    save(figure, path)
