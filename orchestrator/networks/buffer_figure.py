"""The drawing of what lies in the shared buffer while each layer of a network runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.networks.runs_of_steps import Ran
from orchestrator.report.figure_style import BLUE, MUTED, OUTSIDE, RED, plain_figure, save, styled

ROW = 0.24
"""Inches of a layer's bar."""


@styled
def draw_buffer(layers: Sequence[Ran], name: str, capacity: int, path: Path) -> None:
    """Draws a bar per layer, in the network's order: words that lie there, of those it holds.

    Args:
        layers: as they run.
        name: of the buffer.
        capacity: words that it holds.
        path: `.png` or `.svg` file to write.
    """
    figure = plain_figure(8.0, 1.2 + ROW * len(layers))
    panel = figure.subplots()
    places = range(len(layers))
    panel.barh(places, [capacity] * len(layers), color=OUTSIDE, height=0.72)
    colours = [RED if ran.fused else BLUE for ran in layers]
    panel.barh(places, [ran.words for ran in layers], color=colours, height=0.72)
    for place, ran in enumerate(layers):
        if ran.fused:
            panel.text(capacity * 1.01, place, f"{ran.times} times", va="center", color=MUTED)
    panel.set_yticks(list(places), [ran.step.workload.name for ran in layers])
    panel.invert_yaxis()
    panel.set_xlim(0, capacity * 1.12)
    panel.set_xlabel(f"words that lie in {name} (red: cascades; grey: room for other tiles)")
    save(figure, path)
