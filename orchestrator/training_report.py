"""The report of a training study: a table, and Figures 7a to 7c of Mind Mappings drawn anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.plots import DASHES, INK, plain_figure, tidy
from surrogate.storage import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from orchestrator.training_study import Outcome, TrainingStudy

FIGURE_FILE = "training.png"
REPORT_FILE = "training.md"
HUES = ("#0067b1", "#d98c00", "#00936b")


def write_training_report(
    study: TrainingStudy, outcomes: Mapping[str, Outcome], folder: Path
) -> Path:
    """Writes `training.md` and `training.png`; the report's path."""
    draw_study(study, outcomes, folder / FIGURE_FILE)
    header, rows = study_table(outcomes)
    lines = [f"# {study.name}", ""]
    if study.description:
        lines += [" ".join(study.description.split()), ""]
    lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", f"![Loss curves]({FIGURE_FILE})", "", meaning(study), ""]
    path = folder / REPORT_FILE
    write_atomically(path, "\n".join(lines).encode())
    return path


def study_table(outcomes: Mapping[str, Outcome]) -> tuple[list[str], list[list[str]]]:
    """Header and rows, one per training."""
    searched = any(outcome.normalised_edp is not None for outcome in outcomes.values())
    header = ["loss", "rows", "views", "RMSE of ln EDP", "Spearman", "worst", "best 10 %"]
    header += [*(["normalised EDP found"] if searched else []), "seconds", "views/s", "on"]
    rows = []
    for outcome in outcomes.values():
        figures, training = outcome.card.figures, outcome.card.training
        rows.append(
            [
                outcome.options.loss,
                f"{training['rows']:,}",
                f"{training['views']:,}",
                f"{figures.rmse:.4f}",
                f"{figures.spearman:.5f}",
                f"{figures.spearman_worst:.5f}",
                f"{figures.spearman_best_tenth:.4f}",
                *([f"{outcome.normalised_edp:.4f}"] if searched else []),
                f"{training['seconds']:,.0f}",
                f"{training['views'] / training['seconds']:,.0f}",
                f"{training['workers']} x {training['device']}",
            ]
        )
    return header, rows


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


def draw_study(study: TrainingStudy, outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Draws the three panels into a PNG."""
    figure = plain_figure(12.6, 3.9)
    panels = figure.subplots(1, 3)
    reference = next(iter(outcomes.values()))
    views = [point.views for point in reference.curve]
    for label, values, dash in (
        ("training", [point.loss for point in reference.curve], DASHES[0]),
        ("held out", [point.held_out_loss for point in reference.curve], DASHES[1]),
    ):
        panels[0].plot(views, values, color=HUES[0], ls=dash, lw=1.9, label=label)
    _finish(panels[0], "a  loss over the training", f"{reference.options.loss} loss")

    losses = [o for o in outcomes.values() if o.options.rows == study.rows[-1]]
    for outcome, hue in zip(losses, HUES, strict=False):
        _draw_ranking(panels[1], outcome, hue, outcome.options.loss)
    _finish(panels[1], "b  loss functions", "1 - rank correlation, held out")

    sizes = [o for o in outcomes.values() if o.options.loss == study.losses[0]]
    for outcome, hue in zip(sizes, _shades(len(sizes)), strict=True):
        _draw_ranking(panels[2], outcome, hue, f"{outcome.card.training['rows']:,} rows")
    if len({outcome.card.training["views"] for outcome in sizes}) > 1:
        panels[2].set_xscale("log")
    _finish(panels[2], "c  sizes of the data set", "1 - rank correlation, held out")
    figure.savefig(path, dpi=170, facecolor="white")


def _draw_ranking(panel: Axes, outcome: Outcome, colour: Any, label: str) -> None:
    views = [point.views for point in outcome.curve]
    wrong = [1.0 - point.spearman for point in outcome.curve]
    panel.plot(views, wrong, color=colour, lw=1.9, label=label)


def _finish(panel: Axes, title: str, measure: str) -> None:
    from matplotlib.ticker import EngFormatter

    panel.set_yscale("log")
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK, pad=6)
    panel.set_xlabel("views (rows seen)", color=INK)
    panel.set_ylabel(measure, color=INK)
    panel.legend(frameon=False, fontsize=9, labelcolor=INK)
    tidy(panel)


def _shades(count: int) -> list[Any]:
    """Dark to light, the reference first."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.88 * place / max(1, count - 1)) for place in range(count)]
