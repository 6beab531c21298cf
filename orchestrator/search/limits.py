"""What limits a mapping's speed: its multiply-accumulate units, or the bandwidth of a level."""

from __future__ import annotations

import math
from dataclasses import dataclass

from costmodel.costs import Detail
from costmodel.loop_nest.map_space import MapSpace
from costmodel.space import Codes

COMPUTE = "compute"


@dataclass(frozen=True)
class Limit:
    """What a mapping's latency comes from.

    Attributes:
        name: `compute`, or a level and what crosses it, such as `DRAM reads`.
        amount: multiply-accumulate units at work, or words per cycle and instance.
        most: units that there are, or the bandwidth.
    """

    name: str
    amount: float
    most: float

    def __str__(self) -> str:
        if self.name == COMPUTE:
            return f"compute: {self.amount:,.0f} of {self.most:,.0f} elements at work"
        return f"{self.name}: {self.amount:.4g} of {self.most:g} words per cycle"


def limit_of(space: MapSpace, code: Codes, detail: Detail, cycles: float) -> Limit:
    """What a mapping waits for.

    Args:
        space: the map space.
        code: `[D]` a feasible mapping.
        detail: its evaluation, `[1]`.
        cycles: its latency.

    Returns:
        The transfer that takes longest, where the multiply-accumulate units wait for it; else the
        units themselves.
    """
    busy = math.prod(
        factor for level in space.describe(code).levels for factor in level.spatial.values()
    )
    slowest = Limit(COMPUTE, busy, space.accelerator.processing_elements)
    longest = space.workload.macs / busy
    for index, level in enumerate(space.accelerator.levels):
        read = int(detail.reads[0, index].sum())
        written = int(detail.fills[0, index].sum() + detail.updates[0, index].sum())
        for what, words, most in (
            ("reads", read, level.read_bandwidth),
            ("writes", written, level.write_bandwidth),
        ):
            if most is not None and words / most > longest:
                longest = words / most
                slowest = Limit(f"{level.name} {what}", words / cycles, most)
    return slowest
