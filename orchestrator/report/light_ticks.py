"""Panels in inches, and all ticks of an axis at once: in a third of Matplotlib's time.

Matplotlib makes three lines and two texts for every tick, asks each where it lies, and lays out
every power of ten as a formula. Here an axis has a line of marks, a collection of grid lines, and a
text for every label. Matplotlib is not told where these end, so that titles of axes are placed,
too; and to lay panels out by their texts takes it as long as to draw them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from orchestrator.report.figure_style import plain_figure, powers_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Labels of decades that an axis has room for, and what is labelled where it has fewer than two.
MOST_DECADES = 7
STEPS = (1.0, 2.0, 5.0)
# Inches from a panel to the title of its axis: below; on the left a mark, letters, its own height.
LABEL_BELOW = 0.27
TICK, LETTER, LABEL = 0.16, 0.075, 0.14


@dataclass(frozen=True)
class Inches:
    """How panels lie, in inches.

    Attributes:
        width: of a panel.
        height: of a panel.
        left: before the first, for ticks and titles.
        right: after the last.
        bottom: below the last.
        top: above the first.
        beside: between two columns.
        between: between two rows.
    """

    width: float
    height: float
    left: float
    right: float
    bottom: float
    top: float
    beside: float
    between: float

    def panels(self, rows: int, columns: int) -> tuple[Figure, Any]:
        """A figure and its panels `[rows, columns]`."""
        width = (self.width + self.beside) * columns - self.beside + self.left + self.right
        height = (self.height + self.between) * rows - self.between + self.top + self.bottom
        figure = plain_figure(width, height, layout=None)
        panels = figure.subplots(
            rows,
            columns,
            squeeze=False,
            gridspec_kw={
                "left": self.left / width,
                "right": 1 - self.right / width,
                "bottom": self.bottom / height,
                "top": 1 - self.top / height,
                "wspace": self.beside / self.width,
                "hspace": self.between / self.height,
            },
        )
        return figure, panels

    def name_x(self, panel: Axes, name: str) -> None:
        """Writes the title of a horizontal axis below its labels."""
        panel.set_xlabel(name)
        panel.xaxis.set_label_coords(0.5, -LABEL_BELOW / self.height)

    def name_y(self, panel: Axes, name: str, letters: int, room: float | None = None) -> None:
        """Writes the title of a vertical axis beside labels of so many letters.

        Args:
            panel: of the axis.
            name: its title.
            letters: of the longest label.
            room: inches that there are; None: `left`.
        """
        away = min(TICK + LETTER * letters, (self.left if room is None else room) - LABEL)
        panel.set_ylabel(name)
        panel.yaxis.set_label_coords(-away / self.width, 0.5)


def set_ticks(
    panel: Axes,
    which: Literal["x", "y"],
    ticks: Sequence[float],
    labels: Sequence[str],
    minor: Sequence[float] = (),
    *,
    lines: bool = True,
) -> None:
    """Draws the ticks of an axis in place of Matplotlib's, as the style says.

    Args:
        panel: whose scales and limits are set.
        which: the axis.
        ticks: values with a mark, a line through the panel and a label.
        labels: of these.
        minor: values with a small mark alone.
        lines: whether there are lines through the panel.
    """
    import matplotlib as mpl
    from matplotlib.collections import LineCollection
    from matplotlib.markers import TICKDOWN, TICKLEFT
    from matplotlib.text import Text
    from matplotlib.ticker import NullLocator

    along, rc = which == "x", cast(Any, mpl.rcParams)
    axis: Any = panel.xaxis if along else panel.yaxis
    axis.set_major_locator(NullLocator())
    axis.set_minor_locator(NullLocator())
    across = panel.get_xaxis_transform() if along else panel.get_yaxis_transform()
    look = {key: rc[f"{which}tick.{key}"] for key in ("color", "labelsize")}
    drawn = ticks if lines else ()
    segments = [[(at, 0), (at, 1)] if along else [(0, at), (1, at)] for at in drawn]
    grid = {"colors": rc["grid.color"], "linewidths": rc["grid.linewidth"]}
    # Limits are set, and these lines lie within: they are not looked at for them.
    panel.add_collection(
        LineCollection(segments, transform=across, zorder=0.5, **grid), autolim=False
    )
    for values, kind in ((ticks, "major"), (minor, "minor")):
        nothing = [0.0] * len(values)
        marks = panel.plot(
            *((values, nothing) if along else (nothing, values)),
            ls="",
            marker=TICKDOWN if along else TICKLEFT,
            ms=rc[f"{which}tick.{kind}.size"],
            mew=rc[f"{which}tick.{kind}.width"],
            color=look["color"],
            transform=across,
            clip_on=False,
            scalex=False,
            scaley=False,
        )
        marks[0].set_in_layout(False)
    pad = rc[f"{which}tick.major.pad"] + rc[f"{which}tick.major.size"]
    placed = panel.get_xaxis_text1_transform if along else panel.get_yaxis_text1_transform
    transform, up, side = placed(pad)
    for at, label in zip(ticks, labels, strict=True):
        x, y = (at, 0.0) if along else (0.0, at)
        text = Text(x, y, label, va=up, ha=side, color=look["color"], size=look["labelsize"])
        text.set(transform=transform, clip_on=False)
        panel.add_artist(text)


def decades(low: float, high: float) -> tuple[list[float], list[str], list[float]]:
    """Ticks of a logarithmic axis, their labels, and the minor ones.

    Powers of ten, or where fewer than two lie on the axis 1, 2 and 5 times such.
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = [step * 10.0**power for power in range(first, last + 1) for step in STEPS]
    inside = [value for value in steps if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    powers = [power for power in range(first, last + 1) if 10.0**power in inside]
    if len(powers) < 2:
        return inside, [f"{value:g}" for value in inside], []
    shown = powers[:: math.ceil(len(powers) / MOST_DECADES)]
    ticks = [10.0**power for power in shown]
    labels = [powers_text(power) for power in shown]
    return ticks, labels, [value for value in inside if value not in ticks]
