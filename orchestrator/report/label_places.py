"""Where numbers beside dots stand, so that they hide neither dots nor each other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from costmodel.costs import FloatArray
from orchestrator.report.figure_style import MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, points."""

# Distances of a label's middle from its dot, points, and how many directions are tried at each.
DISTANCES, DIRECTIONS = (8.0, 13.0, 19.0, 26.0, 34.0), 16
# Beyond so much a line leads from a label to its dot.
NEAR = 10.0
# Width of a digit and height of a line by the size of the letters, and what numbers side by side
# are apart, points.
DIGIT, LINE, APART = 0.62, 1.05, 2.5


def label_places(
    dots: FloatArray, texts: Sequence[str], size: float, radius: float, within: Box
) -> list[tuple[float, float]]:
    """How far the middle of each label is from its dot: the nearest place that hides the least.

    Args:
        dots: `[N, 2]`, points.
        texts: a label each.
        size: of the letters, points.
        radius: of a dot, points.
        within: where labels stand.
    """
    taken: list[Box] = [_around(x, y, radius, radius) for x, y in dots.tolist()]
    places = []
    turns = 2 * math.pi * (np.arange(DIRECTIONS) + 0.5) / DIRECTIONS + math.pi / 4
    offsets = [
        (far * math.cos(turn), far * math.sin(turn))
        for far, turn in itertools.product(DISTANCES, turns.tolist())
    ]
    for (x, y), text in zip(dots.tolist(), texts, strict=True):
        half = (len(text) * DIGIT * size + APART) / 2, LINE * size / 2

        def hidden(
            offset: tuple[float, float],
            x: float = x,
            y: float = y,
            half: tuple[float, float] = half,
        ) -> float:
            box = _around(x + offset[0], y + offset[1], *half)
            inside = _overlap(box, within) / (4 * half[0] * half[1])
            # Of places that hide as little the nearest one, whatever the last digits are.
            return round(sum(_overlap(box, other) for other in taken) + 1e3 * (1 - inside), 3)

        best = min(offsets, key=hidden)
        taken.append(_around(x + best[0], y + best[1], *half))
        places.append(best)
    return places


def number_dots(
    panel: Axes, dots: FloatArray, texts: Sequence[str], *, size: float, radius: float
) -> None:
    """Writes a label beside each dot of a panel whose place in the figure is settled.

    Args:
        panel: where.
        dots: `[N, 2]` in the panel's data.
        texts: a label each.
        size: of the letters, points.
        radius: of a dot, points.
    """
    scale = 72 / panel.figure.dpi
    shown = np.asarray(panel.transData.transform(dots)) * scale
    frame = panel.get_window_extent()
    within = frame.x0 * scale, frame.y0 * scale, frame.x1 * scale, frame.y1 * scale
    places = label_places(shown, texts, size, radius, within)
    for dot, text, place in zip(dots.tolist(), texts, places, strict=True):
        line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0}
        panel.annotate(
            text, dot, xytext=place, textcoords="offset points", fontsize=size, ha="center",
            va="center_baseline", arrowprops=line if math.hypot(*place) > NEAR else None,
        )  # fmt: skip


def _around(x: float, y: float, width: float, height: float) -> Box:
    return x - width, y - height, x + width, y + height


def _overlap(one: Box, other: Box) -> float:
    """The area that two boxes share."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)
