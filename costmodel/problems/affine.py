"""The form of a workload: one tensor operation as a perfect affine loop nest.

A workload has named dimensions with sizes, and tensors whose axes are sums of dimensions with
positive coefficients: `Inputs[N, C, 2*P + R, 2*Q + S]` for a convolution of stride 2. Every point
of the iteration space is one multiply-accumulate.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from mapspace.arguments import explained
from mapspace.errors import ContractError
from mapspace.strict_yaml import Identifier, Name, Size, StrictModel, shown

Family = Literal["cnn", "conv1d", "gemm", "mttkrp", "einsum"]

MAX_DIMENSIONS = 9
MAX_TENSORS = 9
"""More of them could be kept in more ways than a search can look at: 2^tensors at every level."""

LARGEST_COUNT = 2**62
"""What counts of accesses must stay below, so that 64-bit integers hold them with room to add."""

LARGEST_SIZE = 2**32
"""What the size of a dimension may be at most: all its divisors have to be found."""

MOST_BITS = 256
Bits = Annotated[int, Field(strict=True, ge=1, le=MOST_BITS)]
"""Bits of a value: so many that counts of them stay below 2^63."""

# Which tensor of a family is learnt, or stands where a layer's weights stand, by position; a
# register for one weight takes one tensor, as in `timeloop-general`.
_WEIGHTS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"cnn": (0,), "conv1d": (0,), "gemm": (1,), "mttkrp": (1,)}
)

_TERM = re.compile(r"(?:(\d{1,18})\s*\*\s*)?([A-Za-z][A-Za-z0-9_]*)(?:\s*\*\s*(\d{1,18}))?")


class Axis(StrictModel):
    """One axis of a tensor: its index is the sum of coefficient x dimension."""

    terms: tuple[tuple[Identifier, Size], ...] = Field(min_length=1)
    """(dimension, coefficient) pairs."""

    def __str__(self) -> str:
        return " + ".join(
            name if factor == 1 else f"{factor}*{name}" for name, factor in self.terms
        )

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: object) -> object:
        """Reads the written form, such as `2*P + R`."""
        if isinstance(value, Mapping | Axis):
            return value
        terms = []
        for text in value.split("+") if isinstance(value, str) else [""]:
            match = _TERM.fullmatch(text.strip())
            factor = int(match[1] or match[3] or 1) if match else 0
            if match is None or (match[1] and match[3]) or factor < 1:
                negative = isinstance(value, str) and "-" in value
                raise ValueError(
                    "expected a sum of dimensions with positive whole coefficients such as "
                    f"'2*P + R', got {shown(value)}"
                    f"{'; differences are evaluated as records, not searched' * negative}."
                )
            terms.append((match[2], factor))
        return {"terms": tuple(terms)}


class Tensor(StrictModel):
    """A tensor and how the loops index it."""

    name: Identifier
    """What mappings, reports and records call it."""
    axes: tuple[Axis, ...]
    """Its axes; none for a single word."""
    output: bool = False
    """Whether the operation accumulates into it."""
    role: Literal["input", "weight"] | None = None
    """What machines call an input; null: what its family says, else `input`."""
    bits: Bits | None = None
    """Bits of a value; null: a word of whatever level it lies in."""

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out what was not given: workloads read back as they were written."""
        written: dict[str, Any] = handler(self)
        for key in ("role", "bits"):
            if getattr(self, key) is None:
                written.pop(key, None)
        return written

    def __str__(self) -> str:
        width = "" if self.bits is None else f" of {self.bits} bits"
        return f"{self.name}[{', '.join(map(str, self.axes))}]{width}"

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions that index it, in the order of its axes."""
        return tuple(name for axis in self.axes for name, _ in axis.terms)


@explained
class Workload(StrictModel):
    """A perfect affine loop nest over named dimensions; equal content means equal `hash`."""

    name: Name
    """How reports call it."""
    family: Family
    """Which builder made it; workloads of one family share surrogates."""
    dimensions: dict[Identifier, Size] = Field(min_length=1)
    """Sizes by dimension, in the order of every array over dimensions."""
    tensors: tuple[Tensor, ...]
    """Inputs first, the one output last."""

    @model_validator(mode="after")
    def _check(self) -> Workload:
        problem = _problem(self.dimensions, self.tensors)
        if problem:
            raise ValueError(problem)
        return self

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Workload)
            and self.name == other.name
            and self._content == other._content
        )

    def __hash__(self) -> int:
        return hash((self.name, self._content))

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in self.dimensions.items())
        inputs = " x ".join(map(str, self.tensors[:-1]))
        return f"{self.name}: {sizes}: {self.tensors[-1]} += {inputs}"

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The dimensions, in order."""
        return tuple(self.dimensions)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """`[n]` sizes of the dimensions, in order."""
        return np.array(list(self.dimensions.values()), dtype=np.int64)

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """The tensors, in order, the output last."""
        return tuple(tensor.name for tensor in self.tensors)

    @property
    def roles(self) -> dict[str, str]:
        """What machines call the tensors, in order: `input`, `weight` or `output`."""
        weights = _WEIGHTS.get(self.family, ())
        return {
            tensor.name: "output"
            if tensor.output
            else tensor.role or ("weight" if position in weights else "input")
            for position, tensor in enumerate(self.tensors)
        }

    @property
    def bits_by_tensor(self) -> tuple[int | None, ...]:
        """`[T]` bits of a value of each tensor; None: one word."""
        return tuple(tensor.bits for tensor in self.tensors)

    @property
    def room_unit(self) -> str:
        """What capacities are counted in: `bits` where a tensor has them, else `words`."""
        return "bits" if any(self.bits_by_tensor) else "words"

    @property
    def macs(self) -> int:
        """Multiply-accumulates: points of the iteration space."""
        return math.prod(self.dimensions.values())

    def words(self, tensor: int) -> int:
        """Words of the bounding box of a whole tensor, gaps and padding included.

        Args:
            tensor: its index in `tensors`; negative ones count from the output.

        Raises:
            ContractError: there is no such tensor.
        """
        count = len(self.tensors)
        if not -count <= tensor < count:
            raise ContractError(f"tensor: expected {-count} to {count - 1}, got {shown(tensor)}.")
        sizes = self.dimensions
        return math.prod(
            1 + sum(factor * (sizes[name] - 1) for name, factor in axis.terms)
            for axis in self.tensors[tensor].axes
        )

    @property
    def _content(self) -> str:
        """Everything but the name, in one canonical form."""
        tensors = [
            [tensor.name, [axis.terms for axis in tensor.axes], tensor.output]
            for tensor in self.tensors
        ]
        content: list[object] = [self.family, list(self.dimensions.items()), tensors]
        given = {tensor.name: tensor.role for tensor in self.tensors if tensor.role is not None}
        bits = {tensor.name: tensor.bits for tensor in self.tensors if tensor.bits is not None}
        content += [{"roles": given, "bits": bits}] if bits else [given] if given else []
        return json.dumps(content)

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of the SHA-256 of everything but the name."""
        return hashlib.sha256(self._content.encode()).hexdigest()[:16]


def _problem(dimensions: Mapping[str, int], tensors: tuple[Tensor, ...]) -> str | None:
    """What is wrong with a loop nest, in one line, or None."""
    if len(dimensions) > MAX_DIMENSIONS:
        return f"dimensions: expected at most {MAX_DIMENSIONS}, got {len(dimensions)}."
    if len(tensors) > MAX_TENSORS:
        return f"tensors: expected at most {MAX_TENSORS}, got {len(tensors)}."
    outputs = [tensor.name for tensor in tensors if tensor.output]
    if len(outputs) != 1 or not tensors[-1].output or len(tensors) < 2:
        return (
            "tensors: expected at least one input, then exactly one output, "
            f"got {len(tensors) - len(outputs)} inputs and {len(outputs)} outputs"
            f"{'' if len(outputs) != 1 or tensors[-1].output else ' with the output not last'}."
        )
    seen: set[str] = set()
    used: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            return f"tensors: the name {tensor.name!r} is given to two tensors."
        seen.add(tensor.name)
        problem = _tensor_problem(tensor, dimensions)
        if problem:
            return problem
        used.update(tensor.dimensions)
    for name in dimensions:
        if name not in used:
            return f"dimensions.{name}: no tensor has an axis over {name!r}."
    for name, size in dimensions.items():
        if size > LARGEST_SIZE:
            return f"dimensions.{name}: expected at most 2**32 = {LARGEST_SIZE:,}, got {size:,}."
    macs = math.prod(dimensions.values())
    widths = math.prod(
        sum(factor for _, factor in axis.terms) for tensor in tensors[:-1] for axis in tensor.axes
    )
    most = (LARGEST_COUNT - 1) // (8 * widths)
    if macs > most:
        return (
            f"dimensions: {macs:.3g} multiply-accumulates are too many: accesses are counted "
            f"exactly, in 64 bits, which hold those of at most {most:.3g} multiply-accumulates of "
            "such an operation. Search a part of it, such as one tile of its largest dimension."
        )
    return None


def _tensor_problem(tensor: Tensor, dimensions: Mapping[str, int]) -> str | None:
    indexed: set[str] = set()
    for axis in tensor.axes:
        for name, factor in axis.terms:
            where = f"tensors.{tensor.name}: the axis '{axis}'"
            if name not in dimensions:
                return (
                    f"{where} names the unknown dimension {name!r}; "
                    f"known dimensions: {', '.join(dimensions)}."
                )
            if name in indexed:
                return (
                    f"{where} uses the dimension {name!r} a second time; "
                    "a dimension may index a tensor once."
                )
            if tensor.output and (factor != 1 or len(axis.terms) > 1):
                return (
                    f"{where} belongs to the output, "
                    "whose axes must each be one dimension with coefficient 1."
                )
            indexed.add(name)
    return None
