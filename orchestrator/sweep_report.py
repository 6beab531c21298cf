"""The figure of a sweep, its objective against the area proxy, and a self-contained page of it."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orchestrator.plots import INK, MUTED
from orchestrator.sweep_results import (
    ARCHITECTURES_FILE,
    SweepResults,
    axis_names,
    column_text,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FIGURE_FILE = "pareto.png"
PAGE_FILE = "sweep.html"
GRID, EDGE = "#e6e9ee", "#b8c0ca"
# Beyond so many kinds of machines, hues can no longer be told apart.
MOST_HUES = 8

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ name }}</title>
<style>
body { margin: 0 auto; max-width: 1080px; padding: 36px 28px 64px; color: #1f2933;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
h1 { font-size: 28px; margin: 0 0 6px; }
p { max-width: 78ch; }
.note { color: #697586; font-size: 14px; }
img { display: block; width: 100%; height: auto; margin: 14px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 0 6px 18px; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #e3e8ef; }
th { color: #697586; font-size: 13px; }
</style>
</head>
<body>
<h1>{{ name }}</h1>
<p>{{ description }}</p>
<img src="data:image/png;base64,{{ image }}" alt="{{ objective }} against the area proxy">
<p class="note">{{ note }}</p>
<h2>Pareto front</h2>
<div class="scroll"><table>
<thead><tr>{% for cell in header %}<th>{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table></div>
</body>
</html>
"""


def write_sweep_report(results: SweepResults, folder: Path) -> Path:
    """Writes `pareto.png` and `sweep.html`; the page's path."""
    import jinja2

    figure, page = folder / FIGURE_FILE, folder / PAGE_FILE
    draw_front(results, figure)
    header, rows = front_table(results)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    text = environment.from_string(PAGE).render(
        name=results.plan.sweep.name,
        description=" ".join(results.plan.sweep.description.split()),
        objective=column_text(results.objective_column),
        image=base64.b64encode(figure.read_bytes()).decode(),
        note=meaning(results),
        header=header,
        rows=rows,
    )
    partial = folder / f".{PAGE_FILE}.partial"
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, page)
    return page


def draw_front(results: SweepResults, path: Path) -> None:
    """Draws a dot per architecture over its area, the Pareto front through the best.

    Filled dots are proven in every layer; rings have a layer that ran out of time. Numbers are
    those of the table.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    column, front = results.objective_column, results.front
    # A logarithmic axis has no place for 0, nor for what has no mapping.
    drawn = results.architectures[results.architectures[column] > 0]
    figure = Figure(figsize=(9.2, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    kinds = sorted(drawn["processing_elements"].unique().tolist())
    hues = _hues(kinds)
    proven = (drawn["proven"] == drawn["points"]).to_numpy()
    for kind in kinds:
        of_kind = (drawn["processing_elements"] == kind).to_numpy()
        _dots(panel, drawn[of_kind & proven], column, hues[kind], hollow=False)
        _dots(panel, drawn[of_kind & ~proven], column, hues[kind], hollow=True)
    panel.step(front["area"], front[column], where="post", color=INK, lw=1.3, zorder=2)
    for row in front.to_dict("records"):
        panel.annotate(
            str(row["front"]),
            (row["area"], row[column]),
            xytext=(-4, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8,
            color=INK,
        )
    if len(drawn):
        panel.set_xscale("log")
        panel.set_yscale("log")
    panel.set_xlabel("area proxy, words of buffer", color=INK)
    panel.set_ylabel(f"{column_text(column)}, all layers", color=INK)
    handles = [Line2D([], [], color=INK, lw=1.3, label="Pareto front")]
    if len(kinds) <= MOST_HUES:
        handles += [_handle(hues[kind], f"{kind:,} elements") for kind in kinds]
    if not proven.all():
        handles.append(_handle(MUTED, "not proven in time", hollow=True))
    panel.legend(handles=handles, frameon=False, fontsize=9, labelcolor=INK)
    _tidy(panel)
    partial = path.with_name(f".{path.name}.partial")
    figure.savefig(partial, format="png", dpi=170, facecolor="white")
    os.replace(partial, path)


def front_table(results: SweepResults) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the Pareto front as text."""
    names, column = axis_names(results), results.objective_column
    header = ["#", *names, "area, words", "energy, mJ", "cycles", column_text(column), "proven"]
    rows = [
        [
            str(row["front"]),
            *(str(row[name]) for name in names),
            f"{row['area']:,.0f}",
            f"{row['energy_pj'] / 1e9:.4g}",
            f"{row['latency_cycles']:,.0f}",
            f"{row[column]:.5g}",
            f"{row['proven']}/{row['points']}",
        ]
        for row in results.front.to_dict("records")
    ]
    return header, rows


def text_summary(results: SweepResults, *, most_rows: int = 30) -> str:
    """The Pareto front of a sweep for a terminal."""
    header, rows = front_table(results)
    shown_rows = [header, *rows[:most_rows]]
    widths = [max(len(row[i]) for row in shown_rows) for i in range(len(header))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in shown_rows
    ]
    if len(rows) > most_rows:
        lines.append(f"... and {len(rows) - most_rows} more in {ARCHITECTURES_FILE}")
    if not rows:
        lines = ["No accelerator has a mapping for every workload."]
    title = f"Pareto front of {column_text(results.objective_column)} against the area proxy"
    return "\n".join([title, "", *lines, "", counts_line(results)])


def counts_line(results: SweepResults) -> str:
    """How many points there are, and what became of them."""
    points = results.points
    distinct = len(points.drop_duplicates(["workload_hash", "accelerator_hash"]))
    kinds = ", ".join(
        f"{count:,} {str(status).replace('_', ' ')}"
        for status, count in points["status"].value_counts().items()
    )
    return f"{len(points):,} points ({distinct:,} distinct): {kinds}\n{meaning(results)}"


def meaning(results: SweepResults) -> str:
    """What the totals and the area are."""
    sweep = results.plan.sweep
    layers = sum(layer.count for layer in results.plan.layers)
    return (
        f"Energy and cycles are sums over {layers} layers, EDP is the product of the sums; every "
        f"mapping is the best for its own layer's {sweep.objective}. Area is a proxy: "
        f"{sweep.area.processing_element:g} words per processing element and the on-chip buffers."
    )


def _hues(kinds: list[int]) -> dict[int, Any]:
    """A colour per number of processing elements, dark to light."""
    from matplotlib import colormaps

    shades = np.linspace(0.0, 0.88, len(kinds))
    return dict(zip(kinds, colormaps["viridis"](shades), strict=True))


def _dots(panel: Axes, rows: pd.DataFrame, column: str, colour: Any, *, hollow: bool) -> None:
    panel.scatter(
        rows["area"],
        rows[column],
        s=np.where(rows["front"] > 0, 46, 20),
        facecolors="none" if hollow else [colour],
        edgecolors=[colour],
        linewidths=1.2 if hollow else 0.0,
        alpha=1.0 if hollow else 0.85,
        zorder=3,
    )


def _handle(colour: Any, label: str, *, hollow: bool = False) -> Any:
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], color=colour, ls="", marker="o", ms=6, label=label, mfc="none" if hollow else colour
    )


def _tidy(panel: Axes) -> None:
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color(EDGE)
    panel.grid(which="major", color=GRID, lw=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(colors=MUTED, labelsize=9, which="both")
