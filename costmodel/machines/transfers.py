"""How tiles come to a level: what each takes beforehand, and whether work goes on meanwhile.

Keys by role or tensor are kept as pairs, since levels are hashed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, PlainSerializer

from mapspace.strict_yaml import Name

Value = TypeVar("Value")

Buffering = Literal["double", "single"]
"""Whether a tile comes while the one before it is worked on, or work waits for it."""

EVERY = "every"
"""What a value stands under that is of all tensors."""


def _pairs(value: object) -> object:
    if isinstance(value, Mapping):
        return tuple(sorted(value.items()))
    return ((EVERY, value),) if isinstance(value, int | str) else value


def _written(pairs: tuple[tuple[str, Any], ...]) -> Any:
    found = dict(pairs)
    return found[EVERY] if set(found) == {EVERY} else found


StartUps = Annotated[
    tuple[tuple[Name, Annotated[int, Field(strict=True, ge=0, lt=2**31)]], ...],
    BeforeValidator(_pairs),
    PlainSerializer(_written),
]
"""Cycles: one number, or by role and tensor."""

Bufferings = Annotated[
    tuple[tuple[Name, Buffering], ...], BeforeValidator(_pairs), PlainSerializer(_written)
]
"""One word, or by role and tensor."""


def value_of(pairs: tuple[tuple[str, Value], ...], tensor: str, role: str, usual: Value) -> Value:
    """What is said of a tensor: by its name, else by its role, else of all."""
    found = dict(pairs)
    for key in (tensor, role, EVERY):
        if key in found:
            return found[key]
    return usual
