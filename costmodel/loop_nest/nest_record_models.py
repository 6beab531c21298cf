"""What a record of a whole nest may say: levels as a list, tensors with their axes, loops as lists.

Typed, so that a damaged record is refused by the path of its key. Everything is listed outermost
first.
"""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from costmodel.arrays.projections import Projection
from costmodel.machines.array_passes import ArrayPasses
from costmodel.machines.levels import ActionEnergies, Cycles, Packing, Words
from costmodel.machines.machine import Counting
from costmodel.machines.transfers import Bufferings, StartUps
from costmodel.problems.affine import LARGEST_COUNT, LARGEST_SIZE, MAX_DIMENSIONS, Bits
from mapspace.strict_yaml import Name, NonNegativeNumber, PositiveNumber, Size, StrictModel

MOST_LEVELS = 32
MOST_TENSORS = 16
MOST_AXES = 32
MOST_INSTANCES = 2**24
"""Of a level or of the MACs: the passes hold a few numbers for each."""

Coefficient = Annotated[int, Field(strict=True, gt=-(2**31), lt=2**31)]


_Remainder = Annotated[int, Field(strict=True)]
_Remainders = Annotated[SkipJsonSchema[tuple[_Remainder, ...] | None], Field(exclude=True)]
"""No key of a record: taken out of its loops."""

_COUNT = {"type": "integer", "minimum": 1}


def _loops_schema(least: int, *last: dict[str, Any]) -> WithJsonSchema:
    """A list of loops, each `[dim, factor, ...]` of at least so many entries."""
    entries = [{"type": "string"}, _COUNT, *last]
    loop = {"type": "array", "prefixItems": entries, "minItems": least, "maxItems": len(entries)}
    return WithJsonSchema({"type": "array", "items": loop, "maxItems": MAX_DIMENSIONS})


class NestNetwork(StrictModel):
    """Energies of the network below a level, pJ per word."""

    energy_per_hop_pj: NonNegativeNumber = 0.0
    router_pj: NonNegativeNumber = 0.0
    ingress_pj: NonNegativeNumber = 0.0


class _Instances(StrictModel):
    """Instances of a level, as a mesh."""

    name: Name
    instances: Annotated[Size, Field(le=MOST_INSTANCES)]
    meshX: Size  # noqa: N815 - as the records spell it
    meshY: Size  # noqa: N815 - as the records spell it

    @model_validator(mode="after")
    def _check_mesh(self) -> _Instances:
        if self.meshX * self.meshY != self.instances:
            raise ValueError(
                f"instances: expected meshX x meshY = {self.meshX} x {self.meshY}, "
                f"got {self.instances}."
            )
        return self


class NestLevel(_Instances):
    """An entry of `arch.levels`."""

    technology: Literal["DRAM", "SRAM"] = Field(alias="class")
    size_words: Words | None = None
    word_bits: Size = 16
    energy_pj: ActionEnergies
    packing: Packing = "whole"
    """How values of so many bits lie in words."""
    block_size: Size = 1
    cluster_size: Size = 1
    read_bandwidth: PositiveNumber | None = None
    write_bandwidth: PositiveNumber | None = None
    shared_bandwidth: PositiveNumber | None = None
    multiple_buffering: Annotated[float, Field(strict=True, ge=1, le=1e9)] = 1.0
    min_utilization: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.0
    addr_gen_pj: NonNegativeNumber | None = None
    network: NestNetwork | None = None
    leakage_pj: NonNegativeNumber = 0.0
    network_fill_latency: Cycles = 0
    network_drain_latency: Cycles = 0
    array: ArrayPasses | None = None
    """What passes through the elements below take, where they are a systolic array."""
    startup: StartUps = ()
    """Cycles before the first word of every tile, by tensor."""
    buffering: Bufferings = ()
    """Whether tiles come while the ones before are worked on, by tensor."""
    multicast: Annotated[bool, Field(strict=True)] = True
    spatial_reduction: Annotated[bool, Field(strict=True)] = True
    banks: Size | None = None
    shares: Name | None = None
    """A name of consecutive levels that share one room and its ports."""


