"""The drawing of `mapspace describe`: levels as boxes, outermost on top, fan-outs between them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.levels import Level
from costmodel.machines.machine_summary import (
    ROLES,
    capacity_text,
    headline,
    holds,
    instances,
    level_lines,
    may_hold,
)
from costmodel.machines.machine_units import MACS
from orchestrator.report.figure_style import (
    BAND,
    BLUE,
    INK,
    MUTED,
    marker,
    plain_figure,
    save,
    styled,
)
from orchestrator.report.palette import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches of a box and of the room below it.
WIDTH, HEIGHT, GAP = 4.4, 0.95, 0.55
# As tensors of a convolution have them in the drawing of a mapping.
HUES = {"weight": PALETTE[0], "input": PALETTE[1], "output": PALETTE[2]}
# Where arrows run that pass a box by, and how far a drawing of one column goes for them.
LANE, EDGE = 0.52, 0.56


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
    panel.set_xlim(-max(EDGE, columns / 2), max(EDGE, columns / 2))
    panel.set_ylim(-(len(rows) + 1), 0)
    panel.axis("off")
    panel.set_title(f"{machine.name}: {headline(machine)}", loc="left", fontsize=10)
    places: dict[str, tuple[float, int]] = {}
    for place, row in enumerate(rows):
        for column, (level, count) in enumerate(row):
            centre = column - (len(row) - 1) / 2
            places[level.name] = centre, place
            _draw_level(panel, machine, level, count, (centre, -place))
        _draw_fan_out(panel, row[-1][0], -place)
    end = f"{machine.processing_elements:,} MACs, {machine.mac_energy_pj:g} pJ each"
    _box(panel, (0.0, -len(rows)), end, "", BLUE)
    places[MACS] = 0.0, len(rows)
    _draw_paths(panel, machine, places)
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
    if level.fanout > 1:
        mesh = f" = {width} x {height}" if height > 1 else ""
        panel.text(
            0.12, top - (1 + share) / 2, f"x {level.fanout:,}{mesh}", va="center", fontsize=9
        )


def _draw_paths(panel: Axes, machine: Accelerator, places: dict[str, tuple[float, int]]) -> None:
    """Arrows from level to level, as far as each may hold a tensor: one for all that go along."""
    steps: dict[tuple[str, str], list[str]] = {}
    for role in ROLES:
        path = [
            level.name
            for level in machine.levels
            if role in (*holds(machine, level), *may_hold(machine, level))
        ]
        for step in itertools.pairwise([*path, MACS]):
            steps.setdefault(step, []).append(role)
    for (outer, inner), roles in steps.items():
        if len(roles) == len(ROLES):
            _draw_arrow(panel, places[outer], places[inner], INK, 0.0)
            continue
        for role in roles:
            number = ROLES.index(role)
            _draw_arrow(panel, places[outer], places[inner], HUES[role], 0.05 * (number - 1))
    if any(len(roles) < len(ROLES) for roles in steps.values()):
        handles = [marker(HUES[role], role, "s") for role in ROLES]
        panel.legend(handles=handles, loc="lower right", fontsize=9)


def _draw_arrow(
    panel: Axes, start: tuple[float, int], end: tuple[float, int], colour: str, shift: float
) -> None:
    """From a box to one below it; beside the boxes where it leaves some between them out."""
    share = HEIGHT / (HEIGHT + GAP)
    (left, row), (right, last) = start, end
    look = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
    if last == row + 1:
        panel.annotate("", (right + shift, -last), (left + shift, -row - share), arrowprops=look)
        return
    # Down its own side of the boxes, then inwards above the one that it leads to.
    side = LANE if shift >= 0 else -LANE
    lane, above = side + shift / 5, -last + (1 - share) * (0.35 + 2 * abs(shift))
    x = [left + (0.46 if side > 0 else -0.46), lane, lane, right + shift]
    panel.plot(x, [-row - share / 2] * 2 + [above] * 2, color=colour, lw=1.2)
    panel.annotate("", (right + shift, -last), (right + shift, above), arrowprops=look)
