"""What a mapper's constraints may say, in Timeloop's words: one entry per level and kind.

Typed, so that a damaged entry is refused by the path of its key. What an entry means for a problem
and a machine is in `costmodel.map_space.constraints`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from costmodel.problems.affine import MAX_DIMENSIONS
from mapspace.strict_yaml import Name, Size, StrictModel

MOST_ENTRIES = 1024
MOST_TENSORS = 16
MOST_OTHERS = 256

Kind = Literal["temporal", "spatial", "bypass", "parallelism"]

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "temporal": "temporal",
        "spatial": "spatial",
        "bypass": "bypass",
        "bypassing": "bypass",
        "datatype": "bypass",
        "utilization": "parallelism",
        "parallelism": "parallelism",
    }
)
"""What a `type` is, by its name: some have several."""

_LOOPS = frozenset({"factors", "permutation", "default_min_factor", "default_max_factor"})
_KEYS: Mapping[Kind, frozenset[str]] = MappingProxyType(
    {
        "temporal": _LOOPS | {"stationary", "others"},
        "spatial": _LOOPS | {"split", "others"},
        "bypass": frozenset({"keep", "bypass", "others"}),
        "parallelism": frozenset({"min"}),
    }
)

Names = Annotated[tuple[Name, ...], Field(max_length=MOST_TENSORS)]


class Constraint(StrictModel):
    """One entry of `constraints`."""

    target: Name
    """The level."""
    type: Literal[
        "temporal", "spatial", "bypass", "bypassing", "datatype", "utilization", "parallelism"
    ]
    """What of the level is constrained."""
    factors: str | tuple[str, ...] | None = None
    """`K=4` (also `K4`): that many; `K=0`: the whole dimension; `K<=4` and `K>=2`: bounds."""
    permutation: str | None = None
    """Dimensions, innermost first; `RS_K`: R and S innermost, K outermost, the others between."""
    default_min_factor: Size | None = None
    """At least so many of every dimension that `factors` does not name."""
    default_max_factor: Size | None = None
    """At most so many of every dimension that `factors` does not name."""
    split: Annotated[int, Field(strict=True, ge=0, le=MAX_DIMENSIONS)] | None = None
    """How many dimensions, counted from the innermost, run along the width of the mesh."""
    keep: Names = ()
    """Tensors that the level holds."""
    bypass: Names = ()
    """Tensors that it does not hold."""
    stationary: Name | None = None
    """A tensor or role: the loops that do not index it are the innermost, by the alphabet."""
    others: Annotated[tuple[Name, ...], Field(max_length=MOST_OTHERS)] = ()
    """Names of other operations: where this one lacks them they say nothing."""
    min: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    """Share of all multiply-accumulate units that must at least work."""

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, value: object) -> object:
        """`name` is `target`; keys may stand under `attributes`."""
        if not isinstance(value, Mapping):
            return value
        entry: dict[str, Any] = dict(value)
        if "name" in entry and "target" not in entry:
            entry["target"] = entry.pop("name")
        if "level" in entry and "target" not in entry:
            raise ValueError("level: unknown key; the level's name stands under target.")
        attributes = entry.get("attributes")
        if isinstance(attributes, Mapping):
            del entry["attributes"]
            if "split" in attributes:
                raise ValueError(
                    "attributes.split: Timeloop does not read it there; write it beside type."
                )
            twice = sorted(str(key) for key in attributes if key in entry)
            if twice:
                raise ValueError(f"attributes.{twice[0]}: it stands beside type as well.")
            entry |= attributes
        return entry

    @model_validator(mode="after")
    def _check_keys(self) -> Constraint:
        wrong = sorted(self.model_fields_set - {"target", "type"} - _KEYS[self.kind])
        if wrong:
            known = ", ".join(sorted(_KEYS[self.kind]))
            raise ValueError(f"{wrong[0]}: {self.type} has no such key; it has {known}.")
        if self.stationary is not None and self.permutation is not None:
            raise ValueError("stationary: permutation says the order of loops as well.")
        both = sorted(set(self.keep) & set(self.bypass))
        if both:
            raise ValueError(f"bypass: {both[0]!r} stands under keep as well; name it once.")
        return self

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Only what was said."""
        written: dict[str, Any] = handler(self)
        return {key: value for key, value in written.items() if key in self.model_fields_set}

    @property
    def kind(self) -> Kind:
        """What it constrains."""
        return KINDS[self.type]


Entries = Annotated[tuple[Constraint, ...], Field(max_length=MOST_ENTRIES)]


class HasConstraints(BaseModel):
    """So that a message starts with `constraints`."""

    constraints: Entries = ()
