"""The drawing of a network's layers: what each takes of the energy, by level, and of the cycles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.answers.mapping_figure import DrawnMapping
from orchestrator.networks.buffer_figure import ROW
from orchestrator.report.figure_style import BLUE, MUTED, RED, marker, plain_figure, save, styled
from orchestrator.report.palette import PALETTE
from orchestrator.report.units import millijoules


@styled
def draw_layers(layers: Sequence[tuple[DrawnMapping, int]], path: Path) -> None:
    """Draws two bars per layer, in the network's order, each for all of its occurrences.

    Args:
        layers: mappings, and how often the network has each.
        path: `.png` or `.svg` file to write.
    """
    from matplotlib.ticker import FuncFormatter

    figure = plain_figure(10.0, 1.5 + ROW * len(layers))
    energies, cycles = figure.subplots(1, 2, sharey=True, width_ratios=(1.5, 1))
    names = [level.name for level in layers[0][0].machine.levels]
    for place, (drawn, count) in enumerate(layers):
        by_level = drawn.detail.energy_pj[0].sum(axis=1).tolist()
        by_level.append(float(drawn.detail.network_energy_pj.sum()))
        left = 0.0
        parts = [*by_level, drawn.detail.mac_energy_pj]
        for energy, colour in zip(parts, _hues(len(names)), strict=True):
            width = millijoules(count * energy)
            energies.barh(place, width, 0.72, left=left, color=colour)
            left += width
        cycles.barh(place, count * drawn.cycles, 0.72, color=BLUE)
    handles = [
        marker(colour, name, "s")
        for name, colour in zip([*names, "network", "MAC"], _hues(len(names)), strict=True)
        if name != "network" or any(one.detail.network_energy_pj.any() for one, _ in layers)
    ]
    titles = [f"{one.workload.name}{f' x {n}' if n > 1 else ''}" for one, n in layers]
    energies.set_yticks(range(len(layers)), titles)
    energies.invert_yaxis()
    energies.set_xlabel("energy, mJ")
    cycles.set_xlabel("cycles")
    for panel in (energies, cycles):
        panel.grid(axis="y", visible=False)
    cycles.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    cycles.tick_params(axis="x", labelsize=8)
    figure.legend(handles=handles, loc="outside upper left", ncols=len(names) + 2, fontsize=9)
    save(figure, path)


def _hues(levels: int) -> list[str]:
    """A colour per level, then of the network and of the multiply-accumulates."""
    return [*(PALETTE[place % 7] for place in range(levels)), RED, MUTED]
