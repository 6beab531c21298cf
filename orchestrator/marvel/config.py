"""Marvel studies: a YAML file that names layers or networks, and accelerators.

```yaml
kind: marvel
name: layers
workloads: [marvel-l1, marvel-l2]
networks: [resnet50]
accelerators: [eyeriss-168, edge-1024]
baseline_seconds: 3
```
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, model_validator

from mapspace.strict_yaml import (
    FileName,
    Name,
    NonNegativeNumber,
    Size,
    StrictModel,
    unknown_name,
)

Share = Annotated[float, Field(strict=True, ge=0, le=1)]


class MarvelStudy(StrictModel):
    """Every layer on every accelerator: off-chip first, then on-chip, and what that is held to."""

    kind: Literal["marvel"]
    name: FileName
    """Names the run folder and the MLflow experiment."""
    description: str = ""
    """What the study is for."""
    workloads: tuple[Name, ...] = ()
    """Presets' names, YAML files or inline workloads, each a row of its own."""
    networks: tuple[Name, ...] = ()
    """Presets' names or YAML files; each distinct layer of all of them is a row."""
    accelerators: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Presets' names or YAML files."""
    residuals_as_convolutions: tuple[Name, ...] = ()
    """Residual additions among the workloads that count as ordinary convolutions with K = 1, as
    the paper's L10 does; the others count as depthwise layers."""
    utilisation_bound: Share = 0.1
    """Least share of the processing elements in use; the reference dataflows have no such bound."""
    remainder_seconds: NonNegativeNumber = 0.0
    """Budget per layer and accelerator of the search with prologues and epilogues; 0: none."""
    joint_seconds: NonNegativeNumber = 0.0
    """Budget of the search through all level-3 tiles; 0: none."""
    baseline_seconds: NonNegativeNumber = 0.0
    """Budget of the brute force, and of each random search; 0: none."""
    baseline_seeds: Size = 2
    """Random searches, with seeds 0 to n - 1."""

    @model_validator(mode="after")
    def _check(self) -> MarvelStudy:
        if not self.workloads and not self.networks:
            raise ValueError("expected workloads or networks, got neither.")
        for key in ("workloads", "networks", "accelerators"):
            twice = [name for name, count in Counter(getattr(self, key)).items() if count > 1]
            if twice:
                raise ValueError(f"{key}: {twice[0]} is given twice.")
        for name in self.residuals_as_convolutions:
            if name not in self.workloads:
                problem = unknown_name("workload", name, self.workloads)
                raise ValueError(f"residuals_as_convolutions: {problem}")
        return self
