"""The figure of a sweep, its objective against the area proxy, and a self-contained page of it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.machines.machine_units import leakage_w
from mapspace import storage
from orchestrator.report.document import LEFT, RIGHT, Cell, Document, Figure, Section, Table
from orchestrator.report.figure_style import (
    INK,
    MUTED,
    OUTSIDE,
    marker,
    plain_figure,
    plain_ticks,
    save,
    styled,
)
from orchestrator.report.label_places import number_dots
from orchestrator.report.page import write_page
from orchestrator.report.text_table import line_width, part_of, table_lines, wrapped
from orchestrator.report.units import millijoules
from orchestrator.sweep.fitting import lines_of_misfits
from orchestrator.sweep.results import (
    ARCHITECTURES_FILE,
    RESULTS_FILE,
    SweepResults,
    axis_names,
    column_text,
    front_records,
    in_shown_unit,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FIGURE_FILE = "pareto.png"
PAGE_FILE = "sweep.html"
RECORDS_FILE = "front.jsonl"
# Beyond so many kinds of machines, hues can no longer be told apart.
MOST_HUES = 8
# Beyond so many accelerators their names would hide the dots.
MOST_NAMES = 12
# Beyond so many that are off the front their numbers would.
MOST_NUMBERS = 60
# Beyond so many accelerators a page has no use for a row each.
MOST_ROWS = 1000


def write_sweep_report(results: SweepResults, folder: Path, proof: Section | None = None) -> Path:
    """Writes `pareto.png`, `front.jsonl` and `sweep.html`; the page's path.

    Args:
        results: the sweep.
        folder: its run folder.
        proof: of a design: what is certain of its grid, with which the page begins.
    """
    records = "".join(f"{json.dumps(record)}\n" for record in front_records(results))
    storage.write_atomically(folder / RECORDS_FILE, records.encode())
    document = sweep_document(results, proof)
    write_page(document, folder / PAGE_FILE, folder)
    return folder / PAGE_FILE


def sweep_document(results: SweepResults, proof: Section | None = None) -> Document:
    """The page of a sweep: its figure, what is best, every accelerator, and the files beside it.

    Args:
        results: the sweep.
        proof: of a design: what is certain of its grid, with which the page begins.
    """
    sweep = results.plan.sweep
    objective = column_text(results.objective_column)
    # One dot is no front; of a design that seeks one machine the others say little.
    drawn = len(results.architectures) > 1 and (proof is None or len(results.front) > 1)
    figure = Figure(
        Path(FIGURE_FILE).stem,
        f"{objective} against {_area_text(results)}",
        partial(draw_front, results),
        meaning(results),
    )
    found, others = results.front, _others(results)
    left_out = len(others) - MOST_ROWS
    every = replace(
        _table(results, others[:MOST_ROWS]),
        rows=[
            *(tuple(Cell(cell, strong=True) for cell in row) for row in _rows(results, found)),
            *_rows(results, others[:MOST_ROWS], len(found) + 1),
        ],
        note=f"{left_out:,} more are in {ARCHITECTURES_FILE}." if left_out > 0 else "",
    )
    files = Table(
        "files",
        "Files beside this page",
        ("", ""),
        (LEFT, LEFT),
        [
            (Cell(name, link=name), what)
            for name, what in (
                (RECORDS_FILE, "the mappings of the front"),
                (ARCHITECTURES_FILE, "every accelerator"),
                (RESULTS_FILE, "every point"),
            )
        ],
    )
    first = "Those on the Pareto front come first, numbered as in the figure."
    if not drawn:
        first = "The best one comes first; the others were proven on the way."
    sections = [
        *([] if proof is None else [proof]),
        Section(
            "Pareto front" if drawn else "The best accelerator",
            [
                best_line(results),
                *lines_of_misfits(results),
                figure if drawn else meaning(results),
            ],
        ),
        Section("Accelerators", [first, every, files]),
    ]
    return Document(sweep.name, " ".join(sweep.description.split()), sections)


@styled
def draw_front(results: SweepResults, path: Path) -> None:
    """Draws a dot per architecture over its area, the Pareto front through the best.

    Filled dots are proven in every layer; rings have a layer that ran out of time. Numbers are
    those of the table.
    """
    from matplotlib.lines import Line2D

    area, column, front = results.plan.sweep.area_column, results.objective_column, results.front
    axes = area, column
    # A logarithmic axis has no place for 0, nor for what has no mapping.
    drawn = results.architectures[results.architectures[column] > 0]
    drawn = drawn.assign(**{column: in_shown_unit(column, drawn[column])})
    front = front.assign(**{column: in_shown_unit(column, front[column])})
    figure = plain_figure(9.2, 5.6)
    panel = figure.subplots()
    kinds = sorted(drawn["processing_elements"].unique().tolist())
    hues = _hues(kinds)
    proven = (drawn["proven"] == drawn["points"]).to_numpy()
    within = drawn["within_limits"].to_numpy(dtype=bool)
    _dots(panel, drawn[proven & ~within], axes, OUTSIDE, hollow=False)
    _dots(panel, drawn[~proven & ~within], axes, OUTSIDE, hollow=True)
    for kind in kinds:
        of_kind = (drawn["processing_elements"] == kind).to_numpy() & within
        _dots(panel, drawn[of_kind & proven], axes, hues[kind], hollow=False)
        _dots(panel, drawn[of_kind & ~proven], axes, hues[kind], hollow=True)
    panel.step(front[area], front[column], where="post", color=INK, lw=1.3, zorder=2)
    named = results.plan.sweep.grid is None and len(drawn) <= MOST_NAMES
    for row in drawn.to_dict("records"):
        at = (row[area], row[column])
        if row["front"]:
            _label(panel, str(row["front"]), at, left=True)
        if named:
            _label(panel, str(row["architecture"]), at, left=False)
    if len(drawn):
        panel.set_xscale("log")
        panel.set_yscale("log")
        plain_ticks(panel, "x")
        plain_ticks(panel, "y")
    panel.set_xlabel("area, mm2" if area == "area_mm2" else "area proxy, bits of buffer")
    panel.set_ylabel(f"{column_text(column)}, all layers")
    handles = [Line2D([], [], color=INK, lw=1.3, label="Pareto front")]
    if len(kinds) <= MOST_HUES:
        handles += [marker(hues[kind], f"{kind:,} elements") for kind in kinds]
    if not within.all():
        handles.append(marker(OUTSIDE, f"not within: {results.plan.sweep.limits}"))
    if not proven.all():
        handles.append(marker(MUTED, "not proven in time", mfc="none"))
    # Nothing is both smaller and better than the front, so there is room.
    panel.legend(handles=handles, loc="lower left")
    others = _others(results)
    others = others[others[column] > 0]
    if not named and 0 < len(others) <= MOST_NUMBERS:
        # Where dots are is known when all is laid out.
        figure.draw_without_rendering()
        numbers = [str(len(front) + 1 + place) for place in range(len(others))]
        others = others.assign(**{column: in_shown_unit(column, others[column])})
        dots = others[list(axes)].to_numpy(dtype=np.float64)
        number_dots(panel, dots, numbers, size=6.5, radius=2.5)
    save(figure, path)


def front_table(results: SweepResults) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the Pareto front as text."""
    table = _table(results, results.front)
    return list(table.header), table.cells()


