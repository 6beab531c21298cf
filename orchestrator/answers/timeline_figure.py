"""The first tiles of every level as a drawing: loaded, worked on, drained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.answers.mapping_figure import HATCHES, DrawnMapping
from orchestrator.answers.timeline import LevelTimeline, Span, timelines
from orchestrator.report.figure_style import INK, MUTED, OUTSIDE, plain_figure, styled

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ASSUMED = (
    "Cycles from when a level can begin, each level on a scale of its own. Transfers overlap with "
    "work as the model counts them: as if the next tile had room beside the one that is worked on. "
    "The model's latency does not count that the first tile has to be there first."
)
"""What a timeline assumes, for whoever reads it."""
_LANES = ("load", "work", "drain")


@styled
def timeline_figure(drawn: DrawnMapping) -> Figure | None:
    """A panel per level but the outermost: when its first tiles are loaded, worked on, drained.

    Args:
        drawn: the mapping.

    Returns:
        A figure; None of a mapping whose loops have shorter last passes, or of a single level.
    """
    found = timelines(drawn)
    if not found:
        return None
    figure = plain_figure(10.0, 0.6 + 1.25 * len(found))
    panels = figure.subplots(len(found), 1, squeeze=False)[:, 0]
    title = f"{drawn.title}: the first tiles" if drawn.title else ""
    figure.suptitle(title, ha="left", x=0.01, fontsize=10.5)
    for panel, level in zip(panels, found, strict=True):
        _draw(panel, drawn, level)
    panels[-1].set_xlabel("cycles", fontsize=9)
    handles: dict[str, Artist] = {}
    for panel in panels:
        shapes, labels = panel.get_legend_handles_labels()
        handles |= dict(zip(labels, shapes, strict=True))
    shapes = list(handles.values())
    figure.legend(shapes, list(handles), loc="outside upper right", ncols=8, fontsize=8)
    return figure


def _draw(panel: Axes, drawn: DrawnMapping, level: LevelTimeline) -> None:
    from matplotlib.ticker import FuncFormatter

    for number, tile in enumerate(level.first):
        _transfer(panel, drawn, tile.load, tile.loaded, 0)
        _bar(panel, tile.work, 1, colour=OUTSIDE if number % 2 else MUTED, label="work")
        middle = (tile.work.begin + tile.work.end) / 2
        panel.text(
            middle, 1, f"{number + 1}", va="center", ha="center", fontsize=8,
            color=INK if number % 2 else "white",
        )  # fmt: skip
        _transfer(panel, drawn, tile.drain, tile.drained, 2)
    panel.set_yticks(range(len(_LANES)), _LANES, fontsize=8)
    panel.set_ylim(2.6, -0.6)
    panel.set_xlim(0, max(tile.drain.end for tile in level.first) * 1.01)
    panel.grid(axis="y", visible=False)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    panel.tick_params(axis="x", labelsize=8)
    shown = f"the first {len(level.first)} of {level.tiles:,}" if level.tiles > 1 else "one tile"
    begins = f", from cycle {level.start:,.6g} on" if level.start else ""
    panel.set_title(f"{level.name}: {shown}{begins}", fontsize=9)


def _transfer(
    panel: Axes, drawn: DrawnMapping, span: Span, words: dict[str, int], lane: int
) -> None:
    """Tensors one after another; a transfer without limit takes no time and is a line."""
    total, begin = sum(words.values()), span.begin
    for t, name in enumerate(drawn.mapping.tensors):
        if not words.get(name):
            continue
        end = begin + (span.end - span.begin) * words[name] / total
        colour, hatch = drawn.hues[name], HATCHES[t % len(HATCHES)]
        _bar(panel, Span(begin, end), lane, label=name, colour=colour, hatch=hatch)
        begin = end


def _bar(
    panel: Axes, span: Span, lane: int, *, label: str, colour: str, hatch: str | None = None
) -> None:
    width = span.end - span.begin
    panel.barh(
        lane, width, 0.72, left=span.begin, lw=0.8, label=label, facecolor=colour,
        edgecolor="white" if width else colour, hatch=hatch,
    )  # fmt: skip
