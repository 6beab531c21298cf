"""A searcher's hyperparameters, said once: a frozen model beside the searcher, checked at the door.

```python
class AnnealingOptions(Options):
    PRESETS: ClassVar[Presets] = {"paper": {"chains": 1}}

    chains: Count = 8
    \"\"\"Chains in lockstep.\"\"\"
```

A field has its type with its range, its default, and a docstring that says what it is;
`mapspace describe searcher NAME` prints them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from mapspace.errors import ConfigError
from mapspace.near_names import nearest
from mapspace.strict_yaml import StrictModel, plain_integer, validate

# Far beyond every sensible one, and small enough to be multiplied by another one.
LARGEST_WHOLE_NUMBER = 2**31


def _plain_number(value: object) -> object:
    """NumPy's numbers become Python's; everything else is left for the strict check."""
    return value.item() if isinstance(value, np.floating) else plain_integer(value)


# Least values are said once, of what has none: of two a message would name the lower one.
Integer = Annotated[
    int, BeforeValidator(plain_integer), Field(strict=True, lt=LARGEST_WHOLE_NUMBER)
]
"""A whole number; `true`, `4.0` and `"4"` are refused."""

Whole = Annotated[Integer, Field(ge=0)]
"""A whole number, 0 or more."""

Count = Annotated[Integer, Field(ge=1)]
"""A whole number, 1 or more."""

Number = Annotated[float, BeforeValidator(_plain_number), Field(strict=True, allow_inf_nan=False)]
"""A finite number; a whole one becomes one, for which compiled code need not be compiled anew."""

Positive = Annotated[Number, Field(gt=0)]
"""A number above 0."""

NonNegative = Annotated[Number, Field(ge=0)]
"""A number, 0 or more."""

Share = Annotated[Number, Field(ge=0, le=1)]
"""A share or probability, 0 and 1 included."""

PositiveShare = Annotated[Number, Field(gt=0, le=1)]
"""A share above 0."""

ShareBelowOne = Annotated[Number, Field(ge=0, lt=1)]
"""A share below 1."""

Flag = Annotated[bool, Field(strict=True)]
"""True or false; 0 and `"yes"` are refused."""

Text = Annotated[str, Field(strict=True)]
"""Text."""


def _descending(temperatures: tuple[float, float]) -> tuple[float, float]:
    if temperatures[0] < temperatures[1]:
        raise ValueError(f"expected (highest, lowest), got {temperatures}.")
    return temperatures


Temperatures = Annotated[tuple[Positive, Positive], AfterValidator(_descending)]
"""(highest, lowest), both above 0."""

Presets = Mapping[str, Mapping[str, Any]]
Sources = Mapping[str, str]


class Options(StrictModel):
    """Base of all hyperparameters: frozen, unknown names refused.

    Attributes:
        PRESETS: named sets of hyperparameters, such as `paper`, that differ from the defaults.
        SOURCES: where each preset's values come from: paper and section, or a library.
        OF: what hyperparameters belong to that are not for every search, such as a method.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)
    PRESETS: ClassVar[Presets] = {}
    SOURCES: ClassVar[Sources] = {}
    OF: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def read(cls, name: str, preset: str | None, parameters: Mapping[str, Any]) -> Self:
        """Checks what a user chose; a list is a tuple, a whole number is a number.

        Args:
            name: the searcher, for messages.
            preset: a key of `PRESETS`; None: the defaults.
            parameters: hyperparameters that override it.

        Raises:
            ConfigError: one line with the searcher, the hyperparameter, what was expected and what
                came; for an unknown name, the known ones.
        """
        cls.check_names(name, parameters)
        if preset is not None and preset not in cls.PRESETS:
            raise ConfigError(
                f"Unknown preset {preset!r} of searcher {name}; known: "
                f"{', '.join(sorted(cls.PRESETS)) or 'none'}.{_hint([preset], cls.PRESETS)}"
            )
        named = cls.PRESETS.get(preset or "", {})
        try:
            return validate(cls, {**named, **parameters}, f"searcher {name}")
        except ConfigError as error:
            validate(cls, parameters, f"searcher {name}")  # wrong without the preset, too
            sets = [f"{key}={_value(named[key])}" for key in named if key not in parameters]
            raise ConfigError(f"{error} Preset {preset} sets {', '.join(sets)}.") from None

    @classmethod
    def check_names(cls, name: str, parameters: Mapping[str, Any]) -> None:
        """Refuses what is no hyperparameter.

        Raises:
            ConfigError: one is unknown; the message lists the known ones.
        """
        unknown = sorted(set(parameters) - set(cls.model_fields))
        if unknown:
            raise ConfigError(
                f"Unknown hyperparameter {', '.join(unknown)} of searcher {name}; known: "
                f"{', '.join(sorted(cls.model_fields)) or 'none'}."
                f"{_hint(unknown, cls.model_fields)}"
            )

    def resolved(self) -> dict[str, Any]:
        """Every hyperparameter of the search with its value, as JSON types."""
        return self.model_dump(mode="json", fallback=str)

    @classmethod
    def explained(cls) -> list[Hyperparameter]:
        """Every hyperparameter as people read it, in the order of the model."""
        return [
            Hyperparameter(
                name=name,
                allowed=_allowed(cls._annotation(name)),
                default=None if field.is_required() else _value(field.default),
                presets={
                    preset: _value(values[name])
                    for preset, values in cls.PRESETS.items()
                    if name in values
                },
                sentence=cls._sentence(name),
                of=cls.OF.get(name),
            )
            for name, field in cls.model_fields.items()
        ]

    @classmethod
    def _annotation(cls, name: str) -> Any:
        """A field's type with its range, as it was written."""
        return get_type_hints(cls, include_extras=True)[name]

    @classmethod
    def _sentence(cls, name: str) -> str:
        """A field's docstring; of a field that changes only a default, its parent's."""
        for model in cls.__mro__:
            fields = model.model_fields if issubclass(model, Options) else {}
            if name in fields and fields[name].description:
                return " ".join(str(fields[name].description).split())
        return ""