class NestMacs(_Instances):
    """`arch.mac`."""

    energy_pj: NonNegativeNumber
    leakage_pj: NonNegativeNumber = 0.0
    cycles_per_mac: Size = 1


class NestArch(StrictModel):
    """A record's `arch`."""

    name: Name = "record"
    levels: tuple[NestLevel, ...] = Field(min_length=1, max_length=MOST_LEVELS)
    mac: NestMacs
    output_fills: Literal["elided", "charged"] = "elided"
    counting: Counting = "timeloop"
    link_transfers: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _check_levels(self) -> NestArch:
        steps: list[_Instances] = [*self.levels, self.mac]
        names = [level.name for level in self.levels]
        if steps[0].instances != 1:
            raise ValueError(
                f"levels[0].instances: expected 1 of the outermost level, got {steps[0].instances}."
            )
        for position, (outer, inner) in enumerate(itertools.pairwise(steps)):
            if names.index(outer.name) != position:
                raise ValueError(f"levels: the name {outer.name!r} is given to two levels.")
            for key in ("meshX", "meshY"):
                if getattr(inner, key) % getattr(outer, key):
                    raise ValueError(
                        f"{inner.name}.{key}: expected a multiple of {outer.name}'s "
                        f"{getattr(outer, key)}, got {getattr(inner, key)}."
                    )
        return self


class NestTensor(StrictModel):
    """An entry of `problem.tensors`."""

    name: Name
    axes: tuple[
        Annotated[tuple[tuple[Name, Coefficient], ...], Field(max_length=MAX_DIMENSIONS)], ...
    ] = Field(max_length=MOST_AXES)
    output: Annotated[bool, Field(strict=True)] = False
    bits: Bits | None = None
    """Of a value; null: a word of whatever level it lies in."""


class NestProblem(StrictModel):
    """A record's `problem`: any affine nest, also what no map space is searched of."""

    name: Name = "record"
    dims: dict[str, Size] = Field(min_length=1, max_length=MAX_DIMENSIONS)
    tensors: tuple[NestTensor, ...] = Field(min_length=1, max_length=MOST_TENSORS)

    @model_validator(mode="after")
    def _check_nest(self) -> NestProblem:
        names = [tensor.name for tensor in self.tensors]
        for name, size in self.dims.items():
            if size > LARGEST_SIZE:
                raise ValueError(f"dims.{name}: expected at most 2**32, got {size}.")
        for position, tensor in enumerate(self.tensors):
            if names.index(tensor.name) != position:
                raise ValueError(f"tensors: the name {tensor.name!r} is given to two tensors.")
            self._check_axes(tensor)
        if not any(tensor.output for tensor in self.tensors):
            raise ValueError("tensors: expected at least one with output: true.")
        return self

    def _check_axes(self, tensor: NestTensor) -> None:
        where = f"tensors[{tensor.name}].axes"
        width = 1
        for axis in tensor.axes:
            used = [name for name, _ in axis]
            for position, (name, coefficient) in enumerate(axis):
                if name not in self.dims:
                    raise ValueError(
                        f"{where}: unknown {name!r}; known: {', '.join(sorted(self.dims))}."
                    )
                if used.index(name) != position:
                    raise ValueError(f"{where}: {name!r} is named twice in one axis; add them up.")
                if coefficient == 0:
                    raise ValueError(f"{where}: the coefficient of {name!r} is 0; leave it out.")
            width *= max(1, sum(abs(coefficient) for _, coefficient in axis))
        if self.macs * width * 8 * MOST_TENSORS >= LARGEST_COUNT:
            raise ValueError(
                f"dims: {self.macs:.3g} multiply-accumulates are too many: accesses are counted "
                "exactly, in 64 bits."
            )

    @property
    def bits_by_tensor(self) -> tuple[int | None, ...]:
        """`[T]` bits of a value of each tensor; None: one word."""
        return tuple(tensor.bits for tensor in self.tensors)

    @property
    def macs(self) -> int:
        """Points of the iteration space."""
        return math.prod(self.dims.values())

    @property
    def projections(self) -> tuple[Projection, ...]:
        """The tensors as the tables take them."""
        return tuple(Projection(t.name, t.axes, t.output) for t in self.tensors)


