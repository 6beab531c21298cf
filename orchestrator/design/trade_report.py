"""The page of a front of energy, delay and area: three views of its points, and their table."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mapspace import storage
from orchestrator.design.trade_front import TradeFront
from orchestrator.report.document import LEFT, RIGHT, Cell, Document, Figure, Section, Table
from orchestrator.report.figure_style import OUTSIDE, plain_figure, plain_ticks, save, styled
from orchestrator.report.label_places import number_dots
from orchestrator.report.page import write_page
from orchestrator.report.text_table import table_lines, wrapped
from orchestrator.report.units import millijoules
from orchestrator.sweep.report import FIGURE_FILE, PAGE_FILE, RECORDS_FILE, area_meaning, leaks
from orchestrator.sweep.results import ARCHITECTURES_FILE, RESULTS_FILE, axis_names, in_shown_unit

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

# Beyond so many points their numbers would hide the dots, in each view.
MOST_NUMBERS = 60, 40, 40
MOST_TEXT_ROWS = 30
SHOWN = {"energy_pj": "energy, mJ", "latency_s": "time, ms"}


def write_trade_report(results: TradeFront, folder: Path, proof: Section) -> None:
    """Writes `pareto.png`, `front.jsonl` and the page, which begins with what is certain."""
    records = "".join(f"{json.dumps(record)}\n" for record in results.records())
    storage.write_atomically(folder / RECORDS_FILE, records.encode())
    document = trade_document(results)
    document = replace(document, sections=[proof, *document.sections])
    write_page(document, folder / PAGE_FILE, folder)


def trade_document(results: TradeFront) -> Document:
    """The page: three views, every point, and the files beside it."""
    sweep = results.plan.sweep
    figure = Figure(
        Path(FIGURE_FILE).stem,
        "energy, time and area, two at a time",
        partial(draw_trade, results),
        "Each view has the third quantity as the colour; numbers are those of the table. Grey: "
        "machines that were proven and are not on the front.",
    )
    files = (
        (RECORDS_FILE, "the mappings of the front"),
        (ARCHITECTURES_FILE, "every machine that was proven, for each aim"),
        (RESULTS_FILE, "every layer of these"),
    )
    rows = [(Cell(name, link=name), what) for name, what in files]
    table = Table("files", "Files beside this page", ("", ""), (LEFT, LEFT), rows)
    sections = [
        Section("Energy, time and area", [meaning(results), figure]),
        Section("Points of the front", [trade_table(results, results.front), table]),
    ]
    return Document(sweep.name, " ".join(sweep.description.split()), sections)


def meaning(results: TradeFront) -> str:
    """What a point is."""
    layers = sum(layer.count for layer in results.plan.layers)
    return (
        f"A point is a machine with a mapping for each of {layers} layers: it has the least of "
        "what its last column says (W: of the energy + so many watts x the time), of all machines "
        "of the grid that are no larger and of all mappings. So nothing in the grid is better in "
        "energy, time or area without being worse in another; of the least energy or time alone "
        "only that is certain. Points between these rates are not looked for. "
        f"{area_meaning(results)}"
    )


def trade_table(results: TradeFront, chosen: pd.DataFrame) -> Table:
    """Points: axes, area, energy, time and what each is the least of."""
    area = results.plan.sweep.area_column
    header = (
        "#", *axis_names(results), f"area, {area.partition('_')[2]}", "energy, mJ", "time, ms",
        "power, W", *(["with idle, W"] if leaks(results) else []), "EDP, J s", "least of",
    )  # fmt: skip
    rows = [
        (
            str(row["front"]),
            *(str(row[name]) for name in axis_names(results)),
            f"{row[area]:,.0f}" if area == "area_bits" else f"{row[area]:.4g}",
            f"{millijoules(row['energy_pj']):.5g}",
            f"{1e3 * row['latency_s']:.5g}",
            f"{row['power_w']:.4g}",
            *([f"{row['chip_power_w']:.4g}"] if leaks(results) else []),
            f"{row['edp_js']:.5g}",
            row["aims"],
        )
        for row in chosen.to_dict("records")
    ]
    return Table("points", "", header, (*(RIGHT,) * (len(header) - 1), LEFT), rows)


def trade_text(results: TradeFront) -> str:
    """The front for a terminal."""
    front = results.front
    lines = table_lines(trade_table(results, front[:MOST_TEXT_ROWS]))
    if len(front) > MOST_TEXT_ROWS:
        lines.append(f"... and {len(front) - MOST_TEXT_ROWS} more in {ARCHITECTURES_FILE}")
    return "\n".join(["Front of energy, time and area", "", *lines, "", *wrapped(meaning(results))])


@styled
def draw_trade(results: TradeFront, path: Path) -> None:
    """Draws each pair of energy, time and area, the third as the colour."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    area = results.plan.sweep.area_column
    shown = results.architectures[results.architectures["energy_pj"] > 0]
    shown = shown.assign(
        energy_pj=in_shown_unit("energy_pj", shown["energy_pj"]), latency_s=1e3 * shown["latency_s"]
    )
    figure = plain_figure(9.2, 9.6)
    grid = figure.add_gridspec(2, 2, height_ratios=(1.35, 1))
    views = (
        (grid[0, :], ("latency_s", "energy_pj", area)),
        (grid[1, 0], (area, "energy_pj", "latency_s")),
        (grid[1, 1], (area, "latency_s", "energy_pj")),
    )
    panels = [_view(figure, figure.add_subplot(place), shown, columns) for place, columns in views]
    # The scale of one view is not to be taken for the axis of the next.
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(wspace=0.06)
    # Where dots are is known when all is laid out.
    figure.draw_without_rendering()
    front = shown[shown["front"] > 0]
    numbers = [str(number) for number in front["front"]]
    for panel, (_, columns), most in zip(panels, views, MOST_NUMBERS, strict=True):
        if len(front) <= most:
            dots = front[list(columns[:2])].to_numpy(dtype=np.float64)
            number_dots(panel, dots, numbers, size=7, radius=3.3)
    save(figure, path)


def _view(figure: Drawing, panel: Axes, shown: pd.DataFrame, columns: tuple[str, str, str]) -> Axes:
    """One pair of quantities; the third is the colour."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    across, up, hue = columns
    front, others = shown[shown["front"] > 0], shown[shown["front"] == 0]
    panel.scatter(others[across], others[up], s=12, color=OUTSIDE, linewidths=0, zorder=2)
    hues = front[hue].to_numpy(dtype=np.float64)
    low, high = hues.min(), hues.max()
    norm = LogNorm(low, high if high > low else 1.01 * low)
    dots = panel.scatter(
        front[across], front[up], c=hues, norm=norm, cmap="viridis", s=42, linewidths=0, zorder=3
    )
    panel.set_xscale("log")
    panel.set_yscale("log")
    plain_ticks(panel, "x")
    plain_ticks(panel, "y")
    panel.set_xlabel(_title(across))
    panel.set_ylabel(_title(up))
    bar = figure.colorbar(dots, ax=panel, pad=0.02)
    bar.set_label(_title(hue))
    bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    return panel


def _title(column: str) -> str:
    words = {"area_bits": "area proxy, bits of buffer", "area_mm2": "area, mm2"}
    return (SHOWN | words)[column]
