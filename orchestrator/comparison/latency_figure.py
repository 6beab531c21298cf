"""The figure of when each method pays: against the latency of a true query, and over all times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orchestrator.comparison.figures import LEGEND_ROW, styles
from orchestrator.comparison.latency_replay import (
    Bills,
    FloatArray,
    IntArray,
    Method,
    above_after,
    asks_surrogate,
    best_of,
    deployable,
    end_after,
)
from orchestrator.comparison.results import Results
from orchestrator.report.figure_style import INK, percent_ticks, save, styled
from orchestrator.report.light_ticks import Inches, set_ticks
from searchers import SEARCHERS, searcher_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LATENCIES: FloatArray = np.geomspace(1e-6, 10.0, 57)
TIMES: FloatArray = np.geomspace(1e-3, 1e5, 65)

# The time that the lines and the first table hold.
FIXED_SECONDS = 60.0

# Over how many problems a surrogate's bill is spread.
PROBLEMS = (1, 10, 100, 1000, 10000)
DRAWN_PROBLEMS = 1000

TIME_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
TIME_TICKS = (1e-3, 1e-2, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0)
LATENCY_TICKS = tuple(10.0**power for power in range(-6, 2))
# Below the panels is the legend, so many methods in a row.
PANELS = Inches(5.5, 4.0, left=0.8, right=0.2, bottom=0.6, top=0.36, beside=0.95, between=0.9)
BESIDE = 5


def span(seconds: float) -> str:
    """A time in the unit that suits it, three digits."""
    if seconds <= 0:
        return "0 s"
    unit, name = next(
        ((u, n) for u, n in TIME_UNITS if seconds >= u * (1 - 1e-9)),
        TIME_UNITS[-1],
    )
    value = seconds / unit
    return f"{value:,.0f} {name}" if value >= 99.5 else f"{value:.3g} {name}"


def methods_of(results: Results, bills: Bills) -> list[Method]:
    """The methods of the lines: every searcher, and with its bill what asks a surrogate."""
    found = [Method(label) for label in results.searchers]
    if bills:
        found += [
            Method(label, DRAWN_PROBLEMS)
            for label in results.searchers
            if asks_surrogate(results, label) and deployable(results, label)
        ]
    return found


def black_boxes(results: Results) -> list[str]:
    """Searchers that know the space alone, and could return what they show."""
    names = {entry["label"]: entry["name"] for entry in results.experiment["searchers"]}
    return [
        label
        for label in results.searchers
        if _black_box(names[label]) and deployable(results, label)
    ]


def _black_box(name: str) -> bool:
    """Whether a searcher knows the space alone, as far as it can still be asked."""
    return name not in SEARCHERS or searcher_class(name).BLACK_BOX


def maps_of(results: Results, bills: Bills) -> list[tuple[str, list[Method]]]:
    """The maps: a title and the methods that are compared."""
    possible = [label for label in results.searchers if deployable(results, label)]
    boxes = black_boxes(results)
    maps = [("Best of all methods", [Method(label) for label in possible])]
    asking = {label for label in boxes if asks_surrogate(results, label)}
    if len(boxes) > 1 and (len(boxes) < len(possible) or asking):
        free = " and the surrogate, free of charge" if asking else ""
        maps.append((f"Best of the black boxes{free}", [Method(label) for label in boxes]))
    if asking and bills:
        billed = [Method(label, DRAWN_PROBLEMS if label in asking else None) for label in boxes]
        maps.append((f"The same, the surrogate's bill over {DRAWN_PROBLEMS:,} problems", billed))
    return maps


@styled
def draw_latency(results: Results, bills: Bills, path: Path) -> None:
    """Per cent above the optimum at a fixed time against latency, and maps of the best method.

    Args:
        results: a benchmark under a budget of iterations.
        bills: of its surrogates; empty where there are none.
        path: PNG to write.
    """
    maps = maps_of(results, bills)
    columns = 2
    rows = math.ceil((1 + len(maps)) / columns)
    # Where a panel is left over the legend has its place, else a place below.
    hole = (1 + len(maps)) % columns
    legend = 0 if hole else LEGEND_ROW * math.ceil(len(methods_of(results, bills)) / BESIDE)
    figure, panels = replace(PANELS, bottom=PANELS.bottom + legend).panels(rows, columns)
    flat = list(panels.flat)
    _draw_lines(flat[0], results, bills)
    known: dict[Method, FloatArray] = {}
    for panel, (title, methods) in zip(flat[1:], maps, strict=False):
        winner, _ = best_of(results, methods, LATENCIES, TIMES, bills, known)
        _draw_map(panel, results, bills, title, methods, winner)
    handles, labels = flat[0].get_legend_handles_labels()
    look: dict[str, Any] = {"handles": handles, "labels": labels, "handlelength": 2.6}
    if hole:
        flat[-1].axis("off")
        flat[-1].legend(loc="upper left", fontsize=10.5, labelspacing=0.8, **look)
    else:
        figure.legend(loc="lower center", ncols=BESIDE, columnspacing=1.6, **look)
    save(figure, path)


def _draw_lines(panel: Axes, results: Results, bills: Bills) -> None:
    look = styles(results)
    highest = 1.0
    for method in methods_of(results, bills):
        style = look[method.searcher]
        percent = 100 * above_after(results, method, LATENCIES, [FIXED_SECONDS], bills)[:, 0]
        percent = np.where(np.isfinite(percent), percent, np.nan)
        ended = end_after(results, method, LATENCIES, bills) <= FIXED_SECONDS
        name = method.searcher
        if method.problems is not None:
            name += f", billed over {method.problems:,.0f}"
        for part, width, alpha, text in (
            (np.where(ended, percent, np.nan), 1.1, 0.55, None),
            (np.where(ended & ~_before(ended), np.nan, percent), 2.0, 1.0, name),
        ):
            panel.plot(
                LATENCIES,
                part,
                color=style.colour,
                ls=style.dash if method.problems is None else (0, (1, 1.4)),
                lw=width,
                alpha=alpha,
                label=text,
            )
        if np.isfinite(percent).any():
            highest = max(highest, float(np.nanmax(percent)))
    panel.set_xscale("log")
    panel.set_xlim(LATENCIES[0], LATENCIES[-1])
    ticks = percent_ticks(panel, 1.4 * highest)
    labels = [f"{tick:g}" for tick in ticks]
    set_ticks(panel, "y", ticks, labels)
    panel.set_title(f"After {span(FIXED_SECONDS)}")
    above = f"{results.objective_name}, % above {results.reference_name}"
    PANELS.name_y(panel, above, max(map(len, labels)))
    _latency_axis(panel)


def _before(ended: np.ndarray) -> np.ndarray:
    """The last point of a run of ended ones, at which the bold line begins."""
    following = np.append(ended[1:], True)
    return np.asarray(ended & ~following)


def _draw_map(
    panel: Axes,
    results: Results,
    bills: Bills,
    title: str,
    methods: Sequence[Method],
    winner: IntArray,
) -> None:
    """Draws who is best at every latency and time, hatched after its last iteration.

    Args:
        panel: where.
        results: the benchmark.
        bills: of its surrogates.
        title: of the panel.
        methods: which are compared.
        winner: `[L, T]` index of the best one, -1 where there is none.
    """
    from matplotlib.colors import to_rgb

    look = styles(results)
    colours = np.array([to_rgb(look[method.searcher].colour) for method in methods])
    picture = np.where((winner >= 0)[..., None], colours[winner], 1.0).transpose(1, 0, 2)
    panel.pcolormesh(_edges(LATENCIES), _edges(TIMES), picture)
    ends = np.stack([end_after(results, method, LATENCIES, bills) for method in methods])
    rows = np.arange(len(LATENCIES))[:, None]
    over = (winner >= 0) & (ends[winner, rows] <= TIMES[None, :])
    shares = over.T.astype(float)
    panel.contourf(LATENCIES, TIMES, shares, [0.5, 1.5], colors="none", hatches=["////"])
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(LATENCIES[0], LATENCIES[-1])
    panel.set_ylim(TIMES[0], TIMES[-1])
    labels = [span(tick) for tick in TIME_TICKS]
    set_ticks(panel, "y", TIME_TICKS, labels, lines=False)
    panel.axhline(FIXED_SECONDS, color=INK, lw=0.7, ls=(0, (1, 2)))
    for queries in (10, 100, 1000):
        panel.plot(LATENCIES, queries * LATENCIES, color=INK, lw=0.7, alpha=0.5)
        at = TIMES[-1] / queries / 6
        at = min(at, LATENCIES[-1] / 3)
        panel.annotate(
            f"{queries:,} queries",
            (at, queries * at),
            rotation=34,
            rotation_mode="anchor",
            ha="right",
            va="bottom",
            fontsize=7.5,
        )
    panel.set_title(title)
    PANELS.name_y(panel, "time", max(map(len, labels)), PANELS.beside)
    _latency_axis(panel, lines=False)


def _latency_axis(panel: Axes, *, lines: bool = True) -> None:
    labels = [span(tick) for tick in LATENCY_TICKS]
    set_ticks(panel, "x", LATENCY_TICKS, labels, lines=lines)
    PANELS.name_x(panel, "latency of a true query")


def _edges(points: FloatArray) -> FloatArray:
    """Borders of cells around points that lie evenly on a logarithmic axis."""
    logs = np.log(points)
    half = (logs[1] - logs[0]) / 2
    return np.asarray(np.exp(np.append(logs - half, logs[-1] + half)))
