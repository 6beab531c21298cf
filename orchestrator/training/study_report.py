"""The page of a training study, with Figures 7a to 7c of Mind Mappings anew."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from orchestrator.report.document import LEFT, RIGHT, Cell, Document, Row, Section, Table
from orchestrator.report.figure_style import plain_figure, save, styled
from orchestrator.report.page import write_page
from orchestrator.report.palette import PALETTE
from orchestrator.training.study_config import Outcome, TrainingStudy
from orchestrator.training.surrogate_report import (
    RANKING,
    REPORT_FILE,
    draw_loss,
    draw_ranking,
    finish,
    loss_figure,
    write_surrogate_report,
)


def write_training_report(
    study: TrainingStudy, outcomes: Mapping[str, Outcome], folder: Path
) -> Path:
    """Writes `training.html` and `training.png` of a study and its trainings; the study's page."""
    for name, outcome in outcomes.items():
        if not (folder / name / REPORT_FILE).exists():
            write_surrogate_report(outcome.card, outcome.curve, folder / name, name)
    write_page(study_document(study, outcomes), folder / REPORT_FILE, folder)
    return folder / REPORT_FILE


def study_document(study: TrainingStudy, outcomes: Mapping[str, Outcome]) -> Document:
    """The page of a study."""
    figure = loss_figure("Loss curves", partial(draw_study, study, outcomes))
    sections = [
        Section("Trainings", [study_table(outcomes), meaning(study)]),
        Section("Losses and sizes of the data set", [figure]),
    ]
    return Document(study.name, " ".join(study.description.split()), sections)


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
            f"gradient searcher (method {study.search.method}) over the algorithmic minimum, "
            "geometric mean over "
            f"{len(study.search.workloads)} problems x {study.search.seeds} seeds."
        )
    return text


@styled
def draw_study(study: TrainingStudy, outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Draws the three panels into a PNG."""
    figure = plain_figure(12.6, 3.9)
    panels = figure.subplots(1, 3)
    reference = next(iter(outcomes.values()))
    draw_loss(panels[0], reference.curve)
    finish(panels[0], "a  loss over the training", f"{reference.options.loss} loss")

    losses = [o for o in outcomes.values() if o.options.rows == study.rows[-1]]
    for outcome, hue in zip(losses, cycle(PALETTE), strict=False):
        draw_ranking(panels[1], outcome.curve, hue, outcome.options.loss)
    finish(panels[1], "b  loss functions", RANKING)

    sizes = [o for o in outcomes.values() if o.options.loss == study.losses[0]]
    for outcome, hue in zip(sizes, _shades(len(sizes)), strict=True):
        draw_ranking(panels[2], outcome.curve, hue, f"{outcome.card.training['rows']:,} rows")
    if len({outcome.card.training["views"] for outcome in sizes}) > 1:
        panels[2].set_xscale("log")
    finish(panels[2], "c  sizes of the data set", RANKING)
    save(figure, path)


def _shades(count: int) -> list[Any]:
    """Dark to light, the reference first."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.88 * place / max(1, count - 1)) for place in range(count)]
