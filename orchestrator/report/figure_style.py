"""How figures look: the style file, ticks, and names that are no formulas."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import numpy as np

from mapspace.storage import write_atomically

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

STYLE = Path(__file__).with_name("mapspace.mplstyle")
# The colours of the style file that figures also use themselves.
INK, MUTED, GRID = "#1f2933", "#697586", "#e6e9ee"
# What stands for nothing: a share of a space that does not fit, what a limit excludes.
OUTSIDE, BAND = "#d4d8de", "#f5f6f8"
# A value and what it is held against, where no methods are compared.
BLUE, RED = "#0067b1", "#d1495b"

# Below so many per cent the axis of a curve is linear, down to the optimum itself at 0.
LINEAR_PERCENT = 0.1
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Ticks in a decade of a logarithmic axis that spans more than so much.
TICKS: tuple[tuple[float, tuple[float, ...]], ...] = (
    (300.0, (1.0,)),
    (6.0, (1.0, 2.0, 5.0)),
    (2.0, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)),
    (0.0, (1.0, 1.1, 1.2, 1.3, 1.5, 1.8, 2.1, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
)
# Beyond this span an axis keeps its powers of ten where its numbers are larger than this, or
# smaller than that; else they are plain, or multiples of one power at the end of the axis.
WIDE_SPAN, PLAIN_BELOW, PLAIN_ABOVE = 300.0, 1e6, 1e-3
# How hard zlib tries: beyond it the time grows faster than the size falls.
PNG_LEVEL = 3

P = ParamSpec("P")
T = TypeVar("T")


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Makes a function draw in the style of the file, whatever the user's own style is."""

    @wraps(draw)
    def drawn(*args: P.args, **options: P.kwargs) -> T:
        import matplotlib as mpl

        with mpl.rc_context(fname=STYLE):
            return draw(*args, **options)

    return drawn


def plain_figure(
    width: float, height: float, layout: Literal["constrained"] | None = "constrained"
) -> Figure:
    """An empty figure, inches, that needs no display and shows `$` in names as it is.

    Args:
        width: of the whole.
        height: of the whole.
        layout: Matplotlib's own, by the sizes of texts; None: panels lie where they are put.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class PlainCanvas(FigureCanvasAgg):
        """Nothing is transparent: without alpha a PNG is as small in half the time."""

        def print_png(self, filename_or_obj: Any, **options: Any) -> None:
            from PIL import Image

            canvas: Any = self  # whose methods have no types
            canvas.draw()
            pixels = np.asarray(canvas.buffer_rgba())[..., :3]
            dpi = (self.figure.dpi, self.figure.dpi)
            Image.fromarray(pixels).save(filename_or_obj, "png", compress_level=PNG_LEVEL, dpi=dpi)

    class PlainFigure(Figure):
        """Names come from files, and two `$` in one would be read as a formula."""

        def savefig(self, *args: Any, **options: Any) -> None:
            _take_literally(self)
            engine = self.get_layout_engine()
            if engine is not None and options.get("format") == "png":
                # Else Matplotlib draws all of it once more, on nothing, to lay it out. Letters have
                # other widths in other pixels.
                dpi = mpl.rcParams["savefig.dpi"]
                if dpi != "figure":
                    self.set_dpi(dpi)
                engine.execute(self)
                self.set_layout_engine(None)
            super().savefig(*args, **options)

    figure = PlainFigure(figsize=(width, height), layout=layout)
    PlainCanvas(figure)
    return figure


@styled
def save(figure: Figure, path: Path) -> None:
    """Writes a PNG, or what the name ends in, whole or not at all."""
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.lstrip(".").lower() or "png")
    write_atomically(path, content.getvalue())


def marker(colour: Any, label: str, shape: str = "o", size: float = 6, **look: Any) -> Line2D:
    """An entry of a legend: a marker without a line."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, ls="", marker=shape, ms=size, label=label, **look)


def values_grid(panel: Axes) -> None:
    """A grid of values only, where the other axis has names."""
    panel.grid(axis="x", visible=False)


