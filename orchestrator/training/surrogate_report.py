"""The page of a training: what its surrogate reached, and its curves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.report.document import (
    LEFT,
    NOTHING,
    Document,
    Figure,
    Row,
    Section,
    Table,
)
from orchestrator.report.figure_style import plain_figure, plain_ticks, save, styled
from orchestrator.report.page import write_page
from orchestrator.report.palette import DASHES, PALETTE
from surrogate.options import CurvePoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from surrogate.predictor import Card

FIGURE_FILE = "training.png"
REPORT_FILE = "training.html"
RANKING = "1 - rank correlation, held out"


def write_surrogate_report(
    card: Card, curve: Sequence[CurvePoint], folder: Path, name: str, description: str = ""
) -> Path:
    """Writes `training.html` and `training.png` of a training beside its surrogate; the page."""
    write_page(surrogate_document(card, curve, name, description), folder / REPORT_FILE, folder)
    return folder / REPORT_FILE


def surrogate_document(
    card: Card, curve: Sequence[CurvePoint], name: str, description: str
) -> Document:
    """The page of a single training."""
    used: list[Row] = [
        (key, None if value is None else str(value)) for key, value in card.training.items()
    ]
    made_by: list[Row] = list(card.provenance.items())
    figure = loss_figure("Curves of the training", partial(draw_training, card, curve))
    sections = [
        Section("What it reached", [reached_table(card), figure]),
        Section(
            "How it was trained",
            [
                Table("options", "Options", ("", ""), (LEFT, LEFT), used),
                Table("provenance", "What it was trained by", ("", ""), (LEFT, LEFT), made_by),
            ],
        ),
    ]
    lead = " ".join(description.split()) or f"A surrogate of {card.structure.family} problems."
    return Document(name, lead, sections)


def reached_table(card: Card) -> Table:
    """What one training reached on problems never trained on."""
    figures, training = card.figures, card.training
    sizes = zip(card.structure.dimensions, figures.worst_problem, strict=True)
    worst = ", ".join(f"{name}={size}" for name, size in sizes)
    rows: list[Row] = [
        (
            "training",
            f"{training['views']:,} views of {training['rows']:,} rows in "
            f"{training['seconds']:.0f} s on {training.get('device', 'cpu')}, recipe "
            f"{training.get('recipe', NOTHING)}",
        ),
        ("judged on", f"{figures.problems} unseen problems, {figures.rows:,} mappings"),
        ("RMSE of ln EDP", f"{figures.rmse:.4f}"),
        ("Spearman within a problem", f"mean {figures.spearman:.5f}"),
        ("", f"worst {figures.spearman_worst:.5f} ({worst})"),
        ("Spearman in the best 10 %", f"{figures.spearman_best_tenth:.4f}"),
    ]
    return Table("reached", "", ("", ""), (LEFT, LEFT), rows)


@styled
def draw_training(card: Card, curve: Sequence[CurvePoint], path: Path) -> None:
    """Draws loss and rank correlation over a single training into a PNG."""
    figure = plain_figure(8.4, 3.9)
    panels = figure.subplots(1, 2)
    draw_loss(panels[0], curve)
    finish(panels[0], "loss over the training", f"{card.training.get('loss', '')} loss")
    draw_ranking(panels[1], curve, PALETTE[0], "held out")
    finish(panels[1], "ranking", RANKING)
    save(figure, path)


def loss_figure(title: str, draw: Any) -> Figure:
    """The one figure of a page."""
    return Figure(Path(FIGURE_FILE).stem, title, draw)


def draw_loss(panel: Axes, curve: Sequence[CurvePoint]) -> None:
    """The loss on what is trained on and on what is held out."""
    views = [point.views for point in curve]
    for label, values, dash in (
        ("training", [point.loss for point in curve], DASHES[0]),
        ("held out", [point.held_out_loss for point in curve], DASHES[1]),
    ):
        _line(panel, views, values, PALETTE[0], label, dash)


def draw_ranking(panel: Axes, curve: Sequence[CurvePoint], colour: Any, label: str) -> None:
    """How far the ranking is from perfect."""
    views = [point.views for point in curve]
    _line(panel, views, [1.0 - point.spearman for point in curve], colour, label)


def _line(
    panel: Axes, views: list[int], values: list[float], colour: Any, label: str, dash: Any = "-"
) -> None:
    """A curve; of a single point, of which no line can be seen, a dot."""
    dot, face = ("o" if len(views) == 1 else ""), (colour if dash == "-" else "none")
    panel.plot(views, values, color=colour, ls=dash, marker=dot, mfc=face, label=label)


def finish(panel: Axes, title: str, measure: str) -> None:
    """Title and axes, with views along the one below."""
    from matplotlib.ticker import EngFormatter

    panel.set_yscale("log")
    plain_ticks(panel)
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.set_title(title)
    panel.set_xlabel("views (rows seen)")
    panel.set_ylabel(measure)
    panel.legend()
