"""Sizes that an ONNX model leaves open, as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mapspace.errors import ConfigError
from mapspace.strict_yaml import unknown_name

_OPTIONS = {0: "batch", 1: "sequence"}


class _Axis(NamedTuple):
    """An axis of an input."""

    source: str
    number: int
    size: Any
    """Of ONNX; its value is set here."""
    first: int
    """The size of the input's first axis, 0 where it is open."""

    @property
    def place(self) -> str:
        return f"{self.source}.{self.number}"

    @property
    def name(self) -> str:
        given = str(self.size.dim_param)
        # Some exporters write `?` for each.
        return given if any(letter.isalnum() for letter in given) else ""

    @property
    def open(self) -> bool:
        return not (self.size.HasField("dim_value") and self.size.dim_value > 0)

    def __str__(self) -> str:
        return f"axis {self.number} of input {self.source} is {self.name or 'open'}"


def fix_sizes(
    graph: Any, by_axis: Mapping[int, int | None], sizes: Mapping[str, int], where: str
) -> dict[str, int]:
    """Gives open axes of the inputs the sizes that were asked for, equal names the same.

    Args:
        graph: of ONNX; its inputs are changed.
        by_axis: the size of every input's open axis of that number.
        sizes: by an axis' name or place; also values of inputs that are one whole number.
        where: the file, which messages start with.

    Returns:
        The values of inputs.

    Raises:
        ConfigError: an axis stays open, or a size was asked for that is not.
    """
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            raise ConfigError(f"{where}: input {value.name}: expected a tensor.")
        if not value.type.tensor_type.HasField("shape"):
            raise ConfigError(f"{where}: dynamic shape: input {value.name} has no shape.")
    for key, given in sizes.items():
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ConfigError(f"--size {key}: expected a whole number of at least 1, got {given}.")
    axes = [axis for value in inputs for axis in _axes(value) if axis.open]
    numbers = {value.name for value in inputs if _is_number(value)}
    known = {name for axis in axes for name in (axis.name, axis.place) if name} | numbers
    for key in sizes:
        if key not in known:
            raise ConfigError(f"{where}: --size: {unknown_name('open axis', key, sorted(known))}")
    for number, option in _OPTIONS.items():
        asked = by_axis.get(number)
        if asked is not None and all(axis.number != number for axis in axes):
            raise ConfigError(
                f"{where}: --{option}: no input leaves the size of axis {number} open."
            )
    # A name means one size wherever it stands: that of its axis with the least number.
    named: dict[str, int | None] = {}
    for axis in sorted(axes, key=lambda axis: axis.number):
        if axis.name and named.get(axis.name) is None:
            named[axis.name] = sizes.get(axis.name, by_axis.get(axis.number))
    batched = any(axis.number == 0 for axis in axes)
    for axis in axes:
        size = sizes.get(axis.place)
        if size is None and axis.name:
            size = named[axis.name]
        # Beside inputs whose images come first, one with another first axis has no steps second.
        elif size is None and not (batched and axis.number == 1 and axis.first > 1):
            size = by_axis.get(axis.number)
        if size is not None:
            axis.size.dim_value = size
    left = {axis.name or axis.place: axis for axis in axes[::-1] if axis.open}
    if left:
        options = [f"--size {name}=N" for name in left][::-1]
        places = {axis.number for axis in left.values()}
        more = [
            f"or --{option} N (axis {number})"
            for number, option in _OPTIONS.items()
            if number in places and by_axis.get(number) is None
        ]
        raise ConfigError(
            f"{where}: dynamic shape: {', '.join(map(str, [*left.values()][::-1]))}; give "
            f"{' '.join([*options, *more])}."
        )
    return {name: sizes[name] for name in numbers if name in sizes}


def _axes(value: Any) -> Iterator[_Axis]:
    sizes = value.type.tensor_type.shape.dim
    first = sizes[0].dim_value if sizes else 0
    for index, size in enumerate(sizes):
        yield _Axis(value.name, index, size, first)


def _is_number(value: Any) -> bool:
    """Whether an input is one whole number."""
    from onnx import TensorProto

    kind = value.type.tensor_type
    whole = kind.elem_type in (TensorProto.INT64, TensorProto.INT32)
    return whole and all(size.dim_value == 1 for size in kind.shape.dim)
