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

from typing import Literal

from pydantic import model_validator

from mapspace.strict_yaml import NonNegativeNumber
from orchestrator.sweep.config import Sweep


class Design(Sweep):
    """A sweep's grid, of which only as much is proven as tells the best machines."""

    # A design is laid out as the sweep of its grid; only the word differs.
    kind: Literal["design"]  # type: ignore[assignment]
    find: Literal["front", "best"] = "front"
    """The whole front of objective and area, or the one machine of the least objective."""
    gap: NonNegativeNumber = 0.0
    """How far above the best machine, or above the front, what is found may be, as a share."""

    @model_validator(mode="after")
    def _check_grid(self) -> Design:
        for key in ("accelerators", "points_per_task"):
            if key in self.model_fields_set:
                raise ValueError(f"{key}: goes with a sweep; a design chooses from a grid.")
        return self
