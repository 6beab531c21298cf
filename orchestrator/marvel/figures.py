"""Figures of a Marvel study after Figures 6 to 10 of the paper, one PNG each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.maestro.distinct_blocks import LAYOUTS
from orchestrator.marvel.figure_looks import (
    LOOK,
    NAMES,
    draw_legend,
    draw_series,
    frame_cell,
    percent_text,
    times_text,
)
from orchestrator.marvel.network_numbers import (
    METHODS,
    blocks_ratio,
    found_after,
    joint_search,
    network_total,
    relative_performance,
    relative_performances,
    search_seconds,
)
from orchestrator.marvel.numbers import (
    FLOWS,
    MEASURES,
    PAPER_LAYOUT,
    Row,
    Study,
    energy_per_mac,
    flow_value,
    geometric_mean,
    label,
    layout_ratios,
    throughput,
    uniform_layouts,
)
from orchestrator.report.figure_style import (
    BAND,
    GRID,
    INK,
    MUTED,
    plain_figure,
    plain_ticks,
    save,
    styled,
    values_grid,
)
from orchestrator.report.palette import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INPUT_LOOK = {"X": (PALETTE[0], "o"), "Y": (PALETTE[5], "o"), "C": (PALETTE[1], "D")}
AXES = {"runtime": "throughput, MACs per cycle", "energy": "energy per MAC, units of one MAC"}


@styled
def draw_layouts(study: Study, path: Path) -> None:
    """Figure 6: a dot per layer and layout, its off-chip cost over the layer's best layout."""
    figure = plain_figure(10.2, 4.9)
    panel = figure.subplots()
    layers = study.layers
    for place, row in enumerate(layers):
        ratios = layout_ratios(row)
        panel.plot(
            [place, place], [1, max(ratios)], color=GRID, lw=5, zorder=1, solid_capstyle="butt"
        )
        for axis, (colour, marker) in INPUT_LOOK.items():
            some = [r for r, layout in zip(ratios, LAYOUTS, strict=True) if layout.inputs == axis]
            offset = {"X": -0.2, "Y": 0.0, "C": 0.2}[axis]
            panel.plot(
                [place + offset] * len(some),
                some,
                ls="",
                marker=marker,
                ms=5,
                mfc=colour,
                mec="white",
                mew=0.5,
                alpha=0.85,
                zorder=3,
            )
        panel.annotate(
            times_text(max(ratios)),
            (place, max(ratios)),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
        )
    panel.set_yscale("log")
    panel.set_ylim(0.85, 1.8 * max(max(layout_ratios(row)) for row in layers))
    names = [f"{label(row)}\n{'/'.join(row['off_chip']['layout'])}" for row in layers]
    panel.set_xticks(range(len(layers)), names)
    panel.set_xlim(-0.6, len(layers) - 0.4)
    panel.set_xlabel("layer, and its best layout: innermost axis of W/I/O")
    panel.set_ylabel("off-chip movement\nover the layer's best layout")
    plain_ticks(panel)
    values_grid(panel)
    draw_legend(figure, [(c, m, 6.0, f"inputs {a} innermost") for a, (c, m) in INPUT_LOOK.items()])
    save(figure, path)


@styled
def draw_uniform_layouts(study: Study, path: Path, network: str | None = None) -> None:
    """Figure 7: what each layout costs in all, uniform over all layers; a heat map by tensor."""
    from matplotlib.colors import LogNorm

    rows = [row for row in study.layers if network is None or network in row["networks"]]
    excess = uniform_layouts(rows, network).excess
    by_layout = dict(zip(LAYOUTS, excess, strict=True))
    weights, inputs, outputs = (list(dict.fromkeys(lay[i] for lay in LAYOUTS)) for i in range(3))
    figure = plain_figure(9.6, 3.5)
    panels = figure.subplots(1, len(outputs), sharey=True)
    shown = [max(100 * value, 1.0) for value in excess]
    # One colour means the same in all panels.
    norm = LogNorm(min(shown), max(*shown, 1.01 * min(shown)))
    for panel, output in zip(panels, outputs, strict=True):
        cells = [[100 * by_layout[w, i, output] for i in inputs] for w in weights]  # type: ignore[index]
        panel.imshow(
            [[max(cell, 1.0) for cell in line] for line in cells],
            norm=norm,
            cmap="YlOrRd",
            alpha=0.85,
            aspect="auto",
        )
        for y, line in enumerate(cells):
            for x, cell in enumerate(line):
                least = cell == 100 * min(excess)
                panel.annotate(
                    percent_text(cell),
                    (x, y),
                    ha="center",
                    va="center",
                    fontsize=10,
                    color="white" if norm(max(cell, 1.0)) > 0.72 else INK,
                    fontweight="bold" if least else "normal",
                )
                if (weights[y], inputs[x], output) == PAPER_LAYOUT:
                    frame_cell(panel, x, y)
        panel.set_xticks(range(len(inputs)), inputs)
        panel.set_yticks(range(len(weights)), weights)
        panel.set_title(f"outputs {output} innermost", fontsize=10.5)
        panel.set_xlabel("inputs, innermost axis")
        panel.tick_params(labelsize=10, length=0)
        panel.grid(visible=False)
        panel.spines[:].set_visible(False)
    panels[0].set_ylabel("weights, innermost axis")
    save(figure, path)


