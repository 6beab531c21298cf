"""Padding: what larger sizes are worth where a workload's own have awkward factors.

Tilings divide every size evenly. A size without small factors, such as a prime, therefore leaves
most of an array idle; with a few zeros or unused results more it divides well.

A dimension may be padded where the result stays what it is:

* a dimension of the output (N, K, P, Q): the further results are thrown away, and what they read
  beyond the inputs does not matter;
* a dimension that is summed over and indexes every input that has it as an axis of its own (C, the
  K of a matrix product): the inputs are filled with zeros.

The filter's R and S are neither: zeros there would widen the window that slides over the input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from costmodel.arrays.tables import prime_factors
from orchestrator.schemas.search import PaddingAnswer

if TYPE_CHECKING:
    from costmodel.problems.affine import Workload

# A size whose largest prime factor is above this is called awkward.
SMALL_FACTOR = 7

Sizes = dict[str, int]


@dataclass(frozen=True)
class Padding:
    """Sizes to pad to, and what they are worth.

    Attributes:
        original: objective at the sizes given; inf where no mapping was found in time.
        single: for each dimension that is better padded alone, its size and objective then.
        sizes: the best sizes found, of all dimensions together.
        objective: what they reach; inf where nothing was found in time.
        complete: whether all candidates were tried in the time.
    """

    original: float
    single: Mapping[str, tuple[int, float]]
    sizes: Sizes
    objective: float
    complete: bool

    @property
    def better(self) -> bool:
        """Whether larger sizes are better than those given."""
        return self.objective < self.original

    def to_dict(self) -> PaddingAnswer:
        """What JSON has of it."""
        return {
            "single": {
                name: {"size": size, "objective": value}
                for name, (size, value) in self.single.items()
            },
            "sizes": self.sizes,
            "objective": self.objective if math.isfinite(self.objective) else None,
            "complete": self.complete,
        }


def paddable(workload: Workload) -> tuple[str, ...]:
    """The dimensions that may be padded without a change of the result."""
    inputs, output = workload.tensors[:-1], workload.tensors[-1]

    def alone(name: str) -> bool:
        axes = [axis for tensor in inputs for axis in tensor.axes if name in dict(axis.terms)]
        return bool(axes) and all(len(axis.terms) == 1 for axis in axes)

    return tuple(name for name in workload.dimensions if name in output.dimensions or alone(name))


def is_awkward(size: int) -> bool:
    """Whether a size has no small factors only."""
    return max(prime_factors(size), default=1) > SMALL_FACTOR


def awkward(workload: Workload) -> tuple[str, ...]:
    """The dimensions that may be padded and have awkward sizes."""
    return tuple(name for name in paddable(workload) if is_awkward(workload.dimensions[name]))
