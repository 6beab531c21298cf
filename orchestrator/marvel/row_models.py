"""What rows and results of a Marvel study must be: pages, tables and file names are made of them.

Keys that are not named here are nobody's, so that rows of other versions are read.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from costmodel.maestro.distinct_blocks import DIMENSIONS, LAYOUTS
from mapspace.errors import DataError
from mapspace.strict_yaml import FileName, Name, NonNegativeNumber, Size, validate

JOINT = "joint"

Amount = Annotated[float, Field(strict=True, ge=1e-50, le=1e60)]
"""Such that means and ratios of them are finite and above 0."""

Count = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(strict=True)]
Tile = Annotated[tuple[Size, ...], Field(min_length=len(DIMENSIONS), max_length=len(DIMENSIONS))]


class Part(BaseModel):
    """A part of a row."""

    model_config = ConfigDict(extra="ignore")


class Best(Part):
    """The best mapping of one level-3 tile by one objective."""

    runtime: Amount
    energy: Amount
    value: Amount
    mapping: Text
    family: Text


class Bests(Part):
    """The best of every objective."""

    runtime: Best
    energy: Best
    edp: Best


class OffChip(Part):
    """Marvel's first step."""

    tile: Tile
    layout: tuple[Name, Name, Name]
    cost: Amount
    total_blocks: Amount
    order: tuple[Name, ...]
    tiles: Count
    fitting: Count
    tied: Count
    seconds: Amount
    least_costs: Annotated[
        tuple[Amount, ...], Field(min_length=len(LAYOUTS), max_length=len(LAYOUTS))
    ]


class OnChip(Part):
    """Marvel's second step, for one level-3 tile."""

    best: Bests
    families: dict[Text, Bests]
    dataflows: dict[Text, Bests | None]
    mappings: Count
    evaluated: Count
    fitting: Count
    proven: Flag
    seconds: Amount


class Whole(Part):
    """A whole layer."""

    runtime: Amount
    energy: Amount


class Remainders(Part):
    """The search over tiles that do not divide, and what it is held to."""

    best: Bests
    seconds: Amount
    proven: Flag
    reference: Bests
    reference_seconds: Amount


class Roofline(Part):
    """What bounds a layer."""

    cycles: Amount
    binding: Text
    macs_per_cycle: Amount


class Space(Part):
    """Sizes of spaces."""

    original: Amount
    off_chip: Amount
    on_chip: Amount
    off_chip_pruned: Amount
    on_chip_pruned: Amount


class Found(Part):
    """What another search has found for a whole layer by one objective."""

    value: Amount
    cost: Amount
    tile: Tile | None = None
    found_after_s: NonNegativeNumber | None = None


class FoundOfAll(Part):
    """What another search has found by every objective that is reported."""

    runtime: Found
    energy: Found


class Baseline(Part):
    """Another search of a layer."""

    method: Name
    evaluated: Count
    best: FoundOfAll
    seed: Count | None = None
    budget_s: Amount | None = None
    seconds: Amount | None = None
    complete: Flag | None = None

    @model_validator(mode="after")
    def _check_method(self) -> Baseline:
        """The joint search says how far it came and on which tile, the others what they took."""
        found = (self.best.runtime, self.best.energy)
        if self.method == JOINT:
            needed = {"seconds": self.seconds, "complete": self.complete}
            needed |= {"tile": all(one.tile is not None for one in found) or None}
        else:
            needed = {"seed": self.seed, "budget_s": self.budget_s}
            after = all(one.found_after_s is not None for one in found)
            needed |= {"found_after_s": after or None}
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise ValueError(f"{self.method}: missing {', '.join(missing)}.")
        return self


class Bounds(Part):
    """A layer's sizes."""

    K: Size
    C: Size
    R: Size
    S: Size
    P: Size
    Q: Size


class Failed(Part):
    """Why there is no result."""

    failure: Name


class Outcome(Part):
    """A result."""

    failure: None
    off_chip: OffChip
    tiles_per_layer: Size
    whole: Whole
    on_chip: OnChip
    remainders: Remainders | None
    roofline: Roofline
    space: Space
    baselines: tuple[Baseline, ...]
    records: Annotated[dict[Text, dict[Text, Any]], Field(default_factory=dict)]


class FailedRow(Failed):
    """A layer on an accelerator without a result."""

    layer: Name
    accelerator: Name


class Row(Outcome):
    """A layer on an accelerator with its result."""

    layer: Name
    kind: Name
    accelerator: Name
    networks: dict[FileName, Size]
    bounds: Bounds
    macs: Size


def checked_row(data: Any, where: str) -> dict[str, Any]:
    """A line of the rows' file, as it was read.

    Raises:
        DataError: it is no row; `where` stands before the reason.
    """
    return _checked(data, where, FailedRow, Row)


def checked_result(data: Any, where: str) -> dict[str, Any]:
    """What a task has found, as it was read.

    Raises:
        DataError: it is no result; `where` stands before the reason.
    """
    return _checked(data, where, Failed, Outcome)


def _checked(data: Any, where: str, failed: type[Failed], found: type[Outcome]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise DataError(f"{where}: expected a mapping, got {type(data).__name__}.")
    validate(found if data.get("failure") is None else failed, data, where, DataError)
    return data
