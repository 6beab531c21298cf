"""A Timeloop problem as the `problem` of a record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costmodel.timeloop.documents import Part
from mapspace.errors import ConfigError
from mapspace.strict_yaml import load_yaml, nearest, shown, unknown_name

Record = dict[str, Any]

SHAPES = Path(__file__).parent / "shapes"
_USUAL_SHAPE = "cnn-layer"
_NOT_MODELLED = ("densities", "flatten")
_BESIDE = frozenset({"shape", "instance", "version", "name", "densities", "flatten"})


def read_problem(part: Part, left_out: list[str] | None) -> tuple[Record, list[str]]:
    """The operation of a file, and the keys that change nothing.

    Args:
        part: shape by name or in full, sizes and coefficients under `instance` or beside it.
        left_out: where to list what is not modelled; None: refuse it.

    Raises:
        ConfigError: the file's name, the key's path, and what is wrong with it.
    """
    content = _mapping(part.value, part.place)
    given = _mapping(content.get("instance", content), f"{part.place}.instance")
    for key in _NOT_MODELLED:
        for holder in (content, given):
            if holder.get(key):
                if left_out is None:
                    raise ConfigError(
                        f"{part.place}.{key}: not modelled; lenient reading leaves it out."
                    )
                left_out.append(f"{part.place}.{key}")
    shape, place = _shape(content.get("shape", _USUAL_SHAPE), part.place)
    dims = {}
    names = shape.get("dimensions")
    if not isinstance(names, list) or not names:
        raise ConfigError(f"{place}.dimensions: expected a list of names, got {shown(names)}.")
    for name in map(str, names):
        size = given.get(name)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(
                f"{part.place}.{name}: expected a size of at least 1, got {shown(size)}."
            )
        dims[name] = size
    coefficients = {}
    for entry in _list(shape.get("coefficients") or [], f"{place}.coefficients"):
        usual = _mapping(entry, f"{place}.coefficients")
        name = str(usual.get("name"))
        coefficients[name] = given.get(name, usual.get("default", 1))
    known = _BESIDE | set(dims) | set(coefficients)
    idle = []
    for key in given:
        if key not in known:
            close = nearest(str(key), coefficients)
            if close:
                raise ConfigError(f"{part.place}.{key}: unknown; did you mean {close[0]}?")
            idle.append(f"{part.place}.{key}")
    tensors = [
        _tensor(_mapping(entry, f"{place}.data-spaces"), dims, coefficients, place)
        for entry in _list(_either(shape, "data-spaces", "data_spaces"), f"{place}.data-spaces")
    ]
    name = str(shape.get("name", "timeloop"))
    return {"name": name, "dims": dims, "tensors": tensors}, idle


def _shape(given: Any, place: str) -> tuple[Mapping[str, Any], str]:
    """A shape in full, and what messages about it start with."""
    if not isinstance(given, str):
        return _mapping(given, f"{place}.shape"), f"{place}.shape"
    name = given.removesuffix(".yaml")
    known = {path.stem: path for path in SHAPES.glob("*.yaml")}
    if name not in known:
        raise ConfigError(f"{place}.shape: " + str(unknown_name("shape", name, known)))
    return load_yaml(known[name])["shape"], f"shape {name}"


def _tensor(
    entry: Mapping[str, Any], dims: Mapping[str, int], coefficients: Mapping[str, Any], place: str
) -> Record:
    name = str(entry.get("name"))
    here = f"{place}.data-spaces[{name}].projection"
    axes = []
    for axis in _list(entry.get("projection"), here):
        terms = []
        for term in axis if isinstance(axis, list) else [[axis]]:
            parts = term if isinstance(term, list) else [term]
            if not 1 <= len(parts) <= 2 or str(parts[0]) not in dims:
                raise ConfigError(
                    f"{here}: expected [dimension] or [dimension, coefficient], got {shown(term)}."
                )
            times = parts[1] if len(parts) == 2 else 1
            times = coefficients.get(times, times) if isinstance(times, str) else times
            if isinstance(times, bool) or not isinstance(times, int):
                raise ConfigError(f"{here}: unknown coefficient {shown(times)}.")
            terms.append([str(parts[0]), times])
        axes.append(terms)
    written = _either(entry, "read-write", "read_write")
    tensor: Record = {"name": name, "axes": axes}
    return {**tensor, "output": True} if written else tensor


def _either(content: Mapping[str, Any], first: str, second: str) -> Any:
    return content.get(first, content.get(second))


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{place}: expected a mapping, got {shown(value)}.")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"{place}: expected a list, got {shown(value)}.")
    return value