@styled
def draw_mappings(study: Study, path: Path) -> None:
    """Figure 8: throughput and energy of every layer, by Marvel and by the dataflows."""
    groups: dict[str, list[tuple[str, dict[str, dict[str, float]], float]]] = {}
    for accelerator in study.accelerators:
        for row in study.on(accelerator):
            best = row["on_chip"]["best"]
            values = {
                "runtime": {"marvel": throughput(row, best["runtime"]["value"])},
                "energy": {"marvel": energy_per_mac(row, best["energy"]["value"])},
            }
            for flow in FLOWS:
                runtime, energy = (flow_value(row, flow, measure) for measure in MEASURES)
                if runtime is not None and energy is not None:
                    values["runtime"][flow] = throughput(row, runtime)
                    values["energy"][flow] = energy_per_mac(row, energy)
            bound = row["roofline"]["macs_per_cycle"]
            groups.setdefault(accelerator, []).append((label(row), values, bound))
    _draw_groups(groups, path, "roofline of the layer, tile by tile")


@styled
def draw_networks(study: Study, path: Path) -> None:
    """Figure 9: throughput and energy of whole networks, by Marvel and by the dataflows."""
    groups: dict[str, list[tuple[str, dict[str, dict[str, float]], float]]] = {}
    for accelerator in study.accelerators:
        for network in study.networks:
            rows = study.on(accelerator)
            total = network_total(rows, network)
            bound = sum(
                row["macs"] * row["networks"][network] / row["roofline"]["macs_per_cycle"]
                for row in rows
                if network in row["networks"]
            )
            values = {
                "runtime": {n: total.macs / cycles for n, cycles in total.runtime.items()},
                "energy": {n: energy / total.macs for n, energy in total.energy.items()},
            }
            groups.setdefault(accelerator, []).append((network, values, total.macs / bound))
    _draw_groups(groups, path, "roofline of its layers, tile by tile")


