"""How the figures of a Marvel study are drawn: looks, markers, axes and legends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.marvel.network_numbers import METHODS
from orchestrator.marvel.numbers import FLOWS
from orchestrator.report.figure_style import BAND, INK, marker
from orchestrator.report.palette import method_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Who is drawn how, in every figure: hue, marker and size.
LOOK: dict[str, tuple[str, str, float]] = {
    "marvel": (method_colour("marvel"), "o", 7.5),
    "KC": (method_colour("gradient"), "s", 5.5),
    "QP": (method_colour("genetic"), "^", 6.0),
    "QR": (method_colour("annealing"), "D", 5.0),
    "random": (method_colour("random"), "o", 5.5),
    "brute-force": (method_colour("structured"), "v", 6.0),
    "joint": (method_colour("exact"), "*", 9.0),
}
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
        colour, shape, size = LOOK[name]
        shift = (index - (len(series) - 1) / 2) * step
        open_ones = (hollow or {}).get(name, [False] * places)
        for is_open in (False, True):
            some = [place for place in range(places) if open_ones[place] == is_open]
            panel.plot(
                [place + shift for place in some],
                [values[place] for place in some],
                ls="",
                marker=shape,
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
        marker(colour, text, shape, size, mec="white", mew=0.6)
        for colour, shape, size, text in entries
    ]
    if hollow:
        colour, shape, size, text = hollow
        handles.append(marker(colour, text, shape, size, mfc="white", mew=0.9))
    if line:
        handles.append(Line2D([], [], color=INK, lw=1.6, label=line))
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=len(handles),
        fontsize=10,
        handletextpad=0.4,
        columnspacing=1.6,
    )


def times_text(value: float) -> str:
    """A ratio, such as 6.1x."""
    return f"{value:.0f}x" if value >= 9.95 else f"{value:.1f}x"


def percent_text(value: float) -> str:
    """An excess, such as +9.6 %."""
    return f"+{value:,.0f} %" if value >= 20 else f"+{value:.1f} %"