def percent_ticks(panel: Axes, highest: float) -> list[float]:
    """A y axis of per cent above the optimum: from it to a highest value; few and plain ticks.

    Returns:
        The ticks, which are not drawn.
    """
    panel.set_yscale("symlog", linthresh=LINEAR_PERCENT, linscale=0.5)
    # A curve that runs along the optimum stays visible.
    panel.set_ylim(-0.15 * LINEAR_PERCENT, highest)
    decades = range(round(math.log10(LINEAR_PERCENT)), math.ceil(math.log10(highest)) + 1)
    # Thirds of decades where there is room for them.
    steps = (1, 3) if highest < 300 else (1,)
    ticks = [0.0, *(step * 10.0**decade for decade in decades for step in steps)]
    return [tick for tick in ticks if tick <= highest]


def plain_ticks(panel: Axes, axis: Literal["x", "y"] = "y") -> None:
    """Plain numbers on a logarithmic axis, the more of them the less it spans."""
    from matplotlib.ticker import (
        FixedLocator,
        FuncFormatter,
        LogLocator,
        MaxNLocator,
        NullFormatter,
        NullLocator,
    )

    if axis == "y":
        panel.margins(y=0.08)
        low, high = panel.get_ylim()
    else:
        panel.margins(x=0.08)
        low, high = panel.get_xlim()
    span = high / low
    if span > WIDE_SPAN and not PLAIN_ABOVE <= high < PLAIN_BELOW:
        return
    drawn = panel.yaxis if axis == "y" else panel.xaxis
    if span < TICKS[-2][0]:
        # Steps of one size: between 4.4 and 4.9 there is no 1, 2 or 5 times a power of ten.
        found = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        drawn.set_major_locator(FixedLocator([tick for tick in found if low <= tick <= high]))
    else:
        steps = next(steps for most, steps in TICKS if span > most)
        drawn.set_major_locator(LogLocator(subs=steps, numticks=20))
    power = 0 if high >= PLAIN_ABOVE else math.floor(math.log10(low * high) / 2)
    scale = 10.0**power
    drawn.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:,.10g}"))
    drawn.set_minor_formatter(NullFormatter())
    drawn.set_minor_locator(NullLocator())
    if power:
        at, up = ((0.0, 1.0), "bottom") if axis == "y" else ((1.0, 0.0), "top")
        times = f"\N{MULTIPLICATION SIGN}{powers_text(power)}"
        panel.annotate(
            times, at, xycoords="axes fraction", xytext=(4, 4) if axis == "y" else (6, -4),
            textcoords="offset points", ha="left", va=up, fontsize=8.5, color=MUTED,
        )  # fmt: skip


def powers_text(power: int) -> str:
    """A power of ten, written."""
    return "10" + str(power).translate(SUPERSCRIPTS)


def _take_literally(figure: Figure) -> None:
    """Formulas are left to the numbers of logarithmic axes, which Matplotlib writes as such."""
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    for panel in figure.axes:
        for axis in (panel.xaxis, panel.yaxis):
            formatter = axis.get_major_formatter()
            # Taken by ticks that are made when the figure is drawn.
            if isinstance(formatter, FixedFormatter):
                formatter.seq = [_escaped(text) for text in formatter.seq]
            elif isinstance(formatter, FuncFormatter):
                formatter.func = partial(_escaped_tick, formatter.func)
    for text in _texts(figure):
        text.set_parse_math(False)


def _texts(artist: Artist) -> Iterator[Text]:
    """All texts in an artist but those of ticks, which would be made to be looked at."""
    from matplotlib.axis import Axis
    from matplotlib.text import Text

    if isinstance(artist, Text):
        yield artist
    if isinstance(artist, Axis):
        yield from (artist.label, artist.offsetText)
    else:
        for child in artist.get_children():
            yield from _texts(child)


def _escaped_tick(write: Callable[..., str], value: float, position: int | None = None) -> str:
    return _escaped(write(value, position))


def _escaped(text: str) -> str:
    return re.sub(r"(?<!\\)\$", r"\\$", text)