class NestLoops(StrictModel):
    """An entry of `mapping`: what one level keeps, and its loops.

    A loop may have a remainder, `[dim, factor, remainder]` or `[dim, factor, axis, remainder]`: how
    often it runs in the last pass. They are held beside the loops, None where none is given.
    """

    level: Name
    keep: tuple[Name, ...] = Field(max_length=MOST_TENSORS)
    temporal: Annotated[tuple[tuple[Name, Size], ...], _loops_schema(2, _COUNT)] = Field(
        default=(), max_length=MAX_DIMENSIONS
    )
    spatial: Annotated[
        tuple[tuple[Name, Size, Literal["X", "Y"]], ...],
        _loops_schema(2, {"enum": ["X", "Y"]}, _COUNT),
    ] = Field(default=(), max_length=MAX_DIMENSIONS)
    banks: dict[Name, Size] = Field(default_factory=dict, max_length=MOST_TENSORS)
    temporal_rests: _Remainders = None
    spatial_rests: _Remainders = None

    @model_validator(mode="before")
    @classmethod
    def _part_remainders(cls, given: Any) -> Any:
        """Takes the remainders out of the loops, where any loop has one."""
        if not isinstance(given, dict):
            return given
        parted = dict(given)
        for key in ("temporal_rests", "spatial_rests"):
            if key in given:
                raise ValueError(f"{key}: unknown key; a loop's own list has its remainder.")
        for key, length in (("temporal", 3), ("spatial", 4)):
            loops = given.get(key)
            if not isinstance(loops, list | tuple):
                continue
            lists = [isinstance(loop, list | tuple) for loop in loops]
            if not all(lists) or not any(len(loop) == length for loop in loops):
                continue
            parted[key] = [loop[: length - 1] for loop in loops]
            parted[f"{key}_rests"] = [
                loop[length - 1] if len(loop) >= length else loop[1] for loop in loops
            ]
        return parted

    @property
    def across(self) -> tuple[dict[str, int], dict[str, str], dict[str, int]]:
        """Spatial factors and axes of dimensions; of those along both axes the part along Y.

        Their axis is X.
        """
        factors: dict[str, int] = {}
        axes: dict[str, str] = {}
        heights: dict[str, int] = {}
        for name, factor, axis in self.spatial:
            if factor > 1 and factors.get(name, 1) > 1:
                heights[name] = factor if axis == "Y" else factors[name]
                axes[name] = "X"
            elif factor > 1 or name not in axes:
                axes[name] = axis
            factors[name] = factors.get(name, 1) * factor
        return factors, axes, heights

    @property
    def listed(self) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]:
        """The temporal and the spatial loops: dimension, factor, and how often in the last pass."""
        temporal = self.temporal_rests or [loop[1] for loop in self.temporal]
        spatial = self.spatial_rests or [loop[1] for loop in self.spatial]
        return (
            [(name, factor, r) for (name, factor), r in zip(self.temporal, temporal, strict=True)],
            [(name, f, r) for (name, f, _), r in zip(self.spatial, spatial, strict=True)],
        )


def is_imperfect(mapping: tuple[NestLoops, ...]) -> bool:
    """Whether a loop's last pass is shorter than the others."""
    return any(
        factor != rest
        for loops in mapping
        if loops.temporal_rests or loops.spatial_rests
        for listed in loops.listed
        for _, factor, rest in listed
    )


class HasNestArch(BaseModel):
    """So that a message starts with `arch`."""

    arch: NestArch


class HasNestProblem(BaseModel):
    """So that a message starts with `problem`."""

    problem: NestProblem


class HasNestMapping(BaseModel):
    """So that a message starts with `mapping`."""

    mapping: tuple[NestLoops, ...] = Field(max_length=MOST_LEVELS)
