"""How the figures of a Marvel study are drawn: looks, markers, axes and legends."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator.marvel.tables import FLOWS
from orchestrator.marvel.totals import METHODS
from orchestrator.plots import HUES, INK, SPARE_HUES, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRID, EDGE, BAND = "#e6e9ee", "#b8c0ca", "#f5f6f8"
# Who is drawn how, in every figure: hue, marker and size.
LOOK: dict[str, tuple[str, str, float]] = {
    "marvel": (SPARE_HUES[0], "o", 7.5),
    "KC": (HUES["gradient"], "s", 5.5),
    "QP": (HUES["genetic"], "^", 6.0),
    "QR": (HUES["annealing"], "D", 5.0),
    "random": (HUES["random"], "o", 5.5),
    "brute-force": (HUES["structured"], "v", 6.0),
    "joint": (HUES["exact"], "*", 9.0),
}
# Ticks in a decade of a logarithmic axis that spans more than so much.
TICKS: tuple[tuple[float, tuple[float, ...]], ...] = (
    (300.0, (1.0,)),
    (6.0, (1.0, 2.0, 5.0)),
    (2.0, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)),
    (0.0, (1.0, 1.1, 1.2, 1.3, 1.5, 1.8, 2.1, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
)
PLAIN_BELOW = 1e6
NAMES = {"marvel": "Marvel", **FLOWS, **METHODS}


def draw_series(
    panel: Axes,
    series: Mapping[str, Sequence[float]],
    hollow: Mapping[str, Sequence[bool]] | None = None,
) -> None:
    """A marker per place and name, side by side over bands; some are hollow."""
    step = 0.72 / len(series)
    places = len(next(iter(series.values())))
    for place in range(0, places, 2):
        panel.axvspan(place - 0.5, place + 0.5, color=BAND, lw=0, zorder=0)
    panel.set_xlim(-0.5, places - 0.5)
    for index, (name, values) in enumerate(series.items()):
        colour, marker, size = LOOK[name]
        shift = (index - (len(series) - 1) / 2) * step
        open_ones = (hollow or {}).get(name, [False] * places)
        for is_open in (False, True):
            some = [place for place in range(places) if open_ones[place] == is_open]
            panel.plot(
                [place + shift for place in some],
                [values[place] for place in some],
                ls="",
                marker=marker,
                ms=size,
                mfc="white" if is_open else colour,
                mec=colour if is_open else "white",
                mew=0.9 if is_open else 0.6,
                zorder=4 if name == "marvel" else 3,
            )


def frame_cell(panel: Axes, x: int, y: int) -> None:
    """Marks a cell of a heat map."""
    from matplotlib.patches import Rectangle

    panel.add_patch(Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, fill=False, ec=INK, lw=2))


def draw_legend(
    figure: Figure,
    entries: Sequence[tuple[str, str, float, str]],
    line: str | None = None,
    hollow: tuple[str, str, float, str] | None = None,
) -> None:
    """Markers and their names above the panels; a line, and a hollow marker, at the end."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], ls="", marker=marker, ms=size, mfc=colour, mec="white", mew=0.6, label=text)
        for colour, marker, size, text in entries
    ]
    if hollow:
        colour, marker, size, text = hollow
        ring = Line2D(
            [], [], ls="", marker=marker, ms=size, mfc="white", mec=colour, mew=0.9, label=text
        )
        handles.append(ring)
    if line:
        handles.append(Line2D([], [], color=INK, lw=1.6, label=line))
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=len(handles),
        frameon=False,
        fontsize=10,
        labelcolor=INK,
        handletextpad=0.4,
        columnspacing=1.6,
    )


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a PNG whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    figure.savefig(partial, format="png", dpi=170, facecolor="white")
    os.replace(partial, path)


def tidy_axes(panel: Axes) -> None:
    """Light axes and a grid of values only."""
    tidy(panel)
    panel.grid(axis="x", visible=False)


def plain_ticks(panel: Axes, axis: Literal["x", "y"] = "y") -> None:
    """Plain numbers on a logarithmic axis, the more of them the less it spans.

    Beyond a million it keeps its powers of ten.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if axis == "y":
        panel.margins(y=0.08)
        low, high = panel.get_ylim()
    else:
        panel.margins(x=0.08)
        low, high = panel.get_xlim()
    if high >= PLAIN_BELOW:
        return
    steps = next(steps for span, steps in TICKS if high / low > span)
    drawn = panel.yaxis if axis == "y" else panel.xaxis
    drawn.set_major_locator(LogLocator(subs=steps, numticks=20))
    drawn.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    drawn.set_minor_formatter(NullFormatter())


def times_text(value: float) -> str:
    """A ratio, such as 6.1x."""
    return f"{value:.0f}x" if value >= 9.95 else f"{value:.1f}x"


def percent_text(value: float) -> str:
    """An excess, such as +9.6 %."""
    return f"+{value:,.0f} %" if value >= 20 else f"+{value:.1f} %"