def _hint(unknown: Iterable[str], known: Iterable[str]) -> str:
    """The names that were perhaps meant, as a sentence."""
    close = [found for name in unknown for found in nearest(name, known)]
    return f" Did you mean {' or '.join(close)}?" if close else ""


@dataclass(frozen=True)
class Hyperparameter:
    """A hyperparameter as `mapspace describe searcher NAME` prints it.

    Attributes:
        name: its name.
        allowed: its type and range, in words.
        default: its default as text; None: it must be given.
        presets: its value as text by preset, for presets that set it.
        sentence: what it is.
        of: what it belongs to, such as a method; None: every search has it.
    """

    name: str
    allowed: str
    default: str | None
    presets: Mapping[str, str]
    sentence: str
    of: str | None


_TYPES: Mapping[Any, str] = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
    NoneType: "null",
}
_LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def _allowed(annotation: Any, limits: Mapping[str, Any] = MappingProxyType({})) -> str:
    """A type with its range in words; limits are those of the type around it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        stated = [entry for entry in arguments[1:] if isinstance(entry, str)]
        inner = {
            key: value
            for entry in arguments[1:]
            for item in getattr(entry, "metadata", [])
            for key in _LIMITS
            if (value := getattr(item, key, None)) is not None and value != LARGEST_WHOLE_NUMBER
        }
        return stated[0] if stated else _allowed(arguments[0], {**inner, **limits})
    if origin in (Union, UnionType):
        return " or ".join(_allowed(option) for option in arguments)
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if origin is tuple:
        return f"list of ({_allowed(arguments[0])})"
    words = " and ".join(f"{_LIMITS[key]} {value:g}" for key, value in limits.items())
    kind = _TYPES.get(annotation, "mapping" if origin is not None else "anything")
    return f"{kind}, {words}" if words else kind


def _value(value: object) -> str:
    """A value as a YAML file would have it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
