"""What a mapping record may say: typed, so that a damaged one is refused by the path of its key."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mapspace.strict_yaml import Name, NonNegativeNumber, PositiveNumber, Size, StrictModel, shown

Kind = Literal["cnn", "conv1d", "einsum", "gemm", "mttkrp"]


class Problem(StrictModel):
    """A record's `problem`; which keys a kind has `costmodel.loop_nest.records` looks at."""

    kind: Kind
    name: Name = "record"
    dims: dict[str, Size] = Field(min_length=1)
    tensors: tuple[str, ...] = ()
    stride: Size = 1
    dilation: Size = 1
    groups: Size = 1
    projections: dict[str, Any] = Field(default_factory=dict)
    """Einsum: axes by tensor, as `costmodel.problems.workloads` reads them."""
    output: str = ""
    """Einsum: the tensor that is accumulated into."""
    roles: dict[str, Any] = Field(default_factory=dict)
    """Einsum: roles of the inputs that have one of their own, likewise."""


class Bandwidth(StrictModel):
    """Words per cycle of one instance; null: without limit."""

    read: PositiveNumber | None = None
    write: PositiveNumber | None = None


def _none_if_zero(value: object) -> object:
    """No link costs anything: records have 0 or null in place of an object."""
    return {} if value is None or (type(value) in (int, float) and value == 0) else value


class Arch(StrictModel):
    """A record's `arch`."""

    levels_outer_to_inner: tuple[Name, ...] = Field(min_length=1)
    instances: dict[str, Size]
    size_words: dict[str, Size | None]
    energy_pj_per_word_access: dict[str, NonNegativeNumber]
    bandwidth_words_per_cycle: dict[str, Bandwidth] | None = None
    energy_per_hop_pj: Annotated[
        dict[str, NonNegativeNumber],
        BeforeValidator(
            _none_if_zero, json_schema_input_type=dict[str, NonNegativeNumber] | Literal[0] | None
        ),
    ] = Field(default_factory=dict)
    """By link, such as `L2<->L1`."""
    banks: dict[str, Size | None] = Field(default_factory=dict)
    mesh: tuple[Size, Size] | None = None
    mac_energy_pj: NonNegativeNumber
    word_bits: Size = 16
    clock_ghz: PositiveNumber = 1.0
    overflow: Literal["invalid", "bypass"] = "invalid"


def _names_in_order(value: object) -> object:
    if isinstance(value, str) or (
        isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    ):
        return value
    raise ValueError(f"expected dimensions as text or a list of names, got {shown(value)}.")


Order = Annotated[
    Any, BeforeValidator(_names_in_order, json_schema_input_type=str | list[str] | None)
]


class LevelPart(StrictModel):
    """One level of a record's `mapping`."""

    temporal: dict[str, Size] = Field(default_factory=dict)
    perm: Order = None
    spatial: dict[str, Size] = Field(default_factory=dict)
    spatial_perm: Order = None
    banks: dict[str, Size] | None = None


class MappingPart(BaseModel):
    """A record's `mapping`: what is under any other key is the level of that name."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, LevelPart]

    keep: dict[str, tuple[str, ...]] | None = None
    spatial_axis: dict[str, Literal["X", "Y"]] | None = None


class HasProblem(BaseModel):
    """So that a message starts with `problem`."""

    problem: Problem


class HasArch(BaseModel):
    """So that a message starts with `arch`."""

    arch: Arch
    arch_name: Name = "record"


class HasMapping(BaseModel):
    """So that a message starts with `mapping`."""

    mapping: MappingPart
