"""A map space drawn: what random mappings cost, and slices over two attributes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from costmodel.costs import Objective
from costmodel.machines.bounds import algorithmic_minimum
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from orchestrator.map_space.axes import TILING, Axis
from orchestrator.map_space.surface import Surface, surface_around, two_dimensions
from orchestrator.report.figure_style import (
    BLUE,
    INK,
    MUTED,
    OUTSIDE,
    RED,
    plain_figure,
    save,
    styled,
)
from orchestrator.schemas.spaces import SurfaceAnswer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = npt.NDArray[np.float64]

# From dark to light in print, too, and the same for any colour vision.
COLOURS = "cividis"
# Fewest places between two ticks, as a share of the axis: of sizes, of longer texts along y and x.
TICK_SPACE, TEXT_SPACE = 0.045, 0.06
# Most letters of a label that is not a longer text.
SHORT = 5
# Values of an axis on a page: more are not told apart there.
MOST_ON_PAGES = 500


@styled
def draw(
    space: MapSpace, surface: Surface, sampled: FloatArray, path: Path, *, proven: bool
) -> None:
    """Draws the distribution of normalised EDP, and the surface as a map of colours.

    Args:
        space: the map space.
        surface: the surface.
        sampled: `[S]` normalised EDP of random feasible mappings.
        path: PNG to write.
        proven: whether the surface's centre is the proven best mapping.
    """
    figure = plain_figure(12.4, 4.9)
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.5))
    minimum = algorithmic_minimum(space.workload, space.accelerator).edp
    best = surface.costs[surface.centre] / minimum
    _draw_distribution(left, sampled, best, "proven optimum" if proven else "best known")
    _draw_map(right, surface, minimum, "normalised EDP")
    figure.suptitle(f"{space.workload.name} on {space.accelerator.name}", x=0.01, ha="left")
    save(figure, path)


def _draw_distribution(panel: Axes, sampled: FloatArray, best: float, label: str) -> None:
    edges = np.geomspace(min(best, sampled.min()) * 0.95, sampled.max() * 1.05, 90)
    weights = np.full(sampled.size, 100 / sampled.size)
    panel.hist(sampled, edges.tolist(), weights=weights, color=BLUE, alpha=0.75)
    panel.axvline(best, color=RED, lw=1.8, label=label)
    panel.axvline(float(np.median(sampled)), color=INK, lw=1.2, ls=(0, (3, 2)), label="median")
    panel.axvline(float(sampled.mean()), color=MUTED, lw=1.2, ls=":", label="mean")
    panel.set_xscale("log")
    panel.set_xlabel("normalised EDP")
    panel.set_ylabel("% of the feasible mappings")
    panel.set_title(f"{sampled.size:,} random mappings")
    panel.legend()


@styled
def slice_figure(surface: Surface, objective: Objective, title: str) -> Figure:
    """A slice of a map space as a drawing of its own.

    Args:
        surface: the slice.
        objective: what its costs are.
        title: what it is of.
    """
    figure = plain_figure(8.4, 5.6)
    centre = float(surface.costs[surface.centre])
    name = objective.upper() if objective in ("edp", "ed2p") else objective
    _draw_map(figure.subplots(), surface, centre, f"{name} over the mapping's")
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _draw_map(panel: Axes, surface: Surface, unit: float, label: str) -> None:
    """The slice as a map of colours, in powers of ten of a unit that a label names."""
    height = np.log10(np.where(np.isfinite(surface.costs), surface.costs / unit, np.nan))
    panel.set_facecolor(OUTSIDE)
    # Told from a colour of the scale without colours, too.
    panel.patch.set(hatch="///", edgecolor=MUTED, lw=0)
    panel.grid(visible=False)
    image = panel.imshow(height, origin="lower", aspect="auto", cmap=COLOURS, rasterized=True)
    image.set_interpolation("nearest")
    y, x = surface.centre
    panel.plot(x, y, "*", color=RED, mec="white", markersize=14)
    for axis, drawn in zip(surface.axes, (panel.yaxis, panel.xaxis), strict=True):
        long = max(map(len, axis.labels)) > SHORT
        ticks = _ticks(axis.labels, TEXT_SPACE if long else TICK_SPACE)
        drawn.set_ticks(ticks, [axis.labels[tick] for tick in ticks])
        if long and drawn is panel.xaxis:
            panel.tick_params(axis="x", labelrotation=90)
        drawn.set_label_text(axis.title + _of_how_many(axis))
    panel.set_title("others as in the best mapping (star); hatched: infeasible")
    bar = panel.get_figure().colorbar(image, ax=panel, pad=0.02)  # type: ignore[union-attr]
    bar.set_label(f"log10 of {label}")


def _of_how_many(axis: Axis) -> str:
    shown = len(axis.values)
    return "" if shown == axis.whole else f" ({shown:,} of {axis.whole:,})"


def _ticks(labels: Sequence[str], space: float) -> list[int]:
    """Where a new label begins, as far as there is room."""
    chosen: list[int] = []
    for place, label in enumerate(labels):
        new = place == 0 or label != labels[place - 1]
        if new and (not chosen or place - chosen[-1] >= space * len(labels)):
            chosen.append(place)
    return chosen


def draw_surface(
    space: MapSpace,
    code: Codes,
    sampled: FloatArray,
    attributes: tuple[str, str] | None,
    path: Path,
    *,
    proven: bool,
) -> SurfaceAnswer:
    """Draws the slice around a mapping, beside the EDP of random mappings.

    Args:
        space: the map space.
        code: `[D]` the mapping, a feasible one.
        sampled: `[S]` normalised EDP of random feasible mappings.
        attributes: those to vary; None: the tilings of `two_dimensions`.
        path: PNG to write.
        proven: whether the mapping is the proven best one.

    Returns:
        What the surface is like, for `--json`.
    """
    surface = surface_around(space, code, attributes or two_dimensions(space))
    draw(space, surface, sampled, path, proven=proven)
    unit = algorithmic_minimum(space.workload, space.accelerator).edp
    finite = surface.costs[np.isfinite(surface.costs)] / unit
    return {
        "dimensions": [axis.attribute.removeprefix(f"{TILING}.") for axis in surface.axes],
        "proven": proven,
        "shape": list(surface.costs.shape),
        "whole": [axis.whole for axis in surface.axes],
        "points": surface.costs.size,
        "feasible": int(finite.size),
        "minimum": float(finite.min()),
        "maximum": float(finite.max()),
        "local_minima": surface.local_minima(),
    }
