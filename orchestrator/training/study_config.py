"""A study's file, and what one of its trainings came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from mapspace.strict_yaml import FileName, StrictModel
from orchestrator.training.train import Training
from surrogate.options import CurvePoint, FitOptions, Loss, Positive

if TYPE_CHECKING:
    from surrogate.predictor import Card


class SearchOptions(StrictModel):
    """How a surrogate is tried out: gradient searches through it."""

    workloads: Annotated[tuple[str, ...], Field(min_length=1)]
    """Problems of the surrogate's family, presets or YAML files."""
    iterations: Positive = 1000
    """Cost queries of a search."""
    method: Literal["descent", "screened"] = "descent"
    """Which of the gradient searcher's: the paper's, or its default."""
    seeds: Positive = 3
    """Searches of each problem."""


class TrainingStudy(StrictModel):
    """Trainings on the most rows with every loss, and on fewer rows with the first one."""

    kind: Literal["training-study"]
    name: FileName
    """Names the folder, runs/NAME."""
    description: str = ""
    """What the study is for."""
    training: Training
    """What all trainings share."""
    losses: Annotated[tuple[Loss, ...], Field(min_length=1)]
    """The first one is the reference."""
    rows: Annotated[tuple[Positive, ...], Field(min_length=1)]
    """Sizes of the data set, ascending; the last one is the reference."""
    search: SearchOptions | None = None
    """How the surrogates are tried out; null: not at all."""

    @model_validator(mode="after")
    def _check(self) -> TrainingStudy:
        for name in ("loss", "rows"):
            if name in self.training.model_fields_set:
                raise ValueError(f"training.{name}: varies, so give it outside of training.")
        if len(set(self.losses)) < len(self.losses):
            raise ValueError(f"losses: expected different ones, got {list(self.losses)}.")
        if list(self.rows) != sorted(set(self.rows)):
            raise ValueError(f"rows: expected ascending numbers, got {list(self.rows)}.")
        return self

    def trainings(self) -> dict[str, Training]:
        """The runs by the name of their folder, the reference first."""
        pairs = [(loss, self.rows[-1]) for loss in self.losses]
        pairs += [(self.losses[0], rows) for rows in self.rows[-2::-1]]
        return {
            f"{loss}-{rows}": self.training.model_copy(update={"loss": loss, "rows": rows})
            for loss, rows in pairs
        }


@dataclass(frozen=True)
class Outcome:
    """A finished training of a study."""

    options: FitOptions
    card: Card
    curve: tuple[CurvePoint, ...]
    normalised_edp: float | None
    """Of the best mappings that searches through it found, over the algorithmic minimum; geometric
    mean over problems and seeds."""

    def figures(self) -> dict[str, float]:
        """The numbers by their names."""
        names = ("rmse", "spearman", "spearman_worst", "spearman_best_tenth")
        found = {name: float(getattr(self.card.figures, name)) for name in names}
        if self.normalised_edp is not None:
            found["normalised_edp"] = self.normalised_edp
        return {**found, "seconds": float(self.card.training["seconds"])}
