"""A mapping as a drawing: what every level holds, the loops between levels, energy beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.arrays.machine_tables import usable_words
from costmodel.machines.packing import pack
from orchestrator.answers.facts import energy_scale
from orchestrator.answers.limits import Limit
from orchestrator.report.figure_style import (
    BAND,
    BLUE,
    INK,
    MUTED,
    OUTSIDE,
    RED,
    plain_figure,
    styled,
)
from orchestrator.report.palette import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from costmodel.costs import Detail
    from costmodel.machines.accelerators import Accelerator
    from costmodel.map_space.mapping import LevelMapping, Mapping
    from costmodel.problems.affine import Workload

# One hue per tensor, each with a hatch of its own, which a print without colours keeps.
TENSOR_HUES = PALETTE[:7]
HATCHES = ("", "///", "...", "xx", "\\\\\\", "++", "oo")
_LINE, _BAND = 0.21, 0.62  # inches of a loop, and of a level with its bar
_FONT = 8.5


class DrawnMapping(NamedTuple):
    """What is drawn of a mapping.

    Attributes:
        title: one line.
        workload: the operation.
        machine: its machine, levels in the order of the nest.
        mapping: the loop nest.
        detail: counts and energies, `[1, L, T]`.
        limits: every bound of the machine with its use.
        cycles: the mapping's latency.
    """

    title: str
    workload: Workload
    machine: Accelerator
    mapping: Mapping
    detail: Detail
    limits: tuple[Limit, ...]
    cycles: float

    @property
    def scale(self) -> tuple[float, str]:
        """A unit for its energies: picojoules in it, and its name."""
        return energy_scale(float(self.detail.energy_pj.sum()) + self.detail.mac_energy_pj)

    @property
    def hues(self) -> dict[str, str]:
        """A colour per tensor."""
        tensors = self.mapping.tensors
        return {name: TENSOR_HUES[i % len(TENSOR_HUES)] for i, name in enumerate(tensors)}


@styled
def mapping_figure(drawn: DrawnMapping) -> Figure:
    """The nest as bands, one per level, with its loops below it and its energy beside it.

    Args:
        drawn: the mapping.

    Returns:
        A Matplotlib figure: `savefig("mapping.svg")` writes it.
    """
    heights = [_BAND + _LINE * len(_loops(level)) for level in drawn.mapping.levels]
    figure = plain_figure(10.0, max(sum(heights) + _LINE + 0.7, 2.4))
    nest, energy = figure.subplots(1, 2, width_ratios=(2.6, 1.0), sharey=True)
    figure.suptitle(drawn.title, ha="left", x=0.01, fontsize=10.5)
    nest.set_xlim(0, 1)
    nest.set_ylim(sum(heights) + _LINE, -0.15)
    nest.axis("off")
    top, depth = 0.0, 0
    for index, height in enumerate(heights):
        depth = _draw_level(nest, drawn, index, top, depth)
        _draw_energy(energy, drawn, index, top)
        top += height
    nest.text(_indent(depth), top + 0.5 * _LINE, "multiply-accumulate", va="center", fontsize=_FONT)
    _finish_energy(energy, drawn, top)
    figure.legend(loc="outside upper right", ncols=len(drawn.mapping.tensors) + 2, fontsize=8)
    return figure


def _loops(level: LevelMapping) -> list[tuple[str, bool]]:
    """A line per loop, outermost first, and whether it runs across children."""
    found = [(_loop(level, name), False) for name in level.order if level.temporal[name] > 1]
    for name, factor, axis in level.spatial_loops:
        along = f" along {axis}" if axis else ""
        found.append((f"parallel for {name} in {factor}{along}", True))
    return found


def _loop(level: LevelMapping, name: str) -> str:
    factor = level.temporal[name]
    rest = level.temporal_rests.get(name, factor)
    return f"for {name} in {factor}" + (f" ({rest} at last)" if rest != factor else "")


def _indent(depth: int) -> float:
    return 0.02 + 0.018 * min(depth, 22)


def _draw_level(panel: Axes, drawn: DrawnMapping, index: int, top: float, depth: int) -> int:
    """A band with what the level holds, its loops below; returns how deep the next one stands."""
    from matplotlib.patches import Rectangle

    level, machine = drawn.mapping.levels[index], drawn.machine.levels[index]
    left = _indent(depth) - 0.012
    panel.add_patch(Rectangle((left, top), 1 - left, _BAND - 0.08, color=BAND, lw=0))
    count = int(drawn.detail.instances[0, index])
    title = level.name + (f" x {count:,}" if count > 1 else "")
    panel.text(left + 0.012, top + 0.15, title, va="center", weight="bold", fontsize=9)
    packing = pack(drawn.machine, drawn.workload.bits_by_tensor)
    words = np.ceil(packing.words(drawn.detail.tile[0])[index]).astype(int).tolist()
    most = usable_words(machine) if machine.capacity_words else 0
    said = f"{sum(words):,} of {most:,} words" if most else f"{sum(words):,} words, without limit"
    panel.text(0.99, top + 0.15, said, va="center", ha="right", fontsize=_FONT, color=MUTED)
    _draw_bar(panel, drawn, words, (left + 0.012, 0.99), top + 0.29, most)
    for line, (text, across) in enumerate(_loops(level)):
        at = top + _BAND + (line + 0.35) * _LINE
        colour = BLUE if across else INK
        panel.text(_indent(depth + 1), at, text, va="center", fontsize=_FONT, color=colour)
        depth += 1
    return depth + 1 if not _loops(level) else depth


def _draw_bar(
    panel: Axes,
    drawn: DrawnMapping,
    words: Sequence[int],
    ends: tuple[float, float],
    top: float,
    most: int,
) -> None:
    """Tiles side by side, as shares of what the level takes, or of all that it holds."""
    from matplotlib.patches import Rectangle

    left, right = ends
    per_word = (right - left) / max(most, sum(words), 1)
    panel.add_patch(
        Rectangle((left, top), right - left, 0.17, facecolor="white", edgecolor=OUTSIDE, lw=0.8)
    )
    for t, (name, held) in enumerate(zip(drawn.mapping.tensors, words, strict=True)):
        width = per_word * held
        panel.add_patch(
            Rectangle(
                (left, top), width, 0.17, facecolor=drawn.hues[name], edgecolor="white", lw=0.4,
                hatch=HATCHES[t % len(HATCHES)],
            )
        )  # fmt: skip
        if width > 0.012 * len(f"{name} {held:,}"):
            look = {"facecolor": drawn.hues[name], "lw": 0, "pad": 0.8}
            panel.text(
                left + width / 2, top + 0.09, f"{name} {held:,}", va="center", ha="center",
                fontsize=7, color="white", bbox=look,
            )  # fmt: skip
        left += width


def _draw_energy(panel: Axes, drawn: DrawnMapping, index: int, top: float) -> None:
    scale, left = drawn.scale[0], 0.0
    for t, name in enumerate(drawn.mapping.tensors):
        width = float(drawn.detail.energy_pj[0, index, t]) / scale
        panel.barh(
            top + 0.27, width, 0.4, left=left, color=drawn.hues[name],
            hatch=HATCHES[t % len(HATCHES)], label=name if index == 0 else None,
        )  # fmt: skip
        left += width


def _finish_energy(panel: Axes, drawn: DrawnMapping, top: float) -> None:
    scale, unit = drawn.scale
    panel.barh(top + 0.08, drawn.detail.mac_energy_pj / scale, 0.2, color=MUTED, label="MAC")
    hops = float(drawn.detail.network_energy_pj.sum())
    if hops:
        panel.barh(
            top + 0.08, hops / scale, 0.2, left=drawn.detail.mac_energy_pj / scale,
            color=RED, label="network",
        )  # fmt: skip
    panel.set_xlabel(f"energy, {unit}", fontsize=9)
    panel.yaxis.set_visible(False)
    panel.spines["left"].set_visible(False)
    panel.grid(axis="y", visible=False)


@styled
def cycles_figure(drawn: DrawnMapping) -> Figure:
    """Cycles by cause: what each transfer would take by itself, against the mapping's latency.

    Args:
        drawn: the mapping.
    """
    from matplotlib.ticker import FuncFormatter

    timed = sorted((one for one in drawn.limits if one.cycles), key=lambda one: one.cycles)
    figure = plain_figure(10.0, 0.9 + 0.32 * len(timed))
    panel = figure.subplots()
    places = range(len(timed))
    colours = [INK if one.kind in ("compute", "array") else BLUE for one in timed]
    panel.barh(places, [one.cycles for one in timed], 0.62, color=colours)
    for place, one in zip(places, timed, strict=True):
        panel.annotate(
            f"{one.cycles:,.0f}", (one.cycles, place), (4, 0), textcoords="offset points",
            va="center", fontsize=8,
        )  # fmt: skip
    panel.axvline(drawn.cycles, color=RED, lw=1.2, ls="--")
    panel.set_yticks(places, [one.name for one in timed])
    panel.margins(x=0.12)
    panel.set_xlim(left=0)
    panel.set_xlabel("cycles by itself; dashed: the mapping's latency", fontsize=9)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.grid(axis="y", visible=False)
    return figure
