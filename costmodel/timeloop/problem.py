"""A Timeloop problem as the `problem` of a record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from costmodel.problems.affine import MOST_BITS
from costmodel.timeloop.documents import Part
from costmodel.timeloop.keys import passed
from mapspace.errors import ConfigError
from mapspace.notices import notice
from mapspace.strict_yaml import load_yaml, shown, unknown_name

Record = dict[str, Any]

SHAPES = Path(__file__).parent / "shapes"
_USUAL_SHAPE = "cnn-layer"
_NOT_MODELLED = ("densities", "flatten")
_BESIDE = frozenset({"shape", "instance", "version", "bitwidths", *_NOT_MODELLED})
_SHAPE = frozenset({"name", "version", "dimensions", "coefficients", "data-spaces", "data_spaces"})
_DENSITY = frozenset({"density", "distribution"})
_SPACE = frozenset({"name", "projection", "read-write", "read_write"})


def read_problem(
    part: Part, words: Collection[int], left_out: list[str] | None
) -> tuple[Record, list[str]]:
    """The operation of a file, and the keys that change nothing.

    Args:
        part: shape by name or in full, sizes and coefficients under `instance` or beside it.
        words: bits of the words of the machine's buffers.
        left_out: where to list what is not modelled; None: refuse it.

    Raises:
        ConfigError: the file's name, the key's path, and what is wrong with it.
    """
    if isinstance(part.value, list):
        raise ConfigError(
            f"{part.place}: a cascade of {len(part.value)} operations (LoopTree's fused layers); "
            "one operation is modelled: give each in a file of its own."
        )
    content = _mapping(part.value, part.place)
    given = _mapping(content.get("instance", content), f"{part.place}.instance")
    beside = {**content, **given}
    for key in _NOT_MODELLED:
        wrong = _not_modelled(key, beside.get(key))
        if wrong and left_out is None:
            raise ConfigError(f"{part.place}.{key}: {wrong}; lenient reading leaves it out.")
        if wrong and left_out is not None:
            left_out.append(f"{part.place}.{key}")
    shape, place = _shape(beside, part.place, left_out)
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
    idle = passed(shape, _SHAPE, place)
    coefficients = {}
    for entry in _list(shape.get("coefficients") or [], f"{place}.coefficients"):
        usual = _mapping(entry, f"{place}.coefficients")
        name = str(usual.get("name"))
        idle += passed(usual, {"name", "default"}, f"{place}.coefficients[{name}]")
        coefficients[name] = _coefficient(
            given.get(name, usual.get("default", 1)), name, f"{part.place}.{name}"
        )
    idle += passed(beside, _BESIDE | set(dims) | set(coefficients), part.place)
    tensors = []
    for entry in _list(_either(shape, "data-spaces", "data_spaces"), f"{place}.data-spaces"):
        space = _mapping(entry, f"{place}.data-spaces")
        idle += passed(space, _SPACE, f"{place}.data-spaces[{space.get('name')}]")
        tensors.append(_tensor(space, dims, coefficients, place))
    for key in ("densities", "bitwidths"):
        for tensor, value in (beside.get(key) or {}).items():
            known = [one["name"] for one in tensors]
            if tensor not in known:
                raise ConfigError(f"{part.place}.{key}: {unknown_name('tensor', tensor, known)}")
            if isinstance(value, Mapping):
                idle += passed(value, _DENSITY, f"{part.place}.{key}.{tensor}")
    bits = _bitwidths(beside.get("bitwidths"), f"{part.place}.bitwidths")
    if any(width != word for width in bits.values() for word in words):
        for tensor in tensors:
            if tensor["name"] in bits:
                tensor["bits"] = bits[tensor["name"]]
    # Timeloop's front end writes an empty name where there is none.
    name = str(shape.get("name") or "").strip() or "timeloop"
    return {"name": name, "dims": dims, "tensors": tensors}, idle


def _coefficient(given: Any, name: str, place: str) -> Any:
    """A coefficient; Timeloop takes a dilation of 0 for 1."""
    if given != 0 or isinstance(given, bool):
        return given
    if "dilation" in name.casefold():
        notice(place, "0 is read as 1, as Timeloop does.")
        return 1
    raise ConfigError(f"{place}: expected a coefficient other than 0, got 0.")


def _bitwidths(given: Any, place: str) -> dict[str, int]:
    """Bits of a value, by tensor, as a public branch of Timeloop reads them."""
    bits = _mapping(given or {}, place)
    for tensor, value in bits.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_BITS:
            raise ConfigError(
                f"{place}.{tensor}: expected 1 to {MOST_BITS} bits, got {shown(value)}."
            )
    return dict(bits)


def _not_modelled(key: str, given: Any) -> str:
    """Why what a problem says under a key is not modelled; empty where it changes nothing."""
    if not given:
        return ""
    if key == "flatten" or not isinstance(given, Mapping):
        return "not modelled"
    for tensor, value in given.items():
        density = value.get("density") if isinstance(value, Mapping) else value
        if density != 1:
            return f"not modelled, tensors are dense (1.0); got {shown(value)} for {tensor}"
    return ""


def _shape(
    problem: Mapping[str, Any], place: str, left_out: list[str] | None
) -> tuple[Mapping[str, Any], str]:
    """A shape in full, and what messages about it start with.

    Timeloop takes a problem without shape for an ordinary convolution, whatever its name says.
    """
    given = problem.get("shape") or _USUAL_SHAPE
    name = problem.get("name")
    if not problem.get("shape") and not name:
        notice(f"{place}.shape", f"missing; read as {_USUAL_SHAPE}, as Timeloop does.")
    elif not problem.get("shape") and str(name).casefold() != _USUAL_SHAPE:
        if left_out is None:
            raise ConfigError(
                f"{place}.shape: missing, and the name {shown(name)} says nothing to Timeloop, "
                f"which takes it for {_USUAL_SHAPE}; give the shape in full, or shape: "
                f"{_USUAL_SHAPE}. "
                f"Lenient reading takes it for {_USUAL_SHAPE}, too."
            )
        left_out.append(f"{place}.name")
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
    name = str(entry.get("name") or "")
    if not name:
        raise ConfigError(f"{place}.data-spaces: expected a name each, got {shown(entry)}.")
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