def _table(results: SweepResults, chosen: pd.DataFrame) -> Table:
    """Architectures: their place on the front, axes, area and costs."""
    extra = ["ED2P, J s^2"] if results.plan.sweep.objective == "ed2p" else []
    area = results.plan.sweep.area_column
    costs = (
        f"area, {area.partition('_')[2]}",
        "energy, mJ",
        "cycles",
        "time, ms",
        "power, W",
        *(["with idle, W"] if leaks(results) else []),
        "EDP, J s",
        *extra,
    )
    header = ("#", *axis_names(results), *costs, "proven")
    return Table("accelerators", "", header, (RIGHT,) * len(header), _rows(results, chosen))


def _rows(
    results: SweepResults, chosen: pd.DataFrame, first: int | None = None
) -> list[tuple[str, ...]]:
    """Cells of architectures; those off the front are numbered from a first number, if any."""
    area = results.plan.sweep.area_column
    extra = ["ed2p_js2"] if results.plan.sweep.objective == "ed2p" else []
    return [
        (
            str(row["front"] or ("" if first is None else first + place)),
            *(str(row[name]) for name in axis_names(results)),
            f"{row['area_bits']:,.0f}" if area == "area_bits" else f"{row[area]:.4g}",
            f"{millijoules(row['energy_pj']):.5g}",
            f"{row['latency_cycles']:,.0f}",
            f"{1e3 * row['latency_s']:.5g}",
            f"{row['power_w']:.4g}",
            *([f"{row['chip_power_w']:.4g}"] if leaks(results) else []),
            *(f"{row[name]:.5g}" for name in ("edp_js", *extra)),
            f"{row['proven']}/{row['points']}",
        )
        for place, row in enumerate(chosen.to_dict("records"))
    ]