@styled
def draw_baselines(study: Study, path: Path) -> None:
    """Figure 10: what other searches of the whole space reach, over Marvel; and their time.

    With joint searches a fourth row shows what their tiles move off chip.
    """
    methods = [m for m in METHODS if any(relative_performances(study.rows, m, e) for e in MEASURES)]
    columns = len(study.accelerators)
    lines = 4 if "joint" in methods else 3
    figure = plain_figure(5.1 * columns + 0.4, 2.3 * lines + 0.7)
    panels = figure.subplots(lines, columns, squeeze=False, sharey="row", sharex="col")
    for column, accelerator in enumerate(study.accelerators):
        rows = study.on(accelerator)
        joint = [joint_search(row) for row in rows]
        hollow = [found is not None and not found["complete"] for found in joint]
        for panel, measure in zip(panels[:2, column], MEASURES, strict=True):
            panel.axhline(1.0, color=LOOK["marvel"][0], lw=1.6, zorder=1)
            values = {m: [relative_performance(row, m, measure) for row in rows] for m in methods}
            draw_series(panel, values, hollow={"joint": hollow})
            for place, value in enumerate(values.get("joint", [])):
                # Gains of some per cent are small on the axis that brute force needs.
                if value >= 1.005:
                    panel.annotate(
                        f"{value:.2f}",
                        (place, value),
                        xytext=(0, 6),
                        textcoords="offset points",
                        ha="center",
                        fontsize=7.5,
                        color=LOOK["joint"][0],
                    )
            means = [
                f"{NAMES[m]} {geometric_mean(found):.2f}"
                for m in methods
                if (found := relative_performances(rows, m, measure))
            ]
            text = "geometric means: " + ", ".join(means)
            panel.set_title(text, fontsize=8.5, fontweight="normal", color=MUTED)
        panels[0, column].annotate(
            accelerator,
            (0, 1),
            xytext=(0, 22),
            textcoords="offset points",
            xycoords="axes fraction",
            fontsize=11,
            fontweight="bold",
        )
        times = {m: [found_after(row, m) for row in rows] for m in methods if m != "joint"}
        if "joint" in methods:
            times["joint"] = [found["seconds"] if found else math.nan for found in joint]
            panels[3, column].axhline(1.0, color=LOOK["marvel"][0], lw=1.6, zorder=1)
            _joint_blocks(panels[3, column], rows)
        marvel = [search_seconds(row) for row in rows]
        draw_series(panels[2, column], {"marvel": marvel, **times}, hollow={"joint": hollow})
        panels[-1, column].set_xticks(range(len(rows)), [label(row) for row in rows])
        panels[-1, column].set_xlabel("layer")
    texts = (
        "throughput\nover Marvel's",
        "energy efficiency\nover Marvel's",
        "search time, seconds",
        "off-chip blocks of the\njoint tile over Marvel's",
    )
    for panel, text in zip(panels[:, 0], texts, strict=False):
        panel.set_ylabel(text)
    for panel in panels.flat:
        panel.set_yscale("log")
        plain_ticks(panel)
        values_grid(panel)
    searched = [run for row in study.rows if (run := joint_search(row))]
    unproven = not all(run["complete"] for run in searched)
    draw_legend(
        figure,
        [(*LOOK[name], NAMES[name]) for name in ("marvel", *methods)],
        hollow=(*LOOK["joint"], "joint search, out of time") if unproven else None,
    )
    save(figure, path)


def _joint_blocks(panel: Axes, rows: Sequence[Row]) -> None:
    """What the tiles of the joint searches move, a marker per objective: it says which."""
    for shift, measure, text in ((-0.18, "runtime", "T"), (0.18, "energy", "E")):
        for place, row in enumerate(rows):
            joint = joint_search(row)
            if joint and measure in joint["best"]:
                panel.plot(
                    place + shift,
                    blocks_ratio(row, joint, measure),
                    ls="",
                    marker=f"${text}$",
                    ms=6,
                    mfc=LOOK["joint"][0],
                    mec=LOOK["joint"][0],
                    mew=0.4,
                    zorder=3,
                )
    text = "T: tile of the best throughput, E: of the least energy"
    panel.set_title(text, fontsize=8.5, fontweight="normal", color=MUTED)
    for place in range(0, len(rows), 2):
        panel.axvspan(place - 0.5, place + 0.5, color=BAND, lw=0, zorder=0)


def _draw_groups(
    groups: Mapping[str, Sequence[tuple[str, dict[str, dict[str, float]], float]]],
    path: Path,
    bound_text: str,
) -> None:
    """Two rows of panels, throughput and energy; a column per accelerator."""
    most = max(map(len, groups.values()))
    figure = plain_figure(len(groups) * (1.6 + 0.31 * max(most, 10)), 6.6)
    panels = figure.subplots(2, len(groups), squeeze=False, sharey="row", sharex="col")
    for column, (accelerator, entries) in enumerate(groups.items()):
        for panel, measure in zip(panels[:, column], MEASURES, strict=True):
            draw_series(
                panel,
                {
                    who: [values[measure].get(who, math.nan) for _, values, _ in entries]
                    for who in ("marvel", *FLOWS)
                },
            )
            panel.set_yscale("log")
            plain_ticks(panel)
            values_grid(panel)
        for place, (_, _, bound) in enumerate(entries):
            panels[0, column].plot([place - 0.36, place + 0.36], [bound] * 2, color=INK, lw=1.6)
        panels[0, column].set_title(accelerator)
        panels[1, column].set_xticks(range(len(entries)), [name for name, _, _ in entries])
        if most > 20:
            panels[1, column].tick_params(axis="x", rotation=90, labelsize=7)
    for panel, measure in zip(panels[:, 0], MEASURES, strict=True):
        panel.set_ylabel(AXES[measure])
    styles = [(*LOOK[who], NAMES[who]) for who in ("marvel", *FLOWS)]
    draw_legend(figure, styles, line=bound_text)
    save(figure, path)
