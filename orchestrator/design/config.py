"""Design experiments: a grid of machines, workloads, and what is sought among them.

```yaml
kind: design
name: accelerator-for-resnet50
find: front
base: mm256
grid:
  L1.capacity_words: [64, 256, 1024]
  L2.fanout: [64, 256, 1024]
workloads: [{network: resnet50}]
limits: {area_bits: 2.0e+7}
```
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mapspace.strict_yaml import NonNegativeNumber, PositiveNumber
from orchestrator.sweep.config import Sweep


class Design(Sweep):
    """A sweep's grid, of which only as much is proven as tells the best machines."""

    # A design is laid out as the sweep of its grid; only the word differs.
    kind: Literal["design"]  # type: ignore[assignment]
    find: Literal["front", "best", "energy-delay-area"] = "front"
    """The whole front of objective and area, the one machine of the least objective, or the
    front of energy, time and area."""
    rates_w: Annotated[tuple[PositiveNumber, ...], Field(min_length=1, max_length=64)] | None = None
    """Of energy-delay-area: what a second is worth, J, besides the least energy and time."""
    gap: NonNegativeNumber = 0.0
    """How far above the best machine, or above the front, what is found may be, as a share."""

    @model_validator(mode="after")
    def _check_grid(self) -> Design:
        for key in ("accelerators", "points_per_task"):
            if key in self.model_fields_set:
                raise ValueError(f"{key}: goes with a sweep; a design chooses from a grid.")
        if self.find != "energy-delay-area":
            if self.rates_w is not None:
                raise ValueError("rates_w: goes with find: energy-delay-area.")
            return self
        if "objective" in self.model_fields_set:
            raise ValueError("objective: energy-delay-area shows energy and time; expected none.")
        others = set(self.limits.model_dump(exclude_none=True)) - {"area_bits", "area_mm2"}
        if others:
            raise ValueError(
                f"limits: {min(others)}: energy-delay-area shows what each point takes; expected "
                "limits of the area alone."
            )
        return self
