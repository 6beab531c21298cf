"""What one training run decides, and the curve that it leaves. Without torch: drivers read both."""

from __future__ import annotations

import json
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, ValidationError

from mapspace.bounded_reading import LARGEST_FILE, parse_json, read_bytes
from mapspace.errors import DataError
from mapspace.storage import Place, write_atomically
from mapspace.strict_yaml import PositiveNumber, StrictModel

CURVE_FILE = "curve.json"

Positive = Annotated[int, Field(strict=True, ge=1)]
Loss: TypeAlias = Literal["huber", "mse", "mae"]


class FitOptions(StrictModel):
    """All that decides the weights, for one worker."""

    recipe: Literal["paper", "fast"] = "fast"
    """Key of `surrogate.recipes.RECIPES`."""
    views: Positive | None = None
    """Length in views (a view is one row seen once); null: the recipe's."""
    rows: Positive | None = None
    """Use only the first shards, as many as hold so many rows; null: all."""
    batch_size: Positive | None = None
    """Rows of a batch, all workers together; null: the recipe's."""
    learning_rate: PositiveNumber | None = None
    """Highest learning rate; null: the recipe's x sqrt(batch_size / the recipe's batch size)."""
    loss: Loss = "huber"
    """Huber's with delta 1, the squared error or the absolute error of whitened targets."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the layers; weights, features and loss are float32 in both."""
    held_out_problems: Positive = 100
    """The last so many problems are never trained on; the figures come from them."""
    pool_rows: Positive = 1_000_000
    """Rows that are shuffled together; decides the memory that training needs. A data set that
    fits is read once and kept."""
    checkpoint_views: Positive = 200_000
    """Views between checkpoints, and between points of the curve."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    """Decides initial weights and every order."""


class CurvePoint(StrictModel):
    """Where a training run stands; what is held out is judged on at most 10,000 of its rows."""

    views: int
    """Rows seen so far."""
    seconds: float
    """Training time so far."""
    loss: float
    """Mean training loss since the point before, of the first worker's share."""
    held_out_loss: float
    """The same loss on held-out problems."""
    rmse: float
    """Root of the mean squared error of ln EDP on them."""
    spearman: float
    """Rank correlation of EDP within one of them, mean."""


def write_curve(folder: Place, curve: tuple[CurvePoint, ...]) -> None:
    """Writes `curve.json`, a line per point."""
    lines = ",\n".join(json.dumps(point.model_dump()) for point in curve)
    write_atomically(folder / CURVE_FILE, f"[\n{lines}\n]\n".encode())


def read_curve(folder: Place) -> tuple[CurvePoint, ...]:
    """The curve of a finished run.

    Raises:
        DataError: If it is missing or damaged.
    """
    path = folder / CURVE_FILE
    try:
        points = parse_json(read_bytes(path, LARGEST_FILE), str(path), DataError)
        return tuple(CurvePoint.model_validate(point) for point in points)
    except FileNotFoundError:
        raise DataError(f"{path} is missing.") from None
    except (OSError, TypeError, ValueError, ValidationError) as error:
        raise DataError(f"{path} is damaged: {str(error).splitlines()[0]}") from error
