"""Which problems a surrogate learns from: sampling ranges per workload family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Discriminator, Field, Tag, model_validator

from costmodel.problems.affine import Workload
from costmodel.problems.workload_families import cnn, conv1d, gemm, mttkrp
from mapspace.strict_yaml import Size, StrictModel

BUILDERS: dict[str, Callable[..., Workload]] = {
    "cnn": cnn,
    "conv1d": conv1d,
    "gemm": gemm,
    "mttkrp": mttkrp,
}
DIMENSIONS = {
    "cnn": ("N", "K", "C", "P", "Q", "R", "S"),
    "conv1d": ("N", "K", "C", "P", "R"),
    "gemm": ("M", "N", "K"),
    "mttkrp": ("I", "J", "K", "L"),
}

Sizes = Annotated[tuple[Size, ...], Field(min_length=1)]


class SizeRange(StrictModel):
    """Sizes from `first` to `last`, both included, `step` apart."""

    first: Size
    last: Size
    step: Size = 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.last < self.first:
            raise ValueError(f"last: expected at least first = {self.first}, got {self.last}.")
        return self

    @property
    def values(self) -> tuple[int, ...]:
        """The sizes, ascending."""
        return tuple(range(self.first, self.last + 1, self.step))


def _form(value: object) -> str:
    return "range" if isinstance(value, dict | SizeRange) else "list"


SizeSet = Annotated[
    Annotated[Sizes, Tag("list")] | Annotated[SizeRange, Tag("range")], Discriminator(_form)
]

# Hegde et al., Mind Mappings (ASPLOS 2021), as the released code draws them (section 5.5).
_CHANNELS = SizeRange(first=32, last=480, step=32)
_MTTKRP = SizeRange(first=128, last=3968, step=128)
PAPER_RANGES: dict[str, dict[str, tuple[int, ...] | SizeRange]] = {
    "cnn": {
        "N": (1, 2, 4, 8, 16),
        "K": _CHANNELS,
        "C": (3, *_CHANNELS.values),
        "P": SizeRange(first=7, last=223),
        "R": (1, 3, 5, 7),
    },
    "mttkrp": dict.fromkeys(DIMENSIONS["mttkrp"], _MTTKRP),
}
PAPER_EQUAL = {"cnn": {"Q": "P", "S": "R"}}


class ProblemRanges(StrictModel):
    """Problems drawn dimension by dimension, independently and uniformly."""

    family: Literal["cnn", "conv1d", "gemm", "mttkrp"]
    """Which builder makes the workloads."""
    sizes: dict[str, SizeSet] = Field(default_factory=dict)
    """Sizes to draw from by dimension: a list, or first, last and step. For cnn and mttkrp what
    is not given is the paper's."""
    equal: dict[str, str] = Field(default_factory=dict)
    """Dimensions that take the size drawn for another one. For cnn: Q as P and S as R, unless
    sizes gives them ranges of their own."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: object) -> object:
        """Completes the ranges from the paper's."""
        if not isinstance(data, dict) or not isinstance(data.get("sizes", {}), dict):
            return data
        family, sizes = data.get("family"), data.get("sizes", {})
        equal = data.get("equal", PAPER_EQUAL.get(str(family), {}))
        if not isinstance(equal, dict):
            return data
        equal = {name: source for name, source in equal.items() if name not in sizes}
        paper = PAPER_RANGES.get(str(family), {})
        paper = {name: values for name, values in paper.items() if name not in equal}
        return {**data, "sizes": {**paper, **sizes}, "equal": equal}

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = DIMENSIONS[self.family]
        for name in (*self.sizes, *self.equal):
            if name not in known:
                raise ValueError(
                    f"unknown dimension {name!r} of {self.family}; known: {', '.join(known)}."
                )
        for name, source in self.equal.items():
            if source not in self.sizes:
                raise ValueError(
                    f"equal.{name}: expected a dimension with a range "
                    f"({', '.join(self.sizes)}), got {source!r}."
                )
        missing = [name for name in known if name not in self.sizes and name not in self.equal]
        if missing:
            raise ValueError(f"sizes: missing {', '.join(missing)}.")
        return self

    def draw(self, rng: np.random.Generator) -> Workload:
        """One problem."""
        drawn = {
            name: int(rng.choice(_values(self.sizes[name])))
            for name in DIMENSIONS[self.family]
            if name in self.sizes
        }
        drawn.update({name: drawn[source] for name, source in self.equal.items()})
        sizes = {name: drawn[name] for name in DIMENSIONS[self.family]}
        return BUILDERS[self.family](**sizes)

    def bounds(self) -> dict[str, tuple[int, int]]:
        """Least and greatest size per dimension, in the order of the dimensions."""
        extremes = {}
        for name in DIMENSIONS[self.family]:
            values = _values(self.sizes[self.equal.get(name, name)])
            extremes[name] = (min(values), max(values))
        return extremes


def _values(sizes: tuple[int, ...] | SizeRange) -> tuple[int, ...]:
    return sizes.values if isinstance(sizes, SizeRange) else sizes