def leaks(results: SweepResults) -> bool:
    """Whether machines leak, so that power with all that is idle is another one."""
    return any(leakage_w(each.accelerator) > 0 for each in results.plan.architectures)


def _others(results: SweepResults) -> pd.DataFrame:
    """The architectures off the front, the best first, those without a mapping last."""
    others = results.architectures[results.architectures["front"] == 0]
    return others.sort_values(results.objective_column, kind="stable")


def best_line(results: SweepResults) -> str:
    """Which accelerator is the best, within the limits if there are any."""
    best, limits = results.best, str(results.plan.sweep.limits)
    under = f" with {limits}" if limits else ""
    if best is None:
        return f"No accelerator{under} has a mapping for every workload."
    column = results.objective_column
    name, _, unit = column_text(column).partition(", ")
    value = f"{in_shown_unit(column, best[column]):.5g} {unit}"
    return f"Least {name}{under}: {value}, by {best['architecture']}."


def text_summary(results: SweepResults, *, most_rows: int = 30) -> str:
    """The Pareto front of a sweep for a terminal."""
    front = results.front
    lines = _front_lines(_table(results, front[:most_rows])) if len(front) else []
    if len(front) > most_rows:
        lines.append(f"... and {len(front) - most_rows} more in {ARCHITECTURES_FILE}")
    others = len(results.architectures) - len(front)
    if others:
        lines.append(f"{others:,} others are off the front, see {ARCHITECTURES_FILE}")
    title = f"Pareto front of {column_text(results.objective_column)} against {_area_text(results)}"
    ends = [best_line(results), *lines_of_misfits(results), *counts_line(results).splitlines()]
    return "\n".join([title, "", *lines, "", *(line for end in ends for line in wrapped(end))])


def _front_lines(table: Table) -> list[str]:
    """A table; where the terminal is too narrow for it, without cycles and what is said below."""
    whole = table_lines(table, width=sys.maxsize)
    if len(whole[0]) <= line_width():
        return whole
    # Cycles are in the time, and how many are proven is said in words where all are.
    *_, last = zip(*table.rows, strict=True)
    proven = all(part == whole for part, _, whole in (str(text).partition("/") for text in last))
    left_out = {"cycles", *(["proven"] if proven else [])}
    kept = [place for place, name in enumerate(table.header) if name not in left_out]
    return table_lines(part_of(table, kept))


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
        f"Energy and time are sums over {layers} layer{'s' if layers > 1 else ''}, EDP is the "
        "product of the sums, power their quotient, each accelerator at its own clock; every "
        "mapping is the best for its own "
        f"layer's {sweep.objective}. {area_meaning(results)}"
    )


def area_meaning(results: SweepResults) -> str:
    """What the area is."""
    sweep = results.plan.sweep
    if sweep.area_column == "area_mm2":
        return (
            "Area is that of the memories and the multiply-accumulate units, without wires, "
            "networks and control."
        )
    return (
        "Area is a proxy: the bits of the on-chip buffers and "
        f"{sweep.proxy.processing_element:g} words per processing element."
    )


def _area_text(results: SweepResults) -> str:
    return "the area" if results.plan.sweep.area_column == "area_mm2" else "the area proxy"


def _hues(kinds: list[int]) -> dict[int, Any]:
    """A colour per number of processing elements, dark to light."""
    from matplotlib import colormaps

    shades = np.linspace(0.0, 0.88, len(kinds))
    return dict(zip(kinds, colormaps["viridis"](shades), strict=True))


def _dots(
    panel: Axes, rows: pd.DataFrame, axes: tuple[str, str], colour: Any, *, hollow: bool
) -> None:
    panel.scatter(
        rows[axes[0]],
        rows[axes[1]],
        s=np.where(rows["front"] > 0, 46, 20),
        facecolors="none" if hollow else [colour],
        edgecolors=[colour],
        linewidths=1.2 if hollow else 0.0,
        alpha=1.0 if hollow else 0.85,
        zorder=3,
    )


def _label(panel: Axes, text: str, at: tuple[float, float], *, left: bool) -> None:
    """A label beside a dot: below it to the left, or above it to the right."""
    panel.annotate(
        text,
        at,
        xytext=(-4, -4) if left else (5, 4),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top" if left else "bottom",
        fontsize=8,
        parse_math=False,
    )
