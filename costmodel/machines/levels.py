"""One memory level of an accelerator: every key of an entry of `levels`, and what it may hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from costmodel.machines.array_passes import ArrayPasses
from costmodel.machines.component_entries import Component, LevelSources
from costmodel.machines.transfers import Bufferings, StartUps
from mapspace.strict_yaml import Name, NonNegativeNumber, PositiveNumber, Size, StrictModel

Words = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
"""A whole number of at least 0: a level may hold nothing, where every tensor bypasses it."""

Cycles = Annotated[int, Field(strict=True, ge=0, lt=2**62)]

Packing = Literal["whole", "dense", "word"]
"""Whether values stay whole in an access or in a word, or lie one after another across accesses."""

Tiles = Literal["together", "apart"]
"""Whether the tensors that a level keeps have one place in the nest, or each its own."""

Axes = Literal["one", "both"]
"""Whether a dimension runs along one axis of a mesh, or along its width and its height at once."""

CAPACITIES = frozenset({"capacity_words", "capacity_bits", "capacity_bytes"})
"""Keys of which a level has one."""

# The keys of the first machine files. They are always written out; the others only where they say
# something, so that what machines were filed under years ago stays what it is.
_ALWAYS_WRITTEN = frozenset(
    {
        "name", "capacity_words", "energy_pj", "read_bandwidth", "write_bandwidth", "banks",
        "fanout", "mesh", "hop_energy_pj",
    }
)  # fmt: skip

_ROLES = frozenset({"input", "weight", "output"})

Roles = tuple[Literal["input", "weight", "output"], ...]

# Keys that change no figure, or only say in another way what the first keys say.
_WITHOUT_EFFECT = frozenset(
    {
        "capacity_bits", "capacity_bytes", "word_bits", "beside", "component", "area_mm2",
        "sources", "packing", "axes", "tiles",
    }
)  # fmt: skip

NETWORK_KEYS = (
    "fanout", "mesh", "spatial", "hop_energy_pj", "router_pj", "ingress_pj", "fill_latency",
    "drain_latency", "array",
)  # fmt: skip
"""What an entry says of the way to its children rather than of the buffer."""

SHARED_KEYS = (
    "capacity_words", "word_bits", "packing", "technology", "block_words", "read_bandwidth",
    "write_bandwidth", "bandwidth", "multiple_buffering", "min_utilisation", "banks",
)  # fmt: skip
"""What levels that share one room say alike."""


class ActionEnergies(StrictModel):
    """Energies of the three things that are done to a level, pJ per access of a block."""

    read: NonNegativeNumber
    """A read."""
    fill: NonNegativeNumber
    """A write of what comes from the level above."""
    update: NonNegativeNumber
    """A write of what comes from the level below."""


class SpatialRules(StrictModel):
    """What may run across the children of a level, and what their network can do.

    A dimension that a tensor lacks leaves that tensor's words the same for all children: inputs
    and weights are handed to all of them, outputs of all of them are added.
    """

    x: tuple[str, ...] | None = None
    """Dimensions that may run along the width; null: all."""
    y: tuple[str, ...] | None = None
    """Dimensions that may run along the height; null: all."""
    x_reuse: Roles | None = None
    """Along the width also, or only, those that a tensor of one of these roles lacks."""
    y_reuse: Roles | None = None
    """Along the height likewise."""
    multicast: bool = True
    """Whether one read serves all children that need the same word."""
    reduction: bool = True
    """Whether outputs of children that belong together are added on their way up."""


def _kind_of_energy(value: object) -> str | None:
    if isinstance(value, Mapping | ActionEnergies):
        return "actions"
    return "number" if isinstance(value, int | float | str) else None


Energy = Annotated[
    Annotated[NonNegativeNumber, Tag("number")] | Annotated[ActionEnergies, Tag("actions")],
    Discriminator(
        _kind_of_energy,
        custom_error_type="energy",
        custom_error_message="expected a number, or read, fill and update",
    ),
]
"""One number for every access, or one for each of read, fill and update."""


class Level(StrictModel):
    """One memory level; an instance of it serves `fanout` instances of the next level inwards."""

    name: Name
    """How mappings and reports call the level."""
    capacity_words: Words | None = None
    """Words that one instance holds; null means without limit, for the outermost level only."""
    capacity_bits: Size | None = None
    """Instead of words: bits, of which whole words are used."""
    capacity_bytes: Size | None = None
    """Instead of words: bytes of 8 bits."""
    word_bits: Size | None = None
    """Width of this level's words; null: the machine's."""
    packing: Packing | None = None
    """How values of so many bits lie in its words; null: as the machine says."""
    technology: Literal["DRAM", "SRAM"] | None = None
    """Whether it is a memory outside the chip; null: whether it is without limit."""
    keep: tuple[Name, ...] = ()
    """Tensors or roles (input, weight, output) that are always kept here."""
    bypass: tuple[Name, ...] = ()
    """Tensors or roles that never are."""
    component: Component | None = None
    """What it is made of; tables or a library then give the numbers that the file does not."""
    area_mm2: NonNegativeNumber | None = None
    """Area of one instance, mm2; null: not known."""
    sources: LevelSources = LevelSources()
    """Where the numbers come from that were looked up for the component."""
    energy_pj: Energy
    """Energy of one access, pJ; a mapping where reads, fills and updates differ."""
    block_words: Size = 1
    """Words that one access reads or writes."""
    cluster_size: Size = 1
    """Neighbouring instances that one access serves."""
    address_pj: NonNegativeNumber = 0.0
    """Energy of generating the address of a word read, filled or updated, pJ."""
    leakage_pj: NonNegativeNumber = 0.0
    """Energy of one instance in use over one cycle, pJ."""
    read_bandwidth: PositiveNumber | None = None
    """Words per cycle that one instance can read; null means without limit."""
    write_bandwidth: PositiveNumber | None = None
    """Words per cycle that one instance can take in (fills and updates); null: without limit."""
    bandwidth: PositiveNumber | None = None
    """Words per cycle that one instance can read and take in together; null: without limit."""
    multiple_buffering: Annotated[float, Field(strict=True, ge=1, le=1e9)] = 1.0
    """Copies of every tile that the capacity must hold, such as 2 where one is being filled."""
    min_utilisation: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.0
    """Share of the capacity that the tiles of a mapping must at least fill."""
    startup: StartUps = ()
    """Cycles before the first word of every tile that comes from outside, by role or tensor."""
    buffering: Bufferings = ()
    """Whether tiles come while the ones before are worked on (`double`), or work waits."""
    banks: Size | None = None
    """Equal banks, each given to one tensor as a part of the mapping; null: one shared buffer."""
    fanout: Size = 1
    """Children below one instance: instances of the next level, or MACs below the innermost."""
    mesh: tuple[Size, Size] | None = None
    """The children's width and height, with width x height = fanout; null: fanout x 1."""
    axes: Axes | None = None
    """How many axes of the mesh a dimension may run along at once; null: as the machine says."""
    spatial: SpatialRules | None = None
    """Which dimensions may run across the children, and whether words are shared on the way."""
    hop_energy_pj: NonNegativeNumber = 0.0
    """Energy of one word over one hop of the network to the children, pJ."""
    router_pj: NonNegativeNumber = 0.0
    """Energy of one word through one router of that network, pJ."""
    ingress_pj: NonNegativeNumber = 0.0
    """Energy of one word into that network, pJ."""
    fill_latency: Cycles = 0
    """Cycles until that network delivers its first word."""
    drain_latency: Cycles = 0
    """Cycles until that network has returned its last word."""
    array: ArrayPasses | None = None
    """What passes through the children take, where they are the elements of a systolic array."""
    beside: Name | None = None
    """A name that consecutive levels share which are buffers side by side."""
    shares: Name | None = None
    """A name of consecutive levels that are one memory: they share its room and its ports."""
    tiles: Tiles | None = None
    """Whether the tensors kept here are stored at loops of their own; null: as the machine says."""

    @model_validator(mode="before")
    @classmethod
    def _count_words(cls, value: object) -> object:
        """A capacity in another unit becomes words."""
        if not isinstance(value, Mapping):
            return value
        given = [key for key in sorted(CAPACITIES) if value.get(key) is not None]
        if len(given) > 1:
            raise ValueError(f"{given[1]}: {given[0]} is given too; give one of them.")
        bits = value.get("word_bits")
        for key, width in (("capacity_bits", 1), ("capacity_bytes", 8)):
            size = value.get(key)
            # What is no number is left for the fields to refuse.
            if type(size) is int and type(bits) is int and size > 0 and bits > 0:
                words = size * width // bits
                if words == 0:
                    raise ValueError(
                        f"{key}: expected at least one word of {bits} bits, got {size}."
                    )
                return {**value, key: None, "capacity_words": words}
        return value

    @model_validator(mode="after")
    def _check(self) -> Level:
        if self.banks is not None:
            if self.capacity_words is None:
                raise ValueError(f"banks: {self.banks} banks need capacity_words, which is null.")
            if self.capacity_words % self.banks:
                raise ValueError(
                    f"banks: expected a divisor of capacity_words = {self.capacity_words}, "
                    f"got {self.banks}."
                )
            if self.multiple_buffering > 1 or self.min_utilisation > 0:
                raise ValueError(
                    "banks: a banked level has neither multiple_buffering nor min_utilisation."
                )
        if self.mesh is not None and math.prod(self.mesh) != self.fanout:
            raise ValueError(
                f"mesh: expected width x height = fanout = {self.fanout}, "
                f"got {self.mesh[0]} x {self.mesh[1]}."
            )
        if self.array is not None:
            width, height = self.width_height
            if self.fanout == 1:
                raise ValueError("array: expected children, got fanout: 1.")
            if wrong := self.array.problem(height, width):
                raise ValueError(wrong)
        if self.capacity_words == 0 and self.technology is None and not set(self.bypass) >= _ROLES:
            raise ValueError(
                "capacity_words: expected at least 1, got 0; a level that holds nothing has "
                f"bypass: [{', '.join(sorted(_ROLES))}]."
            )
        if self.min_utilisation > 0 and self.capacity_words is None:
            raise ValueError(
                f"min_utilisation: {self.min_utilisation:g} of a capacity without limit is never "
                "reached; give a capacity or leave it out."
            )
        if self.capacity_words and self.capacity_words < self.multiple_buffering:
            raise ValueError(
                f"multiple_buffering: {self.capacity_words} words hold no tile "
                f"{self.multiple_buffering:g} times; expected at most {self.capacity_words}."
            )
        if self.min_utilisation > 0 and set(self.bypass) >= _ROLES:
            raise ValueError(
                f"min_utilisation: {self.min_utilisation:g} is never reached by a level that "
                "bypasses every role; leave it out, or take a role out of bypass."
            )
        both = sorted(set(self.keep) & set(self.bypass))
        if both:
            raise ValueError(f"bypass: {both[0]!r} stands under keep as well; name it once.")
        return self

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        fields = type(self).model_fields
        return {
            key: value
            for key, value in written.items()
            if key in _ALWAYS_WRITTEN
            or getattr(self, key) != fields[key].default
            # Else it would be looked up.
            or (key == "leakage_pj" and self.component is not None)
        }

    @property
    def energies(self) -> tuple[float, float, float]:
        """Energy of an access that reads, fills and updates, pJ."""
        if isinstance(self.energy_pj, ActionEnergies):
            return self.energy_pj.read, self.energy_pj.fill, self.energy_pj.update
        return self.energy_pj, self.energy_pj, self.energy_pj

    @property
    def word_energy_pj(self) -> float:
        """Energy of a word read, pJ: of any access where they cost the same."""
        return self.energies[0]

    @property
    def width_height(self) -> tuple[int, int]:
        """The children's width and height."""
        return self.mesh or (self.fanout, 1)

    @property
    def is_dram(self) -> bool:
        """Whether it is a memory outside the chip."""
        if self.technology is None:
            return self.capacity_words is None
        return self.technology == "DRAM"

    @property
    def is_idle(self) -> bool:
        """Whether it may hold nothing, fans out to nothing, and costs nothing by being there."""
        costs = (self.router_pj, self.ingress_pj, self.fill_latency, self.drain_latency)
        return (
            set(self.bypass) >= _ROLES
            and self.fanout == 1
            and self.beside is None
            and not any((*costs, self.leakage_pj))
        )

    @property
    def further_key(self) -> str | None:
        """The first key beyond those of the first machine files that changes a figure."""
        if isinstance(self.energy_pj, ActionEnergies):
            return "energy_pj by action"
        for key, field in type(self).model_fields.items():
            beyond = key not in _ALWAYS_WRITTEN and key not in _WITHOUT_EFFECT
            if beyond and getattr(self, key) != field.default:
                return key
        return None
