"""The drawing of `mapspace describe`: levels as boxes, outermost on top, fan-outs between them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.accelerators import Accelerator
from costmodel.levels import Level
from costmodel.machine_summary import (
    capacity_text,
    headline,
    holds,
    instances,
    level_lines,
)
from orchestrator.report.figure_style import BAND, BLUE, INK, MUTED, plain_figure, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches of a box and of the room below it.
WIDTH, HEIGHT, GAP = 4.4, 0.95, 0.55


@styled
def draw(machine: Accelerator, path: Path) -> None:
    """Draws a machine.

    Args:
        machine: the machine.
        path: `.png` or `.svg` file to write.
    """
    counted = list(zip(machine.levels, instances(machine), strict=False))
    # Levels side by side stand in one row.
    rows = [
        list(row)
        for _, row in itertools.groupby(
            counted, key=lambda entry: entry[0].beside or f"level {entry[0].name}"
        )
    ]
    columns = max(map(len, rows))
    height = (len(rows) + 1) * (HEIGHT + GAP)
    figure = plain_figure(max(7.5, columns * WIDTH), height + 0.5)
    panel = figure.subplots()
    panel.set_xlim(-columns / 2, columns / 2)
    panel.set_ylim(-(len(rows) + 1), 0)
    panel.axis("off")
    panel.set_title(f"{machine.name}: {headline(machine)}", loc="left", fontsize=10)
    for place, row in enumerate(rows):
        for column, (level, count) in enumerate(row):
            centre = column - (len(row) - 1) / 2
            _draw_level(panel, machine, level, count, (centre, -place))
        last, _ = row[-1]
        _draw_fan_out(panel, last, -place)
    end = f"{machine.processing_elements:,} MACs, {machine.mac_energy_pj:g} pJ each"
    _box(panel, (0.0, -len(rows)), end, "", BLUE)
    save(figure, path)


def _draw_level(
    panel: Axes, machine: Accelerator, level: Level, count: int, place: tuple[float, float]
) -> None:
    title = level.name + (f" x {count:,}" if count > 1 else "")
    _, second, *_ = level_lines(machine, level, count)
    size = capacity_text(machine, level, count)
    held = ", ".join(holds(machine, level)) or "what is searched"
    _box(panel, place, title, f"{size}\n{second.strip()}\n{held}", INK)


def _box(panel: Axes, place: tuple[float, float], title: str, text: str, colour: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, top = place
    share = HEIGHT / (HEIGHT + GAP)
    panel.add_patch(
        FancyBboxPatch(
            (x - 0.46, top - share), 0.92, share, boxstyle="round,pad=0,rounding_size=0.02",
            facecolor=BAND, edgecolor=colour,
        )
    )  # fmt: skip
    panel.text(x, top - 0.05, title, ha="center", va="top", weight="bold", fontsize=10)
    panel.text(x, top - 0.22, text, ha="center", va="top", fontsize=8, color=MUTED)


def _draw_fan_out(panel: Axes, level: Level, top: float) -> None:
    share = HEIGHT / (HEIGHT + GAP)
    width, height = level.width_height
    panel.annotate(
        "", (0, top - 1), (0, top - share), arrowprops={"arrowstyle": "-|>", "color": INK}
    )
    if level.fanout > 1:
        mesh = f" = {width} x {height}" if height > 1 else ""
        panel.text(0.02, top - (1 + share) / 2, f"{level.fanout:,}{mesh}", va="center", fontsize=9)
