"""The figure of `mapspace space`: what random mappings cost, and the cost surface."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
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

FloatArray = npt.NDArray[np.float64]

COLOURS = "RdBu_r"
# Fewest places between two ticks of an axis of tilings, as a share of the axis.
TICK_SPACE = 0.045


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
    best = surface.edp[surface.centre]
    _draw_distribution(left, sampled, best, "proven optimum" if proven else "best known")
    _draw_map(right, space, surface)
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


def _draw_map(panel: Axes, space: MapSpace, surface: Surface) -> None:
    height = np.log10(np.where(np.isfinite(surface.edp), surface.edp, np.nan))
    panel.set_facecolor(OUTSIDE)
    # Told from a colour of the scale without colours, too.
    panel.patch.set(hatch="///", edgecolor=MUTED, lw=0)
    panel.grid(visible=False)
    image = panel.imshow(height, origin="lower", aspect="auto", cmap=COLOURS, rasterized=True)
    y, x = surface.centre
    panel.plot(x, y, "*", color="black", mec="white", markersize=13)
    inner = space.accelerator.levels[-1].name
    for axis, name, factors in (
        (panel.yaxis, surface.dimensions[0], surface.factors[0]),
        (panel.xaxis, surface.dimensions[1], surface.factors[1]),
    ):
        ticks = _ticks(factors[:, -1])
        axis.set_ticks(ticks, [str(factors[tick, -1]) for tick in ticks])
        axis.set_label_text(f"tilings of {name}, by its size in {inner}")
    panel.set_title("others as in the best mapping (star); hatched: infeasible")
    bar = panel.get_figure().colorbar(image, ax=panel, pad=0.02)  # type: ignore[union-attr]
    bar.set_label("log10 of normalised EDP")


def _ticks(sizes: npt.NDArray[np.int64]) -> list[int]:
    """Where a new size begins among ascending ones, as far as there is room."""
    chosen: list[int] = []
    for place in [0, *(np.flatnonzero(np.diff(sizes)) + 1).tolist()]:
        if not chosen or place - chosen[-1] >= TICK_SPACE * sizes.size:
            chosen.append(place)
    return chosen


def draw_surface(
    space: MapSpace,
    code: Codes,
    sampled: FloatArray,
    dimensions: tuple[str, str] | None,
    path: Path,
    *,
    proven: bool,
) -> SurfaceAnswer:
    """Draws the surface around a mapping, beside the EDP of random mappings.

    Args:
        space: the map space.
        code: `[D]` the mapping, a feasible one.
        sampled: `[S]` normalised EDP of random feasible mappings.
        dimensions: those to vary; None: `two_dimensions`.
        path: PNG to write.
        proven: whether the mapping is the proven best one.

    Returns:
        What the surface is like, for `--json`.
    """
    surface = surface_around(space, code, dimensions or two_dimensions(space))
    draw(space, surface, sampled, path, proven=proven)
    finite = surface.edp[np.isfinite(surface.edp)]
    return {
        "dimensions": list(surface.dimensions),
        "proven": proven,
        "shape": list(surface.edp.shape),
        "points": surface.edp.size,
        "feasible": int(finite.size),
        "minimum": float(finite.min()),
        "maximum": float(finite.max()),
        "local_minima": surface.local_minima(),
    }
