"""The pages of trainings: of one, and of a study, with Figures 7a to 7c of Mind Mappings anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.report.document import (
    LEFT,
    NOTHING,
    RIGHT,
    Cell,
    Document,
    Figure,
    Row,
    Section,
    Table,
)
from orchestrator.report.figure_style import DASHES, HUES, plain_figure, save, styled
from orchestrator.report.page import write_page
from surrogate.options import CurvePoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from orchestrator.training.study import Outcome, TrainingStudy
    from surrogate.predictor import Card

FIGURE_FILE = "training.png"
REPORT_FILE = "training.html"
COLOURS = (HUES["gradient"], HUES["annealing"], HUES["genetic"])
RANKING = "1 - rank correlation, held out"


def write_training_report(
    study: TrainingStudy, outcomes: Mapping[str, Outcome], folder: Path
) -> Path:
    """Writes `training.html` and `training.png` of a study and its trainings; the study's page."""
    for name, outcome in outcomes.items():
        if not (folder / name / REPORT_FILE).exists():
            write_surrogate_report(outcome.card, outcome.curve, folder / name, name)
    write_page(study_document(study, outcomes), folder / REPORT_FILE, folder)
    return folder / REPORT_FILE


def write_surrogate_report(
    card: Card, curve: Sequence[CurvePoint], folder: Path, name: str, description: str = ""
) -> Path:
    """The same of a single training, beside its surrogate; the page's path."""
    write_page(surrogate_document(card, curve, name, description), folder / REPORT_FILE, folder)
    return folder / REPORT_FILE


def study_document(study: TrainingStudy, outcomes: Mapping[str, Outcome]) -> Document:
    """The page of a study."""
    figure = _figure("Loss curves", partial(draw_study, study, outcomes))
    sections = [
        Section("Trainings", [study_table(outcomes), meaning(study)]),
        Section("Losses and sizes of the data set", [figure]),
    ]
    return Document(study.name, " ".join(study.description.split()), sections)


def surrogate_document(
    card: Card, curve: Sequence[CurvePoint], name: str, description: str
) -> Document:
    """The page of a single training."""
    used: list[Row] = [
        (key, None if value is None else str(value)) for key, value in card.training.items()
    ]
    made_by: list[Row] = list(card.provenance.items())
    figure = _figure("Curves of the training", partial(draw_training, card, curve))
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


def study_table(outcomes: Mapping[str, Outcome]) -> Table:
    """A row per training."""
    searched = any(outcome.normalised_edp is not None for outcome in outcomes.values())
    header = ("loss", "rows", "views", "RMSE of ln EDP", "Spearman", "worst", "best 10 %")
    formats = (LEFT, "{:,}", "{:,}", "{:.4f}", "{:.5f}", "{:.5f}", "{:.4f}")
    rows: list[Row] = []
    for name, outcome in outcomes.items():
        figures, training = outcome.card.figures, outcome.card.training
        rows.append(
            (
                Cell(outcome.options.loss, link=f"{name}/{REPORT_FILE}"),
                training["rows"],
                training["views"],
                figures.rmse,
                figures.spearman,
                figures.spearman_worst,
                figures.spearman_best_tenth,
                *([outcome.normalised_edp] if searched else []),
                training["seconds"],
                training["views"] / training["seconds"],
                f"{training['workers']} x {training.get('device', 'cpu')}",
            )
        )
    return Table(
        "trainings",
        "",
        (*header, *(["normalised EDP found"] if searched else []), "seconds", "views/s", "on"),
        (*formats, *(["{:.4f}"] if searched else []), "{:,.0f}", "{:,.0f}", RIGHT),
        rows,
    )


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


def meaning(study: TrainingStudy) -> str:
    """What the table and the figure show."""
    text = (
        f"Recipe {study.training.recipe}. Figures are on problems never trained on: error of ln "
        "EDP, Spearman's rank correlation within a problem (mean and worst) and among the best 10 "
        "%. Curves are on at most 10,000 rows of them."
    )
    if study.search is not None:
        text += (
            f" Normalised EDP: best mapping of {study.search.iterations:,} cost queries by the "
            "gradient searcher over the algorithmic minimum, geometric mean over "
            f"{len(study.search.workloads)} problems x {study.search.seeds} seeds."
        )
    return text


@styled
def draw_study(study: TrainingStudy, outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Draws the three panels into a PNG."""
    figure = plain_figure(12.6, 3.9)
    panels = figure.subplots(1, 3)
    reference = next(iter(outcomes.values()))
    _draw_loss(panels[0], reference.curve)
    _finish(panels[0], "a  loss over the training", f"{reference.options.loss} loss")

    losses = [o for o in outcomes.values() if o.options.rows == study.rows[-1]]
    for outcome, hue in zip(losses, COLOURS, strict=False):
        _draw_ranking(panels[1], outcome.curve, hue, outcome.options.loss)
    _finish(panels[1], "b  loss functions", RANKING)

    sizes = [o for o in outcomes.values() if o.options.loss == study.losses[0]]
    for outcome, hue in zip(sizes, _shades(len(sizes)), strict=True):
        _draw_ranking(panels[2], outcome.curve, hue, f"{outcome.card.training['rows']:,} rows")
    if len({outcome.card.training["views"] for outcome in sizes}) > 1:
        panels[2].set_xscale("log")
    _finish(panels[2], "c  sizes of the data set", RANKING)
    save(figure, path)


@styled
def draw_training(card: Card, curve: Sequence[CurvePoint], path: Path) -> None:
    """Draws loss and rank correlation over a single training into a PNG."""
    figure = plain_figure(8.4, 3.9)
    panels = figure.subplots(1, 2)
    _draw_loss(panels[0], curve)
    _finish(panels[0], "loss over the training", f"{card.training.get('loss', '')} loss")
    _draw_ranking(panels[1], curve, COLOURS[0], "held out")
    _finish(panels[1], "ranking", RANKING)
    save(figure, path)


def _figure(title: str, draw: Any) -> Figure:
    return Figure(Path(FIGURE_FILE).stem, title, draw)


def _draw_loss(panel: Axes, curve: Sequence[CurvePoint]) -> None:
    views = [point.views for point in curve]
    for label, values, dash in (
        ("training", [point.loss for point in curve], DASHES[0]),
        ("held out", [point.held_out_loss for point in curve], DASHES[1]),
    ):
        panel.plot(views, values, color=COLOURS[0], ls=dash, label=label)


def _draw_ranking(panel: Axes, curve: Sequence[CurvePoint], colour: Any, label: str) -> None:
    views = [point.views for point in curve]
    panel.plot(views, [1.0 - point.spearman for point in curve], color=colour, label=label)


def _finish(panel: Axes, title: str, measure: str) -> None:
    from matplotlib.ticker import EngFormatter

    panel.set_yscale("log")
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.set_title(title)
    panel.set_xlabel("views (rows seen)")
    panel.set_ylabel(measure)
    panel.legend()


def _shades(count: int) -> list[Any]:
    """Dark to light, the reference first."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.88 * place / max(1, count - 1)) for place in range(count)]
