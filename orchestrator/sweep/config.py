"""Sweep experiments: a YAML file that names accelerators, workloads and what area is.

```yaml
kind: sweep
name: buffers
base: mm256
grid:
  L1.capacity_words: [512, 2048, 8192]
  L2.fanout: [64, 256]
workloads: [resnet-conv4, "gemm:M=384,N=4096,K=1024", {network: alexnet}]
```
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from costmodel.costs import Objective
from costmodel.machines.accelerators import Accelerator
from mapspace.strict_yaml import (
    FileName,
    Name,
    NonNegativeNumber,
    PositiveNumber,
    Size,
    StrictModel,
)

Source = Name | dict[str, Any]
Values = Annotated[tuple[Any, ...], Field(min_length=1)]


class WeighedNetwork(StrictModel):
    """An entry of `workloads` that stands for all layers of a network."""

    network: Name
    """A preset's name, perhaps with what it computes (`gpt2:phase=decode`), or a YAML file."""
    weight: Size = 1
    """How often it is run for one run of a network of weight 1; its layers count as often."""


class AreaProxy(StrictModel):
    """A stand-in for chip area, in bits of buffer.

    The accelerator's word width x the sum over all levels but the outermost, which is off chip, of
    instances x capacity x weight of a word, and of the processing elements x their weight. It knows
    nothing of wires, ports, banks or of the overhead of small memories.
    """

    word: NonNegativeNumber = 1.0
    """Area of one word of buffer."""
    levels: dict[Name, NonNegativeNumber] = Field(default_factory=dict)
    """Area of one word per level, where it is another one."""
    processing_element: NonNegativeNumber = 128.0
    """Area of a multiply-accumulate unit with its registers and control, in words."""

    def bits(self, machine: Accelerator) -> float:
        """The area proxy of an accelerator, in bits of buffer."""
        instances, area = 1, self.processing_element * machine.processing_elements
        for above, level in itertools.pairwise(machine.levels):
            instances *= above.fanout
            weight = self.levels.get(level.name, self.word)
            if level.shares is not None and level.shares == above.shares:
                continue  # one memory
            area += instances * (level.capacity_words or 0) * weight
        return area * machine.word_bits


def _kind_of_area(value: object) -> str | None:
    if isinstance(value, Mapping | AreaProxy):
        return "proxy"
    return "mm2" if isinstance(value, str) else None


Area = Annotated[
    Annotated[AreaProxy, Tag("proxy")] | Annotated[Literal["mm2"], Tag("mm2")],
    Discriminator(
        _kind_of_area,
        custom_error_type="area",
        custom_error_message="expected mm2, or the weights of the proxy in bits",
    ),
]
"""Square millimetres of the machine's components, or the proxy."""


class Limits(StrictModel):
    """What an accelerator may cost at most to be on the front; all workloads together."""

    area_bits: PositiveNumber | None = None
    """Area proxy, bits."""
    area_mm2: PositiveNumber | None = None
    """Area of the memories and units, mm2."""
    power_w: PositiveNumber | None = None
    """Mean power while the workloads run, W: the levels' and the multiply-accumulates' energy."""
    chip_power_w: PositiveNumber | None = None
    """Likewise, with what leaks of the instances that mappings leave idle."""
    energy_mj: PositiveNumber | None = None
    """Energy, mJ."""
    latency_ms: PositiveNumber | None = None
    """Time, one workload after another, ms."""

    def __str__(self) -> str:
        units = {
            "area_bits": "bits", "area_mm2": "mm2", "power_w": "W", "chip_power_w": "W",
            "energy_mj": "mJ", "latency_ms": "ms",
        }  # fmt: skip
        return ", ".join(
            f"{' '.join(key.split('_')[:-1])} at most {value:,g} {units[key]}"
            for key, value in self.model_dump(exclude_none=True).items()
        )


class Sweep(StrictModel):
    """Accelerators x workloads; every pair gets its proven best mapping."""

    kind: Literal["sweep"]
    name: FileName
    """Names the run folder and the MLflow experiment."""
    description: str = ""
    """What the sweep is for."""
    base: Source = "mm256"
    """The accelerator that the grid changes: a preset's name, a YAML file or inline."""
    grid: dict[Name, Values] | None = None
    """Values per `LEVEL.KEY`, or per key of the accelerator; all combinations are swept."""
    accelerators: Annotated[tuple[Source, ...], Field(min_length=1)] | None = None
    """In place of base and grid: presets' names, YAML files, or inline with `extends`."""
    workloads: Annotated[tuple[Source, ...], Field(min_length=1)]
    """Presets' names, YAML files, inline workloads, or a `WeighedNetwork` for all its layers."""
    objective: Objective = "edp"
    """What the best mapping of a point minimises."""
    seconds_per_point: PositiveNumber = 10.0
    """Time of one proof; what is then not proven is kept with its gap."""
    energy_scaling: Literal["none", "sqrt"] = "none"
    """`sqrt`: a level's energy per access grows with the square root of its capacity."""
    area: Area = AreaProxy()
    """What accelerators are drawn over: a proxy's weights, or `mm2`."""
    limits: Limits = Limits()
    """What an accelerator may cost at most to be on the front."""
    points_per_task: Size = 16
    """Points that one Ray task proves one after another, at the most."""

    @property
    def proxy(self) -> AreaProxy:
        """The proxy, which results have in any case."""
        return self.area if isinstance(self.area, AreaProxy) else AreaProxy()

    @property
    def area_column(self) -> Literal["area_bits", "area_mm2"]:
        """The column of results that stands for the area."""
        return "area_bits" if isinstance(self.area, AreaProxy) else "area_mm2"

    @property
    def needs_mm2(self) -> bool:
        """Whether every machine's area in mm2 must be known."""
        return self.area_column == "area_mm2" or self.limits.area_mm2 is not None

    @model_validator(mode="after")
    def _check(self) -> Sweep:
        if (self.grid is None) == (self.accelerators is None):
            raise ValueError("expected either a grid or a list of accelerators.")
        if self.grid is None:
            for key in ("base", "energy_scaling"):
                if key in self.model_fields_set:
                    raise ValueError(f"{key}: goes with a grid, not with a list of accelerators.")
            return self
        if not self.grid:
            raise ValueError("grid: expected a key with values at least, got none: no machine.")
        for key, values in self.grid.items():
            twice = [value for value, count in Counter(map(repr, values)).items() if count > 1]
            if twice:
                raise ValueError(f"grid: {key}: {twice[0]} is given twice.")
            level, _, field = key.rpartition(".")
            if self.energy_scaling == "sqrt" and level and field == "energy_pj":
                raise ValueError(
                    f"grid: {key}: energy_scaling: sqrt sets the energies; expected none."
                )
        return self
